// The time of a collective: what its slowest link carries, and what starts it.
#include <algorithm>
#include <cmath>

#include "graph/schedule.h"

namespace orrery::graph {

namespace {

// Bytes over a rank's link for a collective of `bytes` over `group` ranks.
double bytes_moved(Collective kind, int group, double bytes) {
  double n = group;
  return (kind == Collective::kAllReduce ? 2 : 1) * (kind == Collective::kSendReceive ? 1 : (n - 1) / n) *
         bytes;
}

// Bytes/s between ranks of a host. Boards without NVLink pass what they exchange through the host's memory
// (NCCL's transport where there is no peer access): written once and read once, by all of them at a time.
double peer_rate(int group, const Rates& r) {
  return r.nvlink ? r.link : std::min(r.host, tier_rate(Tier::kHost, true, r) / (2.0 * group));
}

// Engines have kernels of their own for all-reduces up to a few megabytes. The profile's latency is that of
// one between two peers. Each rank reads what all others have, or, 4 us later, sums and sends its part.
// Published microbenchmarks of vLLM 0.19 and SGLang 0.5.10 on H100 and H200, 2, 4 and 8 boards, 256 B to 8
// MB, in a graph (source as in rates.cc, systems/data/*/comm/*/custom_allreduce_perf).
constexpr double kOwnKernels = 8.4e6, kDoubling = 0.25e-6, kTwoShots = 4e-6;

double own_all_reduce(int group, double bytes, double two_shots, const Rates& r) {
  double doublings = std::log2(static_cast<double>(group)) - 1;
  double one_shot = (group - 1) * bytes / peer_rate(group, r);
  return r.link_latency + kDoubling * doublings * r.collectives_scale +
         std::min(one_shot, kTwoShots * r.collectives_scale + two_shots);
}

}  // namespace

// Seconds that the slowest link is busy. Within a host that is NVLink. Over hosts, rings cross from host to
// host on the network cards of all the ranks that a host has in the group; an all-to-all sends what leaves
// the host over each rank's own card, beside what stays.
double transfer_seconds(Collective kind, int group, int span, double bytes, const Rates& r) {
  double moved = bytes_moved(kind, group, bytes);
  if (span <= r.per_host) return moved / peer_rate(group, r);
  double here =
      std::clamp(static_cast<double>(group) * r.per_host / span, 1.0, static_cast<double>(r.per_host));
  if (kind == Collective::kAllToAll)
    return std::max(bytes * (group - here) / group / r.network, bytes * (here - 1) / group / r.link);
  if (kind == Collective::kSendReceive) return moved / r.network;
  return moved / std::min(r.link, r.network * here);
}

double collective_time(Collective kind, int group, double bytes, const Rates& r, int span) {
  if (group <= 1 || kind == Collective::kNone || bytes <= 0) return 0;
  span = std::max(group, span);
  double transfer = transfer_seconds(kind, group, span, bytes, r);
  if (span > r.per_host) return r.network_latency + transfer;
  // The library starts later than an engine's kernels and fills its pipeline (collective.all-reduce.4.8192 to
  // 536870912).
  double doublings = std::log2(static_cast<double>(group)) - 1;
  double library =
      r.link_latency + (2.5e-6 + 1.5e-6 * doublings + 4.5e-9 * std::sqrt(bytes)) * r.collectives_scale;
  bool small = kind == Collective::kAllReduce && bytes <= kOwnKernels && !r.nccl_collectives;
  return small ? own_all_reduce(group, bytes, transfer, r) : library + transfer;
}

}  // namespace orrery::graph
