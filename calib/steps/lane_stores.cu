// calib/steps/lane_stores.cu: rows that each lane writes alone: what stores of 32 lines take, by the bytes of a lane, by the SMs that store
// and by the warps of an SM. lane_rows.cu: the same for loads.
#include "steps.h"

namespace {
using namespace steps;

/// Every thread fills its row of `pitch` elements, and again: what was filled stays in L2. With kLoads it reads another such row beside it.
template <class T, bool kLoads>
__global__ void lane_stores(T* rows, const T* from, int pitch, int rounds) {
  T* own = rows + size_t(blockIdx.x * blockDim.x + threadIdx.x) * size_t(pitch);
  const T* read = from + size_t(blockIdx.x * blockDim.x + threadIdx.x) * size_t(pitch);
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (int i = 0; i < pitch; i++) own[i] = kLoads ? read[i] : T(r);
}
template <class T, bool kLoads>
truth::Launch stores(long blocks, int threads, int pitch) {
  auto rows = zeros<T>(size_t(blocks) * size_t(threads) * size_t(pitch)), from = zeros<T>(size_t(blocks) * size_t(threads) * size_t(pitch));
  return [=] { lane_stores<T, kLoads><<<unsigned(blocks), unsigned(threads)>>>(rows.p, from.p, pitch, 4); };
}
/// The same by groups of lanes: `lanes` next to each other fill a row together, word by word in turn, eight warps on each of 32 SMs.
__global__ void lane_groups(float* rows, int lanes, int rounds) {
  float* own = rows + size_t(blockIdx.x * blockDim.x + threadIdx.x) / lanes * 1024 + threadIdx.x % lanes;
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (int i = 0; i < 1024 / lanes; i++) own[i * lanes] = float(r);
}
TRUTH("lane_stores", "lane_stores_groups", {1, 2, 4, 8, 16}, [](long lanes) {
  auto rows = zeros<float>(size_t{32} * 256 / size_t(lanes) * 1024);
  return [=] { lane_groups<<<32, 256>>>(rows.p, int(lanes), int(lanes)); };
});

#define STORES(name, type, loads)                                                                                             \
  TRUTH("lane_stores", name "_one_warp", {1, 32, 132}, [](long blocks) { return stores<type, loads>(blocks, 32, 256); });      \
  TRUTH("lane_stores", name "_8_warps", {1, 8, 32, 132}, [](long blocks) { return stores<type, loads>(blocks, 256, 256); });
STORES("lane_stores_2", unsigned short, false)
STORES("lane_stores_4", float, false)
STORES("lane_copies_2", unsigned short, true)
STORES("lane_copies_4", float, true)
}  // namespace
