// calib/dissect/boxes.cu: tensor copies (TMA): latency and bandwidth by box and stages, multicast by cluster size, stores; and
// reads of shared memory of other blocks by width.
#include <cuda.h>

#include "measure.h"
#include "tensor_map.h"

namespace dissect {
namespace {

__device__ void load_box(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
__device__ void load_box_for(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t bar, uint16_t ctas) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar),
               "h"(ctas) : "memory");
}

constexpr int kWidth = 4096;  // floats in a row of the tensor
constexpr long kRows = 65536; // 1 GiB

/// A map of a matrix of floats; an empty one when the driver refuses.
CUtensorMap map_of(float* data, uint32_t box_x, uint32_t box_y, CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE) {
  return matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, kRows, kWidth, box_y, box_x, CU_TENSOR_MAP_SWIZZLE_NONE, promotion);
}

__global__ void box_latency(long long* cycles, const __grid_constant__ CUtensorMap map, uint32_t bytes, int rounds, int step) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t bar = shared_address(&barrier);
  init(bar, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  long long sum = 0;
  for (int i = 0; i < rounds; i++) {
    const long long a = clock_now();
    expect(bar, bytes);
    load_box(shared_address(tile), &map, 0, i * step, bar);
    wait(bar, i & 1);
    sum += clock_now() - a;
  }
  *cycles = sum;
}

/// Pairs of boxes of 128 bytes by `rows`, one beside the other: the left one of rows that nobody read before, then the right one.
__global__ void box_pairs(long long* cycles, const __grid_constant__ CUtensorMap map, int first_row, int rows, int pairs, int which) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t bar = shared_address(&barrier);
  init(bar, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  long long sum[2] = {0, 0};
#pragma unroll 1
  for (int i = 0; i < pairs; i++)
#pragma unroll
    for (int side = 0; side < 2; side++) {
      const long long a = clock_now();
      expect(bar, uint32_t(rows) * 128);
      load_box(shared_address(tile), &map, side * 32, first_row + i * rows, bar);
      wait(bar, side);
      sum[side] += clock_now() - a;
    }
  *cycles = sum[which];
}

/// Each block copies boxes of its own, `stages` in flight.
__global__ void box_stream(const __grid_constant__ CUtensorMap map, uint32_t bytes, int box_x, int box_y, int stages, int boxes) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barriers[32];
  if (threadIdx.x) return;
  for (int s = 0; s < stages; s++) init(shared_address(&barriers[s]), 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const int across = kWidth / box_x;
  for (int i = 0; i < boxes + stages; i++) {
    const uint32_t bar = shared_address(&barriers[i % stages]);
    if (i >= stages) wait(bar, (i / stages - 1) & 1);
    if (i < boxes) {
      const long at = blockIdx.x + long(i) * gridDim.x;
      expect(bar, bytes);
      load_box(shared_address(tile) + (i % stages) * bytes, &map, int(at % across) * box_x, int(at / across) * box_y, bar);
    }
  }
}

/// Every block of a cluster copies a part of each box to all of them.
__global__ void box_multicast(const __grid_constant__ CUtensorMap map, uint32_t bytes, int box_x, int box_y, int stages, int boxes, int cluster) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barriers[32], empty[32];
  const uint32_t rank = blockIdx.x % cluster;
  if (threadIdx.x == 0)
    for (int s = 0; s < stages; s++) init(shared_address(&barriers[s]), 1), init(shared_address(&empty[s]), cluster);
  asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) {
    const int across = kWidth / box_x;
    for (int i = 0; i < boxes + stages; i++) {
      const int s = i % stages;
      const uint32_t bar = shared_address(&barriers[s]);
      if (i >= stages) {
        wait(bar, (i / stages - 1) & 1);
        for (int peer = 0; peer < cluster; peer++)  // all have taken what was in this stage
          asm volatile("{ .reg .b32 t; mapa.shared::cluster.u32 t, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [t]; }" ::"r"(shared_address(&empty[s])), "r"(peer) : "memory");
      }
      if (i < boxes) {
        if (i >= stages) wait(shared_address(&empty[s]), (i / stages - 1) & 1);
        const long at = long(blockIdx.x / cluster) + long(i) * (gridDim.x / cluster);
        const int x = int(at % across) * box_x, y = (int(at / across) * cluster + int(rank)) * box_y;
        expect(bar, bytes * cluster);
        load_box_for(shared_address(tile) + (s * cluster + rank) * bytes, &map, x, y, bar, uint16_t((1 << cluster) - 1));
      }
    }
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__global__ void box_store(const __grid_constant__ CUtensorMap map, uint32_t bytes, int box_x, int box_y, int boxes) {
  extern __shared__ __align__(128) std::byte tile[];
  if (threadIdx.x) return;
  const int across = kWidth / box_x;
  for (int i = 0; i < boxes; i++) {
    const long at = blockIdx.x + long(i) * gridDim.x;
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 4;" ::"l"(&map),
                 "r"(int(at % across) * box_x), "r"(int(at / across) * box_y), "r"(shared_address(tile) + i % 5 * bytes) : "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

__global__ void store_latency(long long* cycles, std::byte* to, uint32_t bytes, int rounds) {
  extern __shared__ __align__(128) std::byte tile[];
  const long long a = clock_now();
  for (int i = 0; i < rounds; i++)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"l"(to + size_t(i) * bytes), "r"(shared_address(tile)), "r"(bytes) : "memory");
  *cycles = clock_now() - a;
}

/// Copies of `bytes` to global memory, `pending` of them not waited for; the last wait is for those that are left.
template <int kPending>
__global__ void store_stream(long long* cycles, std::byte* to, uint32_t bytes, int copies, int room) {
  extern __shared__ __align__(128) std::byte tile[];
  if (threadIdx.x) return;
  const long long a = clock_now();
  for (int i = 0; i < copies; i++)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group %3;" ::"l"(to + size_t(blockIdx.x * room + i % room) * bytes),
                 "r"(shared_address(tile)), "r"(bytes), "n"(kPending) : "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  if (blockIdx.x == 0) *cycles = clock_now() - a;
}

/// Block 0 copies shared memory to the next block of its cluster, whose mbarrier says when it is there; `in_flight` at a time.
__global__ void copy_to_peer(long long* cycles, uint32_t bytes, int rounds, int in_flight) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t bar = shared_address(&barrier), rank = blockIdx.x % 2;
  if (threadIdx.x == 0) init(bar, 1);
  asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  uint32_t to, there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(shared_address(tile)), "r"(1 - rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(bar), "r"(1 - rank));
  if (threadIdx.x == 0) {
    const long long a = clock_now();
    for (int i = 0; i < rounds; i++) {
      expect(bar, bytes * in_flight);
      for (int k = 0; k < in_flight; k++)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "r"(shared_address(tile)), "r"(bytes), "r"(there) : "memory");
      wait(bar, i & 1);
    }
    const long long b = clock_now();
    if (blockIdx.x == 0) *cycles = b - a;
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

void measure_bulk_stores_and_peers(std::byte* data) {
  for (uint32_t bytes : {128u, 1024u, 4096u, 16384u}) {
    const std::string tail = std::to_string(bytes) + "B";
    report("tma.store.stream.one." + tail, scaled(cycles_of(5, 256, [&](long long* c) { store_stream<4><<<1, 32, 16384>>>(c, data, bytes, 256, 16); }), [=](double c) { return bytes / c; }), "B/cycle/SM",
           "bulk stores of one SM to 16 places, four pending");
    report("tma.store.stream.all." + tail, scaled(cycles_of(5, 256, [&](long long* c) { store_stream<4><<<sm_count(), 32, 16384>>>(c, data, bytes, 256, 8); }), [=](double c) { return bytes / c; }), "B/cycle/SM",
           "the same by every SM, each to 8 places of its own");
    for (int in_flight : {1, 4})
      report("tma.peer.latency." + tail + "." + std::to_string(in_flight), cycles_of(5, 64, [&](long long* c) { launch_clusters(copy_to_peer, 2, 2, 32, 16384, c, bytes, 64, in_flight); }), "cycles",
             "two blocks of a cluster copy to each other in shared memory and wait, so many copies at a time");
  }
}

/// Each thread of a block reads (or writes) 16 bytes of the next block's shared memory in a cluster, again and again.
template <bool kWrite>
__global__ void peers(long long* cycles, uint32_t* sink, int rounds, int cluster) {
  extern __shared__ __align__(128) std::byte tile[];
  uint32_t at, acc = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(tile) + threadIdx.x * 16), "r"((blockIdx.x + 1) % cluster));
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  const long long a = clock_now();
#pragma unroll 8
  for (int i = 0; i < rounds; i++) {
    uint32_t v[4] = {acc, acc, acc, acc};
    if (kWrite) asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
    else {
      asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
      acc += v[0] ^ v[1] ^ v[2] ^ v[3];
    }
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0 && blockIdx.x == 0) *cycles = clock_now() - a;
  sink[threadIdx.x] = acc;
}

template <bool kWrite>
void measure_peers(const char* what) {
  Buffer<uint32_t> sink(1024);
  for (int cluster : {2, 4, 8})
    report("bandwidth.dsmem." + std::string(what) + "16." + std::to_string(cluster) + "ctas", scaled(cycles_of(3, 1, [&](long long* c) {
             launch_clusters(peers<kWrite>, cluster, cluster, 512, 16384, c, sink.p, 256, cluster);
           }), [](double c) { return 512.0 * 16 * 256 / c; }),
           "B/cycle/SM", "every block the next one's shared memory, 16 bytes a lane");
}

/// What a tensor map's promotion brings into L2 beside what is asked for.
void measure_promotion(float* data) {
  struct Promotion { CUtensorMapL2promotion kind; const char* name; };
  cudaFuncSetAttribute(box_pairs, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  int row = 0;  // nothing is read twice
  for (const auto& [kind, name] : {Promotion{CU_TENSOR_MAP_L2_PROMOTION_NONE, "none"}, Promotion{CU_TENSOR_MAP_L2_PROMOTION_L2_128B, "128"}, Promotion{CU_TENSOR_MAP_L2_PROMOTION_L2_256B, "256"}})
    for (int rows : {1, 64}) {
      const CUtensorMap map = map_of(data, 32, uint32_t(rows), kind);
      for (int side : {0, 1})
        report(std::string("tma.promotion.") + name + (side ? ".right." : ".left.") + std::to_string(rows) + "rows",
               cycles_of(3, 16, [&](long long* c) { box_pairs<<<1, 1, 65536>>>(c, map, row, rows, 16, side), row += 16 * rows; }), "cycles",
               "box of 128 bytes a row out of memory, then the one to the right of it");
    }
}

}  // namespace

void measure_boxes() {
  Buffer<float> data(size_t(kWidth) * kRows);
  if (!data.p) return;
  const bool small = predicted();  // latencies only
  const size_t room = 200 << 10;
  cudaFuncSetAttribute(box_latency, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  cudaFuncSetAttribute(box_stream, cudaFuncAttributeMaxDynamicSharedMemorySize, int(room));
  cudaFuncSetAttribute(box_multicast, cudaFuncAttributeMaxDynamicSharedMemorySize, int(room));
  cudaFuncSetAttribute(box_store, cudaFuncAttributeMaxDynamicSharedMemorySize, int(room));
  struct Box { uint32_t x, y; };
  for (const auto& [x, y] : {Box{16, 16}, Box{32, 16}, Box{32, 32}, Box{64, 32}, Box{64, 64}, Box{256, 16}, Box{16, 256}}) {
    const CUtensorMap map = map_of(data, x, y);
    const uint32_t bytes = x * y * 4;
    const std::string name = std::to_string(x) + "x" + std::to_string(y);
    report("tma.box.latency.l2." + name, cycles_of(5, 64, [&](long long* c) { box_latency<<<1, 1, 65536>>>(c, map, bytes, 64, 0); }), "cycles", "expect_tx, box of floats, wait; the same box each time");
    for (int stages : {1, 2, 4}) {
      if (small) break;
      const int boxes = int(size_t(kWidth) * kRows * 4 / bytes / sm_count());
      report("tma.box.bandwidth." + name + "." + std::to_string(stages) + "stages",
             scaled(seconds_of(3, 1, [&] { box_stream<<<sm_count(), 32, bytes * stages>>>(map, bytes, int(x), int(y), stages, boxes); }), [&](double s) { return double(bytes) * boxes * sm_count() / s * 1e-9; }),
             "GB/s", "boxes of floats from DRAM, every SM");
    }
  }
  measure_promotion(data);
  measure_bulk_stores_and_peers(reinterpret_cast<std::byte*>(data.p));
  for (uint32_t bytes : {128u, 1024u, 16384u})
    report("tma.store.latency." + std::to_string(bytes) + "B", cycles_of(5, 64, [&](long long* c) { store_latency<<<1, 1, 16384>>>(c, reinterpret_cast<std::byte*>(data.p), bytes, 64); }), "cycles",
           "copy to global memory, commit, wait");
  if (small) return;
  const CUtensorMap map = map_of(data, 64, 16);
  for (int cluster : {1, 2, 4, 8}) {
    const int blocks = 128, boxes = 512;
    report("tma.multicast.bandwidth." + std::to_string(cluster) + "ctas",
           scaled(seconds_of(3, 1, [&] { launch_clusters(box_multicast, cluster, blocks, 32, size_t(4096) * 4 * cluster, map, uint32_t(4096), 64, 16, 4, boxes, cluster); }),
                  [&](double s) { return 4096.0 * cluster * boxes * blocks / s * 1e-9; }),
           "GB/s", "boxes of 4 KB by each block for all of its cluster, 4 stages: bytes that arrive");
  }
  for (const auto& [x, y] : {Box{32, 32}, Box{64, 64}}) {
    const CUtensorMap to = map_of(data, x, y);
    const uint32_t bytes = x * y * 4;
    const int boxes = int(size_t(kWidth) * kRows * 4 / bytes / sm_count());
    report("tma.store.bandwidth." + std::to_string(x) + "x" + std::to_string(y),
           scaled(seconds_of(3, 1, [&] { box_store<<<sm_count(), 32, bytes * 5>>>(to, bytes, int(x), int(y), boxes); }), [&](double s) { return double(bytes) * boxes * sm_count() / s * 1e-9; }), "GB/s",
           "boxes of floats to DRAM, five in flight, every SM");
  }
  measure_peers<false>("read");
  measure_peers<true>("write");
}

namespace {

__global__ void walk_pages(long long* cycles, const uint64_t* start, int warm, int steps, uint64_t* sink) {
  const uint64_t* p = start;
  for (int i = 0; i < warm; i++) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p)::"memory");
  const long long a = clock_now();
  for (int i = 0; i < steps; i++) asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(p)::"memory");
  *cycles = clock_now() - a;
  *sink = reinterpret_cast<uint64_t>(p);
}
__global__ void link_pages(uint64_t* base, long pages, long stride, long jump) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < pages; i += long(gridDim.x) * blockDim.x)
    base[(i * stride + i % 512 * 128) / 8] = reinterpret_cast<uint64_t>(base + (((i + jump) % pages) * stride + (i + jump) % pages % 512 * 128) / 8);
}

}  // namespace

void measure_translation() {
  Buffer<uint64_t> sink(1);
  for (long mb : {256l, 1024l, 4096l, 16384l, 32768l, 65536l}) {
    const long stride = 2l << 20, pages = mb / 2;
    Buffer<uint64_t> data(size_t(pages + 1) * stride / 8);
    if (!data.p) continue;
    link_pages<<<64, 256>>>(data, pages, stride, 61);
    const int warm = int(2 * pages), steps = 4096;
    report("latency.pages." + std::to_string(mb) + "MB", cycles_of(3, steps, [&](long long* c) { walk_pages<<<1, 1>>>(c, data, warm, steps, sink); }), "cycles", "one line of each page of 2 MB in turn, ld.cg, lines in L2");
  }
}

}  // namespace dissect
