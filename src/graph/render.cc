// Memory and time of diffusion.
#include "graph/render.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/autoencoder.h"

namespace orrery::graph {
namespace {

// Text encoder and autoencoder of each family: names in the zoo or published sizes.
struct Companions {
  const char* family;
  double encoder_params;  // text encoder
  double vae_params;
  double vae_flops_per_pixel;  // decoder, multiply-adds twice
  double vae_bytes_per_pixel;  // live activations of the decoder per output pixel (of one frame chunk)
};
constexpr Companions kCompanions[] = {
    {"flux", 4.76e9 + 0.12e9, 84e6, 9.5e6, 2600}, {"sd3", 4.76e9 + 0.82e9, 84e6, 9.5e6, 2600},
    {"pixart", 4.76e9, 84e6, 9.5e6, 2600},        {"dit", 0, 84e6, 9.5e6, 2600},
    {"unet", 0.82e9, 84e6, 9.5e6, 2600},          {"sana", 2.6e9, 159e6, 1.2e6, 2000},
    {"wan", 5.68e9, 127e6, 1.5e6, 3500},          {"ltx", 4.76e9, 935e6, 0.35e6, 1500},
};

const Companions& companions(const std::string& family) {
  for (const Companions& c : kCompanions)
    if (family == c.family) return c;
  base::fail("no encoder and autoencoder are known for the family '{}'", family);
}

struct Stage {
  std::string name;
  std::vector<MemoryItem> items;
  double total() const {
    double sum = 0;
    for (const MemoryItem& item : items) sum += item.bytes;
    return sum;
  }
};

}  // namespace

RenderAnswer render(const DiffusionSpec& spec, const Plan& plan, const Cluster& cluster,
                    const RenderQuestion& q) {
  if (q.batch < 1) base::fail("batch must be at least 1");
  if (plan.tp * plan.pp > 1) base::fail("a denoiser is divided by cp (sequence) or dp here, not by tp or pp");
  RenderAnswer a;
  Graph graph = build_denoiser(spec, q.shape);
  if (q.weights != kBf16)
    for (Tensor& t : graph.tensors)
      if (t.cls == TensorClass::kWeight && t.linear) t.dtype = q.weights;
  Plan one = plan;
  Program program = compile(graph, one);
  Rates rates = read_rates(cluster.gpu);
  // Reference pipelines call the mma.sync attention of their framework.
  if (cluster.gpu.has(FieldId::attention_mma_best))
    rates.attention = cluster.gpu.attention_mma_best().value();
  double ranks = plan.cp;
  Binding b = denoiser_binding(spec, q.shape, q.batch);
  for (FreeAxis axis : {kTokens, kText, kJoint, kPairs, kPairsWindow}) b[axis] /= ranks;
  Ledger ledger;
  walk(program, b, ledger);
  StepTime step;
  {
    Ledger fast = ledger;
    Program narrowed = program;  // products run in bf16 whatever the weights are stored in
    for (ProgramOp& op : narrowed.ops)
      if (op.format == Format::kFp32) op.format = Format::kBf16;
    step = schedule(narrowed, fast, b, rates);
  }
  // Ulysses moves q, k, v and the output between heads and sequence once each per layer.
  if (ranks > 1) {
    double hidden = spec.hidden;
    step.seconds +=
        4 * spec.layers * collective_time(Collective::kAllToAll, plan.cp, b[kTokens] * hidden * 2, rates);
  }
  DenoiserFlops flops = denoiser_flops(spec, q.shape);
  const Companions& c = companions(spec.family);
  a.tokens = latent_tokens(spec, q.shape);
  a.parameters = count_parameters(graph).total;
  a.encoder_parameters = c.encoder_params;
  a.linear_flops = flops.linear;
  a.attention_flops = flops.attention;
  double steps = q.steps > 0 ? q.steps : spec.steps, passes = q.passes > 0 ? q.passes : spec.cfg_passes;
  a.forwards = steps * passes;
  double fetch = q.layer_offload ? program.weight_bytes / rates.host : 0;
  a.forward_seconds = std::max(step.seconds, fetch);
  a.denoise_seconds = a.forwards * a.forward_seconds;
  double text = spec.text_tokens;
  a.encoder_seconds =
      q.encoder_on_host
          ? 2 * c.encoder_params * text / 1e12
          : passes * (2 * c.encoder_params * text / rates.tensor16 + c.encoder_params * 2 / rates.memory);
  double pixels = static_cast<double>(q.shape.width) * q.shape.height * q.shape.frames * q.batch;
  a.decode_seconds =
      pixels * c.vae_flops_per_pixel / (0.4 * rates.tensor16) / (spec.family == "wan" ? 0.5 : 1);
  // The image decoder of this shape is itemised; others by their published operations.
  if (c.vae_params == 84e6)
    a.decode_seconds = q.batch * image_decoder(q.shape.width, q.shape.height, rates).seconds;
  a.seconds = a.encoder_seconds + a.denoise_seconds + a.decode_seconds;
  a.mfu = (flops.linear + flops.attention) * q.batch / ranks / a.forward_seconds / rates.peak16;

  double context = cluster.gpu.context_bytes().value();
  double frame = static_cast<double>(q.shape.width) * q.shape.height * q.batch;
  double largest_leaf = 0;
  for (const auto& [tensor, bytes] : program.weights) {
    double repeat = 1;
    for (const Block& block : graph.blocks)
      if (tensor >= block.first_tensor && tensor < block.first_tensor + block.tensor_count)
        repeat = block.repeat;
    largest_leaf = std::max(largest_leaf, bytes / repeat);
  }
  double resident = q.layer_offload ? largest_leaf : program.weight_bytes;
  double encoder = c.encoder_params * 2, vae = c.vae_params * (spec.family == "wan" ? 4 : 2);
  std::vector<Stage> stages(3);
  stages[0] = {"text encoder", {}};
  if (!q.encoder_on_host)
    stages[0].items.push_back({"text encoder", TensorClass::kWeight, encoder, "16-bit weights"});
  stages[1] = {"denoiser",
               {{"denoiser weights", TensorClass::kWeight, resident,
                 q.layer_offload ? "the largest leaf" : "all layers"},
                {"activations", TensorClass::kActivation, activation_peak(program, b), "one block"}}};
  stages[2] = {"autoencoder",
               {{"autoencoder", TensorClass::kWeight, vae, ""},
                {"activations", TensorClass::kActivation, frame * c.vae_bytes_per_pixel,
                 "decoder, one chunk of frames"}}};
  // With offload the encoder has left before the denoiser starts; Wan's keeps the denoiser while it decodes.
  for (Stage& s : stages) {
    if (q.stay && s.name != "text encoder" && !q.encoder_on_host)
      s.items.push_back({"text encoder", TensorClass::kWeight, encoder, "stays"});
    if (q.stay && s.name != "denoiser")
      s.items.push_back({"denoiser weights", TensorClass::kWeight, resident, "stays"});
    if (q.stay && s.name != "autoencoder")
      s.items.push_back({"autoencoder", TensorClass::kWeight, vae, "stays"});
    s.items.push_back({"context", TensorClass::kCode, context, "CUDA context"});
    a.stages.push_back({s.name, s.total()});
    if (s.total() > a.peak_bytes) a.peak_bytes = s.total(), a.items = s.items;
  }
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.peak_bytes <= a.capacity;
  a.joules =
      std::min(rates.limit_watts * a.seconds,
               step.joules * a.forwards + rates.limit_watts * 0.7 * (a.encoder_seconds + a.decode_seconds)) *
      ranks;
  return a;
}

}  // namespace orrery::graph
