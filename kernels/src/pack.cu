// Pack and unpack: elements of a nested strided layout to and from a dense array.
//
// A layout is a list of (count, stride) from the outermost to the innermost, as nested vector datatypes are. Loops that
// follow each other without a gap are joined first, and the innermost contiguous run is moved in the widest pieces that
// its length and all strides and addresses allow. A thread moves one piece; its place is worked out by multiplications.
//
// Between one wave of pieces and four a launch is a block an SM with so much shared memory that the block of the next launch starts on an SM
// when this one's ends, and asks L2 to bring half of what it will read while this launch still stores (as reduce.cu does): whole runs, by the bulk
// engine. What a prefetch instruction for each piece brings is thought to be whole lines, twice what runs of 64 bytes in 128 need (NOTES.md).
#include <cstdint>

#include "arguments.h"
#include "gemm_params.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kMost = StridedLayout::kMostRank + 1;
constexpr int kFewThreads = 1024, kFewPieces = 4, kFewShared = 120 * 1024;
constexpr int kAsked = 2;  // of a thread's few pieces

struct Loops {
  int rank = 0;
  FastDivide count[kMost];  // innermost first, in pieces
  int64_t stride[kMost];    // bytes
};

/// kPieces of a thread lie a grid apart; with more than one the first kAsked are brought to L2 before the wait, each run (of a long one, 512
/// bytes) by the thread of its first piece.
template <class V, bool kPack, int kCount, int kPieces>
__global__ void __launch_bounds__(kCount) move_pieces(V* out, const V* in, int64_t pieces, const Loops loops) {
  ptx::griddepcontrol_launch_dependents();
  const int64_t first = int64_t(blockIdx.x) * kCount + threadIdx.x, stride = int64_t(gridDim.x) * kCount;
  if (first >= pieces) return;
  const auto at = [](auto* p, int64_t bytes) { return reinterpret_cast<decltype(p)>(reinterpret_cast<uintptr_t>(p) + bytes); };
  int64_t offset[kPieces];
#pragma unroll
  for (int u = 0; u < kPieces; u++) {
    uint32_t rest = uint32_t(first + u * stride);
    // What is asked for at once: up to 32 pieces of a run, or of what is dense.
    const uint32_t of_run = kPack ? loops.count[0].divisor : uint32_t(pieces), in_run = kPack ? rest - loops.count[0].divide(rest) * of_run : rest;
    const uint32_t asked = in_run % 32 == 0 ? min(min(of_run - in_run, 32u), uint32_t(pieces) - rest) * uint32_t(sizeof(V)) : 0;
    offset[u] = 0;
#pragma unroll
    for (int d = 0; d < kMost; d++) {
      if (d >= loops.rank) break;
      const uint32_t next = d + 1 < loops.rank ? loops.count[d].divide(rest) : 0;
      offset[u] += int64_t(rest - next * loops.count[d].divisor) * loops.stride[d];
      rest = next;
    }
    if (kPieces > 1 && u < kAsked && asked && first + u * stride < pieces) ptx::bulk_prefetch(kPack ? at(in, offset[u]) : in + first + u * stride, asked);
  }
  ptx::griddepcontrol_wait();
  V v[kPieces];
#pragma unroll
  for (int u = 0; u < kPieces; u++)
    if (u == 0 || first + u * stride < pieces) v[u] = kPack ? *at(in, offset[u]) : in[first + u * stride];
#pragma unroll
  for (int u = 0; u < kPieces; u++)
    if (u == 0 || first + u * stride < pieces) *(kPack ? out + first + u * stride : at(out, offset[u])) = v[u];
}

template <bool kPack>
Status check(const void* strided, const void* packed, const StridedLayout& l, int64_t* total) {
  constexpr const char *strided_name = kPack ? "in" : "out", *dense_name = kPack ? "out" : "in";
  *total = 1;
  if (l.rank < 0 || l.rank > StridedLayout::kMostRank) return bad("layout.rank", "must be in [0, 5]");
  if (l.element_bytes < 1 || l.element_bytes > 1 << 20) return bad("layout.element_bytes", "must be in [1, 2^20]");
  for (int d = 0; d < l.rank; d++) {
    if (l.count[d] < 0 || l.count[d] >= int64_t(1) << 31) return bad("layout.count", "must be in [0, 2^31)");
    if (l.stride[d] < 0) return bad("layout.stride", "must not be negative");
    if (l.count[d] > 0 && *total > (int64_t(1) << 31) / l.count[d]) return bad("layout.count", "makes more than 2^31 elements");
    *total *= l.count[d];
  }
  if (*total == 0) return {};
  if (*total * l.element_bytes >= int64_t(1) << 35) return bad("layout", "holds 32 GiB or more");
  if (!strided) return bad(strided_name, "is null");
  if (!packed) return bad(dense_name, "is null");
  int64_t end = l.element_bytes;  // of the strided side; what lies between its elements counts as its own
  for (int d = 0; d < l.rank; d++) end += product(l.count[d] - 1, l.stride[d]);
  if (end >= kMostBytes) return bad("layout.stride", "is too large");
  const Extent places = dense(strided_name, strided, end), whole = dense(dense_name, packed, *total * l.element_bytes);
  return apart(kPack ? whole : places, {kPack ? places : whole});
}

/// The layout as loops over pieces of `width` bytes, joined where nothing lies between.
Loops loops_of(const StridedLayout& l, int width) {
  Loops out;
  int64_t count = l.element_bytes / width, stride = width;  // of the loop being gathered, innermost first
  for (int d = l.rank - 1; d >= 0; d--) {
    if (l.count[d] == 1) continue;
    if (l.stride[d] == count * stride) {
      count *= l.count[d];
      continue;
    }
    out.count[out.rank] = FastDivide(uint32_t(count)), out.stride[out.rank++] = stride;
    count = l.count[d], stride = l.stride[d];
  }
  out.count[out.rank] = FastDivide(uint32_t(count)), out.stride[out.rank++] = stride;
  return out;
}

/// The innermost loops without gaps become part of the element.
StridedLayout with_runs(StridedLayout l) {
  while (l.rank > 0 && (l.count[l.rank - 1] == 1 || l.stride[l.rank - 1] == l.element_bytes)) l.element_bytes *= l.count[--l.rank];
  return l;
}

template <bool kPack>
Status run(void* out, const void* in, const StridedLayout& l, int64_t total, cudaStream_t stream) {
  const StridedLayout runs = with_runs(l);
  uint64_t bits = reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(in) | uint64_t(runs.element_bytes);
  for (int d = 0; d < runs.rank; d++)
    if (runs.count[d] > 1) bits |= uint64_t(runs.stride[d]);
  const auto go = [&](auto piece) {
    using V = decltype(piece);
    const int64_t pieces = total * l.element_bytes / int64_t(sizeof(V));
    if (pieces >= int64_t(1) << 31) return bad("layout", "holds too many pieces for its alignment");
    const auto start = [&](auto kernel, int threads, int each, int shared) {
      const int64_t of_block = int64_t(threads) * each;
      return launched(launch_overlapped(kernel, (pieces + of_block - 1) / of_block, threads, shared, stream, static_cast<V*>(out),
                                        static_cast<const V*>(in), pieces, loops_of(runs, int(sizeof(V)))));
    };
    if constexpr (sizeof(V) == 16)
      if (const int64_t wave = int64_t(sm_count()) * kFewThreads; pieces > wave && pieces <= wave * kFewPieces) {
        const auto few = move_pieces<V, kPack, kFewThreads, kFewPieces>;
        if (cudaError_t e = cudaFuncSetAttribute(few, cudaFuncAttributeMaxDynamicSharedMemorySize, kFewShared)) return launched(e);
        return start(few, kFewThreads, kFewPieces, kFewShared);
      }
    return start(move_pieces<V, kPack, kThreads, 1>, kThreads, 1, 0);
  };
  if (bits % 16 == 0) return go(uint4{});
  if (bits % 8 == 0) return go(uint2{});
  if (bits % 4 == 0) return go(uint32_t{});
  if (bits % 2 == 0) return go(uint16_t{});
  return go(uint8_t{});
}

}  // namespace

Status pack(void* out, const void* in, const StridedLayout& layout, cudaStream_t stream) {
  int64_t total;
  if (Status s = check<true>(in, out, layout, &total); !s.ok() || total == 0) return s;
  return run<true>(out, in, layout, total, stream);
}
Status unpack(void* out, const void* in, const StridedLayout& layout, cudaStream_t stream) {
  int64_t total;
  if (Status s = check<false>(out, in, layout, &total); !s.ok() || total == 0) return s;
  return run<false>(out, in, layout, total, stream);
}

}  // namespace orrery::kernels
