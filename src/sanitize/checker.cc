// sanitize/checker.cc: see checker.h.
#include "sanitize/checker.h"

#include "exec/run_state.h"
#include "sanitize/apicheck.h"
#include "sanitize/asynccheck.h"
#include "sanitize/hangcheck.h"
#include "sanitize/initcheck.h"
#include "sanitize/memcheck.h"
#include "sanitize/numerics.h"
#include "sanitize/racecheck.h"
#include "sanitize/synccheck.h"

namespace orrery::sanitize {

using namespace exec;

Checks make_checks(const Options& options, Collector& collector, DeviceMemory& memory) {
  Checks checks;
  checks.push_back(std::make_unique<Hangcheck>(collector));
  if (options.has("asynccheck")) checks.push_back(std::make_unique<Asynccheck>(options, collector));
  if (options.has("memcheck")) checks.push_back(std::make_unique<Memcheck>(options, collector, memory));
  if (options.has("initcheck")) checks.push_back(std::make_unique<Initcheck>(options, collector));
  if (options.has("synccheck")) checks.push_back(std::make_unique<Synccheck>(options, collector));
  if (options.has("racecheck")) checks.push_back(std::make_unique<Racecheck>(options, collector));
  if (options.has("numerics")) checks.push_back(std::make_unique<Numerics>(collector));
  if (options.has("apicheck")) checks.push_back(std::make_unique<Apicheck>(options, collector));
  return checks;
}

namespace {

template <class Check>
Check* find_check(const Checks& checks) {
  for (auto& check : checks)
    if (auto* found = dynamic_cast<Check*>(check.get())) return found;
  return nullptr;
}

}  // namespace

Checker::Checker(Options options, DeviceMemory& memory)
    : options_(std::move(options)), collector_(options_.out), checks_(make_checks(options_, collector_, memory)),
      quick_(std::make_unique<Quick>(options_, find_check<Memcheck>(checks_), find_check<Initcheck>(checks_), find_check<Racecheck>(checks_))) {
  initcheck_ = find_check<Initcheck>(checks_);
  if (initcheck_) local_marks() = marks_of;
  wants_ = find_wants();
  if (auto* memcheck = find_check<Memcheck>(checks_)) memcheck->alone(wants_ & kObserveOutside);
}

unsigned Checker::find_wants() const {
  unsigned all = 0;
  bool every = true;  // access that nobody wants who wants accesses at all
  for (auto& check : checks_) {
    const unsigned wants = check->wants();
    all |= wants;
    every &= !(wants & kObserveMemory) || (wants & kObserveOutside);
  }
  if (!every) all &= ~kObserveOutside;
  if (all & kObserveMemory) all |= kObserveLocal | (find_check<Initcheck>(checks_) ? kObserveWritten : 0);
  return quick_->possible() && !(all & (kObserveValues | kObserveOutside)) ? all | kObserveQuick : all;
}
/// Compiled code asks for the marks of a warp; only kernels that a checker observes do.
std::byte* Checker::marks_of(const WarpContext* w) {
  auto& checker = static_cast<Checker&>(*w->cta->launch->run->machine.observer);
  std::lock_guard lock(checker.mutex_);
  return checker.initcheck_->local_marks(*w);
}

bool Checker::serial() const {
  for (auto& check : checks_)
    if (check->serial()) return true;
  return false;
}

void Checker::launch_begin(const RunState& r) {
  each([&](Observer& o) { o.launch_begin(r); });
  std::lock_guard lock(mutex_);
  const QuickPause pause(quick_.get());
  auto* api = find_check<Apicheck>(checks_);
  auto* async = find_check<Asynccheck>(checks_);
  quick_->launch_begin(r, (!api || api->ignores(r)) && (!async || !async->relevant()));
}
void Checker::launch_end(const RunState& r, const LaunchResult& x) {
  each([&](Observer& o) { o.launch_end(r, x); });
  std::lock_guard lock(mutex_);
  const QuickPause pause(quick_.get());
  quick_->launch_end(r);
}
void Checker::block_begin(const CtaContext& c) {
  each([&](Observer& o) { o.block_begin(c); });
  std::lock_guard lock(mutex_);
  quick_->block_begin(c);
}
void Checker::block_end(const CtaContext& c) {
  each([&](Observer& o) { o.block_end(c); });
  std::lock_guard lock(mutex_);
  quick_->block_end(c);
}
void Checker::exit(const Where& w) { each([&](Observer& o) { o.exit(w); }); }
void Checker::access(const Access& a) {
  interrupt(a);
  each([&](Observer& o) { o.access(a); });
  std::lock_guard lock(mutex_);
  quick_->learn(a);
}
void Checker::async_copy(const AsyncEvent& e) { interrupt(e.where.warp->cta); each([&](Observer& o) { o.async_copy(e); }); }
void Checker::heap_allocate(const Where& w, int lane, uint64_t at, uint64_t n) { each([&](Observer& o) { o.heap_allocate(w, lane, at, n); }); }
void Checker::heap_free(const Where& w, int lane, uint64_t at) { each([&](Observer& o) { o.heap_free(w, lane, at); }); }
void Checker::warp_arrive(const Where& w, const uint32_t* m) { each([&](Observer& o) { o.warp_arrive(w, m); }); }
void Checker::warp_sync(const Where& w, uint32_t m) { interrupt(w.warp->cta); each([&](Observer& o) { o.warp_sync(w, m); }); }
void Checker::barrier_arrive(const Where& w, uint32_t n, uint32_t e, bool waits) { interrupt(w.warp->cta); each([&](Observer& o) { o.barrier_arrive(w, n, e, waits); }); }
void Checker::barrier_complete(const CtaContext& c, uint32_t n) { interrupt(&c); each([&](Observer& o) { o.barrier_complete(c, n); }); }
void Checker::cluster_arrive(const Where& w, bool relaxed) { interrupt(w.warp->cta); each([&](Observer& o) { o.cluster_arrive(w, relaxed); }); }
void Checker::cluster_wait(const Where& w) { interrupt(w.warp->cta); each([&](Observer& o) { o.cluster_wait(w); }); }
void Checker::cluster_complete(const ClusterContext& c) { each([&](Observer& o) { o.cluster_complete(c); }); }
void Checker::mbarrier(const MbarrierEvent& e) { interrupt(e.where.warp ? e.where.warp->cta : nullptr); each([&](Observer& o) { o.mbarrier(e); }); }
void Checker::instruction(const Where& w) { interrupt(w.warp->cta); each([&](Observer& o) { o.instruction(w); }); }
void Checker::registers(const Where& w) { each([&](Observer& o) { o.registers(w); }); }
void Checker::computed(const Where& w, uint32_t s) { each([&](Observer& o) { o.computed(w, s); }); }
void Checker::hang(const RunState& r, const WaitGraph& g, const std::string& t) { each([&](Observer& o) { o.hang(r, g, t); }); }
void Checker::allocated(const Allocation& a) { each([&](Observer& o) { o.allocated(a); }); }
void Checker::released(const Allocation& a) {
  each([&](Observer& o) { o.released(a); });
  std::lock_guard lock(mutex_);
  const QuickPause pause(quick_.get());
  quick_->forget();
}
void Checker::submitted(const HostWork& w) { each([&](Observer& o) { o.submitted(w); }); }
void Checker::performing(const HostWork& w) { each([&](Observer& o) { o.performing(w); }); }
void Checker::performed(const HostWork& w) { each([&](Observer& o) { o.performed(w); }); }
void Checker::host_waited(HostWait kind, uint64_t what) { each([&](Observer& o) { o.host_waited(kind, what); }); }
void Checker::named(uint64_t at, const std::string& n, bool c) { each([&](Observer& o) { o.named(at, n, c); }); }
void Checker::api_error(const char* call, int code, const char* name, uint64_t at) { each([&](Observer& o) { o.api_error(call, code, name, at); }); }

void Checker::process_end() {
  each([&](Observer& o) { o.process_end(); });
  collector_.finish();
}

std::unique_ptr<Observer> make_checker(DeviceMemory& memory) {
  Options options = options_from_environment();
  if (options.checks.empty()) return nullptr;
  return std::make_unique<Checker>(std::move(options), memory);
}

}  // namespace orrery::sanitize
