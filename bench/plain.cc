// bench/plain.cc: see plain.h. Written as a C++ programmer would, with no intrinsics.
#include "plain.h"

#include <cmath>

namespace plain {

void vadd(const float* __restrict a, const float* __restrict b, float* __restrict c, int first, int last) {
  for (int i = first; i < last; i++) c[i] = a[i] + b[i];
}

void sgemm(const float* __restrict a, const float* __restrict b, float* __restrict c, int n, int first, int last) {
  for (int i = first; i < last; i++) {
    for (int j = 0; j < n; j++) c[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
  }
}

float reduce(const float* in, int first, int last) {
  float sum[64] = {};
  int i = first;
  for (; i + 64 <= last; i += 64)
    for (int k = 0; k < 64; k++) sum[k] += in[i + k];
  float total = 0;
  for (; i < last; i++) total += in[i];
  for (float s : sum) total += s;
  return total;
}

void mandelbrot(int* out, int size, int limit, int first, int last) {
  for (int y = first; y < last; y++)
    for (int x = 0; x < size; x++) {
      float cx = -2.0f + 3.0f / size * x, cy = -1.5f + 3.0f / size * y, zx = 0, zy = 0;
      int n = 0;
      while (n < limit && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = t;
        n++;
      }
      out[y * size + x] = n;
    }
}

void transpose(const float* __restrict in, float* __restrict out, int n, int first, int last) {
  for (int y = first; y < last; y += 32)
    for (int x = 0; x < n; x += 32)
      for (int j = 0; j < 32; j++)
        for (int i = 0; i < 32; i++) out[(x + j) * n + y + i] = in[(y + i) * n + x + j];
}

void stencil(const float* __restrict in, float* __restrict out, int n, int first, int last) {
  for (int y = first < 1 ? 1 : first; y < last && y < n - 1; y++)
    for (int x = 1; x < n - 1; x++)
      out[y * n + x] = 0.2f * (in[y * n + x] + in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}

void nbody(const float* __restrict pos, float* __restrict acc, int n, int first, int last) {
  for (int i = first; i < last; i++) {
    float px = pos[4 * i], py = pos[4 * i + 1], pz = pos[4 * i + 2], ax = 0, ay = 0, az = 0;
    for (int j = 0; j < n; j++) {
      float dx = pos[4 * j] - px, dy = pos[4 * j + 1] - py, dz = pos[4 * j + 2] - pz;
      float d = dx * dx + dy * dy + dz * dz + 0.01f;
      float inverse = 1.0f / std::sqrt(d), s = pos[4 * j + 3] * inverse * inverse * inverse;
      ax += dx * s, ay += dy * s, az += dz * s;
    }
    acc[4 * i] = ax, acc[4 * i + 1] = ay, acc[4 * i + 2] = az;
  }
}

void histogram(const unsigned char* in, unsigned* out, int first, int last) {
  for (int i = first; i < last; i++) out[in[i]]++;
}

void spmv(const int* row, const int* col, const float* val, const float* x, float* y, int first, int last) {
  for (int i = first; i < last; i++) {
    float sum = 0;
    for (int k = row[i]; k < row[i + 1]; k++) sum += val[k] * x[col[k]];
    y[i] = sum;
  }
}

void convolve(const float* __restrict in, const float* __restrict w, float* __restrict out, int n, int first, int last) {
  for (int y = first < 2 ? 2 : first; y < last && y < n - 2; y++)
    for (int x = 2; x < n - 2; x++) {
      float sum = 0;
      for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++) sum += in[(y + j) * n + x + i] * w[(j + 2) * 5 + i + 2];
      out[y * n + x] = sum;
    }
}

void scan(const int* in, int* out, int first, int last) {
  for (int i = first; i < last; i += 256) {
    int sum = 0;
    for (int k = 0; k < 256; k++) out[i + k] = sum += in[i + k];
  }
}

void integers(const unsigned* __restrict in, unsigned* __restrict out, int first, int last) {
  for (int i = first; i < last; i++) {
    unsigned v = in[i];
    for (int k = 0; k < 64; k++) {
      v ^= v << 13;
      v ^= v >> 17;
      v ^= v << 5;
      v = v * 1664525u + 1013904223u;
    }
    out[i] = v;
  }
}

}  // namespace plain
