// Training: memory of a rank by class, operations, and the time of an iteration.
//
// Weights, gradients and optimizer follow the bytes per parameter of mixed-precision Adam and what ZeRO
// divides; activations are the tensors that the graph's operators save, under the recomputation policy and
// the pipeline's schedule. Time is the forward walk, the backward pass derived from it (two products for
// each), what recomputation repeats, communication, the pipeline bubble and the optimizer step.
#pragma once

#include "graph/serve.h"

namespace orrery::graph {

struct TrainQuestion {
  double sequence = 2048;
  double global_batch = 1;  // sequences
  double micro_batch = 1;   // sequences of one micro-batch on one data-parallel rank
  bool causal = true;
};

// Names of the passes (ProgramOp::pass) that add experts' biases, and that cut off what their activation takes.
inline constexpr const char* kBiasPass = "biases of experts";
inline constexpr const char* kClampPass = "cut-off before the activation";

enum class Pass : std::uint8_t { kForward, kAgain, kBackward };  // again: recomputed
std::string_view name_of(Pass pass);

// One operator of one rank in one pass: amounts, seconds and joules of one execution.
struct TrainLine {
  Pass pass = Pass::kForward;
  bool layer = false;  // belongs to the layers that stages divide
  Line line;           // its `times` are the executions of an iteration
  LineTime time;
  LineJoules joules;
};

// What a rank keeps on other tiers than its GPU, in bytes; of checkpoints: one micro-batch's.
struct KeptAway {
  double weights = 0, gradients = 0, optimizer = 0, checkpoints = 0;
};

struct TrainAnswer {
  std::vector<MemoryItem> items;
  double total = 0, capacity = 0;
  // Memory in use over an iteration of the fullest stage: per cent of its steps, bytes. Its maximum is `total`.
  std::vector<std::pair<double, double>> timeline;
  KeptAway away;
  double host_bytes = 0;  // that one rank keeps on the host
  bool fits = false;
  double parameters = 0, trainable = 0;
  double seconds = 0;  // of one iteration
  double compute = 0, bubble = 0, tensor_comm = 0, pipeline_comm = 0, data_comm = 0, optimizer = 0;
  double offload = 0;       // transfers from and to other tiers that nothing hides, and the host's own update
  double power = 0;         // seconds that the board's limit adds to operators and bubble
  double bubble_share = 0;  // of the seconds of the layers' lines
  double data_bytes = 0, pipeline_bytes = 0;  // payload of a rank
  double between_fixed = 0;                   // seconds of both that are latency
  std::vector<TrainLine> lines;               // of one rank of a stage; their seconds sum to `compute`
  Program program;
  Binding binding;
  Rates rates;
  double model_flops = 0, hardware_flops = 0;  // of an iteration, all GPUs
  double tflops_per_gpu = 0, mfu = 0, tokens_s_per_gpu = 0;
  double joules = 0;  // of an iteration, all GPUs: the sum of the four
  double joules_ops = 0, joules_bytes = 0, joules_link = 0, joules_idle = 0;
};

// Bytes per parameter of weights, gradients and optimizer states for `ranks` that share optimizer states.
struct StateBytes {
  double weights = 2, gradients = 2, optimizer = 12;
  double total() const { return weights + gradients + optimizer; }
};
// ZeRO paper: 16 bytes per parameter divided by the stage; `ranks` data-parallel ranks.
StateBytes zero_states(int stage, double ranks);
// Megatron-LM: "fp16" (fp16 gradients, 20 bytes), "bf16" (fp32 gradients, 18), "fp32" (16); `shard` ranks
// share the optimizer (1: plain).
double megatron_bytes_per_parameter(std::string_view precision, double shard);

// Activations of the first pipeline stage at its fullest; `micro_batches` of an iteration.
double activation_bytes(const Graph& graph, const Plan& plan, double sequence, double micro_batch,
                        double micro_batches = 1e9);
// Forward and backward operations per token: 3 x (2 x matmul parameters + attention), the usual model FLOPs; `frozen`
// weights have no product for their gradient.
double training_flops_per_token(const Graph& graph, double sequence, bool causal, bool frozen = false);

// Parameters of low-rank adapters on every linear layer: rank x (inputs + outputs) of each matrix, each expert's included.
double adapter_parameters(const Graph& graph, double rank);

TrainAnswer train(const Graph& graph, const Plan& plan, const Cluster& cluster,
                  const TrainQuestion& question);

// What to change so that it fits, each change tried; nothing when it does.
std::vector<std::string> train_advice(const Graph& graph, const Plan& plan, const Cluster& cluster,
                                      const TrainQuestion& question, const TrainAnswer& answer);

// Longest sequence that fits on one data-parallel rank and that its kernels can address; a multiple of 1,000 found by
// bisection, as memory only grows with it. kAnyContext: 64 million tokens fit.
double longest_sequence(const Graph& graph, const Plan& plan, const Cluster& cluster, TrainQuestion question);
// The longest whose tensors the plan's kernels can address (Plan::offset_bits), whatever memory holds; kAnyContext: any.
double addressable_sequence(const Graph& graph, const Plan& plan, double micro_batch);

}  // namespace orrery::graph
