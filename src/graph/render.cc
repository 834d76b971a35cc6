// Memory, time and energy of diffusion: each of the three stages is a graph that is walked like any other.
#include "graph/render.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "graph/autoencoder.h"
#include "graph/train_parts.h"
#include "graph/verbs.h"

namespace orrery::graph {

double RenderStage::bytes() const {
  double sum = 0;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

namespace {

// Encoders of each family's published pipeline; 0 tokens: as many as the denoiser sees; -1: loaded, but not run. Those
// of a picture are not divided among ranks.
struct Encoder {
  const char *family, *model;
  int tokens;
};
constexpr Encoder kEncoders[] = {
    {"flux", "T5-XXL encoder", 0},       {"flux", "CLIP-L text encoder", 77}, {"sd3", "T5-XXL encoder", 256},
    {"sd3", "CLIP-L text encoder", 77},  {"sd3", "CLIP-G text encoder", 77},  {"pixart", "T5-XXL encoder", 0},
    {"sana", "Gemma-2-2B", 0},           {"wan", "umT5-XXL encoder", 0},      {"ltx", "T5-XXL encoder", 0},
    {"unet", "CLIP-L text encoder", 77}, {"unet", "CLIP-G text encoder", 77},
    {"wan picture", "ViT-H/14", 257},    {"wan picture", "XLM-RoBERTa-large", -1},
};
// A server's CPU on 16-bit products; assumed, and said when it is used.
constexpr double kHostOps = 1e12;

// One walk of a graph.
StepTime run_once(const Program& program, const Binding& binding, const Rates& rates, Ledger* lines = nullptr) {
  Ledger ledger;
  walk(program, binding, ledger);
  StepTime time = schedule(program, ledger, binding, rates);
  if (lines) *lines = std::move(ledger);
  return time;
}

bool divided(const Plan& plan) { return plan.zero >= 3 && plan.cp > 1; }

// Weights of a network that ranks divide among themselves (ZeRO 3): a rank's share, and what is gathered.
void add_divided(const std::string& what, const Program& program, int ranks, std::vector<MemoryItem>& items) {
  Gathered whole = gathered_weights(program, nullptr);
  items.push_back({what, TensorClass::kWeight, program.weight_bytes / ranks, "an equal share"});
  items.push_back({what + " outside layers", TensorClass::kWeight, whole.outside, "gathered in 16 bits"});
  items.push_back({what + " gathered", TensorClass::kActivation, whole.layers, "two layers in 16 bits"});
}

RenderStage encode(const DiffusionSpec& spec, const RenderQuestion& q, double passes, const Rates& rates,
                   const Plan& plan) {
  RenderStage stage{"text encoder", 0, 0, 0, {}};
  double activations = 0;
  for (const Encoder& e : kEncoders) {
    bool picture = spec.image_tokens > 0 && e.family == spec.family + " picture";
    if (spec.family != e.family && !picture) continue;
    Graph graph = build_transformer(load_transformer(e.model));
    Program program = render_program(graph, Plan{});
    StepShape shape;
    shape.prefill_seqs = picture ? q.batch : passes * q.batch;
    shape.prefill_tokens = shape.prefill_seqs * (e.tokens ? std::max(0, e.tokens) : spec.text_tokens);
    shape.causal = false;
    Binding b = bind(graph, Plan{}, shape);
    b[kOutputs] = 0;  // hidden states are what the denoiser takes
    StepTime t = run_once(program, b, rates);
    stage.seconds += q.encoder_on_host ? t.ops / kHostOps : t.seconds;
    stage.joules += q.encoder_on_host ? t.ops / kHostOps * rates.idle_watts : t.joules;
    stage.parameters += count_parameters(graph).total;
    activations = std::max(activations, activation_peak(program, b));
    if (q.encoder_on_host) continue;
    if (divided(plan) && !picture)
      add_divided(e.model, program, plan.cp, stage.items);
    else
      stage.items.push_back({e.model, TensorClass::kWeight, program.weight_bytes, "16-bit weights"});
  }
  if (!stage.items.empty())
    stage.items.push_back({"activations", TensorClass::kActivation, activations, "one block"});
  return stage;
}

RenderStage decode(const DiffusionSpec& spec, const RenderQuestion& q, const Rates& rates) {
  std::string kind = autoencoder_of(spec);
  Graph graph = build_autoencoder(kind);
  Program program = render_program(graph, Plan{});
  DecodeRuns d = decode_runs(kind, q.shape, q.batch);
  StepTime t = run_once(program, d.binding, rates);
  RenderStage stage{"autoencoder", t.seconds * d.runs, t.joules * d.runs, count_parameters(graph).total, {}};
  stage.items.push_back({"autoencoder", TensorClass::kWeight, program.weight_bytes, kind});
  stage.items.push_back({"activations", TensorClass::kActivation, activation_peak(program, d.binding),
                         kind.starts_with("wan") ? "decoder, one latent frame" : "decoder"});
  if (double cached = program.state_bytes.at(d.binding); cached > 0)
    stage.items.push_back({"cached frames", TensorClass::kState, cached, "two for each convolution over time"});
  // Frames that come one after another are joined in 32 bits.
  double bytes = d.runs > 1 ? 12 : 6;
  if (spec.video)
    stage.items.push_back({"pixels", TensorClass::kActivation,
                           bytes * q.shape.width * q.shape.height * q.shape.frames * q.batch,
                           d.runs > 1 ? "the video in 32 bits a colour" : "the video, twice in 8 bits a colour"});
  return stage;
}

void check_verbs(const std::vector<std::string>& verbs) {
  for (const std::string& verb : verbs) {
    std::istringstream in(verb);
    std::string name, what;
    in >> name >> what;
    bool known = name == "requant" || name == "sparsify" || name == "replace" || name == "fuse" ||
                 name == "prefetch" ||
                 (name == "shard" && what != "tensor" && what != "expert" && what != "sequence") ||
                 name == "stage" || (name == "place" && what == "weight") ||
                 (name == "skip" && what == "layers") || name == "repeat" ||
                 (name == "overlap" && what == "tensor");
    if (!known) base::fail("'{}': rendering has nothing that this technique changes", verb);
  }
}

// Denoiser weights that come from the host one matrix (leaf) at a time, and leave when it has run.
class Leaves {
 public:
  explicit Leaves(const Program& program) : program_(program) {
    for (const ProgramOp& op : program.ops) leaf_.push_back(op.weight_bytes);
  }

  // The moment with the largest sum of activations, the leaf that runs, and the next one where that is on its way.
  struct Peak {
    double weights = 0, activations = 0;
  };
  Peak peak(const Binding& b, bool next) const {
    Peak most;
    for (const auto& [i, live] : activation_timeline(program_, b)) {
      Peak now{leaf_[i] + (next ? following(i) : 0), live};
      if (now.weights + now.activations > most.weights + most.activations) most = now;
    }
    return most;
  }
  // Seconds of the copies that operators hide when each leaf starts as the one before it begins to run: no more than
  // this one, and what comes between both, takes (diffusers' group offloading by leaves with a stream).
  double hidden(const Ledger& ledger, const Binding& b, const Rates& rates) const {
    double sum = 0;
    for (std::size_t i = 0; i < ledger.lines.size();) {
      const std::uint32_t first = ledger.lines[i].op, block = program_.ops[first].block;
      double seconds = 0, times = ledger.lines[i].times;
      for (; i < ledger.lines.size() && program_.ops[ledger.lines[i].op].block == block; ++i) {
        const Line& line = ledger.lines[i];
        seconds += time_of(program_.ops[line.op], line, b, rates).seconds;
        double copy = following_at_once(line.op) / rates.host;
        if (copy == 0) continue;
        sum += times * std::min(copy, seconds), seconds = 0;
      }
    }
    return sum;
  }

 private:
  // The leaf behind an operator; a block that repeats begins again.
  double following(std::uint32_t op) const {
    std::uint32_t block = program_.ops[op].block;
    for (std::uint32_t i = op + 1; i < leaf_.size(); ++i)
      if (leaf_[i] > 0) return program_.ops[i].block == block ? leaf_[i] : std::max(leaf_[i], first_again(op));
    return first_again(op);
  }
  // The same where that leaf's product is the next operator: what was copied must be there.
  double following_at_once(std::uint32_t op) const {
    bool last = op + 1 == leaf_.size() || program_.ops[op + 1].block != program_.ops[op].block;
    return last || leaf_[op + 1] > 0 ? following(op) : 0;
  }
  double first_again(std::uint32_t op) const {
    const std::uint32_t block = program_.ops[op].block;
    if (program_.ops[op].repeat <= 1) return 0;
    for (std::uint32_t i = 0; i < leaf_.size(); ++i)
      if (program_.ops[i].block == block && leaf_[i] > 0) return leaf_[i];
    return 0;
  }

  const Program& program_;
  std::vector<double> leaf_;
};

// Divides one forward over ranks and times it.
struct Forward {
  StepTime step;
  double seconds = 0;
};
Forward forward(const Program& program, const Plan& plan, const Binding& b, const Rates& rates,
                bool offload) {
  Forward f;
  Ledger ledger;
  f.step = run_once(program, b, rates, &ledger);
  f.seconds = f.step.seconds;
  if (divided(plan) && !offload)  // each layer's weights are gathered in 16 bits before it runs
    f.seconds += collective_time(Collective::kAllGather, plan.cp, 2 * count_parameters(*program.graph).total,
                                 rates) *
                 (1 - plan.overlap_prefetch);
  if (offload) {
    double fetch = program.weight_bytes / rates.host;
    // No more than the link or the operators take, whatever the sum over the leaves is.
    f.seconds += fetch - plan.overlap_prefetch * std::min({fetch, f.step.seconds, Leaves(program).hidden(ledger, b, rates)});
  }
  return f;
}

void peak_of_stages(const RenderQuestion& q, const Cluster& cluster, RenderAnswer& a) {
  // With offload the encoder has left before the denoiser starts.
  std::vector<std::vector<MemoryItem>> weights;
  for (const RenderStage& s : a.stages) {
    weights.emplace_back();
    for (const MemoryItem& item : s.items)
      if (item.cls == TensorClass::kWeight) weights.back().push_back(item);
  }
  for (std::size_t i = 0; i < a.stages.size(); ++i) {
    for (std::size_t k = 0; k < weights.size(); ++k)
      for (MemoryItem item : weights[k])
        if (k != i && (q.stay || (a.decoder_stays && k == 2))) item.how = "stays", a.stages[i].items.push_back(item);
    a.stages[i].items.push_back(
        {"context", TensorClass::kCode, cluster.gpu.context_bytes().value(), "CUDA context"});
    if (a.stages[i].bytes() > a.peak_bytes) a.peak_bytes = a.stages[i].bytes(), a.items = a.stages[i].items;
  }
}

}  // namespace

Program render_program(const Graph& graph, const Plan& plan) {
  Program program = compile(graph, plan);
  // Autocast multiplies in 16 bits what is stored in 32, unless what comes in has 32 as well.
  // Such products stay in 32 bits when their weights are stored in fewer.
  for (ProgramOp& op : program.ops) {
    bool wide = op.kind == OpKind::kContract && graph.tensors[graph.ops[op.op].in.front()].dtype == kFp32;
    if (wide || op.format == Format::kFp32) op.format = wide ? Format::kFp32 : Format::kBf16;
  }
  return program;
}

Rates render_rates(const Cluster& cluster) {
  Rates rates = read_rates(cluster.gpu);
  if (cluster.gpu.has(FieldId::attention_mma_best))
    rates.attention = cluster.gpu.attention_mma_best().value();
  return rates;
}

namespace {

// The plan under the question's verbs; refuses what a denoiser is not divided by.
Plan laid_out(const Plan& given, const Cluster& cluster, const RenderQuestion& q, Graph& graph) {
  Plan plan = given;
  if (q.weights != kBf16)
    for (Tensor& t : graph.tensors)
      if (t.cls == TensorClass::kWeight && t.linear) t.dtype = q.weights;
  check_verbs(q.verbs);
  for (const std::string& verb : q.verbs) apply_verb(verb, graph, plan);
  bool pipeline = plan.schedule == PipelineSchedule::kDenoising;
  if (plan.tp > 1 || plan.ep > 1 || (plan.pp > 1 && !pipeline))
    base::fail(
        "a denoiser is divided by cp (sequence), dp (batch) or stages of denoising here, not by tp, ep or "
        "layers");
  if (std::fmod(q.batch, plan.dp) != 0) base::fail("batch {:.0f} is no multiple of dp {}", q.batch, plan.dp);
  if (plan.gpus() > cluster.gpus)
    base::fail("the plan needs {} GPUs (cp {} x dp {} x stages {}), the cluster has {}", plan.gpus(), plan.cp,
               plan.dp, pipeline ? plan.pp : 1, cluster.gpus);
  return plan;
}

// All forwards of the denoiser for `one` rank's batch; fills what the answer says of a forward.
RenderStage denoise(const DiffusionSpec& spec, const RenderQuestion& one, const Rates& rates, double passes,
                    double steps, RenderAnswer& a) {
  Plan layout = a.plan;
  layout.pp = 1;  // stages of denoising each hold the whole network
  Program program = render_program(a.graph, layout);
  bool offload = one.layer_offload || a.plan.place.weights != Tier::kDevice;
  if (offload && spec.published_params > 0)
    base::fail("{} has its published totals and no layers here: its weights cannot come layer by layer", spec.name);
  Binding& b = a.binding = denoiser_binding(spec, one.shape, one.batch);
  for (FreeAxis axis : {kTokens, kText, kJoint, kPairs, kPairsWindow, kScores}) b[axis] /= a.plan.cp;
  b.causal = false;
  Forward f = forward(program, a.plan, b, rates, offload);
  DenoiserFlops flops = denoiser_flops(spec, one.shape);
  a.tokens = latent_tokens(spec, one.shape);
  a.parameters = spec.denoisers * count_parameters(a.graph).total;
  a.linear_flops = flops.linear, a.attention_flops = flops.attention;
  a.forwards = steps * passes;
  a.forward_seconds = f.seconds;
  bool both = one.stay || divided(a.plan);  // two denoisers are on the GPU
  a.first_forwards = first_steps(spec, steps) * passes;
  if (a.first_forwards < a.forwards && !both && !offload) a.switch_seconds = 2 * program.weight_bytes / rates.host;
  a.denoise_seconds = a.forwards * f.seconds + a.switch_seconds;
  a.mfu = (flops.linear + flops.attention) * one.batch / a.plan.cp / f.seconds / rates.peak16;
  double joules = f.step.joules + (f.seconds - f.step.seconds) * rates.idle_watts;
  joules = joules * a.forwards + a.switch_seconds * rates.idle_watts;
  RenderStage stage{"denoiser", a.denoise_seconds, joules, a.parameters, {}};
  double activations = activation_peak(program, b);
  if (offload) {
    bool next = a.plan.overlap_prefetch > 0;
    Leaves::Peak peak = Leaves(program).peak(b, next);
    activations = peak.activations;
    stage.items.push_back({"denoiser weights", TensorClass::kWeight, peak.weights, next ? "a matrix, and the next on its way" : "a matrix"});
  } else if (divided(a.plan))
    add_divided("denoiser weights", program, a.plan.cp, stage.items);
  else {
    stage.items.push_back({"denoiser weights", TensorClass::kWeight, program.weight_bytes, "all layers"});
  }
  if (spec.denoisers > 1 && both && !offload) {
    double ranks = divided(a.plan) ? a.plan.cp : 1, outside = ranks > 1 ? gathered_weights(program, nullptr).outside : 0;
    stage.items.push_back({"other denoiser", TensorClass::kWeight, program.weight_bytes / ranks + outside, "it waits for its steps"});
  }
  stage.items.push_back({"activations", TensorClass::kActivation, activations, "one block"});
  return stage;
}

}  // namespace

RenderShape usual_shape(const DiffusionSpec& spec) {
  RenderShape shape;
  if (spec.size > 0) shape.width = shape.height = spec.size;
  if (spec.family == "wan") shape.width = 832, shape.height = 480, shape.frames = 81;
  if (spec.timed_tokens) shape.width = 1280, shape.height = 704, shape.frames = 121;
  if (spec.family == "ltx") shape.width = 704, shape.height = 512, shape.frames = 161;
  return shape;
}

RenderAnswer render(const DiffusionSpec& of, const Plan& given, const Cluster& cluster,
                    const RenderQuestion& q) {
  DiffusionSpec spec = of;
  spec.compiled |= q.compiled;
  if (!(q.batch >= 1 && q.batch < 1e6)) base::fail("batch must be at least 1");
  RenderAnswer a;
  a.graph = build_denoiser(spec, q.shape);
  a.plan = laid_out(given, cluster, q, a.graph);
  Rates rates = render_rates(cluster);
  RenderQuestion one = q;
  one.batch = q.batch / a.plan.dp;
  double steps = q.steps > 0 ? q.steps : spec.steps, passes = q.passes > 0 ? q.passes : spec.cfg_passes;
  RenderStage denoiser = denoise(spec, one, rates, passes, steps, a);
  a.stages = {encode(spec, one, passes, rates, a.plan), std::move(denoiser), decode(spec, one, rates)};
  a.decoder_stays = spec.family == "wan";  // its pipeline moves encoder and denoiser alone (wan/text2video.py)
  a.encoder_parameters = a.stages[0].parameters;
  a.encoder_seconds = a.stages[0].seconds, a.decode_seconds = a.stages[2].seconds;
  double ranks = a.plan.cp * a.plan.dp;  // each encodes and decodes its own; ranks of a sequence do it alike
  for (const RenderStage& s : a.stages) a.seconds += s.seconds, a.joules += s.joules * ranks;
  bool pipeline = a.plan.schedule == PipelineSchedule::kDenoising;
  double longest =
      pipeline ? std::max(a.denoise_seconds / a.plan.pp, a.seconds - a.denoise_seconds) : a.seconds;
  a.per_second = q.batch / longest;
  peak_of_stages(q, cluster, a);
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.peak_bytes <= a.capacity;
  if (q.encoder_on_host) a.notes.push_back("the host computes 1 TFLOP/s (assumed)");
  if (q.steps <= 0)
    a.notes.push_back(fmt::format("{:.0f} steps, the model's usual number", steps));
  return a;
}

}  // namespace orrery::graph
