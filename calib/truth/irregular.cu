// calib/truth/irregular.cu: latency, data-dependent control and addresses, atomics.
#include <algorithm>
#include <numeric>

#include "truth.h"

namespace {
using namespace truth;

__global__ void chase(const uint32_t* next, uint32_t* out, int steps) {
  uint32_t p = (blockIdx.x * blockDim.x + threadIdx.x) * 64;
  for (int i = 0; i < steps; i++) p = next[p];
  out[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
__global__ void binary_search(const uint32_t* sorted, int n, const uint32_t* keys, uint32_t* out, int m) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= m) return;
  const uint32_t key = keys[i];
  int lo = 0, hi = n;
  while (lo < hi) {
    const int mid = (lo + hi) >> 1;
    if (sorted[mid] < key) lo = mid + 1;
    else hi = mid;
  }
  out[i] = lo;
}
__global__ void hash_lookup(const uint2* table, uint32_t mask, const uint32_t* keys, uint32_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint32_t key = keys[i];
  uint32_t slot = (key * 2654435761u) & mask;
  for (;;) {
    const uint2 e = table[slot];
    if (e.x == key || e.x == 0) {
      out[i] = e.y;
      return;
    }
    slot = (slot + 1) & mask;
  }
}
__global__ void tree_walk(const int2* children, const float* split, const float* values, float* out, int depth, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = values[i];
  int node = 0;
  for (int d = 0; d < depth; d++) node = v < split[node] ? children[node].x : children[node].y;
  out[i] = split[node];
}
__global__ void spmv_scalar(const int* row, const uint32_t* col, const float* val, const float* x, float* y, int n) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= n) return;
  float s = 0;
  for (int i = row[r]; i < row[r + 1]; i++) s += val[i] * x[col[i]];
  y[r] = s;
}
__global__ void spmv_warp(const int* row, const uint32_t* col, const float* val, const float* x, float* y, int n) {
  const int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (r >= n) return;
  float s = 0;
  for (int i = row[r] + lane; i < row[r + 1]; i += 32) s += val[i] * x[col[i]];
  for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
  if (lane == 0) y[r] = s;
}
__global__ void bfs_level(const int* row, const uint32_t* col, int* level, int depth, int* changed, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n || level[v] != depth) return;
  for (int i = row[v]; i < row[v + 1]; i++)
    if (level[col[i]] < 0) {
      level[col[i]] = depth + 1;
      *changed = 1;
    }
}
__global__ void bitonic_global(uint32_t* a, int j, int k) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, l = i ^ j;
  if (l <= i) return;
  const uint32_t x = a[i], y = a[l];
  if ((x > y) == ((i & k) == 0)) a[i] = y, a[l] = x;
}
__global__ void bitonic_shared(uint32_t* a) {
  __shared__ uint32_t s[1024];
  const int t = threadIdx.x;
  s[t] = a[blockIdx.x * 1024 + t], s[t + 512] = a[blockIdx.x * 1024 + t + 512];
  for (int k = 2; k <= 1024; k *= 2)
    for (int j = k / 2; j > 0; j /= 2) {
      __syncthreads();
      const int i = 2 * t - (t & (j - 1)), l = i + j;
      if ((s[i] > s[l]) == ((i & k) == 0)) {
        const uint32_t v = s[i];
        s[i] = s[l], s[l] = v;
      }
    }
  __syncthreads();
  a[blockIdx.x * 1024 + t] = s[t], a[blockIdx.x * 1024 + t + 512] = s[t + 512];
}
__global__ void collatz(uint32_t* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint64_t v = i + 1;
  int steps = 0;
  while (v != 1) v = v & 1 ? 3 * v + 1 : v / 2, steps++;
  out[i] = steps;
}
__global__ void histogram_global(const uint32_t* in, uint32_t* bins, int mask, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) atomicAdd(&bins[in[i] & mask], 1u);
}
__global__ void histogram_shared(const uint32_t* in, uint32_t* bins, long n) {
  __shared__ uint32_t s[256];
  s[threadIdx.x] = 0;
  __syncthreads();
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) atomicAdd(&s[in[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
}
__global__ void counter(uint32_t* c, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) atomicAdd(c, uint32_t(i & 3));
}
__global__ void scatter_add(const uint32_t* index, const float* v, float* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n) atomicAdd(&out[index[i]], v[i]);
}
__global__ void compact(const uint32_t* in, uint32_t* out, uint32_t* count, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  const bool keep = i < n && (in[i] & 3) == 0;
  const unsigned votes = __ballot_sync(~0u, keep);
  const int lane = threadIdx.x % 32;
  uint32_t base = 0;
  if (lane == 0 && votes) base = atomicAdd(count, __popc(votes));
  base = __shfl_sync(~0u, base, 0);
  if (keep) out[base + __popc(votes & ((1u << lane) - 1))] = in[i];
}
__global__ void hash_insert(uint32_t* table, uint32_t mask, const uint32_t* keys, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint32_t key = keys[i] | 1;
  uint32_t slot = (key * 2654435761u) & mask;
  for (;;) {
    const uint32_t old = atomicCAS(&table[slot], 0u, key);
    if (old == 0 || old == key) return;
    slot = (slot + 1) & mask;
  }
}

struct Graph {
  std::vector<int> row;
  std::vector<uint32_t> col;
};
Graph random_graph(long n, int mean, bool skewed) {
  Random r;
  Graph g;
  g.row.push_back(0);
  for (long v = 0; v < n; v++) {
    int degree = mean / 2 + r.next() % (mean + 1);
    if (skewed && r.next() % 64 == 0) degree *= 16;
    for (int k = 0; k < degree; k++) g.col.push_back(r.next() % n);
    g.row.push_back(int(g.col.size()));
  }
  return g;
}

TRUTH("latency", "chase", {1 << 14, 1 << 21, 1 << 26}, [](long n) {  // a stride of 4099 lines over n words
  std::vector<uint32_t> next(n);
  for (long i = 0; i < n; i++) next[i] = uint32_t((i + 4099 * 32) % n);
  auto d = upload(next);
  auto o = zeros<uint32_t>(32 * 4);
  return [=] { chase<<<4, 32>>>(d, o, 512); };
});
TRUTH("latency", "binary_search", {1 << 12, 1 << 16, 1 << 20}, [](long m) {
  std::vector<uint32_t> s(1 << 22);
  for (size_t i = 0; i < s.size(); i++) s[i] = uint32_t(i * 1000);
  auto d = upload(s);
  auto k = indices(m, 4000000000u);
  auto o = zeros<uint32_t>(m);
  return [=] { binary_search<<<blocks_for(m, 128), 128>>>(d, 1 << 22, k, o, int(m)); };
});
TRUTH("irregular", "hash_lookup", {1 << 16, 1 << 21}, [](long n) {
  const uint32_t slots = 1 << 22;
  std::vector<uint2> t(slots, uint2{0, 0});
  std::vector<uint32_t> keys(n);
  Random r;
  for (int i = 0; i < int(slots / 2); i++) {
    const uint32_t key = r.next() | 1;
    uint32_t s = (key * 2654435761u) & (slots - 1);
    while (t[s].x) s = (s + 1) & (slots - 1);
    t[s] = {key, uint32_t(i)};
    keys[i % n] = key;
  }
  auto d = upload(t);
  auto k = upload(keys);
  auto o = zeros<uint32_t>(n);
  return [=] { hash_lookup<<<blocks_for(n, 256), 256>>>(d, slots - 1, k, o, int(n)); };
});
TRUTH("irregular", "tree_walk", {1 << 16, 1 << 20}, [](long n) {
  const int depth = 18, nodes = (1 << (depth + 1)) - 1;
  std::vector<int2> c(nodes);
  for (int i = 0; i < nodes; i++) c[i] = {std::min(2 * i + 1, nodes - 1), std::min(2 * i + 2, nodes - 1)};
  auto d = upload(c);
  auto s = uniform<float>(nodes), v = uniform<float>(n), o = zeros<float>(n);
  return [=] { tree_walk<<<blocks_for(n, 256), 256>>>(d, s, v, o, depth, int(n)); };
});
TRUTH("irregular", "spmv_scalar", {1 << 14, 1 << 18}, [](long n) {
  const Graph g = random_graph(n, 16, false);
  auto row = upload(g.row);
  auto col = upload(g.col);
  auto val = uniform<float>(g.col.size()), x = uniform<float>(n), y = zeros<float>(n);
  return [=] { spmv_scalar<<<blocks_for(n, 128), 128>>>(row, col, val, x, y, int(n)); };
});
TRUTH("irregular", "spmv_warp", {1 << 14, 1 << 18}, [](long n) {
  const Graph g = random_graph(n, 48, true);
  auto row = upload(g.row);
  auto col = upload(g.col);
  auto val = uniform<float>(g.col.size()), x = uniform<float>(n), y = zeros<float>(n);
  return [=] { spmv_warp<<<blocks_for(n * 32, 256), 256>>>(row, col, val, x, y, int(n)); };
});
TRUTH("irregular", "bfs_level", {1 << 16, 1 << 19}, [](long n) {
  const Graph g = random_graph(n, 16, true);
  std::vector<int> level(n, -1);
  for (long i = 0; i < n; i += 7) level[i] = 3;
  for (long i = 1; i < n; i += 3) level[i] = level[i] < 0 ? 2 : level[i];
  auto row = upload(g.row);
  auto col = upload(g.col);
  auto l = upload(level);
  auto changed = zeros<int>(1);
  return [=] { bfs_level<<<blocks_for(n, 256), 256>>>(row, col, l, 3, changed, int(n)); };
});
TRUTH("irregular", "bitonic_global", {1 << 20, 1 << 24}, [](long n) {
  auto a = indices(n, ~0u);
  return [=] { bitonic_global<<<blocks_for(n, 256), 256>>>(a, 1 << 10, 1 << 15); };
});
TRUTH("irregular", "bitonic_shared", {1 << 18, 1 << 22}, [](long n) {
  auto a = indices(n, ~0u);
  return [=] { bitonic_shared<<<int(n / 1024), 512>>>(a); };
});
TRUTH("irregular", "collatz", {1 << 16, 1 << 20}, [](long n) {
  auto a = zeros<uint32_t>(n);
  return [=] { collatz<<<blocks_for(n, 256), 256>>>(a, int(n)); };
});
TRUTH("atomics", "histogram_global", {1 << 18, 1 << 22}, [](long n) {
  auto a = indices(n, ~0u), b = zeros<uint32_t>(4096);
  return [=] { histogram_global<<<132 * 4, 256>>>(a, b, 4095, n); };
});
TRUTH("atomics", "histogram_shared", {1 << 20, 1 << 24}, [](long n) {
  auto a = indices(n, ~0u), b = zeros<uint32_t>(256);
  return [=] { histogram_shared<<<132 * 4, 256>>>(a, b, n); };
});
TRUTH("atomics", "counter", {1 << 14, 1 << 20}, [](long n) {
  auto c = zeros<uint32_t>(1);
  return [=] { counter<<<blocks_for(n, 256), 256>>>(c, n); };
});
TRUTH("atomics", "scatter_add", {1 << 16, 1 << 21}, [](long n) {
  auto i = indices(n, 1 << 20);
  auto v = uniform<float>(n), o = zeros<float>(1 << 20);
  return [=] { scatter_add<<<blocks_for(n, 256), 256>>>(i, v, o, n); };
});
TRUTH("atomics", "compact", {1 << 18, 1 << 24}, [](long n) {
  auto a = indices(n, ~0u), o = zeros<uint32_t>(size_t(n) * 8), c = zeros<uint32_t>(1);
  return [=] {
    cudaMemsetAsync(c.p, 0, 4);
    compact<<<blocks_for(n, 256), 256>>>(a, o, c, n);
  };
});
TRUTH("atomics", "hash_insert", {1 << 16, 1 << 20}, [](long n) {
  auto k = indices(n, ~0u), t = zeros<uint32_t>(1 << 22);
  return [=] { hash_insert<<<blocks_for(n, 256), 256>>>(t, (1 << 22) - 1, k, int(n)); };
});

}  // namespace
