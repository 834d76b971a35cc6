// See papers_peers.h.
#include "papers_peers.h"

#include "../src/philox.cuh"
#include "../src/spectral_difference.h"
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

/// Solution points lie as mhd_residual has them, flux points as [element][variable][flux point][line].
struct Steps {
  double interpolate[7][6], differentiate[6][7];
  int order, axis, n[3];
  double gamma;
  __device__ int lines() const { return order * order; }
  /// Of the line's first solution point in its element and variable, and the step along it.
  __device__ int first(int line, int& step) const {
    const int a = line % order, b = line / order;
    step = axis == 0 ? 1 : axis == 1 ? order : order * order;
    return axis == 0 ? line * order : axis == 1 ? b * order * order + a : line;
  }
};

/// Flux and fastest signal along p.axis.
__device__ double mhd_flux(const Steps& p, const double (&u)[8], double (&f)[8]) {
  const double* const m = u + 1;
  const double* const b = u + 5;
  const double inverse = 1 / u[0], v = m[p.axis] * inverse, bn = b[p.axis], b2 = b[0] * b[0] + b[1] * b[1] + b[2] * b[2];
  const double pressure = (p.gamma - 1) * (u[4] - 0.5 * (m[0] * m[0] + m[1] * m[1] + m[2] * m[2]) * inverse - 0.5 * b2), total = pressure + 0.5 * b2;
  f[0] = m[p.axis];
  for (int i = 0; i < 3; i++) f[1 + i] = m[i] * v - b[i] * bn + (i == p.axis ? total : 0), f[5 + i] = v * b[i] - m[i] * inverse * bn;
  f[4] = (u[4] + total) * v - bn * (m[0] * b[0] + m[1] * b[1] + m[2] * b[2]) * inverse;
  const double a2 = p.gamma * pressure * inverse, sum = a2 + b2 * inverse;
  return fabs(v) + sqrt(0.5 * (sum + sqrt(fmax(0., sum * sum - 4 * a2 * bn * bn * inverse))));
}

__global__ void values_at_flux_points(const __grid_constant__ Steps p, double* values, const double* u, int64_t points) {
  const int64_t t = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (t >= points) return;
  const int per = (p.order + 1) * p.lines(), at = int(t % per), j = at / p.lines();
  const int64_t element = t / per;
  int step;
  const double* const from = u + element * 8 * p.order * p.lines() + p.first(at % p.lines(), step);
  for (int c = 0; c < 8; c++) {
    double sum = 0;
    for (int i = 0; i < p.order; i++) sum += p.interpolate[j][i] * from[c * p.order * p.lines() + i * step];
    values[(element * 8 + c) * per + at] = sum;
  }
}

__global__ void fluxes_inside(const __grid_constant__ Steps p, double* fluxes, const double* values, int64_t points) {
  const int64_t t = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const int inside = (p.order - 1) * p.lines(), per = (p.order + 1) * p.lines();
  if (t >= points) return;
  const int64_t at = t / inside * 8 * per + p.lines() + t % inside;
  double u[8], f[8];
  for (int c = 0; c < 8; c++) u[c] = values[at + c * per];
  mhd_flux(p, u, f);
  for (int c = 0; c < 8; c++) fluxes[at + c * per] = f[c];
}

__global__ void riemann_fluxes(const __grid_constant__ Steps p, double* fluxes, const double* values, int64_t points) {
  const int64_t t = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (t >= points) return;
  const int per = (p.order + 1) * p.lines(), line = int(t % p.lines());
  const int64_t element = t / p.lines(), apart = p.axis == 0 ? 1 : p.axis == 1 ? p.n[0] : int64_t(p.n[0]) * p.n[1];
  const int64_t before = element / apart % p.n[p.axis] ? element - apart : element + apart * (p.n[p.axis] - 1);
  const int64_t upper = before * 8 * per + p.order * p.lines() + line, lower = element * 8 * per + line;
  double a[8], b[8], f[8], g[8];
  for (int c = 0; c < 8; c++) a[c] = values[upper + c * per], b[c] = values[lower + c * per];
  const double x = mhd_flux(p, a, f), y = mhd_flux(p, b, g), s = fmax(x, y);
  for (int c = 0; c < 8; c++) fluxes[upper + c * per] = fluxes[lower + c * per] = 0.5 * (f[c] + g[c]) - 0.5 * s * (b[c] - a[c]);
}

__global__ void derivatives(const __grid_constant__ Steps p, double* out, const double* fluxes, int64_t points) {
  const int64_t t = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (t >= points) return;
  const int per = (p.order + 1) * p.lines(), at = int(t % (p.order * p.lines())), i = at / p.lines(), line = at % p.lines();
  const int64_t element = t / (p.order * p.lines());
  int step;
  const int first = p.first(line, step);
  for (int c = 0; c < 8; c++) {
    double sum = 0;
    for (int j = 0; j <= p.order; j++) sum += p.differentiate[i][j] * fluxes[(element * 8 + c) * per + j * p.lines() + line];
    double& to = out[(element * 8 + c) * p.order * p.lines() + first + i * step];
    to = p.axis ? to - sum : -sum;
  }
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
void spectral_difference_by_steps(double* out, const double* u, double* values, double* fluxes, int order, int nx, int ny, int nz, double size, double gamma, cudaStream_t stream) {
  const orrery::kernels::SpectralDifference method(order);
  Steps p{};
  p.order = order, p.n[0] = nx, p.n[1] = ny, p.n[2] = nz, p.gamma = gamma;
  for (int j = 0; j <= order; j++)
    for (int i = 0; i < order; i++) p.interpolate[j][i] = method.interpolate[j][i], p.differentiate[i][j] = 2 / size * method.differentiate[i][j];
  const int64_t lines = int64_t(nx) * ny * nz * order * order;
  for (p.axis = 0; p.axis < 3; p.axis++) {
    values_at_flux_points<<<blocks(lines * (order + 1)), 256, 0, stream>>>(p, values, u, lines * (order + 1));
    fluxes_inside<<<blocks(lines * (order - 1)), 256, 0, stream>>>(p, fluxes, values, lines * (order - 1));
    riemann_fluxes<<<blocks(lines), 256, 0, stream>>>(p, fluxes, values, lines);
    derivatives<<<blocks(lines * order), 256, 0, stream>>>(p, out, fluxes, lines * order);
  }
}

void gate_rows(void* out, const void* in, int64_t rows, int64_t inner, cudaStream_t stream) {
  gate<<<blocks(rows * inner / 8), 256, 0, stream>>>(static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(in), rows, inner);
}
void combine_rows(void* out, const void* y, const int32_t* token_rows, const float* weights, int64_t tokens, int64_t top_k, int64_t hidden, cudaStream_t stream) {
  combine<<<blocks(tokens * hidden / 8), 256, 0, stream>>>(static_cast<__nv_bfloat16*>(out), static_cast<const __nv_bfloat16*>(y), token_rows, weights, tokens, int(top_k), hidden);
}

}  // namespace bench
