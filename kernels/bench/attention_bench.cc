// attention_forward, bf16, at the shapes of bench/attention_peers.py (which times cuDNN through PyTorch).
//
//   attention_bench
//
// One CSV row per shape: microseconds (median) and TFLOP/s, counting 4 * seq_q * seq_k * dim per head, half if causal.
#include "data.h"
#include "measure.h"
#include "orrery/kernels.h"

using namespace orrery::kernels;

int main() {
  bench::Device device;
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
