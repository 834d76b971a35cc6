// calib/held-out/grids.cu: images, grids and particles: convolution, filters of bytes, enlarging, histograms, forces.
#include <algorithm>

#include "../truth/truth.h"

namespace {
using namespace truth;

/// 3 x 3 convolution of 32 channels to 32: a block has a tile of 16 x 16 pixels, channels in shared memory eight at a time, eight
/// outputs a thread in registers.
__global__ void conv2d_channels(const float* in, const float* weights, float* out, int size) {
  __shared__ float tile[8][18][18];
  __shared__ float w[8][8][9];
  const int x0 = blockIdx.x * 16, y0 = blockIdx.y * 16, first = blockIdx.z * 8, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[8] = {};
  for (int c0 = 0; c0 < 32; c0 += 8) {
    for (int i = threadIdx.x; i < 8 * 324; i += 256) {
      const int c = i / 324, y = y0 + i % 324 / 18 - 1, x = x0 + i % 18 - 1;
      tile[c][i % 324 / 18][i % 18] = x >= 0 && y >= 0 && x < size && y < size ? in[(long(c0 + c) * size + y) * size + x] : 0;
    }
    for (int i = threadIdx.x; i < 8 * 72; i += 256) w[i / 72][i % 72 / 9][i % 9] = weights[((first + i / 72) * 32 + c0 + i % 72 / 9) * 9 + i % 9];
    __syncthreads();
    for (int c = 0; c < 8; c++) {
      float v[9];
      for (int k = 0; k < 9; k++) v[k] = tile[c][ty + k / 3][tx + k % 3];
      for (int o = 0; o < 8; o++)
        for (int k = 0; k < 9; k++) sum[o] += v[k] * w[o][c][k];
    }
    __syncthreads();
  }
  for (int o = 0; o < 8; o++) out[(long(first + o) * size + y0 + ty) * size + x0 + tx] = sum[o];
}
TRUTH("grids", "conv2d_channels", {128, 512}, [](long n) {
  auto in = uniform<float>(32 * n * n), w = uniform<float>(32 * 32 * 9), out = zeros<float>(32 * n * n);
  return [=] { conv2d_channels<<<dim3(n / 16, n / 16, 4), 256>>>(in, w, out, int(n)); };
});

/// A blur of 9 x 1 pixels of four bytes, straight from memory.
__global__ void blur_bytes(const uchar4* in, uchar4* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= width) return;
  int r = 0, g = 0, b = 0;
  for (int d = -4; d <= 4; d++) {
    const uchar4 p = in[long(y) * width + min(max(x + d, 0), width - 1)];
    r += p.x, g += p.y, b += p.z;
  }
  out[long(y) * width + x] = make_uchar4(r / 9, g / 9, b / 9, 255);
}
TRUTH("grids", "blur_bytes", {1024, 8192}, [](long n) {
  auto in = zeros<uchar4>(n * n), out = zeros<uchar4>(n * n);
  return [=] { blur_bytes<<<dim3(blocks_for(n, 256), n), 256>>>(in, out, int(n), int(n)); };
});

/// Twice the size by interpolation.
__global__ void enlarge(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const float fx = fmaxf(x * .5f - .25f, 0), fy = fmaxf(y * .5f - .25f, 0);
  const int ix = int(fx), iy = int(fy), jx = min(ix + 1, n - 1), jy = min(iy + 1, n - 1);
  const float ax = fx - ix, ay = fy - iy;
  const float top = in[long(iy) * n + ix] * (1 - ax) + in[long(iy) * n + jx] * ax, bottom = in[long(jy) * n + ix] * (1 - ax) + in[long(jy) * n + jx] * ax;
  out[long(y) * n * 2 + x] = top * (1 - ay) + bottom * ay;
}
TRUTH("grids", "enlarge", {512, 4096}, [](long n) {
  auto in = uniform<float>(n * n), out = zeros<float>(n * n * 4);
  return [=] { enlarge<<<dim3(n * 2 / 32, n * 2 / 8), dim3(32, 8)>>>(in, out, int(n)); };
});

/// 64 bins, a copy of them for each warp, values that cluster.
__global__ void histogram_warps(const uint8_t* in, uint32_t* bins, long words) {
  __shared__ uint32_t own[8][64];
  for (int i = threadIdx.x; i < 512; i += 256) own[i / 64][i % 64] = 0;
  __syncthreads();
  uint32_t* mine = own[threadIdx.x / 32];
  const uint32_t* from = (const uint32_t*)in;
  for (long i = blockIdx.x * 256l + threadIdx.x; i < words; i += long(gridDim.x) * 256) {
    const uint32_t v = from[i];
    for (int k = 0; k < 4; k++) atomicAdd(&mine[v >> (8 * k) & 63], 1);
  }
  __syncthreads();
  if (threadIdx.x < 64) {
    uint32_t sum = 0;
    for (int w = 0; w < 8; w++) sum += own[w][threadIdx.x];
    if (sum) atomicAdd(&bins[threadIdx.x], sum);
  }
}
TRUTH("grids", "histogram_warps", {1 << 20, 1 << 26}, [](long n) {
  Array<uint8_t> in(n);
  fill<uint8_t>(in, [](size_t, Random& r) { return uint8_t((r.next() & 31) + (r.next() & 31)); });
  auto bins = zeros<uint32_t>(64);
  return [=] { histogram_warps<<<int(std::min(132l * 8, n / 1024)), 256>>>(in.p, bins, n / 4); };
});

/// Forces of all on all with softening and a cut-off, tiles of 128 in shared memory.
__global__ void forces(const float4* at, float4* force, int n) {
  __shared__ float4 tile[128];
  const float4 own = at[blockIdx.x * 128 + threadIdx.x];
  float fx = 0, fy = 0, fz = 0;
  for (int first = 0; first < n; first += 128) {
    tile[threadIdx.x] = at[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < 128; j++) {
      const float dx = tile[j].x - own.x, dy = tile[j].y - own.y, dz = tile[j].z - own.z;
      const float square = dx * dx + dy * dy + dz * dz + .01f;
      if (square < .5f) {
        const float inverse = __frcp_rn(square), s = tile[j].w * inverse * inverse;
        fx += dx * s, fy += dy * s, fz += dz * s;
      }
    }
    __syncthreads();
  }
  force[blockIdx.x * 128 + threadIdx.x] = make_float4(fx, fy, fz, 0);
}
TRUTH("grids", "forces", {4096, 32768}, [](long n) {
  auto p = uniform<float>(n * 4), f = zeros<float>(n * 4);
  return [=] { forces<<<int(n / 128), 128>>>((const float4*)p.p, (float4*)f.p, int(n)); };
});

/// Particles as structures of eight floats: half a step of each, written back field by field.
struct Particle {
  float x, y, z, vx, vy, vz, mass, age;
};
__global__ void move_particles(Particle* p, const float* field, int cells, float dt, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  Particle& own = p[i];
  const float push = field[min(int(own.x * cells), cells - 1)];
  own.vx += dt * push, own.x += dt * own.vx, own.y += dt * own.vy, own.z += dt * own.vz, own.age += dt;
}
TRUTH("grids", "move_particles", {1 << 17, 1 << 22}, [](long n) {
  auto p = uniform<float>(n * 8), f = uniform<float>(65536);
  return [=] { move_particles<<<blocks_for(n, 256), 256>>>((Particle*)p.p, f, 65536, .001f, n); };
});

}  // namespace
