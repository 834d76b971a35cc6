// orrery gpus list | show NAME | diff A B | doc: the GPU profiles and where each value comes from.
#include <fmt/format.h>

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

int list() {
  for (const std::string& name : list_profiles()) {
    Profile p = load_profile(name);
    fmt::print("{:<10} {:<28} sm_{}{} {:>4} SMs {:>7.0f} GB/s {:>6.0f} TFLOP/s fp16 {:>5.0f} W\n", name,
               p.name(), p.compute_major(), p.compute_minor(), p.sm_count(),
               p.memory_bandwidth().value() / 1e9, p.tensor_fp16().value() / 1e12, p.power_limit().value());
  }
  return 0;
}

int show(const std::string& name) {
  Profile p = load_profile(name);
  for (const FieldSpec& spec : profile_fields()) {
    if (!p.has(spec.id)) continue;
    const FieldValue& v = p.at(spec.id);
    fmt::print("{:<30} {:<22} {:<10} {} ({}:{})\n", spec.key, written(v), source_name(v.source), v.cite,
               v.file, v.line);
  }
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
      "`inherits = \"name\"` starts from another file; `abstract = true` marks a base. `ORRERY_GPUS` names a "
      "folder whose files\n"
      "come before the built-in ones.\n\n| field | unit | required | meaning |\n| --- | --- | --- | --- |\n");
  for (const FieldSpec& spec : profile_fields())
    fmt::print("| {} | {} | {} | {} |\n", spec.key, spec.unit, spec.required ? "yes" : "", spec.meaning);
  return 0;
}

int gpus_command(const std::vector<std::string>& args) {
  try {
    if (args.size() == 1 && args[0] == "list") return list();
    if (args.size() == 2 && args[0] == "show") return show(args[1]);
    if (args.size() == 3 && args[0] == "diff") return diff(args[1], args[2]);
    if (args.size() == 1 && args[0] == "doc") return doc();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "orrery gpus: {}\n", error.what());
    return 2;
  }
  bool help = args.size() == 1 && (args[0] == "--help" || args[0] == "-h");
  fmt::print(help ? stdout : stderr, "usage: orrery gpus list | show GPU | diff GPU GPU | doc\n");
  return help ? 0 : 2;
}

ORRERY_COMMAND(gpus, "GPU profiles: list, show, diff, doc", gpus_command);

}  // namespace
}  // namespace orrery::tools
