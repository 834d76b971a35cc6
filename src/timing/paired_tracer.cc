// timing/paired_tracer.cc: see paired_tracer.h.
#include "timing/paired_tracer.h"

#include <sched.h>

#include <future>
#include <utility>

#include "timing/host_cost.h"

namespace orrery::timing {

namespace {

constexpr double kWorthAThread = 1e-3;  // CPU seconds of a unit

/// Has this process more than one processor?
bool has_two_processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

}  // namespace

PairedTracer::PairedTracer(exec::Machine& machine, const exec::Launch& launch, TraceOptions options)
    : machine_(machine), launch_(launch), options_(options), first_(machine, launch, options) {}

std::vector<TracedBlock> PairedTracer::trace(uint64_t unit) {
  const double begin = cpu_seconds();
  std::vector<TracedBlock> blocks = first_.trace(unit);
  latest_seconds_ = cpu_seconds() - begin;
  return blocks;
}

void PairedTracer::trace_each(std::span<const uint64_t> units, const std::function<bool(size_t)>& wants, const std::function<void(std::vector<TracedBlock>)>& keep) {
  const bool may = !first_.reads_memory() && has_two_processors();
  for (size_t i = 0; i < units.size() && wants(1); i++) {
    if (!may || i + 1 == units.size() || latest_seconds_ < kWorthAThread || !wants(2)) {
      keep(trace(units[i]));
      continue;
    }
    if (!second_) second_ = std::make_unique<Tracer>(machine_, launch_, options_);
    std::future<std::pair<std::vector<TracedBlock>, double>> aside = std::async(std::launch::async, [&, unit = units[i + 1]] {
      const double begin = cpu_seconds();
      std::vector<TracedBlock> blocks = second_->trace(unit);
      return std::pair{std::move(blocks), cpu_seconds() - begin};
    });
    keep(trace(units[i++]));
    auto [blocks, seconds] = aside.get();
    aside_seconds_ += seconds;
    if (!wants(1)) return;
    keep(std::move(blocks));
  }
}

}  // namespace orrery::timing
