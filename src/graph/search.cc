// Enumeration and the Pareto front.
#include "graph/search.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "graph/layout.h"
#include "graph/parallel.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

struct Limits {
  double tpot = 1e30, ttft = 1e30;
  int gpus = kMostGpus;
};

double seconds(const std::string& text, const std::string& whole) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  if (error == std::errc() && value > 0 && value < 1e9) {
    if (unit == "ms") return value / 1e3;
    if (unit == "s") return value;
  }
  base::fail("limit '{}': needs a time such as 30ms or 2s", whole);
}

int gpus(const std::string& text, const std::string& whole) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    base::fail("limit '{}': needs a positive count of GPUs", whole);
  return value;
}

Limits parse_limits(const std::vector<std::string>& texts) {
  Limits limits;
  for (const std::string& text : texts) {
    auto equals = text.find('=');
    std::string name = text.substr(0, equals),
                value = equals == std::string::npos ? "" : text.substr(equals + 1);
    if (name == "tpot")
      limits.tpot = seconds(value, text);
    else if (name == "ttft")
      limits.ttft = seconds(value, text);
    else if (name == "gpus")
      limits.gpus = gpus(value, text);
    else
      base::fail("unknown limit '{}'; known: tpot=, ttft=, gpus=", text);
  }
  return limits;
}

std::vector<int> divisors(int n) {
  std::vector<int> d;
  for (int i = 1; i <= n; ++i)
    if (n % i == 0) d.push_back(i);
  return d;
}

double score(const Candidate& c, const std::string& goal) {
  if (goal == "tokens/s") return c.answer.output_tokens_s;
  if (goal == "tokens/s/gpu") return c.answer.output_tokens_s / c.gpus;
  if (goal == "tpot") return -c.answer.tpot;
  if (goal == "ttft") return -c.answer.ttft;
  if (goal == "joules") return -c.answer.joules_per_token;
  base::fail("unknown goal '{}'; known: tokens/s, tokens/s/gpu, tpot, ttft, joules", goal);
}

// Whether a is at least as good as b in everything.
bool no_worse(const Candidate& a, const Candidate& b, const std::string& goal) {
  return a.answer.output_tokens_s / a.gpus >= b.answer.output_tokens_s / b.gpus &&
         a.answer.tpot <= b.answer.tpot && a.answer.ttft <= b.answer.ttft && score(a, goal) >= score(b, goal);
}

// An order of all candidates that does not depend on who found them.
auto identity(const Candidate& c) {
  return std::tie(c.gpus, c.plan.tp, c.plan.pp, c.plan.ep, c.plan.chunk_tokens, c.weights, c.kv,
                  c.concurrency);
}

// Those that no other dominates, by throughput per GPU; of equals the first.
std::vector<Candidate> pareto(std::vector<Candidate> all, const std::string& goal) {
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    double ta = a.answer.output_tokens_s / a.gpus, tb = b.answer.output_tokens_s / b.gpus;
    return ta != tb ? ta > tb : identity(a) < identity(b);
  });
  std::vector<Candidate> front;
  for (Candidate& c : all) {
    bool beaten = false;
    for (const Candidate& f : front) beaten |= no_worse(f, c, goal);
    if (beaten) continue;
    std::erase_if(front, [&](const Candidate& f) { return no_worse(c, f, goal); });
    front.push_back(std::move(c));
  }
  return front;
}

void best_first(std::vector<Candidate>& front, const std::string& goal) {
  std::stable_sort(front.begin(), front.end(),
                   [&](const Candidate& a, const Candidate& b) { return score(a, goal) > score(b, goal); });
}

// One graph per pair of formats, shared by all divisions.
struct Formats {
  std::string weights, kv;
  Graph graph;
};

struct Division {
  const Formats* formats;
  Plan plan;
  int gpus;
};

class Search {
 public:
  Search(const Graph& graph, const Plan& base, const Cluster& cluster, const SearchQuestion& q)
      : graph_(graph), base_(base), cluster_(cluster), q_(q), limits_(parse_limits(q.limits)) {
    score({}, q.goal);  // refuses an unknown goal before any work
    for (double value : {q.input, q.output})
      if (!(value > 0 && value < 1e9)) base::fail("input and output must be positive and finite");
    if (base.gpus() > 1 || base.ep > 1 || base.prefill_replicas > 0)
      base::fail(
          "the search divides GPUs by tp, pp, dp and ep itself: ranks that are given (--tp, 'shard', ...), cp and "
          "'admit split' have no place in it");
    if (q.threads < 0 || q.parts < 1 || q.part < 0) base::fail("threads and parts must not be negative");
  }

  SearchResult run() {
    formats();
    for (const Formats& f : formats_)
      for (int gpus : divisors(cluster_.gpus))
        if (gpus <= limits_.gpus) divisions(f, gpus);
    std::vector<SearchResult> results(divisions_.size());
    in_parallel(divisions_.size(), q_.threads, [&](std::size_t i) {
      if (i % q_.parts == static_cast<std::size_t>(q_.part)) batches(divisions_[i], results[i]);
    });
    return gather(std::move(results));
  }

 private:
  SearchResult gather(std::vector<SearchResult> results) const {
    SearchResult all;
    all.given_weights = stored(TensorClass::kWeight), all.given_kv = stored(TensorClass::kState);
    all.given_chunk = base_.chunk_tokens;
    for (const Formats& f : formats_)
      if (std::find(all.weights.begin(), all.weights.end(), f.weights) == all.weights.end())
        all.weights.push_back(f.weights);
    for (const Formats& f : formats_)
      if (cached() && std::find(all.kv.begin(), all.kv.end(), f.kv) == all.kv.end()) all.kv.push_back(f.kv);
    for (SearchResult& r : results) {
      all.tried += r.tried, all.legal += r.legal, all.fitting += r.fitting, all.kept += r.kept;
      for (Candidate& c : r.front) all.front.push_back(std::move(c));
    }
    all.front = pareto(std::move(all.front), q_.goal);
    best_first(all.front, q_.goal);
    return all;
  }

  void formats() {
    bool states = cached();
    std::string weights = stored(TensorClass::kWeight), cache = stored(TensorClass::kState);
    std::vector<std::string> kvs = {cache}, all = {weights};  // sparse weights keep theirs
    if (states) kvs = names({"bf16", "fp8"}, cache);
    if (!base_.sparse24) all = names(tried_formats(), weights);
    for (const std::string& format : all)
      for (const std::string& kv : kvs) {
        Formats f{format, kv, graph_};
        Plan scratch;
        if (format != weights) apply_verb("requant weight " + format, f.graph, scratch);
        if (states && kv != cache) apply_verb("requant kv " + kv, f.graph, scratch);
        formats_.push_back(std::move(f));
      }
  }

  bool cached() const {
    return std::any_of(graph_.tensors.begin(), graph_.tensors.end(), [](const Tensor& t) { return is_cache(t); });
  }

  // A checkpoint that is quantized already is served as it is.
  std::vector<std::string> tried_formats() const {
    bool wide = std::all_of(graph_.tensors.begin(), graph_.tensors.end(), [](const Tensor& t) {
      return t.cls != TensorClass::kWeight || !t.linear || t.dtype.bits >= 16;
    });
    if (q_.formats.empty() && wide) return {"fp8"};
    return q_.formats;
  }

  // What the given graph stores its linear weights, or its keys and values, in: a plan in that format takes
  // it as it is.
  std::string stored(TensorClass cls) const {
    std::set<std::string> found;
    for (const Tensor& t : graph_.tensors)
      if (t.cls == cls && (cls == TensorClass::kWeight ? t.linear : is_cache(t)))
        found.insert(std::string(format_name(t.dtype.format)));
    return found.empty() ? "bf16" : found.size() == 1 ? *found.begin() : "as given";
  }
  // The formats to try: those asked for, and the given one when it is another.
  static std::vector<std::string> names(std::vector<std::string> all, const std::string& given) {
    if (std::find(all.begin(), all.end(), given) == all.end()) all.insert(all.begin(), given);
    return all;
  }

  void divisions(const Formats& f, int gpus) {
    bool experts = f.graph.experts_per_token > 0;
    std::vector<int> chunks = {base_.chunk_tokens};
    if (q_.fine) chunks = {512, 1024, 2048, 4096, 8192, 16384};
    for (int tp : divisors(gpus))
      for (int pp : divisors(gpus / tp)) {
        int dp = gpus / tp / pp;
        for (int ep : experts ? divisors(tp * dp) : std::vector<int>{1}) {
          if (dp > 1 && ep == 1 && experts) continue;  // attention ranks share the experts
          for (int chunk : chunks) {
            Plan plan = base_;
            plan.tp = tp, plan.pp = pp, plan.dp = dp, plan.ep = ep, plan.chunk_tokens = chunk;
            divisions_.push_back({&f, plan, gpus});
          }
        }
      }
  }

  void batches(const Division& d, SearchResult& result) const {
    const Graph& g = d.formats->graph;
    try {
      check_plan(g, d.plan);
    } catch (const base::Error&) {
      ++result.tried;
      return;
    }
    Server server(g, d.plan, cluster_, q_.engine);
    FitAnswer empty = fit_compiled(g, server.program(), cluster_, 0, {q_.input, q_.output}, q_.engine);
    double growth = q_.fine ? 1.25 : 2;
    for (double batch = 1; batch <= kMostBatch; batch = std::max(batch + 1, std::floor(batch * growth))) {
      ++result.tried, ++result.legal;
      if (empty.total > empty.capacity * d.plan.memory_share || batch > empty.max_sequences) break;
      ++result.fitting;
      ServeQuestion sq;
      sq.input = q_.input, sq.output = q_.output, sq.engine = q_.engine;
      sq.concurrency = batch * d.plan.dp;
      Candidate c{d.plan,
                  d.formats->weights,
                  d.formats->kv,
                  sq.concurrency,
                  d.gpus,
                  server.serve(sq),
                  empty.total + batch * empty.kv_bytes_on_device};
      if (c.answer.waiting > 0) break;
      result.best_tpot = std::min(result.best_tpot, c.answer.tpot);
      result.best_ttft = std::min(result.best_ttft, c.answer.ttft);
      if (c.answer.tpot > limits_.tpot) break;  // larger batches only take longer
      if (c.answer.ttft > limits_.ttft) continue;
      ++result.kept;
      result.front.push_back(std::move(c));
    }
    result.front = pareto(std::move(result.front), q_.goal);
  }

  const Graph& graph_;
  const Plan& base_;
  const Cluster& cluster_;
  const SearchQuestion& q_;
  Limits limits_;
  std::vector<Formats> formats_;  // not resized once divisions point into it
  std::vector<Division> divisions_;
};

}  // namespace

SearchResult search(const Graph& graph, const Plan& base, const Cluster& cluster,
                    const SearchQuestion& question) {
  if (std::none_of(graph.tensors.begin(), graph.tensors.end(), [](const Tensor& t) { return t.cls == TensorClass::kState; }))
    base::fail("{} makes no tokens one after the other: plans are searched for models that do; ask `serve` for a batch", graph.name);
  return Search(graph, base, cluster, question).run();
}

void merge(SearchResult& into, SearchResult other, const std::string& goal) {
  into.given_weights = other.given_weights, into.given_kv = other.given_kv, into.weights = other.weights, into.kv = other.kv;
  into.given_chunk = other.given_chunk;
  into.tried += other.tried, into.legal += other.legal;
  into.fitting += other.fitting, into.kept += other.kept;
  into.best_tpot = std::min(into.best_tpot, other.best_tpot), into.best_ttft = std::min(into.best_ttft, other.best_ttft);
  for (Candidate& c : other.front) into.front.push_back(std::move(c));
  into.front = pareto(std::move(into.front), goal);
  best_first(into.front, goal);
}

nlohmann::ordered_json search_document(const Graph& graph, const Plan& base, const Cluster& cluster,
                                       const SearchQuestion& q) {
  return search_document(search(graph, base, cluster, q), graph.name, cluster, q);
}

namespace {

// The command that asks for the best plan again. What the search changed comes as verbs behind those that were asked
// for, as the search applied it: options come before all verbs, and can be given once.
std::string serve_line(const SearchResult& r, const Cluster& cluster, const SearchQuestion& q) {
  const Candidate& best = r.front.front();
  const Plan& p = best.plan;
  std::string line = fmt::format("orrery model serve {} --gpu {}:{}", q.asked,
                                 q.asked_gpu.empty() ? cluster.gpu.id() : q.asked_gpu, best.gpus);
  for (auto [name, ranks] : {std::pair{"tp", p.tp}, {"pp", p.pp}, {"dp", p.dp}, {"ep", p.ep}})
    if (ranks > 1) line += fmt::format(" --{} {}", name, ranks);
  if (best.weights != r.given_weights) line += fmt::format(" --do 'requant weight {}'", best.weights);
  if (best.kv != r.given_kv) line += fmt::format(" --do 'requant kv {}'", best.kv);
  if (p.chunk_tokens != r.given_chunk) line += fmt::format(" --do 'admit chunk {}'", p.chunk_tokens);
  return line + fmt::format(" --input {} --output {} --concurrency {}", q.input, q.output, best.concurrency);
}

}  // namespace

nlohmann::ordered_json search_document(const SearchResult& r, const std::string& model,
                                       const Cluster& cluster, const SearchQuestion& q) {
  nlohmann::ordered_json doc;
  doc["schema"] = "orrery.report/1";
  doc["title"] = fmt::format("plan: {} on up to {} x {}, {:.0f} in, {:.0f} out, for {}", model, cluster.gpus,
                             cluster.gpu.id(), q.input, q.output, q.goal);
  auto fact = [&](const char* name, double value) {
    doc["facts"].push_back({{"name", name}, {"value", value}, {"unit", ""}});
  };
  fact("plans tried", static_cast<double>(r.tried));
  fact("legal", static_cast<double>(r.legal));
  fact("fitting", static_cast<double>(r.fitting));
  fact("within the limits", static_cast<double>(r.kept));
  nlohmann::ordered_json table;
  table["title"] = "Pareto front";
  for (auto [name, unit] : {std::pair{"gpus", ""},
                            {"tp", ""},
                            {"pp", ""},
                            {"dp", ""},
                            {"ep", ""},
                            {"chunk", ""},
                            {"weights", ""},
                            {"kv", ""},
                            {"in flight", ""},
                            {"tokens", "1/s"},
                            {"per GPU", "1/s"},
                            {"TPOT", "ms"},
                            {"TTFT", "ms"},
                            {"energy", "J/token"},
                            {"memory", "GiB"}})
    table["columns"].push_back({{"name", name}, {"unit", unit}});
  table["rows"] = nlohmann::ordered_json::array();
  for (const Candidate& c : r.front)
    table["rows"].push_back({c.gpus, c.plan.tp, c.plan.pp, c.plan.dp, c.plan.ep, c.plan.chunk_tokens,
                             c.weights, c.kv, c.concurrency, c.answer.output_tokens_s,
                             c.answer.output_tokens_s / c.gpus, c.answer.tpot * 1e3, c.answer.ttft * 1e3,
                             c.answer.joules_per_token, c.memory / kGiB});
  doc["sections"].push_back(std::move(table));
  if (!r.front.empty() && !q.asked.empty())
    doc["sections"].push_back(
        {{"title", "the first of them in full"}, {"notes", {serve_line(r, cluster, q)}}});
  if (r.front.empty()) {
    std::string why = r.fitting == 0 ? fmt::format("no plan fits into the memory of {} x {}: more GPUs (--gpu NAME:N), or narrower "
                                                   "weights (--formats int4)", cluster.gpus, cluster.gpu.id())
                                     : fmt::format("no plan that fits meets the limits: the shortest TPOT of any is {:.3g} ms, the "
                                                   "shortest TTFT {:.3g} ms", r.best_tpot * 1e3, r.best_ttft * 1e3);
    doc["sections"].push_back({{"title", "what to change"}, {"notes", {why}}});
  }
  doc["assumptions"] = nlohmann::ordered_json::array();
  doc["assumptions"].push_back(
      fmt::format("weights in {} (given: {}){} are tried: what narrower formats do to quality is not predicted",
                  fmt::join(r.weights, ", "), r.given_weights,
                  r.kv.empty() ? "" : fmt::format(" and keys and values in {} (given: {})", fmt::join(r.kv, ", "), r.given_kv)));
  doc["assumptions"].push_back(fmt::format("at most {:.0f} sequences a data-parallel rank are tried", kMostBatch));
  return doc;
}

}  // namespace orrery::graph
