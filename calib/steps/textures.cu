// calib/steps/textures.cu: fetches of texels and surface accesses: how long one takes, how many an SM does of texels that its L1 holds (by what a
// texel is, by filtering and by where lanes lie), streams of them from L2 and memory, and which texels share a sector of an array.
#include "../truth/truth.h"

namespace {
using namespace truth;

/// What a kernel reads or writes through a texture or surface object; all zeros.
struct Texels {
  cudaArray_t array = nullptr;
  void* memory = nullptr;
  cudaTextureObject_t texture = 0;
  cudaSurfaceObject_t surface = 0;
  ~Texels() {
    if (texture) cudaDestroyTextureObject(texture);
    if (surface) cudaDestroySurfaceObject(surface);
    if (array) cudaFreeArray(array);
    cudaFree(memory);
  }
};
using Object = std::shared_ptr<Texels>;
struct Objects {  // of which a kernel gets a copy
  cudaTextureObject_t texture;
  cudaSurfaceObject_t surface;
};
enum class In { array, rows, line };  // an array, rows of linear memory, linear memory

/// What a fetch of a T gives: integers become floats between 0 and 1.
template <class T> struct Fetched { using type = float; };
template <> struct Fetched<uchar2> { using type = float2; };
template <> struct Fetched<float2> { using type = float2; };
template <> struct Fetched<uchar4> { using type = float4; };
template <> struct Fetched<ushort4> { using type = float4; };
template <> struct Fetched<float4> { using type = float4; };
template <class T> inline constexpr bool kFloats = std::is_same_v<T, float> || std::is_same_v<T, float2> || std::is_same_v<T, float4>;

template <class T>
Object texels(In in, long width, long height, long depth, bool linear, bool layered = false, bool gather = false) {
  auto t = std::make_shared<Texels>();
  cudaResourceDesc r{};
  const auto desc = cudaCreateChannelDesc<T>();
  if (in == In::array) {
    const cudaExtent all{size_t(width), size_t(height), size_t(depth)};
    if (depth) cudaMalloc3DArray(&t->array, &desc, all, layered ? cudaArrayLayered : 0);
    else cudaMallocArray(&t->array, &desc, size_t(width), size_t(height), gather ? cudaArrayTextureGather : cudaArraySurfaceLoadStore);
    void* zero = nullptr;
    const size_t row = size_t(width) * sizeof(T), rows = size_t(height) * size_t(depth ? depth : 1);
    cudaMalloc(&zero, row * rows);
    cudaMemset(zero, 0, row * rows);
    if (depth) {
      cudaMemcpy3DParms p{};
      p.srcPtr = make_cudaPitchedPtr(zero, row, size_t(width), size_t(height)), p.dstArray = t->array, p.extent = all, p.kind = cudaMemcpyDeviceToDevice;
      cudaMemcpy3D(&p);
    } else {
      cudaMemcpy2DToArray(t->array, 0, 0, zero, row, row, size_t(height), cudaMemcpyDeviceToDevice);
    }
    cudaFree(zero);
    r.resType = cudaResourceTypeArray, r.res.array.array = t->array;
    if (!depth && !gather) cudaCreateSurfaceObject(&t->surface, &r);
  } else {
    const size_t bytes = size_t(width) * size_t(height) * sizeof(T);
    cudaMalloc(&t->memory, bytes);
    cudaMemset(t->memory, 0, bytes);
    if (in == In::rows) r.resType = cudaResourceTypePitch2D, r.res.pitch2D = {t->memory, desc, size_t(width), size_t(height), size_t(width) * sizeof(T)};
    else r.resType = cudaResourceTypeLinear, r.res.linear = {t->memory, desc, bytes};
  }
  cudaTextureDesc d{};
  for (auto& mode : d.addressMode) mode = cudaAddressModeClamp;
  d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
  d.readMode = kFloats<T> ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
  if (cudaCreateTextureObject(&t->texture, &r, &d, nullptr) != cudaSuccess) std::fprintf(stderr, "truth: no texture\n"), std::exit(1);
  return t;
}

__device__ float sum(float v) { return v; }
__device__ float sum(float2 v) { return v.x + v.y; }
__device__ float sum(float4 v) { return v.x + v.y + v.z + v.w; }

enum How { k1d, k2d, k3d, kLayer, kGather, kSurface };
/// One fetch; a surface's coordinates are integers.
template <class T, How how>
__device__ float fetch(const Objects& o, float x, float y, float z) {
  using F = typename Fetched<T>::type;
  if constexpr (how == k2d) return sum(tex2D<F>(o.texture, x, y));
  else if constexpr (how == k3d) return sum(tex3D<F>(o.texture, x, y, z));
  else if constexpr (how == kLayer) return sum(tex2DLayered<F>(o.texture, x, y, int(z)));
  else return sum(tex2Dgather<float4>(o.texture, x, y, 0));
}

/// Where a warp's lanes lie, in a tile of kWide x kHigh texels.
enum Lie { kRow, kHalves, kPatch, kTall, kColumn, kSame, kApart2, kApart8, kAnywhere };
__host__ __device__ constexpr int wide_of(Lie l) { return l == kRow ? 32 : l == kHalves ? 16 : l == kPatch || l == kSame ? 8 : l == kTall ? 4 : l == kColumn ? 1 : 64; }
__host__ __device__ constexpr int high_of(Lie l) { return l == kHalves ? 2 : l == kPatch || l == kApart8 ? 4 : l == kTall ? 8 : l == kColumn ? 32 : 1; }
template <Lie lie>
__device__ int2 place_of(int lane) {
  if (lie == kSame) return {0, 0};
  if (lie == kApart2) return {2 * lane, 0};
  if (lie == kApart8) return {lane % 8 * 8, lane / 8};
  if (lie == kAnywhere) return {int(lane * 2654435761u >> 20) & 63, int(lane * 2246822519u >> 17) & 31};
  return {lane % wide_of(lie), lane / wide_of(lie)};
}

/// Fetches of tiles of 64 x 128 texels, of which L1 holds all after a while; `off` from the middle of a texel.
template <class T, How how, Lie lie>
__global__ void hits(float* out, Objects o, float off, int turns) {
  const int warp = threadIdx.x / 32;
  const int2 at = place_of<lie>(threadIdx.x % 32);
  float x = at.x + .5f + off, y = at.y + warp % 8 * 8 + .5f + off, v = 0;
  for (int i = 0; i < turns; i++) {
#pragma unroll
    for (int j = 0; j < 8; j++) v += fetch<T, how>(o, x + (j * wide_of(lie) & 63), y + ((j * wide_of(lie) >> 6) * high_of(lie) & 31), how == kLayer ? j & 3 : (j & 3) + .5f + off);
    y += high_of(lie);
    if (y >= 64) y -= 64;
  }
  if (v != 0) out[threadIdx.x] = v;
}
/// The same by places in linear memory.
template <class T, Lie lie>
__global__ void line_hits(float* out, Objects o, float, int turns) {
  const int2 at = place_of<lie>(threadIdx.x % 32);
  int x = at.x + 64 * (at.y + int(threadIdx.x / 32) % 8 * 8);
  float v = 0;
  for (int i = 0; i < turns; i++) {
#pragma unroll
    for (int j = 0; j < 8; j++) v += sum(tex1Dfetch<typename Fetched<T>::type>(o.texture, x + j * 32));
    x = (x + 64) & 4095;
  }
  if (v != 0) out[threadIdx.x] = v;
}
template <class T, Lie lie, bool kWrites>
__global__ void surface_hits(float* out, Objects o, float, int turns) {
  const int2 at = place_of<lie>(threadIdx.x % 32);
  int x = at.x, y = at.y + int(threadIdx.x / 32) % 8 * 8;
  float v = 0;
  for (int i = 0; i < turns; i++) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const int to = (x + (j * wide_of(lie) & 63)) * int(sizeof(T)), row = y + ((j * wide_of(lie) >> 6) * high_of(lie) & 31);
      if constexpr (kWrites) {
        surf2Dwrite(T{}, o.surface, to, row);
      } else if constexpr (kFloats<T>) {
        v += sum(surf2Dread<T>(o.surface, to, row));
      } else {
        v += surf2Dread<T>(o.surface, to, row);
      }
    }
    y = (y + high_of(lie)) & 63;
  }
  if (v != 0) out[threadIdx.x] = v;
}
template <class T, class K>
Launch hits_case(K kernel, In in, long depth, bool linear, float off, int turns, bool layered = false, bool gather = false) {
  auto out = zeros<float>(1024);
  auto t = texels<T>(in, in == In::line ? 8192 : 64, in == In::line ? 1 : 128, depth, linear, layered, gather);
  return [=] { kernel<<<264, 512>>>(out, {t->texture, t->surface}, off, turns); };
}
#define HITS(name, type, how, lie, in, depth, linear, off) \
  TRUTH("texture", "texel_hits_" name, {256}, [](long n) { return hits_case<type>(hits<type, how, lie>, In::in, depth, linear, off, int(n / 8), how == kLayer, how == kGather); });
#define POINT(name, type, lie) HITS("2d_" name, type, k2d, lie, array, 0, false, 0.f)
#define LINEAR(name, type, lie) HITS("linear_" name, type, k2d, lie, array, 0, true, .25f)
#define LINE(name, type, lie) TRUTH("texture", "texel_hits_1d_" name, {256}, [](long n) { return hits_case<type>(line_hits<type, lie>, In::line, 0, false, 0, int(n / 8)); });
#define SURFACE(name, type, lie) \
  TRUTH("texture", "surface_hits_" name, {256}, [](long n) { return hits_case<type>(surface_hits<type, lie, false>, In::array, 0, false, 0, int(n / 8)); });
#define SURFACE_WRITES(name, type, lie) \
  TRUTH("texture", "surface_writes_" name, {64}, [](long n) { return hits_case<type>(surface_hits<type, lie, true>, In::array, 0, false, 0, int(n / 8)); });
LINE("1", uint8_t, kRow) LINE("2", uint16_t, kRow) LINE("1x4", uchar4, kRow) LINE("2x4", ushort4, kRow) LINE("4", float, kRow) LINE("4x2", float2, kRow) LINE("4x4", float4, kRow)
LINE("4_same", float, kSame) LINE("4_apart2", float, kApart2) LINE("4_apart8", float, kApart8) LINE("4_anywhere", float, kAnywhere)
POINT("1", uint8_t, kRow) POINT("1x2", uchar2, kRow) POINT("1x4", uchar4, kRow) POINT("2", uint16_t, kRow) POINT("2x4", ushort4, kRow) POINT("4", float, kRow) POINT("4x2", float2, kRow) POINT("4x4", float4, kRow)
POINT("1_8x4", uint8_t, kPatch) POINT("1x4_8x4", uchar4, kPatch) POINT("2x4_8x4", ushort4, kPatch) POINT("4_8x4", float, kPatch) POINT("4x2_8x4", float2, kPatch) POINT("4x4_8x4", float4, kPatch)
POINT("4_16x2", float, kHalves) POINT("4_4x8", float, kTall) POINT("4_1x32", float, kColumn) POINT("4_same", float, kSame) POINT("4_apart2", float, kApart2) POINT("4_apart8", float, kApart8) POINT("4_anywhere", float, kAnywhere)
LINEAR("1", uint8_t, kRow) LINEAR("1x4", uchar4, kRow) LINEAR("2", uint16_t, kRow) LINEAR("2x4", ushort4, kRow) LINEAR("4", float, kRow) LINEAR("4x2", float2, kRow) LINEAR("4x4", float4, kRow)
LINEAR("1_8x4", uint8_t, kPatch) LINEAR("1x4_8x4", uchar4, kPatch) LINEAR("2x4_8x4", ushort4, kPatch) LINEAR("4_8x4", float, kPatch) LINEAR("4x2_8x4", float2, kPatch) LINEAR("4x4_8x4", float4, kPatch)
LINEAR("4_16x2", float, kHalves) LINEAR("4_4x8", float, kTall) LINEAR("4_1x32", float, kColumn) LINEAR("4_same", float, kSame) LINEAR("4_anywhere", float, kAnywhere)
HITS("linear_4_8x4_middle", float, k2d, kPatch, array, 0, true, 0.f)
HITS("3d_4", float, k3d, kRow, array, 5, false, 0.f) HITS("3d_4_8x4", float, k3d, kPatch, array, 5, false, 0.f)
HITS("3d_linear_4", float, k3d, kRow, array, 5, true, .25f) HITS("3d_linear_4_8x4", float, k3d, kPatch, array, 5, true, .25f)
HITS("3d_linear_1x4_8x4", uchar4, k3d, kPatch, array, 5, true, .25f) HITS("3d_linear_4x4_8x4", float4, k3d, kPatch, array, 3, true, .25f)
HITS("layer_4", float, kLayer, kRow, array, 4, false, 0.f)
HITS("rows_4", float, k2d, kRow, rows, 0, false, 0.f) HITS("rows_4_8x4", float, k2d, kPatch, rows, 0, false, 0.f) HITS("rows_4_1x32", float, k2d, kColumn, rows, 0, false, 0.f)
HITS("rows_linear_4", float, k2d, kRow, rows, 0, true, .25f) HITS("rows_linear_4_8x4", float, k2d, kPatch, rows, 0, true, .25f)
HITS("gather_4", float, kGather, kRow, array, 0, false, .5f) HITS("gather_4_8x4", float, kGather, kPatch, array, 0, false, .5f) HITS("gather_1x4", uchar4, kGather, kRow, array, 0, false, .5f)
SURFACE("1", uint8_t, kRow) SURFACE("4", float, kRow) SURFACE("4x2", float2, kRow) SURFACE("4x4", float4, kRow) SURFACE("4_8x4", float, kPatch) SURFACE("4x4_8x4", float4, kPatch) SURFACE("4_1x32", float, kColumn)
SURFACE_WRITES("4", float, kRow) SURFACE_WRITES("4x4", float4, kRow) SURFACE_WRITES("4_8x4", float, kPatch) SURFACE_WRITES("4_1x32", float, kColumn)

/// Each fetch says where the next is; one warp, all lanes alike.
template <class T, How how>
__global__ void chase(float* out, Objects o, float off, int turns) {
  float y = .5f + off, v = 0;
  for (int i = 0; i < turns; i++) {
    float x = .5f + off + v;
#pragma unroll
    for (int j = 0; j < 8; j++) v = fetch<T, how>(o, x, y, .5f + off), x = x + 4 + v;
  }
  if (v != 0) out[0] = v;
}
#define CHASE(name, type, how, depth, linear, off) \
  TRUTH("texture", "texel_chase_" name, {2048}, [](long n) { \
    auto out = zeros<float>(1); \
    auto t = texels<type>(In::array, 64, 64, depth, linear, false, how == kGather); \
    return [=] { chase<type, how><<<1, 32>>>(out, {t->texture, t->surface}, off, int(n / 8)); }; \
  });
CHASE("2d", float, k2d, 0, false, 0.f) CHASE("linear", float, k2d, 0, true, .25f) CHASE("linear_4x4", float4, k2d, 0, true, .25f) CHASE("3d_linear", float, k3d, 4, true, .25f) CHASE("gather", float, kGather, 0, false, .5f)
template <bool kSurfaces>
__global__ void chase_words(float* out, Objects o, int mask, int stride, int turns) {
  int x = 0;
  for (int i = 0; i < turns; i++) {
    if (kSurfaces) x = (x + stride + __float_as_int(surf2Dread<float>(o.surface, x, 1))) & mask;
    else x = (x + stride + __float_as_int(tex1Dfetch<float>(o.texture, x))) & mask;
  }
  if (x == -1) out[0] = 1;
}
TRUTH("texture", "texel_chase_1d", {4096, 1 << 20, 1 << 28}, [](long n) {  // bytes
  auto out = zeros<float>(1);
  auto t = texels<float>(In::line, n / 4, 1, 0, false);
  return [=] { chase_words<false><<<1, 32>>>(out, {t->texture, 0}, int(n / 4 - 1), n == 1 << 28 ? 65537 : 33, 2048); };
});
TRUTH("texture", "surface_chase", {2048}, [](long n) {
  auto out = zeros<float>(1);
  auto t = texels<float>(In::array, 64, 64, 0, false);
  return [=] { chase_words<true><<<1, 32>>>(out, {t->texture, t->surface}, 255, 16, int(n)); };
});

/// One texel a thread of blocks of kX x kY (columns: x and y change places), at `apart` texels from each other.
template <class T, How how, int kX, int kY, bool kColumns>
__global__ void stream(float* out, Objects o, float off, int across, int down, int deep) {
  const int i = blockIdx.x * kX + threadIdx.x, j = blockIdx.y * kY + threadIdx.y;
  const int x = (kColumns ? j : i) * across, y = (kColumns ? i : j) * down, z = blockIdx.z * deep;
  float v;
  if constexpr (how == k1d) v = sum(tex1Dfetch<typename Fetched<T>::type>(o.texture, y * (gridDim.x * kX) + x));
  else if constexpr (how == kSurface) v = sum(surf2Dread<T>(o.surface, x * int(sizeof(T)), y));
  else v = fetch<T, how>(o, x + .5f + off, y + .5f + off, z + .5f + off);
  if (v != 0) out[0] = v;
}
template <class T, How how, int kX, int kY, bool kColumns>
Launch stream_case(In in, long side, bool linear, int across = 1, int down = 1, int deep = 1) {
  auto out = zeros<float>(1);
  const long depth = how == k3d ? side : 0, n = in == In::line ? side * side : side;
  auto t = texels<T>(in, n, in == In::line ? 1 : side, depth, linear);
  const dim3 grid(unsigned(side / across / kX), unsigned(side / down / kY), unsigned(depth ? depth / deep : 1));
  return [=] { stream<T, how, kX, kY, kColumns><<<grid, dim3(kX, kY)>>>(out, {t->texture, t->surface}, linear ? .25f : 0.f, across, down, deep); };
}
#define STREAM(name, type, how, x, y, columns, in, linear, ...) \
  TRUTH("texture", "texel_stream_" name, {__VA_ARGS__}, [](long n) { return stream_case<type, how, x, y, columns>(In::in, n, linear); });
STREAM("1d_4", float, k1d, 256, 1, false, line, false, 1024, 4096) STREAM("1d_4x4", float4, k1d, 256, 1, false, line, false, 512, 2048) STREAM("1d_1", uint8_t, k1d, 256, 1, false, line, false, 2048, 8192)
STREAM("2d_4", float, k2d, 32, 8, false, array, false, 1024, 4096) STREAM("2d_4_16x16", float, k2d, 16, 16, false, array, false, 1024, 4096) STREAM("2d_4_8x32", float, k2d, 8, 32, false, array, false, 1024, 4096)
STREAM("2d_4_columns", float, k2d, 32, 8, true, array, false, 1024, 4096) STREAM("2d_1", uint8_t, k2d, 32, 8, false, array, false, 2048, 8192) STREAM("2d_1x4", uchar4, k2d, 32, 8, false, array, false, 4096)
STREAM("2d_4x4", float4, k2d, 32, 8, false, array, false, 512, 2048) STREAM("2d_4x4_16x16", float4, k2d, 16, 16, false, array, false, 2048) STREAM("linear_4", float, k2d, 32, 8, false, array, true, 1024, 4096)
STREAM("linear_4_16x16", float, k2d, 16, 16, false, array, true, 4096) STREAM("rows_4", float, k2d, 32, 8, false, rows, false, 1024, 4096) STREAM("rows_4_16x16", float, k2d, 16, 16, false, rows, false, 1024, 4096)
STREAM("rows_4_columns", float, k2d, 32, 8, true, rows, false, 1024) STREAM("3d_4", float, k3d, 32, 8, false, array, false, 64, 256) STREAM("3d_linear_4", float, k3d, 32, 8, false, array, true, 64, 256)
STREAM("3d_4_16x16", float, k3d, 16, 16, false, array, false, 256) STREAM("surface_4", float, kSurface, 32, 8, false, array, false, 1024, 4096) STREAM("surface_4_16x16", float, kSurface, 16, 16, false, array, false, 4096)
#define APART(name, type, how, side, linear, across, down, deep, ...) \
  TRUTH("texture", "texel_apart_" name, {__VA_ARGS__}, [](long n) { return stream_case<type, how, 16, 16, false>(In::array, side, linear, across, down, deep); });
APART("x", float, k2d, 2048, false, int(n), 1, 1, 2, 4, 8, 16) APART("y", float, k2d, 2048, false, 1, int(n), 1, 2, 4, 8, 16) APART("xy", float, k2d, 2048, false, int(n), int(n), 1, 4, 8) APART("z", float, k3d, 256, false, 1, 1, int(n), 2)
APART("x_1", uint8_t, k2d, 4096, false, int(n), 1, 1, 8, 16, 32) APART("y_1", uint8_t, k2d, 4096, false, 1, int(n), 1, 2, 4) APART("x_4x4", float4, k2d, 1024, false, int(n), 1, 1, 2) APART("y_4x4", float4, k2d, 1024, false, 1, int(n), 1, 2, 4)
APART("linear_x", float, k2d, 2048, true, int(n), 1, 1, 8) APART("linear_y", float, k2d, 2048, true, 1, int(n), 1, 8)

/// Eight texels a thread, of rows eight apart.
__global__ void stream8(float* out, Objects o) {
  const float x = blockIdx.x * 32 + threadIdx.x + .5f, y = blockIdx.y * 64 + threadIdx.y + .5f;
  float v = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) v += tex2D<float>(o.texture, x, y + 8 * k);
  if (v != 0) out[0] = v;
}
#define STREAM8(name, in) \
  TRUTH("texture", "texel_stream8_" name, {1024, 4096}, [](long n) { \
    auto out = zeros<float>(1); \
    auto t = texels<float>(In::in, n, n, 0, false); \
    return [=] { stream8<<<dim3(unsigned(n / 32), unsigned(n / 64)), dim3(32, 8)>>>(out, {t->texture, 0}); }; \
  });
STREAM8("2d", array) STREAM8("rows", rows)

/// Nine neighbours of each texel along x or y, summed up into linear memory.
template <bool kAlongX>
__global__ void taps(float* out, Objects o, int width) {
  const int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  float v = 0;
#pragma unroll
  for (int k = -4; k <= 4; k++) v += tex2D<float>(o.texture, i + .5f + (kAlongX ? k : 0), j + .5f + (kAlongX ? 0 : k));
  out[j * width + i] = v;
}
#define TAPS(name, x, in) \
  TRUTH("texture", "texel_taps_" name, {1024, 4096}, [](long n) { \
    auto out = zeros<float>(n * n); \
    auto t = texels<float>(In::in, n, n, 0, false); \
    return [=] { taps<x><<<dim3(unsigned(n / 32), unsigned(n / 8)), dim3(32, 8)>>>(out, {t->texture, 0}, int(n)); }; \
  });
TAPS("x", true, array) TAPS("y", false, array) TAPS("rows_x", true, rows)

/// A surface written, and one copied to another.
template <class T, int kX, int kY, bool kCopies>
__global__ void write_surface(Objects o, cudaSurfaceObject_t from) {
  const int x = (blockIdx.x * kX + threadIdx.x) * int(sizeof(T)), y = blockIdx.y * kY + threadIdx.y;
  surf2Dwrite(kCopies ? surf2Dread<T>(from, x, y) : T{}, o.surface, x, y);
}
#define WRITE(name, type, x, y, copies, ...) \
  TRUTH("texture", "surface_" name, {__VA_ARGS__}, [](long n) { \
    auto t = texels<type>(In::array, n, n, 0, false), from = texels<type>(In::array, copies ? n : 32, copies ? n : 32, 0, false); \
    return [=] { write_surface<type, x, y, copies><<<dim3(unsigned(n / x), unsigned(n / y)), dim3(x, y)>>>({t->texture, t->surface}, from->surface); }; \
  });
WRITE("write_4", float, 32, 8, false, 1024, 4096) WRITE("write_4_16x16", float, 16, 16, false, 4096) WRITE("write_4_8x32", float, 8, 32, false, 4096) WRITE("write_4x4", float4, 32, 8, false, 2048) WRITE("copy_4", float, 32, 8, true, 1024, 4096)
}  // namespace
