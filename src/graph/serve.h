// Inference: does it fit, and how fast does it answer.
//
// fit() itemises the memory of the fullest rank. serve() follows one closed loop: `concurrency` requests at a
// time, each of `input` and `output` tokens, continuous batching with chunked prefill. Per decode step it
// charges the batch, the mean context, and the prefill chunks that other requests put in between.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/schedule.h"
#include "graph/spec.h"

namespace orrery::graph {

// Fixed costs of a serving engine, from its own documentation or source; stated in every report.
struct Engine {
  std::string name = "vllm";
  double step_seconds = 0;     // scheduler, sampling and copies between two steps that no kernel hides
  double request_seconds = 0;  // before the first token: tokenise, queue, respond
  double cuda_graph_bytes = 0;
  double token_seconds = 0;  // host work to turn one token into text and send it; runs beside the GPU
  // New requests are prefilled in steps of their own before decoding goes on. In a closed loop of equal
  // lengths the requests then stay in step with one another: each waits for half of the others' prefill, not
  // for all.
  bool prefill_first = false;
  // What its kernels join (Plan has the meaning), by its documentation.
  bool joins_narrowing = false, joins_reduce_norm = false;
  const ExpertKernels* own_experts = nullptr;  // products of experts run in kernels of its own, not the library's
  std::string source;
  bool operator==(const Engine&) const = default;
};
// The plan as the engine lays it out: with its joined kernels.
Plan under(const Plan& plan, const Engine& engine);
// "vllm", "vllm-async", "trtllm", "sglang" or "none"; refuses others by name.
Engine find_engine(std::string_view name);

struct MemoryItem {
  std::string what;
  TensorClass cls = TensorClass::kCode;
  double bytes = 0;
  std::string how;  // the arithmetic, in words
};

inline constexpr double kGiB = 1073741824.0;
// Tokens of a sequence: of its prompt, which `shrink kv` may cut, and generated ones, which come on top.
struct Context {
  double prompt = 0, generated = 0;
  Context(double prompt_tokens, double generated_tokens = 0)
      : prompt(prompt_tokens), generated(generated_tokens) {}
};
// Workspace of the matrix library (assumed) and, where there is a group of ranks, what the communication library takes.
double library_bytes(const Plan& plan);
bool has_communicator(const Plan& plan);
// Keys that a sequence holds of them.
double held_tokens(const Plan& plan, const Context& context);
// Tokens of a common prefix that are kept once: whole pages, where the engine has pages.
double shared_tokens(const Plan& plan, const Engine& engine);

// Stands for a context, or a number of sequences, without limit.
inline constexpr double kAnyContext = 1e12;

struct FitAnswer {
  std::vector<MemoryItem> items;
  double total = 0, capacity = 0;
  double low = 0, high = 0;  // interval of the total: weights, state and logits are exact, what is assumed
                             // may be half or double
  double kv_bytes_per_token = 0;  // of one rank, sequences beyond every window
  double kv_bytes_per_sequence = 0;  // in whole pages, wherever they are
  double kv_bytes_on_device = 0;     // of which in the GPU's memory
  double max_sequences = 0;  // at the given context, per data-parallel rank; kAnyContext: they hold nothing there
  double admitted_sequences = 0;  // the same in the share of the memory that an engine takes
  double max_context = 0;    // at the given batch; kAnyContext: state stops growing before it fills the room
  bool fits = false;
};

struct ServeQuestion {
  double input = 1024, output = 256;
  double concurrency = 1;  // requests in flight over all data-parallel ranks
  double rate = 0;         // requests a second; 0: closed loop at `concurrency`
  Engine engine;
};

struct ServeAnswer {
  double ttft = 0, tpot = 0;   // seconds, means
  double output_tokens_s = 0;  // all GPUs
  double total_tokens_s = 0;
  double joules_per_token = 0;  // per output token, all GPUs
  double prefill_seconds = 0, decode_step_seconds = 0;
  double batch = 0;         // sequences decoded together per data-parallel rank
  double waiting = 0;       // further ones that memory keeps out
  bool capped = false;      // kMostSequences a rank, though memory holds more (serve_max_load)
  double mfu = 0, mbu = 0;  // of the decode step, of the stage at work
  double tpot_bound = 0;    // bytes that must move over peak bandwidth
  StepTime decode, prefill;
  double low = 0, high = 0;  // interval of tpot
  // What tpot, ttft and joules_per_token are made of.
  double tokens_a_step = 1;                    // with speculation
  double draft_seconds = 0;                    // of a step
  double draft_joules = 0;                     // per output token, of a draft that is named
  double others_prefill = 0;                   // seconds that other requests' prefill adds to a step
  double queue_seconds = 0, wait_seconds = 0;  // before the first token: for the running step, for memory
  double prefill_joules = 0;                   // of one request, one tensor-parallel rank of every stage
  double transfer_seconds = 0;  // keys and values from the replica that prefilled (admit split)
  double split_joules = 0;      // per output token: idle power of the GPUs that only prefill
  double between_joules = 0;    // per output token: idle power while the engine is between steps
};

// Bytes of KV (and other state) that `seqs` sequences hold on one rank, on all tiers; the same in the engine's pages;
// and what of that the plan keeps in the GPU's memory.
double state_bytes(const Graph& graph, const Program& program, double seqs, const Context& context);
double paged_state_bytes(const Graph& graph, const Program& program, double seqs, const Context& context,
                         const Engine& engine);
double device_state_bytes(const Graph& graph, const Program& program, double seqs, const Context& context,
                          const Engine& engine);
// Refuses a plan that the cluster is too small for, or that divides what serving does not.
void check_served(const Plan& plan, const Cluster& cluster);
// The step at whose activations fit() looks: one chunk of prefill (no more than `batch` sequences have; 0: a whole one)
// with every sequence waiting for its logits.
Binding fit_binding(const Graph& graph, const Plan& plan, double batch, double context);
FitAnswer fit(const Graph& graph, const Plan& plan, const Cluster& cluster, double batch, const Context& context,
              const Engine& engine);
// The same of a plan that is compiled.
FitAnswer fit_compiled(const Graph& graph, const Program& program, const Cluster& cluster, double batch,
                       const Context& context, const Engine& engine);
// What to change so that it fits, each change tried; what GPUs stand idle.
struct FitQuestion {
  const Graph& graph;
  const Plan& plan;
  const Cluster& cluster;
  double batch;
  Context context;
  const Engine& engine;
};
std::vector<std::string> fit_advice(const FitQuestion& question, const FitAnswer& answer);
// Sequences that the memory of a data-parallel rank holds, with half of the output each on average.
double resident_sequences(const Graph& graph, const Plan& plan, const Cluster& cluster, double input,
                          double output, const Engine& engine);
// The same where fit() of no sequence is known.
double resident_sequences(const Graph& graph, const Program& program, const FitAnswer& empty, double input,
                          double output, const Engine& engine);
// The decode step of `batch` sequences halfway through their output, and the tokens it checks for a draft.
StepShape decode_step(const Plan& plan, const ServeQuestion& question, double batch);
// The same with everything that does not depend on the question done once: the fast path of simulators.
class StepPredictor {
 public:
  StepPredictor(const Graph& graph, const Plan& plan, const Cluster& cluster);
  // One step through all pipeline stages, with the hops between them; not thread-safe (owns a scratch ledger).
  StepTime step(const StepShape& shape);
  // Collectives as the communication library does them, without an engine's one-shot kernels.
  void use_nccl_collectives() { rates_.nccl_collectives = true; }
  const Program& program() const { return program_; }
  const Rates& rates() const { return rates_; }
  const Ledger& ledger() const { return ledger_; }
  const Binding& binding() const { return binding_; }

 private:
  Graph graph_;
  Plan plan_;
  Program program_;
  Rates rates_;
  Ledger ledger_;
  Binding binding_;
};

class Drafter;
// Many questions to one plan and one engine: what they have in common is made once, for searches.
class Server {
 public:
  // `graph` outlives it.
  Server(const Graph& graph, const Plan& plan, const Cluster& cluster, const Engine& engine);
  // Refuses another engine's question; not thread-safe.
  ServeAnswer serve(const ServeQuestion& question);
  ~Server();
  const Program& program() const { return program_; }  // without what the engine joins: memory

 private:
  friend class Loop;

  const Graph& graph_;
  Plan plan_;
  Engine engine_;
  Program program_;
  FitAnswer empty_;  // of a rank without sequences
  StepPredictor predictor_;
  std::unique_ptr<Drafter> drafter_;
  // The prefill of a request by itself, the draft's included, of the last length that somebody asked for.
  double prefilled_ = 0, prefill_seconds_ = 0, prefill_joules_ = 0;
};
ServeAnswer serve(const Graph& graph, const Plan& plan, const Cluster& cluster,
                  const ServeQuestion& question);

// One pass of a model that keeps nothing from token to token (BERT, ViT) over a batch, and its memory.
struct EncodeAnswer {
  StepTime step;
  std::vector<MemoryItem> items;
  double total = 0, capacity = 0;
  bool fits = false;
};
StepShape encode_step(const Plan& plan, double sequences, double tokens);
EncodeAnswer encode(const Graph& graph, const Plan& plan, const Cluster& cluster, double sequences, double tokens);

// Tokens that a decode step makes of each sequence: more than one with speculation.
double speculated(const Plan& plan);
// So many requests in flight are tried: 16,384 on a data-parallel rank.
inline double most_requests(const Plan& plan) { return std::min(16384.0 * plan.dp, 5e8); }
// Requests in flight when `question.rate` arrive per second (Little's law, solved with serve), up to so many; refuses
// a rate beyond what the plan can serve.
double concurrency_at_rate(const Graph& graph, const Plan& plan, const Cluster& cluster,
                           const ServeQuestion& question);

// Throughput with every request queued at once: the batch grows until memory ends, to no more than the 2,048 sequences a
// rank at which engines stop by themselves (max_batch_size of TensorRT-LLM).
inline constexpr double kMostSequences = 2048;
ServeAnswer serve_max_load(const Graph& graph, const Plan& plan, const Cluster& cluster, double input,
                           double output, const Engine& engine);

}  // namespace orrery::graph
