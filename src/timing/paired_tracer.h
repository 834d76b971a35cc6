// timing/paired_tracer.h: two tracers of one launch, which trace two units at a time: the second has a thread of its own.
//
// Results come in order, as from one tracer: whoever takes them cannot tell. Kernels whose control or addresses depend on what is in
// memory, where the blocks before them may have left it, are traced by one alone; so are short blocks, which are not worth a thread.
// Not here: how a block is traced (trace.h), which blocks are (sample.cc).
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "timing/trace.h"

namespace orrery::timing {

class PairedTracer {
 public:
  /// `machine` and `launch` must outlive this.
  PairedTracer(exec::Machine& machine, const exec::Launch& launch, TraceOptions options);
  /// As Tracer's.
  std::vector<TracedBlock> trace(uint64_t unit);
  std::vector<TracedBlock> trace_together() { return first_.trace_together(); }
  std::vector<TracedBlock> trace_contended(uint64_t units, SwapTimes times, uint64_t most_instructions) { return first_.trace_contended(units, times, most_instructions); }
  std::vector<TracedBlock> trace_as_last(uint64_t unit) { return first_.trace_as_last(unit); }
  bool crowded() const { return first_.crowded(); }
  std::optional<bool> ends_within(uint64_t unit, uint64_t instructions) { return first_.ends_within(unit, instructions); }
  bool reads_memory() const { return first_.reads_memory(); }
  bool needs_memory() const { return first_.needs_memory(); }
  /// Hands the blocks of these units to `keep`, unit by unit, as long as `wants(1)`; `wants(n)`: are that many more wanted, as far as is
  /// known by now? Both are called on the calling thread. Throws as trace() does when it is the turn of what cannot be traced.
  void trace_each(std::span<const uint64_t> units, const std::function<bool(size_t)>& wants, const std::function<void(std::vector<TracedBlock>)>& keep);
  /// CPU seconds of the second thread so far.
  double aside_seconds() const { return aside_seconds_; }

 private:
  exec::Machine& machine_;
  const exec::Launch& launch_;
  const TraceOptions options_;
  Tracer first_;
  std::unique_ptr<Tracer> second_;  // made when there is work for it
  double aside_seconds_ = 0, latest_seconds_ = 0;
};

}  // namespace orrery::timing
