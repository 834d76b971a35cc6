// What the reductions of all of an array have in common: their checks, and who has which part of a workspace.
#pragma once
#include "arguments.h"

namespace orrery::kernels {

constexpr size_t kSumWorkspace = 256 + 288 * 8;        // words of 64 bits from a multiple of 8 on (reduce.cu)
constexpr int kMostExtremeBlocks = 1024;
constexpr size_t kExtremeWorkspace = 4 + 4 * kMostExtremeBlocks;  // behind them: blocks that have arrived, what each has found (extremes.cu)

inline Status check_reduction(const float* out, const float* in, int64_t n, const void* workspace) {
  if (!out || !aligned(out, 4)) return bad("out", "is null or not 4-byte aligned");
  if (n < 0 || n > kMostBytes / 4) return bad("n", "must be in [0, 2^45]");
  if (n > 0 && (!in || !aligned(in, 4))) return bad("in", "is null or not 4-byte aligned");
  if (!workspace || !aligned(workspace, 4)) return bad("workspace", "is null or not 4-byte aligned");
  const Extent from = dense("in", in, n * 4), to = dense("out", out, 4), work = dense("workspace", workspace, int64_t(reduce_workspace()));
  if (Status s = apart(to, {from, work}); !s.ok()) return s;
  return apart(work, {from});
}

/// Floats before the first multiple of 16 bytes.
inline int head_of(const float* in, int64_t n) {
  const int64_t head = int64_t((16 - reinterpret_cast<uintptr_t>(in) % 16) % 16 / 4);
  return int(n < head ? n : head);
}

}  // namespace orrery::kernels
