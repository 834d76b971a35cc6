// device/record.h: what a process did on its simulated GPUs: the fidelity line and the run record.
//
// Invariant: nothing is counted as exact that is not: a form whose result is only bounded is listed with its bound when
// a launched kernel contains it, whether or not it was reached.
// Not here: how exact a form is (sem/pure.h), counting inside a launch (exec/).
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "lower/program.h"

namespace orrery::device {

/// Forms of a kernel whose floating sums tensor cores make: exact unless numerics are fast.
using SumForms = std::set<std::string>;
SumForms sum_forms(const lower::KernelPrograms& programs);

/// Sums over all launches of the process. Threads: any.
class Record {
 public:
  /// fast: tensor cores summed by plain multiply-adds.
  void add(const std::string& kernel, const SumForms& sums, bool fast, const exec::LaunchResult& result);
  uint64_t launches() const;
  /// One line: launches, instructions, what was exact and refused.
  std::string fidelity(const std::string& gpu) const;
  /// The run record (docs/running.md) as JSON text.
  std::string json(const std::string& gpu, int devices) const;

 private:
  mutable std::mutex mutex_;
  uint64_t launches_ = 0, warp_instructions_ = 0, native_blocks_ = 0, interpreted_blocks_ = 0;
  double seconds_ = 0;
  std::map<std::string, uint64_t> kernels_;   // launches by name
  SumForms fast_sums_;
  std::vector<std::string> faults_, refused_;
};

}  // namespace orrery::device
