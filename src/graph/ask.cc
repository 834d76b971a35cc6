// The quantities that `ask` knows; each row names its arguments and is a few lines of arithmetic on graph or
// formula.
#include "graph/ask.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

class Arguments {
 public:
  Arguments(const std::vector<std::string>& list, std::string_view usage) : list_(list), usage_(usage) {}
  const std::string& text(std::size_t i) const {
    if (i >= list_.size()) base::fail("usage: ask {}", usage_);
    return list_[i];
  }
  double number(std::size_t i) const {
    const std::string& s = text(i);
    double v = 0;
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size())
      base::fail("'{}' is no number; usage: ask {}", s, usage_);
    if (!(v >= 0 && v < 1e18)) base::fail("'{}' must not be negative; usage: ask {}", s, usage_);
    return v;
  }
  double positive(std::size_t i) const {
    double v = number(i);
    if (v == 0) base::fail("'{}' must be positive; usage: ask {}", text(i), usage_);
    return v;
  }
  // A count; of ranks and the like, which are at least 1.
  int whole(std::size_t i) const {
    double v = number(i);
    if (v > 1e9 || v != std::floor(v)) base::fail("'{}' must be a whole number; usage: ask {}", text(i), usage_);
    return static_cast<int>(v);
  }
  int count(std::size_t i) const {
    if (whole(i) < 1) base::fail("'{}' must be at least 1; usage: ask {}", text(i), usage_);
    return whole(i);
  }
  int count_or(std::size_t i, int absent) const { return has(i) ? count(i) : absent; }
  double share_or(std::size_t i, double absent) const {
    double v = number_or(i, absent);
    if (v > 1) base::fail("'{}' must be a share from 0 to 1; usage: ask {}", text(i), usage_);
    return v;
  }
  double number_or(std::size_t i, double absent) const { return i < list_.size() ? number(i) : absent; }
  bool has(std::size_t i) const { return i < list_.size(); }

 private:
  const std::vector<std::string>& list_;
  std::string_view usage_;
};

Graph graph_of(const Arguments& a, std::size_t at = 0) {
  return build_transformer(load_transformer(a.text(at)));
}

std::vector<Answer> params(const Arguments& a) {
  if (is_denoiser(a.text(0))) {
    DiffusionSpec spec = load_denoiser(a.text(0));
    ParameterCount c = count_parameters(build_denoiser(spec, {}));
    return {{"parameters", c.total, ""}};
  }
  ParameterCount c = count_parameters(graph_of(a));
  return {{"parameters", c.total, ""}, {"in matrix products of a token", c.matmul_active, ""}};
}

std::vector<Answer> kv_per_token(const Arguments& a) {
  Graph g = graph_of(a);
  Plan plan;
  plan.tp = a.count_or(1, 1);
  Program p = compile(g, plan);
  std::vector<Answer> out{{"KV bytes per token", p.state_bytes.coefficient[kKeys], "B (one rank)"}};
  if (p.state_bytes.coefficient[kKeysWindow] > 0)
    out.push_back({"more per token inside the window", p.state_bytes.coefficient[kKeysWindow], "B"});
  return out;
}

std::vector<Answer> kv_bytes(const Arguments& a) {
  Graph g = graph_of(a);
  Plan plan;
  plan.tp = a.count_or(2, 1);
  Program p = compile(g, plan);
  double bytes = state_bytes(g, p, 1, a.number(1));
  return {{"KV of one sequence", bytes, "B"}, {"KV of one sequence", bytes / kGiB, "GiB"}};
}

std::vector<Answer> weight_bytes(const Arguments& a) {
  Graph g = graph_of(a);
  Plan plan;
  plan.tp = a.count_or(2, 1);
  if (a.has(1)) apply_verb("requant weight " + a.text(1), g, plan);
  Program p = compile(g, plan);
  return {{"weights", p.weight_bytes, "B (one rank)"},
          {"of which not in linear layers", p.embedding_bytes, "B"},
          {"weights", p.weight_bytes / kGiB, "GiB"}};
}

std::vector<Answer> training_flops(const Arguments& a) {
  BuildOptions o;
  o.training = true;
  Graph g = build_transformer(load_transformer(a.text(0)), o);
  return {{"training operations per token", training_flops_per_token(g, a.number(1), true), "FLOP"}};
}

std::vector<Answer> zero(const Arguments& a) {
  StateBytes s = zero_states(a.whole(1), a.count(2));
  return {{"weights, gradients, optimizer", a.number(0) * s.total(), "B per GPU"},
          {"per parameter", s.total(), "B"}};
}

std::vector<Answer> megatron_bytes(const Arguments& a) {
  return {{"bytes per parameter", megatron_bytes_per_parameter(a.text(0), a.count_or(1, 1)), "B"}};
}

std::vector<Answer> megatron(const Arguments& a) {
  auto i = [&](std::size_t k) { return a.count(k); };
  TransformerSpec s = megatron_gpt("gpt", i(0), i(1), i(2), i(3), i(4));
  Graph g = build_transformer(s, {true, true, true});
  Plan plan;
  plan.tp = a.count_or(5, 1);
  plan.pp = a.count_or(6, 1);
  plan.virtual_stages = a.count_or(7, 1);
  if (plan.virtual_stages > 1) plan.schedule = PipelineSchedule::kInterleaved;
  double micro = a.count_or(8, 1), gib = kGiB;
  ParameterCount c = count_parameters(g);
  std::vector<Answer> out{
      {"parameters", c.total, ""},
      {"weights and optimizer at 18 bytes", c.linear * 18 / (plan.tp * plan.pp) / gib, "GiB per GPU"}};
  check_plan(g, plan);
  double none = activation_bytes(g, plan, i(3), micro);
  auto add = [&](const char* name, RecomputePolicy policy, bool sp) {
    plan.recompute = policy;
    plan.sequence_parallel = sp;
    double bytes = activation_bytes(g, plan, i(3), micro);
    out.push_back(
        {std::string("activations, ") + name, bytes / gib, fmt::format("GiB ({:.2f}%)", 100 * bytes / none)});
  };
  add("no recomputation", RecomputePolicy::kNone, false);
  add("sequence parallel", RecomputePolicy::kNone, true);
  add("selective", RecomputePolicy::kSelective, false);
  add("selective and sequence parallel", RecomputePolicy::kSelective, true);
  add("full", RecomputePolicy::kFull, false);
  return out;
}

std::vector<Answer> checkpoints(const Arguments& a) {
  BuildOptions o;
  o.training = true;
  Graph g = build_transformer(load_transformer(a.text(0)), o);
  Plan plan;
  plan.recompute = RecomputePolicy::kFull;
  double vocab = g.axes[g.find_axis("vocab")].extent;
  return {{"layer inputs kept", activation_bytes(g, plan, a.number(1), 1), "B"},
          {"fp32 logits", a.number(1) * vocab * 4, "B"}};
}

// A throughput claim against the machine: operations that the tokens stand for, and those really done.
std::vector<Answer> throughput_claim(const Arguments& a) {
  double parameters = a.number(0), tokens = a.number(1), gpus = a.positive(2), done = 1 - a.share_or(3, 0);
  double counted = 2 * parameters * tokens / gpus;
  return {{"counted at full work", counted, "FLOP/s per GPU"},
          {"really done", counted * done, "FLOP/s per GPU"}};
}

std::vector<Answer> kv_kept(const Arguments& a) {
  double ratio = a.positive(0), share = a.share_or(1, a.has(1) ? 0 : a.number(1)), bits = a.number_or(2, 16);
  double kept = (1 - share + share / ratio) * bits / 16;
  return {{"KV kept", kept, "of 16-bit KV"}, {"KV cut", 1 - kept, ""}};
}

std::vector<Answer> peak_share(const Arguments& a) {
  double per_gpu = a.number(0) / a.positive(1);
  return {{"per GPU", per_gpu, "FLOP/s"}, {"share of peak", per_gpu / a.positive(2), ""}};
}

std::vector<Answer> tokens(const Arguments& a) {
  DiffusionSpec spec = load_denoiser(a.text(0));
  RenderShape shape;
  shape.width = a.count(1);
  shape.height = a.count(2);
  shape.frames = a.count_or(3, 1);
  double n = latent_tokens(spec, shape);
  double patch = spec.patch;
  double pixels = spec.space_stride * patch * spec.space_stride * patch * spec.time_stride;
  return {{"tokens", n, ""},
          {"pixels per token", pixels, ""},
          {"compression", 3 * pixels / (spec.in_channels * patch * patch), "values to one"}};
}

std::vector<Answer> forward_flops(const Arguments& a) {
  DiffusionSpec spec = load_denoiser(a.text(0));
  RenderShape shape;
  shape.width = a.count(1);
  shape.height = a.count(2);
  shape.frames = a.count_or(3, 1);
  DenoiserFlops f = denoiser_flops(spec, shape);
  return {{"linear", f.linear, "FLOP"}, {"attention", f.attention, "FLOP"}};
}

struct Quantity {
  std::string_view name, usage;
  std::vector<Answer> (*answer)(const Arguments&);
};
constexpr Quantity kQuantities[] = {
    {"params", "params MODEL", params},
    {"kv-bytes-per-token", "kv-bytes-per-token MODEL [TP]", kv_per_token},
    {"kv-bytes", "kv-bytes MODEL TOKENS [TP]", kv_bytes},
    {"weights", "weights MODEL [FORMAT] [TP]", weight_bytes},
    {"training-flops-per-token", "training-flops-per-token MODEL SEQUENCE", training_flops},
    {"zero-states", "zero-states PARAMETERS STAGE RANKS", zero},
    {"megatron-bytes", "megatron-bytes fp16|bf16|fp32 [RANKS]", megatron_bytes},
    {"megatron", "megatron LAYERS HIDDEN HEADS SEQUENCE VOCABULARY [TP PP INTERLEAVE MICRO-BATCH]", megatron},
    {"checkpoints", "checkpoints MODEL SEQUENCE", checkpoints},
    {"throughput-claim", "throughput-claim PARAMETERS TOKENS/S GPUS [SKIPPED-SHARE]", throughput_claim},
    {"kv-kept", "kv-kept LAYERS-PER-COPY SHARE-OF-LAYERS [BITS]", kv_kept},
    {"peak-share", "peak-share FLOP/S GPUS PEAK", peak_share},
    {"tokens", "tokens DENOISER WIDTH HEIGHT [FRAMES]", tokens},
    {"forward-flops", "forward-flops DENOISER WIDTH HEIGHT [FRAMES]", forward_flops},
};

}  // namespace

std::string format_number(double value) {
  if (value == std::floor(value) && std::fabs(value) < 9e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.7g}", value);
}

std::vector<Answer> ask(const std::string& quantity, const std::vector<std::string>& arguments) {
  std::string usages;
  for (const Quantity& q : kQuantities) {
    usages += "\n  " + std::string(q.usage);
    if (q.name == quantity) return q.answer(Arguments(arguments, q.usage));
  }
  base::fail("{}; quantities:{}",
             quantity == "help" ? "ask QUANTITY ARGUMENTS" : "unknown quantity '" + quantity + "'", usages);
}

}  // namespace orrery::graph
