// timing/figures.cc: see figures.h.
#include "timing/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <type_traits>

namespace orrery::timing {

namespace {
/// Refuses what a profile cannot be (or a what-if setting make it): nothing could be simulated with it.
void check_sizes(const Profile& p) {
  constexpr double kMostL2 = double(uint64_t{1} << 35);  // what L2Lines can number
  for (const auto& [key, value, most] : {std::tuple{"sm.count", double(p.sm_count()), 1e5},
                                         {"clock.max", p.clock_max().value(), 1e12},
                                         {"sm.max_threads", double(p.max_threads_per_sm()), 1e6},
                                         {"sm.max_blocks", double(p.max_blocks_per_sm()), 1e6},
                                         {"memory.bandwidth", p.memory_bandwidth().value(), 1e18},
                                         {"l2.size", p.l2_size().value(), kMostL2}})
    if (!(value > 0 && value <= most))
      throw ProfileError(
          fmt::format("{} is {:g}: the timing model needs more than 0 and at most {:g}", key, value, most));
}

const Profile& h200() {
  static const Profile profile = load_profile("h200");
  return profile;
}

/// The GPU that gave the timing figures of `p`: itself, the one whose file has them, or the H200.
const Profile& measured_gpu(const Profile& p) {
  if (!p.has(FieldId::timing_l2_latency) || p.at(FieldId::timing_l2_latency).file.empty()) return h200();  // none, or set by the user alone
  const FieldValue &figure = p.at(FieldId::timing_l2_latency), &name = p.at(FieldId::name);
  if (figure.file == name.file) return p;
  static std::mutex mutex;
  static std::map<std::string, Profile> others;
  const std::scoped_lock lock(mutex);
  auto at = others.find(figure.file);
  if (at == others.end()) at = others.emplace(figure.file, load_profile_of(figure)).first;
  // A file that only gives new figures to a GPU does not name it.
  return at->second.at(FieldId::name).file == name.file ? p : at->second;
}
}  // namespace

ChipFigures figures_of(const Profile& p) {
  check_sizes(p);
  const Profile& reference = measured_gpu(p);
  ChipFigures f;
  f.clock = p.clock_max().value();
  f.sms = uint32_t(p.sm_count()), f.warps = uint32_t(p.max_threads_per_sm() / 32),
  f.blocks = uint32_t(p.max_blocks_per_sm());
  f.gpcs = uint32_t(std::clamp(double(p.has(FieldId::gpc_count) ? p.gpc_count() : h200().gpc_count()), 1.0,
                               double(f.sms)));
  for (uint64_t n : sm_groups_of(p)) f.groups.push_back(uint32_t(n));
  f.registers = uint32_t(p.registers_per_sm());
  f.shared_bytes = uint32_t(p.shared_per_sm().value()), f.shared_reserved = uint32_t(p.shared_reserved_per_block().count()), f.l1_bytes = uint32_t(p.l1_and_shared().value());
  f.l2_bytes = p.l2_size().value();
  const auto number = [](auto v) {
    if constexpr (std::is_arithmetic_v<decltype(v)>)
      return double(v);
    else
      return v.value();
  };
#define FIGURE(member, accessor, factor) \
  f.member = number(p.has(FieldId::accessor) ? p.accessor() : h200().accessor()) * factor;
#include "timing/figures.def"
#undef FIGURE
  const double dram_share =
      p.has(FieldId::timing_dram_share) ? p.timing_dram_share() : h200().timing_dram_share();
  f.dram_bandwidth = dram_share * p.memory_bandwidth().value() / f.clock;
  // What L2 keeps goes with its size.
  const auto l2 = [&](FieldId kept) { return f.l2_bytes / (p.has(kept) ? reference : h200()).l2_size().value(); };
  if (&reference != &p || !p.has(FieldId::timing_l2_dirty)) f.l2_dirty_bytes *= l2(FieldId::timing_l2_dirty);
  if (&reference != &p || !p.has(FieldId::timing_l2_partial)) f.l2_partial_sectors *= l2(FieldId::timing_l2_partial);
  if (&reference != &p || !p.has(FieldId::timing_l2_completed)) f.l2_completed_lines *= l2(FieldId::timing_l2_completed);
  if (&reference != &p) {
    f.borrowed_from = reference.name();
    // What the whole chip moves in a cycle goes with its SMs, power with the board's limit.
    const double size = double(f.sms) / double(reference.sm_count());
    const double power = p.power_limit().value() / reference.power_limit().value();
    for (double* rate : {&f.l2_requests, &f.l2_sectors, &f.l2_far_sectors, &f.l2_write_sectors})
      *rate *= size;
    f.block_interval /= size;
    for (double* watts : {&f.dynamic_watts, &f.plain_watts}) *watts *= power;
    f.idle_watts = p.power_idle().value();
  }
  if (p.has(FieldId::clock_tensor_max) && &reference != &p) f.tensor_clock = std::min(f.tensor_clock, f.clock);
  return f;
}

ChipFigures ChipFigures::at_clock(double now) const {
  ChipFigures f = *this;
  const double slower = now / clock;
  for (double* latency :
       {&f.l2_latency, &f.l2_far_latency, &f.dram_latency, &f.l2_spread, &f.dram_wait, &f.dram_wait_busy,
        &f.dram_wait_queue, &f.dram_wait_mixed, &f.dram_wait_written, &f.atomic_one_line, &f.atomic_interval, &f.atomic_same_line, &f.write_slice})
    *latency *= slower;
  for (double* rate :
       {&f.l2_requests, &f.l2_sectors, &f.l2_far_sectors, &f.l2_write_sectors, &f.dram_bandwidth})
    *rate /= slower;
  return f;
}

}  // namespace orrery::timing
