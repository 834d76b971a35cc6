// Reads gpus/*.toml. Strict by design: an unknown section or key, a value without unit, source or citation, a
// unit of another dimension, or a required field that is absent stops the load with file, line and the
// field's meaning.
//
//   inherits = "h100"          optional: start from that file's values
//   abstract = true            optional: a base for others, not a GPU; required fields may be absent
//   [timing]
//   inherits = "h200"          optional: start from that file's values of this section
//   [memory]
//   bandwidth = { value = 4800, unit = "GB/s", source = "datasheet", cite = "..." }
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/toml.h"
#include "profile/embedded.h"
#include "profile/profile.h"
#include "profile/what_if.h"

namespace orrery {
namespace {

struct Unit {
  std::string_view name;
  std::string_view dimension;
  double scale;
};
constexpr Unit kUnits[] = {
    {"text", "text", 1},
    {"flag", "flag", 1},
    {"count", "number", 1},
    {"ratio", "ratio", 1},
    {"bit", "bits", 1},
    {"B", "bytes", 1},
    {"KiB", "bytes", 1024},
    {"MiB", "bytes", 1048576},
    {"GiB", "bytes", 1073741824},
    {"GB", "bytes", 1e9},
    {"B/cycle", "bytes/cycle", 1},
    {"GB/s", "bytes/s", 1e9},
    {"TB/s", "bytes/s", 1e12},
    {"cycles", "cycles", 1},
    {"results/cycle", "results/cycle", 1},
    {"MHz", "cycles/s", 1e6},
    {"GHz", "cycles/s", 1e9},
    {"TFLOP/s", "ops/s", 1e12},
    {"TOP/s", "ops/s", 1e12},
    {"ns", "s", 1e-9},
    {"us", "s", 1e-6},
    {"ms", "s", 1e-3},
    {"W", "W", 1},
    {"pJ/B", "J/byte", 1e-12},
    {"pJ/flop", "J/op", 1e-12},
};

const Unit* find_unit(std::string_view name) {
  for (const Unit& unit : kUnits)
    if (unit.name == name) return &unit;
  return nullptr;
}

std::optional<Source> find_source(std::string_view name) {
  for (Source source : {Source::kDatasheet, Source::kMeasured, Source::kPaper, Source::kAssumed})
    if (source_name(source) == name) return source;
  return std::nullopt;
}

struct SourceText {
  std::string file;  // for messages
  std::string text;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ProfileError("cannot read GPU profile " + path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::optional<std::filesystem::path> override_dir() {
  const char* dir = std::getenv("ORRERY_GPUS");
  if (!dir || !*dir) return std::nullopt;
  return std::filesystem::path(dir);
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".toml");
}

std::string known_names() {
  std::string names;
  for (const std::string& name : list_profiles()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

SourceText find_text(const std::string& name) {
  if (is_path(name)) return {name, read_file(name)};
  if (auto dir = override_dir()) {
    auto path = *dir / (name + ".toml");
    if (std::filesystem::exists(path)) return {path.string(), read_file(path)};
  }
  for (const EmbeddedFile& file : embedded_profiles())
    if (file.name == name) return {"built-in:" + name + ".toml", std::string(file.text)};
  throw ProfileError("unknown GPU '" + name + "'; known: " + known_names() + ", or a path to a .toml file (a count of GPUs follows behind a colon: h200:8)");
}

}  // namespace

void set_from_text(Profile& profile, std::string_view setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string_view::npos) throw ProfileError("a setting is KEY=VALUE with its unit, for example memory.bandwidth=8TB/s; got '" + std::string(setting) + "'");
  std::string key(setting.substr(0, equals));
  if (key.starts_with("hbm.")) key = "memory." + key.substr(4);
  const auto id = find_field(key);
  if (!id) throw ProfileError("unknown field " + key + " (docs/profile.md lists the fields)");
  const FieldSpec& spec = field_spec(*id);
  const std::string value(setting.substr(equals + 1));
  size_t used = 0;
  double number = 0;
  try {
    number = std::stod(value, &used);
  } catch (const std::exception&) {
    throw ProfileError("'" + value + "' is no number for " + key + " [" + std::string(spec.unit) + "]: " + std::string(spec.meaning));
  }
  const std::string name = used < value.size() ? value.substr(used) : std::string(spec.unit);
  const Unit *unit = find_unit(name), *wanted = find_unit(spec.unit);
  if (!unit || unit->dimension != wanted->dimension || !std::isfinite(number) || number < 0)
    throw ProfileError("'" + value + "' does not fit " + key + " [" + std::string(spec.unit) + "]: " + std::string(spec.meaning));
  profile.set(*id, number * unit->scale, "set by the user");
}

class ProfileLoader {
 public:
  Profile load(const std::string& name) {
    Profile profile;
    profile.id_ = is_path(name) ? std::filesystem::path(name).stem().string() : name;
    bool abstract = read(find_text(name), profile);
    if (abstract) throw ProfileError("profile '" + name + "' is abstract: a base for others, not a GPU");
    for (const FieldSpec& spec : profile_fields())
      if (spec.required && !profile.has(spec.id))
        throw ProfileError("profile '" + name + "' lacks the required field " + describe(spec));
    return profile;
  }

  static bool is_abstract(std::string_view text) { return toml::parse(text)["abstract"].value_or(false); }

 private:
  static std::string describe(const FieldSpec& spec) {
    return std::string(spec.key) + " [" + std::string(spec.unit) + "]: " + std::string(spec.meaning);
  }

  [[noreturn]] static void fail(const SourceText& from, const toml::source_region& at,
                                const std::string& what) {
    throw ProfileError(from.file + ":" + std::to_string(at.begin.line) + ": " + what);
  }

  // Returns whether the file is abstract.
  bool read(const SourceText& from, Profile& profile) {
    if (std::ranges::find(reading_, from.file) != reading_.end())
      throw ProfileError(from.file + ": inherits from itself");
    reading_.push_back(from.file);
    toml::table root;
    try {
      root = toml::parse(from.text, from.file);
    } catch (const toml::parse_error& error) {
      fail(from, error.source(), std::string(error.description()));
    }
    bool abstract = false;
    if (const auto* node = root.get("inherits")) read(find_text(base_of(from, *node)), profile);
    for (auto&& [key, node] : root) {
      if (key == "inherits") continue;
      if (key == "abstract" && node.is_boolean()) {
        abstract = *node.value<bool>();
        continue;
      }
      const auto* section = node.as_table();
      if (!section)
        fail(from, node.source(), "unknown key '" + std::string(key.str()) + "' outside a section");
      const std::string prefix = std::string(key.str()) + ".";
      if (const auto* base = section->get("inherits")) read_section(find_text(base_of(from, *base)), prefix, profile);
      for (auto&& [name, entry] : *section)
        if (name != "inherits") read_field(from, prefix + std::string(name.str()), entry, profile);
    }
    reading_.pop_back();
    return abstract;
  }

  static std::string base_of(const SourceText& from, const toml::node& node) {
    auto base = node.value<std::string>();
    if (!base) fail(from, node.source(), "inherits must be the name of another profile");
    return *base;
  }

  // Takes one section of another file, instead of what there is.
  void read_section(const SourceText& from, std::string_view prefix, Profile& profile) {
    Profile base;
    read(from, base);
    bool found = false;
    for (const FieldSpec& spec : profile_fields()) {
      if (!spec.key.starts_with(prefix)) continue;
      std::optional<FieldValue>& value = base.values_[Profile::index(spec.id)];
      found |= value.has_value();
      profile.values_[Profile::index(spec.id)] = std::move(value);
    }
    if (!found)
      throw ProfileError(from.file + ": has no section " + std::string(prefix.substr(0, prefix.size() - 1)) + " to inherit");
  }

  static void read_field(const SourceText& from, const std::string& key, const toml::node& node,
                         Profile& profile) {
    auto id = find_field(key);
    if (!id) fail(from, node.source(), "unknown field " + key + " (docs/profile.md lists the fields)");
    const FieldSpec& spec = field_spec(*id);
    const auto* table = node.as_table();
    if (!table) fail(from, node.source(), "needs { value, unit, source, cite }: " + describe(spec));
    for (auto&& [part, value] : *table)
      if (part != "value" && part != "unit" && part != "source" && part != "cite")
        fail(from, value.source(), "unknown part '" + std::string(part.str()) + "' of " + describe(spec));

    FieldValue field;
    field.file = from.file;
    field.line = static_cast<int>(node.source().begin.line);
    field.unit = string_part(from, *table, "unit", spec);
    field.cite = string_part(from, *table, "cite", spec);
    auto source = find_source(string_part(from, *table, "source", spec));
    if (!source)
      fail(from, table->get("source")->source(),
           "source must be datasheet, measured, paper or assumed: " + describe(spec));
    field.source = *source;
    read_value(from, *table, spec, field);
    if (*id == FieldId::sm_groups && field.text.find_first_not_of("0123456789 ") != std::string::npos)
      fail(from, table->get("value")->source(), "value must be counts with spaces between: " + describe(spec));
    profile.values_[Profile::index(*id)] = std::move(field);
  }

  static std::string string_part(const SourceText& from, const toml::table& table, std::string_view part,
                                 const FieldSpec& spec) {
    const auto* node = table.get(part);
    if (!node) fail(from, table.source(), "no " + std::string(part) + " for " + describe(spec));
    auto text = node->value<std::string>();
    if (!text || text->empty())
      fail(from, node->source(), std::string(part) + " must be a non-empty string: " + describe(spec));
    return *text;
  }

  static void read_value(const SourceText& from, const toml::table& table, const FieldSpec& spec,
                         FieldValue& field) {
    const auto* node = table.get("value");
    if (!node) fail(from, table.source(), "no value for " + describe(spec));
    const Unit* unit = find_unit(field.unit);
    const Unit* wanted = find_unit(spec.unit);
    if (!unit) fail(from, node->source(), "unknown unit '" + field.unit + "' for " + describe(spec));
    if (unit->dimension != wanted->dimension)
      fail(from, node->source(), "unit '" + field.unit + "' does not fit " + describe(spec));
    if (unit->dimension == "text") {
      if (!node->is_string()) fail(from, node->source(), "value must be a string: " + describe(spec));
      field.text = *node->value<std::string>();
    } else if (unit->dimension == "flag") {
      if (!node->is_boolean()) fail(from, node->source(), "value must be true or false: " + describe(spec));
      field.number = field.written = *node->value<bool>() ? 1 : 0;
    } else {
      if (!node->is_number()) fail(from, node->source(), "value must be a number: " + describe(spec));
      field.written = *node->value<double>();
      field.number = field.written * unit->scale;
      if (!(field.number >= 0) || !std::isfinite(field.number))
        fail(from, node->source(), "value must be finite and not negative: " + describe(spec));
    }
  }

  std::vector<std::string> reading_;  // the files under way, each the base of the one before it
};

Profile load_profile(const std::string& name_or_path) { return ProfileLoader().load(name_or_path); }

Profile load_profile_of(const FieldValue& value) {
  constexpr std::string_view kBuiltIn = "built-in:", kEnding = ".toml";
  const std::string& file = value.file;
  if (!file.starts_with(kBuiltIn)) return load_profile(file);
  return load_profile(file.substr(kBuiltIn.size(), file.size() - kBuiltIn.size() - kEnding.size()));
}

std::vector<std::string> list_profiles() {
  std::set<std::string> names;
  for (const EmbeddedFile& file : embedded_profiles())
    if (!ProfileLoader::is_abstract(file.text)) names.insert(std::string(file.name));
  if (auto dir = override_dir(); dir && std::filesystem::is_directory(*dir)) {
    for (const auto& entry : std::filesystem::directory_iterator(*dir)) {
      if (entry.path().extension() != ".toml") continue;
      try {
        if (!ProfileLoader::is_abstract(read_file(entry.path()))) names.insert(entry.path().stem().string());
      } catch (const toml::parse_error&) {
        names.insert(entry.path().stem().string());  // loading it will say what is wrong
      }
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace orrery
