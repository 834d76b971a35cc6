// Registers of operand A are loaded anew while a wgmma may still read them.
// planted: asynccheck
// finding: wgmma-register
#include "planted.h"

__global__ void product(const unsigned* in, float* out) {
  __shared__ alignas(1024) unsigned char b[8 * 128];
  for (int i = threadIdx.x; i < 8 * 32; i += 128) reinterpret_cast<unsigned*>(b)[i] = 0x3f803f80;
  FENCE_PROXY_ASYNC();
  __syncthreads();
  float d[4] = {};
  asm volatile(  // HERE
      "{ .reg .b32 a<4>;\n"
      "ld.global.v4.b32 {a0, a1, a2, a3}, [%4];\n"
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {a0, a1, a2, a3}, %5, 1, 1, 1, 0;\n"
      "wgmma.commit_group.sync.aligned;\n"
      REPAIR("wgmma.wait_group.sync.aligned 0;\n")
      "ld.global.v4.b32 {a0, a1, a2, a3}, [%4+16];\n"
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {a0, a1, a2, a3}, %5, 1, 1, 1, 0;\n"
      "wgmma.commit_group.sync.aligned;\n"
      "wgmma.wait_group.sync.aligned 0; }"  // HERE
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(in), "l"(matrix_descriptor(smem(b), 16, 1024))  // HERE
      : "memory");  // HERE
  out[threadIdx.x] = d[0];
}

PROGRAM(async_wgmma_a_changed) {
  std::vector<unsigned> data(8, 0x3f803f80);
  for (int i = 4; i < 8; i++) data[i] = 0x40004000;
  Buffer<unsigned> in(data);
  Buffer<float> out(128);
  product<<<1, 128>>>(in, out);
  return finished() && same(out.host(), std::vector<float>(128, 48));
}
