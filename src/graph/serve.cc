// Time and energy of inference.
#include "graph/serve.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/draft.h"
#include "graph/layout.h"

namespace orrery::graph {

namespace {

// Shares and depths that come nearest to 15,000 balanced products with 64 rows and more to an expert on H100, H200 and
// B200 (source as in rates.cc: vLLM 0.14 to 0.24, SGLang 0.5.10 and 0.5.14, TensorRT-LLM 1.2 and 1.3), to a tenth to a
// fifth. SGLang's in 16 bits is that of shapes that are tuned; others reach half of it. Without them these products come out 1.3 times too fast in 16
// bits and in fp8, 1.9 times with block scales, 1.6 times with weights in 4 bits. What an engine has no rows for is as vLLM's.
constexpr ExpertKernels kVllmExperts{{0.88, 0.95, 0.50, 0.68, 0.80, 0.40, 400, 600}, {0.65, 0.65, 0.25, 0.68, 0.34, 0.34, 400, 400}};
constexpr ExpertKernels kSglangExperts{{0.75, 0.95, 0.68, 0.60, 0.40, 0.42, 400, 600}, {0.28, 0.65, 0.27, 0.60, 0.34, 0.34, 400, 400}};
constexpr ExpertKernels kTrtllmExperts{{1.20, 1.20, 1.10, 0.55, 0.60, 0.40, 600, 2600}, {1.0, 0.93, 0.25, 0.55, 0.34, 0.34, 600, 400}};

}  // namespace

Engine find_engine(std::string_view name) {
  // Step overheads: what each engine's documentation and profiles show between the end of a step's kernels
  // and the start of the next with CUDA graphs on. None was chosen from the measured rows of shared data. A
  // server process in Python turns some 30,000 tokens a second into text and sends them.
  static const Engine engines[] = {
      {"none", 0, 0, 0, 0, false, false, false, nullptr, "kernels only"},
      {"vllm", 1.5e-3, 15e-3, 1.0e9, 30e-6, false, true, false, &kVllmExperts,
       "assumed: Python scheduler and sampler between steps, V1 engine"},
      {"vllm-async", 0.8e-3, 15e-3, 1.0e9, 30e-6, false, true, false, &kVllmExperts,
       "assumed: the next step is scheduled while one runs, vLLM's default from 0.14 on"},
      {"trtllm", 1.0e-3, 15e-3, 1.0e9, 30e-6, false, true, true, &kTrtllmExperts,
       "assumed: PyTorch backend with the overlap scheduler"},
      {"sglang", 0.8e-3, 15e-3, 1.0e9, 30e-6, true, false, false, &kSglangExperts,
       "assumed: overlapped scheduler; prefill batches go before decode batches (its default policy)"},
  };
  for (const Engine& engine : engines)
    if (engine.name == name) return engine;
  base::fail("unknown engine '{}'; known: none, vllm, vllm-async, trtllm, sglang", name);
}

Plan under(const Plan& plan, const Engine& engine) {
  Plan p = plan;
  p.joins_narrowing |= engine.joins_narrowing;
  p.joins_reduce_norm |= engine.joins_reduce_norm;
  if (engine.own_experts) p.engine_experts = engine.own_experts;
  return p;
}

StepPredictor::StepPredictor(const Graph& graph, const Plan& plan, const Cluster& cluster)
    : graph_(graph), plan_(plan), program_(compile(graph_, plan_)), rates_(read_rates(cluster.gpu)) {
  check_served(plan, cluster);
}

StepTime StepPredictor::step(const StepShape& shape) {
  binding_ = bind(graph_, plan_, shape);
  walk(program_, binding_, ledger_);
  StepTime t = schedule(program_, ledger_, binding_, rates_);
  if (plan_.pp > 1) {
    // A stage's activations go to the next one.
    double bytes = binding_[kTokens] * 2 * hidden_of(graph_);
    int far = far_hops(plan_, rates_.per_host);
    auto hop = [&](int reach) { return collective_time(Collective::kSendReceive, reach, bytes, rates_); };
    t.hops = far * hop(rates_.per_host + 1) + (plan_.pp - 1 - far) * hop(2);
    t.seconds += t.hops;
    t.joules += t.hops * rates_.idle_watts * plan_.pp;
  }
  return t;
}

namespace {

// Chunks that are walked one by one. Of more, so many parts of equal length are walked at the chunk in their middle: a
// step's time is linear in the context but for a few bends, so that a part's chunks take what its middle one does.
constexpr double kWalkedChunks = 256;

// Calls `add` with the tokens, the context and the number of each group of a prompt's chunks. Of a request that may
// find its first tokens in the cache, the chunks of either case in proportion.
template <class Add>
void each_chunk(const Plan& plan, const Engine& engine, double input, Add add) {
  double chunk = plan.chunk_tokens, common = shared_tokens(plan, engine), hit = common > 0 ? plan.prefix_hit : 0;
  for (auto [share, start] : {std::pair{hit, common}, {1 - hit, 0.0}}) {
    if (share <= 0) continue;
    double fresh = input - start;
    double whole = std::floor(fresh / chunk), parts = std::min(whole, kWalkedChunks), each = whole / std::max(1.0, parts);
    for (double part = 0; part < parts; ++part)
      add(chunk, start + chunk * (each * part + (each - 1) / 2), share * each);
    if (double rest = fresh - whole * chunk; rest > 0) add(rest, start + whole * chunk, share);
  }
}

StepShape chunk_step(const Plan& plan, double tokens, double done) {
  StepShape s;
  s.prefill_tokens = tokens * (1 - plan.prefill_skip);
  s.prefill_seqs = 1;
  s.prefill_context = done;
  return s;
}

// Prefills of the rank that has most of them in a step, when each of `ranks` gets `mean` at random. Ranks
// that share experts exchange tokens in every layer, so all wait for that one.
double busiest(double mean, int ranks) {
  if (ranks <= 1 || mean <= 0 || mean > 200) return mean;
  double sum = 0, term = std::exp(-mean), below = term;
  for (int k = 0; k < mean + 12 * std::sqrt(mean) + 12; ++k) {
    sum += 1 - std::pow(std::min(1.0, below), ranks);
    term *= mean / (k + 1);
    below += term;
  }
  return sum;
}

}  // namespace

double speculated(const Plan& plan) {
  // Expected tokens of a step that proposes g tokens, each accepted with probability a (Leviathan et al.
  // 2023).
  if (plan.draft_tokens <= 0) return 1;
  double a = plan.acceptance, g = plan.draft_tokens;
  return a >= 1 ? g + 1 : (1 - std::pow(a, g + 1)) / (1 - a);
}

StepShape decode_step(const Plan& plan, const ServeQuestion& q, double batch) {
  StepShape s;
  s.decode_seqs = batch;
  s.decode_context = held_tokens(plan, {q.input, q.output / 2});
  if (plan.draft_tokens > 0)
    s.prefill_seqs = batch, s.prefill_tokens = batch * plan.draft_tokens,
    s.prefill_context = s.decode_context;
  return s;
}

// One closed loop, in the order in which its parts follow from one another.
class Loop {
 public:
  Loop(Server& server, const ServeQuestion& question)
      : server_(server), g_(server.graph_), p_(server.plan_), q_(question), predictor_(server.predictor_) {
    double wanted = q_.concurrency / p_.dp;
    double resident = resident_sequences(g_, server.program_, server.empty_, q_.input, q_.output, q_.engine);
    a_.batch = std::min(wanted, std::max(1.0, resident));
    a_.waiting = wanted - a_.batch;
    a_.tokens_a_step = speculated(p_);
  }
  ServeAnswer answer() {
    decode();
    prefill();
    between_tokens();
    first_token();
    if (p_.prefill_replicas > 0) split();
    whole();
    return a_;
  }

 private:
  void decode();
  void prefill();
  double added_by_prefill();
  void between_tokens();
  void first_token();
  void split();
  void whole();

  Server& server_;
  const Graph& g_;
  const Plan& p_;
  const ServeQuestion& q_;
  StepPredictor& predictor_;
  ServeAnswer a_;
  double request_ = 0;  // seconds, once there is room
};

void Loop::decode() {
  const Rates& r = predictor_.rates();
  StepShape shape = decode_step(p_, q_, a_.batch);
  a_.decode = predictor_.step(shape);
  double bytes = 0;
  for (const Line& line : predictor_.ledger().lines)
    bytes += line.times * predictor_.program().ops[line.op].stages * (line.weight + line.state);
  a_.tpot_bound = bytes / r.memory_peak / a_.tokens_a_step;
  a_.mfu = a_.decode.ops / a_.decode.seconds / r.peak16;
  a_.mbu = bytes / a_.decode.seconds / r.memory_peak;
  Proposed proposed = server_.drafter_->propose(shape, a_.decode);
  a_.draft_seconds = proposed.seconds;
  a_.draft_joules = proposed.joules * p_.tp / std::max(1.0, a_.batch) / a_.tokens_a_step;
  a_.decode_step_seconds = std::max(a_.decode.seconds + a_.draft_seconds + q_.engine.step_seconds,
                                    q_.engine.token_seconds * a_.batch * a_.tokens_a_step);
}

// A request by itself, from its first chunk to its last.
void Loop::prefill() {
  Server& s = server_;
  if (s.prefilled_ != q_.input) {
    s.prefill_seconds_ = s.prefill_joules_ = 0;
    each_chunk(p_, q_.engine, q_.input, [&](double tokens, double done, double times) {
      StepShape chunk = chunk_step(p_, tokens, done);
      StepTime alone = predictor_.step(chunk);
      Proposed draft = s.drafter_->prefill(chunk);
      s.prefill_seconds_ += times * (alone.seconds + draft.seconds), s.prefill_joules_ += times * (alone.joules + draft.joules);
    });
    s.prefilled_ = q_.input;
  }
  a_.prefill_seconds = s.prefill_seconds_, a_.prefill_joules = s.prefill_joules_;
}

// Seconds that a request's chunks add to the decode steps of the others that they ride on.
double Loop::added_by_prefill() {
  double others = a_.batch - 1, added = 0;
  if (others <= 0) return 0;
  each_chunk(p_, q_.engine, q_.input, [&](double tokens, double done, double times) {
    StepShape s = chunk_step(p_, tokens, done);
    added += times * server_.drafter_->prefill(s).seconds;
    s.decode_seqs = others;
    s.decode_context = decode_step(p_, q_, a_.batch).decode_context;
    added += times * std::max(0.0, predictor_.step(s).seconds - a_.decode.seconds);
  });
  return added;
}

// In a closed loop each request's output steps see every other request prefilled once; where other GPUs
// prefill, keys and values come over the slower of both links instead.
void Loop::between_tokens() {
  const Rates& r = predictor_.rates();
  double prefills = (a_.batch - 1) / std::max(1.0, q_.output / a_.tokens_a_step);
  if (p_.ep > 1 && p_.dp > 1) {
    double most = std::max(prefills, p_.chunk_tokens / q_.input);  // what a step can take
    prefills = std::min(most, busiest(prefills, p_.dp));
  }
  double delay = 0;
  if (p_.prefill_replicas > 0) {
    bool near = p_.gpus() <= r.per_host;
    a_.transfer_seconds = (near ? r.link_latency : r.network_latency) +
                          state_bytes(g_, predictor_.program(), 1, q_.input) / (near ? r.link : r.network);
  } else {
    delay = q_.engine.prefill_first ? a_.prefill_seconds / 2 : added_by_prefill();
  }
  a_.others_prefill = std::max(0.0, prefills) * delay;
  a_.tpot = (a_.decode_step_seconds + a_.others_prefill) / a_.tokens_a_step;
}

void Loop::first_token() {
  double chunks = 0;
  each_chunk(p_, q_.engine, q_.input, [&](double, double, double times) { chunks += times; });
  double others = std::min(1.0, a_.batch - 1);  // a request by itself waits for nobody's step
  // The next step takes it in; the one that runs may prefill somebody else.
  if (others > 0) a_.queue_seconds = 0.5 * others * (a_.decode_step_seconds + a_.others_prefill);
  if (others > 0 && p_.prefill_replicas == 0)
    a_.queue_seconds += chunks * others * a_.decode_step_seconds * 0.5;
  a_.ttft = q_.engine.request_seconds + a_.prefill_seconds + a_.queue_seconds + a_.transfer_seconds;
  request_ = a_.ttft + (q_.output - 1) * a_.tpot;
  a_.output_tokens_s = a_.batch * p_.dp * q_.output / request_;
}

// What the replicas can prefill bounds the rate: in a closed loop the rest of a request's time is spent
// waiting for them.
void Loop::split() {
  double asked = a_.output_tokens_s / q_.output, able = p_.prefill_replicas / a_.prefill_seconds;
  if (asked > able) {
    a_.wait_seconds = a_.batch * p_.dp / able - request_;
    a_.ttft += a_.wait_seconds;
    a_.output_tokens_s = able * q_.output;
  }
  double busy = std::min(asked, able) * a_.prefill_seconds;
  a_.split_joules =
      (p_.prefill_replicas - busy) * p_.tp * p_.pp * predictor_.rates().idle_watts / a_.output_tokens_s;
}

void Loop::whole() {
  a_.total_tokens_s = a_.output_tokens_s * (1 + q_.input / q_.output);
  // Those that memory keeps out wait for a whole request to end.
  a_.wait_seconds += a_.waiting / a_.batch * request_;
  a_.ttft += a_.waiting / a_.batch * request_;
  double share = p_.tp / std::max(1.0, a_.batch) / a_.tokens_a_step;
  a_.between_joules = predictor_.rates().idle_watts * q_.engine.step_seconds * share * p_.pp;
  a_.joules_per_token =
      a_.decode.joules * share + a_.draft_joules + a_.prefill_joules / q_.output * p_.tp + a_.between_joules + a_.split_joules;
  a_.low = std::max(a_.tpot_bound, a_.tpot * 0.8);
  a_.high = a_.tpot * 1.35;
}

Server::Server(const Graph& graph, const Plan& plan, const Cluster& cluster, const Engine& engine)
    : graph_(graph),
      plan_(plan),
      engine_(engine),
      program_(compile(graph, plan)),
      empty_(fit_compiled(graph, program_, cluster, 0, 0.0, engine)),
      predictor_(graph, under(plan, engine), cluster),
      drafter_(std::make_unique<Drafter>(plan, cluster, engine)) {}

Server::~Server() = default;

ServeAnswer Server::serve(const ServeQuestion& q) {
  for (double value : {q.input, q.output, q.concurrency})
    if (!(value > 0 && value < 1e9)) base::fail("input, output and concurrency must be positive and finite");
  if (plan_.prefix_tokens >= q.input)
    base::fail("the prompts of {:.0f} tokens have no more than that in common, not {:.0f}", q.input - 1, plan_.prefix_tokens);
  if (q.engine != engine_)
    base::fail("this server runs {}, not {}", engine_.name,
               q.engine.name == engine_.name ? "one of that name with other properties" : q.engine.name);
  return Loop(*this, q).answer();
}

ServeAnswer serve(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q) {
  return Server(graph, plan, cluster, q.engine).serve(q);
}

StepShape encode_step(const Plan& plan, double sequences, double tokens) {
  StepShape s;
  s.prefill_seqs = std::ceil(sequences / plan.dp), s.prefill_tokens = s.prefill_seqs * tokens;
  s.causal = false;
  return s;
}

EncodeAnswer encode(const Graph& graph, const Plan& plan, const Cluster& cluster, double sequences,
                    double tokens) {
  for (double value : {sequences, tokens})
    if (!(value > 0 && value < 1e9)) base::fail("sequences and their tokens must be positive and finite");
  StepPredictor p(graph, plan, cluster);
  EncodeAnswer a;
  a.step = p.step(encode_step(plan, sequences, tokens));
  auto add = [&](const char* what, TensorClass cls, double bytes, std::string how) {
    a.items.push_back({what, cls, bytes, std::move(how)});
    a.total += bytes;
  };
  add("weights", TensorClass::kWeight, p.program().weight_bytes,
      fmt::format("over tp {} x pp {}", plan.tp, plan.pp));
  add("activations", TensorClass::kActivation, activation_peak(p.program(), p.binding()),
      "one block, whole batch");
  add("context and kernels", TensorClass::kCode, cluster.gpu.context_bytes().value(), "CUDA context");
  add("libraries", TensorClass::kCode, library_bytes(plan), "matrix workspace, communication buffers");
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.total <= a.capacity;
  return a;
}

double concurrency_at_rate(const Graph& graph, const Plan& plan, const Cluster& cluster,
                           const ServeQuestion& question) {
  ServeQuestion q = question;
  Server server(graph, plan, cluster, q.engine);
  auto served = [&](double concurrency) {
    q.concurrency = concurrency;
    ServeAnswer a = server.serve(q);
    return a.output_tokens_s / q.output;
  };
  double low = 0, high = plan.dp;
  while (2 * high <= most_requests(plan) && served(high) < question.rate) low = high, high *= 2;
  if (served(high) < question.rate)
    base::fail("{} requests a second are more than this plan serves: at most {:.3g}", question.rate,
               served(high));
  for (int i = 0; i < 30; ++i) (served((low + high) / 2) < question.rate ? low : high) = (low + high) / 2;
  return high;
}

ServeAnswer serve_max_load(const Graph& graph, const Plan& plan, const Cluster& cluster, double input,
                           double output, const Engine& engine) {
  // Sequences of all ages share the cache: on average half of the output is there.
  double batch = resident_sequences(graph, plan, cluster, input, output, engine);
  if (batch < 1) base::fail("{}: not one sequence of {:.0f} tokens fits", graph.name, input + output);
  ServeQuestion q;
  q.input = input;
  q.output = output;
  q.concurrency = std::min(batch, kMostSequences) * plan.dp;
  q.engine = engine;
  q.engine.token_seconds = 0;  // nobody waits for single tokens
  ServeAnswer a = serve(graph, plan, cluster, q);
  a.capped = batch > kMostSequences;
  // Nothing waits for a first token: throughput is the rate of steps alone.
  a.output_tokens_s = q.concurrency / a.tpot;
  a.total_tokens_s = a.output_tokens_s * (1 + input / output);
  return a;
}

}  // namespace orrery::graph
