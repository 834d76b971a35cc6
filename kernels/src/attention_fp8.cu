// Attention forward with e4m3 operands: the kernel that turns V round, and launches.
#include "attention_kernel.cuh"

namespace orrery::kernels {
namespace {

constexpr int kDim = 128, kTurned = 128;  // keys of a block

/// turned[batch x head][dim][key] = v[batch][key][head][dim], keys in the order of fp8_key_at; zeros beyond the last.
__global__ void __launch_bounds__(256) turn_values(uint8_t* turned, const uint8_t* v, AttentionArgs::Strides strides, int heads, int keys, int padded) {
  constexpr int kPitch = kDim + 16;
  __shared__ alignas(16) uint8_t tile[kTurned * kPitch];
  const int key0 = blockIdx.x * kTurned, batch = blockIdx.y / heads, head = blockIdx.y - batch * heads;
  const uint8_t* from = v + batch * strides.batch + head * strides.head;
  ptx::griddepcontrol_wait();
  for (int i = threadIdx.x; i < kTurned * (kDim / 16); i += 256) {
    const int key = i / (kDim / 16), piece = i % (kDim / 16);
    uint4 x = make_uint4(0, 0, 0, 0);
    if (key0 + key < keys) x = __ldg(reinterpret_cast<const uint4*>(from + (key0 + key) * strides.seq + piece * 16));
    *reinterpret_cast<uint4*>(tile + key * kPitch + piece * 16) = x;
  }
  __syncthreads();
  ptx::griddepcontrol_launch_dependents();
  for (int i = threadIdx.x; i < kDim * (kTurned / 16); i += 256) {
    const int dim = i % kDim, sixteen = i / kDim;
    uint32_t word[4];
#pragma unroll
    for (int w = 0; w < 4; w++) {
      word[w] = 0;
#pragma unroll
      for (int b = 0; b < 4; b++) word[w] |= uint32_t(tile[(sixteen * 16 + fp8_key_at(4 * w + b)) * kPitch + dim]) << 8 * b;
    }
    *reinterpret_cast<uint4*>(turned + (int64_t(blockIdx.y) * kDim + dim) * padded + key0 + sixteen * 16) = make_uint4(word[0], word[1], word[2], word[3]);
  }
}

}  // namespace

cudaError_t launch_turn_values(void* turned, const AttentionArgs& a, int64_t padded, cudaStream_t stream) {
  const dim3 grid(unsigned(padded / kTurned), unsigned(a.batch * a.kv_heads));
  turn_values<<<grid, 256, 0, stream>>>(static_cast<uint8_t*>(turned), static_cast<const uint8_t*>(a.v), a.v_strides, int(a.kv_heads), int(a.seq_k), int(padded));
  return cudaGetLastError();
}

cudaError_t launch_attention_fp8(const AttentionParams& p, Mask mask, int blocks, cudaStream_t stream) {
  using T = __nv_fp8_e4m3;
  return mask == Mask::kCausal ? launch<Shape<T, kDim, Mask::kCausal, false, 1>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, false, 1>>(p, blocks, stream);
}

}  // namespace orrery::kernels
