// bench/limits.cc: see limits.h.
//
// The multiply-adds are written as instructions: left to a compiler, twelve accumulators were spilled, and the peak came
// out at less than half. Sixteen independent chains cover the latency of two units; the widest registers of the machine
// are used.
#include "limits.h"

#include <time.h>

#include <algorithm>
#include <barrier>
#include <thread>
#include <vector>

#ifdef ORRERY_HAVE_OPENBLAS
#include <cblas.h>
extern "C" void openblas_set_num_threads(int);
#endif

namespace limits {

namespace {

constexpr long kRounds = 8'000'000;

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

#if defined(__AVX512F__)
#define ORRERY_REGISTER "%%zmm"
constexpr int kLanes = 16;
#elif defined(__FMA__)
#define ORRERY_REGISTER "%%ymm"
constexpr int kLanes = 8;
#endif

#ifdef ORRERY_REGISTER
#define ORRERY_FMA(n) "vfmadd231ps " ORRERY_REGISTER #n "," ORRERY_REGISTER #n "," ORRERY_REGISTER #n "\n"
/// Floating-point operations done.
double multiply_add() {
  asm volatile("vzeroall" ::: "memory");
  for (long i = 0; i < kRounds; i++)
    asm volatile(ORRERY_FMA(0) ORRERY_FMA(1) ORRERY_FMA(2) ORRERY_FMA(3) ORRERY_FMA(4) ORRERY_FMA(5) ORRERY_FMA(6) ORRERY_FMA(7)
                 ORRERY_FMA(8) ORRERY_FMA(9) ORRERY_FMA(10) ORRERY_FMA(11) ORRERY_FMA(12) ORRERY_FMA(13) ORRERY_FMA(14)
                 ORRERY_FMA(15)
                 ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                 "xmm14", "xmm15");
  return double(kRounds) * 16 * kLanes * 2;
}
#else
double multiply_add() {
  float v[16] = {};
  for (long i = 0; i < kRounds / 4; i++) {
    for (float& x : v) x = x * x + x;
    asm volatile("" ::: "memory");
  }
  return double(kRounds / 4) * 16 * 2;
}
#endif

}  // namespace

double fma_peak(int threads) {
  double best = 0;
  for (int i = 0; i < 3; i++) {
    std::vector<double> rates(static_cast<size_t>(threads));
    std::vector<std::thread> running;
    std::barrier start(threads);
    for (double& rate : rates)
      running.emplace_back([&] {
        start.arrive_and_wait();
        const double from = thread_seconds(), done = multiply_add();
        rate = done / (thread_seconds() - from);
      });
    for (auto& t : running) t.join();
    double sum = 0;
    for (double r : rates) sum += r;
    best = std::max(best, sum);
  }
  return best;
}

bool blas_sgemm([[maybe_unused]] const float* a, [[maybe_unused]] const float* b, [[maybe_unused]] float* c, [[maybe_unused]] int n,
                [[maybe_unused]] int first, [[maybe_unused]] int last) {
#ifdef ORRERY_HAVE_OPENBLAS
  if (last > first)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, last - first, n, n, 1, a + size_t(first) * size_t(n), n, b, n, 0, c + size_t(first) * size_t(n), n);
  return true;
#else
  return false;
#endif
}

}  // namespace limits
