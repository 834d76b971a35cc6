// Cooperative groups: thread_block, tiles, coalesced groups, grid and cluster, and their collectives.
//
//   group          threads                       sync
//   thread_block   the block                     bar.sync 0
//   tile<N>        N lanes, N a power of two     warp barrier of the tile's lanes; above 32: the block's
//   coalesced      the active lanes              warp barrier of these lanes
//   grid           all blocks (cooperative)      a counter in the grid's workspace, see grid_group::sync
//   cluster        the blocks of a cluster       barrier.cluster
//
// Source: CUDA C++ Programming Guide, "Cooperative Groups".
#ifndef ORRERY_CC_COOPERATIVE_GROUPS_H
#define ORRERY_CC_COOPERATIVE_GROUPS_H
#include <cuda_runtime.h>
#ifndef __CUDA__
#error "cooperative_groups.h is for CUDA translation units"
#endif

#define ORRERY_CG __device__ __inline__ __attribute__((always_inline))

namespace cooperative_groups {

namespace details {
ORRERY_CG unsigned lane_id() { return __nvvm_read_ptx_sreg_laneid(); }
ORRERY_CG unsigned lanes_below() { return __nvvm_read_ptx_sreg_lanemask_lt(); }
ORRERY_CG unsigned block_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
ORRERY_CG unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }
ORRERY_CG unsigned long long grid_block() {
  return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

// Any type through a shuffle of words.
template <class T, class Shuffle> ORRERY_CG T by_words(const T& value, Shuffle shuffle) {
  constexpr int n = (sizeof(T) + 3) / 4;
  unsigned w[n] = {};
  memcpy(w, &value, sizeof(T));
  for (int i = 0; i < n; i++) w[i] = shuffle(w[i]);
  T result;
  memcpy(&result, w, sizeof(T));
  return result;
}
}  // namespace details

template <class T> struct plus { ORRERY_CG T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { ORRERY_CG T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { ORRERY_CG T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { ORRERY_CG T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { ORRERY_CG T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { ORRERY_CG T operator()(T a, T b) const { return a ^ b; } };

class thread_block;

// ---- one thread ----------------------------------------------------------------------------------------------
// ---- lanes of a warp: the common part of tiles and coalesced groups --------------------------------------------
class lane_group {
 public:
  ORRERY_CG void sync() const { __syncwarp(mask_); }
  ORRERY_CG unsigned thread_rank() const { return __popc(mask_ & details::lanes_below()); }
  ORRERY_CG unsigned num_threads() const { return __popc(mask_); }
  ORRERY_CG unsigned size() const { return num_threads(); }
  ORRERY_CG int any(int p) const { return __any_sync(mask_, p); }
  ORRERY_CG int all(int p) const { return __all_sync(mask_, p); }
  ORRERY_CG unsigned ballot(int p) const { return pack(__ballot_sync(mask_, p)); }
  template <class T> ORRERY_CG unsigned match_any(T v) const { return pack(__match_any_sync(mask_, v)); }
  template <class T> ORRERY_CG unsigned match_all(T v, int& p) const { return pack(__match_all_sync(mask_, v, &p)); }
  ORRERY_CG unsigned lane_mask() const { return mask_; }

 protected:
  ORRERY_CG explicit lane_group(unsigned mask) : mask_(mask) {}
  // The bits of `lanes` at the group's lanes, packed by rank.
  ORRERY_CG unsigned pack(unsigned lanes) const {
    unsigned result = 0, left = mask_;
    for (unsigned rank = 0; left; rank++) {
      unsigned lowest = left & (0u - left);
      if (lanes & lowest) result |= 1u << rank;
      left ^= lowest;
    }
    return result;
  }
  // The lane of the thread with this rank.
  ORRERY_CG unsigned lane_of(unsigned rank) const {
    unsigned left = mask_;
    for (; rank; rank--) left &= left - 1;
    return left ? (unsigned)__ffs((int)left) - 1 : details::lane_id();
  }
  unsigned mask_;
};

// ---- coalesced -----------------------------------------------------------------------------------------------
class coalesced_group : public lane_group {
 public:
  ORRERY_CG explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
      : lane_group(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}
  ORRERY_CG unsigned meta_group_rank() const { return meta_rank_; }
  ORRERY_CG unsigned meta_group_size() const { return meta_size_; }
  template <class T> ORRERY_CG T shfl(T v, unsigned rank) const {
    unsigned lane = lane_of(rank % num_threads()), m = mask_;
    return details::by_words(v, [=](unsigned w) { return __shfl_sync(m, w, (int)lane); });
  }
  template <class T> ORRERY_CG T shfl_down(T v, unsigned delta) const {
    unsigned rank = thread_rank() + delta;
    return shfl(v, rank < num_threads() ? rank : thread_rank());
  }
  template <class T> ORRERY_CG T shfl_up(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return shfl(v, rank >= delta ? rank - delta : rank);
  }

 private:
  unsigned meta_rank_, meta_size_;
};
ORRERY_CG coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// ---- tiles ---------------------------------------------------------------------------------------------------
namespace details {
ORRERY_CG unsigned tile_mask(unsigned size) {
  return size >= 32 ? ~0u : ((1u << size) - 1) << (lane_id() & ~(size - 1));
}
}  // namespace details

template <unsigned Size, class Parent = void> class thread_block_tile : public lane_group {
  static_assert(Size && (Size & (Size - 1)) == 0 && Size <= 32, "a tile has a power of two of at most 32 threads");

 public:
  ORRERY_CG explicit thread_block_tile(unsigned meta_rank, unsigned meta_size)
      : lane_group(details::tile_mask(Size)), meta_rank_(meta_rank), meta_size_(meta_size) {}
  template <class P> ORRERY_CG thread_block_tile(const thread_block_tile<Size, P>& t)
      : lane_group(details::tile_mask(Size)), meta_rank_(t.meta_group_rank()), meta_size_(t.meta_group_size()) {}
  ORRERY_CG unsigned thread_rank() const { return details::lane_id() & (Size - 1); }
  ORRERY_CG static constexpr unsigned num_threads() { return Size; }
  ORRERY_CG static constexpr unsigned size() { return Size; }
  ORRERY_CG unsigned meta_group_rank() const { return meta_rank_; }
  ORRERY_CG unsigned meta_group_size() const { return meta_size_; }
  ORRERY_CG unsigned ballot(int p) const { return shift(__ballot_sync(mask_, p)); }
  template <class T> ORRERY_CG unsigned match_any(T v) const { return shift(__match_any_sync(mask_, v)); }
  template <class T> ORRERY_CG unsigned match_all(T v, int& p) const { return shift(__match_all_sync(mask_, v, &p)); }
  template <class T> ORRERY_CG T shfl(T v, int rank) const {
    unsigned m = mask_;
    return details::by_words(v, [=](unsigned w) { return __shfl_sync(m, w, rank, Size); });
  }
  template <class T> ORRERY_CG T shfl_down(T v, unsigned delta) const {
    unsigned m = mask_;
    return details::by_words(v, [=](unsigned w) { return __shfl_down_sync(m, w, delta, Size); });
  }
  template <class T> ORRERY_CG T shfl_up(T v, unsigned delta) const {
    unsigned m = mask_;
    return details::by_words(v, [=](unsigned w) { return __shfl_up_sync(m, w, delta, Size); });
  }
  template <class T> ORRERY_CG T shfl_xor(T v, unsigned bits) const {
    unsigned m = mask_;
    return details::by_words(v, [=](unsigned w) { return __shfl_xor_sync(m, w, (int)bits, Size); });
  }
  ORRERY_CG operator coalesced_group() const { return coalesced_group(mask_, meta_rank_, meta_size_); }

 private:
  ORRERY_CG unsigned shift(unsigned lanes) const {
    return (lanes & mask_) >> (details::lane_id() & ~(Size - 1) & 31);
  }
  unsigned meta_rank_, meta_size_;
};
typedef thread_block_tile<1> orrery_single_thread;
ORRERY_CG thread_block_tile<1> this_thread() { return thread_block_tile<1>(0, 1); }

// ---- block ---------------------------------------------------------------------------------------------------
class thread_block {
 public:
  ORRERY_CG static void sync() { __syncthreads(); }
  struct arrival_token {};
  ORRERY_CG static arrival_token barrier_arrive() { return {}; }
  ORRERY_CG static void barrier_wait(arrival_token&&) { __syncthreads(); }
  ORRERY_CG static unsigned thread_rank() { return details::block_rank(); }
  ORRERY_CG static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  ORRERY_CG static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  ORRERY_CG static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  ORRERY_CG static dim3 dim_threads() { return group_dim(); }
  ORRERY_CG static unsigned num_threads() { return details::block_size(); }
  ORRERY_CG static unsigned size() { return num_threads(); }
};
ORRERY_CG thread_block this_thread_block() { return thread_block(); }

// A group whose kind is known at run time only.
class thread_group {
 public:
  ORRERY_CG thread_group(const thread_block&) : mask_(0) {}
  ORRERY_CG thread_group(const coalesced_group& g) : mask_(g.lane_mask()) {}
  template <unsigned N, class P> ORRERY_CG thread_group(const thread_block_tile<N, P>& t) : mask_(t.lane_mask()) {}
  ORRERY_CG void sync() const {
    if (mask_) __syncwarp(mask_);
    else __syncthreads();
  }
  ORRERY_CG unsigned thread_rank() const {
    return mask_ ? __popc(mask_ & details::lanes_below()) : details::block_rank();
  }
  ORRERY_CG unsigned num_threads() const { return mask_ ? __popc(mask_) : details::block_size(); }
  ORRERY_CG unsigned size() const { return num_threads(); }
  ORRERY_CG unsigned lane_mask() const { return mask_; }

 private:
  unsigned mask_;  // 0: the block
};

template <unsigned Size> ORRERY_CG thread_block_tile<Size, thread_block> tiled_partition(const thread_block& b) {
  return thread_block_tile<Size, thread_block>(b.thread_rank() / Size, (b.num_threads() + Size - 1) / Size);
}
template <unsigned Size, unsigned Outer, class P>
ORRERY_CG thread_block_tile<Size, thread_block_tile<Outer, P>> tiled_partition(const thread_block_tile<Outer, P>& t) {
  return thread_block_tile<Size, thread_block_tile<Outer, P>>(t.thread_rank() / Size, Outer / Size);
}
ORRERY_CG coalesced_group tiled_partition(const coalesced_group& g, unsigned size) {
  unsigned rank = g.thread_rank(), index = rank / size, mask = 0, left = g.lane_mask();
  for (unsigned r = 0; left; r++, left &= left - 1)
    if (r / size == index) mask |= left & (0u - left);
  return coalesced_group(mask, index, (g.num_threads() + size - 1) / size);
}
ORRERY_CG thread_group tiled_partition(const thread_group& g, unsigned size) {
  if (g.lane_mask()) return tiled_partition(coalesced_group(g.lane_mask()), size);
  return coalesced_group(details::tile_mask(size), g.thread_rank() / size, (g.num_threads() + size - 1) / size);
}
ORRERY_CG thread_group tiled_partition(const thread_block& b, unsigned size) {
  return tiled_partition(thread_group(b), size);
}
template <class Group> ORRERY_CG coalesced_group binary_partition(const Group& g, bool p) {
  unsigned m = g.lane_mask(), yes = __ballot_sync(m, p);
  return coalesced_group(p ? yes & m : m & ~yes, p ? 1 : 0, 2);
}
template <class Group, class T> ORRERY_CG coalesced_group labeled_partition(const Group& g, T label) {
  unsigned m = g.lane_mask(), same = __match_any_sync(m, label);
  return coalesced_group(same, 0, 1);
}

// ---- grid ----------------------------------------------------------------------------------------------------
namespace details {
// The barrier word of a cooperative launch: the driver puts the address of its workspace in %envreg1 (low) and
// %envreg2 (high); the word is 4 bytes in. It counts arrivals; the first block of the grid adds what makes the top
// bit flip when all have come, and each waits for that flip.
ORRERY_CG unsigned* grid_barrier_word() {
  unsigned lo, hi;
  asm("mov.u32 %0, %%envreg2;" : "=r"(lo));
  asm("mov.u32 %0, %%envreg1;" : "=r"(hi));
  return (unsigned*)((unsigned long long)hi << 32 | lo) + 1;
}
ORRERY_CG unsigned grid_arrive(unsigned* word) {
  unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  unsigned add = grid_block() == 0 ? 0x80000000u - (blocks - 1) : 1u;
  __threadfence();
  return atomicAdd(word, add);
}
ORRERY_CG void grid_wait(unsigned* word, unsigned before) {
  unsigned now;
  do {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
  } while (((now ^ before) & 0x80000000u) == 0);
  __threadfence();
}
}  // namespace details

class grid_group {
 public:
  ORRERY_CG bool is_valid() const { return details::grid_barrier_word() != (unsigned*)4; }
  ORRERY_CG void sync() const {
    __syncthreads();
    if (details::block_rank() == 0) {
      unsigned* word = details::grid_barrier_word();
      details::grid_wait(word, details::grid_arrive(word));
    }
    __syncthreads();
  }
  ORRERY_CG unsigned long long thread_rank() const {
    return details::grid_block() * details::block_size() + details::block_rank();
  }
  ORRERY_CG unsigned long long num_threads() const { return num_blocks() * details::block_size(); }
  ORRERY_CG unsigned long long size() const { return num_threads(); }
  ORRERY_CG unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  ORRERY_CG unsigned long long block_rank() const { return details::grid_block(); }
  ORRERY_CG dim3 dim_blocks() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  ORRERY_CG dim3 group_dim() const { return dim_blocks(); }
  ORRERY_CG dim3 block_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
ORRERY_CG grid_group this_grid() { return grid_group(); }

// ---- cluster -------------------------------------------------------------------------------------------------
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
class cluster_group {
 public:
  struct arrival_token {};
  ORRERY_CG static void sync() {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
  }
  ORRERY_CG static arrival_token barrier_arrive() {
    __cluster_barrier_arrive();
    return {};
  }
  ORRERY_CG static void barrier_wait() { __cluster_barrier_wait(); }
  ORRERY_CG static void barrier_wait(arrival_token&&) { __cluster_barrier_wait(); }
  ORRERY_CG static unsigned query_shared_rank(const void* p) { return __cluster_query_shared_rank(p); }
  template <class T> ORRERY_CG static T* map_shared_rank(T* p, int rank) {
    return (T*)__cluster_map_shared_rank((const void*)p, (unsigned)rank);
  }
  ORRERY_CG static dim3 block_index() { return __clusterRelativeBlockIdx(); }
  ORRERY_CG static unsigned block_rank() { return __clusterRelativeBlockRank(); }
  ORRERY_CG static unsigned thread_rank() { return block_rank() * details::block_size() + details::block_rank(); }
  ORRERY_CG static dim3 dim_blocks() { return __clusterDim(); }
  ORRERY_CG static unsigned num_blocks() { return __clusterSizeInBlocks(); }
  ORRERY_CG static unsigned num_threads() { return num_blocks() * details::block_size(); }
  ORRERY_CG static unsigned size() { return num_threads(); }
};
ORRERY_CG cluster_group this_cluster() { return cluster_group(); }
#endif

template <class Group> ORRERY_CG void sync(const Group& g) { g.sync(); }

// ---- one thread does it --------------------------------------------------------------------------------------
template <class Group, class F> ORRERY_CG void invoke_one(const Group& g, F f) {
  if (g.thread_rank() == 0) f();
}

}  // namespace cooperative_groups
#endif
