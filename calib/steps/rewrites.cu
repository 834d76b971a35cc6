// calib/steps/rewrites.cu: what L2 takes of stores to lines that have been stored to a moment ago, and of parts of sectors.
//
// Each warp stores to lines of its own by turns, so many that few join on their way (leaving_lines.h). Not here: the same words by several warps (same_stores.cu).
#include "steps.h"

namespace rewrites {
using namespace steps;

enum class Part { whole, half, word, reads };  // of each sector; reads: whole, of what it has read there
template <Part kPart>
__global__ void again(uint32_t* out, int lines, int rounds) {
  const long warp = (long(blockIdx.x) * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  uint32_t* const own = out + warp * lines * 32;
  const bool stores = kPart == Part::half ? lane % 8 < 4 : kPart == Part::word ? lane % 8 == 0 : true;
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < lines; i++) {
      uint32_t* const at = own + i * 32 + lane;
      uint32_t v = uint32_t(r);
      if (kPart == Part::reads) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
      if (stores) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(v + 1) : "memory");
    }
}
template <Part kPart>
Launch storing(long lines, int blocks, int threads) {
  const int rounds = int(512 / lines);
  auto out = zeros<uint32_t>(size_t(blocks) * size_t(threads) * size_t(lines));
  return [=] { again<kPart><<<unsigned(blocks), unsigned(threads)>>>(out.p, int(lines), rounds); };
}
#define LINES (std::vector<long>{1, 2, 8, 64, 512})
#define AGAIN(name, part) \
  TRUTH("rewrites", "again_" name, LINES, [](long n) { return storing<Part::part>(n, 132 * 2, 1024); }); \
  TRUTH("rewrites", "again_few_" name, LINES, [](long n) { return storing<Part::part>(n, 132, 256); });
AGAIN("whole", whole) AGAIN("half", half) AGAIN("word", word) AGAIN("reads", reads)

}  // namespace rewrites
