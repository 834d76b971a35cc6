// sanitize/racecheck.h: data races in shared, distributed shared and global memory.
//
// Two accesses of different threads to the same byte race when at least one writes, neither happens before the other
// (race_order.h), and they are not both strong with scopes that reach each other. Lanes of a warp are threads like any
// others: being in step orders nothing.
//
// Not reported unless strict: a write that leaves the memory as it was (it counts as a read), since no order of it and
// other accesses makes a difference to anybody.
// Asynchronous copies are not looked at here (asynccheck).
#pragma once
#include <map>
#include <unordered_map>

#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/race_order.h"
#include "sanitize/race_shadow.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

class Racecheck : public exec::Observer {
 public:
  Racecheck(const Options& options, Collector& collector) : options_(options), collector_(collector) {}

  void launch_begin(const exec::RunState&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void block_begin(const exec::CtaContext&) override;
  void exit(const exec::Where&) override;
  void access(const exec::Access&) override;
  void warp_sync(const exec::Where&, uint32_t members) override;
  void barrier_arrive(const exec::Where&, uint32_t number, uint32_t expected, bool waits) override;
  void barrier_complete(const exec::CtaContext&, uint32_t number) override;
  void cluster_arrive(const exec::Where&, bool relaxed) override;
  void cluster_wait(const exec::Where&) override;
  void cluster_complete(const exec::ClusterContext&) override;
  void mbarrier(const exec::MbarrierEvent&) override;
  void instruction(const exec::Where&) override;
  void heap_allocate(const exec::Where&, int lane, uint64_t address, uint64_t bytes) override;

  // The short way (quick.h); false: something is not clear, the access must be reported. Addresses are multiples of the
  // access's 4, 8 or 16 bytes, places in the block's shared memory when `memory` says so.
  struct QuickMemory {
    SharedShadow* shared = nullptr;   // null: global memory
  };
  bool quick_run(const exec::WarpContext& w, const QuickMemory& memory, uint32_t site, uint64_t address, uint32_t mask, uint32_t bytes, bool writes, uint32_t same);
  bool quick_same(const exec::WarpContext& w, const QuickMemory& memory, uint32_t site, uint64_t address, uint32_t mask, uint32_t bytes, bool writes, bool same);
  bool quick_any(const exec::WarpContext& w, const QuickMemory& memory, uint32_t site, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool writes, uint32_t same);
  /// Relaxed atomics of that scope, one lane after the other. `fresh`: lanes whose words nobody is known to have written.
  bool quick_atomic(const exec::WarpContext& w, const QuickMemory& memory, uint32_t site, exec::Scope scope, const uint64_t* addresses, uint32_t mask, uint32_t bytes, uint32_t& fresh);
  /// Every lane reads all words of [address, end) in shared memory, or lane i word i (of `bytes`) of every row of 32.
  bool quick_block(const exec::WarpContext& w, SharedShadow& shadow, uint32_t site, uint64_t address, uint64_t end, uint32_t mask, uint32_t bytes, bool rows);
  /// All threads of the block meet.
  bool quick_barrier(const exec::CtaContext& cta, uint32_t number);
  /// Reads of these bytes of shared memory need no record.
  bool is_quiet(const SharedShadow& shadow, uint64_t address, uint64_t end) const {
    for (uint64_t line = address / kLineBytes; line * kLineBytes < end; line++)
      if (shadow.heads[line].quiet != epoch_) return false;
    return true;
  }
  uint32_t site_of(const exec::Access& a);
  SharedShadow& shared_of(const exec::CtaContext& cta);

 private:
  struct Seen;
  enum class QuickDoes : uint8_t { read, write, write_same };
  bool see(const exec::WarpContext& w, bool shared, uint32_t site, Seen& seen);
  void quick_line(const QuickMemory& memory, uint64_t address, LineHead*& head, Cell*& cells);
  bool quick_scattered(SharedShadow& shadow, const Seen& seen, const uint64_t* addresses, uint32_t mask, bool writes, uint32_t same);
  bool quick_segment(SharedShadow& shadow, uint64_t line, const Stamp& now, uint32_t from, uint32_t to, QuickDoes does);
  bool quick_words(const QuickMemory& memory, const Seen& seen, uint64_t address, uint32_t n, uint32_t lane, uint32_t shift, QuickDoes does);

  struct Site {
    Place place;
    isa::Type type = isa::Type::none;
    bool volatile_ = false, atomic = false, cas = false, load = false;
  };
  struct Block {
    uint32_t ctaid[3] = {};
    uint32_t cluster = 0;      // serial of its first block
    exec::Dim3 shape;
  };
  /// Of a block in a cluster: the latest use of its shared memory by each thread of another block, and what its threads
  /// knew when they ended.
  struct End {
    std::unordered_map<uint64_t, Stamp> visitors;
    KnowledgePtr known;
  };
  /// One lane's access while it is looked at.
  struct Now {
    const exec::Access* access = nullptr;
    int lane = 0;
    Stamp stamp;
    const Knowledge* known = nullptr;
    const Knowledge* seen = nullptr;    // of a strong access: what earlier strong reads have seen
    const Knowledge* depends = nullptr; // orders a write after a read
    const std::byte* memory = nullptr;  // the access's first byte
    uint32_t oldest = 0;                // stamps of earlier blocks than this are of the past
    bool reads = false, writes = false, shared = false;
    bool silent = false;                // a store of what is there: the last write stored the same
  };

  void lane(const exec::Access& a, int lane, uint32_t site, WarpOrder& w, BlockOrder& b);
  void strong(const exec::Access& a, int lane, const std::byte* memory, bool global);
  void word(Now& now, Cell& cell, WordMap& words, uint64_t address, uint8_t mask);
  void visit(Now& now, Cell& cell, uint8_t mask);
  bool ordered(const Now& now, const Stamp& before) const;
  /// `before` is of a lane that stores the same value with the same execution of the instruction.
  bool guess_for_cas(const Now& now, const Stamp& before) const;
  bool same_store(const Now& now, const Stamp& before) const;
  bool reach_each_other(const Stamp& a, const Stamp& b) const;
  Place place_of_stamp(const Stamp& s) const;
  void report(const Now& now, const Stamp& before, bool before_wrote);
  Finding describe(const Now& now, const Stamp& before, bool before_wrote) const;
  std::string value_of(const Now& now, bool stored) const;

  const Options& options_;
  Collector& collector_;
  RaceOrder order_;
  GlobalShadow global_;
  std::unordered_map<const exec::CtaContext*, std::unique_ptr<SharedShadow>> shared_;
  std::unordered_map<const exec::DecodedProgram*, std::vector<uint32_t>> site_numbers_;
  std::vector<Site> sites_{1};
  /// What is found of one pair of lines, in any order and kind, until the launch ends: the race between the threads
  /// that are farthest apart stands for all, because what orders those orders the others too.
  struct Pair {
    Finding finding;
    int distance = 0;
    uint64_t count = 0;
  };
  void flush();
  std::map<std::pair<std::string, std::string>, Pair> found_;
  std::unordered_map<uint64_t, std::pair<Pair*, int>> known_;  // by pair of sites and distance
  std::unordered_map<uint32_t, End> ends_;         // by serial, of clusters that run
  std::vector<Block> blocks_;                      // by serial - first_
  uint32_t first_ = 1;                             // serial of blocks_[0]
  uint32_t quick_oldest_ = 0;                      // of the launch that began last
  uint32_t epoch_ = 1;                             // goes up whenever something orders threads of a block
  std::unordered_map<const exec::RunState*, uint32_t> launches_;  // first serial of a launch that runs
};

}  // namespace orrery::sanitize
