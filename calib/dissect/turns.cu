// calib/dissect/turns.cu: whose turn it is: two warps of a sub-core that want the same pipe from the same moment, or one of them later;
// warpgroups that multiply and work by turns, without branches between products; the softmax of attention between two
// groups of products; the end of a product's tile, part by part; which SMs blocks of clusters are put on.
//
// Ends are counted from a barrier before the work.
#include <map>

#include "measure.h"
#include "tensor_map.h"

namespace dissect {
namespace {

enum Work { kSpecial, kFma, kImad, kHalf, kDouble, kShuffle, kLoad4, kGlobal, kStore4 };

/// 64 instructions of one kind a round.
template <int kWork>
__device__ float some_work(const float* cached, uint32_t tile, int rounds) {
  float x[16];
  double d[8];
  uint32_t u[8];
  for (int k = 0; k < 16; k++) x[k] = threadIdx.x + k;
  for (int k = 0; k < 8; k++) d[k] = threadIdx.x + k, u[k] = threadIdx.x * 77 + k;
  const float y = .999f + rounds * 1e-9f;
  const uint32_t v = rounds | 5;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 64; i++) {
      const int k = i % 8;
      if (kWork == kSpecial) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]));
      if (kWork == kFma) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[k]) : "f"(y));
      if (kWork == kImad) asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(u[k]) : "r"(v));
      if (kWork == kHalf) asm volatile("fma.rn.f16x2 %0, %0, %1, %1;" : "+r"(u[k]) : "r"(v));
      if (kWork == kDouble) asm volatile("fma.rn.f64 %0, %0, %1, %1;" : "+d"(d[k]) : "d"(double(y)));
      if (kWork == kShuffle) asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, -1;" : "+r"(u[k]));
      if (kWork == kLoad4) {
        float a;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(a) : "r"(tile + threadIdx.x % 32 * 4 + i * 128 + r % 4 * 8192));
        x[k] += a;
      }
      if (kWork == kGlobal) {
        float a;
        asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(a) : "l"(cached + threadIdx.x % 32 + i * 32 + r % 4 * 2048));
        x[k] += a;
      }
      if (kWork == kStore4) asm volatile("st.shared.f32 [%0], %1;" ::"r"(tile + threadIdx.x % 32 * 4 + k * 128), "f"(x[k]));
    }
  float s = 0;
  for (int k = 0; k < 16; k++) s += x[k];
  for (int k = 0; k < 8; k++) s += float(d[k]) + u[k];
  return s;
}

/// cycles[0], cycles[1]: from the barrier to the end of the first and of the second warpgroup, of which the second starts after
/// `wait` dependent products, or not at all.
template <int kWork>
__global__ void __launch_bounds__(256) turns(long long* cycles, float* sink, const float* cached, int rounds, int wait) {
  __shared__ __align__(16) float tile[8192];
  __shared__ long long ends[2];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = cached[i % 256];
  const uint32_t at = shared_address(tile);
  float x = threadIdx.x;
  __syncthreads();
  const long long start = clock_now();
  if (threadIdx.x >= 128) {
#pragma unroll 1
    for (int i = 0; i < wait; i++) x = x * .999f + .5f;
  }
  const float s = some_work<kWork>(cached, at, threadIdx.x < 128 || wait >= 0 ? rounds : 0);
  const long long end = clock_now();
  if (threadIdx.x % 128 == 0) ends[threadIdx.x / 128] = end - start;
  __syncthreads();
  if (threadIdx.x < 2) cycles[threadIdx.x] = ends[threadIdx.x];
  sink[threadIdx.x] = s + x;
}

void report_ends(const std::string& name, const char* how, const std::function<void(long long*)>& launch) {
  Buffer<long long> cycles(2);
  std::vector<double> both[2];
  if (predicted()) launch(cycles), both[0] = predicted_cycles(Clock::first_warp, 1), both[1] = predicted_cycles(Clock::fifth_warp, 1);
  for (int r = -1; r < (predicted() ? -1 : 5); r++) {
    long long c[2] = {};
    launch(cycles);
    if (cudaMemcpy(c, cycles, sizeof c, cudaMemcpyDeviceToHost) != cudaSuccess) break;
    if (r >= 0) both[0].push_back(double(c[0])), both[1].push_back(double(c[1]));
  }
  report(name + ".first", both[0], "cycles", how);
  report(name + ".second", both[1], "cycles", how);
}

template <int kWork>
void measure_turns(const char* what, float* sink) {
  Buffer<float> cached(8192);
  const int rounds = 16;
  for (const auto& [when, wait] : std::map<std::string, int>{{"alone", -1}, {"together", 0}, {"later", 256}})
    report_ends(std::string("turns.") + what + "." + when, "1024 instructions by one warp of each sub-core, and by a second one from the same moment or 256 dependent products later: ends from the barrier on",
                [&, wait = wait](long long* c) { turns<kWork><<<1, 256>>>(c, sink, cached, rounds, wait); });
}

#define R4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
__device__ void product(float (&c)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
      : R16(0), R16(16), R16(32), R16(48) : "l"(a), "l"(b));
}
__device__ void product_of_registers(float (&c)[32], const uint32_t (&p)[32], int k, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
      : R16(0), R16(16) : "r"(p[4 * k]), "r"(p[4 * k + 1]), "r"(p[4 * k + 2]), "r"(p[4 * k + 3]), "l"(b));
}
__device__ uint64_t operand(uint32_t at) { return uint64_t((at & 0x3FFFF) >> 4) | uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32; }
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__device__ void prepare(uint32_t* tile) {
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) tile[i] = 0;
  asm volatile("fence.proxy.async;" ::: "memory");
}

constexpr size_t kShared = 65536;
constexpr int kRounds = 64;

enum Between { kExponentials, kProducts };

/// Rounds of kDepth products, wait, kWork times 64 instructions.
template <int kBetween, int kDepth, int kWork>
__global__ void __launch_bounds__(256) alternate(long long* cycles, float* sink) {
  extern __shared__ __align__(1024) uint32_t tile[];
  prepare(tile);
  const uint64_t a = operand(shared_address(tile)), b = a + (2048 >> 4);
  float c[64] = {}, x[8];
  for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int i = 0; i < kRounds; i++) {
    begin_products();
#pragma unroll
    for (int k = 0; k < kDepth; k++) product(c, a, b);
    end_products();
#pragma unroll
    for (int k = 0; k < kWork * 64; k++) {
      if (kBetween == kProducts) x[k % 8] = x[k % 8] * 1.5f + c[k % 64];
      if (kBetween == kExponentials) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k % 8]));
    }
  }
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  float s = 0;
  for (int k = 0; k < 64; k++) s += c[k];
  for (int k = 0; k < 8; k++) s += x[k];
  sink[threadIdx.x] = s;
}

template <int kBetween, int kDepth, int kWork>
void measure_alternate(const char* what, float* sink) {
  auto* kernel = alternate<kBetween, kDepth, kWork>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  for (int groups : {1, 2}) {
    const std::string name = std::string("turns.alternate.") + what + ".groups" + std::to_string(groups) + ".depth" + std::to_string(kDepth) + ".work" + std::to_string(kWork);
    report(name, cycles_of(5, kRounds, [&](long long* c) { kernel<<<1, 128 * groups, kShared>>>(c, sink); }), "cycles",
           "a round of products of m64n128k16, wait, and work of 64 instructions each, by one or two warpgroups");
  }
}

/// One step of attention, 64 rows a group: scores (4 products), their maximum, exponentials, sums, halves; then 8 products of those.
__global__ void __launch_bounds__(256) attend(long long* cycles, float* sink) {
  extern __shared__ __align__(1024) uint32_t tile[];
  prepare(tile);
  const uint64_t a = operand(shared_address(tile)), b = a + (2048 >> 4);
  float c[64] = {}, o[32] = {}, most = 0, sum = 0;
  uint32_t p[32];
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int i = 0; i < kRounds; i++) {
    begin_products();
#pragma unroll
    for (int k = 0; k < 4; k++) product(c, a, b);
    end_products();
    float row = most;
#pragma unroll
    for (int k = 0; k < 64; k++) row = fmaxf(row, c[k]);
    row = fmaxf(row, __shfl_xor_sync(~0u, row, 1)), row = fmaxf(row, __shfl_xor_sync(~0u, row, 2));
    float scale;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(scale) : "f"(most - row));
    sum *= scale, most = row;
#pragma unroll
    for (int k = 0; k < 64; k++) {
      asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(c[k]) : "f"(c[k] * .18f - row));
      sum += c[k];
    }
#pragma unroll
    for (int k = 0; k < 32; k++) {
      asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(p[k]) : "f"(c[2 * k + 1]), "f"(c[2 * k]));
      o[k] *= scale;
    }
    begin_products();
#pragma unroll
    for (int k = 0; k < 8; k++) product_of_registers(o, p, k, b);
    end_products();
  }
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  float s = sum;
  for (int k = 0; k < 32; k++) s += o[k];
  sink[threadIdx.x] = s;
}

void measure_attend(float* sink) {
  cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  for (int groups : {1, 2}) {
    const std::string name = "turns.attend.groups" + std::to_string(groups);
    report(name, cycles_of(5, kRounds, [&](long long* c) { attend<<<1, 128 * groups, kShared>>>(c, sink); }), "cycles",
           "a round of four products of m64n128k16, softmax of 64 values a thread, eight products of m64n64k16 with those in registers");
  }
}

enum Part { kStage = 1, kFence = 2, kStore = 4, kWait = 8 };

/// The end of a tile by `warps` warps, `rounds` times: sums of 16 x 256 as halves into shared memory, four boxes of 16 x 64, and on.
template <int kParts>
__global__ void __launch_bounds__(256) tile_end(long long* cycles, const __grid_constant__ CUtensorMap d, float* sink, int rounds) {
  extern __shared__ __align__(1024) uint32_t tile[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t staging = shared_address(tile) + warp * 4096, line = lane % 16;
  float sums[128];
  for (int i = 0; i < 128; i++) sums[i] = threadIdx.x * i;
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int part = 0; part < 4; part++) {
      const uint32_t box = staging + part % 2 * 2048;
      if (kParts & kWait) {
        if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        __syncwarp();
      }
#pragma unroll
      for (int j = 0; j < 4; j++) {
        uint32_t w[4];
#pragma unroll
        for (int q = 0; q < 4; q++) asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[q]) : "f"(sums[part * 32 + j * 8 + q * 2 + 1]), "f"(sums[part * 32 + j * 8 + q * 2]));
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(box + line * 128 + ((j * 32 + lane / 16 * 16) ^ line % 8 * 16)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                     : "memory");
      }
      if (kParts & kFence) {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
      }
      if ((kParts & kStore) && lane == 0)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;" ::"l"(&d), "r"(part * 64), "r"((r * 8 + warp) * 16), "r"(box) : "memory");
    }
  }
  if ((kParts & kWait) && lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  sink[threadIdx.x] = sums[threadIdx.x % 4];
}

template <int kParts>
void measure_end(const char* what, const CUtensorMap& d, float* sink) {
  cudaFuncSetAttribute(tile_end<kParts>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  for (int warps : {1, 4, 8})
    for (int rounds : {1, 8})
      report(std::string("turns.end.") + what + ".warps" + std::to_string(warps) + ".rounds" + std::to_string(rounds),
             cycles_of(5, rounds, [&](long long* c) { tile_end<kParts><<<1, 32 * warps, kShared>>>(c, d, sink, rounds); }), "cycles",
             "16 x 256 sums a warp as halves into shared memory in four parts; fence; stores by the copy engine; waits before a part is used again");
}

enum Repeated { kFenceAlone, kStoreMatrix, kStoreAndFence, kLoadMatrix, kGroupWait };

/// Something 64 times by `warps` warps.
template <int kWhat>
__global__ void __launch_bounds__(512) repeated(long long* cycles, float* sink, int rounds) {
  __shared__ __align__(1024) uint32_t tile[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t row = shared_address(tile) + warp * 2048 + lane % 16 * 128 + (lane / 16 * 16 ^ lane % 8 * 16);
  uint32_t a = lane, b = warp, c = rounds, d = lane * warp;
  __syncthreads();
  const long long start = clock_now();
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const uint32_t at = row ^ (i % 4 * 32);
      if (kWhat == kStoreMatrix || kWhat == kStoreAndFence) asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
      if (kWhat == kFenceAlone || kWhat == kStoreAndFence) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      if (kWhat == kLoadMatrix) {
        uint32_t e, f, g, h;
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(e), "=r"(f), "=r"(g), "=r"(h) : "r"(at) : "memory");
        a ^= e, b ^= f, c ^= g, d ^= h;
      }
      if (kWhat == kGroupWait) asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 1;" ::: "memory");
    }
  const long long end = clock_now();
  if (threadIdx.x == 0) *cycles = end - start;
  sink[threadIdx.x] = a + b + c + d;
}
template <int kWhat>
void measure_repeated(const char* what, float* sink) {
  for (int warps : {1, 2, 4, 8, 16})
    report(std::string("turns.") + what + ".warps" + std::to_string(warps), cycles_of(5, 64, [&](long long* c) { repeated<kWhat><<<1, 32 * warps>>>(c, sink, 8); }), "cycles", "each of 64 by so many warps at once");
}

constexpr int kTimes = 4;  // what `fetched` executes
/// How long `kN` instructions take that do not depend on each other, the first time and later: what fetching them takes.
template <int kN>
__global__ void __launch_bounds__(512) fetched(long long* times, float* sink) {
  float x[8];
  for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
#pragma unroll 1
  for (int t = 0; t < kTimes; t++) {
    __syncthreads();
    const long long start = clock_now();
#pragma unroll
    for (int i = 0; i < kN; i++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[i % 8]));
    const long long end = clock_now();
    if (threadIdx.x == 0) times[t] = end - start;
  }
  float s = 0;
  for (int k = 0; k < 8; k++) s += x[k];
  sink[threadIdx.x] = s;
}
template <int kN>
void measure_fetched(float* sink) {
  Buffer<long long> times(kTimes);
  for (int warps : {1, 4, 8, 16}) {
    std::vector<double> samples[kTimes];
    if (predicted()) {  // the mean of all times stands for each
      fetched<kN><<<1, 32 * warps>>>(times, sink);
      for (auto& s : samples) s = predicted_cycles(Clock::first_warp, double(kTimes) * kN);
    }
    for (int r = 0; r < 6 && !predicted(); r++) {
      std::vector<long long> t(kTimes);
      fetched<kN><<<1, 32 * warps>>>(times, sink);
      if (cudaMemcpy(t.data(), times, kTimes * 8, cudaMemcpyDeviceToHost) != cudaSuccess) return;
      for (int i = 0; i < kTimes && r > 0; i++) samples[i].push_back(double(t[size_t(i)]) / kN);
    }
    for (int i = 0; i < kTimes; i++)
      report("turns.fetch.n" + std::to_string(kN) + ".warps" + std::to_string(warps) + ".time" + std::to_string(i), samples[i], "cycles", "an instruction of so many in a row that do not depend on each other, by when they are executed");
  }
}

__global__ void where(uint32_t* sm, int spin) {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  float x = spin;
  for (int i = 0; i < spin; i++) x = x * .99f + 1;
  if (threadIdx.x == 0) sm[blockIdx.x] = id + (x == 1e30f);
}

/// Which SMs get how many blocks of a grid that fits at once.
void measure_places() {
  if (predicted()) return;
  Buffer<uint32_t> sm(4096);
  for (int threads : {128, 256})
    for (int cluster : {1, 2, 4, 8})
      for (int blocks : {64, 128, 256, 512, 1024}) {
        launch_clusters(where, cluster, blocks, threads, 0, sm.p, 20000);
        std::vector<uint32_t> at(static_cast<size_t>(blocks));
        if (cudaMemcpy(at.data(), sm, at.size() * 4, cudaMemcpyDeviceToHost) != cudaSuccess) return;
        std::map<uint32_t, int> on;
        std::map<int, int> having;
        for (uint32_t s : at) on[s]++;
        for (const auto& [s, n] : on) having[n]++;
        for (const auto& [n, sms] : having)
          report("turns.places.threads" + std::to_string(threads) + ".cluster" + std::to_string(cluster) + ".blocks" + std::to_string(blocks) + ".sms_of_" + std::to_string(n), {double(sms)}, "SMs",
                 "SMs that hold so many blocks of a grid whose blocks all run at once");
      }
}

}  // namespace

void measure_turns() {
  Buffer<float> sink(1024);
  measure_turns<kSpecial>("special", sink), measure_turns<kFma>("fma", sink);
  measure_turns<kImad>("imad", sink), measure_turns<kHalf>("half", sink), measure_turns<kDouble>("double", sink);
  measure_turns<kShuffle>("shuffle", sink), measure_turns<kLoad4>("load4", sink);
  measure_turns<kGlobal>("global", sink), measure_turns<kStore4>("store4", sink);
  measure_alternate<kExponentials, 4, 1>("special", sink), measure_alternate<kExponentials, 8, 1>("special", sink);
  measure_alternate<kExponentials, 4, 2>("special", sink), measure_alternate<kExponentials, 8, 2>("special", sink);
  measure_alternate<kProducts, 4, 1>("fma", sink), measure_alternate<kProducts, 8, 1>("fma", sink), measure_alternate<kProducts, 8, 4>("fma", sink);
  measure_attend(sink);
  Buffer<float> out(1024 * 256);
  const CUtensorMap d = matrix_map(out.p, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, 2048, 256, 16, 64, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE);
  measure_end<kStage>("stage", d, sink), measure_end<kStage | kFence>("fence", d, sink), measure_end<kStage | kFence | kStore>("store", d, sink), measure_end<15>("whole", d, sink);
  measure_repeated<kFenceAlone>("fence_alone", sink), measure_repeated<kStoreMatrix>("store_matrix", sink), measure_repeated<kStoreAndFence>("store_and_fence", sink);
  measure_repeated<kLoadMatrix>("load_matrix", sink), measure_repeated<kGroupWait>("group_wait", sink);
  measure_fetched<64>(sink), measure_fetched<128>(sink), measure_fetched<256>(sink), measure_fetched<512>(sink), measure_fetched<1024>(sink), measure_fetched<2048>(sink);
  measure_fetched<4096>(sink), measure_fetched<8192>(sink), measure_fetched<16384>(sink);
  measure_places();
}

}  // namespace dissect
