// Attention forward with e4m3 operands: the kernel that turns V round, and launches for sequences of one length.
#include "attention_fp8_launch.cuh"

namespace orrery::kernels {
namespace {

constexpr int kTurned = 128;  // keys of a block

/// turned[batch x head][dim][key] = v[batch][key][head][dim], keys in the order of fp8_key_at; zeros beyond the last.
/// kLengths: turned[head][dim][fp8_base + key] of each sequence that begins at starts[batch] and ends at starts[batch + 1], at most at `rows`.
template <int kDim, bool kLengths>
__global__ void __launch_bounds__(256) turn_values(uint8_t* turned, const uint8_t* v, AttentionArgs::Strides strides, int batches, int heads, int keys, int padded, const int32_t* starts, int rows) {
  constexpr int kPitch = kDim + 16;
  __shared__ alignas(16) uint8_t tile[kTurned * kPitch];
  const int key0 = blockIdx.x * kTurned, batch = blockIdx.y / heads, head = blockIdx.y - batch * heads;
  int64_t row0 = 0, at = int64_t(blockIdx.y) * kDim * padded;
  int end = kTurned;  // so many keys of this block are this sequence's to write
  ptx::griddepcontrol_wait();
  if constexpr (kLengths) {
    const int start = min(max(__ldg(starts + batch), 0), rows), next = min(max(__ldg(starts + batch + 1), 0), rows);
    keys = max(0, min(next - start, keys));
    row0 = start, at = int64_t(head) * kDim * padded + fp8_base(start, batch);
    if (batch + 1 < batches) end = min(end, fp8_base(next, batch + 1) - fp8_base(start, batch) - key0);
    if (end <= 0 || key0 >= keys + kTurned) return;  // with a window the last tile begins anywhere, and ends as far behind the last key
  }
  const uint8_t* from = v + (kLengths ? 0 : batch * strides.batch) + row0 * strides.seq + head * strides.head;
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
    if (!kLengths || sixteen * 16 < end) *reinterpret_cast<uint4*>(turned + at + int64_t(dim) * padded + key0 + sixteen * 16) = make_uint4(word[0], word[1], word[2], word[3]);
  }
}

}  // namespace

cudaError_t launch_turn_values(void* turned, const AttentionArgs& a, int64_t padded, cudaStream_t stream) {
  const dim3 grid(unsigned((a.seq_k + kTurned - 1) / kTurned + (a.k_starts ? 1 : 0)), unsigned(a.batch * a.kv_heads));
  const auto go = [&](auto kernel) {
    kernel<<<grid, 256, 0, stream>>>(static_cast<uint8_t*>(turned), static_cast<const uint8_t*>(a.v), a.v_strides, int(a.batch), int(a.kv_heads), int(a.seq_k), int(padded), a.k_starts, int(a.k_rows));
    return cudaGetLastError();
  };
  const auto of = [&](auto lengths) {
    constexpr bool kLengths = decltype(lengths)::value;
    return a.dim == 64 ? go(turn_values<64, kLengths>) : a.dim == 128 ? go(turn_values<128, kLengths>) : a.dim == 192 ? go(turn_values<192, kLengths>) : go(turn_values<256, kLengths>);
  };
  return a.k_starts ? of(std::true_type()) : of(std::false_type());
}

cudaError_t launch_attention_fp8(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream) {
  return launch_fp8<false>(p, dim, mask, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
