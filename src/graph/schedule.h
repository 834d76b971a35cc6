// From ledger lines to time and energy.
//
// Each line is served by the resource that takes longest: the arithmetic units at the rate of its format and
// shape, device memory, or a link; plus the fixed cost of a kernel. Operators of a rank run one after the
// other; only an Overlap in the plan lets communication hide behind computation. A step that would draw more
// than the board's limit is stretched until it does not. Every rate comes from the GPU profile; shape effects
// (partly filled waves of tiles) are arithmetic. No constant here was chosen by looking at a measured model
// run: the ones that a profile does not hold come from calib/raw/h200-model-2026-11-21.jsonl or from published
// microbenchmarks of kernels, named where they stand.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "graph/walk.h"

namespace orrery::graph {

enum class Bound : std::uint8_t { kCompute, kMemory, kLink, kLatency };
std::string_view name_of(Bound bound);

// Rates of a GPU in the units of the schedule, read once from its profile.
struct Rates {
  double memory = 0;  // bytes/s that a long copy reaches
  double read = 0;    // bytes/s that a long read reaches
  double memory_peak = 0;
  double experts16 = 0, experts8 = 0, experts4 = 0;  // bytes/s at which an engine's kernels stream experts' weights
  double tensor16 = 0, tensor8 = 0, tensor4 = 0;  // matrix products, sustained, op/s
  double peak16 = 0, peak8 = 0, peak4 = 0;        // datasheet
  double attention = 0;                           // op/s
  double vector = 0;                              // fp32 op/s
  double kernel = 0;                              // seconds per kernel in a graph
  double ramp = 0;                                // seconds for a kernel to fill and drain the chip
  double cycle = 0;                               // seconds at the highest clock
  double sms = 0;
  bool nvlink = false;                      // without it, boards exchange through the host's memory
  double link = 0, link_latency = 0;        // NVLink, or the host's link: bytes/s on the bus, seconds
  double network = 0, network_latency = 0;  // between hosts
  double collectives_scale = 1;             // of what the library adds to a collective's latency
  bool nccl_collectives = false;            // no one-shot kernels: every collective is the library's
  double host = 0;                          // host link, bytes/s
  double host_latency = 15e-6;              // seconds before a copy between host and device moves
  int per_host = 8;
  double idle_watts = 0, limit_watts = 0;
  double joules_byte = 0, joules_op16 = 0, joules_op8 = 0, joules_op32 = 0, joules_link = 0;
  bool has_fp8 = false, has_fp4 = false;
};
Rates read_rates(const Profile& gpu);
// Rates::ramp of every GPU. A product's first loads travel and its last block drains: 4.4 us in all beside the bytes
// (gemm.square2048.m1 to m256, gemm.wide.m8), of which 1.2 us are the launch.
inline constexpr double kRamp = 3.2e-6;

struct LineTime {
  double seconds = 0;   // one execution
  double executed = 0;  // operations that the tensor cores run, padding included
  Bound bound = Bound::kMemory;
  // Seconds that each resource alone would take; the largest and `fixed` make up `seconds` (where `both`,
  // compute and memory hide each other in part: the root of their squares).
  double compute = 0, memory = 0, link = 0, fixed = 0;
  bool both = false;
};
// Joules of one execution beyond idle power: operations, bytes and link bytes.
struct LineJoules {
  double ops = 0, bytes = 0, link = 0;
  double total() const { return ops + bytes + link; }
};

// Time of one execution of a ledger line.
LineTime time_of(const ProgramOp& op, const Line& line, const Binding& binding, const Rates& rates);
LineJoules joules_of(const ProgramOp& op, const Line& line, const LineTime& time, const Rates& rates);
// Bytes of a line that come from another tier than the GPU's memory, and the bandwidth they come at.
struct Elsewhere {
  double weight = 0, state = 0;  // bytes
  Tier weight_tier = Tier::kDevice, state_tier = Tier::kDevice;
  double weight_rate = 1, state_rate = 1;
  double seconds() const { return weight / weight_rate + state / state_rate; }
};
Elsewhere elsewhere(const ProgramOp& op, const Line& line, const Placement& place, const Rates& rates);
// Bytes/s of a tier: over the host link, from a drive, over the network, or of the host's own memory where the host
// computes.
double tier_rate(Tier tier, bool computes_there, const Rates& rates);
// What of a transfer's seconds nothing hides: at most `share` of them runs behind computation, and no more than the
// computation there is.
double exposed(double seconds, double share, double computation);
// What the rates of a plan lean on that no profile holds: a sentence each.
std::vector<std::string> assumed_rates(const Plan& plan, const Profile& gpu);
// Rates under the plan: what 2:4 sparsity does to products.
Rates under_plan(const Plan& plan, const Rates& rates);
// Seconds of a collective: `bytes` is the whole tensor on one rank; `span` ranks lie between its first and last.
double collective_time(Collective kind, int group, double bytes, const Rates& rates, int span = 0);
// Of which its slowest link is busy.
double transfer_seconds(Collective kind, int group, int span, double bytes, const Rates& rates);
// Share of the sustained rate that a matrix product of m x n x k reaches: tiles that do not fill a wave are
// idle.
double wave_share(double m, double n, double sms);
// Rate of matrix products on weights stored in `format`: op/s sustained.
double tensor_rate(Format format, const Rates& rates);
double tensor_peak(Format format, const Rates& rates);

// Expected tiles of `height` rows that a group of a grouped product needs when each row picks its group at
// random and `mean` rows fall on a group.
double expected_tiles(double mean, double height);

struct StepTime {
  double seconds = 0;
  double compute = 0, memory = 0, link = 0, latency = 0;  // seconds by the bound that set them
  double power = 0;                                       // seconds that the board's limit adds
  double fetch = 0, exposed = 0;  // seconds of transfers from other tiers, and those that nothing hides
  double shown = 1;  // share of the collectives' seconds that nothing hides
  double hops = 0;   // seconds between pipeline stages
  // Of one tensor-parallel rank of every stage, together.
  double joules = 0, ops = 0, bytes = 0, link_bytes = 0;
};
// Sum over the lines of a step, through all pipeline stages one after the other; without the hops between them.
StepTime schedule(const Program& program, const Ledger& ledger, const Binding& binding, const Rates& rates);

}  // namespace orrery::graph
