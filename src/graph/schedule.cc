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

// A kernel that streams a matrix with few rows takes this long besides its bytes: the first loads travel, the
// last block drains. H200, cold 4096 x 4096 and 4096 x 16384 products of 1 to 64 rows, less launch
// (measured: 2.5 to 4 us).
constexpr double kRamp = 2.5e-6;
// Share of the streaming bandwidth that such a product reaches beyond the ramp (H200, same runs: 0.86 to
// 0.92).
constexpr double kProductStream = 0.90;
// Decode attention reads the cache in pages; the share of the streaming bandwidth (FlashInfer and
// FlashAttention documentation report 0.75 to 0.9 of peak).
constexpr double kAttentionStream = 0.85;
// Output tile of the large matrix kernels.
constexpr double kTileM = 128, kTileN = 256;

double optional(const Profile& gpu, FieldId field, double absent) {
  return gpu.has(field) ? gpu.at(field).number : absent;
}

double gemm_seconds(const ProgramOp& op, const Line& line, double rows, const Rates& r, Bound& bound) {
  double groups = op.grouped_extent > 0 ? std::max(1.0, std::min(op.grouped_extent, rows)) : 1;
  double share = wave_share(rows / groups, op.n_width * groups, r.sms);
  double compute = line.ops / (tensor_rate(op.format, r) * share);
  double memory = (line.weight + line.activation) / (r.memory * kProductStream);
  bound = compute > memory ? Bound::kCompute : Bound::kMemory;
  return std::max(compute, memory) + r.ramp;
}

double attend_seconds(const Line& line, const Binding& b, const Rates& r, Bound& bound) {
  double compute = line.ops / r.attention;
  // Without cached state the keys are activations and pass through L2 many times; device memory sees them
  // once.
  double memory = (line.state + line.activation) / (r.memory * kAttentionStream);
  bound = compute > memory ? Bound::kCompute : Bound::kMemory;
  return std::max(compute, memory) + 2 * r.ramp;  // split over keys, then combined
}

}  // namespace

Rates read_rates(const Profile& gpu) {
  Rates r;
  r.memory_peak = gpu.memory_bandwidth().value();
  r.memory = r.memory_peak * gpu.memory_efficiency();
  r.peak16 = gpu.tensor_fp16().value();
  r.tensor16 = gpu.has(FieldId::tensor_fp16_best) ? gpu.tensor_fp16_best().value() : 0.8 * r.peak16;
  r.has_fp8 = gpu.has(FieldId::tensor_fp8);
  r.peak8 = optional(gpu, FieldId::tensor_fp8, r.peak16);
  r.tensor8 = optional(gpu, FieldId::tensor_fp8_best, r.has_fp8 ? 0.75 * r.peak8 : r.tensor16);
  r.has_fp4 = gpu.has(FieldId::tensor_fp4);
  r.peak4 = optional(gpu, FieldId::tensor_fp4, r.peak8);
  r.tensor4 = r.has_fp4 ? 0.75 * r.peak4 : r.tensor8;
  r.attention = optional(gpu, FieldId::attention_prefill_best, 0.6 * r.tensor16);
  r.vector = 2 * gpu.rate_fp32().value() * gpu.sm_count() * gpu.clock_max().value();
  r.kernel = gpu.launch_graph().value();
  r.ramp = kRamp;
  r.sms = static_cast<double>(gpu.sm_count());
  r.per_host = static_cast<int>(optional(gpu, FieldId::gpus_per_host, 8));
  r.host = gpu.pcie_bandwidth().value() * gpu.pcie_efficiency();
  r.link = gpu.has(FieldId::nvlink_bandwidth)
               ? gpu.nvlink_bandwidth().value() * optional(gpu, FieldId::nvlink_efficiency, 0.8)
               : r.host;
  r.link_latency = optional(gpu, FieldId::nvlink_latency, 15e-6);
  r.network = gpu.has(FieldId::network_bandwidth)
                  ? gpu.network_bandwidth().value() * optional(gpu, FieldId::network_efficiency, 0.85)
                  : 0.5 * r.host;
  r.network_latency = optional(gpu, FieldId::network_latency, 20e-6);
  r.idle_watts = gpu.power_idle().value();
  r.limit_watts = gpu.power_limit().value();
  r.joules_byte = optional(gpu, FieldId::energy_dram, 150e-12);
  r.joules_op16 = optional(gpu, FieldId::energy_tensor_fp16, 1e-12);
  r.joules_op8 = optional(gpu, FieldId::energy_tensor_fp8, 0.53 * r.joules_op16);
  r.joules_op32 = optional(gpu, FieldId::energy_fp32, 5.8e-12);
  r.joules_link = optional(gpu, FieldId::energy_link, 40e-12);
  return r;
}

double tensor_rate(Format format, const Rates& r) {
  switch (format) {
    case Format::kFp8:
    case Format::kInt8: return r.has_fp8 ? r.tensor8 : r.tensor16;
    case Format::kNvfp4: return r.has_fp4 ? r.tensor4 : r.tensor16;
    case Format::kFp32: return r.vector;
    default: return r.tensor16;  // narrower weights are widened to 16 bits as they are loaded
  }
}

double tensor_peak(Format format, const Rates& r) {
  if (format == Format::kFp8 || format == Format::kInt8) return r.peak8;
  if (format == Format::kNvfp4) return r.peak4;
  return r.peak16;
}

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

double collective_time(Collective kind, int group, double bytes, const Rates& r) {
  if (group <= 1 || kind == Collective::kNone || bytes <= 0) return 0;
  bool network = group > r.per_host;
  double bandwidth = network ? r.network : r.link;
  double latency = network ? r.network_latency : r.link_latency;
  double n = group;
  switch (kind) {
    case Collective::kAllReduce: return latency + 2 * (n - 1) / n * bytes / bandwidth;
    case Collective::kSendReceive: return latency + bytes / bandwidth;
    default: return latency + (n - 1) / n * bytes / bandwidth;
  }
}

LineTime time_of(const ProgramOp& op, const Line& line, const Binding& b, const Rates& r) {
  LineTime t;
  if (op.collective != Collective::kNone) {
    t.seconds = collective_time(op.collective, op.group, line.link, r);
    bool network = op.group > r.per_host;
    t.bound = t.seconds > 2 * (network ? r.network_latency : r.link_latency) ? Bound::kLink : Bound::kLatency;
    return t;
  }
  if (op.fused) return {0, Bound::kLatency};
  double work = line.ops + line.weight + line.state + line.activation;
  if (work == 0) return t;
  if (op.kind == OpKind::kContract) {
    t.seconds = gemm_seconds(op, line, b.free[op.rows], r, t.bound);
  } else if (op.kind == OpKind::kAttend) {
    t.seconds = attend_seconds(line, b, r, t.bound);
  } else {
    double memory = (line.state + line.activation) / r.memory, compute = line.ops / r.vector;
    t.bound = compute > memory ? Bound::kCompute : Bound::kMemory;
    t.seconds = std::max(memory, compute) + 0.4 * r.ramp;
    if (std::max(memory, compute) < 0.4 * r.ramp) t.bound = Bound::kLatency;
  }
  t.seconds += r.kernel;
  return t;
}

namespace {

// Sustained bandwidths of the other tiers. The host link is in the GPU profile; these are assumed for a usual
// server.
constexpr double kHostMemory = 200e9;  // bytes/s that the host computes over
constexpr double kNvme = 6e9;          // bytes/s of one drive

// 2:4 sparse products on random data gain this much on Hopper (arXiv 2501.12084, table of sparse wgmma).
constexpr double kSparseGain = 1.8;

// Share of a line's weight and state bytes that lie on another tier, and the bandwidth they come at.
struct Elsewhere {
  double weight = 0, state = 0;  // bytes
  double weight_rate = 1, state_rate = 1;
};

double tier_rate(Tier tier, bool computes_there, const Rates& rates) {
  if (tier == Tier::kNvme) return std::min(kNvme, rates.host);
  return computes_there ? kHostMemory : rates.host;
}

Elsewhere elsewhere(const ProgramOp& op, const Line& line, const Placement& place, const Rates& rates) {
  Elsewhere e;
  bool expert = op.part == Part::kExpert && op.grouped_total > 0 && place.experts != Tier::kDevice;
  Tier tier = expert ? place.experts : place.weights;
  if (tier != Tier::kDevice) {
    e.weight = line.weight * (expert ? place.experts_fraction : place.weights_fraction);
    e.weight_rate = tier_rate(tier, place.compute_follows, rates);
  }
  if (place.kv != Tier::kDevice) {
    e.state = line.state * place.kv_fraction;
    e.state_rate = tier_rate(place.kv, place.compute_follows, rates);
  }
  return e;
}

}  // namespace

StepTime schedule(const Program& program, const Ledger& ledger, const Binding& binding, const Rates& given) {
  StepTime sum;
  Rates rates = given;
  if (program.plan.sparse24) rates.tensor16 *= kSparseGain, rates.tensor8 *= kSparseGain;
  double fetch = 0;
  double overlap = program.plan.overlap_tp;
  for (const Line& line : ledger.lines) {
    const ProgramOp& op = program.ops[line.op];
    LineTime t = time_of(op, line, binding, rates);
    double seconds = t.seconds * line.times;
    if (op.collective != Collective::kNone) seconds *= 1 - overlap;
    Elsewhere e = elsewhere(op, line, program.plan.place, rates);
    fetch += (e.weight / e.weight_rate + e.state / e.state_rate) * line.times;
    sum.seconds += seconds;
    double& by = t.bound == Bound::kCompute  ? sum.compute
                 : t.bound == Bound::kMemory ? sum.memory
                 : t.bound == Bound::kLink   ? sum.link
                                             : sum.latency;
    by += seconds;
    double ops = line.ops * line.times, bytes = (line.weight + line.state + line.activation) * line.times;
    double per_op =
        op.kind == OpKind::kContract || op.kind == OpKind::kAttend
            ? (tensor_peak(op.format, rates) > rates.peak16 ? rates.joules_op8 : rates.joules_op16)
            : rates.joules_op32;
    sum.ops += ops;
    sum.bytes += bytes;
    sum.link_bytes += line.link * line.times;
    sum.joules += ops * per_op + bytes * rates.joules_byte + line.link * line.times * rates.joules_link;
  }
  // What comes from another tier is hidden behind computation as far as prefetch says, but the link's time
  // remains the least that the step can take.
  double exposed = fetch * (1 - program.plan.overlap_prefetch);
  exposed = std::max(exposed, fetch - sum.seconds);
  sum.seconds += exposed;
  sum.link += exposed;
  // The board never draws more than its limit: what the events would need beyond it, the clock has already
  // cost in the sustained rates, which were measured under that limit.
  sum.joules = std::min(sum.joules + sum.seconds * rates.idle_watts, sum.seconds * rates.limit_watts);
  return sum;
}

}  // namespace orrery::graph
