// Enumeration and the Pareto front.
#include "graph/search.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

struct Limits {
  double tpot = 1e30, ttft = 1e30;
  int gpus = 1 << 20;
};

double seconds(const std::string& text, const std::string& whole) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  if (error == std::errc() && unit == "ms") return value / 1e3;
  if (error == std::errc() && unit == "s") return value;
  base::fail("limit '{}': needs a time such as 30ms or 2s", whole);
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
      limits.gpus = std::atoi(value.c_str());
    else
      base::fail("unknown limit '{}'; known: tpot=, ttft=, gpus=", text);
  }
  if (limits.gpus < 1) base::fail("the limit gpus= needs a positive number");
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

// Whether a is at least as good as b in everything and better in something.
bool dominates(const Candidate& a, const Candidate& b) {
  double ta = a.answer.output_tokens_s / a.gpus, tb = b.answer.output_tokens_s / b.gpus;
  double la = a.answer.tpot, lb = b.answer.tpot;
  double fa = a.answer.ttft, fb = b.answer.ttft;
  bool no_worse = ta >= tb && la <= lb && fa <= fb;
  return no_worse && (ta > tb || la < lb || fa < fb);
}

std::vector<Candidate> pareto(std::vector<Candidate> all) {
  std::sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.answer.output_tokens_s / a.gpus > b.answer.output_tokens_s / b.gpus;
  });
  std::vector<Candidate> front;
  for (Candidate& c : all) {
    bool beaten = false;
    for (const Candidate& f : front) beaten |= dominates(f, c);
    if (!beaten) front.push_back(std::move(c));
  }
  return front;
}

class Search {
 public:
  Search(const Graph& graph, const Plan& base, const Cluster& cluster, const SearchQuestion& q)
      : graph_(graph), base_(base), cluster_(cluster), q_(q), limits_(parse_limits(q.limits)) {}

  SearchResult run() {
    for (const std::string& format : q_.formats)
      for (const char* kv : {"bf16", "fp8"}) {
        Graph g = graph_;
        Plan scratch;
        if (format != "bf16") apply_verb("requant weight " + format, g, scratch);
        bool states = std::any_of(g.tensors.begin(), g.tensors.end(),
                                  [](const Tensor& t) { return t.cls == TensorClass::kState; });
        if (states && std::string(kv) != "bf16")
          apply_verb(std::string("requant kv ") + kv, g, scratch);
        else if (!states && std::string(kv) != "bf16")
          continue;
        for (int gpus : divisors(cluster_.gpus))
          if (gpus <= limits_.gpus) divisions(g, format, kv, gpus);
      }
    result_.kept = kept_.size();
    result_.front = pareto(std::move(kept_));
    std::stable_sort(
        result_.front.begin(), result_.front.end(),
        [this](const Candidate& a, const Candidate& b) { return score(a, q_.goal) > score(b, q_.goal); });
    return std::move(result_);
  }

 private:
  void divisions(const Graph& g, const std::string& weights, const std::string& kv, int gpus) {
    for (int tp : divisors(gpus))
      for (int pp : divisors(gpus / tp)) {
        int dp = gpus / tp / pp;
        for (int ep : g.experts_per_token > 0 ? divisors(tp * dp) : std::vector<int>{1}) {
          if (dp > 1 && ep == 1 && g.experts_per_token > 0) continue;  // attention ranks share the experts
          Plan plan = base_;
          plan.tp = tp, plan.pp = pp, plan.dp = dp, plan.ep = ep;
          batches(g, plan, weights, kv, gpus);
        }
      }
  }

  void batches(const Graph& g, const Plan& plan, const std::string& weights, const std::string& kv,
               int gpus) {
    try {
      check_plan(g, plan);
    } catch (const base::Error&) {
      ++result_.tried;
      return;
    }
    FitAnswer empty = fit(g, plan, cluster_, 0, q_.input + q_.output, q_.engine);
    for (double batch = 1; batch <= 1024; batch *= 2) {
      ++result_.tried;
      ++result_.legal;
      if (empty.total > empty.capacity * plan.memory_share || batch > empty.max_sequences) break;
      ++result_.fitting;
      ServeQuestion sq;
      sq.input = q_.input, sq.output = q_.output, sq.engine = q_.engine;
      sq.concurrency = batch * plan.dp;
      Candidate c{plan,
                  weights,
                  kv,
                  sq.concurrency,
                  gpus,
                  serve(g, plan, cluster_, sq),
                  empty.total + batch * empty.kv_bytes_per_sequence};
      if (c.answer.waiting > 0) break;
      if (c.answer.tpot > limits_.tpot) break;  // larger batches only take longer
      if (c.answer.ttft <= limits_.ttft) kept_.push_back(std::move(c));
    }
  }

  const Graph& graph_;
  const Plan& base_;
  const Cluster& cluster_;
  const SearchQuestion& q_;
  Limits limits_;
  SearchResult result_;
  std::vector<Candidate> kept_;
};

}  // namespace

SearchResult search(const Graph& graph, const Plan& base, const Cluster& cluster,
                    const SearchQuestion& question) {
  return Search(graph, base, cluster, question).run();
}

nlohmann::ordered_json search_document(const Graph& graph, const Plan& base, const Cluster& cluster,
                                       const SearchQuestion& q) {
  SearchResult r = search(graph, base, cluster, q);
  nlohmann::ordered_json doc;
  doc["schema"] = "orrery.report/1";
  doc["title"] = fmt::format("plan: {} on up to {} x {}, {:.0f} in, {:.0f} out, for {}", graph.name,
                             cluster.gpus, cluster.gpu.id(), q.input, q.output, q.goal);
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
    table["rows"].push_back({c.gpus, c.plan.tp, c.plan.pp, c.plan.dp, c.plan.ep, c.weights, c.kv,
                             c.concurrency, c.answer.output_tokens_s, c.answer.output_tokens_s / c.gpus,
                             c.answer.tpot * 1e3, c.answer.ttft * 1e3, c.answer.joules_per_token,
                             c.memory / 1073741824.0});
  doc["sections"].push_back(std::move(table));
  doc["assumptions"] = nlohmann::ordered_json::array();
  return doc;
}

}  // namespace orrery::graph
