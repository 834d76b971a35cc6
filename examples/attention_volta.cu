// Attention on a V100: FlashAttention's forward pass by mma.m8n8k4, the tensor core's instruction of sm_70, as FastAttention has it.
//
//   orrery cc -arch=sm_70 -o attention_volta examples/attention_volta.cu && orrery run --gpu v100 -- ./attention_volta [heads] [length] [head dimension] [causal]
//
// A block takes 64 queries of a head, a warp 16 of them; keys and values come through shared memory, 64 at a time, the next ones on their way in registers meanwhile
// (sm_70 copies no other way). An m8n8k4 is four products of 8 x 8 x 4, each by a "quad pair" of a warp (lanes 4 i to 4 i + 3 and 16 more). They are laid out
//
//   quad pair 0 | quad pair 2        so that a warp's step is 16 x 16 x 4, and each row of scores lies in two quad pairs, in four lanes: what softmax
//   quad pair 1 | quad pair 3        needs of a row takes two shuffles
//
// What m8n8k4 leaves of a product is not what it takes as an operand, unlike that of later GPUs: weights go from scores to products with values through shared memory,
// 16 rows of a warp's own. Sums, maxima and outputs stay in registers; outputs have the rows that scores have. Some sixty rows are held to double precision afterwards.
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                              \
  do {                                                                           \
    cudaError_t e = (call);                                                      \
    if (e != cudaSuccess) {                                                      \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e));            \
      std::exit(1);                                                              \
    }                                                                            \
  } while (0)

constexpr int kWarps = 4, kThreads = kWarps * 32, kQueries = kWarps * 16, kKeys = 64;
// Lines apart, so that lanes meet no bank twice: four words for keys, which eight lanes read 16 bytes of at a time, eight for values, of four lines of which 32 bytes are read.
constexpr int kPadKeys = 8, kPadValues = 16;

/// d += a b' where b's rows are columns of the product (kTransposed) or a b. Each quad pair's own 8 x 8 x 4.
template <bool kTransposed>
__device__ __forceinline__ void multiply(float (&d)[8], uint2 a, uint2 b) {
  if constexpr (kTransposed)
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y));
  else
    asm volatile("mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]) : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y));
}

/// Where a lane stands in m8n8k4: rows and columns of 16 x 16, of operands and of results.
struct Lane {
  int lane = threadIdx.x % 32, high = lane / 16 * 4, row8 = lane / 4 % 2 * 8, col8 = lane / 8 % 2 * 8;
  __device__ int operand_row() const { return row8 + high + lane % 4; }
  __device__ int operand_col() const { return col8 + high + lane % 4; }
  /// Results i and i + 1 (i even) are of one row, of neighbouring columns.
  __device__ int row(int i) const { return row8 + high + lane % 2 + (i & 2); }
  __device__ int col(int i) const { return col8 + (i & 4) + (lane & 2) + (i & 1); }
};

/// 64 rows of a head, from global memory to registers and from there to shared memory.
template <int kDim>
struct Tile {
  static constexpr int kEach = kKeys * kDim / 8 / kThreads;
  uint4 part[kEach];
  __device__ void load(const half* from, int first, int length) {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int at = i * kThreads + threadIdx.x, row = first + at / (kDim / 8);
      part[i] = row < length ? reinterpret_cast<const uint4*>(from)[row * int64_t(kDim / 8) + at % (kDim / 8)] : uint4{0, 0, 0, 0};
    }
  }
  template <int kPitch>
  __device__ void store(half (*to)[kPitch]) const {
#pragma unroll
    for (int i = 0; i < kEach; i++) {
      const int at = i * kThreads + threadIdx.x;
      *reinterpret_cast<uint4*>(&to[at / (kDim / 8)][at % (kDim / 8) * 8]) = part[i];
    }
  }
};

/// out[head][query][kDim] = softmax(scale q k') v; all dense, f16; sums are f32. scale: of exponents of 2.
template <int kDim>
__global__ void __launch_bounds__(kThreads) attention(half* out, const half* q, const half* k, const half* v, int length, float scale, bool causal) {
  __shared__ __align__(16) half keys[kKeys][kDim + kPadKeys], values[kKeys][kDim + kPadValues], weights[kWarps][16][kKeys + kPadKeys];
  const Lane at;
  const int warp = threadIdx.x / 32;
  // Causal blocks have unequal work: the longest begin.
  const int first = int(causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * kQueries;
  const int64_t head = int64_t(blockIdx.y) * length * kDim;
  const int query = first + warp * 16 + at.operand_row();

  // A step of 8 of the head's dimension is two of 4: which four comes first is the same for queries and keys, and so of no account.
  uint4 queries[kDim / 8];
#pragma unroll
  for (int d = 0; d < kDim / 8; d++) queries[d] = query < length ? reinterpret_cast<const uint4*>(q + head)[query * int64_t(kDim / 8) + d] : uint4{0, 0, 0, 0};

  float sum_of[2] = {}, most[2] = {-INFINITY, -INFINITY}, o[kDim / 16][8] = {};
  const int end = causal ? min(length, first + kQueries) : length;
  Tile<kDim> next_keys, next_values;
  next_keys.load(k + head, 0, length), next_values.load(v + head, 0, length);
  for (int key0 = 0; key0 < end; key0 += kKeys) {
    __syncthreads();  // nobody reads the tile before any more
    next_keys.store(keys), next_values.store(values);
    __syncthreads();
    if (key0 + kKeys < end) next_keys.load(k + head, key0 + kKeys, length), next_values.load(v + head, key0 + kKeys, length);

    float s[kKeys / 16][8] = {};
#pragma unroll
    for (int d = 0; d < kDim / 8; d++)
#pragma unroll
      for (int j = 0; j < kKeys / 16; j++) {
        const uint4 b = *reinterpret_cast<const uint4*>(&keys[j * 16 + at.operand_col()][d * 8]);
        multiply<true>(s[j], {queries[d].x, queries[d].y}, {b.x, b.y});
        multiply<true>(s[j], {queries[d].z, queries[d].w}, {b.z, b.w});
      }

    float highest[2] = {most[0], most[1]};
    const bool masked = key0 + kKeys > length || (causal && key0 + kKeys > first);
#pragma unroll
    for (int j = 0; j < kKeys / 16; j++)
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int key = key0 + j * 16 + at.col(i), row = first + warp * 16 + at.row(i);
        s[j][i] = masked && (key >= length || (causal && key > row)) ? -INFINITY : s[j][i] * scale;
        highest[i / 2 % 2] = fmaxf(highest[i / 2 % 2], s[j][i]);
      }
    float shrink[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      highest[r] = fmaxf(highest[r], __shfl_xor_sync(~0u, highest[r], 2));
      highest[r] = fmaxf(highest[r], __shfl_xor_sync(~0u, highest[r], 8));
      if (highest[r] == -INFINITY) highest[r] = 0;  // rows beyond the end that have met no key
      shrink[r] = exp2f(most[r] - highest[r]);
      sum_of[r] *= shrink[r], most[r] = highest[r];
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kKeys / 16; j++)
#pragma unroll
      for (int i = 0; i < 8; i += 2) {
        const int r = i / 2 % 2;
        const half2 w = __floats2half2_rn(exp2f(s[j][i] - most[r]), exp2f(s[j][i + 1] - most[r]));
        sum_of[r] += __low2float(w) + __high2float(w);  // what products with values will see
        *reinterpret_cast<half2*>(&weights[warp][at.row(i)][j * 16 + at.col(i)]) = w;
      }
    __syncwarp();
#pragma unroll
    for (int d = 0; d < kDim / 16; d++)
#pragma unroll
      for (int i = 0; i < 8; i++) o[d][i] *= shrink[i / 2 % 2];
#pragma unroll
    for (int j = 0; j < kKeys / 4; j++) {
      const uint2 a = *reinterpret_cast<const uint2*>(&weights[warp][at.operand_row()][j * 4]);
#pragma unroll
      for (int d = 0; d < kDim / 16; d++)
        multiply<false>(o[d], a, *reinterpret_cast<const uint2*>(&values[j * 4 + at.lane % 4][d * 16 + at.col8 + at.high]));
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    sum_of[r] += __shfl_xor_sync(~0u, sum_of[r], 2);
    sum_of[r] += __shfl_xor_sync(~0u, sum_of[r], 8);
    const int row = first + warp * 16 + at.row(2 * r);
    if (row >= length) continue;
#pragma unroll
    for (int d = 0; d < kDim / 16; d++)
#pragma unroll
      for (int i = 2 * r; i < 8; i += 4)
        *reinterpret_cast<half2*>(out + head + row * int64_t(kDim) + d * 16 + at.col(i)) = __floats2half2_rn(o[d][i] / sum_of[r], o[d][i + 1] / sum_of[r]);
  }
}

/// The largest error of some rows, held to double precision, over what rounding weights and results to f16 explains: at most 1 is right.
double error_of(const std::vector<half>& out, const std::vector<half>& q, const std::vector<half>& k, const std::vector<half>& v, int heads, int length, int dim, bool causal) {
  double worst = 0;
  std::vector<double> weight(length);
  for (int64_t row = 0; row < int64_t(heads) * length; row += std::max<int64_t>(1, int64_t(heads) * length / 61)) {
    const int64_t head = row / length * length;
    const int end = causal ? int(row - head) + 1 : length;
    double most = -INFINITY, total = 0;
    for (int j = 0; j < end; j++) {
      double s = 0;
      for (int d = 0; d < dim; d++) s += double(__half2float(q[row * dim + d])) * double(__half2float(k[(head + j) * dim + d]));
      weight[j] = s / std::sqrt(double(dim)), most = std::max(most, weight[j]);
    }
    for (int j = 0; j < end; j++) total += weight[j] = std::exp(weight[j] - most);
    for (int d = 0; d < dim; d++) {
      double is = 0, sizes = 0;
      for (int j = 0; j < end; j++) {
        const double term = weight[j] / total * double(__half2float(v[(head + j) * dim + d]));
        is += term, sizes += std::fabs(term);
      }
      const double e = std::fabs(double(__half2float(out[row * dim + d])) - is) / (0x1p-10 * sizes + 0x1p-11 * std::fabs(is) + 0x1p-24);
      if (!(e <= worst)) worst = e;
    }
  }
  return worst;
}

int main(int argc, char** argv) {
  const int heads = argc > 1 ? std::atoi(argv[1]) : 2, length = argc > 2 ? std::atoi(argv[2]) : 200, dim = argc > 3 ? std::atoi(argv[3]) : 64;
  const bool causal = argc > 4 && std::atoi(argv[4]);
  if (heads < 1 || heads > 65535 || length < 1 || (dim != 64 && dim != 128)) {
    std::fprintf(stderr, "usage: attention_volta [heads] [length] [64 or 128] [0 or 1: causal]\n");
    return 2;
  }
  const size_t count = size_t(heads) * length * dim, bytes = count * sizeof(half);
  std::vector<half> host[4];
  uint64_t state = 1;
  for (auto& h : host) {
    h.resize(count);
    for (half& x : h) state = state * 6364136223846793005u + 1442695040888963407u, x = __float2half(float(int64_t(state) >> 40) * 0x1p-22f);  // within 2 of 0
  }
  half* device[4];
  for (int i = 0; i < 4; i++) {
    CHECK(cudaMalloc(&device[i], bytes));
    CHECK(cudaMemcpy(device[i], host[i].data(), bytes, cudaMemcpyHostToDevice));
  }
  CHECK(cudaMemset(device[0], 0xFF, bytes));  // not a number, wherever nothing is written
  const dim3 grid((length + kQueries - 1) / kQueries, heads);
  const float scale = float(1.4426950408889634 / std::sqrt(double(dim)));
  const auto launch = [&] {
    if (dim == 64) attention<64><<<grid, kThreads>>>(device[0], device[1], device[2], device[3], length, scale, causal);
    else attention<128><<<grid, kThreads>>>(device[0], device[1], device[2], device[3], length, scale, causal);
    CHECK(cudaGetLastError());
  };
  launch();
  CHECK(cudaMemcpy(host[0].data(), device[0], bytes, cudaMemcpyDeviceToHost));
  uint64_t hash = 14695981039346656037u;
  for (const half& x : host[0]) {
    uint16_t bits;
    std::memcpy(&bits, &x, 2);
    hash = (hash ^ bits) * 1099511628211u;
  }
  const double error = error_of(host[0], host[1], host[2], host[3], heads, length, dim, causal);
  std::printf("%d heads, %d tokens of %d%s: error %.2f of its bound, bits %016llx\n", heads, length, dim, causal ? ", causal" : "", error, static_cast<unsigned long long>(hash));
  for (half* p : device) CHECK(cudaFree(p));
  std::puts(error <= 1 ? "PASS" : "FAIL");
  return error <= 1 ? 0 : 1;
}
