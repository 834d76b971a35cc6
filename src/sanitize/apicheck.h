// sanitize/apicheck.h: misuse of the API: work in different streams that nothing orders and that touches the same bytes;
// launches that failed and nobody looked; errors that the program never asked about.
//
// Logical time is a vector clock over streams. An operation comes after what its stream did before, after what the host
// had waited for when it submitted it, after events that its stream waits for, and, where the legacy default stream is
// involved, after what that stream's rules say. That an operation happened to be finished proves nothing. Operations
// that are not ordered have their footprints compared: intervals of copies and fills, 64-byte pieces with byte masks of
// kernels. Footprints of kernels are kept only when a stream other than the legacy one is in use.
//
// Memory that host and device share (managed, pinned) is looked at from the host's side too: while the host has not
// waited for an operation, the pages all of whose bytes it writes (or reads) are closed to the host (host_watch.h), and
// what the host does there is reported. Pages of which an operation uses a part stay open. An operation whose strong
// accesses reach the system talks to the host while it runs, and is left out.
//
// Not here: races inside a launch (racecheck.h).
#pragma once
#include <list>
#include <map>
#include <unordered_map>

#include "sanitize/allocations.h"
#include "sanitize/collector.h"
#include "sanitize/footprint.h"
#include "sanitize/host_watch.h"
#include "sanitize/options.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

class Apicheck : public exec::Observer {
 public:
  Apicheck(const Options& options, Collector& collector);
  unsigned wants() const override { return exec::kObserveMemory; }
  bool serial() const override { return false; }

  void submitted(const exec::HostWork&) override;
  void performing(const exec::HostWork&) override;
  void performed(const exec::HostWork&) override;
  void host_waited(exec::HostWait, uint64_t what) override;
  void launch_begin(const exec::RunState&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void access(const exec::Access&) override;
  void async_copy(const exec::AsyncEvent&) override;
  void allocated(const exec::Allocation&) override;
  void released(const exec::Allocation&) override;
  void api_error(const char* call, int code, const char* name, uint64_t address) override;
  void process_end() override;

  /// Nobody asks which memory this launch uses.
  bool ignores(const exec::RunState& run) { return !running(&run); }

 private:
  using Clock = std::map<uint64_t, uint64_t>;  // stream -> operations of it that have been
  struct Span {
    uint64_t begin = 0, end = 0;
    bool writes = false;
  };
  struct Operation {
    exec::HostWork work;
    std::string name;
    uint64_t number = 0;                       // in its stream
    Clock before;
    bool done = false, tracked = false;
    bool talks = false;                        // to the host, by strong accesses of the scope of the system
    Footprint footprint;
    std::vector<Span> spans;
  };
  static void join(Clock& to, const Clock& from);
  Operation* running(const exec::RunState* run);
  void finish(const exec::HostWork&);
  void compare(const Operation& a, const Operation& b);
  void report(const Operation& a, const Operation& b, uint64_t address, bool a_writes, bool b_writes, uint32_t site_a, uint32_t site_b);
  void forget();
  // apicheck_host.cc
  bool is_visible(uint64_t address) const { return address - visible_begin_ < visible_end_ - visible_begin_; }
  bool known_to_host(const Operation& op) const;
  void close_pages();
  void close_footprint(const Operation& op);
  void close_spans(const Operation& op);
  void close_range(const Operation& op, uint64_t begin, uint64_t end, bool reads_too);
  void host_access(const Finding& about, uint64_t address, bool writes, const void* code);
  uint32_t site_of(const exec::Where& where);

  Collector& collector_;
  HostWatch watch_;
  uint64_t visible_begin_ = 0, visible_end_ = 0;  // around all managed and pinned memory so far
  int performing_ = 0;                            // operations that are being carried out
  const bool api_errors_;
  Allocations allocations_;
  std::list<Operation> operations_;
  std::map<uint64_t, Clock> streams_;          // what the tail of a stream comes after, itself included
  std::map<uint64_t, std::pair<uint64_t, bool>> kinds_;  // stream -> context, blocking
  std::map<uint64_t, uint64_t> legacy_;        // context -> its legacy stream
  std::map<uint64_t, Clock> events_;
  Clock host_;
  std::map<uint64_t, uint64_t> count_;         // operations by stream
  bool several_streams_ = false;
  std::map<const exec::RunState*, Operation*> runs_;
  std::map<std::pair<const exec::DecodedProgram*, uint32_t>, uint32_t> site_numbers_;
  std::vector<Place> sites_{1};
  int unseen_launch_errors_ = 0;
  std::string unseen_text_;
};

}  // namespace orrery::sanitize
