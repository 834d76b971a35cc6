// Plan files: how a model is laid out and which techniques it uses, kept beside it.
//
//   gpu = "h200:8"
//   tp = 8                                        # pp, dp, cp, ep
//   weights = "fp8"                               # kv
//   do = ["shrink kv 1024 at prefill-end"]        # techniques, in order
//
// The names are those of the options. Anything else is refused by name.
#include <algorithm>

#include "base/toml.h"
#include "tools/model_options.h"

namespace orrery::tools {

void read_plan_file(const CLI::App& app, Common& common) {
  if (common.plan_file.empty()) return;
  const std::string& path = common.plan_file;
  const toml::table file = base::read_toml(path);
  const std::pair<const char*, int*> ranks[] = {
      {"tp", &common.tp}, {"pp", &common.pp}, {"dp", &common.dp}, {"cp", &common.cp}, {"ep", &common.ep}};
  const std::pair<const char*, std::string*> texts[] = {
      {"gpu", &common.gpu}, {"weights", &common.weights}, {"kv", &common.kv}};
  auto open = [&](const std::string& key) {
    if (app.count("--" + key) > 0) return false;
    common.of_file.insert(key);
    return true;
  };
  for (auto&& [name, node] : file) {
    std::string key(name.str());
    if (auto rank = std::ranges::find(ranks, key, [](const auto& r) { return r.first; }); rank != std::end(ranks)) {
      auto value = node.value_exact<int64_t>();
      if (!value || *value < 1 || *value > graph::kMostGpus)
        base::fail("{}: {} must be a whole number of ranks", path, key);
      if (open(key)) *rank->second = static_cast<int>(*value);
    } else if (auto text = std::ranges::find(texts, key, [](const auto& t) { return t.first; });
               text != std::end(texts)) {
      auto value = node.value_exact<std::string>();
      if (!value) base::fail("{}: {} must be text", path, key);
      if (open(key)) *text->second = *value;
    } else if (key == "do") {
      std::vector<std::string> verbs;
      if (!node.is_array()) base::fail("{}: do must be a list of techniques", path);
      for (auto&& item : *node.as_array()) {
        auto verb = item.value_exact<std::string>();
        if (!verb) base::fail("{}: do must be a list of techniques, each a text", path);
        verbs.push_back(*verb);
      }
      common.verbs.insert(common.verbs.begin(), verbs.begin(), verbs.end());
    } else {
      base::fail("{}: unknown key '{}'; a plan has gpu, tp, pp, dp, cp, ep, weights, kv and do", path, key);
    }
  }
}

}  // namespace orrery::tools
