// timing/l2_lines.cc: see l2_lines.h. The sets take about 11 MB for an H200: large pages spare most of the host's address look-ups.
#include "timing/l2_lines.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

namespace orrery::timing {

void L2Lines::Free::operator()(Set* sets) const { std::free(sets); }

L2Lines::L2Lines(uint32_t sets) : n_(std::max(2u, sets)), reciprocal_(~uint64_t{0} / n_ + 1) {
  constexpr size_t kLargePage = size_t{2} << 20;
  const size_t bytes = (2 * n_ * sizeof(Set) + kLargePage - 1) / kLargePage * kLargePage;
  void* memory = std::aligned_alloc(kLargePage, bytes);
  if (!memory) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it things are only slower
  sets_.reset(static_cast<Set*>(memory));
  std::uninitialized_default_construct_n(sets_.get(), 2 * n_);
}

}  // namespace orrery::timing
