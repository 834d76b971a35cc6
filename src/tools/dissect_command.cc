// `orrery dissect`: the microbenchmarks of calib/ and the figures that follow from them (calib/figures.toml). On the simulated
// GPU it runs them under the timing model and prints each figure beside the profile, the GPU's own measurement and what was
// published; on a machine with a GPU it runs the suite there and writes a profile, each value with the measurement it
// comes from. Not here: the programs themselves (calib/dissect, calib/steps).
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/toml.h"
#include "profile/profile.h"
#include "tools/cases.h"
#include "tools/command.h"
#include "tools/expression.h"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Figure {
  std::string name, gives, shows, published, why;
  const std::string& expression() const { return gives.empty() ? shows : gives; }
};

/// Measurements by table and name.
using Measurements = std::map<std::string, std::map<std::string, double>>;

struct Options {
  std::string gpu = "h200", calib = "calib", suite, steps, write, json_file, markdown, only;
  std::vector<std::string> from;
  bool real = false;
};

std::vector<Figure> read_figures(const fs::path& file) {
  std::vector<Figure> out;
  const toml::table all = base::read_toml(file.string());
  const toml::array* list = all["figure"].as_array();
  if (!list) throw std::runtime_error(file.string() + " has no [[figure]]");
  for (const toml::node& node : *list) {
    const toml::table& t = *node.as_table();
    const auto text = [&](const char* key) { return t[key].value_or(std::string()); };
    Figure f{text("name"), text("gives"), text("shows"), text("published"), text("why")};
    if (f.name.empty() || f.expression().empty()) throw std::runtime_error(fmt::format("{}:{}: a figure needs a name, and gives or shows", file.string(), node.source().begin.line));
    out.push_back(std::move(f));
  }
  return out;
}

LookUp in(const Measurements& m) {
  return [&m](const std::string& table, const std::string& name) -> std::optional<double> {
    const auto t = m.find(table);
    if (t == m.end() || !t->second.count(name)) return std::nullopt;
    return t->second.at(name);
  };
}

/// What expressions may take from the profile itself, in base units.
void read_profile(const std::string& gpu, Measurements& m) {
  const Profile p = load_profile(gpu);
  for (const FieldSpec& spec : profile_fields())
    if (p.has(spec.id) && spec.unit != "text") m["profile"][std::string(spec.key)] = p.at(spec.id).number;
}

/// Adds what a file of JSON lines holds: measurements of the suite by name, or cases with their counters.
void read_measurements(const fs::path& file, Measurements& m) {
  std::ifstream lines(file);
  if (!lines) throw std::runtime_error("cannot read " + file.string());
  for (std::string line; std::getline(lines, line);) {
    const json j = json::parse(line, nullptr, false);
    if (!j.is_object()) continue;
    if (j.contains("name") && j.contains("value")) m["suite"][j["name"]] = j["value"];
    if (!j.contains("case")) continue;
    const auto take = [&](const char* key, const char* table) {
      if (j.contains(key) && j[key].is_number()) m[table][j["case"]] = j[key];
    };
    take("cold_cycles", "cold"), take("warm_cycles", "warm"), take("cold_dram_read", "read"), take("cold_dram_write", "written"), take("warm_tex_sectors", "sectors"), take("cold_l2_sectors", "cold_l2"), take("warm_l2_sectors", "warm_l2");
  }
}

/// Which measurements the figures name, by table.
std::map<std::string, std::set<std::string>> wanted_by(const std::vector<Figure>& figures) {
  std::map<std::string, std::set<std::string>> out;
  for (const Figure& f : figures)
    evaluate(f.expression(), [&](const std::string& table, const std::string& name) -> std::optional<double> {
      out[table].insert(name);
      return 1.0;
    });
  return out;
}

void build(const Options& o, const fs::path& folder, const std::string& program, const std::string& sources) {
  fs::create_directories(folder);
  fmt::print(stderr, "orrery dissect: building {} ...\n", (folder / program).string());
  const std::string flags = "-O3 -std=c++20 -w -gencode arch=compute_90a,code=[sm_90a,compute_90a]";
  const std::string command = fmt::format("cd '{}' && nvcc {} -o '{}' {} >/dev/null 2>&1", o.calib, flags, fs::absolute(folder / program).string(), sources);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("nvcc could not build " + program + "; give the programs with --suite and --steps");
}

/// Is a program missing, or older than a source in one of the folders of calib?
bool is_stale(const Options& o, const fs::path& program, std::initializer_list<const char*> folders) {
  std::error_code none;
  const auto made = fs::last_write_time(program, none);
  if (none) return true;
  for (const char* folder : folders)
    for (const auto& entry : fs::directory_iterator(fs::path(o.calib) / folder))
      if (const fs::path kind = entry.path().extension(); (kind == ".cu" || kind == ".h") && fs::last_write_time(entry.path()) > made) return true;
  return false;
}

void build_missing(Options& o) {
  const fs::path folder = "build-dissect";
  const auto missing = [&](std::string& program, const char* name, const char* sources, std::initializer_list<const char*> folders) {
    if (!program.empty()) return;
    program = fs::absolute(folder / name).string();
    if (is_stale(o, program, folders)) build(o, folder, name, sources);
  };
  missing(o.suite, "suite", "dissect/*.cu", {"dissect"});
  missing(o.steps, "steps", "steps/*.cu truth/truth.cu", {"steps", "truth"});
}

/// The groups of the suite in which the wanted measurements are.
std::string group_of(const std::string& name) {
  static const std::pair<const char*, const char*> kGroups[] = {{"instruction.", "instructions"}, {"latency.dsmem", "synchronisation"}, {"bandwidth.dsmem.read.", "synchronisation"},
    {"latency.", "memory"}, {"interval.", "memory"}, {"atomic.", "memory"}, {"barrier.", "synchronisation"}, {"mbarrier.", "synchronisation"}, {"fence.", "synchronisation"},
    {"tma.bulk", "bulk_copies"}, {"tma.", "boxes"}, {"mma.m16n8k16.", "tensor_cores"}, {"mma.", "products"}, {"wgmma.", "tensor_cores"}, {"overlap.", "overlap"},
    {"launch.", "launches"}, {"power.", "power"}, {"turns.", "turns"}, {"fills.", "fills"}, {"lane_lines.", "lane_lines"}};
  if (name.rfind("wgmma.", 0) == 0 && name.find('_') != std::string::npos) return "products";
  for (const auto& [prefix, group] : kGroups)
    if (name.rfind(prefix, 0) == 0) return group;
  return "memory";
}

/// Runs the suite and the cases under the timing model.
Measurements simulate(const Options& o, const std::vector<Figure>& figures) {
  Measurements m;
  read_profile(o.gpu, m);
  auto wanted = wanted_by(figures);
  std::set<std::string> groups;
  for (const std::string& name : wanted["suite"]) groups.insert(group_of(name));
  TimeOptions t;
  t.gpu = o.gpu, t.results = "none";
  for (const std::string& group : groups) {
    fmt::print(stderr, "orrery dissect: {} ...\n", group);
    t.cache = "warm";
    const fs::path lines = fs::temp_directory_path() / fmt::format("orrery-dissect-{}.jsonl", getpid());
    time_quietly(t, {o.suite, group}, lines.string());
    read_measurements(lines, m);
    fs::remove(lines);
  }
  for (const char* cache : {"cold", "warm"}) {
    std::set<std::string> cases = wanted[cache];
    const bool cold = cache == std::string("cold");
    for (const char* table : cold ? std::vector{"read", "written", "cold_l2"} : std::vector{"sectors", "warm_l2"}) cases.insert(wanted[table].begin(), wanted[table].end());
    fmt::print(stderr, "orrery dissect: {} whole kernels, {} ...\n", cases.size(), cache);
    t.cache = cache;
    for (const std::string& name : cases) {
      const auto record = predict_case(t, o.steps, name, case_names(o.steps, name));
      if (!record || record->contains("error")) {
        fmt::print(stderr, "orrery dissect: {} was not timed: {}\n", name, record ? record->at("error").get<std::string>() : "there is no such case");
        continue;
      }
      m[cache][name] = (*record)["cycles"];
      m[cold ? "cold_l2" : "warm_l2"][name] = (*record)["l2_sectors"];
      if (cold) m["read"][name] = (*record)["dram_read"], m["written"][name] = (*record)["dram_write"];
      else m["sectors"][name] = (*record)["l2_tex_sectors"];
    }
  }
  return m;
}

std::string number(const std::optional<double>& v) { return v ? fmt::format("{:.5g}", *v) : "-"; }

std::optional<double> of_profile(const Profile& p, const std::string& key) {
  for (const FieldSpec& spec : profile_fields())
    if (spec.key == key && p.has(spec.id)) return p.at(spec.id).written;
  return std::nullopt;
}

/// The table; returns how many figures do not come out: not simulated, or more than 3% apart with no reason given.
size_t print_table(const Options& o, const std::vector<Figure>& figures, const Measurements& measured, const Measurements& simulated) {
  const Profile profile = load_profile(o.gpu);
  json rows = json::array();
  std::string page = "| figure | profile | measured | simulated | difference | published |\n| --- | --- | --- | --- | --- | --- |\n";
  size_t compared = 0, apart = 0, unexplained = 0;
  fmt::print("{:<52} {:>10} {:>10} {:>10} {:>8}  {}\n", "figure", "profile", "measured", "simulated", "", "published");
  for (const Figure& f : figures) {
    const auto own = of_profile(profile, f.name), there = evaluate(f.expression(), in(measured)), here = evaluate(f.expression(), in(simulated));
    const auto aim = there ? there : f.gives.empty() ? there : own;
    const std::string difference = aim && here && *aim != 0 ? fmt::format("{:+.1f}%", 100 * (*here / *aim - 1)) : "-";
    const bool wide = aim && here && std::fabs(*here / *aim - 1) > 0.03;
    compared += aim && here, apart += wide, unexplained += !here || (wide && f.why.empty());
    fmt::print("{:<52} {:>10} {:>10} {:>10} {:>8}  {}{}\n", f.name, number(own), number(there), number(here), difference, f.published, wide && !f.why.empty() ? "  (" + f.why + ")" : "");
    page += fmt::format("| {} | {} | {} | {} | {}{} | {} |\n", f.name, number(own), number(there), number(here), difference, wide && !f.why.empty() ? ": " + f.why : "", f.published);
    rows.push_back({{"name", f.name}, {"expression", f.expression()}, {"published", f.published}, {"why", f.why}});
    if (own) rows.back()["profile"] = *own;
    if (there) rows.back()["measured"] = *there;
    if (here) rows.back()["simulated"] = *here;
  }
  fmt::print("{} of {} figures are given back within 3%; {} of {} without a reason or not simulated\n", compared - apart, compared, unexplained, figures.size());
  if (!o.json_file.empty()) write_or_throw(o.json_file, rows.dump(1) + "\n");
  if (!o.markdown.empty()) write_or_throw(o.markdown, page);
  return unexplained;
}

/// What the files say of where their measurements come from: their lines that name a GPU.
std::set<std::string> headers_of(const std::vector<std::string>& files) {
  std::set<std::string> out;
  for (const std::string& file : files) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);)
      if (const json j = json::parse(line, nullptr, false); j.is_object() && j.contains("gpu")) out.insert(fs::path(file).filename().string() + ": " + j.dump());
  }
  return out;
}

/// A profile: what the measurements give; figures that were fitted stay those of the reference, marked as assumed.
void write_profile(const Options& o, const std::vector<Figure>& figures, const Measurements& measured) {
  const Profile reference = load_profile(o.gpu);
  std::string sources;
  for (const std::string& file : o.from) sources += (sources.empty() ? "" : ", ") + fs::path(file).filename().string();
  std::string date(16, 0);
  const std::time_t now = std::time(nullptr);
  date.resize(std::strftime(date.data(), date.size(), "%Y-%m-%d", std::gmtime(&now)));
  std::ofstream out(o.write);
  if (!out) throw std::runtime_error("cannot write " + o.write);
  out << "# Written by orrery dissect on " << date << " from " << sources << "; what the expressions mean: calib/figures.toml.\n";
  for (const std::string& line : headers_of(o.from)) out << "# " << line << "\n";
  out << "inherits = \"" << o.gpu << "\"\n\n[timing]\n";
  size_t given = 0;
  for (const Figure& f : figures) {
    const auto own = of_profile(reference, f.name);
    auto value = f.gives.empty() ? std::nullopt : evaluate(f.gives, in(measured));
    if (!own) continue;
    if (value && *value <= 0) {  // a difference of two launches may be less than they scatter
      fmt::print(stderr, "orrery dissect: {} comes out as {:.4g} and stays that of {}\n", f.name, *value, o.gpu);
      value.reset();
    }
    for (const FieldSpec& spec : profile_fields()) {
      if (spec.key != f.name) continue;
      const std::string key = f.name.substr(f.name.find('.') + 1);
      if (value) out << fmt::format("{} = {{ value = {:.6g}, unit = \"{}\", source = \"measured\", cite = \"orrery dissect, {}: {}\" }}\n", key, *value, spec.unit, date, f.gives), given++;
      else out << fmt::format("{} = {{ value = {:.6g}, unit = \"{}\", source = \"assumed\", cite = \"as {}: fitted to {} there\" }}\n", key, *own, spec.unit, o.gpu, f.expression());
    }
  }
  fmt::print("{}: {} figures measured, the others as {}\n", o.write, given, o.gpu);
}

/// Runs the suite on the GPU of this machine, and those whole kernels that figures name; returns the files of measurements.
std::vector<std::string> measure(const Options& o, const std::vector<Figure>& figures) {
  auto wanted = wanted_by(figures);
  std::set<std::string> names;
  for (const char* table : {"cold", "warm", "read", "written", "sectors", "cold_l2", "warm_l2"}) names.insert(wanted[table].begin(), wanted[table].end());
  std::string words;
  for (const std::string& name : names) words += (words.empty() ? "" : ",") + name;
  const fs::path folder = "build-dissect/measured";
  fs::create_directories(folder);
  const std::string suite = (folder / "suite.jsonl").string(), cases = (folder / "steps.jsonl").string();
  const auto run = [](const std::string& command) {
    fmt::print(stderr, "orrery dissect: {}\n", command);
    if (std::system(command.c_str()) != 0) throw std::runtime_error("this failed: " + command);
  };
  run(fmt::format("'{}' > '{}'", o.suite, suite));
  run(fmt::format("REPEATS=9 STEPS='{}' bash '{}/steps/run.sh' '{}' '{}' ''", o.steps, o.calib, folder.string(), words));
  run(fmt::format("python3 '{}/truth/collect' '{}' > '{}'", o.calib, folder.string(), cases));
  return {suite, cases};
}

std::vector<std::string> checked_in(const Options& o) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(fs::path(o.calib) / "raw")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(o.gpu + "-2", 0) == 0) out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

int dissect_command(const std::vector<std::string>& words) {
  CLI::App app{"Run the microbenchmarks and compare with the profile, or write one.\n"
               "Example: orrery dissect --gpu h200          (on the simulated GPU)\n"
               "         orrery dissect --real --write mine.toml   (on the GPU of this machine; needs nvcc and ncu)", "orrery dissect"};
  Options o;
  app.add_option("--gpu", o.gpu, "GPU to simulate, or whose figures a new profile starts from (default h200)");
  app.add_option("--calib", o.calib, "folder of the microbenchmarks (default calib)");
  app.add_option("--suite", o.suite, "calib/dissect, built (default: built by nvcc in build-dissect)");
  app.add_option("--steps", o.steps, "calib/steps, built (the same)");
  app.add_flag("--real", o.real, "run on the GPU of this machine");
  app.add_option("--from", o.from, "measurements (JSON lines; default those of the GPU in calib/raw)");
  app.add_option("--write", o.write, "write a profile from the measurements");
  app.add_option("--only", o.only, "only figures whose name holds this");
  app.add_option("--json", o.json_file, "write the table to this file");
  app.add_option("--markdown", o.markdown, "write the table to this file");
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
    for (const std::string& file : {o.json_file, o.markdown, o.write}) require_writable(file);
    std::vector<Figure> figures = read_figures(fs::path(o.calib) / "figures.toml");
    std::erase_if(figures, [&](const Figure& f) { return f.name.find(o.only) == std::string::npos; });
    if (figures.empty()) throw std::runtime_error("no figure's name holds '" + o.only + "'");
    if (o.real) build_missing(o), o.from = measure(o, figures);
    if (o.from.empty()) o.from = checked_in(o);
    Measurements measured;
    read_profile(o.gpu, measured);
    for (const std::string& file : o.from) read_measurements(file, measured);
    if (!o.write.empty()) return write_profile(o, figures, measured), 0;
    build_missing(o);
    if (print_table(o, figures, measured, simulate(o, figures)) > 0) return 1;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery dissect: {}\n", error.what());
    return 2;
  }
  return 0;
}

ORRERY_COMMAND(dissect, "run the microbenchmarks: the profile given back, or a new one", dissect_command);

}  // namespace
}  // namespace orrery::tools
