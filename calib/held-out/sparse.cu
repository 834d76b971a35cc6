// calib/held-out/sparse.cu: sparse matrices, sorting steps, a scan in one pass, bags of rows, edges.
#include <algorithm>

#include "../truth/truth.h"

namespace {
using namespace truth;

/// Rows by eight lanes each.
__global__ void spmv_lanes(const int* row, const int* col, const float* val, const float* x, float* y, int n) {
  const int r = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
  if (r >= n) return;
  float sum = 0;
  for (int i = row[r] + lane; i < row[r + 1]; i += 8) sum += val[i] * x[col[i]];
  for (int d = 4; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d, 8);
  if (lane == 0) y[r] = sum;
}
TRUTH("sparse", "spmv_lanes", {1 << 15, 1 << 20}, [](long n) {
  Random r;
  std::vector<int> row = {0}, col;
  for (long v = 0; v < n; v++) {
    const int degree = 2 + int(r.next() % 20);
    for (int k = 0; k < degree; k++) col.push_back(int(std::min<long>(n - 1, std::max<long>(0, v + long(r.next() % 8192) - 4096))));
    row.push_back(int(col.size()));
  }
  auto dr = upload(row);
  auto dc = upload(col);
  auto val = uniform<float>(col.size()), x = uniform<float>(n), y = zeros<float>(n);
  return [=] { spmv_lanes<<<blocks_for(n * 8, 256), 256>>>(dr, dc, val, x, y, int(n)); };
});

/// A digit of four bits: how many keys of each a block has.
__global__ void radix_count(const uint32_t* keys, uint32_t* counts, int shift, long n) {
  __shared__ uint32_t bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  const long first = blockIdx.x * 2048l;
  for (int i = 0; i < 8; i++) {
    const long at = first + i * 256 + threadIdx.x;
    if (at >= n) break;
    const uint32_t digit = keys[at] >> shift & 15;
    const unsigned same = __match_any_sync(__activemask(), digit);
    if ((same & ((1u << threadIdx.x % 32) - 1)) == 0) atomicAdd(&bins[digit], uint32_t(__popc(same)));
  }
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}
TRUTH("sparse", "radix_count", {1 << 18, 1 << 24}, [](long n) {
  auto k = indices(n, ~0u);
  auto c = zeros<uint32_t>(16 * (n / 2048));
  return [=] { radix_count<<<int(n / 2048), 256>>>(k, c, 8, n); };
});

/// The same digit: keys go to their bin's place, in order of the block; offsets as after a scan of uniform counts.
__global__ void radix_scatter(const uint32_t* keys, uint32_t* out, int shift, long n) {
  __shared__ uint32_t next[16];
  if (threadIdx.x < 16) next[threadIdx.x] = uint32_t(threadIdx.x * (n / 16) + blockIdx.x * 120);
  __syncthreads();
  const long first = blockIdx.x * 2048l;
  for (int i = 0; i < 8; i++) {
    const uint32_t key = keys[first + i * 256 + threadIdx.x], digit = key >> shift & 15;
    const unsigned same = __match_any_sync(~0u, digit), below = same & ((1u << threadIdx.x % 32) - 1);
    uint32_t base = 0;
    if (below == 0) base = atomicAdd(&next[digit], uint32_t(__popc(same)));
    base = __shfl_sync(~0u, base, __ffs(same) - 1);
    out[min(long(base) + __popc(below), n - 1)] = key;
  }
}
TRUTH("sparse", "radix_scatter", {1 << 18, 1 << 24}, [](long n) {
  auto k = indices(n, ~0u), o = zeros<uint32_t>(n);
  return [=] { radix_scatter<<<int(n / 2048), 256>>>(k, o, 8, n); };
});

/// Inclusive scan in one pass: a block takes the sum of those ahead of it as soon as it is there.
__global__ void scan_one_pass(const float4* in, float4* out, volatile float* sums, volatile int* ready, int* ticket) {
  __shared__ int number;
  __shared__ float warps[8], before;
  if (threadIdx.x == 0) number = atomicAdd(ticket, 1);
  __syncthreads();
  const int block = number, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long at = block * 256l + threadIdx.x;
  float4 v = in[at];
  v.y += v.x, v.z += v.y, v.w += v.z;
  float sum = v.w;
  for (int d = 1; d < 32; d *= 2) {
    const float up = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += up;
  }
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  float ahead = 0, total = 0;
  for (int i = 0; i < 8; i++) ahead += i < warp ? warps[i] : 0, total += warps[i];
  if (threadIdx.x == 0) {
    float previous = 0;
    if (block) {
      while (!ready[block - 1]) {}
      __threadfence();
      previous = sums[block - 1];
    }
    sums[block] = previous + total;
    __threadfence();
    ready[block] = 1;
    before = previous;
  }
  __syncthreads();
  const float base = before + ahead + sum - v.w;
  out[at] = make_float4(v.x + base, v.y + base, v.z + base, v.w + base);
}
TRUTH("sparse", "scan_one_pass", {1 << 17, 1 << 20}, [](long n) {
  auto in = uniform<float>(n), out = zeros<float>(n), s = zeros<float>(n / 1024);
  auto flags = zeros<int>(n / 1024 + 1);
  const long blocks = n / 1024;
  return [=] {
    cudaMemsetAsync(flags.p, 0, (blocks + 1) * 4);
    scan_one_pass<<<int(blocks), 256>>>((const float4*)in.p, (float4*)out.p, s.p, flags.p, flags.p + blocks);
  };
});

/// Sums of 32 rows of a table each, a block of 64 a sum.
__global__ void bag_of_rows(const float4* table, const uint32_t* index, float4* out) {
  float4 sum = make_float4(0, 0, 0, 0);
  for (int k = 0; k < 32; k++) {
    const float4 v = table[long(index[blockIdx.x * 32 + k]) * 64 + threadIdx.x];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  out[blockIdx.x * 64l + threadIdx.x] = sum;
}
TRUTH("sparse", "bag_of_rows", {512, 16384}, [](long bags) {
  auto t = uniform<float>(long(1 << 18) * 256), o = zeros<float>(bags * 256);
  auto i = indices(bags * 32, 1 << 18);
  return [=] { bag_of_rows<<<int(bags), 64>>>((const float4*)t.p, i, (float4*)o.p); };
});

/// Edges push floats from one end to the other.
__global__ void push_edges(const uint2* edges, const float* from, float* to, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const uint2 e = edges[i];
  atomicAdd(&to[e.y], from[e.x] * .5f);
}
TRUTH("sparse", "push_edges", {1 << 18, 1 << 22}, [](long n) {
  auto e = indices(n * 2, uint32_t(n / 8));
  auto f = uniform<float>(n / 8), t = zeros<float>(n / 8);
  return [=] { push_edges<<<blocks_for(n, 256), 256>>>((const uint2*)e.p, f, t, n); };
});

}  // namespace
