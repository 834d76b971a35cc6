// calib/steps/short_products.cu: a few products by wgmma and the wait for them, of halves, bytes and FP8, by the columns of B: rounds in one block, and whole
// kernels that load their operands a tile at a time, multiply and store, as short products are written.
#include "steps.h"

namespace {
using namespace steps;

enum Of { kHalves, kBytes, kFp8 };

#define LIST4 "%0,%1,%2,%3"
#define LIST8 LIST4 ",%4,%5,%6,%7"
#define LIST16 LIST8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define LIST32 LIST16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F8(i) F4(i), F4(i + 4)
#define F16(i) F8(i), F8(i + 8)
#define F32(i) F16(i), F16(i + 16)
#define I4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define I8(i) I4(i), I4(i + 4)
#define I16(i) I8(i), I8(i + 8)
#define I32(i) I16(i), I16(i + 16)
#define PRODUCT(n, regs, F, I)                                                                                                                                                              \
  template <Of of, class T>                                                                                                                                                                 \
  __device__ inline void product##n(T (&d)[regs], uint64_t a, uint64_t b) {                                                                                                                 \
    if constexpr (of == kHalves) asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" LIST##regs "}, %" #regs ", %" NEXT##regs ", 1, 1, 1, 0, 0;" : F(0) : "l"(a), "l"(b)); \
    if constexpr (of == kFp8) asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" LIST##regs "}, %" #regs ", %" NEXT##regs ", 1, 1, 1;" : F(0) : "l"(a), "l"(b));        \
    if constexpr (of == kBytes) asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.s32.s8.s8 {" LIST##regs "}, %" #regs ", %" NEXT##regs ", 1;" : I(0) : "l"(a), "l"(b));                \
  }
#define NEXT4 "5"
#define NEXT8 "9"
#define NEXT16 "17"
#define NEXT32 "33"
PRODUCT(8, 4, F4, I4) PRODUCT(16, 8, F8, I8) PRODUCT(32, 16, F16, I16) PRODUCT(64, 32, F32, I32)

template <Of of>
struct SumOf { using type = float; };
template <>
struct SumOf<kBytes> { using type = int; };

template <Of of, int kN, class T>
__device__ inline void product(T (&d)[kN / 2], uint64_t a, uint64_t b) {
  if constexpr (kN == 8) product8<of>(d, a, b);
  if constexpr (kN == 16) product16<of>(d, a, b);
  if constexpr (kN == 32) product32<of>(d, a, b);
  if constexpr (kN == 64) product64<of>(d, a, b);
}
/// Descriptor of a matrix in pieces of 8 rows of 16 bytes without a swizzle: 128 bytes to the next piece of the row, `down` to the next eight rows.
__device__ inline uint64_t plain_matrix(uint32_t at, uint32_t down) { return (at & 0x3ffff) >> 4 | uint64_t(128 >> 4) << 16 | uint64_t(down >> 4) << 32; }

/// Rounds of `kSteps` products and the wait for them.
template <Of of, int kN, int kSteps>
__global__ void __launch_bounds__(256) rounds_of(float* out, int rounds) {
  extern __shared__ __align__(1024) uint32_t tile[];
  for (int i = int(threadIdx.x); i < 8192; i += int(blockDim.x)) tile[i] = 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  typename SumOf<of>::type d[kN / 2] = {};
  const uint64_t a = matrix_at(tile), b = matrix_at(tile + 4096);
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kSteps; k++) product<of, kN>(d, a + (k & 3) * 2, b + (k & 3) * 2);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float s = 0;
  for (int i = 0; i < kN / 2; i++) s += float(d[i]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
#define ROUNDS(name, of, n) \
  TRUTH("short", name "_1", {128, 256}, [](long threads) { auto o = zeros<float>(132 * 256); return [=] { rounds_of<of, n, 1><<<132, unsigned(threads), 32768>>>(o, 256); }; }); \
  TRUTH("short", name "_4", {128, 256}, [](long threads) { auto o = zeros<float>(132 * 256); return [=] { rounds_of<of, n, 4><<<132, unsigned(threads), 32768>>>(o, 256); }; });
ROUNDS("wait_halves_8", kHalves, 8) ROUNDS("wait_halves_64", kHalves, 64) ROUNDS("wait_bytes_8", kBytes, 8) ROUNDS("wait_bytes_16", kBytes, 16) ROUNDS("wait_bytes_32", kBytes, 32) ROUNDS("wait_bytes_64", kBytes, 64)
ROUNDS("wait_fp8_8", kFp8, 8) ROUNDS("wait_fp8_32", kFp8, 32) ROUNDS("wait_fp8_64", kFp8, 64)

/// C (m x n) = A (m x k) B^T (n x k): a block of a warpgroup makes 64 x kN; 64 bytes of k a turn, by pieces of 16 bytes or a byte at a time.
template <Of of, int kN, bool bytewise>
__global__ void __launch_bounds__(128) whole(const char* a, const char* b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char room[];
  constexpr int kTurn = 64;  // bytes
  char *own_a = room, *own_b = room + 64 * kTurn;
  const int row = int(blockIdx.y) * 64, column = int(blockIdx.x) * kN;
  typename SumOf<of>::type d[kN / 2] = {};
  for (int k0 = 0; k0 < k; k0 += kTurn) {
    if (bytewise) {
      for (int i = int(threadIdx.x); i < 64 * kTurn; i += 128) own_a[i / kTurn / 8 * 8 * kTurn + i % kTurn / 16 * 128 + i / kTurn % 8 * 16 + i % 16] = a[size_t(row + i / kTurn) * k + k0 + i % kTurn];
      for (int i = int(threadIdx.x); i < kN * kTurn; i += 128) own_b[i / kTurn / 8 * 8 * kTurn + i % kTurn / 16 * 128 + i / kTurn % 8 * 16 + i % 16] = b[size_t(column + i / kTurn) * k + k0 + i % kTurn];
    } else {
      constexpr int kPieces = kTurn / 16;
      for (int i = int(threadIdx.x); i < 64 * kPieces; i += 128)
        *reinterpret_cast<uint4*>(own_a + i / kPieces / 8 * 8 * kTurn + i % kPieces * 128 + i / kPieces % 8 * 16) = *reinterpret_cast<const uint4*>(a + size_t(row + i / kPieces) * k + k0 + i % kPieces * 16);
      for (int i = int(threadIdx.x); i < kN * kPieces; i += 128)
        *reinterpret_cast<uint4*>(own_b + i / kPieces / 8 * 8 * kTurn + i % kPieces * 128 + i / kPieces % 8 * 16) = *reinterpret_cast<const uint4*>(b + size_t(column + i / kPieces) * k + k0 + i % kPieces * 16);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int s = 0; s < kTurn / 32; s++) product<of, kN>(d, plain_matrix(smem(own_a) + s * 256, 8 * kTurn), plain_matrix(smem(own_b) + s * 256, 8 * kTurn));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < kN / 8; i++)
#pragma unroll
    for (int half = 0; half < 2; half++)
      *reinterpret_cast<float2*>(c + size_t(row + warp * 16 + half * 8 + lane / 4) * n + column + i * 8 + lane % 4 * 2) = make_float2(float(d[i * 4 + half * 2]), float(d[i * 4 + half * 2 + 1]));
}
/// `k`: bytes of a row of A.
template <Of of, int kN, bool bytewise>
Launch of_whole(int m, int n, long k) {
  auto a = zeros<char>(size_t(m * k)), b = zeros<char>(size_t(n * k));
  auto c = zeros<float>(size_t(m) * n);
  return [=] { whole<of, kN, bytewise><<<dim3(unsigned(n / kN), unsigned(m / 64)), 128, 64 * 64 + kN * 64>>>(a.p, b.p, c.p, n, int(k)); };
}
#define WHOLE(name, of, n, bytewise, rows, columns) TRUTH("short", name, {64, 256, 1024}, [](long k) { return of_whole<of, n, bytewise>(rows, columns, k); });
WHOLE("whole_bytes_8", kBytes, 8, false, 512, 64) WHOLE("whole_bytes_32", kBytes, 32, false, 512, 256) WHOLE("whole_bytes_64", kBytes, 64, false, 1024, 1024) WHOLE("whole_bytes_8_bytewise", kBytes, 8, true, 512, 64)
WHOLE("whole_bytes_64_bytewise", kBytes, 64, true, 1024, 1024) WHOLE("whole_fp8_32", kFp8, 32, false, 512, 256) WHOLE("whole_fp8_64", kFp8, 64, false, 1024, 1024) WHOLE("whole_halves_64", kHalves, 64, false, 1024, 1024)

}  // namespace
