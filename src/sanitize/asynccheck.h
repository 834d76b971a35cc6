// sanitize/asynccheck.h: mistakes around asynchronous operations: cp.async, bulk and tensor copies, st.async, wgmma.
//
// An operation is in flight from its issue until a warp knows that it is complete (async_order.h): by its own wait, or
// through what orders it after somebody's wait. While it is in flight nobody may touch what it writes or write what it
// reads. What it reads of the ordinary stores of threads must have passed a fence between the proxies.
//
//   Operation    one asynchronous instruction of a warp; of a warpgroup for wgmma
//   AsyncShadow (async_shadow.h) who touched which bytes of a block's shared memory last
//
// Findings: copy-not-waited, stage-reused, missing-proxy-fence, stale-tensor-map, transaction-bytes, parity,
// mbarrier-init, mbarrier-reinit, mbarrier-overwritten, arrival-count, wgmma-register, missing-wgmma-fence.
// Invariant: a finding is certain for the order of events that was seen; what was not seen is not claimed.
// Not here: order between ordinary accesses (racecheck).
#pragma once
#include <memory>
#include <set>

#include "sanitize/async_order.h"
#include "sanitize/async_shadow.h"
#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/wgmma_registers.h"

namespace orrery::sanitize {

class Asynccheck : public exec::Observer {
 public:
  Asynccheck(const Options& options, Collector& collector) : options_(options), collector_(collector) {}
  void launch_begin(const exec::RunState&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void block_begin(const exec::CtaContext&) override;
  void block_end(const exec::CtaContext&) override;
  void access(const exec::Access&) override;
  void async_copy(const exec::AsyncEvent&) override;
  void barrier_arrive(const exec::Where&, uint32_t number, uint32_t expected, bool waits) override;
  void barrier_complete(const exec::CtaContext&, uint32_t number) override;
  void cluster_arrive(const exec::Where&, bool relaxed) override;
  void cluster_complete(const exec::ClusterContext&) override;
  void mbarrier(const exec::MbarrierEvent&) override;
  void instruction(const exec::Where&) override;
  void registers(const exec::Where&) override;
  void hang(const exec::RunState&, const exec::WaitGraph&, const std::string& text) override;

  /// The launch uses asynchronous operations.
  bool relevant() const { return relevant_; }

 private:
  struct Operation {
    exec::AsyncKind kind = exec::AsyncKind::cp_async;
    Moment issue;
    uint32_t lanes = 0, waited = 0;    // that issued it; that have waited for its group
    uint32_t group = 0;                // number of its group among those of the thread (of the warp for wgmma)
    uint64_t instance = 0;             // of the instruction's execution
    std::vector<std::pair<MbarrierState*, uint32_t>> phases;  // complete when such a phase is
    std::vector<Moment> read_done, done;                      // a thread waited: for its reads, for all of it
    bool grouped = false;
  };
  struct GlobalWrite {
    uint64_t begin, end;
    uint32_t operation;
  };
  /// What is known of one cluster (or block) while it runs.
  struct Resident {
    const exec::ClusterContext* cluster = nullptr;
    std::unique_ptr<AsyncOrder> order;
    std::map<const exec::CtaContext*, std::unique_ptr<AsyncShadow>> shared;
    std::vector<Operation> operations{1};                     // [0] is none
    std::map<uint64_t, std::pair<uint64_t, uint32_t>> global; // begin -> end, operation that writes it
    std::vector<GlobalWrite> new_global;                      // that are not in it yet: few kernels ask
    std::map<std::pair<const exec::WarpContext*, int>, std::vector<uint32_t>> committed;  // kind: groups per lane
    std::map<std::tuple<const exec::CtaContext*, uint32_t, uint64_t>, uint32_t> wgmma;    // warpgroup, its n-th instruction
    std::map<const exec::WarpContext*, WgmmaRegisters> registers;
    std::map<const exec::WarpContext*, std::vector<uint32_t>> pending;  // operations of groups that nobody has waited for
    std::map<const exec::WarpContext*, uint64_t> issued;      // wgmma instructions
    size_t blocks = 0;
  };
  /// A tensor map that the kernel changes: by whom, and who has fenced since.
  struct ChangedMap {
    Moment change;
    const exec::ClusterContext* cluster = nullptr;
    std::vector<std::pair<const exec::ClusterContext*, Moment>> fences;
  };

  Resident& at(const exec::CtaContext& cta);
  Resident& at(const exec::Where& where) { return at(*where.warp->cta); }
  AsyncShadow& shadow(Resident& r, const exec::CtaContext& cta);
  std::vector<uint32_t>& committed(Resident& r, const exec::WarpContext& w, exec::AsyncKind kind);
  bool read_over(const Resident& r, int warp, const Operation& o) const;
  bool over(const Resident& r, int warp, const Operation& o) const;

  uint32_t open(Resident& r, const exec::AsyncEvent& e);
  void check_reads(Resident& r, uint32_t id, const Moment& here, const exec::ByteRange& range);
  bool check_store_before(Resident& r, const Operation& o, const Moment& here, const Moment& store, uint64_t word);
  void check_writes(Resident& r, uint32_t id, const Moment& here, const exec::ByteRange& range);
  void change_map(Resident& r, const exec::Access& a);
  void check_map(Resident& r, const exec::AsyncEvent& e);
  void check_bar(Resident& r, const exec::AsyncEvent& e);
  void shared_access(Resident& r, const exec::Access& a, int lane, const exec::CtaContext& cta, uint64_t offset);
  void global_access(Resident& r, const exec::Access& a, int lane);
  void wait_group(Resident& r, const exec::Where& where, exec::AsyncKind kind, bool bulk, uint32_t left, bool reads_only);
  void wait_wgmma(Resident& r, const exec::Where& where, uint32_t left);
  void fence(Resident& r, const exec::Where& where);
  void use_of(Resident& r, MbarrierState& m, const exec::MbarrierEvent& e);
  void check_wait(Resident& r, MbarrierState& m, const exec::MbarrierEvent& e, const Moment& here);
  void check_waits_before(Resident& r, MbarrierState& m, const Moment& here);
  void left_bytes(Resident& r, const exec::CtaContext& cta);

  void report(const char* kind, const Moment& here, std::string message, std::string remedy, std::vector<std::pair<std::string, Moment>> others, uint64_t address = 0);

  const Options& options_;
  Collector& collector_;
  bool relevant_ = false;   // the kernel has asynchronous instructions or mbarriers
  std::map<const exec::ClusterContext*, Resident> resident_;
  std::vector<std::unique_ptr<AsyncShadow>> spare_;   // of blocks that have ended, all of one size
  std::map<uint64_t, ChangedMap> maps_;
};

}  // namespace orrery::sanitize
