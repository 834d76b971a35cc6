// Reading of CSV files with measurements, and the figures of a comparison.
#include "graph/measured_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "base/error.h"
#include "graph/serve.h"

namespace orrery::graph {
namespace {

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

}  // namespace

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

const Profile& profile_named(const std::string& text) {
  static std::map<std::string, Profile> cache;
  std::string name;
  for (unsigned char c : text.substr(0, text.find_first_of("-(")))
    if (c == '/')
      name.clear();  // "A800/A100": the better known of both
    else if (c != ' ')
      name += static_cast<char>(std::tolower(c));
  if (text.find("PCIe") != std::string::npos || text.find("PCIE") != std::string::npos) name += "-pcie";
  auto it = cache.find(name);
  if (it == cache.end()) it = cache.emplace(name, load_profile(name)).first;
  return it->second;
}

namespace {

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
  a.pairs = static_cast<std::size_t>(pairs);
  a.order = pairs > 0 ? right / pairs : 1;
  a.regret = groups > 0 ? regret / groups : 0;
}

}  // namespace

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

Accuracy compare_rows(const std::string& path, bool small,
                      const std::function<Compared(const Row&)>& predict) {
  Accuracy a;
  for (const Row& row : read_rows(path)) {
    try {
      a.compared.push_back(predict(row));
    } catch (const base::Error& error) {
      ++a.refused;
      ++a.refusals[error.what()];
      a.refused_rows.push_back(row);
    }
  }
  finish(a, small);
  return a;
}

std::string accuracy_text(const char* title, const Accuracy& a, bool groups) {
  std::string out = fmt::format(
      "{}: {} rows, median error {:.1f}%, 90th percentile {:.1f}%, pairs in order {:.1f}%, regret {:.1f}%, "
      "bound violations {}, refused {}\n",
      title, a.rows, 100 * a.median, 100 * a.p90, 100 * a.order, 100 * a.regret, a.bound_violations,
      a.refused);
  for (const auto& [why, count] : a.refusals) out += fmt::format("  refused {}: {}\n", count, why);
  if (auto capped = std::ranges::count(a.compared, true, &Compared::capped))
    out += fmt::format(
        "  {} rows are predicted at {:.0f} sequences a rank (TensorRT-LLM's max_batch_size when nobody sets it), though "
        "memory holds more\n",
        capped, kMostSequences);
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

}  // namespace orrery::graph
