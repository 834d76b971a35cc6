// exec/site_ranges.cc: what compiled code of an observed kernel looks at; see observed.h.
#include <emmintrin.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "exec/observed.h"

namespace orrery::exec {

namespace {

struct Ranges {
  size_t size = 0;
  std::unique_ptr<SiteRange[]> of;
};

std::mutex mutex;
std::unordered_map<uint64_t, Ranges>& all() {
  static auto* ranges = new std::unordered_map<uint64_t, Ranges>;  // kernels may run while the process ends
  return *ranges;
}

void store(SiteRange& to, const SiteRange& from) {
  _mm_store_si128(reinterpret_cast<__m128i*>(&to), _mm_load_si128(reinterpret_cast<const __m128i*>(&from)));
}

}  // namespace

QuickAccess& quick_access() {
  static QuickAccess access;
  return access;
}

LocalMarks& local_marks() {
  static LocalMarks marks = nullptr;
  return marks;
}

SiteRange* site_ranges(const lower::Program& program) {
  std::lock_guard lock(mutex);
  Ranges& r = all()[program.hash];
  if (!r.of) r.size = program.code.size(), r.of = std::make_unique<SiteRange[]>(r.size);
  return r.of.get();
}

void set_site_range(const lower::Program& program, uint32_t pc, uint64_t begin, uint64_t end) {
  SiteRange range;
  range.begin = (begin + 31) & ~uint64_t{31};
  if (range.begin >= end) return;
  range.bytes = end - range.begin;
  store(site_ranges(program)[pc], range);
}

void forget_site_ranges() {
  std::lock_guard lock(mutex);
  for (auto& [hash, r] : all())
    for (size_t i = 0; i < r.size; i++) store(r.of[i], SiteRange{});
}

void forget_site_ranges(const lower::Program& program) {
  SiteRange* ranges = site_ranges(program);
  for (size_t i = 0; i < program.code.size(); i++) store(ranges[i], SiteRange{});
}

}  // namespace orrery::exec
