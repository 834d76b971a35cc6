// 2:4 sparse GEMM: D = act(alpha * A W' + bias), of every four consecutive elements of a row of W two are kept.
//
// The sparse operand of wgmma is the one with 64 rows, so W's rows are the rows of the product and A's its columns; the result
// is turned round on its way to shared memory. Both operands come 128 of k at a time:
//
//   stage   W: 256 rows of 128 bytes, the kept half of 128 columns | A: 128 rows, two slabs of 64 columns
//
// Two consumer warpgroups multiply 128 rows of W each. In a cluster of two the CTAs take neighbouring rows of W and each
// loads one slab of A for both. Which elements were kept, four bits for each two, comes from memory straight into the
// registers that the instruction reads, a stage ahead:
//
//   word (row / 16, k / 128, lane = 4 (row % 8) + k / 16 % 4, k / 64 % 2), half (row / 8 % 2): codes of 16 columns of a row
//
// Source: PTX ISA, "Sparse matrix storage" of wgmma. Here are the kernel, its launch, and the compression of W.
#include <algorithm>

#include "arguments.h"
#include "gemm_epilogue.cuh"
#include "launch.h"
#include "roles.cuh"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

constexpr int kRows = 256, kCols = 128, kStages = 3, kThreads = 384;  // of a tile: rows of W, rows of A
constexpr int kBytesW = kRows * 128, kSlabA = kCols * 128, kStageBytes = kBytesW + 2 * kSlabA;
constexpr int kChunk = 64 * 128, kStaging = 2 * 2 * kChunk;  // of results: 64 rows of A by 64 of W; two for each warpgroup
constexpr int kShared = 1024 + kStages * kStageBytes + kStaging + 64;
static_assert(kShared <= 232448);

struct SparseParams {
  CUtensorMap w, a, d;
  const uint2* codes;
  const float* bias;
  float alpha;
  Activation activation;
  int m, n, steps, tiles_w, tiles_a, blocks;  // blocks: of 16 rows of W
};

struct Shared {
  uint32_t ring, staging, full, empty;
  __device__ __forceinline__ explicit Shared(uint32_t raw)
      : ring((raw + 1023) / 1024 * 1024), staging(ring + kStages * kStageBytes), full(staging + kStaging), empty(full + 8 * kStages) {}
  __device__ __forceinline__ uint32_t w(int s) const { return ring + s * kStageBytes; }
  __device__ __forceinline__ uint32_t a(int s) const { return w(s) + kBytesW; }
};

template <class T, int kSelector>
__device__ __forceinline__ void multiply(float (&d)[kCols / 2], uint64_t w, uint64_t a, uint32_t codes, int keep) {
#define ORK_SPARSE(types)                                                                                                                        \
  asm volatile("{ .reg .pred p;\n\tsetp.ne.b32 p, %67, 0;\n\twgmma.mma_async.sp.sync.aligned.m64n128k32.f32." types " {" ORK_L64 "}, %64, %65, %66, %68, " \
               "p, 1, 1, 0, 0; }"                                                                                                               \
               : ORK_REGS64                                                                                                                      \
               : "l"(w), "l"(a), "r"(codes), "r"(keep), "n"(kSelector))
  if constexpr (std::is_same_v<T, __half>) ORK_SPARSE("f16.f16");
  else ORK_SPARSE("bf16.bf16");
#undef ORK_SPARSE
}

/// Tiles of a cluster, bands of 16 tiles of A walked together so that both operands come from L2.
struct Walk {
  int tile, stride, tiles;
  __device__ __forceinline__ explicit Walk(const SparseParams& p, int cluster)
      : tile(blockIdx.x / cluster), stride(gridDim.x / cluster), tiles(p.tiles_w / cluster * p.tiles_a) {}
  /// Row of W and of A, in tiles; the former counted by clusters.
  __device__ __forceinline__ int2 at(const SparseParams& p, int cluster) const {
    const int rows = p.tiles_w / cluster, band = tile / (16 * rows), in_band = tile - band * 16 * rows, wide = min(16, p.tiles_a - band * 16);
    return make_int2(in_band / wide, band * 16 + in_band % wide);
  }
};

template <int kCluster>
__device__ __forceinline__ void produce(const SparseParams& p, const Shared& shared, int rank) {
  int stage = 0, phase = 0;
  for (Walk walk(p, kCluster); walk.tile < walk.tiles; walk.tile += walk.stride) {
    const int2 at = walk.at(p, kCluster);
    const int row_w = (at.x * kCluster + rank) * kRows, row_a = at.y * kCols;
    for (int step = 0; step < p.steps; step++) {
      const uint32_t full = shared.full + 8 * stage;
      ptx::mbarrier_wait(shared.empty + 8 * stage, phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, kStageBytes);
      ptx::tma_load_2d(shared.w(stage), &p.w, full, step * 64, row_w, ptx::kEvictNormal);
      if constexpr (kCluster == 2) {
        ptx::tma_load_2d_multicast(shared.a(stage) + rank * kSlabA, &p.a, full, step * 128 + rank * 64, row_a, 3, ptx::kEvictNormal);
      } else {
        for (int slab = 0; slab < 2; slab++) ptx::tma_load_2d(shared.a(stage) + slab * kSlabA, &p.a, full, step * 128 + slab * 64, row_a, ptx::kEvictNormal);
      }
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
  }
}

/// Turns 64 rows of W by 128 of A round, 64 of A at a time, and stores them.
template <class T>
__device__ __forceinline__ void store(const SparseParams& p, const float (&acc)[kCols / 2], uint32_t staging, int group, int row_w, int row_a) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, row = row_w + warp * 16 + lane / 4;
  float bias[2];
#pragma unroll
  for (int h = 0; h < 2; h++) bias[h] = p.bias && row + 8 * h < p.n ? __ldg(p.bias + row + 8 * h) : 0.f;
  const uint32_t line = lane % 8 + 8 * (lane / 16), place = line * 128 + ((warp * 32 + lane / 8 % 2 * 16) ^ (line % 8 * 16));
#pragma unroll
  for (int chunk = 0; chunk < kCols / 64; chunk++) {
    if (threadIdx.x % 128 == 0) ptx::bulk_wait_group_read<1>();
    ptx::bar_sync(1 + group, 128);
    const auto pair = [&](int at, int q) {
      const int i = chunk * 32 + at;
      float x = fmaf(acc[i], p.alpha, bias[q % 2]), y = fmaf(acc[i + 1], p.alpha, bias[q % 2]);
      if (p.activation != Activation::kNone) x = activate(x, p.activation), y = activate(y, p.activation);
      return pack_pair(x, y, std::is_same_v<T, __nv_bfloat16>);
    };
    stage_box<true>([&](int j) { return staging + chunk * kChunk + j * 16 * 128 + place; }, pair);
    ptx::fence_proxy_async_shared();
    ptx::bar_sync(1 + group, 128);
    if (threadIdx.x % 128 == 0) {
      if (row_w < p.n && row_a + chunk * 64 < p.m) ptx::tma_store_2d(&p.d, staging + chunk * kChunk, row_w, row_a + chunk * 64);
      ptx::bulk_commit_group();
    }
  }
}

template <class T, int kCluster>
__device__ __forceinline__ void consume(const SparseParams& p, const Shared& shared, int rank) {
  const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  const uint32_t staging = shared.staging + group * 2 * kChunk;
  const auto release = [&](int stage) {
    if (lane >= kCluster) return;
    if constexpr (kCluster == 1) ptx::mbarrier_arrive(shared.empty + 8 * stage);
    else ptx::mbarrier_arrive_cluster(ptx::mapa(shared.empty + 8 * stage, lane));
  };
  int stage = 0, phase = 0;
  for (Walk walk(p, kCluster); walk.tile < walk.tiles; walk.tile += walk.stride) {
    const int2 at = walk.at(p, kCluster);
    const int row_w = (at.x * kCluster + rank) * kRows + group * 128;
    const uint2* codes[2];
#pragma unroll
    for (int b = 0; b < 2; b++) codes[b] = p.codes + (int64_t(min(row_w / 16 + b * 4 + warp, p.blocks - 1)) * p.steps) * 32 + lane;
    float acc[2][kCols / 2];
    // Two sets in turns: one is read by products under way while the other is loaded.
    uint2 even[2] = {__ldg(codes[0]), __ldg(codes[1])}, odd[2];
    int before = -1;
    const auto step_of = [&](int step, const uint2 (&code)[2], uint2 (&next)[2]) __attribute__((always_inline)) {
      ptx::mbarrier_wait(shared.full + 8 * stage, phase);
      const ptx::Descriptor w = ptx::descriptor_k_major(shared.w(stage) + group * 128 * 128), a = ptx::descriptor_k_major(shared.a(stage));
      ptx::wgmma_fence();
#pragma unroll
      for (int b = 0; b < 2; b++) {
        multiply<T, 0>(acc[b], w.at(b * 64 * 128), a.at(0), code[b].x, step > 0);
        multiply<T, 1>(acc[b], w.at(b * 64 * 128 + 32), a.at(64), code[b].x, 1);
        multiply<T, 0>(acc[b], w.at(b * 64 * 128 + 64), a.at(kSlabA), code[b].y, 1);
        multiply<T, 1>(acc[b], w.at(b * 64 * 128 + 96), a.at(kSlabA + 64), code[b].y, 1);
      }
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
      const int ahead = min(step + 1, p.steps - 1) * 32;
#pragma unroll
      for (int b = 0; b < 2; b++) next[b] = __ldg(codes[b] + ahead);
      if (before >= 0) release(before);
      before = stage;
      if (++stage == kStages) stage = 0, phase ^= 1;
    };
    for (int step = 0;; step += 2) {
      step_of(step, even, odd);
      if (step + 1 == p.steps) break;
      step_of(step + 1, odd, even);
      if (step + 2 == p.steps) break;
    }
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int b = 0; b < 2; b++) ptx::wgmma_pin(acc[b]);
    release(before);
#pragma unroll
    for (int b = 0; b < 2; b++) store<T>(p, acc[b], staging, group, row_w + b * 64, at.y * kCols);
  }
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_group_read<0>();
}

template <class T, int kCluster>
__global__ void __launch_bounds__(kThreads, 1) sparse(const __grid_constant__ SparseParams p) {
  extern __shared__ uint8_t raw[];
  const Shared shared(ptx::smem_address(raw));
  const int rank = kCluster == 1 ? 0 : int(ptx::cluster_ctarank());
  const auto init = [&] {
    if (threadIdx.x != 0) return;
    ptx::prefetch_tensormap(&p.w);
    ptx::prefetch_tensormap(&p.a);
    ptx::prefetch_tensormap(&p.d);
    for (int s = 0; s < kStages; s++) ptx::mbarrier_init(shared.full + 8 * s, 1), ptx::mbarrier_init(shared.empty + 8 * s, 8 * kCluster);
    ptx::fence_mbarrier_init();
  };
  run_warp_roles<1, 40, 232, Dependent::kWhole>(kCluster > 1, init, [&](int) { produce<kCluster>(p, shared, rank); }, [&] { consume<T, kCluster>(p, shared, rank); });
}

/// A thread takes 16 columns of a row.
template <class T>
__global__ void __launch_bounds__(256) keep_two_of_four(T* values, uint16_t* codes, const T* in, int64_t rows, int64_t chunks, int64_t padded_chunks, int64_t pitch) {
  const int64_t id = blockIdx.x * int64_t(256) + threadIdx.x, row = id / padded_chunks, c = id - row * padded_chunks;
  if (row >= (rows + 15) / 16 * 16) return;
  uint32_t code = 0x4444;  // columns 0 and 1
  if (row < rows && c < chunks) {
    const uint4* from = reinterpret_cast<const uint4*>(in + row * pitch + c * 16);
    alignas(16) T x[16], kept[8];
    reinterpret_cast<uint4*>(x)[0] = __ldcs(from), reinterpret_cast<uint4*>(x)[1] = __ldcs(from + 1);
    code = 0;
#pragma unroll
    for (int g = 0; g < 4; g++) {
      // The rank of each by magnitude, of equal ones the first.
      float size[4];
      int keep = 0;
#pragma unroll
      for (int i = 0; i < 4; i++) size[i] = fabsf(float(x[4 * g + i]));
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int larger = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) larger += size[j] > size[i] || (size[j] == size[i] && j < i);
        keep |= (larger < 2) << i;
      }
      if (__popc(keep) != 2) keep = 3;  // not numbers
      const int first = __ffs(keep) - 1, second = 31 - __clz(keep);
      kept[2 * g] = first == 0 ? x[4 * g] : first == 1 ? x[4 * g + 1] : x[4 * g + 2];
      kept[2 * g + 1] = second == 1 ? x[4 * g + 1] : second == 2 ? x[4 * g + 2] : x[4 * g + 3];
      code |= uint32_t(first | second << 2) << 4 * g;
    }
    *reinterpret_cast<uint4*>(values + row * (chunks * 8) + c * 8) = *reinterpret_cast<const uint4*>(kept);
  }
  const int64_t lane = row % 8 * 4 + c % 4;
  codes[(((row / 16 * (padded_chunks / 8) + c / 8) * 32 + lane) * 2 + c % 8 / 4) * 2 + row / 8 % 2] = uint16_t(code);
}

Status check(const SparseGemmArgs& g) {
  constexpr int64_t kMax = int64_t(1) << 31;
  if (g.m < 0 || g.m >= kMax) return bad("m", "must be in [0, 2^31)");
  if (g.n < 0 || g.n >= kMax) return bad("n", "must be in [0, 2^31)");
  if (g.k < 16 || g.k >= kMax || g.k % 16) return bad("k", "must be a multiple of 16 in [16, 2^31)");
  if (g.m == 0 || g.n == 0) return {};
  if (g.a.dtype != DType::kF16 && g.a.dtype != DType::kBF16) return bad("a.dtype", "must be f16 or bf16");
  if (!g.a.data || !aligned(g.a.data, 16)) return bad("a.data", "is null or not 16-byte aligned");
  if (g.a.col_stride != 1 || g.a.row_stride < g.k || g.a.row_stride % 8) return bad("a strides", "must be 1 along k, and along rows a multiple of 8 and at least k");
  if (!g.values || !aligned(g.values, 16)) return bad("values", "is null or not 16-byte aligned");
  if (!g.codes || !aligned(g.codes, 16)) return bad("codes", "is null or not 16-byte aligned");
  if (g.d.dtype != g.a.dtype) return bad("d.dtype", "must be that of a");
  if (!g.d.data || !aligned(g.d.data, 16)) return bad("d.data", "is null or not 16-byte aligned");
  if (g.n % 8) return bad("n", "must be a multiple of 8");
  if (g.d.col_stride != 1 || g.d.row_stride < g.n || g.d.row_stride % 8) return bad("d strides", "must be 1 along n, and along rows a multiple of 8 and at least n");
  if (!aligned(g.col_bias, 4)) return bad("col_bias", "is misaligned");
  if (!known(g.activation)) return bad("activation", "is none of those there are");
  const Extent a = matrix("a strides", g.a.data, g.m, g.k, g.a.row_stride, 1, 2), d = matrix("d.data", g.d.data, g.m, g.n, g.d.row_stride, 1, 2);
  if (span(a) == kMostBytes) return bad("a strides", "are too large");
  if (span(d) == kMostBytes) return bad("d strides", "are too large");
  return apart(d, {a, dense("values", g.values, g.n * g.k), dense("codes", g.codes, int64_t(sparse_codes_bytes(g.n, g.k))), dense("col_bias", g.col_bias, g.n * 4)});
}

bool encode(CUtensorMap* map, const void* data, DType t, int64_t rows, int64_t cols, int64_t pitch, int box_rows) {
  const uint64_t sizes[2] = {uint64_t(cols), uint64_t(rows)}, pitches[1] = {uint64_t(pitch * 2)};
  const uint32_t box[2] = {64, uint32_t(box_rows)};
  return encode_tensor_map(map, tensor_map_type(t), 2, data, sizes, pitches, box);
}

template <class T, int kCluster>
cudaError_t launch(const SparseParams& p, int sms, cudaStream_t stream) {
  const auto kernel = sparse<T, kCluster>;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared)) return e;
  cudaLaunchAttribute attribute[2];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  attribute[1].id = cudaLaunchAttributeClusterDimension;
  attribute[1].val.clusterDim = {kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(std::min<int64_t>(sms / kCluster, int64_t(p.tiles_w / kCluster) * p.tiles_a) * kCluster));
  config.blockDim = dim3(kThreads), config.dynamicSmemBytes = kShared, config.stream = stream, config.attrs = attribute, config.numAttrs = kCluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

}  // namespace

size_t sparse_codes_bytes(int64_t rows, int64_t cols) { return rows > 0 && cols > 0 ? size_t((rows + 15) / 16 * ((cols + 127) / 128)) * 256 : 0; }

Status sparsify(void* values, void* codes, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream) {
  if (dtype != DType::kF16 && dtype != DType::kBF16) return bad("dtype", "must be f16 or bf16");
  if (rows < 0 || rows >= int64_t(1) << 31) return bad("rows", "must be in [0, 2^31)");
  if (cols < 0 || cols >= int64_t(1) << 31 || cols % 16) return bad("cols", "must be a multiple of 16 in [0, 2^31)");
  if (rows == 0 || cols == 0) return {};
  if (pitch < cols || pitch % 8) return bad("pitch", "must be a multiple of 8 and at least cols");
  if (!values || !aligned(values, 16)) return bad("values", "is null or not 16-byte aligned");
  if (!codes || !aligned(codes, 16)) return bad("codes", "is null or not 16-byte aligned");
  if (!in || !aligned(in, 16)) return bad("in", "is null or not 16-byte aligned");
  const int64_t padded = (cols + 127) / 128 * 8, blocks = ((rows + 15) / 16 * 16 * padded + 255) / 256;
  if (blocks > 0x7fffffff) return bad("rows", "times cols is too large");
  const Extent from = matrix("in", in, rows, cols, pitch, 1, 2), kept = dense("values", values, rows * cols), said = dense("codes", codes, int64_t(sparse_codes_bytes(rows, cols)));
  if (span(from) == kMostBytes) return bad("pitch", "is too large");
  if (Status s = apart(kept, {from, said}); !s.ok()) return s;
  if (Status s = apart(said, {from}); !s.ok()) return s;
  uint16_t* to = static_cast<uint16_t*>(codes);
  if (dtype == DType::kF16)
    keep_two_of_four<<<unsigned(blocks), 256, 0, stream>>>(static_cast<__half*>(values), to, static_cast<const __half*>(in), rows, cols / 16, padded, pitch);
  else
    keep_two_of_four<<<unsigned(blocks), 256, 0, stream>>>(static_cast<__nv_bfloat16*>(values), to, static_cast<const __nv_bfloat16*>(in), rows, cols / 16, padded, pitch);
  return launched(cudaGetLastError());
}

Status gemm_sparse(const SparseGemmArgs& g, cudaStream_t stream) {
  if (Status s = check(g); !s.ok()) return s;
  if (g.m == 0 || g.n == 0) return {};
  SparseParams p{};
  if (!encode(&p.w, g.values, g.a.dtype, g.n, g.k / 2, g.k / 2, kRows) || !encode(&p.a, g.a.data, g.a.dtype, g.m, g.k, g.a.row_stride, kCols) ||
      !encode(&p.d, g.d.data, g.d.dtype, g.m, g.n, g.d.row_stride, 64))
    return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.codes = static_cast<const uint2*>(g.codes), p.bias = g.col_bias, p.alpha = g.alpha, p.activation = g.activation;
  p.m = int(g.m), p.n = int(g.n), p.steps = int((g.k + 127) / 128), p.blocks = int((g.n + 15) / 16);
  p.tiles_w = int((g.n + kRows - 1) / kRows), p.tiles_a = int((g.m + kCols - 1) / kCols);
  const bool pairs = p.tiles_w % 2 == 0;
  if (int64_t(p.tiles_w) * p.tiles_a > 1 << 30) return bad("m", "times n is too large");
  const int sms = sm_count();
  if (g.a.dtype == DType::kF16) return launched(pairs ? launch<__half, 2>(p, sms, stream) : launch<__half, 1>(p, sms, stream));
  return launched(pairs ? launch<__nv_bfloat16, 2>(p, sms, stream) : launch<__nv_bfloat16, 1>(p, sms, stream));
}

}  // namespace orrery::kernels
