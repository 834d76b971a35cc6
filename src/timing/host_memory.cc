// timing/host_memory.cc: kernels that work on memory of the host (pinned, or registered): what they move goes over the link between host and GPU.
//
// The grid moves as much of it as the blocks that were traced do: what memory would have given is read over the link, and all that is written goes
// there. Not here: pages of managed memory that move when they are touched.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "timing/predictor.h"

namespace orrery::timing {

namespace {

/// Whose memory addresses lie in; the allocation that was looked at last is looked at first.
class HostMemory {
 public:
  explicit HostMemory(const exec::DeviceMemory& memory) : memory_(memory) {}
  bool holds(uint64_t address) {
    if (address - from_ < bytes_) return host_;
    const std::optional<exec::Allocation> registered = memory_.find_registered(address), own = registered ? registered : memory_.find(address);
    if (!own) return false;
    from_ = own->address, bytes_ = own->size, host_ = registered || own->kind == exec::MemoryKind::pinned;
    return host_;
  }

 private:
  const exec::DeviceMemory& memory_;
  uint64_t from_ = 0, bytes_ = 0;
  bool host_ = false;
};

}  // namespace

/// Of the sectors that the traced blocks read and write, the shares that lie in memory of the host.
Predictor::OverLink Predictor::share_of_host() const {
  HostMemory host(*machine_.memory);
  double read[2] = {0, 0}, written[2] = {0, 0};
  for (const auto& [at, b] : traced_)
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events) {
        const bool reads = e.what == What::global_load || e.what == What::copy_async, writes = e.what == What::global_store;
        if (!reads && !writes) continue;
        double sectors = 0;
        for (uint32_t i = 0; i < e.n_detail; i++) sectors += std::popcount(b->lines[e.detail + i] & 15);
        (reads ? read : written)[host.holds(e.address)] += sectors;
      }
  const auto share = [](const double(&of)[2]) { return of[1] > 0 ? of[1] / (of[0] + of[1]) : 0; };
  return {share(read), share(written)};
}

/// The cycles of a grid that takes so many without the link: what goes over it does not come from the GPU's memory.
double Predictor::with_link(double cycles) {
  const OverLink share = share_of_host();
  link_busy_ = 0;
  if (share.read == 0 && share.written == 0) return cycles;
  const double read = share.read * memory_.dram_read * chip_scale_, written = share.written * std::max(memory_.dram_write, 32 * memory_.l2_write_sectors) * chip_scale_;
  memory_.dram_read *= 1 - share.read, memory_.dram_write *= 1 - share.written;
  const double link = std::max(read, written) / (profile_.pcie_bandwidth().value() * profile_.pcie_efficiency()) * figures_.clock;  // either way at once
  const double all = std::max(cycles, link);
  link_busy_ = link / all;
  p_.notes.push_back(fmt::format("memory of the host: {:.1f} MB are read and {:.1f} MB written over the link between host and GPU", read / 1e6, written / 1e6));
  return all;
}

}  // namespace orrery::timing
