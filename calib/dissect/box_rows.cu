// calib/dissect/box_rows.cu: tensor copies as products make them: boxes of 128 bytes a row by how many rows they have, how far rows lie
// apart and whether they are swizzled; two boxes for one mbarrier; several boxes under way; by one SM and by all. And what lies
// between the copies: a batch of wgmma from its issue to its end, a stage handed back from warps to the one that copies.
#include "measure.h"
#include "tensor_map.h"

namespace dissect {
namespace {

__device__ void load_box(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}

constexpr int kStages = 5;
constexpr uint32_t kRoom = 220 << 10;

/// `boxes` copies of one box, `stages` at a time under way, each for an mbarrier of its own; with `second`, each together with a box of
/// another map. Step k copies from column k % across. Blocks have rows of their own (or all the same).
__global__ void box_ring(long long* cycles, const __grid_constant__ CUtensorMap map, const __grid_constant__ CUtensorMap second, uint32_t bytes, uint32_t more, int rows, int rows2, int boxes,
                         int stages, int across, int own) {
  extern __shared__ __align__(1024) std::byte room[];
  __shared__ alignas(8) uint64_t barriers[kStages];
  if (threadIdx.x) return;
  const uint32_t tile = (shared_address(room) + 1023) / 1024 * 1024;
  for (int s = 0; s < stages; s++) init(shared_address(&barriers[s]), 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const int y = own ? int(blockIdx.x) * rows : 0, y2 = own ? int(blockIdx.x) * rows2 : 0;
  const long long a = clock_now();
  int s = 0;
  uint32_t parity = 1;
  for (int i = 0, x = 0; i < boxes + stages; i++, x = x + 64 < across * 64 ? x + 64 : 0) {
    const uint32_t bar = shared_address(barriers) + uint32_t(s) * 8, to = tile + uint32_t(s) * (bytes + more);
    if (i >= stages) wait(bar, parity);
    if (i < boxes) {
      expect(bar, bytes + more);
      load_box(to, &map, x, y, bar);
      if (more) load_box(to + bytes, &second, x, y2, bar);
    }
    if (++s == stages) s = 0, parity ^= 1;
  }
  const long long b = clock_now();
  if (blockIdx.x == 0) *cycles = b - a;
}

CUtensorMap halves(void* data, long columns, int rows, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion) {
  return matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, 64l * 1024 * 1024 / columns, columns, uint32_t(rows), 64, swizzle, promotion);
}

void measure_rows(void* data) {
  cudaFuncSetAttribute(box_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom);
  const auto run = [&](const std::string& name, long columns, int rows, int rows2, int stages, int blocks, int across, int own, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, const char* how) {
    const CUtensorMap map = halves(data, columns, rows, swizzle, promotion), second = halves(data, columns, rows2 ? rows2 : 1, swizzle, promotion);
    const int boxes = 64;
    report(name, cycles_of(3, boxes, [&](long long* c) {
             box_ring<<<blocks, 32, kRoom>>>(c, map, second, uint32_t(rows) * 128, uint32_t(rows2) * 128, rows, rows2, boxes, stages, across, own);
           }), "cycles", how);
  };
  constexpr auto kPlain = CU_TENSOR_MAP_SWIZZLE_NONE, kSwizzled = CU_TENSOR_MAP_SWIZZLE_128B;
  constexpr auto kNone = CU_TENSOR_MAP_L2_PROMOTION_NONE, k256 = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  for (long columns : {64l, 512l, 4096l, 8192l})
    for (int rows : {1, 16, 64, 256})
      for (const bool swizzled : {false, true})
        run("tma.rows." + std::string(swizzled ? "swizzled." : "plain.") + std::to_string(columns) + "." + std::to_string(rows), columns, rows, 0, 1, 1, 1, 0, swizzled ? kSwizzled : kPlain, kNone,
            "one SM, one box of 64 halves a row from L2 at a time, the same each time");
  for (int stages : {1, 2, 3, 4}) {
    run("tma.pair.same." + std::to_string(stages), 4096, 64, 256, stages, 1, 1, 0, kSwizzled, kNone, "one SM, boxes of 64 and 256 rows together, the same each time");
    run("tma.pair.along." + std::to_string(stages), 4096, 64, 256, stages, 1, 64, 0, kSwizzled, kNone, "the same along 4096 columns");
    run("tma.pair.along256." + std::to_string(stages), 4096, 64, 256, stages, 1, 64, 0, kSwizzled, k256, "the same with promotion to 256 bytes");
    run("tma.pair.all." + std::to_string(stages), 4096, 64, 256, stages, sm_count(), 64, 0, kSwizzled, k256, "every SM the same");
  }
  for (int rows : {16, 64, 128, 256})
    for (int stages : {1, 2, 4}) {
      run("tma.along." + std::to_string(rows) + "." + std::to_string(stages), 4096, rows, 0, stages, 1, 64, 0, kSwizzled, kNone, "one SM, boxes along 4096 columns");
      if (rows <= 64) run("tma.own." + std::to_string(rows) + "." + std::to_string(stages), 4096, rows, 0, stages, sm_count(), 16, 1, kSwizzled, kNone, "every SM rows of its own, 1024 columns, L2");
    }
}

/// A word handed to and fro between two warps by two mbarriers.
__global__ void hand_over(long long* cycles, int rounds) {
  __shared__ alignas(8) uint64_t there, back;
  const uint32_t a = shared_address(&there), b = shared_address(&back);
  if (threadIdx.x == 0) init(a, 1), init(b, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    const long long from = clock_now();
    for (int i = 0; i < rounds; i++) {
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(a) : "memory");
      wait(b, i & 1);
    }
    *cycles = clock_now() - from;
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < rounds; i++) {
      wait(a, i & 1);
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
    }
  }
}

#define R8(n) "+f"(d[n]), "+f"(d[n + 1]), "+f"(d[n + 2]), "+f"(d[n + 3]), "+f"(d[n + 4]), "+f"(d[n + 5]), "+f"(d[n + 6]), "+f"(d[n + 7])
__device__ void multiply(float (&d)[64], uint64_t from) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 0;"
               : R8(0), R8(8), R8(16), R8(24), R8(32), R8(40), R8(48), R8(56) : "l"(from), "l"(from));
}
#undef R8
__device__ uint64_t matrix() {
  extern __shared__ __align__(1024) std::byte room[];
  return uint64_t(64) << 32 | uint64_t(1) << 62 | (shared_address(room) & 0x3ffff) >> 4;
}

/// Batches of wgmma of 64 x 128 x 16, of which `kPending` may be under way when the next is issued.
template <int kProducts, int kPending>
__global__ void __launch_bounds__(256) batches(long long* cycles, float* out, int rounds) {
  const uint64_t from = matrix();
  float d[64] = {};
  __syncthreads();
  const long long a = clock_now();
  for (int r = 0; r < rounds; r++) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kProducts; k++) multiply(d, from);
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  const long long b = clock_now();
  if (threadIdx.x == 0) *cycles = b - a;
  for (int i = 0; i < 64; i++) out[threadIdx.x] += d[i];
}

/// One group multiplies batches of `kShort` and waits for each, while the other issues batches of eight, of which it leaves one pending:
/// how long a short batch takes.
template <int kShort>
__global__ void __launch_bounds__(256) beside_long(long long* cycles, float* out, int rounds, int long_rounds) {
  const uint64_t from = matrix();
  float d[64] = {};
  __syncthreads();
  if (threadIdx.x < 128) {
    for (int r = 0; r < 8; r++) {  // until the other is under way
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply(d, from);
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    const long long a = clock_now();
    for (int r = 0; r < rounds; r++) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < kShort; k++) multiply(d, from);
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    const long long b = clock_now();
    if (threadIdx.x == 0) *cycles = b - a;
  } else {
    for (int r = 0; r < long_rounds; r++) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 8; k++) multiply(d, from);
      asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int i = 0; i < 64; i++) out[threadIdx.x] += d[i];
}

/// When the k-th of eight wgmma has been issued, after the first one; 8: when all have ended.
__global__ void __launch_bounds__(256) issues(long long* cycles, float* out, int which) {
  const uint64_t from = matrix();
  float d[64] = {};
  long long at[9], sum = 0;
#pragma unroll 1
  for (int r = 0; r < 16; r++) {
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    const long long begin = clock_now();
#pragma unroll
    for (int k = 0; k < 8; k++) {
      multiply(d, from);
      at[k] = clock_now();
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    at[8] = clock_now();
#pragma unroll
    for (int k = 0; k < 9; k++)
      if (k == which) sum += at[k] - begin;
  }
  if (threadIdx.x == 0) *cycles = sum;
  for (int i = 0; i < 64; i++) out[threadIdx.x] += d[i];
}

}  // namespace

void measure_box_rows() {
  Buffer<uint16_t> data(size_t(64) << 20);
  if (!data.p) return;
  measure_rows(data.p);
  report("mbarrier.hand_over", cycles_of(3, 256, [](long long* c) { hand_over<<<1, 64>>>(c, 256); }), "cycles", "two warps, two mbarriers, there and back");
  Buffer<float> out(256);
  constexpr int kRounds = 64;
  const auto beside = [&](const char* name, auto kernel) {
    report(std::string("wgmma.beside_long.") + name, cycles_of(3, kRounds, [&](long long* c) { kernel<<<1, 256, 32768>>>(c, out, kRounds, 200); }), "cycles",
           "m64n128k16: batches of so many, each waited for, beside a group that issues eight at a time and leaves eight pending");
  };
  beside("1", beside_long<1>), beside("2", beside_long<2>), beside("4", beside_long<4>), beside("8", beside_long<8>);
  for (int groups : {1, 2}) {
    const std::string tail = "." + std::to_string(groups) + "groups";
    const auto batch = [&](const char* name, auto kernel) {
      report("wgmma.batch." + std::string(name) + tail, cycles_of(3, kRounds, [&](long long* c) { kernel<<<1, groups * 128, 32768>>>(c, out, kRounds); }), "cycles",
             "m64n128k16 in batches of so many, so many batches left pending by the wait");
    };
    batch("1.wait0", batches<1, 0>), batch("2.wait0", batches<2, 0>), batch("4.wait0", batches<4, 0>), batch("8.wait0", batches<8, 0>);
    batch("2.wait1", batches<2, 1>), batch("4.wait1", batches<4, 1>), batch("8.wait1", batches<8, 1>);
    for (int which = 0; which <= 8; which++)
      report("wgmma.issued." + std::to_string(which) + tail, cycles_of(3, 16, [&](long long* c) { issues<<<1, groups * 128, 32768>>>(c, out, which); }), "cycles",
             "m64n128k16, eight in a batch: clock after so many more than one were issued (8: after the wait)");
  }
}

}  // namespace dissect
