// The fidelity line and the run record; see record.h.
#include "device/record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "isa/row.h"
#include "lower/flow.h"
#include "sem/tensor.h"

namespace orrery::device {
namespace {

void add_forms(const lower::Program& program, SumForms& sums) {
  for (const ptx::Instr& instr : program.code) {
    const bool matrix = sem::can_mma(instr.form) || sem::can_wgmma(instr.form);
    if (matrix && sem::describe_sum(instr.form, {}).starts_with("blocks")) sums.insert(isa::to_string(instr.form));
  }
}

/// One instruction adds up k products; each addition in f32 errs by half a unit of the largest partial sum. f16 results are
/// rounded once more, and a processor's own dot products of bf16 pairs take subnormal factors for zero.
std::string bound_of(const SumForms& sums) {
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

std::string joined(const SumForms& sums) {
  return fmt::format("{}{} ({})", *sums.begin(), sums.size() > 1 ? fmt::format(" and {} more matrix products", sums.size() - 1) : "", bound_of(sums));
}

}  // namespace

SumForms sum_forms(const lower::KernelPrograms& programs) {
  SumForms sums;
  add_forms(*programs.entry, sums);
  for (auto& function : programs.functions)
    if (function) add_forms(*function, sums);
  return sums;
}

void Record::add(const std::string& kernel, const SumForms& sums, bool fast, const exec::LaunchResult& result) {
  std::lock_guard lock(mutex_);
  launches_++;
  warp_instructions_ += result.warp_instructions;
  native_blocks_ += result.native_blocks;
  interpreted_blocks_ += result.interpreted_blocks;
  seconds_ += result.seconds;
  kernels_[kernel]++;
  if (fast) fast_sums_.insert(sums.begin(), sums.end());
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
  text += fast_sums_.empty() ? ", all results exact" : ", exact but for " + joined(fast_sums_);
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
  out["fast_sums"] = fast_sums_;
  out["unsupported"] = refused_;
  out["faults"] = faults_;
  return out.dump(2) + "\n";
}

}  // namespace orrery::device
