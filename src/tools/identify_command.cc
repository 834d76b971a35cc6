// tools/identify_command.cc: `orrery identify`: which tensor core made the results that a probe wrote.
//
// The probe (calib/tensor-core/probe.cc) multiplies matrices that every machine sums differently. Here the same products
// are computed with the sums of every machine that Orrery knows and compared output by output; what the GPU refused is
// compared, too. Two of the tests also tell how many fraction bits a sum keeps and how many products it takes at once,
// without asking which machine it was: that is what is left when none matches.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"
#include "profile/profile.h"
#include "sem/numerics.h"
#include "sem/probe.h"
#include "tools/command.h"

namespace orrery::tools {
namespace {

namespace probe = sem::probe;
using base::Error;
using sem::TensorCore;

struct Machine {
  TensorCore core;
  const char* name;
};
constexpr Machine kMachines[] = {{TensorCore::volta, "Volta"}, {TensorCore::turing, "Turing"}, {TensorCore::ampere, "Ampere"}, {TensorCore::ada, "Ada"}, {TensorCore::hopper, "Hopper"}};

sem::Element element_of(probe::Factor f) {
  switch (f) {
    case probe::Factor::f16: return sem::Element::f16;
    case probe::Factor::bf16: return sem::Element::bf16;
    case probe::Factor::tf32: return sem::Element::tf32;
    default: return sem::Element::e4m3;
  }
}

bool has(TensorCore core, const probe::Form& f) {
  if (f.kind == probe::Kind::wgmma) return core == TensorCore::hopper;
  return core >= (f.factor == probe::Factor::f16 ? TensorCore::volta : f.factor == probe::Factor::e4m3 ? TensorCore::ada : TensorCore::ampere);
}

/// What the machine's instruction gives for a test.
std::vector<uint32_t> results(TensorCore core, const probe::Form& f, int test) {
  const sem::Element e = element_of(f.factor);
  sem::SumRule rule = sem::sum_rule(core, e, e, false, f.kind == probe::Kind::wgmma || core == TensorCore::ada);
  if (rule.late_c) rule.block = f.k / 2;  // mma with fp8 is two products of f16, each half as long
  const probe::Inputs x = probe::inputs(f, test);
  std::vector<uint32_t> d = x.c;
  sem::multiply(rule, e, e, x.a.data(), x.b.data(), d.data(), f.m, f.n, f.k);
  return d;
}

/// What a file says.
struct Output {
  std::string device;
  std::set<std::string> unsupported;
  std::map<std::string, std::map<int, std::vector<uint32_t>>> tests;
};

std::vector<uint32_t> words_of(const std::string& hex) {
  std::vector<uint32_t> w;
  for (size_t i = 0; i + 8 <= hex.size(); i += 8) w.push_back(uint32_t(std::stoul(hex.substr(i, 8), nullptr, 16)));
  return w;
}

Output read_output(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw Error("cannot read " + path);
  std::string line;
  if (!std::getline(in, line) || line != "orrery-probe 1") throw Error(path + " is not the output of a tensor-core probe (its first line is not \"orrery-probe 1\")");
  Output out;
  for (int number = 2; std::getline(in, line); number++) {
    std::istringstream words(line);
    std::string name, second, hex;
    words >> name >> second >> hex;
    if (name == "device") {
      out.device = line.substr(std::min<size_t>(line.size(), 7));
      continue;
    }
    const auto form = std::find_if(std::begin(probe::kForms), std::end(probe::kForms), [&](const probe::Form& f) { return name == f.name; });
    const auto wrong = [&](const char* what) { return Error(fmt::format("{}:{}: {}", path, number, what)); };
    if (form == std::end(probe::kForms)) throw wrong("no such instruction in this probe");
    if (second == "unsupported") {
      out.unsupported.insert(name);
      continue;
    }
    const bool digits = !second.empty() && second.size() < 3 && second.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoi(second) >= form->tests) throw wrong("no such test in this probe");
    if (hex.size() != size_t(form->m * form->n) * 8 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) throw wrong("not a matrix of this instruction");
    out.tests[name][std::stoi(second)] = words_of(hex);
  }
  if (out.tests.empty()) throw Error(path + " holds no results");
  return out;
}

/// How a machine's results compare with the file's.
struct Comparison {
  size_t outputs = 0, different = 0;
  std::vector<std::string> against;  // reasons against it, in words
  std::map<std::string, size_t> by_form;
  bool matches() const { return outputs && !different && against.empty(); }
};

Comparison compare(TensorCore core, const Output& out) {
  Comparison c;
  for (const probe::Form& f : probe::kForms) {
    const auto tests = out.tests.find(f.name);
    if (tests == out.tests.end()) {
      if (out.unsupported.contains(f.name) && has(core, f)) c.against.push_back(fmt::format("has {}, which the GPU refused", f.name));
      continue;
    }
    if (!has(core, f)) {
      c.against.push_back(fmt::format("has no {}", f.name));
      continue;
    }
    for (const auto& [test, got] : tests->second) {
      const std::vector<uint32_t> want = results(core, f, test);
      size_t different = 0;
      for (size_t i = 0; i < want.size(); i++) different += want[i] != got[i];
      c.outputs += want.size(), c.different += different, c.by_form[f.name] += different;
    }
  }
  return c;
}

/// What the tests made for it show of a sum, whichever machine it was: -1 when they show nothing.
struct Measured {
  int fraction_bits = -1, block = -1;
};
Measured measure(const probe::Form& f, const std::map<int, std::vector<uint32_t>>& tests) {
  Measured m;
  // where C comes last, the cancelling pair and the rest are not in one sum
  if (f.kind == probe::Kind::mma && f.factor == probe::Factor::e4m3) return m;
  if (const auto t = tests.find(0); t != tests.end())
    for (int i = 0; i < f.m; i++)
      for (int j = 0; j < f.n; j++)
        if (t->second[size_t(i * f.n + j)]) m.fraction_bits = std::max(m.fraction_bits, probe::ladder_step(f, i, j));
  if (const auto t = tests.find(1); t != tests.end()) {
    int last = 0;
    for (int i = 0; i < f.m; i++)
      if (t->second[size_t(i * f.n)]) last = std::max(last, 1 + i % (f.k - 2));
    m.block = last ? f.k - 1 - last : f.k;
  }
  return m;
}

std::string gpus_of(TensorCore core) {
  std::string names;
  for (const std::string& id : list_profiles()) {
    const Profile p = load_profile(id);
    if (p.compute_major() < 10 && sem::tensor_core_of(10 * p.compute_major() + p.compute_minor()) == core) names += (names.empty() ? "" : ", ") + id;
  }
  return names;
}

nlohmann::ordered_json document(const std::string& file, const Output& out) {
  nlohmann::ordered_json doc;
  doc["schema"] = "orrery-identify-1";
  doc["file"] = file;
  doc["device_named_in_file"] = out.device;
  doc["answer"] = nlohmann::ordered_json::array();
  for (const Machine& m : kMachines) {
    const Comparison c = compare(m.core, out);
    if (c.matches()) doc["answer"].push_back(m.name);
    doc["machines"].push_back({{"tensor_core", m.name}, {"matches", c.matches()}, {"outputs", c.outputs}, {"different", c.different}, {"different_by_instruction", c.by_form},
                               {"against", c.against}, {"gpus", gpus_of(m.core)}});
  }
  for (const probe::Form& f : probe::kForms) {
    const auto tests = out.tests.find(f.name);
    if (tests == out.tests.end()) continue;
    const Measured m = measure(f, tests->second);
    nlohmann::ordered_json row{{"instruction", f.name}};
    if (m.fraction_bits >= 0) row["fraction_bits"] = m.fraction_bits;
    if (m.block >= 0) row["products_at_once"] = m.block;
    doc["measured"].push_back(row);
  }
  return doc;
}

void print(const nlohmann::ordered_json& doc) {
  const auto& answer = doc["answer"];
  for (const auto& m : doc["machines"])
    if (m["matches"]) fmt::print("{}: {} tensor core ({}): all {} outputs equal\n", doc["file"].get<std::string>(), m["tensor_core"].get<std::string>(), m["gpus"].get<std::string>(), m["outputs"].get<size_t>());
  if (answer.empty()) fmt::print("{}: none of the tensor cores that are known here\n", doc["file"].get<std::string>());
  fmt::print("\n");
  for (const auto& m : doc["machines"]) {
    std::string why;
    for (const auto& [form, n] : m["different_by_instruction"].items())
      if (n.get<size_t>()) why += fmt::format("{}{} of {}", why.empty() ? "" : ", ", n.get<size_t>(), form);
    if (!why.empty()) why += " differ";
    for (const auto& reason : m["against"]) why += (why.empty() ? "" : "; ") + reason.get<std::string>();
    fmt::print("  {:<8} {:>6} of {:>6} outputs equal  {}\n", m["tensor_core"].get<std::string>(), m["outputs"].get<size_t>() - m["different"].get<size_t>(), m["outputs"].get<size_t>(), why);
  }
  fmt::print("\nmeasured, whichever it is:\n");
  for (const auto& row : doc["measured"]) {
    if (!row.contains("fraction_bits") && !row.contains("products_at_once")) continue;
    fmt::print("  {:<12} keeps {} fraction bits, {} products at once\n", row["instruction"].get<std::string>(), row.value("fraction_bits", -1), row.value("products_at_once", -1));
  }
}

int identify_command(const std::vector<std::string>& args) {
  CLI::App app{"Tell from a tensor-core probe's results which architecture made them.\n"
               "Make them with calib/tensor-core/probe.cc: on a GPU, ./tensor_probe probe-output; on a simulated one,\n"
               "orrery run --gpu a100 ./tensor_probe probe-output. Then: orrery identify probe-output\n"
               "Exit status: 0 one architecture matches in every output, 1 none or several do.", "orrery identify"};
  std::string file;
  bool json = false;
  app.add_option("file", file, "what the probe wrote")->required();
  app.add_flag("--json", json, "as JSON");
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    const nlohmann::ordered_json doc = document(file, read_output(file));
    if (json) fmt::print("{}\n", doc.dump(2));
    else print(doc);
    return doc["answer"].size() == 1 ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery identify: {}\n", error.what());
    return 2;
  }
}

ORRERY_COMMAND(identify, "which architecture's tensor core made a probe's results", identify_command);

}  // namespace
}  // namespace orrery::tools
