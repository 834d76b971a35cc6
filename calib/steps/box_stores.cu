// calib/steps/box_stores.cu: boxes and rows that the copy engine writes or adds to memory, by the bytes of a row: whole, rows that begin between sectors,
// boxes in three dimensions; boxes that are loaded and stored, as they are or turned; additions to places of a block's own or of all.
#include "../dissect/tensor_map.h"
#include "steps.h"

namespace {
using namespace steps;

constexpr int kThreads = 128;

/// A map of `depth` x `rows` x `width` floats, `pitch` floats from row to row.
CUtensorMap map_of(float* data, long width, long rows, long depth, long pitch, uint32_t x, uint32_t y, uint32_t z) {
  CUtensorMap map{};
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found) != cudaSuccess || !entry) return map;
  const cuuint64_t sizes[3] = {cuuint64_t(width), cuuint64_t(rows), cuuint64_t(depth)}, strides[2] = {cuuint64_t(pitch) * 4, cuuint64_t(pitch * rows) * 4};
  const cuuint32_t box[3] = {x, y, z}, one[3] = {1, 1, 1};
  reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, data, sizes, strides, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                                             CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return map;
}
enum How { kStore, kAdd, kCopy, kTurn };

__device__ inline void store_box(const CUtensorMap* map, int x, int y, int z, const void* from, bool adds) {
  if (adds) asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x), "r"(y), "r"(z), "r"(smem(from)) : "memory");
  else asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x), "r"(y), "r"(z), "r"(smem(from)) : "memory");
}
__device__ inline void let_out() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory"); }

/// A block takes boxes blockIdx.x, + gridDim.x and so on of x * y * z floats each, `across` of them beside each other, then `down` below each other.
template <How how>
__global__ void __launch_bounds__(kThreads) boxes(const __grid_constant__ CUtensorMap to, const __grid_constant__ CUtensorMap from, int x, int y, int z, int across, int down, int count, int same) {
  extern __shared__ __align__(1024) float tile[];
  __shared__ uint64_t bar[1];
  const int n = x * y * z;
  if (threadIdx.x == 0 && how >= kCopy) init_ring(bar, 1);
  __syncthreads();
  uint32_t turn = 0;
  for (int i = int(blockIdx.x); i < count; i += int(gridDim.x), turn++) {
    const int at = i % same, bx = at % across, by = at / across % down, bz = at / across / down;
    float* out = tile;
    if (how >= kCopy) {
      if (threadIdx.x == 0) {
        expect(bar, uint32_t(n) * 4);
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(smem(tile)), "l"(&from), "r"(bx * x), "r"(by * y), "r"(bz * z), "r"(smem(bar))
                     : "memory");
      }
      wait(bar, turn & 1);
      if (how == kTurn) {
        out = tile + n;
        for (int k = int(threadIdx.x); k < n; k += kThreads) out[k] = tile[k % y * x + k / y];
      }
    } else {
      for (int k = int(threadIdx.x); k < n; k += kThreads) tile[k] = float(k);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      if (how == kTurn) store_box(&to, by * y, bx * x, bz * z, out, false);
      else store_box(&to, bx * x, by * y, bz * z, out, how == kAdd);
      let_out();
    }
    __syncthreads();
  }
}
/// `blocks` that stay, or 0: a block for each box; `same`: so many boxes are written again and again, 0: each once. A matrix of `rows` x `width` x `depth`.
template <How how>
Launch of_boxes(long x, long y, long z, long width, long rows, long depth, long pitch, int blocks, int same = 0) {
  auto in = zeros<float>(size_t(pitch * rows * depth)), out = zeros<float>(size_t(pitch * rows * depth));
  const CUtensorMap from = map_of(in.p, width, rows, depth, pitch, uint32_t(x), uint32_t(y), uint32_t(z));
  const CUtensorMap to = how == kTurn ? map_of(out.p, rows, width, depth, rows, uint32_t(y), uint32_t(x), uint32_t(z)) : map_of(out.p, width, rows, depth, pitch, uint32_t(x), uint32_t(y), uint32_t(z));
  const int count = int(width / x * (rows / y) * (depth / z)), bytes = int(x * y * z * 4 * (how == kTurn ? 2 : 1));
  cudaFuncSetAttribute(boxes<how>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] { (void)in, (void)out, boxes<how><<<unsigned(blocks ? blocks : count), kThreads, bytes>>>(to, from, int(x), int(y), int(z), int(width / x), int(rows / y), count, same ? same : count); };
}
// 16 MB by boxes of 8 KB (of 16 floats a row and more) in rows of 4 KB, of 16 bytes more, and as many rows deep as wide.
#define BY_ROW(name, how, pitch, blocks) TRUTH("box_stores", name, {8, 16, 32, 64, 128}, [](long x) { return of_boxes<how>(x, std::min(256l, 2048 / x), 1, 1024, 4096, 1, pitch, blocks); });
BY_ROW("box_store", kStore, 1024, 0) BY_ROW("box_store_stay", kStore, 1024, 264) BY_ROW("box_store_odd", kStore, 1028, 0)
BY_ROW("box_add", kAdd, 1024, 0) BY_ROW("box_add_odd", kAdd, 1028, 0)
BY_ROW("box_copy", kCopy, 1024, 0) BY_ROW("box_copy_stay", kCopy, 1024, 528)
TRUTH("box_stores", "box_turn", {16, 32, 64}, [](long x) { return of_boxes<kTurn>(x, x, 1, 1024, 4096, 1, 1024, 0); });
TRUTH("box_stores", "box_turn_stay", {16, 32, 64}, [](long x) { return of_boxes<kTurn>(x, x, 1, 1024, 4096, 1, 1024, 528); });
TRUTH("box_stores", "box_store_3", {4, 8, 16, 32}, [](long x) { return of_boxes<kStore>(x, x, x < 16 ? x : 8, 256, 256, 64, 256, 0); });
TRUTH("box_stores", "box_copy_3", {4, 8, 16, 32}, [](long x) { return of_boxes<kCopy>(x, x, x < 16 ? x : 8, 256, 256, 64, 256, 0); });
TRUTH("box_stores", "box_add_same", {1, 8, 64}, [](long same) { return of_boxes<kAdd>(64, 32, 1, 1024, 4096, 1, 1024, 0, int(same)); });

/// One thread writes (or adds) pieces of `bytes` from shared memory, `pieces` of them, `apart` bytes from one to the next.
template <bool adds>
__global__ void rows_out(char* to, uint32_t bytes, int pieces, long apart) {
  extern __shared__ __align__(128) char room[];
  for (uint32_t k = threadIdx.x; k < bytes / 4; k += 32) reinterpret_cast<float*>(room)[k] = 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x) return;
  for (int i = 0; i < pieces; i++) {
    char* at = to + (long(blockIdx.x) * pieces + i) * apart;
    if (adds) asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(at), "r"(smem(room)), "r"(bytes) : "memory");
    else asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(at), "r"(smem(room)), "r"(bytes) : "memory");
  }
  let_out();
}
template <bool adds>
Launch of_rows(long bytes, long apart) {
  const int pieces = int(std::clamp(32768 / bytes, 4l, 64l));
  const long blocks = 528;
  auto p = zeros<char>(size_t(blocks * pieces * apart + 4096));
  return [=] { rows_out<adds><<<unsigned(blocks), 32, 16384>>>(p.p, uint32_t(bytes), pieces, apart); };
}
#define OUT(name, adds, apart) TRUTH("box_stores", name, {16, 32, 64, 128, 512, 2048, 8192}, [](long bytes) { return of_rows<adds>(bytes, apart); });
OUT("row_store", false, bytes) OUT("row_store_apart", false, bytes * 2) OUT("row_store_odd", false, bytes + 16) OUT("row_add", true, bytes) OUT("row_add_odd", true, bytes + 16)

}  // namespace
