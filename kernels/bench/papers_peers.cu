// See papers_peers.h.
#include "papers_peers.h"

#include "../src/philox.cuh"
#include "../src/vectors.cuh"

namespace bench {
namespace {

__global__ void i0(double* out, const double* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = log(cyl_bessel_i0(x[i]));
}

__global__ void integral(double* out, const double* v, const double* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  constexpr int kPoints = 128;
  constexpr double kEnd = 6.5;
  double sum = 0.5;
  for (int k = 1; k < kPoints; k++) {
    const double t = k * (kEnd / kPoints);
    sum += exp(-x[i] * (cosh(t) - 1)) * cosh(v[i] * t);
  }
  out[i] = log(sum * (kEnd / kPoints)) - x[i];
}

__global__ void spins_of_colour(int8_t* spins, const int8_t* right, const int8_t* down, int size, float beta, uint64_t seed, uint32_t sweep, int colour) {
  const int half = size / 2, j = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, glass = blockIdx.z;
  if (j >= half) return;
  const int x = 2 * j + ((y + colour) & 1);
  const int64_t base = int64_t(glass) * size * size, row = base + int64_t(y) * size, at = row + x;
  const int64_t above = base + int64_t(y ? y - 1 : size - 1) * size + x, below = base + int64_t(y + 1 < size ? y + 1 : 0) * size + x;
  const int64_t before = row + (x ? x - 1 : size - 1), behind = row + (x + 1 < size ? x + 1 : 0);
  const int field = right[at] * spins[behind] + right[before] * spins[before] + down[at] * spins[below] + down[above] * spins[above];
  const int cost = 2 * spins[at] * field;
  const uint4 random = orrery::kernels::philox(make_uint4(uint32_t(at), uint32_t(at >> 32), sweep, uint32_t(colour)), uint32_t(seed), uint32_t(seed >> 32));
  if (cost <= 0 || random.x * 0x1p-32f < __expf(-beta * float(cost))) spins[at] = -spins[at];
}

__global__ void add_to_memory(float* sums, uint32_t* counts, const uint8_t* bins, const float* gradients, const int32_t* node, int64_t samples, int features, int pitch, int bin_count, int outputs) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i >= samples * features) return;
  const int64_t sample = i / features, f = i - sample * features, histogram = int64_t(node[sample]) * features + f;
  const int bin = bins[sample * pitch + f];
  atomicAdd(counts + histogram * bin_count + bin, 1u);
  for (int o = 0; o < outputs; o++) atomicAdd(sums + (histogram * outputs + o) * bin_count + bin, gradients[sample * outputs + o]);
}

__global__ void split_by_thread(double* gain, int32_t* bin, const float* sums, const uint32_t* counts, int histograms, int bin_count, int outputs, double l2) {
  const int h = blockIdx.x * blockDim.x + threadIdx.x;
  if (h >= histograms) return;
  double whole[16] = {}, left[16] = {}, count = 0, before = 0, best = 0;
  for (int b = 0; b < bin_count; b++) {
    count += counts[int64_t(h) * bin_count + b];
    for (int o = 0; o < outputs; o++) whole[o] += sums[(int64_t(h) * outputs + o) * bin_count + b];
  }
  for (int o = 0; o < outputs; o++) before += whole[o] * whole[o];
  before /= count + l2;
  double left_count = 0;
  int where = -1;
  for (int b = 0; b + 1 < bin_count; b++) {
    left_count += counts[int64_t(h) * bin_count + b];
    double l = 0, r = 0;
    for (int o = 0; o < outputs; o++) {
      left[o] += sums[(int64_t(h) * outputs + o) * bin_count + b];
      l += left[o] * left[o], r += (whole[o] - left[o]) * (whole[o] - left[o]);
    }
    const double g = l / (left_count + l2) + r / (count - left_count + l2) - before;
    if (g > best) best = g, where = b;
  }
  gain[h] = best, bin[h] = where;
}

using Eight = orrery::kernels::Pack<__nv_bfloat16>;

__global__ void gate(__nv_bfloat16* out, const __nv_bfloat16* in, int64_t rows, int64_t inner) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * 8, row = i / inner, column = i - row * inner;
  if (row >= rows) return;
  const __nv_bfloat16* const from = in + row * 2 * inner + column;
  const Eight g = orrery::kernels::load_whole(from), up = orrery::kernels::load_whole(from + inner);
  Eight v;
#pragma unroll
  for (int c = 0; c < 8; c++) {
    const float x = __bfloat162float(g.v[c]);
    v.v[c] = __float2bfloat16_rn(x / (1.f + __expf(-x)) * __bfloat162float(up.v[c]));
  }
  orrery::kernels::store_whole(out + i, v);
}

__global__ void combine(__nv_bfloat16* out, const __nv_bfloat16* y, const int32_t* token_rows, const float* weights, int64_t tokens, int top_k, int64_t hidden) {
  const int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * 8, token = i / hidden, column = i - token * hidden;
  if (token >= tokens) return;
  float sum[8] = {};
#pragma unroll 8
  for (int k = 0; k < top_k; k++) {
    const Eight v = orrery::kernels::load_whole(y + int64_t(token_rows[token * top_k + k]) * hidden + column);
    const float w = weights[token * top_k + k];
#pragma unroll
    for (int c = 0; c < 8; c++) sum[c] = fmaf(w, __bfloat162float(v.v[c]), sum[c]);
  }
  Eight v;
#pragma unroll
  for (int c = 0; c < 8; c++) v.v[c] = __float2bfloat16_rn(sum[c]);
  orrery::kernels::store_whole(out + i, v);
}

unsigned blocks(int64_t n) { return unsigned((n + 255) / 256); }

}  // namespace

void log_i0(double* out, const double* x, int64_t n, cudaStream_t stream) { i0<<<blocks(n), 256, 0, stream>>>(out, x, n); }
void log_k_integral(double* out, const double* v, const double* x, int64_t n, cudaStream_t stream) { integral<<<blocks(n), 256, 0, stream>>>(out, v, x, n); }
void spin_sweep(int8_t* spins, const int8_t* right, const int8_t* down, int size, int glasses, float beta, uint64_t seed, uint32_t sweep, cudaStream_t stream) {
  for (int colour = 0; colour < 2; colour++)
    spins_of_colour<<<dim3(blocks(size / 2), unsigned(size), unsigned(glasses)), 256, 0, stream>>>(spins, right, down, size, beta, seed, sweep, colour);
}
void histograms_in_memory(float* sums, uint32_t* counts, const uint8_t* bins, const float* gradients, const int32_t* node, int64_t samples, int features, int pitch, int bin_count, int outputs, cudaStream_t stream) {
  add_to_memory<<<blocks(samples * features), 256, 0, stream>>>(sums, counts, bins, gradients, node, samples, features, pitch, bin_count, outputs);
}
void splits_by_threads(double* gain, int32_t* bin, const float* sums, const uint32_t* counts, int nodes, int features, int bin_count, int outputs, double l2, cudaStream_t stream) {
  split_by_thread<<<blocks(int64_t(nodes) * features), 256, 0, stream>>>(gain, bin, sums, counts, nodes * features, bin_count, outputs, l2);
}

void gate_rows(void* out, const void* in, int64_t rows, int64_t inner, cudaStream_t stream) {
  gate<<<blocks(rows * inner / 8), 256, 0, stream>>>(static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(in), rows, inner);
}
void combine_rows(void* out, const void* y, const int32_t* token_rows, const float* weights, int64_t tokens, int64_t top_k, int64_t hidden, cudaStream_t stream) {
  combine<<<blocks(tokens * hidden / 8), 256, 0, stream>>>(static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(y), token_rows, weights, tokens, int(top_k), hidden);
}

}  // namespace bench
