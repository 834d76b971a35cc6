// STREAM: copy, scale, add, triad. One 16-byte vector per thread, small blocks, no cache hints: of some thirty
// variants (vectors per thread, block sizes, hints, persistent grids) this one was fastest on an H200 (NOTES.md).
// Arrays that are not 16-byte aligned, and the last elements, go one float at a time.
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlockElements = kThreads * 4;

struct Copy {
  static constexpr bool kTwo = false;
  __device__ float operator()(float x, float) const { return x; }
};
struct Scale {
  static constexpr bool kTwo = false;
  float s;
  __device__ float operator()(float x, float) const { return s * x; }
};
struct Add {
  static constexpr bool kTwo = true;
  __device__ float operator()(float x, float y) const { return x + y; }
};
struct Triad {
  static constexpr bool kTwo = true;
  float s;
  __device__ float operator()(float x, float y) const { return x + s * y; }
};

template <class Op>
__global__ void __launch_bounds__(kThreads) vectors(float* out, const float* x, const float* y, Op op) {
  const int64_t i = blockIdx.x * kBlockElements + threadIdx.x * 4;
  const float4 a = *reinterpret_cast<const float4*>(x + i);
  float4 b{};
  if constexpr (Op::kTwo) b = *reinterpret_cast<const float4*>(y + i);
  *reinterpret_cast<float4*>(out + i) = make_float4(op(a.x, b.x), op(a.y, b.y), op(a.z, b.z), op(a.w, b.w));
}

template <class Op>
__global__ void scalars(float* out, const float* x, const float* y, int64_t n, Op op) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += stride)
    out[i] = op(x[i], Op::kTwo ? y[i] : 0.f);
}

Status check(const char* out_name, const float* out, const char* x_name, const float* x, const char* y_name,
             const float* y, int64_t n) {
  if (n < 0) return bad("n", "must not be negative");
  if (n > kMostBytes / 4) return bad("n", "is too large");
  if (n == 0) return {};
  const struct { const char* name; const float* p; } all[] = {{out_name, out}, {x_name, x}, {y_name, y}};
  for (const auto& it : all) {
    if (!it.name) continue;
    if (!it.p) return bad(it.name, "is null");
    if (!aligned(it.p, 4)) return bad(it.name, "is not 4-byte aligned");
    if (it.p != out && overlap(it.p, n * 4, out, n * 4)) return bad(it.name, "partly overlaps the output");
  }
  return {};
}

template <class Op>
Status run(float* out, const float* x, const float* y, int64_t n, Op op, cudaStream_t stream) {
  const bool wide = aligned(out, 16) && aligned(x, 16) && (!Op::kTwo || aligned(y, 16));
  const int64_t blocks = wide ? n / kBlockElements : 0, done = blocks * kBlockElements;
  if (blocks > 0x7fffffff) return bad("n", "is too large");
  if (blocks > 0) vectors<<<unsigned(blocks), kThreads, 0, stream>>>(out, x, y, op);
  if (const int64_t left = n - done; left > 0) {
    const int64_t grid = (left + 255) / 256;
    scalars<<<unsigned(grid < 4096 ? grid : 4096), 256, 0, stream>>>(out + done, x + done, y ? y + done : y, left, op);
  }
  return launched(cudaGetLastError());
}

}  // namespace

Status stream_copy(float* c, const float* a, int64_t n, cudaStream_t stream) {
  if (Status s = check("c", c, "a", a, nullptr, nullptr, n); !s.ok() || n == 0) return s;
  return run(c, a, nullptr, n, Copy{}, stream);
}
Status stream_scale(float* b, const float* c, float s, int64_t n, cudaStream_t stream) {
  if (Status st = check("b", b, "c", c, nullptr, nullptr, n); !st.ok() || n == 0) return st;
  return run(b, c, nullptr, n, Scale{s}, stream);
}
Status stream_add(float* c, const float* a, const float* b, int64_t n, cudaStream_t stream) {
  if (Status s = check("c", c, "a", a, "b", b, n); !s.ok() || n == 0) return s;
  return run(c, a, b, n, Add{}, stream);
}
Status stream_triad(float* a, const float* b, const float* c, float s, int64_t n, cudaStream_t stream) {
  if (Status st = check("a", a, "b", b, "c", c, n); !st.ok() || n == 0) return st;
  return run(a, b, c, n, Triad{s}, stream);
}

}  // namespace orrery::kernels
