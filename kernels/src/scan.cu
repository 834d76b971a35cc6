// Inclusive scan of 32-bit integers in one pass over memory.
//
// A persistent CTA an SM keeps a ring of tiles in shared memory, filled by bulk copies, and has four kinds of warps, so that none of
// the waits in a scan stands in the way of the loads:
//
//   producer  one thread: takes the next tile's number from a counter, asks for its bytes
//   sums      add up each quarter of a tile as soon as it is there; the last to finish publishes the tile's sum
//   gaps      a warp adds up the published sums of the tiles between the CTA's own last tile and this one, which are other CTAs'
//   scans     know what is before their quarter of the tile from the two, scan it in registers and store it
//
// A CTA carries the sum of all before its tile along from tile to tile: it needs its neighbours' sums only, never their prefixes,
// so no chain of waiting runs through the CTAs. Numbers are handed out in order and a CTA works on its own in order, so the lowest
// tile that is not done never waits for one that has not begun.
//
// Few items need no ring: where one wave of blocks holds them all, each keeps a tile in registers (scan_few).
//
// The published words and the counter are zeroed by a launch of their own, which where there are few items also begins to fetch them. A tile that is not whole, and every tile where addresses
// are not multiples of 16, is loaded and stored word by word.
// Source of the published words: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
#include "arguments.h"
#include "launch.h"
#include "published.cuh"
#include "vectors.cuh"
#include "warp_sum.cuh"

namespace orrery::kernels {
namespace {

constexpr int kTile = 4096, kTileBytes = kTile * 4, kStages = 12, kParts = 4, kPart = kTile / kParts;
constexpr int kThreads = 32 * (2 * kParts + 2);
using Word = Published<uint64_t>;

struct ScanParams {
  uint32_t* out;
  const uint32_t* in;
  int64_t n;
  uint64_t* words;  // one a tile, then the counter of tiles
  int64_t tiles;
  bool bulk;  // whether addresses allow bulk copies
};

/// What is beside the ring: of each stage the tile in it (tiles where there is no more), the CTA's tile before (-1: none), the sums.
struct ScanShared {
  int64_t tile[kStages], before[kStages];
  uint32_t part[kStages][kParts], gap[kStages], total[kStages], summed[kStages];
  uint64_t taken[kStages], full[kStages], parts_known[kStages], gap_known[kStages], empty[kStages];  // barriers
};

/// A role's place in the ring.
struct ScanStage {
  int stage = 0;
  uint32_t phase = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

__device__ __forceinline__ void wait_for(const uint64_t& barrier, uint32_t phase) { ptx::mbarrier_wait(ptx::smem_address(&barrier), phase); }
__device__ __forceinline__ void arrive_at(const uint64_t& barrier) { ptx::mbarrier_arrive(ptx::smem_address(&barrier)); }
__device__ __forceinline__ bool by_bulk(const ScanParams& p, int64_t tile) { return p.bulk && (tile + 1) * kTile <= p.n; }

__device__ __forceinline__ void take_tiles(const ScanParams& p, ScanShared& shared, uint32_t ring) {
  auto* const counter = reinterpret_cast<unsigned long long*>(p.words + p.tiles);
  int64_t before = -1, next = int64_t(atomicAdd(counter, 1ull));
  for (ScanStage at;; at.next()) {
    const int64_t tile = min(next, p.tiles);
    wait_for(shared.empty[at.stage], at.phase ^ 1);
    shared.tile[at.stage] = tile, shared.before[at.stage] = before;
    arrive_at(shared.taken[at.stage]);
    const uint32_t full = ptx::smem_address(&shared.full[at.stage]);
    if (tile < p.tiles && by_bulk(p, tile)) {
      ptx::mbarrier_arrive_expect_tx(full, kTileBytes);
      ptx::bulk_load(ring + at.stage * kTileBytes, p.in + tile * kTile, kTileBytes, full);
    } else {
      ptx::mbarrier_arrive(full);
    }
    if (tile == p.tiles) return;
    before = tile, next = int64_t(atomicAdd(counter, 1ull));
  }
}

/// Vector v of lane l of part w is the (v * 32 + l)th of 16 bytes there.
constexpr int kVectors = kPart / 128;

__device__ __forceinline__ void load_part(uint4 (&x)[kVectors], const ScanParams& p, const uint4* from, int64_t tile, int w, bool bulk) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    if (bulk) {
      x[v] = from[w * (kPart / 4) + v * 32 + lane];
      continue;
    }
    const int64_t at = tile * kTile + w * kPart + (v * 32 + lane) * 4;
    const auto word = [&](int c) { return at + c < p.n ? p.in[at + c] : 0u; };
    x[v] = make_uint4(word(0), word(1), word(2), word(3));
  }
}

__device__ __forceinline__ void sum_parts(const ScanParams& p, ScanShared& shared, const uint4* ring, int w) {
  for (ScanStage at;; at.next()) {
    wait_for(shared.full[at.stage], at.phase);
    const int64_t tile = shared.tile[at.stage];
    if (tile == p.tiles) return;
    uint4 x[kVectors];
    load_part(x, p, ring + at.stage * (kTileBytes / 16), tile, w, by_bulk(p, tile));
    uint32_t sum = 0;
#pragma unroll
    for (int v = 0; v < kVectors; v++) sum += x[v].x + x[v].y + x[v].z + x[v].w;
    sum = __reduce_add_sync(~0u, sum);
    __syncwarp();  // what all lanes have read may be overwritten once lane 0 has arrived
    if (threadIdx.x % 32 == 0) {
      shared.part[at.stage][w] = sum;
      atomicAdd(&shared.total[at.stage], sum);  // not read from the others' parts, for which compute-sanitizer would want a barrier
      __threadfence_block();
      if (atomicAdd(&shared.summed[at.stage], 1u) == kParts - 1) {
        __threadfence_block();
        Word::store(p.words + tile, Word::kOwn | atomicExch(&shared.total[at.stage], 0u));
        shared.summed[at.stage] = 0;
      }
      arrive_at(shared.parts_known[at.stage]);
    }
  }
}

__device__ __forceinline__ void sum_gaps(const ScanParams& p, ScanShared& shared) {
  constexpr int kAtOnce = 5;  // words a lane: all SMs' tiles
  const int lane = threadIdx.x % 32;
  for (ScanStage at;; at.next()) {
    wait_for(shared.taken[at.stage], at.phase);
    const int64_t tile = shared.tile[at.stage];
    if (tile == p.tiles) return;
    uint32_t sum = 0;
    for (int64_t first = shared.before[at.stage] + 1; first < tile; first += 32 * kAtOnce) {
      uint64_t word[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; j++) {
        const int64_t mine = first + j * 32 + lane;
        word[j] = mine < tile ? Word::load(p.words + mine) : Word::kOwn;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; j++) {
        while (word[j] < Word::kOwn) __nanosleep(50), word[j] = Word::load(p.words + (first + j * 32 + lane));
        sum += Word::sum(word[j]);
      }
    }
    sum = __reduce_add_sync(~0u, sum);
    __syncwarp();
    if (lane == 0) shared.gap[at.stage] = sum, arrive_at(shared.gap_known[at.stage]);
  }
}

/// Four items where they are no aligned vector or not all inside.
template <class P, class Place>
__device__ __forceinline__ void store_words(const P& p, Place to, const uint4& x) {
  const uint32_t word[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
  for (int c = 0; c < 4; c++)
    if (to + c < p.n) p.out[to + c] = word[c];
}

/// Scans a warp's part in place, `running` being the sum of all before it; returns the sum with it.
template <int kCount>
__device__ __forceinline__ uint32_t scan_part(uint4 (&x)[kCount], uint32_t running) {
#pragma unroll
  for (int v = 0; v < kCount; v++) {
    x[v].y += x[v].x, x[v].z += x[v].y, x[v].w += x[v].z;
    const uint32_t up_to = sum_up_to(x[v].w);
    const uint32_t add = running + up_to - x[v].w;
    running += __shfl_sync(~0u, up_to, 31);
    x[v].x += add, x[v].y += add, x[v].z += add, x[v].w += add;
  }
  return running;
}

__device__ __forceinline__ void scan_parts(const ScanParams& p, ScanShared& shared, const uint4* ring, int w) {
  const int lane = threadIdx.x % 32;
  uint32_t before_tile = 0;  // the sum of all tiles up to the CTA's last
  for (ScanStage at;; at.next()) {
    wait_for(shared.full[at.stage], at.phase);
    const int64_t tile = shared.tile[at.stage];
    if (tile == p.tiles) return;
    const bool bulk = by_bulk(p, tile);
    uint4 x[kVectors];
    load_part(x, p, ring + at.stage * (kTileBytes / 16), tile, w, bulk);
    wait_for(shared.parts_known[at.stage], at.phase);
    wait_for(shared.gap_known[at.stage], at.phase);
    before_tile += shared.gap[at.stage];
    uint32_t running = before_tile;
#pragma unroll
    for (int i = 0; i < kParts; i++) {
      const uint32_t part = shared.part[at.stage][i];
      running += i < w ? part : 0, before_tile += part;
    }
    __syncwarp();
    if (lane == 0) arrive_at(shared.empty[at.stage]);
    scan_part(x, running);
    const int64_t first = tile * kTile + w * kPart + lane * 4;
#pragma unroll
    for (int v = 0; v < kVectors; v++) {
      const int64_t to = first + v * 128;
      if (bulk) *reinterpret_cast<uint4*>(p.out + to) = x[v];
      else store_words(p, to, x[v]);
    }
  }
}

__global__ void __launch_bounds__(kThreads, 1) scan(const ScanParams p) {
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ ScanShared shared;
  if (threadIdx.x < kStages) {
    const auto init = [&](uint64_t& barrier, int count) { ptx::mbarrier_init(ptx::smem_address(&barrier), count); };
    init(shared.taken[threadIdx.x], 1), init(shared.full[threadIdx.x], 1), init(shared.parts_known[threadIdx.x], kParts);
    init(shared.gap_known[threadIdx.x], 1), init(shared.empty[threadIdx.x], kParts);
    shared.total[threadIdx.x] = shared.summed[threadIdx.x] = 0;
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  begin_overlapped();
  const int warp = threadIdx.x / 32;
  if (warp < kParts) scan_parts(p, shared, ring, warp);
  else if (warp < 2 * kParts) sum_parts(p, shared, ring, warp - kParts);
  else if (warp == 2 * kParts) sum_gaps(p, shared);
  else if (ptx::elect_one()) take_tiles(p, shared, ptx::smem_address(ring));
}

constexpr int kFewThreads = 256, kFewVectors = 16, kFewAnSm = 2, kFewTile = kFewThreads * kFewVectors * 4, kPrepareThreads = 128, kGroup = 24;
constexpr int kAheadBytes = 768;  // of each 4 KiB

/// Of scan_few: 32-bit numbers, as instructions that come once take their time.
struct FewParams {
  uint32_t* out;
  const uint32_t* in;
  int n;
  uint64_t* words;
};

/// Asks for the first kPieces of 4 KiB of each whole tile, dealt to all blocks: one that starts late has no tile of its own that nobody asked for.
template <int kPieces>
__device__ __forceinline__ void ask_for_tiles(const FewParams& p) {
  const int all = p.n / kFewTile * kPieces, stride = int(blockDim.x * gridDim.x);
  for (int k = int(threadIdx.x * gridDim.x + blockIdx.x); k < all; k += stride)
    ptx::bulk_prefetch(p.in + k / kPieces * kFewTile + k % kPieces * 1024, 4096);
}

/// Zeroes the words of scan_few, and asks for some of its tiles while the launch ahead still stores.
__global__ void __launch_bounds__(kPrepareThreads) prepare_few(const FewParams p, int words) {
  ptx::griddepcontrol_launch_dependents();
  ask_for_tiles<4>(p);
  const int i = int(blockIdx.x) * kPrepareThreads + int(threadIdx.x);
  uint64_t* const mine = i < words ? p.words + i : nullptr;
  asm volatile("" ::"l"(mine));  // found before the wait: the scan waits for what comes after it
  ptx::griddepcontrol_wait();
  if (mine) *mine = 0;
}

/// What the blocks of a wave publish: a word a block, its sum; then a word a group of kGroup blocks, to which all blocks of groups before it add
/// their sums, and above kCount their number. So a block looks at a few words instead of hundreds, by atomic operations (published.cuh).
struct FewWords {
  static constexpr int kCount = 44;
  uint64_t *of_blocks, *of_groups;
  int groups, group, place;
  __device__ __forceinline__ explicit FewWords(uint64_t* words)
      : of_blocks(words), of_groups(words + gridDim.x), groups(int(gridDim.x + kGroup - 1) / kGroup), group(int(blockIdx.x) / kGroup),
        place(int(blockIdx.x) % kGroup) {}
  /// By a warp.
  __device__ __forceinline__ void publish(uint32_t sum) const {
    const int lane = threadIdx.x % 32;
    if (lane == 0) Word::store(of_blocks + blockIdx.x, Word::kOwn | sum);
    if (lane > group && lane < groups) atomicAdd(reinterpret_cast<unsigned long long*>(of_groups + lane), 1ull << kCount | sum);
  }
  /// The sum of all blocks before this one, by a warp.
  __device__ __forceinline__ uint32_t look() const {
    const int lane = threadIdx.x % 32;
    const bool of_group = lane == kGroup && group > 0, looks = lane < place || of_group;
    uint64_t* const at = of_group ? of_groups + group : of_blocks + group * kGroup + lane;
    const uint64_t least = of_group ? uint64_t(group) * kGroup << kCount : Word::kOwn;
    uint64_t word = 0;
    do {
      if (looks) word = Word::load_there(at);
    } while (__any_sync(~0u, looks && word < least));
    return __reduce_add_sync(~0u, looks ? uint32_t(word) : 0u);
  }
  static int count(int blocks) { return blocks + (blocks + kGroup - 1) / kGroup; }
};

/// Where one wave of blocks holds it all: a tile a block, in registers from the one read to the one write. A block waits for blocks that come
/// before it in the grid only, which have started when it starts (seen on GPUs, not promised by CUDA).
/// kWhole: all tiles are; a test of each in the same code takes as long as what else is won here.
/// Bounds for 64 threads more than there are leave registers for a block of the next launch's prepare_few.
template <bool kWhole>
__global__ void __launch_bounds__(kFewThreads + 64, kFewAnSm) scan_few(const FewParams p) {
  constexpr int kWarps = kFewThreads / 32;
  extern __shared__ __align__(128) uint8_t scratch[];
  __shared__ uint32_t sums[kWarps], sum_before;
  __shared__ uint64_t barrier;
  const LoadAhead ahead(&barrier);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int at = int(blockIdx.x) * kFewTile + warp * (kFewVectors * 128) + lane * 4;
  const bool whole = kWhole || int(blockIdx.x + 1) * kFewTile <= p.n;
  // While the launch ahead still stores; no more, or what that one stores would have to wait (NOTES.md).
  if (kWhole && threadIdx.x == 0) ahead.begin(scratch, p.in + int(blockIdx.x) * kFewTile, kAheadBytes, 4096, kFewTile / 1024);
  ask_for_tiles<8>(p);
  ptx::griddepcontrol_wait();
  uint4 x[kFewVectors];
  if (whole) {
#pragma unroll
    for (int v = 0; v < kFewVectors; v++) x[v] = *reinterpret_cast<const uint4*>(p.in + at + v * 128);
  } else {
#pragma unroll
    for (int v = 0; v < kFewVectors; v++) {
      const auto word = [&](int c) { return at + v * 128 + c < p.n ? p.in[at + v * 128 + c] : 0u; };
      x[v] = make_uint4(word(0), word(1), word(2), word(3));
    }
  }
  uint32_t own = 0;
#pragma unroll
  for (int v = 0; v < kFewVectors; v++) own += x[v].x + x[v].y + x[v].z + x[v].w;
  own = __reduce_add_sync(~0u, own);
  if (lane == 0) sums[warp] = own;
  __syncthreads();
  ptx::griddepcontrol_launch_dependents();  // not before: what the next launch asks for would be in the way of these loads
  uint32_t before = 0, total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w++) before += w < warp ? sums[w] : 0, total += sums[w];
  const FewWords words(p.words);
  if (warp == 0) words.publish(total);
  scan_part(x, 0);  // while the other blocks' sums are on their way
  if (warp == kWarps - 1) {
    const uint32_t all_before = words.look();
    if (lane == 0) sum_before = all_before;
  }
  __syncthreads();
  before += sum_before;
#pragma unroll
  for (int v = 0; v < kFewVectors; v++) {
    x[v].x += before, x[v].y += before, x[v].z += before, x[v].w += before;
    if (whole) *reinterpret_cast<uint4*>(p.out + at + v * 128) = x[v];
    else store_words(p, at + v * 128, x[v]);
  }
  if (kWhole && threadIdx.x == 0) ahead.end();
}

int64_t scan_tiles(int64_t n) { return (n + kTile - 1) / kTile; }

}  // namespace

size_t scan_workspace(int64_t n) { return n > 0 ? size_t(scan_tiles(n) + 1) * 8 : 8; }

Status inclusive_scan(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (n < 0 || n >= int64_t(1) << 43) return bad("n", "must be in [0, 2^43)");
  if (n == 0) return {};
  if (!out || !aligned(out, 4)) return bad("out", "is null or misaligned");
  if (!in || !aligned(in, 4)) return bad("in", "is null or misaligned");
  if (!workspace || !aligned(workspace, 8)) return bad("workspace", "is null or not 8-byte aligned");
  const Extent to = dense("out", out, n * 4), from = dense("in", in, n * 4);
  if (Status s = apart(to, {}, {from}); !s.ok()) return s;
  if (Status s = apart(dense("workspace", workspace, int64_t(scan_workspace(n))), {to, from}); !s.ok()) return s;
  const ScanParams p{out, in, n, static_cast<uint64_t*>(workspace), scan_tiles(n), aligned(in, 16) && aligned(out, 16)};
  if (const int64_t few = (n + kFewTile - 1) / kFewTile; p.bulk && few <= sm_count() * kFewAnSm) {
    const FewParams f{out, in, int(n), p.words};
    if (cudaError_t e = launch_overlapped(prepare_few, sm_count(), kPrepareThreads, 0, stream, f, FewWords::count(int(few)))) return launched(e);
    return launched(launch_overlapped(n % kFewTile ? scan_few<false> : scan_few<true>, few, kFewThreads, kFewTile / 1024 * kAheadBytes, stream, f));
  }
  const int shared = kStages * kTileBytes;
  if (cudaError_t e = cudaFuncSetAttribute(scan, cudaFuncAttributeMaxDynamicSharedMemorySize, shared)) return launched(e);
  if (cudaError_t e = launch_zero(p.words, scan_workspace(n), stream)) return launched(e);
  return launched(launch_overlapped(scan, std::min<int64_t>(p.tiles, sm_count()), kThreads, shared, stream, p));
}

}  // namespace orrery::kernels
