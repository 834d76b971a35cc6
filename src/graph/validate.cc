// Reads measured rows and compares.
#include "graph/validate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/truth.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      out.emplace_back();
    else if (c != '\r')
      out.back() += c;
  }
  return out;
}

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path);
  if (!in) base::fail("cannot read {}", path);
  std::vector<Row> rows;
  std::vector<std::string> head;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    auto values = cells(line);
    if (head.empty()) {
      head = values;
      continue;
    }
    Row row;
    for (std::size_t i = 0; i < head.size() && i < values.size(); ++i) row[head[i]] = values[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

double number(const Row& row, const char* key, double absent) {
  auto it = row.find(key);
  if (it == row.end() || it->second.empty()) return absent;
  double v = 0;
  auto [end, error] = std::from_chars(it->second.data(), it->second.data() + it->second.size(), v);
  if (error != std::errc()) return absent;
  return v;
}
int whole(const Row& row, const char* key) { return static_cast<int>(number(row, key, 1)); }

const Profile& gpu(const std::string& text) {
  static std::map<std::string, Profile> cache;
  std::string name = text.substr(0, text.find('-'));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  auto it = cache.find(name);
  if (it == cache.end()) it = cache.emplace(name, load_profile(name)).first;
  return it->second;
}

void requantize(Graph& g, const TransformerSpec& spec, std::string format) {
  Plan none;
  std::transform(format.begin(), format.end(), format.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (format == "fp8")
    apply_verb("requant weight fp8", g, none);
  else if (format == "fp4")
    apply_verb(spec.family == "gpt-oss" ? "requant weight mxfp4 experts-only" : "requant weight nvfp4", g,
               none);
  else if (format != "bf16" && !format.empty())
    base::fail("unknown precision '{}'", format);
}

double at_share(std::vector<double> v, double share) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<std::size_t>(share * v.size()))];
}

// Smaller is better when `small`: of configurations that answer the same question.
void order_and_regret(Accuracy& a, bool small) {
  std::map<std::string, std::vector<const Compared*>> by;
  for (const Compared& c : a.compared) by[c.question].push_back(&c);
  double right = 0, pairs = 0, regret = 0, groups = 0;
  for (const auto& [question, list] : by) {
    if (list.size() < 2) continue;
    const Compared *best = nullptr, *chosen = nullptr;
    for (const Compared* c : list) {
      if (!best || (small ? c->measured < best->measured : c->measured > best->measured)) best = c;
      if (!chosen || (small ? c->predicted < chosen->predicted : c->predicted > chosen->predicted))
        chosen = c;
    }
    regret += small ? chosen->measured / best->measured - 1 : 1 - chosen->measured / best->measured;
    ++groups;
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = i + 1; j < list.size(); ++j) {
        double m = list[i]->measured - list[j]->measured, p = list[i]->predicted - list[j]->predicted;
        if (m == 0 || p == 0) continue;  // equal, or one configuration that was measured twice
        ++pairs;
        right += m * p > 0;
      }
  }
  a.order = pairs > 0 ? right / pairs : 1;
  a.regret = groups > 0 ? regret / groups : 0;
}

void finish(Accuracy& a, bool small) {
  std::vector<double> errors;
  for (const Compared& c : a.compared) {
    errors.push_back(std::fabs(c.predicted / c.measured - 1));
    a.bound_violations += c.below_bound;
  }
  a.rows = a.compared.size();
  a.median = at_share(errors, 0.5);
  a.p90 = at_share(errors, 0.9);
  order_and_regret(a, small);
}

template <class Predict>
Accuracy compare(const std::string& path, bool small, Predict predict) {
  Accuracy a;
  for (const Row& row : read_rows(path)) {
    try {
      a.compared.push_back(predict(row));
    } catch (const base::Error& error) {
      ++a.refused;
      ++a.refusals[error.what()];
    }
  }
  finish(a, small);
  return a;
}

Compared tpot_row(const Row& row) {
  TransformerSpec spec = load_transformer(row.at("model"));
  Graph g = build_transformer(spec);
  requantize(g, spec, row.at("precision"));
  Plan plan;
  // The rows prove it: with 16-bit keys their sequences would not fit, and their first tokens did not wait.
  if (row.at("engine") == "trtllm" && row.at("precision") == "fp8") apply_verb("requant kv fp8", g, plan);
  plan.tp = whole(row, "tp"), plan.dp = whole(row, "attention_dp"), plan.pp = whole(row, "pp"),
  plan.ep = whole(row, "ep");
  Cluster cluster{gpu(row.at("gpu")), whole(row, "gpus")};
  ServeQuestion q;
  q.input = number(row, "isl", 0), q.output = number(row, "osl", 0),
  q.concurrency = number(row, "concurrency", 1);
  q.engine = find_engine(row.at("engine"));
  ServeAnswer a = serve(g, plan, cluster, q);
  Compared c;
  c.group = row.at("family") + " " + cluster.gpu.id() + " " + row.at("engine") + " " + row.at("precision");
  c.question =
      row.at("model") + row.at("engine") + row.at("isl") + "/" + row.at("osl") + " c" + row.at("concurrency");
  c.predicted = a.tpot;
  c.measured = number(row, "tpot_ms", 0) / 1e3;
  c.below_bound = c.measured < a.tpot_bound;
  return c;
}

Compared throughput_row(const Row& row) {
  TransformerSpec spec = load_transformer(row.at("model"));
  Graph g = build_transformer(spec);
  requantize(g, spec, row.at("precision"));
  Plan none;
  apply_verb("requant kv fp8", g, none);  // the FP8 checkpoints of this source keep fp8 keys and values
  Plan plan;
  int gpus = whole(row, "gpus");
  if (spec.moe())
    plan.dp = plan.ep = gpus;
  else
    plan.tp = gpus;
  Cluster cluster{gpu(row.at("gpu")), gpus};
  ServeAnswer a =
      serve_max_load(g, plan, cluster, number(row, "isl", 0), number(row, "osl", 0), find_engine("trtllm"));
  Compared c;
  c.group = row.at("model") + " " + cluster.gpu.id();
  c.question = row.at("model") + row.at("isl") + "/" + row.at("osl");
  c.predicted = a.output_tokens_s;
  c.measured = number(row, "output_tok_s", 0);
  return c;
}

std::string accuracy_text(const char* title, const Accuracy& a, bool groups) {
  std::string out = fmt::format(
      "{}: {} rows, median error {:.1f}%, 90th percentile {:.1f}%, pairs in order {:.1f}%, regret {:.1f}%, "
      "bound violations {}, refused {}\n",
      title, a.rows, 100 * a.median, 100 * a.p90, 100 * a.order, 100 * a.regret, a.bound_violations,
      a.refused);
  for (const auto& [why, count] : a.refusals) out += fmt::format("  refused {}: {}\n", count, why);
  if (!groups) return out;
  std::map<std::string, std::vector<double>> by;
  for (const Compared& c : a.compared) by[c.group].push_back(c.predicted / c.measured - 1);
  for (auto& [group, errors] : by) {
    std::vector<double> size;
    for (double e : errors) size.push_back(std::fabs(e));
    out += fmt::format("  {:<44} {:>4} rows, median {:>5.1f}%, bias {:>+6.1f}%\n", group, errors.size(),
                       100 * at_share(size, 0.5), 100 * at_share(errors, 0.5));
  }
  return out;
}

}  // namespace

Accuracy validate_tpot(const std::string& path) { return compare(path, true, tpot_row); }
Accuracy validate_throughput(const std::string& path) { return compare(path, false, throughput_row); }

std::string validate_text(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) base::fail("{} is not a folder", folder);
  std::string out;
  auto file = [&](const char* name) { return (std::filesystem::path(folder) / name).string(); };
  if (std::filesystem::exists(file("open.csv")))
    out += accuracy_text("TPOT", validate_tpot(file("open.csv")), true);
  if (std::filesystem::exists(file("throughput.csv")))
    out += accuracy_text("maximum throughput", validate_throughput(file("throughput.csv")), true);
  std::vector<std::string> truths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") truths.push_back(entry.path().string());
  std::sort(truths.begin(), truths.end());
  for (const std::string& path : truths) out += truth_text(compare_with_truth(path));
  if (out.empty()) base::fail("{} holds none of open.csv, throughput.csv, *.jsonl", folder);
  return out;
}

}  // namespace orrery::graph
