// bench/hopper.cu: kernels of the Hopper table, CUDA C++ with inline PTX: matrix products with TMA, mbarriers and wgmma
// (128 x 128 tiles, four stages, one producer warpgroup and two consumers) and a copy by TMA alone.
#define GLOBAL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device)) inline

typedef unsigned long long u64;

constexpr int kTile = 128, kStages = 4, kRow = 128;             // bytes of k in a stage
constexpr int kBox = 256 * 128;  // bytes of a copy
constexpr int kOperand = kTile * kRow, kStage = 2 * kOperand;   // bytes

DEVICE unsigned tid() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE unsigned shared(const void* p) { return (unsigned)(u64)(__attribute__((address_space(3))) const void*)p; }

DEVICE void barrier_init(u64* bar, unsigned count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared(bar)), "r"(count) : "memory"); }
DEVICE void barrier_expect(u64* bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(bar)), "r"(bytes) : "memory");
}
DEVICE void barrier_arrive(u64* bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared(bar)) : "memory"); }
DEVICE void barrier_wait(u64* bar, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n AGAIN%=:\n mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n @!p bra AGAIN%=;\n}" ::"r"(shared(bar)), "r"(parity) : "memory");
}
DEVICE void load_box(unsigned to, const void* map, int x, int y, u64* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(shared(bar)) : "memory");
}
DEVICE void store_box(const void* map, int x, int y, unsigned from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(from) : "memory");
}
/// Rows of 128 bytes, swizzled, eight rows apart by 1024.
DEVICE u64 descriptor(unsigned address) { return u64(address >> 4 & 0x3fff) | u64(64) << 32 | u64(1) << 62; }

#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)
#define D64 D16(0), D16(16), D16(32), D16(48)
#define LIST64 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"

struct Bf16 {
  static constexpr int kElement = 2;
  static __attribute__((device)) void multiply(float (&d)[64], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " LIST64 ", %64, %65, 1, 1, 1, 0, 0;" : D64 : "l"(a), "l"(b));
  }
};
struct E4m3 {
  static constexpr int kElement = 1;
  static __attribute__((device)) void multiply(float (&d)[64], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 " LIST64 ", %64, %65, 1, 1, 1;" : D64 : "l"(a), "l"(b));
  }
};

struct alignas(8) Pair {
  float x, y;
};
struct Ring {
  u64 full[kStages], empty[kStages];
};

DEVICE void produce(const void* a, const void* b, unsigned tiles, Ring& ring, int steps, int elements, int row, int column) {
  for (int i = 0; i < steps; i++) {
    const int s = i % kStages;
    barrier_wait(&ring.empty[s], (i / kStages % 2) ^ 1);
    barrier_expect(&ring.full[s], kStage);
    load_box(tiles + s * kStage, a, i * elements, row, &ring.full[s]);
    load_box(tiles + s * kStage + kOperand, b, i * elements, column, &ring.full[s]);
  }
}

template <class T>
DEVICE void consume(unsigned tiles, Ring& ring, int steps, int group, float (&d)[64]) {
  for (int i = 0; i < steps; i++) {
    const int s = i % kStages;
    barrier_wait(&ring.full[s], i / kStages % 2);
    const unsigned a = tiles + s * kStage + group * 64 * kRow, b = tiles + s * kStage + kOperand;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int j = 0; j < kRow / 32; j++) T::multiply(d, descriptor(a + 32 * j), descriptor(b + 32 * j));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" : D64 : : "memory");
    if (tid() % 32 == 0) barrier_arrive(&ring.empty[s]);
  }
}

/// out = A B^T, all n x n, row-major; A and B are read through the tensor maps.
template <class T>
DEVICE void product(const void* a, const void* b, float* out, int n) {
  extern SHARED unsigned char raw[];
  SHARED static Ring ring;
  const unsigned tiles = (shared(raw) + 1023) & ~1023u;
  const int row = __nvvm_read_ptx_sreg_ctaid_y() * kTile, column = __nvvm_read_ptx_sreg_ctaid_x() * kTile, elements = kRow / T::kElement;
  if (tid() == 0) {
    for (int s = 0; s < kStages; s++) barrier_init(&ring.full[s], 1), barrier_init(&ring.empty[s], 8);
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  }
  __nvvm_barrier_sync(0);
  const int group = int(tid() / 128) - 1;
  if (group < 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (tid() == 0) produce(a, b, tiles, ring, n / elements, elements, row, column);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; i++) d[i] = 0;
  consume<T>(tiles, ring, n / elements, group, d);
  const int t = tid() % 128, first = row + group * 64 + t / 32 * 16 + t % 32 / 4;
#pragma unroll
  for (int i = 0; i < 64; i += 2) {
    const Pair pair = {d[i], d[i + 1]};
    *reinterpret_cast<Pair*>(out + (first + 8 * (i / 2 % 2)) * n + column + 8 * (i / 4) + 2 * (t % 4)) = pair;
  }
}

GLOBAL __attribute__((launch_bounds(384, 1))) void gemm_bf16(const void* a, const void* b, float* out, int n) { product<Bf16>(a, b, out, n); }
GLOBAL __attribute__((launch_bounds(384, 1))) void gemm_e4m3(const void* a, const void* b, float* out, int n) { product<E4m3>(a, b, out, n); }

/// Boxes of 256 rows of 128 bytes from one tensor to the other; a block copies `boxes` of them.
GLOBAL __attribute__((launch_bounds(32, 1))) void copy(const void* from, const void* to, int boxes) {
  extern SHARED unsigned char raw[];
  SHARED static u64 full[2];
  if (tid()) return;
  const unsigned box = (shared(raw) + 1023) & ~1023u;
  const int first = int(__nvvm_read_ptx_sreg_ctaid_x()) * boxes;
  for (int s = 0; s < 2; s++) barrier_init(&full[s], 1);
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  for (int i = 0; i < boxes; i++) {
    const int s = i % 2;
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    barrier_expect(&full[s], kBox);
    load_box(box + s * kBox, from, 0, (first + i) * 256, &full[s]);
    barrier_wait(&full[s], i / 2 % 2);
    store_box(to, 0, (first + i) * 256, box + s * kBox);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/// The first half of the same: boxes into shared memory, two in flight.
GLOBAL __attribute__((launch_bounds(32, 1))) void fetch(const void* from, int boxes) {
  extern SHARED unsigned char raw[];
  SHARED static u64 full[2];
  if (tid()) return;
  const unsigned box = (shared(raw) + 1023) & ~1023u;
  const int first = int(__nvvm_read_ptx_sreg_ctaid_x()) * boxes;
  for (int s = 0; s < 2; s++) barrier_init(&full[s], 1);
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  for (int i = 0; i < boxes; i++) {
    if (i >= 2) barrier_wait(&full[i % 2], i / 2 % 2 ^ 1);
    barrier_expect(&full[i % 2], kBox);
    load_box(box + i % 2 * kBox, from, 0, (first + i) * 256, &full[i % 2]);
  }
  for (int i = boxes; i < boxes + 2; i++) barrier_wait(&full[i % 2], i / 2 % 2 ^ 1);
}

/// The second half: a box of shared memory into every place of the tensor.
GLOBAL __attribute__((launch_bounds(32, 1))) void spill(const void* to, int boxes) {
  extern SHARED unsigned char raw[];
  if (tid()) return;
  const unsigned box = (shared(raw) + 1023) & ~1023u;
  const int first = int(__nvvm_read_ptx_sreg_ctaid_x()) * boxes;
  for (int i = 0; i < boxes; i++) {
    store_box(to, 0, (first + i) * 256, box);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
