// Time and energy of inference.
#include "graph/serve.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/layout.h"

namespace orrery::graph {

Engine find_engine(std::string_view name) {
  // Step overheads: what each engine's documentation and profiles show between the end of a step's kernels
  // and the start of the next with CUDA graphs on. None was chosen from the measured rows of shared data. A
  // server process in Python turns some 30,000 tokens a second into text and sends them.
  static const Engine engines[] = {
      {"none", 0, 0, 0, 0, false, false, false, "kernels only"},
      {"vllm", 1.5e-3, 15e-3, 1.0e9, 30e-6, false, true, false,
       "assumed: Python scheduler and sampler between steps, V1 engine"},
      {"trtllm", 1.0e-3, 15e-3, 1.0e9, 30e-6, false, true, true,
       "assumed: PyTorch backend with the overlap scheduler"},
      {"sglang", 0.8e-3, 15e-3, 1.0e9, 30e-6, true, false, false,
       "assumed: overlapped scheduler; prefill batches go before decode batches (its default policy)"},
  };
  for (const Engine& engine : engines)
    if (engine.name == name) return engine;
  base::fail("unknown engine '{}'; known: none, vllm, trtllm, sglang", name);
}

Plan under(const Plan& plan, const Engine& engine) {
  Plan p = plan;
  p.joins_narrowing |= engine.joins_narrowing;
  p.joins_reduce_norm |= engine.joins_reduce_norm;
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

// Mean seconds of prefilling one request in chunks while `others` sequences decode alongside.
struct PrefillCost {
  double alone = 0;  // seconds from first to last chunk
  double extra = 0;  // seconds that its chunks add to the decode steps they ride on
  double joules = 0;
};

PrefillCost prefill_cost(StepPredictor& p, const Plan& plan, double input, double decode_seqs, double context,
                         double decode_seconds) {
  PrefillCost cost;
  double work = 1 - plan.prefill_skip;
  double done = 0;
  while (done < input) {
    double n = std::min<double>(plan.chunk_tokens, input - done);
    StepShape s;
    s.prefill_tokens = n * work;
    s.prefill_seqs = 1;
    s.prefill_context = done;
    StepTime alone = p.step(s);
    cost.alone += alone.seconds;
    cost.joules += alone.joules;
    s.decode_seqs = decode_seqs;
    s.decode_context = context;
    if (decode_seqs > 0) cost.extra += std::max(0.0, p.step(s).seconds - decode_seconds);
    done += n;
  }
  return cost;
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

double speculated(const Plan& plan) {
  // Expected tokens of a step that proposes g tokens, each accepted with probability a (Leviathan et al.
  // 2023).
  if (plan.draft_tokens <= 0) return 1;
  double a = plan.acceptance, g = plan.draft_tokens;
  return a >= 1 ? g + 1 : (1 - std::pow(a, g + 1)) / (1 - a);
}

}  // namespace

StepShape decode_step(const Plan& plan, const ServeQuestion& q, double batch) {
  StepShape s;
  s.decode_seqs = batch;
  s.decode_context = held_tokens(plan, {q.input, q.output / 2});
  if (plan.draft_tokens > 0)
    s.prefill_seqs = batch, s.prefill_tokens = batch * plan.draft_tokens, s.prefill_context = s.decode_context;
  return s;
}

ServeAnswer serve(const Graph& graph, const Plan& plan, const Cluster& cluster, const ServeQuestion& q) {
  for (double value : {q.input, q.output, q.concurrency})
    if (!(value > 0 && value < 1e9)) base::fail("input, output and concurrency must be positive and finite");
  StepPredictor predictor(graph, under(plan, q.engine), cluster);
  ServeAnswer a;
  double wanted = q.concurrency / plan.dp;
  double batch =
      std::min(wanted, std::max(1.0, resident_sequences(graph, plan, cluster, q.input, q.output, q.engine)));
  a.batch = batch;
  a.waiting = wanted - batch;
  double tokens_a_step = speculated(plan);
  StepShape decode = decode_step(plan, q, batch);
  double context = decode.decode_context;
  a.decode = predictor.step(decode);
  double bytes = 0;
  for (const Line& line : predictor.ledger().lines)
    bytes += line.times * predictor.program().ops[line.op].stages * (line.weight + line.state);
  a.tpot_bound = bytes / predictor.rates().memory_peak / tokens_a_step;
  a.mfu = a.decode.ops / a.decode.seconds / predictor.rates().peak16;
  a.mbu = bytes / a.decode.seconds / predictor.rates().memory_peak;
  double draft = plan.draft_tokens * plan.draft_cost * a.decode.seconds;
  a.decode_step_seconds = std::max(a.decode.seconds + draft + q.engine.step_seconds,
                                   q.engine.token_seconds * batch * tokens_a_step);
  PrefillCost prefill =
      prefill_cost(predictor, plan, q.input, std::max(0.0, batch - 1), context, a.decode.seconds);
  // In a closed loop each request's output steps see every other request prefilled once.
  double prefills_a_step = (batch - 1) / std::max(1.0, q.output / tokens_a_step);
  if (plan.ep > 1 && plan.dp > 1) {
    double most = std::max(prefills_a_step, plan.chunk_tokens / q.input);  // what a step can take
    prefills_a_step = std::min(most, busiest(prefills_a_step, plan.dp));
  }
  double delay = q.engine.prefill_first ? prefill.alone / 2 : prefill.extra;
  if (plan.prefill_replicas >
      0) {  // prefill runs elsewhere; its keys and values come over the slower of both links
    delay = 0;
    bool near = plan.gpus() <= predictor.rates().per_host;
    const Rates& r = predictor.rates();
    a.transfer_seconds = (near ? r.link_latency : r.network_latency) +
                         state_bytes(graph, predictor.program(), 1, q.input) / (near ? r.link : r.network);
  }
  a.tokens_a_step = tokens_a_step, a.draft_seconds = draft, a.prefill_joules = prefill.joules;
  a.others_prefill = std::max(0.0, prefills_a_step) * delay;
  a.tpot = (a.decode_step_seconds + a.others_prefill) / tokens_a_step;
  a.prefill_seconds = prefill.alone;
  double chunks = std::ceil(q.input / plan.chunk_tokens);
  double queue = 0.5 * a.decode_step_seconds + (batch > 1 ? chunks * a.decode_step_seconds * 0.5 : 0);
  if (plan.prefill_replicas > 0) queue = 0.5 * a.decode_step_seconds;  // the next step takes it in
  a.queue_seconds = queue;
  a.ttft = q.engine.request_seconds + prefill.alone + queue + a.transfer_seconds;
  double request = a.ttft + (q.output - 1) * a.tpot;
  a.output_tokens_s = batch * plan.dp * q.output / request;
  if (plan.prefill_replicas > 0) {
    // What the replicas can prefill bounds the rate: in a closed loop the rest of a request's time is spent
    // waiting for them.
    double asked = a.output_tokens_s / q.output, able = plan.prefill_replicas / prefill.alone;
    if (asked > able) {
      a.wait_seconds = batch * plan.dp / able - request;
      a.ttft += a.wait_seconds;
      a.output_tokens_s = able * q.output;
    }
    double busy = std::min(asked, able) * prefill.alone;
    a.split_joules =
        (plan.prefill_replicas - busy) * plan.tp * plan.pp * predictor.rates().idle_watts / a.output_tokens_s;
  }
  a.total_tokens_s = a.output_tokens_s * (1 + q.input / q.output);
  // Those that memory keeps out wait for a whole request to end.
  a.wait_seconds += a.waiting / batch * request;
  a.ttft += a.waiting / batch * request;
  double per_step = a.decode.joules / std::max(1.0, batch) / tokens_a_step;
  a.between_joules =
      predictor.rates().idle_watts * q.engine.step_seconds / std::max(1.0, batch) / tokens_a_step * plan.tp * plan.pp;
  a.joules_per_token = (per_step + prefill.joules / q.output) * plan.tp + a.between_joules + a.split_joules;
  a.low = std::max(a.tpot_bound, a.tpot * 0.8);
  a.high = a.tpot * 1.35;
  return a;
}

StepShape encode_step(const Plan& plan, double sequences, double tokens) {
  StepShape s;
  s.prefill_seqs = std::ceil(sequences / plan.dp), s.prefill_tokens = s.prefill_seqs * tokens;
  s.causal = false;
  return s;
}

EncodeAnswer encode(const Graph& graph, const Plan& plan, const Cluster& cluster, double sequences, double tokens) {
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
  add("activations", TensorClass::kActivation, activation_peak(p.program(), p.binding()), "one block, whole batch");
  add("context and kernels", TensorClass::kCode, cluster.gpu.context_bytes().value(), "CUDA context");
  add("libraries", TensorClass::kCode, library_bytes(plan), "matrix workspace, communication buffers");
  a.capacity = cluster.gpu.memory_total().value();
  a.fits = a.total <= a.capacity;
  return a;
}

double concurrency_at_rate(const Graph& graph, const Plan& plan, const Cluster& cluster,
                           const ServeQuestion& question) {
  ServeQuestion q = question;
  auto served = [&](double concurrency) {
    q.concurrency = concurrency;
    ServeAnswer a = serve(graph, plan, cluster, q);
    return a.output_tokens_s / q.output;
  };
  double low = 0, high = 1;
  while (high < 16384 && served(high) < question.rate) low = high, high *= 2;
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
  q.concurrency = std::min(batch, 2048.0) * plan.dp;
  q.engine = engine;
  q.engine.token_seconds = 0;  // nobody waits for single tokens
  ServeAnswer a = serve(graph, plan, cluster, q);
  // Nothing waits for a first token: throughput is the rate of steps alone.
  a.output_tokens_s = q.concurrency / a.tpot;
  a.total_tokens_s = a.output_tokens_s * (1 + input / output);
  return a;
}

}  // namespace orrery::graph
