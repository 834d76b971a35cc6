// bench/limits.h: what the machine can do at most.
#pragma once
namespace limits {
/// Single-precision multiply-adds of `threads` threads at once, in registers only: floating-point operations per
/// second, the sum over the threads of what each does per second of its own CPU time.
double fma_peak(int threads);
/// c = a b of n x n row-major matrices, rows [first, last), by OpenBLAS on the calling thread. False: built without it.
bool blas_sgemm(const float* a, const float* b, float* c, int n, int first, int last);
}  // namespace limits
