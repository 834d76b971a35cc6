// The frame of a kernel of producer threads and consumer warpgroups: barriers are made and seen, the first warpgroup gives its
// registers to the others, a thread of it or two fetch, the others multiply, and nobody leaves while peers of its cluster may still
// write to it. Not here: what they do.
#pragma once
#include <type_traits>

#include "ptx.cuh"

namespace orrery::kernels {

/// How a launch waits for those ahead: not at all, being launched plainly (kPlain), before anything else is touched (kWhole), or
/// inside of what is called (kInside).
enum class Dependent { kPlain, kWhole, kInside };

/// No warp is told to do anything else.
struct Nobody {};

/// `init`: by the first warp, where kUniform by all; makes the barriers and, by the threads that did, ptx::fence_mbarrier_init, without which
/// neither the copy engine nor other CTAs need see them. `produce`: by one thread of each of the first kProducers warps, with its number.
/// `scout`: by the whole warp that follows them. `consume`: by the warpgroups from the second on. `cluster`: whether other CTAs use our barriers.
/// kUniform: ptxas is to know that a warp has one role, so that what is the same in all of a warp may be in uniform registers (NOTES.md). kPush: CTAs of a
/// cluster write to each other only at the end of `consume`, which waits for the others to have begun (ptx::cluster_wait) before it does, and for what it
/// is sent; nobody is waited for at either end then.
template <int kProducers, int kProducerRegisters, int kConsumerRegisters, Dependent kDependent, bool kUniform = false, bool kPush = false, class Init, class Produce, class Consume, class Scout = Nobody>
__device__ __forceinline__ void run_warp_roles(bool cluster, Init init, Produce produce, Consume consume, Scout scout = {}) {
  if (kUniform || threadIdx.x < 32) init();
  __syncthreads();
  if constexpr (kPush) ptx::cluster_arrive_relaxed();
  else if (cluster) ptx::cluster_sync();
  if constexpr (kDependent != Dependent::kPlain) ptx::griddepcontrol_launch_dependents();
  if constexpr (kDependent == Dependent::kWhole) ptx::griddepcontrol_wait();
  if (kUniform ? ptx::warpgroup() == 0 : threadIdx.x < 128) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    const int warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0);
    if constexpr (std::is_same_v<Scout, Nobody>) {
      if (warp < kProducers && ptx::elect_one()) produce(warp);
    } else if (warp < kProducers) {
      if (ptx::elect_one()) produce(warp);
    } else if (warp == kProducers) {
      scout();
    }
    __syncwarp();
    if constexpr (kPush) ptx::cluster_wait();
  } else {
    ptx::setmaxnreg_inc<kConsumerRegisters>();
    consume();
  }
  if (!kPush && cluster) ptx::cluster_sync();
}

}  // namespace orrery::kernels
