// The straightforward way to do what kernels of papers do, for their benchmarks.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace bench {

/// out[i] = log(I_0(x[i])) by CUDA's cyl_bessel_i0; x up to 700.
void log_i0(double* out, const double* x, int64_t n, cudaStream_t stream);
/// out[i] = log K_v(x): the integral over exp(-x cosh t) cosh(v t), by 128 trapezoids up to where it ends for x > 0.5, v < 20.
void log_k_integral(double* out, const double* v, const double* x, int64_t n, cudaStream_t stream);

/// One sweep of `glasses` lattices of size x size spins of a byte each, a thread a spin, couplings of a byte; a random number a spin by Philox4x32-10.
void spin_sweep(int8_t* spins, const int8_t* right, const int8_t* down, int size, int glasses, float beta, uint64_t seed, uint32_t sweep, cudaStream_t stream);

/// sums[node][feature][output][bin] and counts[node][feature][bin] by additions to memory, a thread a sample and feature.
void histograms_in_memory(float* sums, uint32_t* counts, const uint8_t* bins, const float* gradients, const int32_t* node, int64_t samples, int features, int pitch, int bin_count, int outputs, cudaStream_t stream);
/// The best split of each node and feature by a thread that goes over its bins: gain and bin.
void splits_by_threads(double* gain, int32_t* bin, const float* sums, const uint32_t* counts, int nodes, int features, int bin_count, int outputs, double l2, cudaStream_t stream);

/// out = silu(gate) * up of rows of 2 * inner, gate first; rows x inner. bf16, inner a multiple of 8.
void gate_rows(void* out, const void* in, int64_t rows, int64_t inner, cudaStream_t stream);
/// out[t] = the sum over k of weights[t][k] * y[token_rows[t][k]]. bf16, hidden a multiple of 8.
void combine_rows(void* out, const void* y, const int32_t* token_rows, const float* weights, int64_t tokens, int64_t top_k, int64_t hidden, cudaStream_t stream);

/// What mhd_residual does for cubes of elements of one size, by kernels for each step, through memory: values at flux points, their fluxes, Riemann fluxes, derivatives; a
/// thread a point. values and fluxes: room for points * (order + 1) / order * 8 doubles each; the axes come one after the other, each adding to out.
void spectral_difference_by_steps(double* out, const double* u, double* values, double* fluxes, int order, int nx, int ny, int nz, double size, double gamma, cudaStream_t stream);

}  // namespace bench
