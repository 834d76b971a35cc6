// tools/gpus_command.cc: `orrery gpus`: the GPU profiles and where each value comes from.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "profile/profile.h"
#include "tools/command.h"

namespace orrery::tools {
namespace {

std::string written(const FieldValue& v) {
  std::string value = v.text.empty() ? fmt::format("{:.10g}", v.written) : v.text;
  if (v.unit == "flag") return v.number != 0 ? "true" : "false";
  return v.unit == "text" || v.unit == "count" ? value : value + " " + v.unit;
}

int list(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const std::string& name : list_profiles()) {
    const Profile p = load_profile(name);
    const double bandwidth = p.memory_bandwidth().value(), fp16 = p.tensor_fp16().value();
    if (json) {
      all.push_back({{"id", name}, {"name", p.name()}, {"compute_capability", fmt::format("{}.{}", p.compute_major(), p.compute_minor())},
                     {"sm_count", p.sm_count()}, {"memory_bytes", p.memory_total().count()}, {"memory_bytes_per_second", bandwidth},
                     {"tensor_fp16_per_second", fp16}, {"power_limit_watts", p.power_limit().value()}});
    } else {
      fmt::print("{:<10} {:<28} sm_{}{} {:>4} SMs {:>7.0f} GB/s {:>6.0f} TFLOP/s fp16 {:>5.0f} W\n", name, p.name(), p.compute_major(),
                 p.compute_minor(), p.sm_count(), bandwidth / 1e9, fp16 / 1e12, p.power_limit().value());
    }
  }
  if (json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int show(const std::string& name, bool json) {
  const Profile p = load_profile(name);
  nlohmann::ordered_json all;
  for (const FieldSpec& spec : profile_fields()) {
    if (!p.has(spec.id)) continue;
    const FieldValue& v = p.at(spec.id);
    if (json)
      all[std::string(spec.key)] = {{"value", written(v)}, {"base_value", v.number}, {"source", source_name(v.source)}, {"cite", v.cite},
                                    {"file", v.file}, {"line", v.line}};
    else
      fmt::print("{:<30} {:<22} {:<10} {} ({}:{})\n", spec.key, written(v), source_name(v.source), v.cite, v.file, v.line);
  }
  if (json) fmt::print("{}\n", all.dump(2));
  return 0;
}

int diff(const std::string& a, const std::string& b) {
  Profile p = load_profile(a), q = load_profile(b);
  int different = 0;
  for (const FieldSpec& spec : profile_fields()) {
    std::string left = p.has(spec.id) ? written(p.at(spec.id)) : "-",
                right = q.has(spec.id) ? written(q.at(spec.id)) : "-";
    if (left == right) continue;
    fmt::print("{:<30} {:<24} {}\n", spec.key, left, right);
    ++different;
  }
  return different ? 1 : 0;
}

int doc() {
  fmt::print(
      "# Fields of a GPU profile\n\nMade by `orrery gpus doc` from src/profile/fields.def. A file of gpus/ "
      "gives each field as\n"
      "`name = {{ value, unit, source, cite }}` under its section; source is datasheet, measured, paper or "
      "assumed.\n"
      "`inherits = \"name\"` starts from another file, or under a section from that section of it; `abstract = true`\nmarks a base. "
      "`ORRERY_GPUS` names a folder whose files "
      "come before the built-in ones.\n\n| field | unit | required | meaning |\n| --- | --- | --- | --- |\n");
  for (const FieldSpec& spec : profile_fields())
    fmt::print("| {} | {} | {} | {} |\n", spec.key, spec.unit, spec.required ? "yes" : "", spec.meaning);
  return 0;
}

int gpus_command(const std::vector<std::string>& args) {
  CLI::App app{"The GPUs that Orrery can stand in for, each value with its unit and source.\n"
               "Examples: orrery gpus; orrery gpus show h100; orrery gpus diff h100 h200; orrery gpus list --json", "orrery gpus"};
  bool json = false;
  std::string one, other;
  CLI::App* lister = app.add_subcommand("list", "one line per GPU (the default)");
  CLI::App* shower = app.add_subcommand("show", "every value of a GPU with its source");
  CLI::App* differ = app.add_subcommand("diff", "the values in which two GPUs differ; exit status 1 when there are any");
  CLI::App* documenter = app.add_subcommand("doc", "the fields of a profile, as Markdown");
  for (CLI::App* sub : {&app, lister, shower}) sub->add_flag("--json", json, "as JSON");
  shower->add_option("gpu", one, "built-in name or profile file")->required();
  differ->add_option("gpu", one)->required();
  differ->add_option("other", other)->required();
  app.require_subcommand(0, 1);
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    if (shower->parsed()) return show(one, json);
    if (differ->parsed()) return diff(one, other);
    if (documenter->parsed()) return doc();
    return list(json);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "orrery gpus: {}\n", error.what());
    return 2;
  }
}

ORRERY_COMMAND(gpus, "GPU profiles: list, show, diff, doc", gpus_command);

}  // namespace
}  // namespace orrery::tools
