// One block of a launch on each SM, where two launches overlap and two blocks fit.
//
// A launch that may start while the one before still runs gets its blocks placed one by one, as those of the launch before that one end.
// Every SM then has one block of each launch, which is what such kernels are made for, as long as each launch has as many blocks as there
// are SMs. With a few less, some SM is free for a second block of the same launch, and what those two leave free goes in pairs to the
// launch after the next, and so on: in every launch of a chain a few blocks then end late by what a block takes, and the launch with them.
// So there are spare blocks, which only keep a place until the next launch has been dealt to SMs.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#include "ptx.cuh"
#endif

namespace orrery::kernels {

/// `blocks`, and spare ones up to the number of SMs where few are missing.
inline int64_t with_spare_blocks(int64_t blocks, int sms) { return blocks < sms && blocks >= sms - sms / 16 ? sms : blocks; }

#ifdef __CUDACC__
/// What a spare block does: the next launch follows the ends of those before in 1 to 2 us.
__device__ __forceinline__ void keep_place() {
  ptx::griddepcontrol_wait();
  const long long start = clock64();
  while (clock64() - start < 4000) __nanosleep(100);
}
#endif

}  // namespace orrery::kernels
