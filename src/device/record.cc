// The fidelity line and the run record; see record.h.
#include "device/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "isa/row.h"
#include "lower/flow.h"
#include "sem/pure.h"
#include "sem/tensor.h"

namespace orrery::device {
namespace {

void add_forms(const lower::Program& program, BoundedForms& bounded) {
  for (const ptx::Instr& instr : program.code) {
    const int destinations = lower::destinations(instr);
    const sem::Pure pure = sem::find_pure(instr.form, destinations, int(instr.ops.size()) - destinations);
    if (pure.fn && pure.exactness == sem::Exactness::bounded) bounded.ulp[isa::to_string(instr.form)] = pure.bound_ulp;
    const bool matrix = sem::can_mma(instr.form) || sem::can_wgmma(instr.form);
    if (matrix && sem::describe_sum(instr.form, {}).starts_with("blocks")) bounded.sums.insert(isa::to_string(instr.form));
  }
}

/// One instruction adds up k products; each addition in f32 errs by half a unit of the largest partial sum. f16 results are
/// rounded once more, and a processor's own dot products of bf16 pairs take subnormal factors for zero.
std::string bound_of(const std::set<std::string>& sums) {
  bool halves = false, pairs = false;
  for (const std::string& name : sums) {
    const isa::Form f = isa::match_name(name).form;
    halves |= f.n_types && f.type(0) == isa::Type::f16;
    for (int i = 1; i < f.n_types; i++) pairs |= f.type(i) == isa::Type::bf16;
  }
  std::string text = "fast: plain multiply-adds, each sum within k 2^-24 of the sum of its terms' magnitudes";
  if (halves) text += ", f16 results rounded to nearest after that";
  if (pairs) text += ", subnormal bf16 factors may count as zero";
  return text;
}

std::string joined(const BoundedForms& bounded) {
  constexpr size_t kMost = 4;
  std::string text;
  size_t n = 0;
  for (auto& [form, ulp] : bounded.ulp) {
    if (n++ == kMost) {
      text += fmt::format(" and {} more", bounded.ulp.size() - kMost);
      break;
    }
    text += fmt::format("{}{} ({} ulp)", n > 1 ? ", " : "", form, ulp);
  }
  if (!bounded.sums.empty())
    text += fmt::format("{}{}{} ({})", text.empty() ? "" : ", ", *bounded.sums.begin(),
                        bounded.sums.size() > 1 ? fmt::format(" and {} more matrix products", bounded.sums.size() - 1) : "", bound_of(bounded.sums));
  return text;
}

}  // namespace

BoundedForms bounded_forms(const lower::KernelPrograms& programs) {
  BoundedForms bounded;
  add_forms(*programs.entry, bounded);
  for (auto& function : programs.functions)
    if (function) add_forms(*function, bounded);
  return bounded;
}

void Record::add(const std::string& kernel, const BoundedForms& bounded, bool fast, const exec::LaunchResult& result) {
  std::lock_guard lock(mutex_);
  launches_++;
  warp_instructions_ += result.warp_instructions;
  native_blocks_ += result.native_blocks;
  interpreted_blocks_ += result.interpreted_blocks;
  seconds_ += result.seconds;
  kernels_[kernel]++;
  bounded_.ulp.insert(bounded.ulp.begin(), bounded.ulp.end());
  if (fast) bounded_.sums.insert(bounded.sums.begin(), bounded.sums.end());
  if (!result.fault) return;
  (result.fault->kind == exec::FaultKind::unsupported ? refused_ : faults_).push_back(result.fault->message);
}

uint64_t Record::launches() const {
  std::lock_guard lock(mutex_);
  return launches_;
}

std::string Record::fidelity(const std::string& gpu) const {
  std::lock_guard lock(mutex_);
  std::string text = fmt::format("orrery: {} on {}: {} {}, {} warp instructions", "run", gpu, launches_, launches_ == 1 ? "launch" : "launches", warp_instructions_);
  text += bounded_.ulp.empty() && bounded_.sums.empty() ? ", all results exact" : ", exact but for " + joined(bounded_);
  text += refused_.empty() ? ", nothing unsupported" : fmt::format(", {} stopped at something unsupported", refused_.size());
  if (!faults_.empty()) text += fmt::format(", {} ended in a fault", faults_.size());
  return text;
}

std::string Record::json(const std::string& gpu, int devices) const {
  std::lock_guard lock(mutex_);
  nlohmann::ordered_json out;
  out["schema"] = "orrery-run-1";
  out["gpu"] = gpu;
  out["devices"] = devices;
  out["launches"] = launches_;
  out["warp_instructions"] = warp_instructions_;
  out["blocks"] = {{"compiled", native_blocks_}, {"interpreted", interpreted_blocks_}};
  out["kernel_seconds"] = seconds_;
  out["kernels"] = kernels_;
  out["bounded_forms"] = bounded_.ulp;
  out["fast_sums"] = bounded_.sums;
  out["unsupported"] = refused_;
  out["faults"] = faults_;
  return out.dump(2) + "\n";
}

}  // namespace orrery::device
