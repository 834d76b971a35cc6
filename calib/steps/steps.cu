// calib/steps/steps.cu: microbenchmarks that are whole kernels, so that a profiler times them as it times any kernel and
// the simulated GPU can run the same: launch cost, instruction rates, each level of memory by width and parallelism,
// random access, atomics, barriers, tensor cores and the clock under them. The timing model's figures come from these and
// from calib/dissect; calib/truth, which judges it, is never used.
#include <cuda_fp16.h>

#include <algorithm>

#include "../truth/truth.h"

namespace {
using namespace truth;

__device__ uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

__global__ void empty(int* p) {
  if (p) *p = 1;
}
__global__ void load_chain(const uint32_t* next, uint32_t* out, int steps) {
  uint32_t p = 0;
#pragma unroll 1
  for (int i = 0; i < steps; i++) p = next[p];
  out[0] = p;
}
/// Dependent loads by `lanes` lanes of a warp, each in a line of its own: what divergence costs beyond the longest of them.
__global__ void wide_chase(const uint32_t* next, uint32_t* out, int steps, int lanes, uint32_t spread) {
  uint32_t p = (blockIdx.x * 32 + threadIdx.x) * spread;
  if (int(threadIdx.x) < lanes)
#pragma unroll 1
    for (int i = 0; i < steps; i++) p = next[p];
  out[blockIdx.x * 32 + threadIdx.x] = p;
}
/// Independent loads by all lanes of one warp, `apart` words from lane to lane: the rate at which a warp's lines are looked up.
__global__ void spread_read(const float* p, float* out, int rounds, int apart) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++) acc += p[(threadIdx.x * apart + i * 4096 + r) & 16383];
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
/// Code that is jumped over: every 64th piece of 8 instructions is executed, once.
template <int kPieces>
__global__ void jumps(float* out, float y, uint32_t skip) {
  float x = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPieces; i++) {
    if (skip & 1u << (i & 31)) {
#pragma unroll
      for (int k = 0; k < 128; k++) x = x * y + float(i * 128 + k);
    }
    x = x * y + 1.5f * i;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <int kKind, int kChains>
__device__ void arithmetic(float* out, int rounds) {
  float x[kChains];
  uint32_t u[kChains];
  double d[kChains];
  __half2 h[kChains];
  for (int k = 0; k < kChains; k++) x[k] = threadIdx.x + k, u[k] = threadIdx.x * 7 + k, d[k] = threadIdx.x + k, h[k] = __float2half2_rn(threadIdx.x * .01f + k);
  const float y = .999f + rounds * 1e-9f, z = rounds * 1e-3f;
  const uint32_t v = rounds | 5;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 64 / kChains; i++)
#pragma unroll
      for (int k = 0; k < kChains; k++) {
        if (kKind == 0) x[k] = x[k] * y + z;
        if (kKind == 1) u[k] = u[k] * v + v;
        if (kKind == 2) u[k] = (u[k] ^ v) & (u[k] >> 1);
        if (kKind == 3) asm volatile("ex2.approx.f32 %0, %0;" : "+f"(x[k]));
        if (kKind == 4) h[k] = __hfma2(h[k], __float2half2_rn(.5f), h[(k + 1) % kChains]);
        if (kKind == 5) d[k] = d[k] * .999 + 1.;
        if (kKind == 6) x[k] = __shfl_xor_sync(~0u, x[k], 1 + i % 16);
        if (kKind == 7) x[k] = x[k] * y + z, u[k] = u[k] * v + v;
        if (kKind == 8) x[k] = x[k] * y + z, u[k] = (u[k] ^ v) + (u[k] >> 1);
        if (kKind == 9) x[k] = x[k] * x[(k + 1) % kChains] + x[(k + 2) % kChains];
      }
  float s = 0;
  for (int k = 0; k < kChains; k++) s += x[k] + u[k] + float(d[k]) + __low2float(h[k]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void ffma(float* o, int r) { arithmetic<0, 8>(o, r); }
__global__ void ffma_chain(float* o, int r) { arithmetic<0, 1>(o, r); }
__global__ void imad(float* o, int r) { arithmetic<1, 8>(o, r); }
__global__ void logic(float* o, int r) { arithmetic<2, 8>(o, r); }
__global__ void mufu(float* o, int r) { arithmetic<3, 8>(o, r); }
__global__ void hfma(float* o, int r) { arithmetic<4, 8>(o, r); }
__global__ void dfma(float* o, int r) { arithmetic<5, 8>(o, r); }
__global__ void shuffle(float* o, int r) { arithmetic<6, 4>(o, r); }
__global__ void ffma_imad(float* o, int r) { arithmetic<7, 4>(o, r); }
__global__ void ffma_logic(float* o, int r) { arithmetic<8, 4>(o, r); }
__global__ void ffma_three(float* o, int r) { arithmetic<9, 8>(o, r); }
__global__ void short_loop(float* out, int rounds) {
  float x = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) x = x * .999f + 1.f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <int kInstructions>
__global__ void straight(float* out, float y) {
  float x = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kInstructions; i++) x = x * y + (i & 7);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <class T>
__device__ void shared_loads(float* out, int rounds, int stride) {
  __shared__ T s[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = T{};
  __syncthreads();
  float acc = 0;
  int at = threadIdx.x * stride & 1023;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      T v;
      if constexpr (sizeof(T) == 16) {
        asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(smem(&s[at ^ i])));
        acc += v.x;
      } else {
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(smem(&s[at ^ i])));
        acc += v;
      }
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
__global__ void shared_load4(float* o, int r) { shared_loads<float>(o, r, 1); }
__global__ void shared_load4_stride2(float* o, int r) { shared_loads<float>(o, r, 2); }
__global__ void shared_load16(float* o, int r) { shared_loads<float4>(o, r, 1); }
__global__ void shared_chain(float* out, int rounds) {
  __shared__ int s[32];
  s[threadIdx.x & 31] = threadIdx.x & 31;
  __syncthreads();
  int p = threadIdx.x & 31;
#pragma unroll 8
  for (int r = 0; r < rounds; r++) p = s[p];
  out[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
__global__ void shared_store4(float* out, int rounds) {
  __shared__ float s[2048];
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) asm volatile("st.shared.f32 [%0], %1;" ::"r"(smem(&s[(threadIdx.x ^ i) & 2047])), "f"(float(i)));
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x];
}
__global__ void matrix_load(float* out, int rounds) {
  __shared__ __align__(128) uint32_t s[2048];
  uint32_t a, b, c, d, sum = 0;
  const uint32_t at = smem(s) + (threadIdx.x & 31) * 16 + (threadIdx.x / 32 & 7) * 512;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at ^ (i * 512 & 4095)));
      sum += a ^ b ^ c ^ d;
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
/// Reads `words` words of T `rounds` times, 4 loads in flight a thread.
template <class T>
__device__ void stream_read(const T* p, float* out, long n, int rounds) {
  float acc = 0;
  const long step = long(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += step) {
      const T v = p[i];
      if constexpr (sizeof(T) == 16) acc += v.x + v.w;
      else acc += v;
    }
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void read4_block(const float* p, float* out, int n, int rounds) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += p[i];
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void read4(const float* p, float* out, long n, int rounds) { stream_read(p, out, n, rounds); }
__global__ void read16(const float4* p, float* out, long n, int rounds) { stream_read(p, out, n, rounds); }
__global__ void read_once4(const float* p, float* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n && p[i] == 12345.678f) out[0] = 1;
}
__global__ void write4(float* p, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) p[i] = 1;
}
__global__ void write16(float4* p, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) p[i] = make_float4(1, 2, 3, 4);
}
__global__ void copy_loop16(const float4* a, float4* b, long n) {
#pragma unroll 4
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) b[i] = a[i];
}
__global__ void copy_loop4(const float* a, float* b, long n) {
#pragma unroll 4
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) b[i] = a[i];
}
__device__ uint32_t mix(uint32_t h) {
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  return h;
}
__global__ void random_read(const float* p, float* out, uint32_t mask, int per) {
  float acc = 0;
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) acc += p[mix(t * 64 + i) & mask];
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void random_write(float* p, uint32_t mask, int per) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) p[mix(t * 64 + i) & mask] = 1;
}
__global__ void random_add(uint32_t* p, uint32_t mask, int per) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) atomicAdd(&p[mix(t * 64 + i) & mask], 1u);
}
__global__ void random_add_float(float* p, uint32_t mask, int per) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) atomicAdd(&p[mix(t * 64 + i) & mask], 1.f);
}
__global__ void add_uniform(uint32_t* p, int per) {  // a warp to one address
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (int i = 0; i < per; i++) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p + (warp & 1023) * 32), "r"(threadIdx.x) : "memory");
}
__global__ void add_one_address(float* p, int per) {
  for (int i = 0; i < per; i++)
    if (threadIdx.x % 32 == 0) atomicAdd(p, 1.f);
}
/// Every warp's first lane adds to one of `words` words, `apart` words from each other.
__global__ void add_words(uint32_t* p, uint32_t words, uint32_t apart, int per) {
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (int i = 0; i < per; i++)
    if (threadIdx.x % 32 == 0) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p + (warp * 7 + i) % words * apart), "r"(i) : "memory");
}
/// Every lane of every warp adds to one word, with values that differ.
__global__ void add_lanes(uint32_t* p, int per) {
  for (int i = 0; i < per; i++) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(threadIdx.x + i) : "memory");
}
__global__ void swap_random(uint32_t* p, uint32_t mask, int per, uint32_t* out) {  // compare and swap, new addresses
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t s = 0;
  for (int i = 0; i < per; i++) s += atomicCAS(&p[mix(t * 64 + i) & mask], 0u, t);
  if (s == 77) *out = s;
}
__global__ void exchange_random(uint32_t* p, uint32_t mask, int per, uint32_t* out) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t s = 0;
#pragma unroll 4
  for (int i = 0; i < per; i++) s += atomicExch(&p[mix(t * 64 + i) & mask], i);
  if (s == 77) *out = s;
}
__global__ void shared_add(uint32_t* out, uint32_t mask, int per) {
  __shared__ uint32_t s[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = 0;
  __syncthreads();
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) atomicAdd(&s[mix(t * 64 + i) & mask], 1u);
  __syncthreads();
  out[t] = s[threadIdx.x];
}
__global__ void barriers(float* out, int rounds) {
  for (int r = 0; r < rounds; r++) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
__global__ void hmma(float* out, int rounds, int pause) {
  float c[4][4] = {};
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; i++) a[i] = 0x3c003800u + threadIdx.x * 0x00010003u * (i + 1);
  b[0] = 0x34003a00u + threadIdx.x * 77, b[1] = 0x38003400u + threadIdx.x * 131;
  float w = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#pragma unroll 1
    for (int i = 0; i < pause; i++) w = w * .99f + 1;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = c[0][0] + c[1][1] + c[2][2] + c[3][3] + w;
}
/// Products of 64 x 256 x 16 from shared memory by every warpgroup; a pause of `pause` dependent steps after each 8.
__global__ void __launch_bounds__(256) wgmma256(float* out, int rounds, int pause, int random) {
  extern __shared__ __align__(1024) uint32_t tile[];
  for (int i = threadIdx.x; i < 12288; i += blockDim.x) {
    uint32_t h = mix(i * 77 + blockIdx.x);
    tile[i] = random ? (h & 0x83ff83ffu) | 0x34003400u : 0;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[128];
  for (int i = 0; i < 128; i++) d[i] = 0;
  const uint64_t high = uint64_t(64) << 32 | uint64_t(1) << 62, a = high | (smem(tile) + 8192 * (threadIdx.x / 128) & 0x3ffff) >> 4, b = high | ((smem(tile) + 16384) & 0x3ffff) >> 4;
  float w = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 8; k++) {
#define R8(n) "+f"(d[n]), "+f"(d[n + 1]), "+f"(d[n + 2]), "+f"(d[n + 3]), "+f"(d[n + 4]), "+f"(d[n + 5]), "+f"(d[n + 6]), "+f"(d[n + 7])
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
          "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
          "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
          "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127},"
          " %128, %129, 1, 1, 1, 0, 0;"
          : R8(0), R8(8), R8(16), R8(24), R8(32), R8(40), R8(48), R8(56), R8(64), R8(72), R8(80), R8(88), R8(96), R8(104), R8(112), R8(120)
          : "l"(a + (k & 3) * 2), "l"(b + (k & 3) * 2));
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll 1
    for (int i = 0; i < pause; i++) w = w * .99f + 1;
  }
  float s = w;
  for (int i = 0; i < 128; i++) s += d[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
/// A ring of bulk copies into shared memory: `stages` of `bytes`, one thread, over `total` bytes for all blocks.
__global__ void bulk_ring(const char* from, float* out, uint32_t bytes, int stages, long total, int rounds) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[16];
  if (threadIdx.x) return;
  for (int s = 0; s < stages; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(&bar[s])));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const long pieces = total / bytes, mine = (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x * rounds;
  const auto fetch = [&](long i) {
    const int s = int(i % stages);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(&bar[s])), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(room + s * bytes)),
                 "l"(from + (blockIdx.x + i * gridDim.x) % pieces * bytes), "r"(bytes), "r"(smem(&bar[s])) : "memory");
  };
  for (long i = 0; i < stages && i < mine; i++) fetch(i);
  for (long i = 0; i < mine; i++) {
    const int s = int(i % stages);
    asm volatile("{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(&bar[s])), "r"(uint32_t(i / stages & 1)) : "memory");
    if (i + stages < mine) fetch(i + stages);
  }
  out[blockIdx.x] = room[0];
}

TRUTH("launch", "empty", {1, 132, 1056, 8448, 131072}, [](long n) { return [=] { empty<<<int(n), 32>>>(nullptr); }; });
TRUTH("launch", "empty_256", {132, 1056, 8448, 131072}, [](long n) { return [=] { empty<<<int(n), 256>>>(nullptr); }; });
TRUTH("launch", "empty_1024", {132, 264, 8448}, [](long n) { return [=] { empty<<<int(n), 1024>>>(nullptr); }; });
TRUTH("launch", "load_chain", {1, 4, 16, 64}, [](long steps) {
  std::vector<uint32_t> next(1 << 20);
  for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t((i + 64 * 37) & (next.size() - 1));
  auto d = upload(next);
  auto o = zeros<uint32_t>(32);
  return [=] { load_chain<<<1, 32>>>(d, o, int(steps)); };
});
#define WIDE(name, mb, blocks) \
  TRUTH("wide", name, {1, 2, 4, 8, 16, 32}, [](long lanes) { \
    const size_t n = size_t(mb) << 18; \
    std::vector<uint32_t> next(n); \
    for (size_t i = 0; i < n; i++) next[i] = uint32_t((i + 4099 * 32) % n); \
    auto d = upload(next); \
    auto o = zeros<uint32_t>(32 * blocks); \
    return [=] { wide_chase<<<blocks, 32>>>(d, o, 256, int(lanes), 64); }; \
  });
WIDE("wide_chase_8mb", 8, 1) WIDE("wide_chase_128mb", 128, 1) WIDE("wide_chase_1024mb", 1024, 1) WIDE("wide_chase_8mb_16", 8, 16)
TRUTH("wide", "wide_chase_l1", {1, 2, 4, 8, 16, 32}, [](long lanes) {
  std::vector<uint32_t> next(16384);
  for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t((i + 96) % next.size());
  auto d = upload(next);
  auto o = zeros<uint32_t>(32);
  return [=] { wide_chase<<<1, 32>>>(d, o, 2048, int(lanes), 64); };
});
TRUTH("wide", "spread_read", {1, 2, 4, 8, 16, 32, 33}, [](long apart) {
  auto p = zeros<float>(16384 + 64);
  auto o = zeros<float>(132 * 1024);
  return [=] { spread_read<<<132, 128>>>(p, o, 100, int(apart)); };
});
TRUTH("wide", "spread_read_wide", {1, 2, 4, 8, 16, 32, 33}, [](long apart) {
  auto p = zeros<float>(16384 + 64);
  auto o = zeros<float>(132 * 1024);
  return [=] { spread_read<<<132, 1024>>>(p, o, 100, int(apart)); };
});
#define JUMPS(n) \
  TRUTH("code", "jumps" #n, {1, 132}, [](long blocks) { \
    auto o = zeros<float>(132 * 32); \
    return [=] { jumps<n><<<int(blocks), 32>>>(o, .99f, 0u); }; \
  });
JUMPS(4) JUMPS(16) JUMPS(31)
#define RATE(name) \
  TRUTH("rate", #name, {4, 8, 16, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
RATE(ffma) RATE(ffma_chain) RATE(imad) RATE(logic) RATE(mufu) RATE(hfma) RATE(dfma) RATE(shuffle) RATE(ffma_imad) RATE(ffma_logic) RATE(ffma_three)
TRUTH("code", "short_loop", {4, 16, 64}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { short_loop<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 2000); };
});
#define STRAIGHT(n) \
  TRUTH("code", "straight" #n, {1, 132}, [](long blocks) { \
    auto o = zeros<float>(132 * 32); \
    return [=] { straight<n><<<int(blocks), 32>>>(o, .99f); }; \
  });
STRAIGHT(64) STRAIGHT(512) STRAIGHT(2048) STRAIGHT(8192)
#define SHARED(name) \
  TRUTH("shared", #name, {4, 16, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
SHARED(shared_load4) SHARED(shared_load4_stride2) SHARED(shared_load16) SHARED(shared_chain) SHARED(shared_store4) SHARED(matrix_load)
TRUTH("l1", "read4_l1", {4, 16, 64}, [](long warps) {  // every block the same 16 KB
  auto p = zeros<float>(4096);
  auto o = zeros<float>(32);
  return [=] { read4_block<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(p, o, 4096, 50); };
});
TRUTH("l2", "read4_l2", {8, 16, 24, 32, 40, 56}, [](long mb) {
  const long n = mb << 18;
  auto p = zeros<float>(n);
  auto o = zeros<float>(32);
  return [=] { read4<<<264, 1024>>>(p, o, n, 20); };
});
TRUTH("l2", "read16_l2", {4, 8, 16, 24, 32, 40, 56}, [](long mb) {
  const long n = mb << 16;
  auto p = zeros<float>(n * 4);
  auto o = zeros<float>(32);
  return [=] { read16<<<264, 1024>>>((const float4*)p.p, o, n, 20); };
});
TRUTH("l2", "read16_l2_few", {1, 4, 16, 64}, [](long blocks) {  // blocks of 1024 threads over 4 MB
  const long n = 4l << 16;
  auto p = zeros<float>(n * 4);
  auto o = zeros<float>(32);
  return [=] { read16<<<int(blocks), 1024>>>((const float4*)p.p, o, n, 4); };
});
TRUTH("dram", "read16", {128, 256, 512, 1024, 2048}, [](long threads) {  // threads an SM, 1 GiB
  const long n = 1l << 26;
  auto p = zeros<float>(n * 4);
  auto o = zeros<float>(32);
  return [=] { read16<<<132 * int(threads > 1024 ? 2 : 1), int(std::min(threads, 1024l))>>>((const float4*)p.p, o, n, 1); };
});
TRUTH("dram", "read4", {256, 1024, 2048}, [](long threads) {
  const long n = 1l << 26;
  auto p = zeros<float>(n);
  auto o = zeros<float>(32);
  return [=] { read4<<<132 * int(threads > 1024 ? 2 : 1), int(std::min(threads, 1024l))>>>(p, o, n, 1); };
});
TRUTH("dram", "read_once4", {1 << 20, 1 << 24, 1 << 27}, [](long n) {
  auto p = zeros<float>(n);
  auto o = zeros<float>(32);
  return [=] { read_once4<<<blocks_for(n, 256), 256>>>(p, o, n); };
});
TRUTH("dram", "write16", {4, 8, 16, 32, 64, 128, 1024}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  return [=] { write16<<<264, 1024>>>((float4*)p.p, mb << 16); };
});
TRUTH("dram", "write4", {16, 64, 512}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  return [=] { write4<<<264, 1024>>>(p, mb << 18); };
});
TRUTH("dram", "copy_loop16", {8, 32, 64, 256, 1024}, [](long mb) {
  auto p = zeros<float>(mb << 18), q = zeros<float>(mb << 18);
  return [=] { copy_loop16<<<264, 1024>>>((const float4*)p.p, (float4*)q.p, mb << 16); };
});
TRUTH("dram", "copy_loop4", {64, 512}, [](long mb) {
  auto p = zeros<float>(mb << 18), q = zeros<float>(mb << 18);
  return [=] { copy_loop4<<<264, 1024>>>(p, q, mb << 18); };
});
TRUTH("random", "random_read", {1, 8, 24, 48, 128, 1024, 8192}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  auto o = zeros<float>(32);
  return [=] { random_read<<<264, 1024>>>(p, o, uint32_t((mb << 18) - 1), 32); };
});
TRUTH("random", "random_write", {8, 128, 1024}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  return [=] { random_write<<<264, 1024>>>(p, uint32_t((mb << 18) - 1), 16); };
});
TRUTH("atomic", "random_add", {1, 8, 1024}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10);
  return [=] { random_add<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16); };
});
TRUTH("atomic", "random_add_float", {4, 1024}, [](long kwords) {
  auto p = zeros<float>(kwords << 10);
  return [=] { random_add_float<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16); };
});
TRUTH("atomic", "add_uniform", {1, 16}, [](long per) {
  auto p = zeros<uint32_t>(32768);
  return [=] { add_uniform<<<264, 1024>>>(p, int(per) * 16); };
});
TRUTH("atomic", "add_one_address", {1, 16}, [](long per) {
  auto p = zeros<float>(32);
  return [=] { add_one_address<<<264, 1024>>>(p, int(per)); };
});
TRUTH("atomic", "add_words_line", {1, 2, 8, 32}, [](long words) {
  auto p = zeros<uint32_t>(1 << 20);
  return [=] { add_words<<<264, 1024>>>(p, uint32_t(words), 1, 16); };
});
TRUTH("atomic", "add_words_apart", {8, 64, 1024}, [](long words) {
  auto p = zeros<uint32_t>(1 << 20);
  return [=] { add_words<<<264, 1024>>>(p, uint32_t(words), 1024, 16); };
});
TRUTH("atomic", "add_lanes", {1, 16}, [](long per) {
  auto p = zeros<uint32_t>(1 << 10);
  return [=] { add_lanes<<<264, 1024>>>(p, int(per)); };
});
TRUTH("atomic", "random_add_lines", {2, 16, 64, 256}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10);
  return [=] { random_add<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16); };
});
TRUTH("atomic", "swap_random", {1024, 4096, 65536}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10), o = zeros<uint32_t>(32);
  return [=] { swap_random<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 8, o); };
});
TRUTH("atomic", "exchange_random", {8, 1024}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10), o = zeros<uint32_t>(32);
  return [=] { exchange_random<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16, o); };
});
TRUTH("atomic", "shared_add", {1, 32, 256, 1024}, [](long words) {
  auto o = zeros<uint32_t>(264 * 1024);
  return [=] { shared_add<<<264, 1024>>>(o, uint32_t(words - 1), 64); };
});
TRUTH("barrier", "barriers", {4, 8, 16, 32, 64}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { barriers<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 500); };
});
TRUTH("tensor", "hmma", {4, 8, 16, 32}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { hmma<<<132, int(warps) * 32>>>(o, 1000, 0); };
});
TRUTH("clock", "hmma_paused", {10, 40, 200}, [](long pause) {
  auto o = zeros<float>(132 * 2048);
  return [=] { hmma<<<132, 512>>>(o, 1000, int(pause)); };
});
#define WGMMA(name, groups, data) \
  TRUTH("clock", name, {0, 50, 200, 800}, [](long pause) { \
    auto o = zeros<float>(132 * 256); \
    cudaFuncSetAttribute(wgmma256, cudaFuncAttributeMaxDynamicSharedMemorySize, 50176); \
    return [=] { wgmma256<<<132, groups * 128, 50176>>>(o, 150, int(pause), data); }; \
  });
WGMMA("wgmma_two_random", 2, 1) WGMMA("wgmma_two_zero", 2, 0) WGMMA("wgmma_one_random", 1, 1)
TRUTH("clock", "wgmma_long", {100, 1000, 4000}, [](long rounds) {
  auto o = zeros<float>(132 * 256);
  cudaFuncSetAttribute(wgmma256, cudaFuncAttributeMaxDynamicSharedMemorySize, 50176);
  return [=] { wgmma256<<<132, 256, 50176>>>(o, int(rounds), 0, 1); };
});
TRUTH("bulk", "bulk_dram", {2, 4, 8}, [](long stages) {
  auto p = zeros<float>(1l << 28);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(bulk_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { bulk_ring<<<132, 32, 16384 * int(stages)>>>((const char*)p.p, o, 16384, int(stages), 1l << 30, 1); };
});
TRUTH("bulk", "bulk_l2", {1, 2, 4, 8}, [](long stages) {
  auto p = zeros<float>(4l << 20);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(bulk_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { bulk_ring<<<132, 32, 16384 * int(stages)>>>((const char*)p.p, o, 16384, int(stages), 16l << 20, 20); };
});
TRUTH("bulk", "bulk_shared_read", {4, 8}, [](long stages) {  // every SM the same 2 MB
  auto p = zeros<float>(1l << 19);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(bulk_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { bulk_ring<<<132, 32, 16384 * int(stages)>>>((const char*)p.p, o, 16384, int(stages), 2l << 20, 100); };
});

}  // namespace
