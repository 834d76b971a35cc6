// A sparse matrix (CSR, by blocks of 1, 2 or 4 rows) times dense activations in CHW: the 1 x 1 convolution of pruned networks.
//
// A block takes 128 bytes of pixels of an image, which it copies to shared memory for all channels, and walks rows of the matrix: eight lanes share a block row
// and 16 bytes of pixels each, so that an entry costs its index, its values, one read of 16 bytes and the multiply-adds; a block of rows shares the read
// and the widening. A row of zeros follows the channels: columns that are none read it. Where the channels do not fit, pixels come straight from memory (L1, L2).
// Sums are f32, in the order of entries, then the bias, then ReLU.
//
// Not here: tensor cores (gemm_sparse has those, for two of four), rows dealt by their lengths: of pruned networks they are alike.
// Source: Fast Sparse ConvNets (arXiv 1911.09723), for CPUs: pixels innermost, blocks of output channels.
#include <algorithm>

#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kGroups = kThreads / 8, kLine = 128, kMostShared = 227 * 1024;

struct Params {
  const int32_t *starts, *columns;
  const void *values, *x;
  void* out;
  const float* bias;
  int64_t pixels;
  int n, k, entries, rows, strips;  // rows: of blocks
  bool relu, wide;                  // wide: pixels can be read and written 16 bytes at a time
};

template <class T, int kBlock>
struct alignas(kBlock * sizeof(T)) Values {
  T v[kBlock];
};

/// Pixels from `at` on of a row, zeros beyond its end.
template <class T>
__device__ __forceinline__ Pack<T> load_pixels(const T* row, int64_t at, const Params& p) {
  if (p.wide && at + Pack<T>::kCount <= p.pixels) return load_whole(row + at);
  Pack<T> v;
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; i++) v.v[i] = at + i < p.pixels ? row[at + i] : from_float<T>(0.f);
  return v;
}

template <class T, int kBlock, bool kStaged>
__global__ void __launch_bounds__(kThreads) sparse_rows(const Params p) {
  constexpr int kCount = Pack<T>::kCount;
  extern __shared__ uint4 staged[];  // [k + 1][8]
  begin_overlapped();
  const int lane = threadIdx.x % 8, group = threadIdx.x / 8;
  const int64_t image = blockIdx.x / p.strips, at = (int64_t(blockIdx.x % p.strips) * 8 + lane) * kCount;
  const T* const x = static_cast<const T*>(p.x) + image * p.k * p.pixels;
  T* const out = static_cast<T*>(p.out) + image * p.n * p.pixels;
  if constexpr (kStaged) {
    const bool copies = p.wide && at + kCount <= p.pixels;
    for (int c = group; c < p.k; c += kGroups) {
      if (copies) {
        ptx::copy_async(ptx::smem_address(staged + c * 8 + lane), x + c * p.pixels + at);
      } else {
        const Pack<T> v = load_pixels(x + c * p.pixels, at, p);
        staged[c * 8 + lane] = reinterpret_cast<const uint4&>(v);
      }
    }
    if (group == 0) staged[p.k * 8 + lane] = uint4{};
    ptx::copy_async_wait_all();
    __syncthreads();
  }
  for (int r = blockIdx.y * kGroups + group; r < p.rows; r += gridDim.y * kGroups) {
    const int first = max(__ldg(p.starts + r), 0), last = min(__ldg(p.starts + r + 1), p.entries);
    float acc[kBlock][kCount] = {};
#pragma unroll 4
    for (int e = first; e < last; e++) {
      const uint32_t c = min(uint32_t(__ldg(p.columns + e)), uint32_t(p.k));
      const Values<T, kBlock> w = static_cast<const Values<T, kBlock>*>(p.values)[e];
      Pack<T> v{};
      if constexpr (kStaged) reinterpret_cast<uint4&>(v) = staged[c * 8 + lane];
      else if (c < uint32_t(p.k)) v = load_pixels(x + c * p.pixels, at, p);
#pragma unroll
      for (int i = 0; i < kCount; i++)
#pragma unroll
        for (int b = 0; b < kBlock; b++) acc[b][i] = fmaf(to_float(w.v[b]), to_float(v.v[i]), acc[b][i]);
    }
#pragma unroll
    for (int b = 0; b < kBlock; b++) {
      const int row = r * kBlock + b;
      const float bias = p.bias ? __ldg(p.bias + row) : 0.f;
      Pack<T> v;
#pragma unroll
      for (int i = 0; i < kCount; i++) {
        const float sum = acc[b][i] + bias;
        v.v[i] = from_float<T>(p.relu && sum < 0 ? 0.f : sum);
      }
      T* const to = out + row * p.pixels + at;
      if (p.wide && at + kCount <= p.pixels) {
        store_whole(to, v);
        continue;
      }
#pragma unroll
      for (int i = 0; i < kCount; i++)
        if (at + i < p.pixels) to[i] = v.v[i];
    }
  }
}

template <class T, int kBlock>
Status launch(const SpmmArgs& g, Params& p, cudaStream_t stream) {
  const int64_t strips = (g.pixels + kLine / int64_t(sizeof(T)) - 1) / (kLine / int64_t(sizeof(T)));
  if (product(strips, g.images) > 0x7fffffff) return bad("pixels", "times images is too large");
  p.strips = int(strips);
  const int64_t shared = (g.k + 1) * kLine, blocks = strips * g.images;
  const bool staged = shared <= kMostShared;
  const auto kernel = staged ? sparse_rows<T, kBlock, true> : sparse_rows<T, kBlock, false>;
  if (staged)
    if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared)) return launched(e);
  // Rows are dealt to several blocks, each of which copies the pixels, only as far as SMs would have nothing to do otherwise.
  const int64_t turns = (p.rows + kGroups - 1) / kGroups, parts = std::min(turns, (2 * sm_count() + blocks - 1) / blocks);
  return launched(launch_grid_overlapped(kernel, dim3(unsigned(blocks), unsigned(std::min<int64_t>(parts, 65535))), kThreads, staged ? size_t(shared) : 0, stream, p));
}

}  // namespace

Status spmm(const SpmmArgs& g, cudaStream_t stream) {
  constexpr int64_t kMost = int64_t(1) << 31;
  if (g.images < 0 || g.images >= kMost) return bad("images", "must be in [0, 2^31)");
  if (g.block != 1 && g.block != 2 && g.block != 4) return bad("block", "must be 1, 2 or 4");
  if (g.n < 0 || g.n >= kMost - 4 || g.n % g.block) return bad("n", "must be a multiple of block in [0, 2^31 - 4)");
  if (g.k < 1 || g.k >= kMost - 1) return bad("k", "must be in [1, 2^31 - 1)");
  if (g.pixels < 0 || g.pixels >= kMost) return bad("pixels", "must be in [0, 2^31)");
  if (g.entries < 0 || g.entries >= kMost) return bad("entries", "must be in [0, 2^31)");
  if (g.dtype != DType::kF16 && g.dtype != DType::kBF16 && g.dtype != DType::kF32) return bad("dtype", "must be f16, bf16 or f32");
  const int size = size_of(g.dtype);
  const int64_t in_bytes = product(product(product(g.images, g.k), g.pixels), size), out_bytes = product(product(product(g.images, g.n), g.pixels), size);
  if (in_bytes > kMostBytes) return bad("k", "times images and pixels is too large");
  if (out_bytes > kMostBytes) return bad("n", "times images and pixels is too large");
  if (g.images == 0 || g.n == 0 || g.pixels == 0) return {};
  if (!g.row_starts || !aligned(g.row_starts, 4)) return bad("row_starts", "is null or not 4-byte aligned");
  if (g.entries && (!g.columns || !aligned(g.columns, 4))) return bad("columns", "is null or not 4-byte aligned");
  if (g.entries && (!g.values || !aligned(g.values, size * g.block))) return bad("values", "is null or not aligned to a block");
  if (!g.x || !aligned(g.x, size)) return bad("x", "is null or misaligned");
  if (!g.out || !aligned(g.out, size)) return bad("out", "is null or misaligned");
  if (!aligned(g.bias, 4)) return bad("bias", "is not 4-byte aligned");
  if (Status s = apart(dense("out", g.out, out_bytes), {dense("row_starts", g.row_starts, (g.n / g.block + 1) * 4), dense("columns", g.columns, g.entries * 4),
                                                        dense("values", g.values, g.entries * g.block * size), dense("x", g.x, in_bytes), dense("bias", g.bias, g.n * 4)});
      !s.ok())
    return s;
  Params p{g.row_starts, g.columns, g.values, g.x, g.out, g.bias, g.pixels, int(g.n), int(g.k), int(g.entries), int(g.n / g.block), 0, g.relu};
  p.wide = aligned(g.x, 16) && aligned(g.out, 16) && g.pixels * size % 16 == 0;
  Status status;
  with_element(g.dtype, [&](auto element) {
    using T = decltype(element);
    status = g.block == 1 ? launch<T, 1>(g, p, stream) : g.block == 2 ? launch<T, 2>(g, p, stream) : launch<T, 4>(g, p, stream);
  });
  return status;
}

}  // namespace orrery::kernels
