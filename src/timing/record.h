// timing/record.h: what one simulated SM did, for reports: where each machine instruction was waited for and why, and when
// warps waited and pipes worked in the first part of the kernel.
// Not here: how it is drawn (report/kernel_page.h).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace orrery::timing {

/// Why a warp did not issue: stall counts; what a dependence barrier stood for; barriers; tensor cores; or that its pipe was
/// busy or another warp was taken.
enum class Wait : uint8_t { fixed, global, shared, math, barrier, mbarrier, copies, tensor, busy, count };
inline constexpr const char* kWaitNames[] = {"fixed latency", "global memory", "shared memory", "math latency", "barrier", "mbarrier", "copies", "tensor", "pipe busy or not selected"};

struct Span {
  double from = 0, to = 0;   // cycles
  uint32_t track = 0;        // warp, or pipe
  Wait why = Wait::fixed;
};

struct Record {
  static constexpr size_t kSpans = 6000;  // of each kind
  std::vector<std::array<double, size_t(Wait::count)>> waits;  // cycles, by machine instruction
  std::vector<uint64_t> issues;                                // by machine instruction
  std::vector<Span> warps, tensor, copies;                     // tracks: warp, sub-core, 0
};

}  // namespace orrery::timing
