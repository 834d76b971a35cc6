// sanitize/finding.cc: see finding.h.
#include "sanitize/finding.h"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "exec/decode.h"
#include "exec/run_state.h"

namespace orrery::sanitize {

using nlohmann::ordered_json;

std::string kernel_of(const exec::Where& where) { return base::demangled(where.run->kernel.entry->program->name); }

Place place_of(const exec::DecodedProgram& code, const std::string& kernel, uint32_t pc) {
  const lower::Program& p = *code.program;
  Place place;
  place.kernel = kernel;
  if (std::string name = base::demangled(p.name); name != kernel) place.function = name;
  if (pc >= p.code.size()) return place;
  const ptx::Loc& loc = p.code[pc].loc;
  place.ptx_line = loc.line;
  place.source_line = loc.source_line;
  if (loc.source_line && loc.file < p.module->files.size()) place.source_file = p.module->files[loc.file];
  place.instruction = ptx::to_string(*p.module, *p.source, p.code[pc]);
  const auto& sites = p.module->call_sites;
  for (uint32_t at = loc.inlined; at && at < sites.size() && place.called_from.size() < 32; at = sites[at].inlined)
    place.called_from.push_back({sites[at].file < p.module->files.size() ? p.module->files[sites[at].file] : "", sites[at].source_line});
  return place;
}

Place place_of(const exec::Where& where, int lane) {
  Place place = place_of(*where.code, kernel_of(where), where.pc);
  if (lane < 0) lane = where.mask ? std::countr_zero(where.mask) : 0;
  const exec::WarpContext& w = *where.warp;
  place.in_kernel = true;
  for (int i = 0; i < 3; i++) place.block[i] = w.cta->ctaid[i];
  place.thread[0] = w.tid_x[lane], place.thread[1] = w.tid_y[lane], place.thread[2] = w.tid_z[lane];
  return place;
}

namespace {
/// A line of the source is one place, however often the compiler has unrolled it, but not however often it was inlined.
std::string key_of(const Place& p) {
  std::string key = fmt::format("{}|{}|{}|{}|{}|{}", p.kernel, p.function, p.source_file, p.source_line, p.source_line ? 0 : p.ptx_line, p.source_line ? "" : p.instruction);
  for (const Place::Call& c : p.called_from) key += fmt::format("|{}:{}", c.file, c.line);
  return key;
}

ordered_json json_of(const Place& p) {
  ordered_json j = ordered_json::object();
  if (!p.kernel.empty()) j["kernel"] = p.kernel;
  if (!p.function.empty()) j["function"] = p.function;
  if (p.in_kernel) {
    j["block"] = p.block;
    j["thread"] = p.thread;
  }
  if (!p.source_file.empty()) j["file"] = p.source_file;
  if (p.source_line) j["line"] = p.source_line;
  if (p.ptx_line) j["ptx_line"] = p.ptx_line;
  if (!p.instruction.empty()) j["instruction"] = p.instruction;
  for (const Place::Call& c : p.called_from) j["called_from"].push_back({{"file", c.file}, {"line", c.line}});
  return j;
}

Place place_from(const ordered_json& j) {
  Place p;
  p.kernel = j.value("kernel", "");
  p.function = j.value("function", "");
  p.in_kernel = j.contains("block");
  for (size_t i = 0; i < 3 && p.in_kernel; i++) p.block[i] = j["block"][i], p.thread[i] = j["thread"][i];
  p.source_file = j.value("file", "");
  p.source_line = j.value("line", 0u);
  p.ptx_line = j.value("ptx_line", 0u);
  p.instruction = j.value("instruction", "");
  if (j.contains("called_from"))
    for (const ordered_json& c : j["called_from"]) p.called_from.push_back({c.value("file", ""), c.value("line", 0u)});
  return p;
}
}  // namespace

std::string Finding::key() const {
  std::string k = check + "|" + kind + "|" + key_of(place);
  for (const Party& o : others) k += "|" + o.what + "|" + key_of(o.place);
  if (place.kernel.empty()) k += "|" + message;
  return k;
}

std::string to_json(const Finding& f) {
  ordered_json j;
  j["check"] = f.check;
  j["kind"] = f.kind;
  j["severity"] = f.severity;
  j["message"] = f.message;
  j["where"] = json_of(f.place);
  if (f.address) j["address"] = fmt::format("{:#x}", f.address);
  for (const Party& o : f.others) {
    ordered_json party{{"what", o.what}, {"where", json_of(o.place)}};
    if (!o.value.empty()) party["value"] = o.value;
    j["others"].push_back(party);
  }
  if (!f.remedy.empty()) j["remedy"] = f.remedy;
  if (!f.waits.empty()) j["waits"] = ordered_json::parse(f.waits);
  j["count"] = f.count;
  if (!f.seed.empty()) j["seed"] = f.seed;
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Finding finding_from_json(const std::string& text) {
  const ordered_json j = ordered_json::parse(text);
  Finding f;
  f.check = j.at("check");
  f.kind = j.at("kind");
  f.severity = j.value("severity", "error");
  f.message = j.value("message", "");
  f.place = place_from(j.at("where"));
  if (j.contains("address")) f.address = std::strtoull(j["address"].get<std::string>().c_str(), nullptr, 16);
  if (j.contains("others"))
    for (const ordered_json& o : j["others"]) f.others.push_back({o.value("what", ""), place_from(o.at("where")), o.value("value", "")});
  f.remedy = j.value("remedy", "");
  if (j.contains("waits")) f.waits = j["waits"].dump();
  f.count = j.value("count", uint64_t{1});
  f.seed = j.value("seed", "");
  return f;
}

}  // namespace orrery::sanitize
