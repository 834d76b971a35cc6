// sanitize/collector.cc: see collector.h. The file has one object a line: a finding, or {"count": n, "key": k}.
#include "sanitize/collector.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace orrery::sanitize {

namespace {
constexpr int kMostPerCheck = 500;
}

void Collector::add(Finding finding) {
  std::lock_guard lock(mutex_);
  const auto [it, fresh] = by_key_.emplace(finding.key(), found_.size());
  if (!fresh) {
    found_[it->second].count += finding.count;
    return;
  }
  if (const char* schedule = std::getenv("ORRERY_SCHEDULE")) finding.seed = schedule;
  per_check_[finding.check]++;
  write(to_json(finding));
  found_.push_back(std::move(finding));
}

bool Collector::full(const std::string& check) {
  std::lock_guard lock(mutex_);
  return per_check_[check] >= kMostPerCheck;
}

void Collector::write(const std::string& line) {
  if (file_.empty()) return;
  const int fd = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text = line + "\n";
  [[maybe_unused]] const ssize_t n = ::write(fd, text.data(), text.size());
  close(fd);
}

void Collector::finish() {
  std::lock_guard lock(mutex_);
  for (const auto& [key, index] : by_key_)
    if (found_[index].count > 1) write(nlohmann::json{{"count", found_[index].count - 1}, {"key", key}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<Finding> Collector::findings() {
  std::lock_guard lock(mutex_);
  return found_;
}

void merge(std::vector<Finding>& all, std::vector<Finding> more) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < all.size(); i++) known.emplace(all[i].key(), i);
  for (Finding& f : more) {
    const auto [it, fresh] = known.emplace(f.key(), all.size());
    if (fresh) all.push_back(std::move(f));
    else all[it->second].count += f.count;
  }
}

void tidy(std::vector<Finding>& findings) {
  const auto line = [](const Place& p) {
    return p.kernel + "|" + (p.source_line ? p.source_file + ":" + std::to_string(p.source_line) : std::to_string(p.ptx_line));
  };
  std::set<std::string> racing;
  for (const Finding& f : findings)
    if (f.check == "racecheck") {
      racing.insert(line(f.place));
      for (const Party& o : f.others) racing.insert(line(o.place));
    }
  std::erase_if(findings, [&](const Finding& f) { return f.check == "initcheck" && racing.contains(line(f.place)); });
  const auto rank = [](const Finding& f) {
    static const std::vector<std::string> order{"memcheck", "racecheck", "asynccheck", "synccheck", "apicheck", "initcheck"};
    return std::ranges::find(order, f.check) - order.begin();
  };
  std::ranges::stable_sort(findings, {}, rank);
}

std::vector<Finding> read_results(const std::string& file) {
  std::vector<Finding> all;
  std::map<std::string, uint64_t> counts;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    try {
      const auto j = nlohmann::json::parse(line);
      if (j.contains("key")) counts[j["key"]] += j["count"].get<uint64_t>();
      else merge(all, {finding_from_json(line)});
    } catch (const std::exception&) {
      // A process that was killed while it wrote leaves half a line.
    }
  }
  for (Finding& f : all)
    if (const auto it = counts.find(f.key()); it != counts.end()) f.count += it->second;
  return all;
}

}  // namespace orrery::sanitize
