// bench/plain.h: the computations of kernels.cu as plain loops, compiled -O3 -march=native.
#pragma once
namespace plain {
// `first`, `last`: the part of the outer loop for one thread.
void vadd(const float* a, const float* b, float* c, int first, int last);
void sgemm(const float* a, const float* b, float* c, int n, int first, int last);
float reduce(const float* in, int first, int last);
void mandelbrot(int* out, int size, int limit, int first, int last);
void transpose(const float* in, float* out, int n, int first, int last);
void stencil(const float* in, float* out, int n, int first, int last);
void nbody(const float* pos, float* acc, int n, int first, int last);
void histogram(const unsigned char* in, unsigned* out, int first, int last);
void spmv(const int* row, const int* col, const float* val, const float* x, float* y, int first, int last);
void convolve(const float* in, const float* w, float* out, int n, int first, int last);
void scan(const int* in, int* out, int first, int last);
void integers(const unsigned* in, unsigned* out, int first, int last);
}  // namespace plain
