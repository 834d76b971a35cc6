// A mixture of experts in one launch: both products of every expert, the activation between them, and the weighted sum of each token's experts.
//
// Tiles are tasks, and so are pieces of the sums; moe_tasks.cuh has their order and why nobody waits for ever. A block has the frame of the other products
// (gemm_persistent.cuh): ping-pong in tiles of 128 x 128, or two warpgroups that share tiles of 128 x 256.
//
//   producer of A  waits until the tiles of the first product that one of the second needs have been counted, then loads as ever
//   producer of B  weights: never waits for anything but a free stage, so that memory is busy across the border of two products
//   scheduler      takes tasks
//   consumers      with a gate one half of a tile's columns of the first product are the gate's and the others the same ones of what it opens, so that a thread has
//                  both of an element
//
// Between the products: a consumer warp that has stored its part of a tile of the first one counts (red.release) in the word of the tile's rows, and whoever loads
// these rows has seen all columns counted (ld.acquire). Stores by the copy engine have been waited for by then; ordinary ones are told to it by a proxy fence at both ends.
//
// Not here: routing (top_k, sort_u32, gather_rows), experts on other GPUs, e4m3.
#include <algorithm>

#include "arguments.h"
#include "gemm_persistent.cuh"
#include "launch.h"
#include "moe_tasks.cuh"
#include "tensor_map.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

template <class T, bool kPingPong>
using MoeTile = GemmTile<T, T, false, false, 2, kPingPong ? 2 : 1, kPingPong ? 128 : 256, 1, !kPingPong, false, persistent_ring(2)>;
constexpr int kBoxA = 64;  // rows of a copy of A: a tile has two, or one where its rows end before

template <class Tile>
struct MoeShared : PersistentShared<Tile> {
  TaskSlots slots;
  __device__ __forceinline__ explicit MoeShared(uint32_t raw) : PersistentShared<Tile>(raw), slots{this->turn + 16} {}
  static_assert(Tile::kStages * 16 + 16 + TaskSlots::kBytes <= 512);
};

/// Fills stages of `bytes` for all of K: copy(stage, barrier, step).
template <class Tile, class Copy>
__device__ __forceinline__ void fill_stages(const Ring<Tile>& ring, Position<Tile::kStages>& pos, int steps, uint32_t bytes, Copy copy) {
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    const uint32_t full = ring.full_bar(pos.stage);
    ptx::mbarrier_wait(ring.empty_bar(pos.stage), pos.phase ^ 1);
    ptx::mbarrier_arrive_expect_tx(full, bytes);
    copy(pos.stage, full, step);
    pos.next();
  }
}

template <class Tile>
__device__ __forceinline__ void produce_rows(const MoeParams& p, const MoeShared<Tile>& shared) {
  Position<Tile::kStages> pos(0);
  for (uint32_t n = 0;; n++) {
    const Task t = shared.slots.read(n);
    if (t.kind == Task::kNone) return;
    if (t.kind == Task::kCombine) continue;
    const GemmParams& g = t.kind == Task::kFirst ? p.first : p.second;
    if (t.kind == Task::kSecond) {
      ptx::await_count(p.counters + MoeCounters::kReady + t.ready, p.first.tiles_n * Tile::kConsumerWarps);
      ptx::fence_proxy_async_global();
    }
    const bool both = t.row0 + kBoxA < t.end;
    fill_stages(shared.ring, pos, g.k_steps, kBoxA * 128 * (1 + both), [&](int stage, uint32_t full, int step) {
      ptx::tma_load_2d(shared.ring.a(stage), &g.a, full, step * Tile::kSlabK, t.row0, ptx::kEvictNormal);
      if (both) ptx::tma_load_2d(shared.ring.a(stage) + kBoxA * 128, &g.a, full, step * Tile::kSlabK, t.row0 + kBoxA, ptx::kEvictNormal);
    });
  }
}

template <class Tile, bool kGated>
__device__ __forceinline__ void produce_weights(const MoeParams& p, const MoeShared<Tile>& shared) {
  Position<Tile::kStages> pos(0);
  for (uint32_t n = 0;; n++) {
    const Task t = shared.slots.read(n);
    if (t.kind == Task::kNone) return;
    if (t.kind == Task::kCombine) continue;
    const bool pairs = kGated && t.kind == Task::kFirst;
    const GemmParams& g = t.kind == Task::kFirst ? p.first : p.second;
    const int row0 = t.group * g.e.n * (1 + pairs) + t.column * (pairs ? Tile::kTileN / 2 : Tile::kTileN);
    fill_stages(shared.ring, pos, g.k_steps, Tile::kBytesB, [&](int stage, uint32_t full, int step) {
      ptx::tma_load_2d(shared.ring.b(stage), &g.b, full, step * Tile::kSlabK, row0, g.hint_b);
      if (pairs) ptx::tma_load_2d(shared.ring.b(stage) + Tile::kBytesB / 2, &g.b, full, step * Tile::kSlabK, row0 + g.e.n, g.hint_b);
    });
  }
}

/// A warp has stored its part of a tile.
__device__ __forceinline__ void tell_stored(unsigned* counter) {
  const bool one = threadIdx.x % 32 == 0;
  if (one) ptx::bulk_wait_group<0>();
  ptx::fence_proxy_async_global();
  __syncwarp();
  ptx::red_release_if(counter, 1, one);
}

/// Calls body with the activation as a value that is known where it is compiled.
template <class Body>
__device__ __forceinline__ void with_activation(Activation a, Body body) {
  switch (a) {
    case Activation::kRelu: return body(std::integral_constant<Activation, Activation::kRelu>());
    case Activation::kGelu: return body(std::integral_constant<Activation, Activation::kGelu>());
    case Activation::kSilu: return body(std::integral_constant<Activation, Activation::kSilu>());
    default: return body(std::integral_constant<Activation, Activation::kNone>());
  }
}

/// Activates and stores a warpgroup's part of a tile of the first product.
template <class Tile, bool kGated>
__device__ __forceinline__ void store_between(const MoeParams& p, const Task& t, float (&acc)[Tile::kBlocks][Tile::kTileN / 2], uint32_t staging, int row0) {
  constexpr int kWidth = kGated ? Tile::kTileN / 2 : Tile::kTileN;
  with_activation(p.first.e.activation, [&](auto a) {
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int i = 0; i < kWidth / 2; i++) {
        acc[block][i] = activate(acc[block][i], decltype(a)::value);
        if constexpr (kGated) acc[block][i] *= acc[block][i + kWidth / 2];
      }
  });
  if constexpr (kGated) {
    float narrow[Tile::kBlocks][kWidth / 2];
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int i = 0; i < kWidth / 2; i++) narrow[block][i] = acc[block][i];
    store_tile<Tile::kBlocks, kWidth, false, true>(p.first, narrow, staging, row0, t.column * kWidth, t.end);
  } else {
    store_tile<Tile::kBlocks, kWidth, false, true>(p.first, acc, staging, row0, t.column * kWidth, t.end);
  }
}

/// The tasks of a warpgroup in the block's list of them: every one, or every second.
template <bool kPingPong>
struct OwnTasks {
  uint32_t n = kPingPong ? ptx::warpgroup() - 1 : 0;
  __device__ __forceinline__ Task next(const TaskSlots& slots) {
    const Task t = slots.read_by_warp(n);
    n += kPingPong ? 2 : 1;
    return t;
  }
};

/// Returns the first task that is no product.
template <class Tile, bool kPingPong, bool kGated>
__device__ __forceinline__ Task consume_products(const MoeParams& p, const MoeShared<Tile>& shared, OwnTasks<kPingPong>& tasks) {
  const int group = ptx::warpgroup() - 1, group_row = kPingPong ? 0 : group * Tile::kGroupRows;
  const uint32_t staging = shared.staging + (threadIdx.x / 32 - 4) * kStagingPerWarp;
  const Release release(p.first, ClusterPlace(p.first), shared.ring.empty);
  float acc[Tile::kBlocks][Tile::kTileN / 2];
  for (uint32_t use = 0;; use++) {
    const Task t = tasks.next(shared.slots);
    if (t.kind > Task::kSecond) return t;
    if constexpr (kPingPong) ptx::mbarrier_wait(shared.turn + group * 8, (use & 1) ^ (group == 0));
    multiply(release, shared.ring, t.count, t.kind == Task::kFirst ? p.first.k_steps : p.second.k_steps, group_row, acc, [&] {
      if (kPingPong && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(shared.turn + (group ^ 1) * 8);
    });
    const int row0 = t.row0 + group_row;
    if (t.kind == Task::kFirst) store_between<Tile, kGated>(p, t, acc, staging, row0);
    else store_tile<Tile::kBlocks, Tile::kTileN, false, true>(p.second, acc, staging, row0, t.column * Tile::kTileN, t.end);
    tell_stored(p.counters + (t.kind == Task::kFirst ? MoeCounters::kReady + t.ready : MoeCounters::kStored));
  }
}

__device__ __forceinline__ void store_sums(const MoeParams& p, const float (&sum)[8], int64_t token, int column) {
  const int64_t at = token * p.out_stride + column;
  if (p.out_aligned && column + 8 <= p.second.e.n) {
    if (p.out_type == DType::kF32) {
#pragma unroll
      for (int h = 0; h < 2; h++) store_whole(static_cast<float*>(p.out) + at + h * 4, Pack<float>{{sum[h * 4], sum[h * 4 + 1], sum[h * 4 + 2], sum[h * 4 + 3]}});
      return;
    }
    const bool bf16 = p.out_type == DType::kBF16;
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(p.out) + at) =
        make_uint4(pack_pair(sum[0], sum[1], bf16), pack_pair(sum[2], sum[3], bf16), pack_pair(sum[4], sum[5], bf16), pack_pair(sum[6], sum[7], bf16));
    return;
  }
#pragma unroll
  for (int c = 0; c < 8; c++)
    if (column + c < p.second.e.n) store_element(p.out, at + c, p.out_type, sum[c]);
}

/// A unit by a warp, eight columns a lane: rows in the order in which they are named.
template <class T>
__device__ __forceinline__ void combine_unit(const MoeParams& p, int unit, int end) {
  constexpr int kAtOnce = 8;
  const int token = p.by_chunks.divide(unit), lane = threadIdx.x % 32, column = (unit - token * p.by_chunks.divisor) * kUnitColumns + lane * 8;
  int row = -1;
  float weight = 1.f;
  if (lane < p.top_k) {
    row = __ldg(p.token_rows + int64_t(token) * p.top_k + lane);
    if (p.token_weights) weight = __ldg(p.token_weights + int64_t(token) * p.top_k + lane);
  }
  float sum[8] = {};
#pragma unroll 1
  for (int first = 0; first < p.top_k; first += kAtOnce) {
    Pack<T> y[kAtOnce];
    float w[kAtOnce];
    bool there[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) {
      const int from = __shfl_sync(~0u, row, first + j);
      w[j] = __shfl_sync(~0u, weight, first + j);
      there[j] = from >= 0 && from < end;
      if (there[j] && column < p.second.e.n) y[j] = load_whole(static_cast<const T*>(p.second.e.d) + from * p.second.e.d_row_stride + column);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; j++)
      if (there[j]) {
#pragma unroll
        for (int c = 0; c < 8; c++) sum[c] = fmaf(w[j], to_float(y[j].v[c]), sum[c]);
      }
  }
  store_sums(p, sum, token, column);
}

template <class T, bool kPingPong>
__device__ __forceinline__ void combine(const MoeParams& p, const TaskSlots& slots, Task t, OwnTasks<kPingPong>& tasks) {
  constexpr int kWarps = kPingPong ? 4 : 8;
  const int warp = (threadIdx.x / 32 - 4) % kWarps;
  for (bool waited = false; t.kind == Task::kCombine; t = tasks.next(slots)) {
    if (!waited && threadIdx.x % 32 == 0) ptx::await_count(p.counters + MoeCounters::kStored, unsigned(t.ready));
    __syncwarp();
    waited = true;
#pragma unroll 1
    for (int unit = t.row0 + warp; unit < min(t.row0 + kUnits, p.units); unit += kWarps) combine_unit<T>(p, unit, t.end);
  }
}

template <class T, bool kPingPong, bool kGated>
__global__ void __launch_bounds__(384, 1) moe_tasks(const __grid_constant__ MoeParams p) {
  extern __shared__ uint8_t raw[];
  using Tile = MoeTile<T, kPingPong>;
  const MoeShared<Tile> shared(ptx::smem_address(raw));
  const auto init = [&] {
    make_barriers<12, Tile::kStages + 3>([&](int i) {
      if (i < 2) shared.slots.init(i, Tile::kConsumerWarps * 32);
      else if (i == 2) ptx::mbarrier_init(shared.turn, 4), ptx::mbarrier_init(shared.turn + 8, 4);
      else shared.ring.init(p.first, i - 3);
    });
  };
  const auto produce = [&](int producer) {
    if (producer == 0) produce_rows<Tile>(p, shared);
    else produce_weights<Tile, kGated>(p, shared);
  };
  const auto consume = [&] {
    OwnTasks<kPingPong> tasks;
    const Task t = consume_products<Tile, kPingPong, kGated>(p, shared, tasks);
    combine<T>(p, shared.slots, t, tasks);
  };
  const auto schedule = [&] {
    if (ptx::elect_one()) schedule_tasks(p, shared.slots, 2 * Tile::kStages);
  };
  run_warp_roles<2, 40, 232, Dependent::kWhole, true>(false, init, produce, consume, schedule);
  leave_counters(p, shared.slots.at);
}

// --- host -------------------------------------------------------------------------------------------------

int64_t rounded(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }

/// Bytes of the counters, of what is between the products, and of y.
struct Workspace {
  static constexpr int64_t kCounters = MoeCounters::kWords * 4;
  int64_t between, y, pitch_between, pitch_y;
  explicit Workspace(const MoeArgs& a) : pitch_between(rounded(a.inner, 8)), pitch_y(rounded(a.hidden, 8)) {
    between = rounded(product(product(a.rows, pitch_between), 2), 256), y = rounded(product(product(a.rows, pitch_y), 2), 256);
  }
  int64_t bytes() const { return kCounters + between + y; }
};

/// What is launched, and of what tiles.
struct MoeKernel {
  DType type;
  bool gated;
  GemmConfig::Schedule schedule;
  int tile_n, task_warps;
  void (*function)(MoeParams);
};

template <class T, bool kPingPong, bool kGated>
MoeKernel moe_kernel(DType t) {
  using Tile = MoeTile<T, kPingPong>;
  return {t, kGated, kPingPong ? GemmConfig::Schedule::kPingPong : GemmConfig::Schedule::kCooperative, Tile::kTileN, Tile::kConsumerWarps, moe_tasks<T, kPingPong, kGated>};
}

const MoeKernel* find(const MoeArgs& a) {
  using B = __nv_bfloat16;
  static const MoeKernel all[] = {moe_kernel<B, true, true>(DType::kBF16),     moe_kernel<B, false, true>(DType::kBF16),     moe_kernel<B, true, false>(DType::kBF16),
                                  moe_kernel<B, false, false>(DType::kBF16),   moe_kernel<__half, true, true>(DType::kF16),  moe_kernel<__half, false, true>(DType::kF16),
                                  moe_kernel<__half, true, false>(DType::kF16), moe_kernel<__half, false, false>(DType::kF16)};
  GemmConfig c = a.config;
  if (c.schedule == GemmConfig::Schedule::kAuto)
    c.schedule = a.rows / std::max(1, a.groups) >= 2048 ? GemmConfig::Schedule::kCooperative : GemmConfig::Schedule::kPingPong;
  for (const MoeKernel& k : all)
    if (k.type == a.x.dtype && k.gated == a.gated && k.schedule == c.schedule && (c.tile_m == 0 || (c.tile_m == kMoeTileM && c.tile_n == k.tile_n))) return &k;
  return nullptr;
}

bool nothing_routed(const MoeArgs& a) { return a.rows == 0 || a.groups == 0; }

Status check_sizes(const MoeArgs& a) {
  constexpr int64_t kMax = int64_t(1) << 31;
  if (a.tokens < 0 || a.tokens >= kMax) return bad("tokens", "must be in [0, 2^31)");
  if (a.rows < 0 || a.rows >= kMax) return bad("rows", "must be in [0, 2^31)");
  if (a.hidden < 1 || a.hidden >= kMax) return bad("hidden", "must be in [1, 2^31)");
  if (a.inner < 1 || a.inner >= kMax) return bad("inner", "must be in [1, 2^31)");
  if (a.groups < 0 || a.groups * a.hidden >= kMax || a.groups * a.inner * (a.gated ? 2 : 1) >= kMax)
    return bad("groups", "must not be negative, and rows of all groups' w1 and w2 less than 2^31");
  if (a.rows / kMoeTileM + a.groups > 1 << 17) return bad("rows", "must be so few that rows / 128 + groups is at most 2^17");
  if (a.top_k < 1 || a.top_k > 32) return bad("top_k", "must be in [1, 32]");
  const int64_t chunks = (a.hidden + kUnitColumns - 1) / kUnitColumns;
  if (a.tokens * chunks >= kMax) return bad("tokens", "must be so few that tokens * ceil(hidden / 256) is less than 2^31");
  const int64_t columns = (a.inner + 63) / 64 + (a.hidden + 127) / 128;
  if ((a.rows / kMoeTileM + a.groups) * columns + a.tokens * chunks / kUnits >= kMax - (1 << 20)) return bad("rows", "make more than 2^31 tasks");
  if (!known(a.activation)) return bad("activation", "is none of those there are");
  return {};
}

Status check_operands(const MoeArgs& a) {
  if (!a.group_ends || !aligned(a.group_ends, 4)) return bad("group_ends", "is null or misaligned");
  if (a.x.dtype != DType::kF16 && a.x.dtype != DType::kBF16) return bad("x.dtype", "must be f16 or bf16");
  if (!a.x.data || !aligned(a.x.data, 16)) return bad("x.data", "is null or not 16-byte aligned");
  if (a.x.col_stride != 1 || a.x.row_stride < a.hidden || a.x.row_stride % 8) return bad("x strides", "must be 1 along hidden, and along rows a multiple of 8 and at least hidden");
  if (!a.w1 || !aligned(a.w1, 16)) return bad("w1", "is null or not 16-byte aligned");
  if (a.w1_stride < a.hidden || a.w1_stride % 8) return bad("w1_stride", "must be a multiple of 8 and at least hidden");
  if (!a.w2 || !aligned(a.w2, 16)) return bad("w2", "is null or not 16-byte aligned");
  if (a.w2_stride < a.inner || a.w2_stride % 8) return bad("w2_stride", "must be a multiple of 8 and at least inner");
  return {};
}

Status check(const MoeArgs& a) {
  if (Status s = check_sizes(a); !s.ok()) return s;
  if (a.tokens == 0) return {};
  const bool some = !nothing_routed(a);
  if (some)
    if (Status s = check_operands(a); !s.ok()) return s;
  if (!a.token_rows || !aligned(a.token_rows, 4)) return bad("token_rows", "is null or misaligned");
  if (Status s = check_floats({{"token_weights", a.token_weights}}); !s.ok()) return s;
  if (a.out.dtype != DType::kF16 && a.out.dtype != DType::kBF16 && a.out.dtype != DType::kF32) return bad("out.dtype", "must be f16, bf16 or f32");
  if (!a.out.data || !aligned(a.out.data, size_of(a.out.dtype))) return bad("out.data", "is null or misaligned");
  if (a.out.col_stride != 1 || a.out.row_stride < a.hidden) return bad("out strides", "must be 1 along hidden, and at least hidden along tokens");
  if (!a.workspace || !aligned(a.workspace, 256)) return bad("workspace", "is null or not 256-byte aligned");
  const int64_t routed = some ? a.rows : 0, groups = some ? a.groups : 0, lists = a.tokens * a.top_k * 4;
  const Extent x = matrix("x strides", a.x.data, routed, a.hidden, a.x.row_stride, 1, 2), w2 = matrix("w2_stride", a.w2, groups * a.hidden, a.inner, a.w2_stride, 1, 2);
  const Extent w1 = matrix("w1_stride", a.w1, groups * a.inner * (a.gated ? 2 : 1), a.hidden, a.w1_stride, 1, 2);
  const Extent out = matrix("out.data", a.out.data, a.tokens, a.hidden, a.out.row_stride, 1, size_of(a.out.dtype));
  const Extent workspace = dense("workspace", a.workspace, Workspace(a).bytes());
  const Extent ends = dense("group_ends", a.group_ends, groups * 4), rows = dense("token_rows", a.token_rows, lists), weights = dense("token_weights", a.token_weights, lists);
  for (const Extent& e : {x, w1, w2})
    if (span(e) == kMostBytes) return bad(e.name, "is too large");
  if (span(out) == kMostBytes) return bad("out strides", "are too large");
  if (workspace.bytes >= kMostBytes) return bad("rows", "are too many for a workspace");
  if (Status s = apart(out, {x, w1, w2, ends, rows, weights, workspace}); !s.ok()) return s;
  return apart(workspace, {x, w1, w2, ends, rows, weights});
}

/// A product of rows x k with groups x n x k, whose rows of `pitch` go to `d`.
bool encode(const MoeArgs& a, GemmParams* p, const void* from, int64_t from_pitch, int64_t k, const void* w, int64_t w_rows, int64_t w_pitch, uint32_t w_box, void* d, int64_t n, int64_t pitch) {
  const auto type = tensor_map_type(a.x.dtype);
  const auto map = [&](CUtensorMap* to, const void* data, int64_t cols, int64_t rows, int64_t stride, uint32_t box_rows) {
    const uint64_t sizes[2] = {uint64_t(cols), uint64_t(rows)}, pitches[1] = {uint64_t(stride) * 2};
    const uint32_t box[2] = {64, box_rows};
    return encode_tensor_map(to, type, 2, data, sizes, pitches, box);
  };
  p->e.d = d, p->e.d_row_stride = pitch, p->e.n = int(n);
  p->k_steps = int((k + 63) / 64);
  p->tma_store = n % 8 == 0;
  return map(&p->a, from, k, a.rows, from_pitch, kBoxA) && map(&p->b, w, k, w_rows, w_pitch, w_box) && (!p->tma_store || map(&p->d, d, n, a.rows, pitch, 16));
}

bool fill(const MoeArgs& a, const MoeKernel& kernel, MoeParams* p) {
  const int width = a.gated ? kernel.tile_n / 2 : kernel.tile_n;  // columns that a tile of the first product leaves
  for (GemmParams* g : {&p->first, &p->second}) {
    g->e.d_col_stride = 1, g->e.dtype = a.x.dtype, g->e.alpha = 1.f, g->e.m = int(a.rows), g->e.linear = true, g->e.activation = a.activation;
    g->cluster_m = g->cluster_n = g->split = 1, g->hint_b = a.rows <= 64 * int64_t(a.groups) ? ptx::kEvictFirst : ptx::kEvictNormal;  // weights that are read once
    g->group_ends = a.group_ends, g->groups = nothing_routed(a) ? 0 : a.groups;
  }
  p->first.tiles_n = int((a.inner + width - 1) / width), p->second.tiles_n = int((a.hidden + kernel.tile_n - 1) / kernel.tile_n);
  p->task_warps = kernel.task_warps;
  const int64_t chunks = (a.hidden + kUnitColumns - 1) / kUnitColumns;
  p->counters = static_cast<unsigned*>(a.workspace);
  p->token_rows = a.token_rows, p->token_weights = a.token_weights, p->top_k = int(a.top_k);
  p->units = int(a.tokens * chunks), p->by_chunks = FastDivide(uint32_t(chunks));
  p->out = a.out.data, p->out_stride = a.out.row_stride, p->out_type = a.out.dtype;
  p->out_aligned = aligned(a.out.data, 16) && a.out.row_stride * size_of(a.out.dtype) % 16 == 0;
  const Workspace w(a);
  char* const between = static_cast<char*>(a.workspace) + Workspace::kCounters;
  p->second.e.d = between + w.between, p->second.e.d_row_stride = w.pitch_y, p->second.e.n = int(a.hidden);
  if (nothing_routed(a)) return true;
  return encode(a, &p->first, a.x.data, a.x.row_stride, a.hidden, a.w1, a.groups * a.inner * (a.gated ? 2 : 1), a.w1_stride, width, between, a.inner, w.pitch_between) &&
         encode(a, &p->second, between, w.pitch_between, a.inner, a.w2, a.groups * a.hidden, a.w2_stride, kernel.tile_n, between + w.between, a.hidden, w.pitch_y);
}

}  // namespace

size_t moe_workspace(const MoeArgs& args) { return check_sizes(args).ok() ? size_t(Workspace(args).bytes()) : 0; }

Status moe(const MoeArgs& a, cudaStream_t stream) {
  if (Status s = check(a); !s.ok()) return s;
  if (a.tokens == 0) return {};
  const MoeKernel* const kernel = find(a);
  if (!kernel) return bad("config", "names no kernel");
  MoeParams p{};
  if (!fill(a, *kernel, &p)) return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  const int64_t row_tiles = p.first.groups ? a.rows / kMoeTileM + a.groups : 0;
  const int64_t blocks = std::min<int64_t>(sm_count(), row_tiles * std::max(p.first.tiles_n, p.second.tiles_n) + (p.units + kUnits - 1) / kUnits);
  if (cudaError_t e = cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize, kPersistentShared)) return launched(e);
  return launched(launch_overlapped(kernel->function, blocks, 384, kPersistentShared, stream, p));
}

}  // namespace orrery::kernels
