// timing/describe.cc: time, clock, energy and bound from what was simulated; the prediction as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "timing/predictor.h"
#include "timing/touched_slices.h"

namespace orrery::timing {

namespace {

constexpr double kResidualWithoutCode = 0.4;  // the same with the stand-in for ptxas
constexpr double kResidualCrowded = 1;        // loops of compare and swap that fail: half to twice the time [swap_to_add_, swap_to_most_any]

/// Of the clock, the power with which an event's energy goes, as voltage does: of one launch [joules_wgmma_sms/33 to 132, joules_wgmma_copies: 1,470 to
/// 1,980 MHz], and on average over launches without end, whose clock the limit moves up and down [the same rows, by launches a second].
constexpr double kVoltage = 2, kVoltageSustained = 1.5;

/// Of the full clock, what kernels without products keep in one launch, whatever they draw [power_dmma/4: 1,936 MHz, sum_loop/16777216 and
/// update_once/16777216 at 4.05 TB/s: 1,951 and 1,953; none of calib/steps is slower].
constexpr double kPlainSlowest = 0.978;

/// Four in five of the 186 judged cases of a kind (calib/truth, cold caches) are predicted to within this share of the time.
double residual_of(const std::string& bound, bool regular, bool tensor) {
  if (tensor) return 0.23;
  if (!regular) return 0.15;
  if (bound == "DRAM" || bound == "L2") return 0.13;
  return bound == "latency" || bound == "launch" ? 0.17 : 0.12;
}

constexpr double kLaunchedSms = 0.125;  // a grid takes as long to launch on so many as on all [small_nothing_32/1 to 132: 2834, 2838, 2843, 2892, 2944, 2960, 2972, 2981 cycles]

}  // namespace

/// Sectors of L2 for barriers of memory: fences, and the end of the kernel on each SM. Half of them cross.
double Predictor::barrier_sectors() const {
  const double sms = std::min(double(launch_.grid.count()), double(figures_.sms));
  return sm_.fence_sectors * scale_ + sms * TouchedSlices::at_end(figures_, slices_, rows_share_);
}

/// Sectors of L2 that are neither data of loads and stores nor barriers of memory: launch, what it asks for with cold caches [empty/132: 740
/// more], code [straight2048: 35 and 4 that cross for a line], and what goes on by itself for the first 30 microseconds or so [firsts: 1,521 sectors,
/// and launches that wait for 7, 22, 103 and 507 us 125, 860, 1,180 and 1,150 more; an H100's empty/131072: 1,200].
double Predictor::other_sectors(double seconds) const {
  constexpr double kRate = 40e6, kFrom = 2e-6, kMost = 1150;
  const double lines = double(std::count(kernel_.executed.begin(), kernel_.executed.end(), true));
  return figures_.launch_sectors + (options_.warm ? 0 : 700 + 39 * lines) + std::clamp(kRate * (seconds - kFrom), 0.0, kMost);
}

/// Fills in the prediction; returns the clock in hertz.
double Predictor::describe(double cycles) {
  const double launch = figures_.launch_cycles + figures_.launch_all_sms * on_sms(kLaunchedSms);
  const double total = cycles + launch + (options_.warm ? 0 : figures_.cold_cycles);
  p_.cycles = total;
  Spent spent{0, 0, total, at_full_clock_.clock};
  p_.energy = dynamic_energy(total / at_full_clock_.clock, spent);
  const bool tensor = sm_.by_class[size_t(Class::hmma)] + sm_.by_class[size_t(Class::imma)] + sm_.by_class[size_t(Class::wgmma)] > 0;  // products of doubles leave the clock as it is [power_dmma]
  const double limit = tensor ? figures_.dynamic_watts : figures_.plain_watts;
  const double highest = tensor ? std::min(figures_.clock, figures_.tensor_clock) : figures_.clock;
  const double clock = std::max(spent.clock_within(limit, highest, kVoltage), tensor ? 0 : kPlainSlowest * highest);
  const bool capped = clock < highest;
  const double sustained = spent.clock_within(limit, figures_.clock, kVoltageSustained), share = std::pow(sustained / figures_.clock, kVoltageSustained);
  const double idle = figures_.idle_watts * total / sustained;
  for (EnergyPart& part : p_.energy)
    if (!part.memory) part.joules *= share;
  p_.energy.push_back({"seconds", total / sustained, idle, true});
  p_.joules = spent.chip * share + spent.memory + idle;
  p_.watts = p_.joules / (total / sustained), p_.sustained_mhz = sustained / 1e6;
  p_.instructions = double(sm_.issued) * scale_;
  p_.l2_sectors = 0;
  p_.dram_read = memory_.dram_read * chip_scale_, p_.dram_write = memory_.dram_write * chip_scale_;
  // lts__t_sectors: an access that crosses to the other partition counts twice [read16/2048: 1.51, write16/1024: 1.56], and what is read
  // to complete a sector once more [random_write/1024: 4.1 million of 4.2].
  p_.l2_tex_sectors = (memory_.l2_read_sectors + memory_.l2_write_sectors) * chip_scale_;
  p_.fabric_sectors = memory_.fabric_sectors * chip_scale_ + barrier_sectors() / 2;
  p_.l2_sectors = p_.l2_tex_sectors + p_.fabric_sectors + memory_.completed_sectors * chip_scale_ + barrier_sectors() / 2 + other_sectors(total / clock);
  p_.l1_hit_rate = sm_.l1_sectors > 0 ? sm_.l1_hits / sm_.l1_sectors : 0;
  p_.clock_mhz = clock / 1e6;
  p_.microseconds = total / clock * 1e6;
  const double sm_cycles = std::max(1.0, simulated_cycles_ * extent_.simulated);
  struct Candidate {
    const char* name;
    double share;
  };
  const auto warps = [&](Class c) { return double(sm_.by_class[size_t(c)]); };
  const Candidate all[] = {{"DRAM", dram_busy_ / std::max(1.0, simulated_cycles_)},
                           {"host link", link_busy_},
                           {"L2", l2_busy_ / std::max(1.0, simulated_cycles_)},
                           {"issue", double(sm_.issued) / (4 * sm_cycles)},
                           {"fp32", (warps(Class::fma) + 2 * warps(Class::imad)) / (4 * sm_cycles)},
                           {"integer", 2 * warps(Class::alu) / (4 * sm_cycles)},
                           {"fp64", 2 * warps(Class::fp64) / (4 * sm_cycles)},
                           {"special functions", 8 * warps(Class::xu) / (4 * sm_cycles)},
                           {"shared", sm_.shared_wavefronts / sm_cycles},
                           {"tensor", sm_.tensor_busy / (4 * sm_cycles)}};
  const Candidate* best = std::max_element(std::begin(all), std::end(all), [](auto& a, auto& b) { return a.share < b.share; });
  if (capped) p_.notes.push_back("the clock is lowered by power");
  p_.bound = best->share > 0.6 ? best->name : figures_.launch_cycles > cycles ? "launch" : "latency";
  p_.fraction = best->share;
  const double residual = crowded_ ? kResidualCrowded : p_.method == "PTX alone" ? kResidualWithoutCode : residual_of(p_.bound, regular_, tensor), error = std::hypot(residual, p_.sampling_error) + (figures_.borrowed_from.empty() ? 0 : 0.1);
  p_.low = p_.microseconds / (1 + error), p_.high = p_.microseconds * (1 + error);
  return clock;
}

namespace {

const char* mnemonic(uint16_t opcode) {
  switch (opcode) {
#define NAME(number, name) case number: return name;
#include "timing/mnemonics.def"
#undef NAME
    default: return "";
  }
}

nlohmann::ordered_json spans_of(const std::vector<Span>& spans, double origin) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Span& s : spans) list.push_back({std::round(s.from - origin), std::round(s.to - origin), s.track, int(s.why)});
  return list;
}

}  // namespace

/// What a report draws: waits and issues of each machine instruction with its PTX and source, spans of warps and pipes,
/// traffic by level, the rates of the GPU.
std::string Predictor::details() const {
  nlohmann::ordered_json j;
  j["waits"] = kWaitNames;
  const lower::Program& program = *launch_.kernel->entry->program;
  const ptx::Module& module = *program.module;
  std::map<std::pair<uint32_t, uint32_t>, bool> sources;
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (uint32_t i = 0; i < record_.issues.size(); i++) {
    if (record_.issues[i] == 0) continue;
    const MachineInstruction& m = join_->instructions()[i];
    nlohmann::ordered_json line;
    const std::string name = mnemonic(m.i.opcode);
    line["at"] = i, line["sass"] = name.empty() ? std::string(name_of(m.kind)) : name, line["class"] = name_of(m.kind);
    if (m.pc != UINT32_MAX && m.pc >> 24 == 0 && m.pc < program.code.size()) {
      const ptx::Loc& loc = program.code[m.pc].loc;
      line["ptx"] = loc.line;
      if (loc.source_line && loc.file < module.files.size()) line["file"] = loc.file, line["line"] = loc.source_line, sources[{loc.file, loc.source_line}] = true;
    }
    line["issues"] = record_.issues[i];
    for (double w : record_.waits[i]) line["wait"].push_back(std::round(w));
    lines.push_back(std::move(line));
  }
  std::vector<std::string> text;
  std::istringstream ptx(module.text);
  for (std::string line; std::getline(ptx, line);) text.push_back(line);
  for (const auto& line : lines)
    if (line.contains("ptx"))
      if (const uint32_t n = line["ptx"]; n >= 1 && n <= text.size()) j["ptx"][std::to_string(n)] = text[n - 1];
  j["lines"] = std::move(lines);
  for (uint32_t f = 0; f < module.files.size(); f++) {
    std::ifstream in(module.files[f]);
    uint32_t n = 0;
    for (std::string line; std::getline(in, line);)
      if (sources.count({f, ++n})) j["source"][std::to_string(f)][std::to_string(n)] = line;
    j["files"].push_back(module.files[f]);
  }
  double origin = std::numeric_limits<double>::infinity();
  for (const auto* list : {&record_.warps, &record_.tensor, &record_.copies})
    for (const Span& s : *list) origin = std::min(origin, s.from);
  j["spans"] = {{"warps", spans_of(record_.warps, origin)}, {"tensor", spans_of(record_.tensor, origin)}, {"copies", spans_of(record_.copies, origin)}};
  j["memory"] = {{"l1_sectors", sm_.l1_sectors * scale_}, {"l1_hits", sm_.l1_hits * scale_}, {"l2_read_sectors", memory_.l2_read_sectors * chip_scale_},
                 {"l2_write_sectors", memory_.l2_write_sectors * chip_scale_}, {"l2_hits", memory_.l2_hits * chip_scale_}, {"dram_read", memory_.dram_read * chip_scale_},
                 {"dram_write", memory_.dram_write * chip_scale_}, {"shared_wavefronts", sm_.shared_wavefronts * scale_}, {"copied", sm_.tma_bytes * scale_}};
  for (size_t k = 0; k < size_t(Class::count); k++)
    if (sm_.by_class[k]) j["classes"][std::string(name_of(Class(k)))] = double(sm_.by_class[k]) * scale_;
  j["tensor_busy"] = sm_.tensor_busy / (4 * std::max(1.0, simulated_cycles_ * extent_.simulated));
  j["gpu"] = {{"sms", figures_.sms}, {"clock", figures_.clock}, {"dram", figures_.dram_bandwidth}, {"l2", figures_.l2_sectors * 32}};
  return j.dump();
}

std::string to_json(const Prediction& p) {
  nlohmann::ordered_json j;
  j["kernel"] = p.kernel, j["grid"] = p.grid, j["block"] = p.block, j["cluster"] = p.cluster;
  j["us"] = p.microseconds, j["low_us"] = p.low, j["high_us"] = p.high, j["sampling_error"] = p.sampling_error, j["cycles"] = p.cycles, j["clock_mhz"] = p.clock_mhz;
  j["bound"] = p.bound, j["fraction"] = p.fraction, j["registers"] = p.registers, j["shared_bytes"] = p.shared_bytes;
  j["blocks_per_sm"] = p.blocks_per_sm, j["occupancy"] = p.occupancy, j["limiter"] = p.limiter, j["waves"] = p.waves;
  j["instructions"] = p.instructions, j["dram_read"] = p.dram_read, j["dram_write"] = p.dram_write, j["l2_sectors"] = p.l2_sectors, j["l2_tex_sectors"] = p.l2_tex_sectors, j["l2_fabric_sectors"] = p.fabric_sectors;
  j["l1_hit_rate"] = p.l1_hit_rate, j["joules"] = p.joules, j["watts"] = p.watts, j["sustained_mhz"] = p.sustained_mhz, j["method"] = p.method, j["notes"] = p.notes;
  for (const EnergyPart& part : p.energy) j["energy"][part.what] = {{"events", part.events}, {"joules", part.joules}};
  if (!p.clocks.empty()) j["clocks"] = p.clocks, j["clock_span"] = p.clock_span;
  j["host_seconds"] = p.host_seconds, j["simulated_steps"] = p.simulated_steps;
  j["host"] = {{"cpu_seconds", p.host.all}, {"trace", p.host.trace}, {"trace_aside", p.host.trace_aside}, {"lead", p.host.lead}, {"simulate", p.host.simulate}, {"issued", p.host.issued}, {"peak_bytes", p.host.peak_bytes}};
  if (!p.details.empty()) j["details"] = nlohmann::ordered_json::parse(p.details);
  return j.dump();
}

}  // namespace orrery::timing
