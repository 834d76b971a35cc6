// calib/steps/same_stores.cu: stores to the same words again and again, by one warp or by several at once: which of them leave their SM.
//
// Each block has a line of its own, or each warp; `apart` cycles lie between two rounds and `skew` between the stores of two neighbours. Sectors that
// the profiler counts (lts__t_sectors_srcunit_tex_op_write) over those of all stores say which left. Not here: rows of different lines
// (store_rows.cu).
#include "steps.h"

namespace same_stores {
using namespace steps;

struct Stores {
  int rounds, apart, skew;
  bool own, reads;  // own: a line of each warp; reads: what it stores it has read there
};

__global__ void store_again(float* out, Stores m) {
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32), warps = int(blockDim.x / 32);
  float* const at = out + ((long(blockIdx.x) * warps + (m.own ? warp : 0)) * 32 + lane);
  float v = float(lane);
  __syncthreads();
  long long next = clock64() + 200 + warp * m.skew;
  for (int i = 0; i < m.rounds; i++) {
    if (m.apart) {
      while (clock64() < next) {
      }
      next += m.apart;
    }
    if (m.reads) v += *(volatile float*)at;
    *(volatile float*)at = v + float(i);
  }
}
truth::Launch storing(int blocks, int warps, Stores m) {
  auto o = zeros<float>(size_t(blocks) * size_t(warps) * 32);
  return [=] { store_again<<<unsigned(blocks), unsigned(warps * 32)>>>(o.p, m); };
}

#define APART (std::vector<long>{64, 256, 1024})
#define STORES(name, warps, ...) TRUTH("same_stores", name, APART, [](long n) { return storing(132, warps, {256, int(n), __VA_ARGS__}); });
STORES("same_one", 1, 0, false, false)
STORES("same_four", 4, 0, false, false)
STORES("same_eight", 8, 0, false, false)
STORES("same_thirty", 32, 0, false, false)
STORES("same_own_eight", 8, 0, true, false)
STORES("same_eight_skew8", 8, 8, false, false)
STORES("same_eight_skew24", 8, 24, false, false)
STORES("same_eight_skew96", 8, 96, false, false)
STORES("same_one_reads", 1, 0, false, true)
STORES("same_eight_reads", 8, 0, false, true)
#define COUNTS (std::vector<long>{1, 2, 4, 8, 16, 32})
TRUTH("same_stores", "same_free", COUNTS, [](long n) { return storing(132, int(n), {512, 0, 0, false, false}); });
TRUTH("same_stores", "same_free_reads", COUNTS, [](long n) { return storing(132, int(n), {512, 0, 0, false, true}); });

}  // namespace same_stores
