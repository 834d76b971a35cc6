// device/deferred.cc: see deferred.h.
#include "device/deferred.h"

#include <algorithm>
#include <utility>

#include "device/context.h"
#include "device/device.h"
#include "device/launch.h"
#include "exec/decode.h"

namespace orrery::device {

namespace {

bool is_self_contained(isa::Op op) {
  using isa::Op;
  switch (op) {
    case Op::call: case Op::trap: case Op::brkpt: case Op::tex: case Op::tld4: case Op::txq: case Op::suld: case Op::sust: case Op::sured: case Op::suq: return false;
    default: return true;
  }
}

}  // namespace

bool Deferred::takes(const exec::Kernel& kernel) const {
  return !stopped_ && std::all_of(kernel.entry->code.begin(), kernel.entry->code.end(), [](const exec::Decoded& d) { return !d.instr || is_self_contained(d.instr->form.op); });
}

void Deferred::add(Context& context, const LaunchWork& work) {
  std::lock_guard lock(mutex_);
  entries_.push_back({&context, work, 0, {}});
  any_ = true;
}

bool Deferred::add_free(uint64_t address, std::function<void()> release) {
  if (!any_) return false;
  std::lock_guard lock(mutex_);
  if (entries_.empty()) return false;
  entries_.push_back({nullptr, {}, address, std::move(release)});
  return true;
}

bool Deferred::frees(uint64_t address) {
  if (!any_) return false;
  std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.release && e.address == address; });
}

void Deferred::stop() {
  stopped_ = true;
  run();
}

void Deferred::run() {
  if (!any_) return;
  std::lock_guard lock(mutex_);
  const std::vector<Entry> entries = std::exchange(entries_, {});
  for (const Entry& e : entries) {
    if (e.release) e.release();
    else if (e.context->fault() == Status::success) run_timed_launch(*e.context, e.work);
  }
  any_ = !entries_.empty();
}

}  // namespace orrery::device
