// Two spiral galaxies pass each other: an n-body simulation drawn as a PNG.
//
//   orrery cc -o galaxy examples/galaxy.cu && orrery run -- ./galaxy [picture.png] [bodies] [steps]
//
// All pairs attract (shared-memory tiles, one thread per body, leapfrog steps); then every body leaves its light in
// an image with atomics, a separable blur gives the glow, and a tone curve the colours. The accelerations of the last
// step are held against the CPU in double precision.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "png.h"

#define CHECK(call)                                                              \
  do {                                                                           \
    cudaError_t e = (call);                                                      \
    if (e != cudaSuccess) {                                                      \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));            \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

constexpr int kBlock = 128, kWidth = 960, kHeight = 540, kRadius = 12;
constexpr float kSoftening = 0.05f, kStep = 0.012f;

// position.w is the mass; acceleration of every body from all others.
__global__ void attract(const float4* position, float4* acceleration, int n) {
  __shared__ float4 tile[kBlock];
  int i = blockIdx.x * kBlock + threadIdx.x;
  float4 me = position[i];
  float ax = 0, ay = 0, az = 0;
  for (int base = 0; base < n; base += kBlock) {
    tile[threadIdx.x] = position[base + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < kBlock; j++) {
      float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
      float r2 = dx * dx + dy * dy + dz * dz + kSoftening * kSoftening;
      float inverse = rsqrtf(r2), s = tile[j].w * inverse * inverse * inverse;
      ax += dx * s;
      ay += dy * s;
      az += dz * s;
    }
    __syncthreads();
  }
  acceleration[i] = make_float4(ax, ay, az, 0);
}

__global__ void advance(float4* position, float4* velocity, const float4* acceleration, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = position[i], v = velocity[i], a = acceleration[i];
  v.x += a.x * kStep;
  v.y += a.y * kStep;
  v.z += a.z * kStep;
  p.x += v.x * kStep;
  p.y += v.y * kStep;
  p.z += v.z * kStep;
  position[i] = p;
  velocity[i] = v;
}

// Each body adds its colour to the four pixels around its projection.
__global__ void shine(const float4* position, const float4* velocity, float* light, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = position[i], v = velocity[i];
  float depth = 7.0f + p.z, x = kWidth * 0.5f + p.x / depth * 1500, y = kHeight * 0.5f + p.y / depth * 1500;
  int px = (int)floorf(x), py = (int)floorf(y);
  if (depth < 1 || px < 0 || py < 0 || px + 1 >= kWidth || py + 1 >= kHeight) return;
  float fx = x - px, fy = y - py;
  float speed = sqrtf(v.x * v.x + v.y * v.y + v.z * v.z);
  float heat = fminf(speed * 0.55f, 1.0f), home = v.w;  // v.w: 0 or 1, the galaxy it came from
  float colour[3] = {0.55f + 0.45f * heat - 0.25f * home, 0.40f + 0.40f * heat, 0.35f + 0.35f * heat + 0.40f * home};
  for (int c = 0; c < 3; c++) {
    float* plane = light + (py * kWidth + px) * 3 + c;
    atomicAdd(plane, colour[c] * (1 - fx) * (1 - fy));
    atomicAdd(plane + 3, colour[c] * fx * (1 - fy));
    atomicAdd(plane + 3 * kWidth, colour[c] * (1 - fx) * fy);
    atomicAdd(plane + 3 * kWidth + 3, colour[c] * fx * fy);
  }
}

// One direction of a wide blur with weights 1/(1 + d^2/4): a bright point gets a halo.
__global__ void blur(const float* from, float* to, int dx, int dy) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= kWidth || y >= kHeight) return;
  float sum[3] = {}, weights = 0;
  for (int d = -kRadius; d <= kRadius; d++) {
    int sx = min(max(x + d * dx, 0), kWidth - 1), sy = min(max(y + d * dy, 0), kHeight - 1);
    float w = 1.0f / (1.0f + d * d * 0.25f);
    for (int c = 0; c < 3; c++) sum[c] += w * from[(sy * kWidth + sx) * 3 + c];
    weights += w;
  }
  for (int c = 0; c < 3; c++) to[(y * kWidth + x) * 3 + c] = sum[c] / weights;
}

__global__ void develop(const float* light, const float* glow, unsigned char* rgb, float exposure) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= kWidth || y >= kHeight) return;
  float sky[3] = {0.010f, 0.013f, 0.030f};
  for (int c = 0; c < 3; c++) {
    int i = (y * kWidth + x) * 3 + c;
    float v = sky[c] + 1.0f - expf(-exposure * (0.5f * light[i] + 2.2f * glow[i]));
    rgb[i] = (unsigned char)(255.0f * powf(fminf(v, 1.0f), 1 / 1.8f) + 0.5f);
  }
}

// A disk of bodies on circular orbits about a heavy centre.
static unsigned random_state = 20261121;
static float uniform() {
  random_state = random_state * 1664525u + 1013904223u;
  return (float)(random_state >> 8) / 16777216.0f;
}
static void make_disk(std::vector<float4>& position, std::vector<float4>& velocity, int begin, int end, float3 centre,
                      float3 drift, float tilt, float home) {
  const float mass = 1.6f;
  for (int i = begin; i < end; i++) {
    float r = i == begin ? 0 : 0.12f + 1.15f * sqrtf(uniform()) * (0.35f + 0.65f * uniform()), angle = 6.2831853f * uniform();
    float x = r * cosf(angle), y = r * sinf(angle), z = 0.05f * (uniform() - 0.5f);
    float speed = r > 0 ? sqrtf(mass / sqrtf(r * r + kSoftening)) : 0, vx = -speed * sinf(angle), vy = speed * cosf(angle);
    float c = cosf(tilt), s = sinf(tilt);
    position[i] = make_float4(centre.x + x, centre.y + y * c - z * s, centre.z + y * s + z * c,
                              i == begin ? mass : 0.25f / (end - begin));
    velocity[i] = make_float4(drift.x + vx, drift.y + vy * c, drift.z + vy * s, home);
  }
}

static int verify(const std::vector<float4>& position, const std::vector<float4>& acceleration, int n) {
  int wrong = 0;
  for (int i = 0; i < n; i += n / 61 + 1) {
    double a[3] = {};
    for (int j = 0; j < n; j++) {
      double d[3] = {double(position[j].x) - position[i].x, double(position[j].y) - position[i].y,
                     double(position[j].z) - position[i].z};
      double r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + double(kSoftening) * kSoftening;
      for (int c = 0; c < 3; c++) a[c] += position[j].w * d[c] / (r2 * std::sqrt(r2));
    }
    double size = std::sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]) + 1;
    double error = std::fabs(a[0] - acceleration[i].x) + std::fabs(a[1] - acceleration[i].y) + std::fabs(a[2] - acceleration[i].z);
    wrong += !(error < 2e-5 * size);
  }
  return wrong;
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "galaxy.png";
  const int n = (argc > 2 ? std::atoi(argv[2]) : 4096) / kBlock * kBlock, steps = argc > 3 ? std::atoi(argv[3]) : 60;
  if (n <= 0 || steps <= 0) {
    std::fprintf(stderr, "usage: galaxy [picture.png] [bodies >= %d] [steps >= 1]\n", kBlock);
    return 2;
  }
  std::vector<float4> position(n), velocity(n), acceleration(n);
  make_disk(position, velocity, 0, n * 3 / 5, make_float3(-0.75f, 0.18f, 0), make_float3(0.42f, -0.18f, 0), 1.05f, 0);
  make_disk(position, velocity, n * 3 / 5, n, make_float3(1.15f, -0.35f, 0.3f), make_float3(-0.62f, 0.28f, 0), -0.6f, 1);

  float4 *p, *v, *a;
  float *light, *half, *glow;
  unsigned char* rgb;
  const size_t bodies = sizeof(float4) * n, image = sizeof(float) * kWidth * kHeight * 3;
  CHECK(cudaMalloc(&p, bodies));
  CHECK(cudaMalloc(&v, bodies));
  CHECK(cudaMalloc(&a, bodies));
  CHECK(cudaMalloc(&light, image));
  CHECK(cudaMalloc(&half, image));
  CHECK(cudaMalloc(&glow, image));
  CHECK(cudaMalloc(&rgb, kWidth * kHeight * 3));
  CHECK(cudaMemcpy(p, position.data(), bodies, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(v, velocity.data(), bodies, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(light, 0, image));

  auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; step++) {
    attract<<<n / kBlock, kBlock>>>(p, a, n);
    if (step + 1 < steps) advance<<<n / kBlock, kBlock>>>(p, v, a, n);
  }
  dim3 block(32, 8), grid((kWidth + 31) / 32, (kHeight + 7) / 8);
  shine<<<n / kBlock, kBlock>>>(p, v, light, n);
  blur<<<grid, block>>>(light, half, 1, 0);
  blur<<<grid, block>>>(half, glow, 0, 1);
  develop<<<grid, block>>>(light, glow, rgb, 8192.0f / n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  std::vector<unsigned char> pixels(kWidth * kHeight * 3);
  CHECK(cudaMemcpy(position.data(), p, bodies, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(acceleration.data(), a, bodies, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(pixels.data(), rgb, pixels.size(), cudaMemcpyDeviceToHost));
  int wrong = verify(position, acceleration, n);
  if (!write_png(path, std::vector<uint8_t>(pixels.begin(), pixels.end()), kWidth, kHeight)) {
    std::fprintf(stderr, "cannot write %s\n", path);
    return 1;
  }
  std::printf("galaxy %d bodies, %d steps: %.2f s, %.2f G interactions/s, %s; picture: %s\n", n, steps, seconds,
              1e-9 * n * n * steps / seconds, wrong ? "WRONG" : "verified against the CPU", path);
  return wrong != 0;
}
