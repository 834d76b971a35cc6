// The time of each kind of operator. Sources of the shapes: measured cuBLAS and attention runs on an H200
// (calib/), which fix `ramp` and the share of bandwidth that a product with few rows reaches.
#include "graph/schedule.h"

#include <algorithm>
#include <cmath>

namespace orrery::graph {

std::string_view name_of(Bound bound) {
  constexpr std::string_view names[] = {"compute", "memory", "link", "latency"};
  return names[static_cast<int>(bound)];
}

namespace {

// Constants of shape, fitted to the calibrating microbenchmarks of calib/raw/h200-model-2026-11-21.jsonl (its
// lines are named by id; none is a row of calib/model-truth).
//
// A kernel that reduces over rows crosses the block and reads again (norm.1x4096 against add.1x4096).
constexpr double kReduceRamp = 3.1e-6;
// A grouped product streams the weights of many small groups at this share (grouped.e64, e16, up to 512
// tokens).
constexpr double kGroupedStream16 = 0.68, kGroupedStream8 = 0.74;
// Output tile of the large matrix kernels; rows of one attention tile.
constexpr double kTileM = 128, kTileN = 256, kTileQ = 128;
// Cycles between dependent loads of a reduction that keeps running moments (DRAM latency of
// calib/raw/h200-2026-11-21.jsonl, and the chain of one update).
constexpr double kSerialLoadCycles = 780;
// Heads of dimension 64 reach this share of the rate at 128 (attention.prefill.d64.4x4096.full).
constexpr double kNarrowHead = 0.72;

// Largest all-reduce that engines join with the norm behind it (vLLM: FlashInfer's kernels, 2 MB over four
// Hopper GPUs; docs.vllm.ai, design/fusions).
constexpr double kJoinedBytes = 2e6;

// Share of whole waves that `tiles` blocks fill.
double filled(double tiles, double sms) { return tiles / (std::ceil(tiles / sms) * sms); }

// Load of the busiest of `ranks` over the mean when each of ranks x mean things falls on one at random: the
// expected maximum of as many nearly normal counts, no more than all or `most` of them.
double busiest_load(double mean, int ranks, double most) {
  if (ranks <= 1 || mean <= 0) return 1;
  // Expected maximum of n normal variables (Blom's approximation of its quantile).
  double p = (ranks - 0.375) / (ranks + 0.25), t = std::sqrt(-2 * std::log(1 - p));
  double z = t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t);
  double load = 1 + z * std::sqrt((1 - 1.0 / ranks) / mean);
  return std::min({load, static_cast<double>(ranks), std::max(1.0, most / mean)});
}

// A serving engine's kernel for experts has tiles for every number of rows; weights of less than 8 bits that the GPU does
// not multiply stream at a part of the rate, as they are widened (vLLM, TensorRT-LLM and SGLang on H200: 0.52 to 0.63 of
// the peak, and 15 us more a product; source and method as in rates.cc).
constexpr double kWidenedExperts = 0.56 / 0.82, kWidenedStart = 15e-6;
bool narrower_than_16(Format format) {
  return format != Format::kBf16 && format != Format::kFp16 && format != Format::kFp32 && format != Format::kTf32;
}
double engine_tile(double rows) { return rows < 12 ? 16 : rows < 24 ? 32 : rows < 48 ? 64 : kTileM; }

// Seconds of an engine's kernel that would take `library` seconds at the library's rate and makes `outputs` elements (its
// constants: serve.cc).
double expert_seconds(const ProgramOp& op, double library, double outputs, bool widened, const Rates& r) {
  const ExpertKernels::Shares& s = r.has_fp4 ? op.engine_experts->blackwell : op.engine_experts->hopper;
  double share = s.in16, depth = s.depth;
  if (widened)
    share = op.format == Format::kMxfp4 ? s.mxfp4 : s.integers;
  else if (op.blocks && tensor_peak(op.format, r) > r.peak16)
    share = s.blocks, depth = s.block_depth;
  else if (tensor_peak(op.format, r) > r.peak16)
    share = op.format == Format::kNvfp4 ? s.nvfp4 : s.in8;
  return library / share + 2 * outputs * depth / r.tensor16;
}

double grouped_seconds(const ProgramOp& op, const Line& line, double rows, const Rates& r, LineTime& t) {
  double hit = op.weight_bytes > 0 ? op.grouped_extent * line.weight / op.weight_bytes : op.grouped_extent;
  double most = busiest_load(hit, op.grouped_ranks, op.grouped_extent);
  double busy = rows * (op.load > 0 ? op.load : busiest_load(rows, op.grouped_ranks, rows * op.grouped_ranks));
  double mean = busy / op.grouped_extent;
  double height = op.engine_experts ? engine_tile(mean) : mean < 48 ? 64 : kTileM;
  double padded = op.grouped_extent * expected_tiles(mean, height) * height;
  double compute = line.ops * padded / std::max(rows, 1e-9) / tensor_rate(op.format, r);
  bool narrow = tensor_peak(op.format, r) > r.peak16, widened = !narrow && narrower_than_16(op.format);
  if (op.engine_experts) compute = expert_seconds(op, compute, padded * op.n_width, widened, r);
  double share = filled(std::max(1.0, hit * most) * std::ceil(op.n_width / kTileM), r.sms);
  double stream = r.read * (narrow ? kGroupedStream8 : kGroupedStream16) * std::max(0.3, share);
  if (op.engine_experts)
    stream = widened                        ? r.experts8 * kWidenedExperts
             : !narrow                      ? r.experts16
             : op.format == Format::kNvfp4 ? r.experts4
                                            : r.experts8;
  double memory = (line.weight * most + line.activation) / stream;
  t.bound = compute > memory ? Bound::kCompute : Bound::kMemory;
  t.executed = line.ops * op.grouped_extent * expected_tiles(rows / op.grouped_extent, height) * height /
               std::max(rows, 1e-9);
  t.compute = compute, t.memory = memory, t.both = true;
  // Groups with many rows compute while others still stream: neither hides the other fully.
  return std::sqrt(compute * compute + memory * memory) + 2 * r.ramp +
         (op.engine_experts && widened ? kWidenedStart * r.ramp / kRamp : 0);
}

// Products in fp8 with a scale for every block add up each block's sum outside the tensor cores: published
// microbenchmarks of vLLM, SGLang and TensorRT-LLM on H100, H200 and B200 (rates.cc has source and method) reach 0.51 to
// 0.79 of the peak bandwidth with few rows where others reach 0.8, start 1 to 10 us later, and 0.8 of the rate with many.
constexpr double kBlockStream = 0.78, kBlockRate = 0.8, kBlockStart = 2.5e-6;

double gemm_seconds(const ProgramOp& op, const Line& line, double rows, const Rates& r, LineTime& t) {
  if (op.grouped_extent > 0) return grouped_seconds(op, line, rows, r, t);
  bool blocks = op.blocks && tensor_peak(op.format, r) > r.peak16;
  double compute = line.ops / (tensor_rate(op.format, r) * (blocks ? kBlockRate : 1) * op.reach *
                               wave_share(rows, op.n_width, r.sms));
  double memory = (line.weight + line.activation) / (r.read * (blocks ? kBlockStream : 1));
  t.bound = compute > memory ? Bound::kCompute : Bound::kMemory;
  t.compute = compute, t.memory = memory;
  return std::max(compute, memory) + r.ramp + (blocks ? kBlockStart * r.ramp / kRamp : 0);
}

double attend_seconds(const ProgramOp& op, const Line& line, const Binding& b, const Rates& r, LineTime& t) {
  double rate = r.attention * tensor_rate(op.format, r) / r.tensor16;
  if (op.head_dim > 0 && op.head_dim < 128)
    rate *= kNarrowHead + (1 - kNarrowHead) * std::max(0.0, op.head_dim - 64) / 64;
  double compute = line.ops / rate;
  double keys = b.free[kKeys] > 0 ? b.free[kKeys] / std::max(1.0, b.free[kSeqs]) : 0;
  if (b.causal && b.free[kTokens] > 4 * b.free[kSeqs] && keys > 0) {
    // Tiles on the diagonal are computed whole, and the block with the longest row of tiles ends last.
    compute *= 1 + kTileQ / 2 / std::max(kTileQ, keys / 2);
    compute += std::min(1.0, line.ops / rate / (20e-6 * r.ramp / kRamp)) * 2 * op.head_dim * 2 * kTileQ *
               keys / (rate / r.sms);
  }
  // Cached keys stream at the rate of a copy: 4.4 TB/s contiguous (attention.decode.*), 0.75 to 0.9 of the peak
  // in pages (documentation of FlashInfer and FlashAttention). Without cached state the keys are activations and pass through L2 many times; device memory sees them
  // once.
  double memory = (line.state + line.activation) / r.memory;
  t.bound = compute > memory ? Bound::kCompute : Bound::kMemory;
  t.compute = compute, t.memory = memory;
  return std::max(compute, memory) + 2 * r.ramp;  // split over keys, then combined
}

double elementwise_seconds(const ProgramOp& op, const Line& line, const Rates& r, LineTime& t) {
  bool opaque = op.kind == OpKind::kKernel;  // products inside; its reach is theirs
  double memory =
      (line.state + line.activation + (opaque ? line.weight : 0)) / (r.memory * (opaque ? 1 : op.reach));
  double compute = opaque ? line.ops / (tensor_rate(op.format, r) * op.reach) : line.ops / r.vector;
  // A reduction over few groups: one block of 512 threads for each, every load waits for the one before.
  if (op.lanes > 0) {
    double passes = line.activation / 2;  // what is read
    memory += passes / (op.lanes * 512 * 2 / (kSerialLoadCycles * r.cycle));
  }
  double fixed = op.kind == OpKind::kReduce || op.kind == OpKind::kSelect ? kReduceRamp * r.ramp / kRamp : 0;
  t.compute = compute, t.memory = memory;
  t.bound = std::max(compute, memory) < fixed + r.kernel ? Bound::kLatency
            : compute > memory                           ? Bound::kCompute
                                                         : Bound::kMemory;
  return std::max(memory, compute) + fixed;
}

}  // namespace

double wave_share(double m, double n, double sms) {
  if (m <= 0 || n <= 0) return 1;
  double tile_m = m <= 64 ? 64 : kTileM;
  double tiles_m = std::ceil(m / tile_m), tiles_n = std::ceil(n / kTileN);
  double tiles = tiles_m * tiles_n;
  // Beyond a few waves, and below one wave (where the inner dimension is split), the tail hardly counts.
  double waves = std::ceil(tiles / sms);
  double fill = tiles < sms ? 1 : tiles / (waves * sms);
  double padding = (m / (tiles_m * tile_m)) * std::min(1.0, n / (tiles_n * kTileN) + 0.25);
  return std::max(0.02, fill * padding);
}

double expected_tiles(double mean, double height) {
  if (mean <= 0) return 0;
  if (mean > 6 * height) return mean / height + 0.5;
  // Sum over k of the probability of more than k x height rows; the count is close to Poisson, its tail to a
  // logistic curve of the same variance.
  double tiles = 1 - std::exp(-mean), spread = std::sqrt(mean) * 0.5513;
  for (int k = 1; k < 10; ++k) {
    double p = 1 / (1 + std::exp((k * height + 0.5 - mean) / spread));
    if (p < 1e-4 && k * height > mean) break;
    tiles += p;
  }
  return tiles;
}

LineTime time_of(const ProgramOp& op, const Line& line, const Binding& b, const Rates& r) {
  if (op.phase != Phase::kAlways) {
    ProgramOp always = op;
    always.phase = Phase::kAlways;
    return time_of(always, line, part_of(b, op.phase), r);
  }
  LineTime t;
  if (op.seconds > 0) {
    t.seconds = t.fixed = op.seconds, t.executed = line.ops, t.bound = Bound::kLatency;
    return t;
  }
  if (op.collective != Collective::kNone) {
    double bytes = line.link * std::max(1.0, op.load);  // all wait for the rank that sends or receives most
    t.seconds = collective_time(op.collective, op.group, bytes, r, op.span);
    bool network = op.span > r.per_host;
    t.link = std::min(t.seconds, transfer_seconds(op.collective, op.group, op.span, bytes, r));
    t.fixed = t.seconds - t.link;
    t.bound = t.seconds > 2 * (network ? r.network_latency : r.link_latency) ? Bound::kLink : Bound::kLatency;
    return t;
  }
  if (op.narrows != Format::kBf16 && tensor_peak(op.narrows, r) <= r.peak16) return t;
  if (op.fused || (op.in_reduction && line.activation / 2 <= kJoinedBytes)) {
    t.executed = line.ops, t.bound = Bound::kLatency;
    return t;
  }
  double work = line.ops + line.weight + line.state + line.activation;
  if (work == 0) return t;
  t.executed = line.ops;
  if (op.kind == OpKind::kContract)
    t.seconds = gemm_seconds(op, line, b.free[op.rows] * op.rows_each, r, t);
  else if (op.kind == OpKind::kAttend)
    t.seconds = attend_seconds(op, line, b, r, t);
  else
    t.seconds = elementwise_seconds(op, line, r, t);
  t.seconds += r.kernel;
  t.fixed = t.seconds - (t.both ? std::hypot(t.compute, t.memory) : std::max(t.compute, t.memory));
  return t;
}

Elsewhere elsewhere(const ProgramOp& op, const Line& line, const Placement& place, const Rates& rates) {
  Elsewhere e;
  bool expert = op.part == Part::kExpert && op.grouped_total > 0 && place.experts != Tier::kDevice;
  Tier tier = expert ? place.experts : place.weights;
  if (tier != Tier::kDevice) {
    double missed = place.experts_hit >= 0 ? 1 - place.experts_hit : place.experts_fraction;
    e.weight = line.weight * (expert ? missed : place.weights_fraction);
    e.weight_tier = tier;
    e.weight_rate = tier_rate(tier, place.compute_follows, rates);
  }
  if (place.kv != Tier::kDevice && op.cache) {
    e.state = line.state * place.kv_fraction;
    e.state_tier = place.kv;
    e.state_rate = tier_rate(place.kv, place.compute_follows, rates);
  }
  return e;
}

double exposed(double seconds, double share, double computation) {
  return std::max(seconds * (1 - share), seconds - std::max(0.0, computation));
}

LineJoules joules_of(const ProgramOp& op, const Line& line, const LineTime& t, const Rates& rates) {
  if (op.joules > 0) return {std::max(0.0, op.joules - op.seconds * rates.idle_watts), 0, 0};
  double per_op = rates.joules_op32;
  bool product = op.kind == OpKind::kContract || op.kind == OpKind::kAttend || op.kind == OpKind::kKernel;
  if (product && op.format != Format::kFp32)
    per_op = tensor_peak(op.format, rates) > rates.peak16 ? rates.joules_op8 : rates.joules_op16;
  if (op.format == Format::kTf32) per_op *= 2;  // half the rate at the same power
  // A product that reaches a part of the rate spends the rest on instructions that cost as much.
  if (op.kind == OpKind::kContract) per_op /= op.reach;
  return {t.executed * per_op, (line.weight + line.state + line.activation) * rates.joules_byte,
          line.link * rates.joules_link};
}

StepTime schedule(const Program& program, const Ledger& ledger, const Binding& binding, const Rates& given) {
  StepTime sum, moved;  // moved: the collectives, by the same bounds
  Rates rates = under_plan(program.plan, given);
  for (const Line& line : ledger.lines) {
    const ProgramOp& op = program.ops[line.op];
    LineTime t = time_of(op, line, binding, rates);
    double times = line.times * op.stages;
    StepTime& part = op.collective != Collective::kNone ? moved : sum;
    sum.fetch += elsewhere(op, line, program.plan.place, rates).seconds() * times;
    part.seconds += t.seconds * times;
    double& by = t.bound == Bound::kCompute  ? part.compute
                 : t.bound == Bound::kMemory ? part.memory
                 : t.bound == Bound::kLink   ? part.link
                                             : part.latency;
    by += t.seconds * times;
    sum.ops += line.ops * times, sum.link_bytes += line.link * times;
    sum.bytes += (line.weight + line.state + line.activation) * times;
    sum.joules += joules_of(op, line, t, rates).total() * times;
  }
  double open = exposed(moved.seconds, program.plan.overlap_tp, sum.seconds);
  sum.shown = moved.seconds > 0 ? open / moved.seconds : 1;
  sum.seconds += open;
  sum.link += moved.link * sum.shown, sum.latency += moved.latency * sum.shown;
  sum.exposed = exposed(sum.fetch, program.plan.overlap_prefetch, sum.seconds);
  sum.seconds += sum.exposed;
  sum.link += sum.exposed;
  // A board that would draw more than its limit lowers its clock until it does not.
  double least = sum.joules / (rates.limit_watts - rates.idle_watts);
  if (least > sum.seconds) {
    sum.power = least - sum.seconds;
    sum.seconds = least;
  }
  sum.joules += sum.seconds * rates.idle_watts * program.plan.pp;  // a stage waits while the others work
  return sum;
}

}  // namespace orrery::graph
