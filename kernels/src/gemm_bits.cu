// D = A B' of bipolar integers by single-bit products: pack_bits makes bit planes, gemm_bits multiplies every plane of A with every plane of B.
//
// With a = 2 u - (2^p - 1) and b = 2 v - (2^q - 1), u and v unsigned of p and q bits,
//
//   sum a b = 4 sum u v - 2 (2^q - 1) sum u - 2 (2^p - 1) sum v + k (2^p - 1) (2^q - 1),   sum u v = sum over i, j of 2^(i + j) popc(u_i & v_j).
//
// So the tensor core counts bits that both have, which is the one single-bit product that wgmma has, and padding of zeros counts nothing. Invariant: pairs
// of planes go by i + j downwards, and between two of these weights the accumulators are doubled in place: one set of them does for all planes, and
// recovery is p + q - 2 shifts of a tile and the line above. All of it is exact modulo 2^32.
//
// A tile is 128 rows of A by kN of B. One thread fetches, 1,024 of k of a pair of planes a stage (a line of the 128-byte swizzle each row), two warpgroups
// multiply 64 rows each. Planes are read anew for each pair, from L2 mostly, as bytes of int8 would be that are eight times as deep. Not here: parts of K,
// clusters, tiles for few rows.
//
// Source: PTX ISA, "wgmma.mma_async" (.b1); bipolar integers: APT-LLM (arXiv 2508.19087).
#include <algorithm>

#include "arguments.h"
#include "launch.h"
#include "roles.cuh"
#include "tensor_map.h"
#include "wgmma.cuh"

namespace orrery::kernels {
namespace {

constexpr int kM = 128, kThreads = 384, kStepBits = 1024;

struct BitParams {
  CUtensorMap a, b;
  const int32_t *sums_a, *sums_b;
  int32_t* d;
  int64_t d_stride;
  int m, n, k, steps, tiles_n, bits_a, bits_b;
  bool wide;  // d may be written 16 bytes at a time
};

template <int kN>
struct Ring {
  static constexpr int kBytesA = kM * 128, kBytesB = kN * 128, kStage = kBytesA + kBytesB, kStages = std::min(6, 196608 / kStage), kShared = 1024 + kStages * (kStage + 16);
  uint32_t ring, full, empty;
  __device__ __forceinline__ explicit Ring(uint32_t raw) : ring((raw + 1023) / 1024 * 1024), full(ring + kStages * kStage), empty(full + 8 * kStages) {}
};

/// Planes of A that have a partner of this weight: from `first` up to `last`, its partner is weight - i.
struct Partners {
  int first, last;
  __device__ __forceinline__ Partners(const BitParams& p, int weight) : first(max(0, weight - p.bits_b + 1)), last(min(weight, p.bits_a - 1)) {}
};

template <int kN>
__device__ __forceinline__ void multiply(int32_t (&d)[kN / 2], uint64_t a, uint64_t b, int keep) {
#define ORK_BITS(n, r, pa, pb, pk)                                                                                                                    \
  if constexpr (kN == n)                                                                                                                              \
    asm volatile("{ .reg .pred p;\n\tsetp.ne.b32 p, %" pk ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #n "k256.s32.b1.b1.and.popc {" ORK_L##r "}, %" pa ", %" pb ", p; }" \
                 : ORK_INTS##r                                                                                                                        \
                 : "l"(a), "l"(b), "r"(keep));
  ORK_BITS(64, 32, "32", "33", "34")
  ORK_BITS(256, 128, "128", "129", "130")
#undef ORK_BITS
}

template <int kN>
__device__ __forceinline__ void produce(const BitParams& p, const Ring<kN>& ring, int row_a, int row_b) {
  using R = Ring<kN>;
  int stage = 0, phase = 1;
#pragma unroll 1
  for (int weight = p.bits_a + p.bits_b - 2; weight >= 0; weight--) {
    const Partners partners(p, weight);
#pragma unroll 1
    for (int i = partners.first; i <= partners.last; i++)
#pragma unroll 1
      for (int step = 0; step < p.steps; step++) {
        const uint32_t full = ring.full + 8 * stage, at = ring.ring + stage * R::kStage;
        ptx::mbarrier_wait(ring.empty + 8 * stage, phase);
        ptx::mbarrier_arrive_expect_tx(full, R::kStage);
        ptx::tma_load_3d(at, &p.a, full, step * 128, row_a, i, ptx::kEvictNormal);
        ptx::tma_load_3d(at + R::kBytesA, &p.b, full, step * 128, row_b, weight - i, ptx::kEvictNormal);
        if (++stage == R::kStages) stage = 0, phase ^= 1;
      }
  }
}

template <int kN>
__device__ __forceinline__ void consume(const BitParams& p, const Ring<kN>& ring, int row_a, int row_b) {
  using R = Ring<kN>;
  constexpr int kLine = kN + 8;
  static_assert(2 * 64 * kLine * 4 <= R::kStages * R::kStage);
  const int group = threadIdx.x / 128 - 1, lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  int32_t acc[kN / 2];
#pragma unroll
  for (int e = 0; e < kN / 2; e++) acc[e] = 0;
  int stage = 0, phase = 0, before = -1;
  const auto release = [&](int which) {
    if (lane == 0) ptx::mbarrier_arrive(ring.empty + 8 * which);
  };
#pragma unroll 1
  for (int weight = p.bits_a + p.bits_b - 2; weight >= 0; weight--) {
    const Partners partners(p, weight);
#pragma unroll
    for (int e = 0; e < kN / 2; e++) acc[e] = int32_t(uint32_t(acc[e]) << 1);
    ptx::wgmma_pin(acc);
#pragma unroll 1
    for (int left = (partners.last - partners.first + 1) * p.steps; left > 0; left--) {
      ptx::mbarrier_wait(ring.full + 8 * stage, phase);
      const uint32_t at = ring.ring + stage * R::kStage;
      const ptx::Descriptor a = ptx::descriptor_k_major(at + group * 64 * 128), b = ptx::descriptor_k_major(at + R::kBytesA);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; k++) multiply<kN>(acc, a.at(k * 32), b.at(k * 32), 1);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
      if (before >= 0) release(before);
      before = stage;
      if (++stage == R::kStages) stage = 0, phase ^= 1;
    }
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(acc);
    release(before), before = -1;
  }
  const uint32_t most_a = (1u << p.bits_a) - 1, most_b = (1u << p.bits_b) - 1, whole = uint32_t(p.k) * most_a * most_b;
  // Through shared memory, of which nobody reads stages any more, so that a warp stores whole lines: rows of kN elements, eight more apart for the banks.
  const uint32_t staging = ring.ring + group * (64 * kLine * 4);
  ptx::bar_sync(1, 256);
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int j = 0; j < kN / 8; j++) ptx::st_shared_v2(staging + ((warp * 16 + lane / 4 + 8 * h) * kLine + 8 * j + 2 * (lane % 4)) * 4, acc[4 * j + 2 * h], acc[4 * j + 2 * h + 1]);
  __syncwarp();
  constexpr int kEach = kN / 32 < 4 ? kN / 32 : 4;  // elements of a lane and turn
  uint32_t of_col[kN / 32];
#pragma unroll
  for (int i = 0; i < kN / 32; i++) {
    const int col = row_b + i / kEach * 32 * kEach + lane * kEach + i % kEach;
    of_col[i] = col < p.n ? 2 * most_a * uint32_t(__ldg(p.sums_b + col)) : 0;
  }
#pragma unroll 4
  for (int r = 0; r < 16; r++) {
    const int row = row_a + group * 64 + warp * 16 + r;
    if (row >= p.m) break;
    const uint32_t of_row = whole - 2 * most_b * uint32_t(__ldg(p.sums_a + row));
#pragma unroll
    for (int t = 0; t < kN / 32 / kEach; t++) {
      const int at = (t * 32 + lane) * kEach, col = row_b + at;
      const uint32_t from = staging + ((warp * 16 + r) * kLine + at) * 4;
      alignas(16) int32_t v[4];
      if constexpr (kEach == 4) reinterpret_cast<int4&>(v) = ptx::ld_shared_v4(from);
      else v[0] = ptx::ld_shared(from), v[1] = ptx::ld_shared(from + 4);
#pragma unroll
      for (int e = 0; e < kEach; e++) v[e] = int32_t(4 * uint32_t(v[e]) + of_row - of_col[t * kEach + e]);
      int32_t* const to = p.d + row * p.d_stride + col;
      if (p.wide && col + kEach <= p.n) {
        if constexpr (kEach == 4) *reinterpret_cast<int4*>(to) = make_int4(v[0], v[1], v[2], v[3]);
        else *reinterpret_cast<int2*>(to) = make_int2(v[0], v[1]);
        continue;
      }
#pragma unroll
      for (int e = 0; e < kEach; e++)
        if (col + e < p.n) to[e] = v[e];
    }
  }
}

template <int kN>
__global__ void __launch_bounds__(kThreads, 1) bits(const __grid_constant__ BitParams p) {
  extern __shared__ uint8_t raw[];
  const Ring<kN> ring(ptx::smem_address(raw));
  // Bands of 8 tiles of A walked together, so that planes of both come from L2.
  const int tiles_m = (p.m + kM - 1) / kM, band = blockIdx.x / (8 * p.tiles_n), in_band = blockIdx.x - band * 8 * p.tiles_n, high = min(8, tiles_m - band * 8);
  const int row_a = (band * 8 + in_band % high) * kM, row_b = in_band / high * kN;
  const auto init = [&] {
    if (threadIdx.x != 0) return;
    ptx::prefetch_tensormap(&p.a);
    ptx::prefetch_tensormap(&p.b);
    for (int s = 0; s < Ring<kN>::kStages; s++) ptx::mbarrier_init(ring.full + 8 * s, 1), ptx::mbarrier_init(ring.empty + 8 * s, 8);
    ptx::fence_mbarrier_init();
  };
  run_warp_roles<1, 40, 232, Dependent::kWhole>(false, init, [&](int) { produce<kN>(p, ring, row_a, row_b); }, [&] { consume<kN>(p, ring, row_a, row_b); });
}

/// Bits i of the 32 bytes of eight words: byte j's in bit j. The four of a word are brought together by a product whose terms do not meet.
__device__ __forceinline__ uint32_t plane_word(const uint32_t (&x)[8], int i) {
  uint32_t word = 0;
#pragma unroll
  for (int j = 0; j < 8; j++) word |= ((x[j] >> i & 0x01010101) * 0x10204080 >> 28) << 4 * j;
  return word;
}

/// A warp takes a row, a lane 32 columns at a time: a word of each plane. Of two's complement, adding half of the range turns the highest bit over.
__global__ void __launch_bounds__(256) planes_of(uint32_t* planes, int32_t* sums, const int8_t* in, int count, int64_t rows, int64_t cols, int64_t pitch, int64_t words, bool wide) {
  begin_overlapped();
  const int64_t row = blockIdx.x * int64_t(8) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32, half = 1 << (count - 1);
  if (row >= rows) return;
  const uint32_t low = uint32_t(-half & 0xFF) * 0x01010101, high = uint32_t(half - 1) * 0x01010101, turned = uint32_t(half) * 0x01010101, used = uint32_t(2 * half - 1) * 0x01010101;
  uint32_t sum = 0;
  for (int64_t w = lane; w < words; w += 32) {
    const int8_t* const from = in + row * pitch + w * 32;
    uint32_t x[8];
    if (wide && w * 32 + 32 <= cols) {
#pragma unroll
      for (int i = 0; i < 2; i++) reinterpret_cast<uint4*>(x)[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
    } else {
#pragma unroll
      for (int i = 0; i < 32; i++) x[i / 4] = (i % 4 ? x[i / 4] : 0) | uint32_t(uint8_t(w * 32 + i < cols ? from[i] : int8_t(-half))) << i % 4 * 8;  // -half: zeros
    }
#pragma unroll
    for (int i = 0; i < 8; i++) x[i] = (__vmins4(__vmaxs4(x[i], low), high) ^ turned) & used, sum = __dp4a(x[i], 0x01010101u, sum);
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (i < count) planes[(i * rows + row) * words + w] = plane_word(x, i);
  }
  sum = __reduce_add_sync(~0u, sum);
  if (lane == 0) sums[row] = int32_t(sum);
}

Status check_operand(const char* planes, const char* sums, const char* count, const BitMatrix& x) {
  if (x.bits < 1 || x.bits > 8) return bad(count, "must be in [1, 8]");
  if (!x.planes || !aligned(x.planes, 16)) return bad(planes, "is null or not 16-byte aligned");
  if (!x.sums || !aligned(x.sums, 4)) return bad(sums, "is null or not 4-byte aligned");
  return {};
}

bool encode(CUtensorMap* map, const BitMatrix& x, int64_t rows, int64_t cols, int box_rows) {
  const uint64_t bytes = bit_row_bytes(cols), sizes[3] = {bytes, uint64_t(rows), uint64_t(x.bits)}, pitches[2] = {bytes, bytes * uint64_t(rows)};
  const uint32_t box[3] = {128, uint32_t(box_rows), 1};
  return encode_tensor_map(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, x.planes, sizes, pitches, box);
}

template <int kN>
Status launch(BitParams& p, const BitGemmArgs& g, cudaStream_t stream) {
  if (!encode(&p.a, g.a, g.m, g.k, kM) || !encode(&p.b, g.b, g.n, g.k, kN)) return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.tiles_n = int((g.n + kN - 1) / kN);
  const auto kernel = bits<kN>;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Ring<kN>::kShared)) return launched(e);
  return launched(launch_overlapped(kernel, (g.m + kM - 1) / kM * p.tiles_n, kThreads, Ring<kN>::kShared, stream, p));
}

}  // namespace

size_t bit_row_bytes(int64_t cols) { return cols > 0 ? size_t((cols + 127) / 128) * 16 : 0; }

Status pack_bits(void* planes, int32_t* sums, const int8_t* in, int count, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream) {
  if (count < 1 || count > 8) return bad("bits", "must be in [1, 8]");
  if (rows < 0 || rows >= int64_t(1) << 31) return bad("rows", "must be in [0, 2^31)");
  if (cols < 0 || cols >= int64_t(1) << 23) return bad("cols", "must be in [0, 2^23)");
  if (rows == 0 || cols == 0) return {};
  if (pitch < cols) return bad("pitch", "must be at least cols");
  if (!planes || !aligned(planes, 16)) return bad("planes", "is null or not 16-byte aligned");
  if (!sums || !aligned(sums, 4)) return bad("sums", "is null or not 4-byte aligned");
  if (!in) return bad("in", "is null");
  const Extent from = matrix("in", in, rows, cols, pitch, 1, 1), to = dense("planes", planes, count * product(rows, int64_t(bit_row_bytes(cols)))), added = dense("sums", sums, rows * 4);
  if (span(from) == kMostBytes) return bad("pitch", "is too large");
  if (Status s = apart(to, {from, added}); !s.ok()) return s;
  if (Status s = apart(added, {from}); !s.ok()) return s;
  return launched(launch_overlapped(planes_of, (rows + 7) / 8, 256, 0, stream, static_cast<uint32_t*>(planes), sums, in, count, rows, cols, pitch, int64_t(bit_row_bytes(cols) / 4),
                                    aligned(in, 16) && pitch % 16 == 0));
}

Status gemm_bits(const BitGemmArgs& g, cudaStream_t stream) {
  constexpr int64_t kMost = int64_t(1) << 31;
  if (g.m < 0 || g.m >= kMost) return bad("m", "must be in [0, 2^31)");
  if (g.n < 0 || g.n >= kMost) return bad("n", "must be in [0, 2^31)");
  if (g.k < 1 || g.k >= int64_t(1) << 23) return bad("k", "must be in [1, 2^23)");
  if (g.m == 0 || g.n == 0) return {};
  if (Status s = check_operand("a.planes", "a.sums", "a.bits", g.a); !s.ok()) return s;
  if (Status s = check_operand("b.planes", "b.sums", "b.bits", g.b); !s.ok()) return s;
  if (!g.d || !aligned(g.d, 4)) return bad("d", "is null or not 4-byte aligned");
  if (g.d_stride < g.n) return bad("d_stride", "must be at least n");
  const Extent d = matrix("d", g.d, g.m, g.n, g.d_stride, 1, 4);
  if (span(d) == kMostBytes) return bad("d_stride", "is too large");
  const int64_t bytes = int64_t(bit_row_bytes(g.k));
  if (Status s = apart(d, {dense("a.planes", g.a.planes, g.a.bits * product(g.m, bytes)), dense("a.sums", g.a.sums, g.m * 4), dense("b.planes", g.b.planes, g.b.bits * product(g.n, bytes)),
                           dense("b.sums", g.b.sums, g.n * 4)});
      !s.ok())
    return s;
  BitParams p{};
  p.sums_a = g.a.sums, p.sums_b = g.b.sums, p.d = g.d, p.d_stride = g.d_stride, p.m = int(g.m), p.n = int(g.n), p.k = int(g.k);
  p.steps = int((g.k + kStepBits - 1) / kStepBits), p.bits_a = g.a.bits, p.bits_b = g.b.bits, p.wide = aligned(g.d, 16) && g.d_stride % 4 == 0;
  const int64_t wide = (g.m + kM - 1) / kM * ((g.n + 255) / 256);
  if (wide > 1 << 28) return bad("m", "times n is too large");
  return wide >= sm_count() ? launch<256>(p, g, stream) : launch<64>(p, g, stream);
}

}  // namespace orrery::kernels
