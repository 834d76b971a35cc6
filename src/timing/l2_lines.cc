// timing/l2_lines.cc: see l2_lines.h. The sets take about 9 MB for an H200: large pages spare most of the
// host's address look-ups.
#include "timing/l2_lines.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace orrery::timing {

void L2Lines::Free::operator()(Set*) const { munmap(memory, bytes); }

L2Lines::L2Lines(uint32_t sets, uint32_t shared_bits)
    : own_(std::max(2u, ((std::max(2u, sets) - 1) >> shared_bits) + 1)),
      reciprocal_(~uint64_t{0} / own_ + 1),
      sets_(nullptr, Free{nullptr, 0}) {
  constexpr size_t kLargePage = size_t{2} << 20;
  const size_t bytes = (2 * own_ * sizeof(Set) + 2 * kLargePage - 1) / kLargePage *
                       kLargePage;  // with one that is left out up to the first bound of a large page
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it things are only slower
  const uintptr_t first = (uintptr_t(memory) + kLargePage - 1) / kLargePage * kLargePage;
  sets_ = std::unique_ptr<Set[], Free>(reinterpret_cast<Set*>(first), Free{memory, bytes});
}

}  // namespace orrery::timing
