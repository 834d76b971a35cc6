// A 3 x 3 convolution in groups of 1 to 64 channels, NHWC, by the tensor core whatever the group.
//
// A block takes 64 channels and walks tiles of 16 x 8 outputs (of stride 2: 16 x 4). It copies the inputs of a tile, with their border, to shared memory, 128 bytes
// and 16 of padding a pixel, so that ldmatrix meets no bank twice and a tap is a constant away; the next ones are under way meanwhile. A warp has
// 16 of the channels and half of the tile's lines:
//
//   out[16 pixels][16 channels] += in[16 pixels][16 kSteps channels] w[16 kSteps channels][16 channels], for each of nine taps
//
// kSteps: 1 up to groups of 16, 2 of 32, 4 of 64. Invariant: weights stay in registers from the first tile on, zeros where input and output are of different groups.
// Groups below 16 multiply these zeros too: memory takes longer all the same (NOTES.md). The 16 columns are dealt to channels so that the four
// values that a lane gets for a pixel are neighbours.
//
// Not here: other sizes, dilation, groups of more channels (those are gemm's), channels that gain or lose in number.
// Source: E2GC (arXiv 2006.15100): the size of groups, not their number, as what is held constant.
#include <algorithm>

#include "arguments.h"
#include "fast_divide.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kChannels = 64, kPitch = kChannels * 2 + 16, kWide = 16;

template <int kStride>
struct Tile {
  static constexpr int kBuffers = 4 - kStride, kHigh = 8 / kStride, kInHigh = (kHigh - 1) * kStride + 3, kInWide = (kWide - 1) * kStride + 3, kBytes = kInHigh * kInWide * kPitch;
};

struct Params {
  const void *x, *w;
  void* out;
  const float* bias;
  int64_t pitch, out_pitch, four;  // elements of a line of inputs, of outputs, of four pixels
  int height, width, channels, out_height, out_width, across, down, tiles, group;
  bool relu;
  FastDivide by_across, by_down;
};

/// 16 bytes to shared memory, zeros where there is nothing to read.
__device__ __forceinline__ void copy_or_zero(uint32_t dst, const void* src, bool is) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(is ? 16 : 0) : "memory");
}

template <class T>
__device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (std::is_same_v<T, __half>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Where a tile of outputs is: the image, and its first line and column.
struct Place {
  int image, y, x;
  __device__ __forceinline__ Place(const Params& p, int tile, int high) {
    const int line = p.by_across.divide(tile);
    image = p.by_down.divide(line), y = (line - image * p.down) * high, x = (tile - line * p.across) * kWide;
  }
};

/// A warp copies lines, four pixels at a time.
template <class T, int kStride>
__device__ __forceinline__ void copy_tile(uint32_t to, const Params& p, int tile, int channel0) {
  using S = Tile<kStride>;
  const Place at(p, tile, S::kHigh);
  const int warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0), pixel = threadIdx.x % 32 / 8, chunk = threadIdx.x % 8;
  const int y0 = at.y * kStride - 1, x0 = at.x * kStride - 1 + pixel;
  const bool exists = channel0 + chunk * 8 < p.channels;
  const T* line = static_cast<const T*>(p.x) + (at.image * int64_t(p.height) + y0 + warp) * p.pitch + (int64_t(x0) * p.channels + channel0 + chunk * 8);
  uint32_t dst = to + (warp * S::kInWide + pixel) * kPitch + chunk * 16;
#pragma unroll 1
  for (int y = warp; y < S::kInHigh; y += kThreads / 32, line += kThreads / 32 * p.pitch, dst += kThreads / 32 * S::kInWide * kPitch) {
    const bool inside = exists && uint32_t(y0 + y) < uint32_t(p.height);
    const T* from = line;
#pragma unroll
    for (int x = 0; x < S::kInWide; x += 4, from += p.four)
      if (x + 4 <= S::kInWide || x + pixel < S::kInWide) {
        const bool is = inside && uint32_t(x0 + x) < uint32_t(p.width);
        copy_or_zero(dst + x * kPitch, is ? from : p.x, is);
      }
  }
}

/// Blocks that share an SM: what registers and shared memory allow.
template <int kSteps>
constexpr int kBlocks = kSteps == 4 ? 1 : 2;

template <class T, int kSteps, int kStride>
__global__ void __launch_bounds__(kThreads, kBlocks<kSteps>) convolve(const Params p) {
  using S = Tile<kStride>;
  extern __shared__ uint4 raw[];
  begin_overlapped();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp / 4;
  const int channel0 = blockIdx.x * kChannels, mine = channel0 + warp % 4 * 16, from = mine - mine % (16 * kSteps);
  const uint32_t buffers = ptx::smem_address(raw);
  const auto fetch = [&](int tile, int buffer) {
    if (tile < p.tiles) copy_tile<T, kStride>(buffers + buffer * S::kBytes, p, tile, channel0);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
#pragma unroll
  for (int i = 0; i + 1 < S::kBuffers; i++) fetch(blockIdx.y + i * gridDim.y, i);

  uint32_t w[9][kSteps][2][2];
  // Weights from inputs `in` and in + 1, which are of one group unless each channel is a group of its own. Groups are powers of two.
  const auto weights = [&](int to, int tap, int in) -> uint32_t {
    const int64_t at = (int64_t(to) * 9 + tap) * p.group;
    if (to >= p.channels || ((to ^ in) & -max(p.group, 2))) return 0;
    if (p.group == 1) return uint32_t(__ldg(static_cast<const uint16_t*>(p.w) + at)) << (to - in) * 16;
    return __ldg(static_cast<const uint32_t*>(p.w) + (at + (in & (p.group - 1))) / 2);
  };
#pragma unroll
  for (int tap = 0; tap < 9; tap++)
#pragma unroll
    for (int i = 0; i < 4 * kSteps; i++) {
      const int to = mine + lane / 8 * 4 + i / 2 % 2 * 2 + lane / 4 % 2, in = from + i / 4 * 16 + i % 2 * 8 + 2 * (lane % 4);
      w[tap][i / 4][i / 2 % 2][i % 2] = weights(to, tap, in);
    }
  const int store = mine + lane % 4 * 4;  // the first of four channels
  float bias[4] = {};
  if (p.bias && store < p.channels)
#pragma unroll
    for (int i = 0; i < 4; i++) bias[i] = __ldg(p.bias + store + i);

  for (int tile = blockIdx.y, turn = 0; tile < p.tiles; tile += gridDim.y, turn = turn + 1 < S::kBuffers ? turn + 1 : 0) {
    asm volatile("cp.async.wait_group %0;" ::"n"(S::kBuffers - 2) : "memory");
    __syncthreads();  // this tile is there, and of the one before nobody reads any more
    fetch(tile + (S::kBuffers - 1) * int(gridDim.y), turn > 0 ? turn - 1 : S::kBuffers - 1);
    const Place at(p, tile, S::kHigh);
    const uint32_t pixels = buffers + turn * S::kBytes + lane % 16 * kStride * kPitch + (from - channel0 + lane / 16 * 8) * 2;
    T* const to = static_cast<T*>(p.out) + (int64_t(at.image) * p.out_height + at.y) * p.out_pitch + int64_t(at.x + lane / 4) * p.channels + store;
#pragma unroll 1
    for (int line = half; line < S::kHigh; line += 4) {  // this and the one after the next: a product waits for the one before it
      float sum[2][2][4] = {};
#pragma unroll
      for (int tap = 0; tap < 9; tap++)
#pragma unroll
        for (int step = 0; step < kSteps; step++)
#pragma unroll
          for (int l = 0; l < 2; l++) {
            uint32_t a[4];
            ptx::ldmatrix_x4(a, pixels + (((line + 2 * l) * kStride + tap / 3) * S::kInWide + tap % 3) * kPitch + step * 32);
            multiply<T>(sum[l][0], a, w[tap][step][0]);
            multiply<T>(sum[l][1], a, w[tap][step][1]);
          }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int l = i / 2, h = i % 2, y = at.y + line + 2 * l, x = at.x + lane / 4 + 8 * h;
        const float v[4] = {sum[l][0][2 * h] + bias[0], sum[l][0][2 * h + 1] + bias[1], sum[l][1][2 * h] + bias[2], sum[l][1][2 * h + 1] + bias[3]};
        alignas(8) T out[4];
#pragma unroll
        for (int j = 0; j < 4; j++) out[j] = from_float<T>(p.relu && v[j] < 0 ? 0.f : v[j]);
        if (y < p.out_height && x < p.out_width && store < p.channels)
          *reinterpret_cast<uint2*>(to + (line + 2 * l) * p.out_pitch + 2 * h * p.four) = *reinterpret_cast<const uint2*>(out);
      }
    }
  }
}

template <class T, int kSteps, int kStride>
Status launch(Params& p, int64_t images, cudaStream_t stream) {
  using S = Tile<kStride>;
  const auto kernel = convolve<T, kSteps, kStride>;
  constexpr int kShared = S::kBuffers * S::kBytes;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared)) return launched(e);
  p.across = (p.out_width + kWide - 1) / kWide, p.down = (p.out_height + S::kHigh - 1) / S::kHigh;
  const int64_t tiles = product(images, int64_t(p.across) * p.down);
  if (tiles >= 1 << 29) return bad("images", "times their tiles is too large");
  p.tiles = int(tiles), p.by_across = FastDivide(p.across), p.by_down = FastDivide(p.down);
  const int64_t slabs = (p.channels + kChannels - 1) / kChannels, fill = (sm_count() * kBlocks<kSteps> + slabs - 1) / slabs;
  return launched(launch_grid_overlapped(kernel, dim3(unsigned(slabs), unsigned(std::min({tiles, fill, int64_t(65535)}))), kThreads, kShared, stream, p));
}

template <class T, int kStride>
Status launch_steps(Params& p, int64_t images, cudaStream_t stream) {
  return p.group <= 16 ? launch<T, 1, kStride>(p, images, stream) : p.group == 32 ? launch<T, 2, kStride>(p, images, stream) : launch<T, 4, kStride>(p, images, stream);
}

}  // namespace

Status conv_grouped(const GroupedConvArgs& g, cudaStream_t stream) {
  constexpr int64_t kMost = int64_t(1) << 31;
  if (g.images < 0 || g.images >= kMost) return bad("images", "must be in [0, 2^31)");
  if (g.height < 0 || g.height >= 1 << 16) return bad("height", "must be in [0, 2^16)");
  if (g.width < 0 || g.width >= 1 << 16) return bad("width", "must be in [0, 2^16)");
  if (g.group < 1 || g.group > 64 || (g.group & (g.group - 1))) return bad("group", "must be a power of two up to 64");
  if (g.channels < 0 || g.channels >= 1 << 24 || g.channels % 8 || g.channels % g.group) return bad("channels", "must be a multiple of 8 and of group in [0, 2^24)");
  if (g.stride != 1 && g.stride != 2) return bad("stride", "must be 1 or 2");
  if (g.dtype != DType::kF16 && g.dtype != DType::kBF16) return bad("dtype", "must be f16 or bf16");
  const int64_t bytes = product(product(g.images, g.height * g.width), g.channels * 2);
  if (bytes > kMostBytes) return bad("images", "times height, width and channels is too large");
  if (bytes == 0) return {};
  if (!g.x || !aligned(g.x, 16)) return bad("x", "is null or not 16-byte aligned");
  if (!g.w || !aligned(g.w, 4)) return bad("w", "is null or not 4-byte aligned");
  if (!g.out || !aligned(g.out, 16)) return bad("out", "is null or not 16-byte aligned");
  if (!aligned(g.bias, 4)) return bad("bias", "is not 4-byte aligned");
  const int64_t high = (g.height + g.stride - 1) / g.stride, wide = (g.width + g.stride - 1) / g.stride;
  if (Status s = apart(dense("out", g.out, g.images * high * wide * g.channels * 2), {dense("x", g.x, bytes), dense("w", g.w, g.channels * 9 * g.group * 2), dense("bias", g.bias, g.channels * 4)}); !s.ok())
    return s;
  Params p{g.x, g.w, g.out, g.bias, g.width * g.channels, wide * g.channels, 4 * g.channels, int(g.height), int(g.width), int(g.channels), int(high), int(wide), 0, 0, 0, g.group, g.relu, {}, {}};
  const auto go = [&](auto element) {
    using T = decltype(element);
    return g.stride == 1 ? launch_steps<T, 1>(p, g.images, stream) : launch_steps<T, 2>(p, g.images, stream);
  };
  return g.dtype == DType::kF16 ? go(__half{}) : go(__nv_bfloat16{});
}

}  // namespace orrery::kernels
