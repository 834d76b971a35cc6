// attention_forward, bf16, at the shapes of bench/peers.py (which times cuDNN through PyTorch), and attention_paged.
//
//   attention_bench [paged | paged_e4m3 | more | near | near_sigmoid | near_192 | near_256 | votes]    more: sigmoid, and causal windows; near: neighbourhoods on
//                                                   grids of tokens, near_sigmoid: those of sigmoids, near_192: of such heads; votes: kv_votes
//
// One CSV row per shape: microseconds (median) and TFLOP/s, counting 4 * seq_q * seq_k * dim per head, half if causal; of the pairs that a window leaves; for the
// paged cache (pages of 64 tokens in random order, L2 flushed) the GB/s of keys and values.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "data.h"
#include "measure.h"
#include "orrery/kernels.h"

using namespace orrery::kernels;

namespace {

void paged(bench::Device& device, bool e4m3) {
  std::printf("# columns: table,batch,heads,kv_heads,dim,context,who,us,GB/s\n");
  constexpr int64_t kPage = 64, kHeads = 32;
  for (const auto& [dim, kv_heads] : {std::pair<int64_t, int64_t>{128, 8}, {128, 4}, {192, 8}, {256, 8}})
    for (int64_t context : {2048, 8192, 32768})
      for (int64_t batch : {1, 8, 32, 128}) {
        const int64_t kDim = dim;
        const int64_t token = kv_heads * kDim, per_sequence = context / kPage, pages = batch * per_sequence, bytes = pages * kPage * token * (e4m3 ? 1 : 2);
        if (bytes * 2 > (int64_t(32) << 30)) continue;
        char *cache, *small;
        BENCH_OK(cudaMalloc(&cache, bytes * 2));
        BENCH_OK(cudaMalloc(&small, int64_t(256) << 20));
        bench::fill_normal(cache, e4m3 ? bytes * 2 : bytes, e4m3 ? DType::kE4M3 : DType::kBF16, 5, device.stream);
        bench::fill_normal(small, batch * kHeads * kDim * 2, DType::kBF16, 6, device.stream);
        std::vector<int32_t> table(pages), lengths(batch, int32_t(context));
        for (int64_t i = 0; i < pages; i++) table[i] = int32_t(i);
        uint64_t state = 88172645463325252ull;
        for (int64_t i = pages - 1; i > 0; i--) {
          state ^= state << 13, state ^= state >> 7, state ^= state << 17;
          std::swap(table[i], table[state % uint64_t(i + 1)]);
        }
        PagedAttentionArgs a;
        a.q = small, a.out = small + (16 << 20), a.k_cache = cache, a.v_cache = cache + bytes, a.batch = batch, a.heads = kHeads, a.kv_heads = kv_heads;
        a.dim = kDim, a.pages = pages, a.page_size = kPage, a.table_pitch = per_sequence, a.max_seq = context, a.q_stride = a.out_stride = kHeads * kDim, a.e4m3_cache = e4m3;
        a.page_stride = kPage * token, a.token_stride = token, a.head_stride = kDim;
        int32_t* ints = reinterpret_cast<int32_t*>(small + (32 << 20));
        BENCH_OK(cudaMemcpy(ints, table.data(), pages * 4, cudaMemcpyHostToDevice));
        BENCH_OK(cudaMemcpy(ints + (1 << 20), lengths.data(), batch * 4, cudaMemcpyHostToDevice));
        a.page_table = ints, a.seq_lens = ints + (1 << 20), a.workspace = small + (64 << 20);
        bench::Replay replay(device, 1, [&](int) {
          if (Status st = attention_paged(a, device.stream); !st.ok()) std::exit((std::fprintf(stderr, "%s %s\n", st.argument ? st.argument : "", st.reason), 1));
        });
        const float us = bench::race({&replay}, 15, true)[0];
        std::printf("%s,%lld,%lld,%lld,%lld,%lld,orrery,%.2f,%.0f\n", e4m3 ? "paged_e4m3" : "paged", (long long)batch, (long long)kHeads, (long long)kv_heads, (long long)kDim, (long long)context, us,
                    2.0 * bytes / us * 1e-3);
        std::fflush(stdout);
        BENCH_OK(cudaFree(cache));
        BENCH_OK(cudaFree(small));
      }
}

/// Our own softmax beside sigmoid, and beside a window over the keys: those of one length of sequences in turns.
void more(bench::Device& device) {
  std::printf("# columns: table,batch,heads,seq,dim,causal,window,sigmoid,us,tflops\n");
  struct Row { bool causal; int64_t window; bool sigmoid; };
  const std::vector<Row> rows = {{false, 0, false}, {false, 0, true}, {true, 0, false}, {true, 0, true}, {true, 512, false}, {true, 1024, false}, {true, 4096, false}};
  char* base;
  const int64_t n = 16384 * 16 * 128;
  BENCH_OK(cudaMalloc(&base, n * 8));
  bench::fill_normal(base, n * 4, DType::kBF16, 5, device.stream);
  for (int64_t seq : {4096, 8192, 16384}) {
    AttentionArgs a;
    a.q = base, a.k = base + n * 2, a.v = base + n * 4, a.out = base + n * 6;
    a.batch = 16384 / seq, a.heads = a.kv_heads = 16, a.seq_q = a.seq_k = seq, a.dim = 128;
    a.q_strides = a.k_strides = a.v_strides = a.out_strides = {seq * 16 * 128, 16 * 128, 128};
    std::vector<std::unique_ptr<bench::Replay>> replays;
    std::vector<bench::Replay*> rivals;
    for (const Row& r : rows) {
      a.causal = r.causal, a.window = r.window, a.sigmoid = r.sigmoid;
      replays.push_back(std::make_unique<bench::Replay>(device, 5, [&](int) {
        if (Status st = attention_forward(a, device.stream); !st.ok()) std::exit((std::fprintf(stderr, "%s %s\n", st.argument ? st.argument : "", st.reason), 1));
      }));
      rivals.push_back(replays.back().get());
    }
    const auto us = bench::race(rivals, 15, false);
    for (size_t i = 0; i < rows.size(); i++) {
      const Row& r = rows[i];
      const int64_t w = r.window ? std::min(r.window, seq) : seq;
      const double pairs = r.causal ? double(w) * (w + 1) / 2 + double(seq - w) * w : double(seq) * seq;
      std::printf("more,%lld,16,%lld,128,%d,%lld,%d,%.2f,%.1f\n", (long long)a.batch, (long long)seq, r.causal, (long long)r.window, r.sigmoid, us[i],
                  4.0 * a.batch * 16 * pairs * 128 / us[i] * 1e-6);
    }
    std::fflush(stdout);
  }
  BENCH_OK(cudaFree(base));
}

/// Which keys the last queries look at; beside the time in which every key is read once at the rate of a copy.
void votes(bench::Device& device) {
  std::printf("# columns: table,batch,heads,kv_heads,seq,dim,window,pool,us,GB/s of keys\n");
  constexpr int64_t kHeads = 32, kKvHeads = 8, kDim = 128, kWindow = 32, kPool = 7;
  for (const auto& [batch, seq] : {std::pair<int64_t, int64_t>{1, 8192}, {1, 32768}, {8, 8192}, {8, 32768}}) {
    const int64_t tokens = batch * seq;
    char *q, *k, *rest;
    BENCH_OK(cudaMalloc(&q, tokens * kHeads * kDim * 2));
    BENCH_OK(cudaMalloc(&k, tokens * kKvHeads * kDim * 2));
    KvVoteArgs a;
    a.q = q, a.k = k, a.batch = batch, a.heads = kHeads, a.kv_heads = kKvHeads, a.seq_q = a.seq_k = seq, a.dim = kDim, a.window = kWindow, a.pool = kPool;
    a.q_strides = {seq * kHeads * kDim, kHeads * kDim, kDim}, a.k_strides = {seq * kKvHeads * kDim, kKvHeads * kDim, kDim};
    const int64_t lse = batch * kHeads * seq * 4, votes = batch * kKvHeads * seq * 4;
    BENCH_OK(cudaMalloc(&rest, lse + votes + kv_votes_workspace(a)));
    a.lse = reinterpret_cast<float*>(rest), a.votes = reinterpret_cast<float*>(rest + lse), a.workspace = rest + lse + votes;
    bench::fill_normal(q, tokens * kHeads * kDim, DType::kBF16, 5, device.stream);
    bench::fill_normal(k, tokens * kKvHeads * kDim, DType::kBF16, 6, device.stream);
    BENCH_OK(cudaMemset(rest, 0x41, lse));  // 12.08 everywhere: about the logarithm of a sum over so many keys
    bench::Replay replay(device, 1, [&](int) {
      if (Status st = kv_votes(a, device.stream); !st.ok()) std::exit((std::fprintf(stderr, "%s %s\n", st.argument ? st.argument : "", st.reason), 1));
    });
    const float us = bench::race({&replay}, 15, true)[0];
    std::printf("votes,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%.2f,%.0f\n", (long long)batch, (long long)kHeads, (long long)kKvHeads, (long long)seq, (long long)kDim,
                (long long)kWindow, (long long)kPool, us, tokens * kKvHeads * kDim * 2 / us * 1e-3);
    std::fflush(stdout);
    for (char* p : {q, k, rest}) BENCH_OK(cudaFree(p));
  }
}

/// Fewest pairs of tiles (128 queries, 128 keys, boxes of powers of two with eight or more on the inner axis) that hold all that a
/// neighbourhood lets see; counted here by the definition of the mask.
double fewest_tiles(const Neighborhood& n) {
  const auto on_axis = [&](int a, int q, int k) {
    const int64_t length = n.extent[a], window = n.window[a], stride = n.stride[a];
    const auto start = [&](int64_t x) { return std::clamp(std::min(x / stride * stride + stride / 2, length - 1) - window / 2, int64_t(0), length - window); };
    int64_t sum = 0;
    for (int64_t x = 0; x < length; x += q) sum += (start(std::min(x + q, length) - 1) + window - start(x) + k - 1) / k;
    return double(sum);
  };
  double least = 1e300;
  const int inner = n.rank - 1;
  for (int qx = 8; qx <= 128; qx *= 2)
    for (int qy = n.rank > 1 ? 1 : 128 / qx; qx * qy <= 128; qy *= 2)
      for (int kx = 8; kx <= 128; kx *= 2)
        for (int ky = n.rank > 1 ? 1 : 128 / kx; kx * ky <= 128; ky *= 2) {
          const int qz = 128 / (qx * qy), kz = 128 / (kx * ky);
          if ((n.rank < 3 && (qz > 1 || kz > 1)) || (n.rank < 2 && (qy > 1 || ky > 1))) continue;
          double tiles = on_axis(inner, qx, kx);
          if (n.rank > 1) tiles *= on_axis(inner - 1, qy, ky);
          if (n.rank > 2) tiles *= on_axis(0, qz, kz);
          least = std::min(least, tiles);
        }
  return least;
}

void near(bench::Device& device, bool sigmoid, int64_t dim) {
  std::printf("# columns: table,tokens,axes,extent,window,stride,tiles,us,us_dense,dense_tiles\n");
  constexpr int64_t kTokens = 16384, kHeads = 16;
  const int64_t kElements = kTokens * kHeads * dim;
  char* base;
  BENCH_OK(cudaMalloc(&base, kElements * 8));
  bench::fill_normal(base, kElements * 4, DType::kBF16, 5, device.stream);
  AttentionArgs a;
  a.q = base, a.k = base + kElements * 2, a.v = base + kElements * 4, a.out = base + kElements * 6;
  a.batch = 1, a.heads = a.kv_heads = kHeads, a.seq_q = a.seq_k = kTokens, a.dim = dim;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {kElements, kHeads * dim, dim};
  a.sigmoid = sigmoid;
  const auto run = [&](int) {
    if (Status st = attention_forward(a, device.stream); !st.ok()) std::exit((std::fprintf(stderr, "%s %s\n", st.argument ? st.argument : "", st.reason), 1));
  };
  bench::Replay dense(device, 1, run);
  for (const Neighborhood& n : {Neighborhood{1, {16384}, {512}, {1}}, Neighborhood{1, {16384}, {2048}, {1}}, Neighborhood{1, {16384}, {2048}, {128}},
                                Neighborhood{2, {128, 128}, {16, 16}, {1, 1}}, Neighborhood{2, {128, 128}, {32, 32}, {1, 1}}, Neighborhood{2, {128, 128}, {32, 32}, {8, 16}},
                                Neighborhood{2, {128, 128}, {64, 64}, {1, 1}}, Neighborhood{2, {128, 128}, {64, 64}, {16, 16}}, Neighborhood{3, {32, 32, 16}, {8, 8, 8}, {1, 1, 1}},
                                Neighborhood{3, {32, 32, 16}, {16, 16, 8}, {1, 1, 1}}, Neighborhood{3, {32, 32, 16}, {16, 16, 8}, {4, 4, 8}}, Neighborhood{3, {16, 32, 32}, {12, 24, 24}, {4, 8, 8}}}) {
    a.neighborhood = n;
    bench::Replay replay(device, 5, run);
    const auto us = bench::race({&replay, &dense}, 11, false);
    const auto text = [&](const int64_t (&v)[3]) {
      std::string out = std::to_string(v[0]);
      for (int i = 1; i < n.rank; i++) out += "x" + std::to_string(v[i]);
      return out;
    };
    std::printf("near,%lld,%d,%s,%s,%s,%.0f,%.2f,%.2f,%lld\n", (long long)kTokens, n.rank, text(n.extent).c_str(), text(n.window).c_str(), text(n.stride).c_str(), fewest_tiles(n),
                us[0], us[1], (long long)(kTokens / 128 * (kTokens / 128)));
    std::fflush(stdout);
  }
  BENCH_OK(cudaFree(base));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Device device;
  if (argc > 1) {
    if (!std::strcmp(argv[1], "paged")) paged(device, false);
    else if (!std::strcmp(argv[1], "paged_e4m3")) paged(device, true);
    else if (!std::strcmp(argv[1], "near")) near(device, false, 128);
    else if (!std::strcmp(argv[1], "near_sigmoid")) near(device, true, 128);
    else if (!std::strcmp(argv[1], "near_192")) near(device, false, 192);
    else if (!std::strcmp(argv[1], "near_256")) near(device, false, 256);
    else if (!std::strcmp(argv[1], "votes")) votes(device);
    else more(device);
    return 0;
  }
  struct Shape { int64_t batch, heads, seq, dim; bool causal; };
  std::vector<Shape> shapes;
  for (bool causal : {false, true}) {
    for (int64_t seq : {1024, 2048, 4096, 8192, 16384}) shapes.push_back({16384 / seq, 16, seq, 128, causal});
    shapes.push_back({4, 32, 4096, 64, causal});
  }
  cudaDeviceProp prop;
  BENCH_OK(cudaGetDeviceProperties(&prop, 0));
  std::printf("# %s; columns: table,batch,heads,seq,dim,causal,who,us,tflops\n", prop.name);
  for (const Shape& s : shapes) {
    const int64_t n = s.batch * s.seq * s.heads * s.dim;
    char* base;
    BENCH_OK(cudaMalloc(&base, n * 8));
    bench::fill_normal(base, n * 4, DType::kBF16, 5, device.stream);
    AttentionArgs a;
    a.q = base, a.k = base + n * 2, a.v = base + n * 4, a.out = base + n * 6;
    a.batch = s.batch, a.heads = a.kv_heads = s.heads, a.seq_q = a.seq_k = s.seq, a.dim = s.dim, a.causal = s.causal;
    a.q_strides = a.k_strides = a.v_strides = a.out_strides = {s.seq * s.heads * s.dim, s.heads * s.dim, s.dim};
    bench::Replay replay(device, 5, [&](int) {
      if (Status st = attention_forward(a, device.stream); !st.ok()) {
        std::fprintf(stderr, "%s %s\n", st.argument ? st.argument : "", st.reason);
        std::exit(1);
      }
    });
    const float us = bench::race({&replay}, 15, false)[0];
    const double flop = 4.0 * s.batch * s.heads * s.seq * s.seq * s.dim * (s.causal ? 0.5 : 1.0);
    std::printf("attention,%lld,%lld,%lld,%lld,%d,orrery,%.2f,%.1f\n", (long long)s.batch, (long long)s.heads, (long long)s.seq,
                (long long)s.dim, s.causal, us, flop / us * 1e-6);
    std::fflush(stdout);
    BENCH_OK(cudaFree(base));
  }
}
