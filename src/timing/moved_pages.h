// timing/moved_pages.h: managed memory that a launch is the first on the GPU to touch, and what it waits for it.
//
// Such memory comes as it is touched, by pages. Where the host has touched it since it was allocated (the host's page tables tell), it is brought over
// the link; where nobody has, it is made on the GPU. An allocation is on the GPU from then on, or once it was prefetched, copied to or filled there
// (exec::Allocation::on_gpu), until it is prefetched to the host. Not known here: what the host touches afterwards, which takes it back on a GPU.
// Not here: memory of the host that stays there (host_memory.cc).
#pragma once
#include <cstdint>
#include <vector>

#include "exec/memory.h"

namespace orrery::timing {

struct MovedPages {
  double held = 0, fresh = 0;        // bytes that the host has touched, and that nobody has
  std::vector<uint64_t> from;        // addresses of managed allocations of which the launch touches something
  double bytes() const { return held + fresh; }
};

/// Managed memory as it is before a launch is traced, which touches it.
class ManagedMemory {
 public:
  explicit ManagedMemory(const exec::DeviceMemory& memory);
  bool empty() const { return areas_.empty(); }
  /// A traced block has touched the line at `address`.
  void note(uint64_t address);
  /// What moves if all that was noted stands for `times` as much.
  MovedPages moved(double times) const;

 private:
  static constexpr uint64_t kGranule = uint64_t{64} << 10;  // what one fault brings at least
  struct Area {
    exec::Allocation of;
    double held = 0;                 // bytes that the host has touched
    std::vector<bool> touched;       // granules
    bool noted = false;
  };
  std::vector<Area> areas_;          // by address
};

}  // namespace orrery::timing
