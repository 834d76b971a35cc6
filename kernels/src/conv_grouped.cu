// A 3 x 3 convolution in groups of 1 to 64 channels, NHWC, by the tensor core whatever the group.
//
// A block takes 64 channels and walks tiles of 16 x 8 outputs (of stride 2: 16 x 4). It copies the inputs of a tile, with their border, to shared memory, 128 bytes
// and 16 of padding a pixel, so that ldmatrix meets no bank twice and a tap is a constant away; the next tile's are under way meanwhile. A warp has
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
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kChannels = 64, kPitch = kChannels * 2 + 16, kWide = 16;

template <int kStride>
struct Tile {
  static constexpr int kHigh = 8 / kStride, kInHigh = (kHigh - 1) * kStride + 3, kInWide = (kWide - 1) * kStride + 3, kBytes = kInHigh * kInWide * kPitch;
};

struct Params {
  const void *x, *w;
  void* out;
  const float* bias;
  int64_t tiles;
  int height, width, channels, out_height, out_width, across, down, group;
  bool relu;
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
  int64_t image;
  int y, x;
  __device__ __forceinline__ Place(const Params& p, int64_t tile, int high) : image(tile / (p.across * p.down)) {
    const int in = int(tile - image * (p.across * p.down));
    y = in / p.across * high, x = in % p.across * kWide;
  }
};

template <class T, int kStride>
__device__ __forceinline__ void copy_tile(uint32_t to, const Params& p, int64_t tile, int channel0) {
  using S = Tile<kStride>;
  const Place at(p, tile, S::kHigh);
  const int y0 = at.y * kStride - 1, x0 = at.x * kStride - 1;
  const T* const image = static_cast<const T*>(p.x) + at.image * p.height * p.width * p.channels + channel0;
  const int chunk = threadIdx.x % 8;
#pragma unroll 2
  for (int i = threadIdx.x / 8; i < S::kInHigh * S::kInWide; i += kThreads / 8) {
    const int y = y0 + i / S::kInWide, x = x0 + i % S::kInWide;
    const bool is = uint32_t(y) < uint32_t(p.height) && uint32_t(x) < uint32_t(p.width) && channel0 + chunk * 8 < p.channels;
    copy_or_zero(to + i * kPitch + chunk * 16, is ? image + (int64_t(y) * p.width + x) * p.channels + chunk * 8 : p.x, is);
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <class T, int kSteps, int kStride>
__global__ void __launch_bounds__(kThreads, kSteps == 1 ? 2 : 1) convolve(const Params p) {
  using S = Tile<kStride>;
  extern __shared__ uint4 raw[];
  begin_overlapped();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, half = warp / 4;
  const int channel0 = blockIdx.x * kChannels, mine = channel0 + warp % 4 * 16, from = mine - mine % (16 * kSteps);
  const uint32_t buffers = ptx::smem_address(raw);
  copy_tile<T, kStride>(buffers, p, blockIdx.y, channel0);

  uint32_t w[9][kSteps][2][2];
  const auto weight = [&](int to, int tap, int in) -> uint32_t {
    const int first = to / p.group * p.group;
    const bool is = to < p.channels && uint32_t(in - first) < uint32_t(p.group);
    return is ? static_cast<const uint16_t*>(p.w)[(int64_t(to) * 9 + tap) * p.group + in - first] : 0;
  };
#pragma unroll
  for (int tap = 0; tap < 9; tap++)
#pragma unroll
    for (int i = 0; i < 4 * kSteps; i++) {
      const int to = mine + lane / 8 * 4 + i / 2 % 2 * 2 + lane / 4 % 2, in = from + i / 4 * 16 + i % 2 * 8 + 2 * (lane % 4);
      w[tap][i / 4][i / 2 % 2][i % 2] = weight(to, tap, in) | weight(to, tap, in + 1) << 16;
    }
  const int store = mine + lane % 4 * 4;  // the first of four channels
  float bias[4] = {};
  if (p.bias && store < p.channels)
#pragma unroll
    for (int i = 0; i < 4; i++) bias[i] = __ldg(p.bias + store + i);

  int turn = 0;
  for (int64_t tile = blockIdx.y; tile < p.tiles; tile += gridDim.y, turn ^= 1) {
    const bool more = tile + gridDim.y < p.tiles;
    if (more) {
      copy_tile<T, kStride>(buffers + (turn ^ 1) * S::kBytes, p, tile + gridDim.y, channel0);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    const Place at(p, tile, S::kHigh);
    const uint32_t pixels = buffers + turn * S::kBytes + lane % 16 * kStride * kPitch + (from - channel0 + lane / 16 * 8) * 2;
#pragma unroll 1
    for (int line = half; line < S::kHigh; line += 2) {
      if (at.y + line >= p.out_height) break;
      float sum[2][4] = {};
#pragma unroll
      for (int tap = 0; tap < 9; tap++)
#pragma unroll
        for (int step = 0; step < kSteps; step++) {
          uint32_t a[4];
          ptx::ldmatrix_x4(a, pixels + ((line * kStride + tap / 3) * S::kInWide + tap % 3) * kPitch + step * 32);
          multiply<T>(sum[0], a, w[tap][step][0]);
          multiply<T>(sum[1], a, w[tap][step][1]);
        }
      T* const to = static_cast<T*>(p.out) + ((at.image * p.out_height + at.y + line) * p.out_width + at.x) * p.channels + store;
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int x = lane / 4 + 8 * h;
        float v[4] = {sum[0][2 * h] + bias[0], sum[0][2 * h + 1] + bias[1], sum[1][2 * h] + bias[2], sum[1][2 * h + 1] + bias[3]};
        alignas(8) T out[4];
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = from_float<T>(p.relu && v[i] < 0 ? 0.f : v[i]);
        if (at.x + x < p.out_width && store < p.channels) *reinterpret_cast<uint2*>(to + int64_t(x) * p.channels) = *reinterpret_cast<const uint2*>(out);
      }
    }
    __syncthreads();
  }
}

template <class T, int kSteps, int kStride>
cudaError_t launch(Params& p, int64_t images, cudaStream_t stream) {
  using S = Tile<kStride>;
  const auto kernel = convolve<T, kSteps, kStride>;
  constexpr int kShared = 2 * S::kBytes;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared)) return e;
  p.across = (p.out_width + kWide - 1) / kWide, p.down = (p.out_height + S::kHigh - 1) / S::kHigh, p.tiles = images * p.across * p.down;
  const int64_t slabs = (p.channels + kChannels - 1) / kChannels, fill = (sm_count() * (kSteps == 1 ? 2 : 1) + slabs - 1) / slabs;
  return launch_grid_overlapped(kernel, dim3(unsigned(slabs), unsigned(std::min({p.tiles, fill, int64_t(65535)}))), kThreads, kShared, stream, p);
}

template <class T, int kStride>
cudaError_t launch_steps(Params& p, int64_t images, cudaStream_t stream) {
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
  if (!g.w || !aligned(g.w, 2)) return bad("w", "is null or misaligned");
  if (!g.out || !aligned(g.out, 16)) return bad("out", "is null or not 16-byte aligned");
  if (!aligned(g.bias, 4)) return bad("bias", "is not 4-byte aligned");
  const int64_t high = (g.height + g.stride - 1) / g.stride, wide = (g.width + g.stride - 1) / g.stride;
  if (Status s = apart(dense("out", g.out, g.images * high * wide * g.channels * 2), {dense("x", g.x, bytes), dense("w", g.w, g.channels * 9 * g.group * 2), dense("bias", g.bias, g.channels * 4)}); !s.ok())
    return s;
  Params p{g.x, g.w, g.out, g.bias, 0, int(g.height), int(g.width), int(g.channels), int(high), int(wide), 0, 0, g.group, g.relu};
  const auto go = [&](auto element) {
    using T = decltype(element);
    return g.stride == 1 ? launch_steps<T, 1>(p, g.images, stream) : launch_steps<T, 2>(p, g.images, stream);
  };
  return launched(g.dtype == DType::kF16 ? go(__half{}) : go(__nv_bfloat16{}));
}

}  // namespace orrery::kernels
