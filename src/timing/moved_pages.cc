// timing/moved_pages.cc: see moved_pages.h.
#include "timing/moved_pages.h"

#include <fmt/format.h>

#include <algorithm>

#include "timing/predictor.h"

namespace orrery::timing {

ManagedMemory::ManagedMemory(const exec::DeviceMemory& memory) {
  for (const exec::Allocation& a : memory.all(exec::MemoryKind::managed))
    areas_.push_back({a, a.on_gpu ? 0 : double(exec::DeviceMemory::touched(a.address, a.size)), std::vector<bool>((a.size + kGranule - 1) / kGranule)});
}

void ManagedMemory::note(uint64_t address) {
  const auto above = std::upper_bound(areas_.begin(), areas_.end(), address, [](uint64_t at, const Area& a) { return at < a.of.address; });
  if (above == areas_.begin()) return;
  Area& area = *std::prev(above);
  if (address - area.of.address >= area.of.size) return;
  area.touched[(address - area.of.address) / kGranule] = area.noted = true;
}

MovedPages ManagedMemory::moved(double times) const {
  MovedPages m;
  for (const Area& area : areas_) {
    if (!area.noted) continue;
    m.from.push_back(area.of.address);
    if (area.of.on_gpu) continue;
    const double granules = double(std::count(area.touched.begin(), area.touched.end(), true));
    const double bytes = double(area.of.size), moves = std::min(bytes, granules * times * double(kGranule));
    m.held += moves * area.held / bytes, m.fresh += moves * (1 - area.held / bytes);
  }
  return m;
}

/// By what the traced blocks touch.
void Predictor::find_moves() {
  if (managed_.empty() || options_.warm) return;
  for (const auto& [at, b] : traced_)
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events) {
        if (e.what == What::bulk_load || e.what == What::bulk_store) {
          for (uint32_t i = 0; i < e.n_detail; i++) {
            const Run& r = b->runs[e.detail + i];
            for (uint64_t row = 0; row < r.rows; row++) managed_.note(r.address + row * r.stride);
          }
        } else if (e.what == What::global_load || e.what == What::global_store || e.what == What::global_atomic || e.what == What::global_reduction || e.what == What::copy_async) {
          for (uint32_t i = 0; i < e.n_detail; i++) managed_.note(b->lines[e.detail + i] >> 4 << 7);
        }
      }
  p_.moved = managed_.moved(double(launch_.grid.count()) / double(std::max<size_t>(1, traced_.size())));
}

Prediction with_moves(Prediction p, const Profile& profile) {
  constexpr double kFewer = 0.7, kMore = 1.5;  // from launch to launch, and by how a kernel touches what moves [moved_read/4096: 620 to 910 us]
  if (p.moved.bytes() == 0) return p;
  const ChipFigures f = figures_of(profile);
  const double moves = (f.move_first + p.moved.held / f.move_held + p.moved.fresh / f.move_fresh) * 1e6;
  p.notes.push_back(fmt::format("managed memory: {:.2f} MB that the host touched last and {:.2f} MB that nobody has touched come to the GPU as they are touched: {:.0f} of {:.0f} us "
                                "(prefetch them); what the host touches after that is not followed", p.moved.held / 1e6, p.moved.fresh / 1e6, moves, moves + p.microseconds));
  if (moves > p.microseconds) p.bound = "managed memory", p.fraction = moves / (moves + p.microseconds);
  p.microseconds += moves, p.low += kFewer * moves, p.high += kMore * moves, p.cycles += moves * p.clock_mhz;
  return p;
}

}  // namespace orrery::timing
