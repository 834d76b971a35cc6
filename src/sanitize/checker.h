// sanitize/checker.h: the observer that a checked process has: it hands every event to the checks that were asked for.
//
// Invariant: checks get events one at a time (the checker locks), so none of them locks; a check never changes a result.
// To add a check: a class that derives from exec::Observer, one line in make_checks (checker.cc), its name in options.cc.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "exec/observer.h"
#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/quick.h"

namespace orrery::sanitize {

using Checks = std::vector<std::unique_ptr<exec::Observer>>;

/// The checks that `options` ask for.
Checks make_checks(const Options& options, Collector& collector, exec::DeviceMemory& memory);

class Checker : public exec::Observer {
 public:
  Checker(Options options, exec::DeviceMemory& memory);
  unsigned wants() const override { return wants_; }
  bool serial() const override;
  void launch_begin(const exec::RunState&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void block_begin(const exec::CtaContext&) override;
  void block_end(const exec::CtaContext&) override;
  void exit(const exec::Where&) override;
  void access(const exec::Access&) override;
  void async_copy(const exec::AsyncEvent&) override;
  void heap_allocate(const exec::Where&, int lane, uint64_t address, uint64_t bytes) override;
  void heap_free(const exec::Where&, int lane, uint64_t address) override;
  void warp_arrive(const exec::Where&, const uint32_t* members) override;
  void warp_sync(const exec::Where&, uint32_t members) override;
  void barrier_arrive(const exec::Where&, uint32_t number, uint32_t expected, bool waits) override;
  void barrier_complete(const exec::CtaContext&, uint32_t number) override;
  void cluster_arrive(const exec::Where&, bool relaxed) override;
  void cluster_wait(const exec::Where&) override;
  void cluster_complete(const exec::ClusterContext&) override;
  void mbarrier(const exec::MbarrierEvent&) override;
  void instruction(const exec::Where&) override;
  void registers(const exec::Where&) override;
  void computed(const exec::Where&, uint32_t special) override;
  void hang(const exec::RunState&, const exec::WaitGraph&, const std::string& text) override;
  void allocated(const exec::Allocation&) override;
  void released(const exec::Allocation&) override;
  void submitted(const exec::HostWork&) override;
  void performing(const exec::HostWork&) override;
  void performed(const exec::HostWork&) override;
  void host_waited(exec::HostWait, uint64_t what) override;
  void named(uint64_t address, const std::string& name, bool constant) override;
  void api_error(const char* call, int code, const char* name, uint64_t address) override;
  void process_end() override;

  std::vector<Finding> findings() { return collector_.findings(); }

 private:
  template <class F>
  void each(F f) {
    std::lock_guard lock(mutex_);
    const QuickPause pause(quick_.get());
    for (auto& check : checks_) f(*check);
  }

  /// See Quick.
  template <class T>
  void interrupt(const T& what) {
    std::lock_guard lock(mutex_);
    const QuickPause pause(quick_.get());
    quick_->interrupt(what);
  }

  const Options options_;
  std::recursive_mutex mutex_;
  Collector collector_;
  Checks checks_;
  std::unique_ptr<Quick> quick_;
  Initcheck* initcheck_ = nullptr;
  unsigned wants_ = 0;

  unsigned find_wants() const;
  static std::byte* marks_of(const exec::WarpContext* w);
};

/// The checker that the environment asks for, or null.
std::unique_ptr<exec::Observer> make_checker(exec::DeviceMemory& memory);

}  // namespace orrery::sanitize
