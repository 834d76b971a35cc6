// What growing gradient-boosted trees spends its time on: sums of vector-valued gradients by node, feature and bin, and the best split of each node.
//
// Sums are of integers, each gradient rounded once to units of 1 / scale: they are the same whatever the order, and the same on every device. A block
// takes a piece of the samples in the order of their nodes and four features, keeps sums of 64 bits in two words of shared memory (an atomic
// addition to the low one says whether the high one changes, which is rare), and adds them to the result when the node changes. Splits compare sums of
// those integers, exact up to one conversion each to double. Not here: the order of samples by node (sort_u32 makes it), bins of features, leaves.
#include <algorithm>

#include "arguments.h"
#include "launch.h"
#include "warp_sum.cuh"

namespace orrery::kernels {
namespace {

constexpr int kFeatures = 4, kThreads = 512, kMostBins = 256, kMostOutputs = 16;
constexpr int64_t kLeastPiece = 4096;

struct HistogramParams {
  int64_t* sums;
  uint32_t* counts;
  const uint8_t* bins;
  const float* gradients;
  const int32_t *order, *begin;
  int64_t pitch, samples, piece;
  int features, bin_count, outputs, nodes;
  float scale;
};

/// The last node that begins at or before sample `at` of the order.
__device__ __forceinline__ int node_at(const HistogramParams& p, int64_t at) {
  int low = 0, high = p.nodes - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (p.begin[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

__global__ void __launch_bounds__(kThreads) histograms(HistogramParams p) {
  extern __shared__ uint32_t shared[];
  begin_overlapped();
  // Of each feature: the low words of sums by output and bin, the high ones, and counts by bin.
  const int cells = p.outputs * p.bin_count, per_feature = 2 * cells + p.bin_count;
  const int first = int(blockIdx.y) * kFeatures, here = min(kFeatures, p.features - first);
  int64_t at = blockIdx.x * p.piece;
  const int64_t end = min(at + p.piece, p.samples);
  for (int node = node_at(p, at); node < p.nodes && at < end; node++) {
    const int64_t from = max(at, int64_t(p.begin[node])), to = min(end, int64_t(p.begin[node + 1]));
    if (from >= to) continue;  // the same for all threads
    for (int i = threadIdx.x; i < here * per_feature; i += kThreads) shared[i] = 0;
    __syncthreads();
    // The next sample's bins are asked for before this one's gradients are added.
    int32_t sample = -1, next = -1;
    uint32_t four = 0, next_four = 0;
    const auto fetch = [&](int64_t i) {
      next = i < to ? p.order[i] : -1;
      if (next >= p.samples) next = -1;
      if (next >= 0) next_four = *reinterpret_cast<const uint32_t*>(p.bins + next * p.pitch + first);
    };
    fetch(from + threadIdx.x);
    for (int64_t i = from + threadIdx.x; i < to; i += kThreads) {
      sample = next, four = next_four;
      fetch(i + kThreads);
      if (sample < 0) continue;
      uint32_t* slot[kFeatures];
#pragma unroll
      for (int f = 0; f < kFeatures; f++) {
        const int bin = four >> (8 * f) & 0xff;
        slot[f] = f < here && bin < p.bin_count ? shared + f * per_feature + bin : nullptr;
        if (slot[f]) atomicAdd(slot[f] + 2 * cells, 1u);
      }
      for (int o = 0; o < p.outputs; o++) {
        const int32_t q = __float2int_rn(p.gradients[int64_t(sample) * p.outputs + o] * p.scale);
#pragma unroll
        for (int f = 0; f < kFeatures; f++) {
          if (!slot[f]) continue;
          uint32_t* const low = slot[f] + o * p.bin_count;
          const uint32_t before = atomicAdd(low, uint32_t(q));
          const uint32_t carry = uint32_t(q >> 31) + (before + uint32_t(q) < before);
          if (carry) atomicAdd(low + cells, carry);
        }
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < here * cells; i += kThreads) {
      const int f = i / cells, cell = i - f * cells;
      const uint32_t* const low = shared + f * per_feature + cell;
      const uint64_t sum = uint64_t(low[cells]) << 32 | low[0];
      if (sum) atomicAdd(reinterpret_cast<unsigned long long*>(p.sums) + (int64_t(node) * p.features + first + f) * cells + cell, static_cast<unsigned long long>(sum));
    }
    for (int i = threadIdx.x; i < here * p.bin_count; i += kThreads) {
      const int f = i / p.bin_count, bin = i - f * p.bin_count;
      if (const uint32_t count = shared[f * per_feature + 2 * cells + bin]) atomicAdd(p.counts + (int64_t(node) * p.features + first + f) * p.bin_count + bin, count);
    }
    __syncthreads();
    at = to;
  }
}

/// A split and what it gains; the better of two is that of higher gain, of equal ones the one of the lower place.
struct Best {
  double gain;
  int place;
  __device__ __forceinline__ void better(double other_gain, int other_place) {
    if (other_gain > gain || (other_gain == gain && other_place < place)) gain = other_gain, place = other_place;
  }
  __device__ __forceinline__ void over_warp() {
#pragma unroll
    for (int d = 16; d; d /= 2) better(__shfl_xor_sync(~0u, gain, d), __shfl_xor_sync(~0u, place, d));
  }
};
constexpr int kNowhere = 0x7fffffff;

struct SplitParams {
  const int64_t* sums;
  const uint32_t* counts;
  Best* of_feature;  // nodes x features
  int32_t* split;
  double* gain;
  int features, bin_count, outputs;
  int64_t least_count;
  double unit, l2;
  TreeScore score;
};

/// What leaves are worth whose sums have squares `left` and `right`; a side of no samples has a sum of zero.
__device__ __forceinline__ double worth(const SplitParams& p, double left, double right, double left_count, double right_count) {
  const double l = left_count > 0 ? 1 / (left_count + p.l2) : 0, r = right_count > 0 ? 1 / (right_count + p.l2) : 0;
  const double along = left * l + right * r;
  if (p.score == TreeScore::kL2) return along;
  const double size = left * l * l * left_count + right * r * r * right_count;
  return size > 0 ? along / sqrt(size) : 0;
}

/// A warp a node and feature; a lane has the sums up to each of its bins.
__global__ void __launch_bounds__(32) best_of_feature(SplitParams p) {
  constexpr int kPer = kMostBins / 32;
  begin_overlapped();
  const int lane = threadIdx.x;
  const int64_t histogram = int64_t(blockIdx.x) * p.features + blockIdx.y;
  double left[kPer] = {}, right[kPer] = {}, whole = 0;
  int64_t upto[kPer];
  const auto scan = [&](const auto* values) {  // returns the sum of all
    int64_t sum = 0;
#pragma unroll
    for (int j = 0; j < kPer; j++) {
      const int bin = lane * kPer + j;
      if (bin < p.bin_count) sum += values[bin];
      upto[j] = sum;
    }
    const int64_t last = sum_up_to(sum);
#pragma unroll
    for (int j = 0; j < kPer; j++) upto[j] += last - sum;
    return __shfl_sync(~0u, last, 31);
  };
  for (int o = 0; o < p.outputs; o++) {
    const int64_t all = scan(p.sums + (histogram * p.outputs + o) * p.bin_count);
    const double total = double(all) * p.unit;
    whole = fma(total, total, whole);
#pragma unroll
    for (int j = 0; j < kPer; j++) {
      const double l = double(upto[j]) * p.unit, r = double(all - upto[j]) * p.unit;
      left[j] = fma(l, l, left[j]), right[j] = fma(r, r, right[j]);
    }
  }
  const int64_t count = scan(p.counts + histogram * p.bin_count);
  const double before = worth(p, whole, 0, double(count), 0);
  Best best{0, kNowhere};
#pragma unroll
  for (int j = 0; j < kPer; j++) {
    const int bin = lane * kPer + j;
    if (bin >= p.bin_count - 1 || upto[j] < p.least_count || count - upto[j] < p.least_count) continue;
    const double gain = worth(p, left[j], right[j], double(upto[j]), double(count - upto[j])) - before;
    if (gain > 0) best.better(gain, bin);
  }
  best.over_warp();
  if (lane == 0) p.of_feature[histogram] = best;
}

__global__ void __launch_bounds__(32) best_of_node(SplitParams p) {
  begin_overlapped();
  const int64_t node = blockIdx.x;
  Best best{0, kNowhere};
  for (int f = threadIdx.x; f < p.features; f += 32) {
    const Best b = p.of_feature[node * p.features + f];
    if (b.place != kNowhere) best.better(b.gain, f * kMostBins + b.place);
  }
  best.over_warp();
  if (threadIdx.x) return;
  const bool found = best.place != kNowhere;
  p.split[node * 2] = found ? best.place / kMostBins : -1, p.split[node * 2 + 1] = found ? best.place % kMostBins : -1;
  p.gain[node] = best.gain;
}

Status check_sizes(int64_t nodes, int64_t features, int64_t bin_count, int64_t outputs) {
  if (nodes < 1 || nodes > 0x7fffffff) return bad("nodes", "must be in [1, 2^31 - 1]");
  if (features < 1 || features > 65535) return bad("features", "must be in [1, 65535]");
  if (bin_count < 2 || bin_count > kMostBins) return bad("bin_count", "must be in [2, 256]");
  if (outputs < 1 || outputs > kMostOutputs) return bad("outputs", "must be in [1, 16]");
  if (product(product(product(nodes, features), bin_count), outputs * 8) > kMostBytes) return bad("nodes", "is too large");
  return {};
}
struct Where { const char* name; const void* p; uintptr_t alignment; };
Status check_pointers(std::initializer_list<Where> all) {
  for (const Where& w : all) {
    if (!w.p) return bad(w.name, "is null");
    if (!aligned(w.p, w.alignment)) return bad(w.name, "is misaligned");
  }
  return {};
}

}  // namespace

Status tree_histograms(const TreeHistogramArgs& a, cudaStream_t stream) {
  if (Status s = check_sizes(a.nodes, a.features, a.bin_count, a.outputs); !s.ok()) return s;
  if (a.samples < 0 || a.samples > 0x7fffffff) return bad("samples", "must be in [0, 2^31 - 1]");
  if (a.pitch < (a.features + 3) / 4 * 4 || a.pitch % 4 || a.pitch > kMostBytes / 0x7fffffff) return bad("pitch", "must be a multiple of 4, at least features and at most 65536");
  if (!(a.scale > 0) || a.scale > 3e38f) return bad("scale", "must be positive and finite");
  if (a.samples == 0) return {};
  if (Status s = check_pointers({{"sums", a.sums, 8}, {"counts", a.counts, 4}, {"bins", a.bins, 4}, {"gradients", a.gradients, 4}, {"order", a.order, 4}, {"begin", a.begin, 4}}); !s.ok()) return s;
  const int64_t cells = a.nodes * a.features * a.bin_count;
  const Extent sums = dense("sums", a.sums, cells * a.outputs * 8), counts = dense("counts", a.counts, cells * 4), bins = dense("bins", a.bins, a.samples * a.pitch),
               gradients = dense("gradients", a.gradients, a.samples * a.outputs * 4), order = dense("order", a.order, a.samples * 4), begin = dense("begin", a.begin, (a.nodes + 1) * 4);
  if (Status s = apart(sums, {counts, bins, gradients, order, begin}); !s.ok()) return s;
  if (Status s = apart(counts, {bins, gradients, order, begin}); !s.ok()) return s;
  HistogramParams p{a.sums, a.counts, a.bins, a.gradients, a.order, a.begin, a.pitch, a.samples, 0, int(a.features), int(a.bin_count), int(a.outputs), int(a.nodes), a.scale};
  // Adding a block's sums to the result costs as much whatever its piece: pieces are as long as fills the device.
  const size_t shared = size_t(kFeatures) * size_t(2 * a.outputs + 1) * size_t(a.bin_count) * 4;
  const int64_t groups = (a.features + kFeatures - 1) / kFeatures, of_an_sm = std::clamp<int64_t>(int64_t(226 * 1024 / (shared + 1024)), 1, 2048 / kThreads);
  const int64_t blocks = std::max<int64_t>(1, sm_count() * of_an_sm / groups);
  p.piece = std::max(kLeastPiece, (a.samples + blocks - 1) / blocks);
  if (cudaError_t e = cudaFuncSetAttribute(histograms, cudaFuncAttributeMaxDynamicSharedMemorySize, kFeatures * (2 * kMostOutputs + 1) * kMostBins * 4)) return launched(e);
  return launched(launch_grid_overlapped(histograms, dim3(unsigned((a.samples + p.piece - 1) / p.piece), unsigned(groups)), kThreads, shared, stream, p));
}

size_t tree_split_workspace(int64_t nodes, int64_t features) { return nodes > 0 && features > 0 ? size_t(product(product(nodes, features), sizeof(Best))) : 0; }

Status tree_split(const TreeSplitArgs& a, cudaStream_t stream) {
  if (Status s = check_sizes(a.nodes, a.features, a.bin_count, a.outputs); !s.ok()) return s;
  if (!(a.scale > 0) || a.scale > 3e38f) return bad("scale", "must be positive and finite");
  if (!(a.l2 >= 0) || a.l2 > 1e300) return bad("l2", "must not be negative");
  if (a.least_count < 1) return bad("least_count", "must be at least 1");
  if (a.score > TreeScore::kCosine) return bad("score", "is unknown");
  if (Status s = check_pointers({{"split", a.split, 4}, {"gain", a.gain, 8}, {"sums", a.sums, 8}, {"counts", a.counts, 4}, {"workspace", a.workspace, 8}}); !s.ok()) return s;
  const int64_t cells = a.nodes * a.features * a.bin_count;
  const Extent split = dense("split", a.split, a.nodes * 8), gain = dense("gain", a.gain, a.nodes * 8), sums = dense("sums", a.sums, cells * a.outputs * 8), counts = dense("counts", a.counts, cells * 4);
  const Extent workspace = dense("workspace", a.workspace, int64_t(tree_split_workspace(a.nodes, a.features)));
  if (Status s = apart(split, {gain, sums, counts}); !s.ok()) return s;
  if (Status s = apart(gain, {sums, counts}); !s.ok()) return s;
  if (Status s = apart(workspace, {split, gain, sums, counts}); !s.ok()) return s;
  SplitParams p{a.sums, a.counts, static_cast<Best*>(a.workspace), a.split, a.gain, int(a.features), int(a.bin_count), int(a.outputs), a.least_count, 1 / double(a.scale), a.l2, a.score};
  if (cudaError_t e = launch_grid_overlapped(best_of_feature, dim3(unsigned(a.nodes), unsigned(a.features)), 32, 0, stream, p)) return launched(e);
  return launched(launch_overlapped(best_of_node, a.nodes, 32, 0, stream, p));
}

}  // namespace orrery::kernels
