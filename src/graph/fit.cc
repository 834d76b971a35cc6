// Memory of inference: what a rank holds, how many sequences and how long a context its room admits.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/draft.h"
#include "graph/layout.h"

namespace orrery::graph {

namespace {

// Tokens that an engine's pages hold for a sequence: the last page is partly empty.
double paged(double tokens, const Plan& plan, const Engine& engine) {
  if (engine.name == "none") return tokens;
  return std::ceil(tokens / plan.block_tokens) * plan.block_tokens;
}

// Bytes of weights that the plan keeps off the GPU.
double weights_elsewhere(const Graph& graph, const Program& program) {
  const Placement& place = program.plan.place;
  double away = 0;
  for (const auto& [tensor, bytes] : program.weights) {
    if (of_experts(graph, graph.tensors[tensor]) && place.experts != Tier::kDevice)
      away += bytes * place.experts_fraction;
    else if (place.weights != Tier::kDevice)
      away += bytes * place.weights_fraction;
  }
  return away;
}

// Largest context whose state fits into `room`; kAnyContext when it never fills it (windows, state spaces).
template <class State>
double longest_context(double room, State state) {
  if (state(kAnyContext) <= room) return kAnyContext;
  double low = 0, high = kAnyContext;
  while (high - low > 1) {
    double middle = std::floor((low + high) / 2);
    (state(middle) <= room ? low : high) = middle;
  }
  return low;
}

}  // namespace

// One rank of NCCL with its kernels: what the driver counted before and after its first collective on an H200
// (held.context.usual.* of calib/raw/h200-held-2026-11-23.jsonl). More ranks are taken to need no more. Frameworks that
// divide states make a group of ranks on one GPU, too.
constexpr double kCommunicator = 1861025792 - 1275920384;
constexpr double kMatrixWorkspace = 64e6;  // assumed

bool has_communicator(const Plan& plan) { return plan.gpus() > 1 || plan.zero > 0; }

double library_bytes(const Plan& plan) { return kMatrixWorkspace + (has_communicator(plan) ? kCommunicator : 0); }

double held_tokens(const Plan& plan, const Context& context) {
  double kept = plan.kv_keep_tokens > 0 ? std::min(context.prompt, plan.kv_keep_tokens) : context.prompt;
  return kept + context.generated;
}

double shared_tokens(const Plan& plan, const Engine& engine) {
  if (engine.name == "none") return plan.prefix_tokens;
  return std::floor(plan.prefix_tokens / plan.block_tokens) * plan.block_tokens;
}

namespace {

// `common` of the keys of each sequence are the same, and held once.
Binding held_binding(const Graph& graph, double seqs, double held, double common) {
  Binding b;
  b[kSeqs] = seqs;
  b[kKeys] = seqs * held - std::max(0.0, seqs - 1) * std::min(common, held);
  b[kKeysWindow] = seqs * std::min(held, graph.window), b[kKeysChosen] = seqs * std::min(held, graph.chosen);
  return b;
}

Binding paged_binding(const Graph& graph, const Plan& plan, double seqs, const Context& context,
                      const Engine& engine) {
  return held_binding(graph, seqs, paged(held_tokens(plan, context), plan, engine), shared_tokens(plan, engine));
}

}  // namespace

double state_bytes(const Graph& graph, const Program& program, double seqs, const Context& context) {
  return program.state_bytes.at(held_binding(graph, seqs, held_tokens(program.plan, context), program.plan.prefix_tokens));
}

double paged_state_bytes(const Graph& graph, const Program& program, double seqs, const Context& context,
                         const Engine& engine) {
  return program.state_bytes.at(paged_binding(graph, program.plan, seqs, context, engine));
}

double device_state_bytes(const Graph& graph, const Program& program, double seqs, const Context& context,
                          const Engine& engine) {
  Binding b = paged_binding(graph, program.plan, seqs, context, engine);
  double away = 0;
  if (program.plan.place.kv != Tier::kDevice)
    for (const auto& [tensor, form] : program.states)
      if (is_cache(graph.tensors[tensor])) away += form.at(b);
  return program.state_bytes.at(b) - program.plan.place.kv_fraction * away;
}

Binding fit_binding(const Graph& graph, const Plan& plan, double batch, double context) {
  double per_rank = std::ceil(batch / plan.dp), chunk = plan.chunk_tokens;
  StepShape step;
  step.prefill_tokens = per_rank > 0 ? std::min(chunk, std::max(1.0, context * per_rank)) : chunk;
  step.prefill_seqs = 1;
  Binding b = bind(graph, plan, step);
  b[kKeys] = b[kKeysWindow] = b[kKeysChosen] = b[kScores] = 0;
  b[kOutputs] = std::max(1.0, per_rank);
  return b;
}

void check_served(const Plan& plan, const Cluster& cluster) {
  if (plan.gpus() > cluster.gpus)
    base::fail("the plan needs {} GPUs (tp {} x pp {} x dp {} x cp {}), the cluster has {}", plan.gpus(),
               plan.tp, plan.pp, plan.dp, plan.cp, cluster.gpus);
  refuse_denoising(plan);
  if (plan.cp > 1)
    base::fail(
        "serving is divided by tp, pp, dp and ep; cp divides the sequence of training and rendering only");
}

namespace {

void check_fit(const Plan& plan, const Cluster& cluster, double batch, const Context& context) {
  for (double value : {batch, context.prompt, context.generated})
    if (!(value >= 0 && value < 1e12)) base::fail("batch and context must be finite and not negative");
  check_served(plan, cluster);
}

// What each sequence takes of the GPU's memory, and what all have in common.
struct Held {
  double each = 0, common = 0;
  double in(double room) const { return each > 0 ? std::max(0.0, std::floor((room - common) / each)) : room >= common ? kAnyContext : 0; }
};
Held held_by(const Graph& graph, const Program& program, const DraftMemory& draft, const Context& context,
             const Engine& engine) {
  double one = device_state_bytes(graph, program, 1, context, engine), proposer = draft.state(1, context, engine);
  if (program.plan.prefix_tokens <= 0) return {one + proposer, 0};
  double each = device_state_bytes(graph, program, 2, context, engine) - one;
  return {each + proposer, one - each};
}

// Sequences and context that `room` bytes beside everything else hold.
void limits(const Graph& graph, const Program& program, const DraftMemory& draft, double per_rank, double room,
            const Context& context, const Engine& engine, FitAnswer& a) {
  double kept_free = (1 - program.plan.memory_share) * a.capacity;
  if (a.kv_bytes_on_device > 0 || draft.state(1, context, engine) > 0) {
    Held held = held_by(graph, program, draft, context, engine);
    a.max_sequences = held.in(room), a.admitted_sequences = held.in(room - kept_free);
  } else if (a.kv_bytes_per_sequence > 0) {
    a.max_sequences = a.admitted_sequences = room >= 0 ? kAnyContext : 0;
  }
  if (per_rank > 0)
    a.max_context = longest_context(room, [&](double n) {
      Context longer{n, context.generated};
      return device_state_bytes(graph, program, per_rank, longer, engine) + draft.state(per_rank, longer, engine);
    });
}

}  // namespace

FitAnswer fit(const Graph& graph, const Plan& plan, const Cluster& cluster, double batch,
              const Context& context, const Engine& engine) {
  return fit_compiled(graph, compile(graph, plan), cluster, batch, context, engine);
}

FitAnswer fit_compiled(const Graph& graph, const Program& program, const Cluster& cluster, double batch,
                       const Context& context, const Engine& engine) {
  const Plan& plan = program.plan;
  check_fit(plan, cluster, batch, context);
  FitAnswer a;
  auto add = [&](std::string what, TensorClass cls, double bytes, std::string how) {
    a.items.push_back({std::move(what), cls, bytes, std::move(how)});
    a.total += bytes;
  };
  double per_rank = std::ceil(batch / plan.dp), away = weights_elsewhere(graph, program);
  add("weights", TensorClass::kWeight, program.weight_bytes - away,
      fmt::format("{:.2f} GB over tp {} x pp {}{}", program.weight_bytes / 1e9, plan.tp, plan.pp,
                  away > 0 ? fmt::format(", {:.2f} GB on another tier", away / 1e9) : ""));
  double state = device_state_bytes(graph, program, per_rank, context, engine);
  double tokens = context.prompt + context.generated;
  add("KV cache and state", TensorClass::kState, state,
      fmt::format("{:.0f} sequences of {:.0f} tokens", per_rank, tokens));
  DraftMemory draft(plan);
  if (draft.present()) {
    add("draft's weights", TensorClass::kWeight, draft.weights(), fmt::format("{} over tp {}", plan.draft->name, draft.ranks()));
    double proposer = draft.state(per_rank, context, engine);
    add("draft's keys and values", TensorClass::kState, proposer, "of the same sequences");
    state += proposer;
  }
  Binding b = fit_binding(graph, plan, batch, tokens);
  double activations = activation_peak(program, b);
  add("activations", TensorClass::kActivation, activations,
      fmt::format("one block at {:.0f} tokens a step", b[kTokens]));
  double exact = a.total - activations;
  add("context and kernels", TensorClass::kCode, cluster.gpu.context_bytes().value(), "CUDA context");
  add("libraries", TensorClass::kCode, library_bytes(plan), "matrix workspace, communication buffers");
  if (engine.cuda_graph_bytes > 0)
    add("CUDA graphs", TensorClass::kCode, engine.cuda_graph_bytes, "assumed for " + engine.name);
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.total <= a.capacity;
  a.low = (a.total + exact) / 2, a.high = 2 * a.total - exact;  // what is assumed, half and double
  a.kv_bytes_per_sequence = paged_state_bytes(graph, program, 1, context, engine);
  a.kv_bytes_on_device = device_state_bytes(graph, program, 1, context, engine);
  a.kv_bytes_per_token = program.state_bytes.coefficient[kKeys];  // once every window is full
  limits(graph, program, draft, per_rank, a.capacity - (a.total - state), context, engine, a);
  return a;
}

double resident_sequences(const Graph& graph, const Program& program, const FitAnswer& empty, double input,
                          double output, const Engine& engine) {
  Held held = held_by(graph, program, DraftMemory(program.plan), {input, output / 2}, engine);
  double free = empty.capacity * program.plan.memory_share - empty.total;
  if (free < 0) return 0;
  return held.each > 0 ? held.in(free) : 1e9;
}

double resident_sequences(const Graph& graph, const Plan& plan, const Cluster& cluster, double input,
                          double output, const Engine& engine) {
  FitAnswer empty = fit(graph, plan, cluster, 0, {input, output}, engine);
  return resident_sequences(graph, compile(graph, plan), empty, input, output, engine);
}

}  // namespace orrery::graph
