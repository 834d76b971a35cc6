// exec/gpu_facts.cc: see gpu_facts.h.
#include "exec/gpu_facts.h"

namespace orrery::exec {

GpuFacts facts_of(const Profile& profile) {
  GpuFacts gpu;
  gpu.name = profile.id();
  gpu.compute_capability = int(profile.compute_major() * 10 + profile.compute_minor());
  gpu.sm_count = uint32_t(profile.sm_count());
  gpu.max_threads_per_sm = uint32_t(profile.max_threads_per_sm());
  gpu.max_blocks_per_sm = uint32_t(profile.max_blocks_per_sm());
  gpu.max_warps_per_sm = gpu.max_threads_per_sm / 32;
  gpu.registers_per_sm = uint32_t(profile.registers_per_sm());
  gpu.shared_per_sm = uint32_t(profile.shared_per_sm().count());
  gpu.reserved_shared = uint32_t(profile.shared_reserved_per_block().count());
  gpu.max_shared_optin = uint32_t(profile.shared_per_block_optin().count());
  gpu.clock_khz = uint32_t(profile.clock_max().value() / 1000);
  return gpu;
}

}  // namespace orrery::exec
