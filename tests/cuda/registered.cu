// Registered host memory: kernels use it as it is, at the same addresses; where the program has unmapped it since, or has
// unregistered it, an access is an illegal address and the program lives on.
#include <sys/mman.h>

#include "check.h"

constexpr int kBytes = 1 << 16;

__global__ void raise(int* p) { p[threadIdx.x]++; }
__global__ void fetch(const int* p, int* out) {
  __shared__ alignas(16) int tile[64];
  __shared__ unsigned long long bar;
  const unsigned to = unsigned(__cvta_generic_to_shared(tile)), b = unsigned(__cvta_generic_to_shared(&bar));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(b) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(to), "l"(p), "r"(b) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra WAIT; }" ::"r"(b) : "memory");
  out[threadIdx.x] = tile[threadIdx.x];
}

int* mapped() {
  int* p = static_cast<int*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT(p != MAP_FAILED, "mmap");
  for (int i = 0; i < kBytes / 4; i++) p[i] = i;
  CUDA(cudaHostRegister(p, kBytes, cudaHostRegisterDefault));
  return p;
}

int main() {
  int *p = mapped(), *out = managed<int>(64);
  raise<<<1, 64>>>(p);
  fetch<<<1, 64>>>(p, out);
  finish();
  for (int i = 0; i < 64; i++) EXPECT(p[i] == i + 1 && out[i] == i + 1, "%d: %d %d", i, p[i], out[i]);
  for (int way = 0; way < 4; way++) {
    p = mapped(), out = managed<int>(64);
    if (way % 2) mmap(p, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);  // (nothing else may take its place)
    else CUDA(cudaHostUnregister(p));
    if (way < 2) raise<<<1, 64>>>(p);
    else fetch<<<1, 64>>>(p, out);
    EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "way %d", way);
    CUDA(cudaDeviceReset());
    if (way % 2) cudaHostUnregister(p);
  }
  return pass();
}
