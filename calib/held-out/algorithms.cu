// calib/held-out/algorithms.cu: algorithms as collections of benchmarks and applications hold them: linear algebra of doubles and complex
// numbers, scans and segments, graphs, ciphers and hashes, searches, clustering, filters, joins, solvers.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include <cmath>

#include "../truth/truth.h"

namespace {
using namespace truth;
namespace cg = cooperative_groups;

/// C = A B of doubles: tiles of 64 x 64, 16 deep, 4 x 4 a thread.
__global__ void __launch_bounds__(256) dgemm_blocked(const double* a, const double* b, double* c, int n) {
  __shared__ double as[16][64], bs[16][64];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16;
  double sum[4][4] = {};
  for (int k0 = 0; k0 < n; k0 += 16) {
    for (int i = 0; i < 4; i++) {
      as[t % 16][t / 16 + i * 16] = a[(blockIdx.y * 64l + t / 16 + i * 16) * n + k0 + t % 16];
      bs[t / 64 + i * 4][t % 64] = b[(k0 + t / 64 + i * 4) * long(n) + blockIdx.x * 64 + t % 64];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; k++) {
      double ra[4], rb[4];
#pragma unroll
      for (int i = 0; i < 4; i++) ra[i] = as[k][ty + i * 16], rb[i] = bs[k][tx + i * 16];
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] += ra[i] * rb[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) c[(blockIdx.y * 64l + ty + i * 16) * n + blockIdx.x * 64 + tx + j * 16] = sum[i][j];
}
TRUTH("algorithms", "dgemm_blocked", {512, 2048}, [](long n) {
  auto a = uniform<double>(n * n), b = uniform<double>(n * n), c = zeros<double>(n * n);
  return [=] { dgemm_blocked<<<dim3(n / 64, n / 64), 256>>>(a, b, c, int(n)); };
});

/// C = A B of complex floats, tiles of 32 x 32, two rows a thread.
__global__ void __launch_bounds__(512) complex_tiles(const float2* a, const float2* b, float2* c, int n) {
  __shared__ float2 as[32][32], bs[32][32];
  const int x = threadIdx.x, y = threadIdx.y;
  const long row = blockIdx.y * 32l, column = blockIdx.x * 32l;
  float2 sum[2] = {};
  for (int k0 = 0; k0 < n; k0 += 32) {
    for (int i = 0; i < 32; i += 16) as[y + i][x] = a[(row + y + i) * n + k0 + x], bs[y + i][x] = b[(k0 + y + i) * long(n) + column + x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k++) {
      const float2 q = bs[k][x];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const float2 p = as[y + i * 16][k];
        sum[i].x += p.x * q.x - p.y * q.y, sum[i].y += p.x * q.y + p.y * q.x;
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; i++) c[(row + y + i * 16) * n + column + x] = sum[i];
}
TRUTH("algorithms", "complex_tiles", {512, 2048}, [](long n) {
  auto a = uniform<float>(n * n * 2), b = uniform<float>(n * n * 2), c = zeros<float>(n * n * 2);
  return [=] { complex_tiles<<<dim3(n / 32, n / 32), dim3(32, 16)>>>((const float2*)a.p, (const float2*)b.p, (float2*)c.p, int(n)); };
});

/// Blelloch's scan of 1,024 floats by 512 threads, up and down the tree, as the first text on it has it (no padding).
__global__ void blelloch(const float* in, float* out) {
  __shared__ float tree[1024];
  const int t = threadIdx.x;
  const long at = blockIdx.x * 1024l;
  tree[2 * t] = in[at + 2 * t], tree[2 * t + 1] = in[at + 2 * t + 1];
  int offset = 1;
  for (int d = 512; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) tree[offset * (2 * t + 2) - 1] += tree[offset * (2 * t + 1) - 1];
    offset *= 2;
  }
  if (t == 0) tree[1023] = 0;
  for (int d = 1; d < 1024; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (t < d) {
      const int i = offset * (2 * t + 1) - 1, j = offset * (2 * t + 2) - 1;
      const float v = tree[i];
      tree[i] = tree[j], tree[j] += v;
    }
  }
  __syncthreads();
  out[at + 2 * t] = tree[2 * t], out[at + 2 * t + 1] = tree[2 * t + 1];
}
TRUTH("algorithms", "blelloch", {1 << 20, 1 << 24}, [](long n) {
  auto in = uniform<float>(n), out = zeros<float>(n);
  return [=] { blelloch<<<int(n / 1024), 512>>>(in, out); };
});

/// Sums of segments of 1 to 400 floats (few are long), a warp each.
__global__ void segment_sums(const int* start, const float* value, float* out, int segments) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int s = blockIdx.x * (blockDim.x / 32) + warp.meta_group_rank();
  if (s >= segments) return;
  float sum = 0;
  for (int i = start[s] + warp.thread_rank(); i < start[s + 1]; i += 32) sum += value[i];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) out[s] = sum;
}
TRUTH("algorithms", "segment_sums", {16384, 524288}, [](long n) {
  Random r;
  std::vector<int> start(n + 1);
  for (long i = 0; i < n; i++) {
    const float u = r.unit();
    start[i + 1] = start[i] + 1 + int(400 * u * u * u * u);
  }
  auto s = upload(start);
  auto v = uniform<float>(start[n]), o = zeros<float>(n);
  return [=] { segment_sums<<<blocks_for(n, 8), 256>>>(s, v, o, int(n)); };
});

/// A step of PageRank, pulled: a thread a node, in-degrees by a power law.
__global__ void page_rank(const int* start, const int* from, const float* share, float* rank, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n) return;
  float sum = 0;
  for (int i = start[v]; i < start[v + 1]; i++) sum += share[from[i]];
  rank[v] = .15f / n + .85f * sum;
}
TRUTH("algorithms", "page_rank", {32768, 1048576}, [](long n) {
  Random r;
  std::vector<int> start(n + 1), from;
  for (long i = 0; i < n; i++) {
    start[i] = int(from.size());
    for (int k = std::min(1 + int(1.5f / (r.unit() + .002f)), 500); k > 0; k--) from.push_back(int(r.unit() * r.unit() * float(n - 1)));
  }
  start[n] = int(from.size());
  auto s = upload(start), f = upload(from);
  auto share = uniform<float>(n), rank = zeros<float>(n);
  return [=] { page_rank<<<blocks_for(n, 256), 256>>>(s, f, share, rank, int(n)); };
});

/// SHA-256 of messages of one block (64 bytes), a thread each.
__constant__ uint32_t kRounds[64];
__device__ uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }
__global__ void sha256(const uint4* in, uint4* out, int n) {
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= n) return;
  uint32_t w[16], s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, v[8];
  for (int i = 0; i < 4; i++) {
    const uint4 m = in[id * 4l + i];
    w[i * 4] = __byte_perm(m.x, 0, 0x0123), w[i * 4 + 1] = __byte_perm(m.y, 0, 0x0123), w[i * 4 + 2] = __byte_perm(m.z, 0, 0x0123), w[i * 4 + 3] = __byte_perm(m.w, 0, 0x0123);
  }
#pragma unroll
  for (int i = 0; i < 8; i++) v[i] = s[i];
#pragma unroll
  for (int i = 0; i < 64; i++) {
    if (i >= 16) {
      const uint32_t a = w[(i + 1) % 16], b = w[(i + 14) % 16];
      w[i % 16] += (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[(i + 9) % 16] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    const uint32_t t1 = v[7] + (turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6])) + kRounds[i] + w[i % 16];
    const uint32_t t2 = (turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    v[7] = v[6], v[6] = v[5], v[5] = v[4], v[4] = v[3] + t1, v[3] = v[2], v[2] = v[1], v[1] = v[0], v[0] = t1 + t2;
  }
#pragma unroll
  for (int i = 0; i < 8; i++) s[i] += v[i];
  out[id * 2l] = make_uint4(s[0], s[1], s[2], s[3]), out[id * 2l + 1] = make_uint4(s[4], s[5], s[6], s[7]);
}
TRUTH("algorithms", "sha256", {1 << 16, 1 << 21}, [](long n) {
  uint32_t rounds[64];
  for (int i = 0, p = 2; i < 64; p++) {
    bool prime = true;
    for (int d = 2; d * d <= p; d++) prime &= p % d != 0;
    if (prime) rounds[i++] = uint32_t(std::fmod(std::cbrt(double(p)), 1.0) * 4294967296.0);
  }
  cudaMemcpyToSymbol(kRounds, rounds, sizeof rounds);
  Array<uint32_t> in(n * 16), out(n * 8);
  fill<uint32_t>(in, [](size_t, Random& r) { return r.next(); });
  return [=] { sha256<<<blocks_for(n, 256), 256>>>((const uint4*)in.p, (uint4*)out.p, int(n)); };
});

/// AES-128 in counter mode: one table of 256 words in shared memory, turned for the other three; 16 bytes a thread.
__global__ void __launch_bounds__(256) aes_counter(const uint32_t* table, const uint32_t* key, const uint4* in, uint4* out, long n) {
  __shared__ uint32_t te[256];
  __shared__ uint32_t k[44];
  te[threadIdx.x] = table[threadIdx.x];
  if (threadIdx.x < 44) k[threadIdx.x] = key[threadIdx.x];
  __syncthreads();
  for (long i = blockIdx.x * 256l + threadIdx.x; i < n; i += gridDim.x * 256l) {
    uint32_t s[4] = {uint32_t(i) ^ k[0], uint32_t(i >> 32) ^ k[1], 0x12345678u ^ k[2], 0x9abcdef0u ^ k[3]};
    for (int round = 1; round < 10; round++) {
      uint32_t t[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        t[j] = te[s[j] >> 24] ^ turn(te[s[(j + 1) % 4] >> 16 & 255], 8) ^ turn(te[s[(j + 2) % 4] >> 8 & 255], 16) ^ turn(te[s[(j + 3) % 4] & 255], 24) ^ k[round * 4 + j];
#pragma unroll
      for (int j = 0; j < 4; j++) s[j] = t[j];
    }
    uint32_t last[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      last[j] = ((te[s[j] >> 24] << 16 & 0xff000000u) | (te[s[(j + 1) % 4] >> 16 & 255] << 8 & 0xff0000u) | (te[s[(j + 2) % 4] >> 8 & 255] & 0xff00u) | (te[s[(j + 3) % 4] & 255] >> 8 & 255u)) ^ k[40 + j];
    const uint4 v = in[i];
    out[i] = make_uint4(v.x ^ last[0], v.y ^ last[1], v.z ^ last[2], v.w ^ last[3]);
  }
}
TRUTH("algorithms", "aes_counter", {1 << 18, 1 << 22}, [](long n) {
  Array<uint32_t> table(256), key(44), in(n * 4), out(n * 4);
  fill<uint32_t>(table, [](size_t, Random& r) { return r.next(); });
  fill<uint32_t>(key, [](size_t, Random& r) { return r.next(); });
  fill<uint32_t>(in, [](size_t, Random& r) { return r.next(); });
  return [=] { aes_counter<<<int(std::min(n / 256, 132l * 8)), 256>>>(table, key, (const uint4*)in.p, (uint4*)out.p, n); };
});

/// Where a word of twelve bytes begins in a text of four letters: a thread a place, counted by block.
__constant__ char kWord[16] = "abcaabdcabca";
__global__ void find_word(const char* text, int* found, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  bool here = i + 12 <= n;
  for (int k = 0; here && k < 12; k++) here = text[i + k] == kWord[k];
  const int count = __syncthreads_count(here);
  if (threadIdx.x == 0 && count) atomicAdd(found, count);
}
TRUTH("algorithms", "find_word", {1 << 20, 1 << 26}, [](long n) {
  Array<char> text(n);
  fill<char>(text, [](size_t, Random& r) { return char('a' + r.next() % 4); });
  auto found = zeros<int>(1);
  return [=] { find_word<<<int(n / 256), 256>>>(text, found, n); };
});

/// The nearest of 32 centres of 16 dimensions for each point, and the points' sums by centre in shared memory, then global.
__global__ void __launch_bounds__(256) k_means(const float* points, const float* centres, int* nearest, float* sums, int* counts, int n) {
  __shared__ float centre[32][16], sum[32][16];
  __shared__ int count[32];
  for (int i = threadIdx.x; i < 512; i += 256) centre[i / 16][i % 16] = centres[i], sum[i / 16][i % 16] = 0;
  if (threadIdx.x < 32) count[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) {
    float p[16], best = 1e30f;
    int where = 0;
#pragma unroll
    for (int d = 0; d < 16; d++) p[d] = points[long(d) * n + i];
    for (int k = 0; k < 32; k++) {
      float distance = 0;
#pragma unroll
      for (int d = 0; d < 16; d++) distance += (p[d] - centre[k][d]) * (p[d] - centre[k][d]);
      if (distance < best) best = distance, where = k;
    }
    nearest[i] = where;
    atomicAdd(&count[where], 1);
#pragma unroll
    for (int d = 0; d < 16; d++) atomicAdd(&sum[where][d], p[d]);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < 512; k += 256) atomicAdd(&sums[k], sum[k / 16][k % 16]);
  if (threadIdx.x < 32) atomicAdd(&counts[threadIdx.x], count[threadIdx.x]);
}
TRUTH("algorithms", "k_means", {1 << 16, 1 << 20}, [](long n) {
  auto p = uniform<float>(n * 16), c = uniform<float>(512), s = zeros<float>(512);
  auto nearest = zeros<int>(n), counts = zeros<int>(32);
  return [=] { k_means<<<int(n / 256), 256>>>(p, c, nearest, s, counts, int(n)); };
});

/// The four nearest of 4,096 points in space for each query, points in tiles of 256 in shared memory.
__global__ void __launch_bounds__(128) nearest4(const float4* points, const float4* queries, int4* out, int n) {
  __shared__ float4 tile[256];
  const int i = blockIdx.x * 128 + threadIdx.x;
  const float4 q = queries[i];
  float best[4] = {1e30f, 1e30f, 1e30f, 1e30f};
  int where[4] = {};
  for (int at = 0; at < n; at += 256) {
    __syncthreads();
    tile[threadIdx.x] = points[at + threadIdx.x], tile[threadIdx.x + 128] = points[at + threadIdx.x + 128];
    __syncthreads();
    for (int j = 0; j < 256; j++) {
      const float dx = tile[j].x - q.x, dy = tile[j].y - q.y, dz = tile[j].z - q.z, d = dx * dx + dy * dy + dz * dz;
      if (d >= best[3]) continue;
      int k = 3;
#pragma unroll
      for (int m = 3; m > 0; m--)
        if (d < best[m - 1]) best[m] = best[m - 1], where[m] = where[m - 1], k = m - 1;
#pragma unroll
      for (int m = 0; m < 4; m++)
        if (m == k) best[m] = d, where[m] = at + j;
    }
  }
  out[i] = make_int4(where[0], where[1], where[2], where[3]);
}
TRUTH("algorithms", "nearest4", {8192, 131072}, [](long n) {
  auto p = uniform<float>(4096 * 4), q = uniform<float>(n * 4);
  auto o = zeros<int>(n * 4);
  return [=] { nearest4<<<int(n / 128), 128>>>((const float4*)p.p, (const float4*)q.p, (int4*)o.p, 4096); };
});

/// A bilateral filter of floats, 7 x 7, straight from global memory, clamped at the edges.
__global__ void bilateral(const float* in, float* out, int width, int height, float space, float range) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  const float here = in[y * width + x];
  float sum = 0, total = 0;
  for (int dy = -3; dy <= 3; dy++)
    for (int dx = -3; dx <= 3; dx++) {
      const float v = in[min(max(y + dy, 0), height - 1) * width + min(max(x + dx, 0), width - 1)];
      const float w = __expf(-float(dx * dx + dy * dy) * space - (v - here) * (v - here) * range);
      sum += w * v, total += w;
    }
  out[y * width + x] = sum / total;
}
TRUTH("algorithms", "bilateral", {512, 4096}, [](long n) {
  auto in = uniform<float>(n * n), out = zeros<float>(n * n);
  return [=] { bilateral<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(in, out, int(n), int(n), .05f, 8.f); };
});

/// Ways to place queens after the first three rows: a thread a beginning, columns and diagonals as bits, its own stack.
__global__ void queens(int n, int* ways) {
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  if (id >= n * n * n) return;
  const uint32_t all = (1u << n) - 1;
  uint32_t columns = 0, left = 0, right = 0, stack[20][4];
  for (int row = 0, rest = id; row < 3; row++, rest /= n) {
    const uint32_t bit = 1u << rest % n;
    if (bit & (columns | left | right)) return;
    columns |= bit, left = (left | bit) << 1, right = (right | bit) >> 1;
  }
  int depth = 0, count = 0;
  stack[0][0] = columns, stack[0][1] = left, stack[0][2] = right, stack[0][3] = all & ~(columns | left | right);
  while (depth >= 0) {
    uint32_t* s = stack[depth];
    if (s[3] == 0) {
      depth--;
      continue;
    }
    const uint32_t bit = s[3] & -s[3];
    s[3] ^= bit;
    const uint32_t c = s[0] | bit, l = (s[1] | bit) << 1, r = (s[2] | bit) >> 1;
    if (c == all) {
      count++;
      continue;
    }
    uint32_t* next = stack[++depth];
    next[0] = c, next[1] = l, next[2] = r, next[3] = all & ~(c | l | r);
  }
  if (count) atomicAdd(ways, count);
}
TRUTH("algorithms", "queens", {9, 11}, [](long n) {
  auto ways = zeros<int>(1);
  return [=] { queens<<<blocks_for(n * n * n, 64), 64>>>(int(n), ways); };
});

/// Softmax of long rows: a cluster of four blocks a row of 32,768 floats, kept in shared memory, greatest and sum over the cluster.
__global__ void __cluster_dims__(4) __launch_bounds__(512) cluster_softmax(const float4* in, float4* out) {
  extern __shared__ float4 mine[];
  __shared__ float room[16], part[2];
  const auto cluster = cg::this_cluster();
  const long at = blockIdx.x * 2048l;
  const auto both = [&](float v, int which, auto f) {
    for (int d = 16; d > 0; d /= 2) v = f(v, __shfl_xor_sync(~0u, v, d));
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 1; i < 16; i++) v = f(v, room[i]);
      part[which] = v;
    }
    cluster.sync();
    v = *cluster.map_shared_rank(&part[which], 0);
    for (int i = 1; i < 4; i++) v = f(v, *cluster.map_shared_rank(&part[which], i));
    return v;
  };
  float most = -1e30f;
  for (int i = threadIdx.x; i < 2048; i += 512) {
    const float4 v = in[at + i];
    mine[i] = v;
    most = fmaxf(most, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  most = both(most, 0, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int i = threadIdx.x; i < 2048; i += 512) {
    float4 v = mine[i];
    v = make_float4(__expf(v.x - most), __expf(v.y - most), __expf(v.z - most), __expf(v.w - most));
    mine[i] = v, sum += v.x + v.y + v.z + v.w;
  }
  const float scale = 1 / both(sum, 1, [](float a, float b) { return a + b; });
  for (int i = threadIdx.x; i < 2048; i += 512) {
    const float4 v = mine[i];
    out[at + i] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
  }
  cluster.sync();
}
TRUTH("algorithms", "cluster_softmax", {64, 2048}, [](long rows) {
  auto in = uniform<float>(rows * 32768), out = zeros<float>(rows * 32768);
  return [=] { cluster_softmax<<<int(rows * 4), 512, 32768>>>((const float4*)in.p, (float4*)out.p); };
});

/// A join: keys of one table looked up in a hash table of the other (linear probing, half full); pairs go to places that a warp asks for at once.
__global__ void join_probe(const uint2* table, uint32_t mask, const uint2* rows, uint2* out, unsigned* count, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint2 row = rows[i];
  uint32_t at = row.x * 2654435769u >> 7 & mask;
  uint2 entry = table[at];
  while (entry.x != row.x && entry.x != ~0u) at = (at + 1) & mask, entry = table[at];
  if (entry.x == row.x) {
    const auto group = cg::coalesced_threads();
    unsigned base = 0;
    if (group.thread_rank() == 0) base = atomicAdd(count, group.size());
    out[group.shfl(base, 0) + group.thread_rank()] = make_uint2(entry.y, row.y);
  }
}
TRUTH("algorithms", "join_probe", {1 << 18, 1 << 22}, [](long n) {
  const uint32_t size = uint32_t(n / 2), mask = size - 1;
  Random r;
  std::vector<uint2> table(size, make_uint2(~0u, 0)), rows(n);
  std::vector<uint32_t> keys(size / 2);
  for (uint32_t i = 0; i < size / 2; i++) {
    keys[i] = r.next() >> 1;
    uint32_t at = keys[i] * 2654435769u >> 7 & mask;
    while (table[at].x != ~0u) at = (at + 1) & mask;
    table[at] = make_uint2(keys[i], i);
  }
  for (long i = 0; i < n; i++) rows[i] = make_uint2(r.next() % 2 ? keys[r.next() % keys.size()] : r.next() >> 1, uint32_t(i));
  auto t = upload(table), d = upload(rows);
  Array<uint2> out(n * 64);  // many launches go on where the last one ended
  auto count = zeros<unsigned>(1);
  return [=] { join_probe<<<blocks_for(n, 256), 256>>>(t, mask, d, out, count, int(n)); };
});

/// Heat in a box of doubles: planes of 32 x 8 in shared memory, along z the neighbours in registers.
__global__ void __launch_bounds__(256) heat3d(const double* in, double* out, int n) {
  __shared__ double plane[10][34];
  const int x = blockIdx.x * 32 + threadIdx.x + 1, y = blockIdx.y * 8 + threadIdx.y + 1, w = n + 2, tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  const long layer = long(w) * w;
  const int z0 = blockIdx.z * (n / 4);
  long i = z0 * layer + long(y) * w + x;
  double below = in[i], here = in[i + layer];
  for (int z = 0; z < n / 4; z++) {
    i += layer;
    const double above = in[i + layer];
    __syncthreads();
    plane[ty][tx] = here;
    if (threadIdx.x == 0) plane[ty][0] = in[i - 1];
    if (threadIdx.x == 31) plane[ty][33] = in[i + 1];
    if (threadIdx.y == 0) plane[0][tx] = in[i - w];
    if (threadIdx.y == 7) plane[9][tx] = in[i + w];
    __syncthreads();
    out[i] = here + .1 * (below + above + plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx] - 6 * here);
    below = here, here = above;
  }
}
TRUTH("algorithms", "heat3d", {64, 256}, [](long n) {
  const long all = (n + 2) * (n + 2) * (n + 2);
  auto in = uniform<double>(all), out = zeros<double>(all);
  return [=] { heat3d<<<dim3(n / 32, n / 8, 4), dim3(32, 8)>>>(in, out, int(n)); };
});

/// Tridiagonal systems of 512 equations by parallel cyclic reduction, a block each.
__global__ void __launch_bounds__(512) cyclic_reduction(const float* a, const float* b, const float* c, const float* d, float* x) {
  __shared__ float as[512], bs[512], cs[512], ds[512];
  const int i = threadIdx.x;
  const long at = blockIdx.x * 512l + i;
  as[i] = a[at], bs[i] = b[at] + 2.5f, cs[i] = c[at], ds[i] = d[at];
  __syncthreads();
  for (int step = 1; step < 512; step *= 2) {
    const int l = max(i - step, 0), r = min(i + step, 511);
    const float k1 = i >= step ? as[i] / bs[l] : 0, k2 = i + step < 512 ? cs[i] / bs[r] : 0;
    const float na = -as[l] * k1, nb = bs[i] - cs[l] * k1 - as[r] * k2, nc = -cs[r] * k2, nd = ds[i] - ds[l] * k1 - ds[r] * k2;
    __syncthreads();
    as[i] = na, bs[i] = nb, cs[i] = nc, ds[i] = nd;
    __syncthreads();
  }
  x[at] = ds[i] / bs[i];
}
TRUTH("algorithms", "cyclic_reduction", {1024, 32768}, [](long n) {
  auto a = uniform<float>(n * 512), b = uniform<float>(n * 512), c = uniform<float>(n * 512), d = uniform<float>(n * 512), x = zeros<float>(n * 512);
  return [=] { cyclic_reduction<<<int(n), 512>>>(a, b, c, d, x); };
});

/// Pictures of three bytes a pixel to grey.
__global__ void to_grey(const uchar3* in, uint8_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uchar3 p = in[i];
  out[i] = uint8_t(.299f * p.x + .587f * p.y + .114f * p.z);
}
TRUTH("algorithms", "to_grey", {1 << 20, 1 << 26}, [](long n) {
  Array<uint8_t> in(n * 3), out(n);
  fill<uint8_t>(in, [](size_t, Random& r) { return uint8_t(r.next()); });
  return [=] { to_grey<<<blocks_for(n, 256), 256>>>((const uchar3*)in.p, out, int(n)); };
});

/// Four steps of conjugate gradients for Poisson's equation on n x n points in one cooperative launch: two sums over the grid a step.
__global__ void __launch_bounds__(512) conjugate_gradients(float* x, float* r, float* p, float* q, double* sums, int n, int steps) {
  const auto grid = cg::this_grid();
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const long all = long(n) * n;
  double old = 1;
  for (int s = 0; s < steps; s++) {
    double dot = 0;
    for (long i = grid.thread_rank(); i < all; i += grid.size()) {
      const int cx = int(i % n), cy = int(i / n);
      const float v = 4 * p[i] - (cx > 0 ? p[i - 1] : 0) - (cx < n - 1 ? p[i + 1] : 0) - (cy > 0 ? p[i - n] : 0) - (cy < n - 1 ? p[i + n] : 0);
      q[i] = v, dot += double(v) * p[i];
    }
    dot = cg::reduce(warp, dot, cg::plus<double>());
    if (warp.thread_rank() == 0) atomicAdd(&sums[s * 2], dot);
    grid.sync();
    const float alpha = float(old / sums[s * 2]);
    dot = 0;
    for (long i = grid.thread_rank(); i < all; i += grid.size()) {
      x[i] += alpha * p[i];
      const float v = r[i] - alpha * q[i];
      r[i] = v, dot += double(v) * v;
    }
    dot = cg::reduce(warp, dot, cg::plus<double>());
    if (warp.thread_rank() == 0) atomicAdd(&sums[s * 2 + 1], dot);
    grid.sync();
    const float beta = float(sums[s * 2 + 1] / old);
    old = sums[s * 2 + 1];
    for (long i = grid.thread_rank(); i < all; i += grid.size()) p[i] = r[i] + beta * p[i];
    grid.sync();
  }
}
TRUTH("algorithms", "conjugate_gradients", {512, 2048}, [](long n) {
  auto x = zeros<float>(n * n), r = uniform<float>(n * n), p = uniform<float>(n * n), q = zeros<float>(n * n);
  auto sums = zeros<double>(8);
  return [=] {
    float *px = x, *pr = r, *pp = p, *pq = q;
    double* ps = sums;
    int size = int(n), steps = 4;
    void* arguments[] = {&px, &pr, &pp, &pq, &ps, &size, &steps};
    cudaLaunchCooperativeKernel((void*)conjugate_gradients, 132 * 2, 512, arguments, 0, nullptr);
  };
});
}  // namespace
