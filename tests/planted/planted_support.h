// planted_support.h: buffers, the list of cases and main, and the Hopper instructions by name.
//
// The instructions are macros, not functions, so that a finding's line is the program's own also where the compiler
// does not write down what it inlined.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace planted {

inline std::map<std::string, bool (*)()>& cases() {
  static std::map<std::string, bool (*)()> all;
  return all;
}
struct Case {
  Case(const char* name, bool (*body)()) { cases()[name] = body; }
};

/// Device memory, filled from a vector or left as it comes.
template <class T>
struct Buffer {
  T* p = nullptr;
  size_t n;
  explicit Buffer(size_t count) : n(count) { cudaMalloc(&p, n * sizeof(T)); }
  explicit Buffer(const std::vector<T>& from) : n(from.size()) {
    cudaMalloc(&p, n * sizeof(T));
    cudaMemcpy(p, from.data(), n * sizeof(T), cudaMemcpyHostToDevice);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(p); }
  operator T*() const { return p; }
  Buffer& zero() { return cudaMemset(p, 0, n * sizeof(T)), *this; }
  std::vector<T> host() const {
    std::vector<T> h(n);
    if (cudaMemcpy(h.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) h.clear();
    return h;
  }
};

/// After a launch: did launch and execution go well?
inline bool finished() {
  cudaError_t e = cudaGetLastError();
  if (e == cudaSuccess) e = cudaDeviceSynchronize();
  if (e != cudaSuccess) printf("error: %s\n", cudaGetErrorString(e));
  return e == cudaSuccess;
}

/// [0, n) as values of T times `scale`.
template <class T = int>
std::vector<T> counting(size_t n, int scale = 1) {
  std::vector<T> v(n);
  for (size_t i = 0; i < n; i++) v[i] = T(int(i) * scale);
  return v;
}
template <class T>
bool same(const std::vector<T>& got, const std::vector<T>& want) {
  if (got.size() != want.size()) return false;
  for (size_t i = 0; i < got.size(); i++)
    if (!(got[i] == want[i])) {
      printf("[%zu] is %g, not %g\n", i, double(got[i]), double(want[i]));
      return false;
    }
  return true;
}

/// Tensor map over a row-major matrix of `rows` rows of `columns` elements; boxes of box_columns x box_rows.
inline CUtensorMap matrix_map(CUtensorMapDataType type, int bytes, void* base, uint64_t columns, uint64_t rows,
                              uint32_t box_columns, uint32_t box_rows, CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE) {
  static auto* encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled"));
  CUtensorMap map;
  const cuuint64_t dims[] = {columns, rows}, pitch[] = {columns * uint64_t(bytes)};
  const cuuint32_t box[] = {box_columns, box_rows}, one[] = {1, 1};
  if (encode(&map, type, 2, base, dims, pitch, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    printf("error: no tensor map\n");
  return map;
}

__device__ inline uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ inline uint32_t cluster_rank() {
  uint32_t r;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}
/// Address of the peer's variable in shared::cluster.
__device__ inline uint32_t at_peer(const void* p, uint32_t rank) {
  uint32_t x;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(x) : "r"(smem(p)), "r"(rank));
  return x;
}
__device__ inline uint64_t matrix_descriptor(uint32_t address, uint32_t lead, uint32_t stride) {  // 128-byte swizzle
  return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(lead >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(1) << 62;
}
__host__ __device__ inline uint32_t swizzled(uint32_t offset) { return offset ^ ((offset >> 7 & 7) << 4); }

}  // namespace planted

using namespace planted;

#define MBAR_INIT(bar, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(count) : "memory")
#define MBAR_INVAL(bar) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(smem(bar)) : "memory")
#define MBAR_FENCE_INIT() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define MBAR_ARRIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory")
#define MBAR_ARRIVE_PEER(bar, rank) \
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at_peer(bar, rank)) : "memory")
#define MBAR_EXPECT(bar, bytes) \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory")
#define MBAR_WAIT(bar, parity)                                                                                      \
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra WAIT; }" \
               ::"r"(smem(bar)), "r"(parity) : "memory")
#define MBAR_WAIT_CLUSTER(bar, parity)                                                                                              \
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra WAIT; }" \
               ::"r"(smem(bar)), "r"(parity) : "memory")
#define FENCE_PROXY_ASYNC() asm volatile("fence.proxy.async;" ::: "memory")
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_ARRIVE_RELAXED() asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define CLUSTER_SYNC() do { CLUSTER_ARRIVE(); CLUSTER_WAIT(); } while (0)

#define CP_ASYNC16(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to)), "l"(from) : "memory")
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

#define BULK_LOAD(to, from, bytes, bar)                                                                       \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"     \
               ::"r"(smem(to)), "l"(from), "r"(bytes), "r"(smem(bar)) : "memory")
#define BULK_STORE(to, from, bytes) \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(smem(from)), "r"(bytes) : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT(n) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory")
#define BULK_WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")
#define TMA_LOAD(to, map, x, y, bar)                                                                                              \
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" \
               ::"r"(smem(to)), "l"(map), "r"(x), "r"(y), "r"(smem(bar)) : "memory")
#define TMA_LOAD_MULTICAST(to, map, x, y, bar, mask)                                                                             \
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], "     \
               "[%1, {%2, %3}], [%4], %5;"                                                                                       \
               ::"r"(smem(to)), "l"(map), "r"(x), "r"(y), "r"(smem(bar)), "h"(mask) : "memory")
#define TMA_STORE(map, x, y, from)                                                               \
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" \
               ::"l"(map), "r"(x), "r"(y), "r"(smem(from)) : "memory")

// One step of D (64 x 8, float) += A (64 x 16) * B (16 x 8), bf16, A and B in shared memory or A in registers.
#define WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")
#define WGMMA_SS(d, a, b)                                                                                          \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"     \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory")
#define WGMMA_RS(d, a, b)                                                                                                  \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"  \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory")

/// The body of a case: runs it and tells whether its results are right.
#define PROGRAM(name)                                                                    \
  static bool name##_body();                                                             \
  static ::planted::Case name##_case(PLANTED_NAME(name), name##_body);                    \
  static bool name##_body()

int main(int argc, char** argv) {
  auto& all = planted::cases();
  auto it = argc > 1 ? all.find(argv[1]) : all.begin();
  if (it == all.end() || (argc == 1 && all.size() > 1)) {
    for (auto& c : all) printf("%s\n", c.first.c_str());
    return 2;
  }
  const bool right = it->second();
  printf("%s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}
