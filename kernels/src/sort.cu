// Stable radix sort of 32-bit keys, with or without 32-bit values: few keys by one launch whose blocks keep a tile each (sort_few.cuh), more of
// them by a launch a pass (sort_many.cuh).
#include "arguments.h"
#include "sort_few.cuh"
#include "sort_many.cuh"

namespace orrery::kernels {
namespace {

/// By one launch, in tiles as small as give each SM one at most.
cudaError_t sort_few(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int n, const SortWorkspace& w, cudaStream_t stream) {
  const auto by = [&](auto size) {
    constexpr int kTile = decltype(size)::value, kItems = kTile / kFewThreads;
    constexpr size_t shared = sizeof(FewShared<kItems>);
    const int tiles = (n + kTile - 1) / kTile;
    const auto kernel = values ? sort_at_once<kItems, true> : sort_at_once<kItems, false>;
    if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) return e;
    if (cudaError_t e = launch_zero(w.state.tile, 256 + few_counts_bytes(tiles), stream)) return e;  // the counts follow, as words do
    return launch_cooperative(kernel, tiles, kFewThreads, shared, stream, keys_out, values_out, keys, values, w.keys, w.values, n,
                              FewState{w.state.tile, static_cast<uint32_t*>(w.state.words)});
  };
  const int each = (n + sm_count() - 1) / sm_count();
  return each <= kFewest       ? by(std::integral_constant<int, kFewest>{})
         : each <= 2 * kFewest ? by(std::integral_constant<int, 2 * kFewest>{})
                               : by(std::integral_constant<int, kMostFew>{});
}

}  // namespace

size_t sort_workspace(int64_t n) { return n > 0 ? SortWorkspace(nullptr, n).bytes : 0; }

Status sort_u32(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int64_t n, void* workspace,
                cudaStream_t stream) {
  if (n < 0 || n >= int64_t(1) << 32) return bad("n", "must be in [0, 2^32)");
  if (n == 0) return {};
  if (!keys_out || !aligned(keys_out, 4)) return bad("keys_out", "is null or misaligned");
  if (!keys || !aligned(keys, 4)) return bad("keys", "is null or misaligned");
  if (!values_out != !values) return bad(values ? "values_out" : "values", "is null while the other is not");
  if (!aligned(values_out, 4)) return bad("values_out", "is misaligned");
  if (!aligned(values, 4)) return bad("values", "is misaligned");
  if (!workspace || !aligned(workspace, 256)) return bad("workspace", "is null or not 256-byte aligned");
  const Extent from = dense("keys", keys, n * 4), carried = dense("values", values, n * 4), to = dense("keys_out", keys_out, n * 4), carried_to = dense("values_out", values_out, n * 4);
  if (Status s = apart(to, {from, carried, carried_to}); !s.ok()) return s;
  if (Status s = apart(carried_to, {from, carried}); !s.ok()) return s;
  if (Status s = apart(dense("workspace", workspace, int64_t(sort_workspace(n))), {from, carried, to, carried_to}); !s.ok()) return s;
  const SortWorkspace w(workspace, n);
  if (n <= int64_t(sm_count()) * kMostFew) {
    const cudaError_t e = sort_few(keys_out, values_out, keys, values, int(n), w, stream);
    if (e != cudaErrorCooperativeLaunchTooLarge) return launched(e);
    cudaGetLastError();  // some SMs are not this process's
  }
  return launched(sort_many(keys_out, values_out, keys, values, n, w, stream));
}

}  // namespace orrery::kernels
