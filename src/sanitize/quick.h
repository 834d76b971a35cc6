// sanitize/quick.h: the short way of all checks together for ordinary loads and stores of compiled code.
//
// Nearly every access is right: inside an allocation that its instruction has used before, of bytes that somebody has
// written, and ordered after whoever used them. Compiled code offers weak loads and stores of 4 to 16 bytes here
// (exec/observed.h); what is not clear at once is reported as if there were no short way, so that no verdict depends on
// it. What an instruction may use is learned when it is reported.
//
// What a launch only reads needs no record at all: loads of an allocation of which all bytes have been written and to
// which none of the kernel's pointers for writing leads (lower/shared_origin.h) are not even offered, but for those
// outside it (SiteRange). A store that leaves the allocation of its pointer does so as a finding of memcheck.
//
// Shared memory of a block that does what another has done before it is not looked at again (block_script.h).
//
// Taken only while one launch runs, without clusters and asynchronous operations, and while nobody wants to know which
// memory it uses (apicheck).
// Threads: the launch's only worker is in the short way without a lock; other threads that have something to tell the
// checks stop it first (QuickPause), which costs them a system call (membarrier) and the worker nothing.
#pragma once
#include <atomic>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/observed.h"
#include "exec/observer.h"
#include "sanitize/block_script.h"
#include "sanitize/initcheck.h"
#include "sanitize/memcheck.h"
#include "sanitize/racecheck.h"

namespace orrery::sanitize {

class Quick {
 public:
  /// Null: that check does not run.
  Quick(const Options& options, Memcheck* memcheck, Initcheck* initcheck, Racecheck* racecheck);
  ~Quick();
  /// Whether there can be a short way at all.
  bool possible() const { return possible_; }

  /// `suits`: nothing but the three checks wants this launch's accesses.
  void launch_begin(const exec::RunState& run, bool suits);
  void launch_end(const exec::RunState& run);
  void block_begin(const exec::CtaContext& cta);
  void block_end(const exec::CtaContext& cta);
  /// Before something is told to the checks that bears on the order or the shared memory of a block.
  void interrupt(const exec::CtaContext* cta) {
    if (script_cta_ && script_cta_ == cta) leave_script();
  }
  void interrupt(const exec::Access& access);
  /// After an access was reported.
  void learn(const exec::Access& access);
  /// Memory was freed.
  void forget();

 private:
  friend class QuickPause;
  struct Site {
    bool usable = false, writes = false, shared = false, constant = false, compares = false, atomic = false;
    exec::Scope scope = exec::Scope::none;           // of an atomic
    uint32_t bytes = 0, align = 0, number = 0;       // number: racecheck's
    uint64_t begin = 1, end = 0;                     // global: of an allocation; shared: what it must stay inside
    Initcheck::Tracked* tracked = nullptr;
  };
  static uint32_t run(const exec::WarpContext*, uint32_t pc, uint64_t address, uint32_t lanes, const void* values);
  static uint32_t same(const exec::WarpContext*, uint32_t pc, uint64_t address, uint32_t lanes, const void* values);
  static uint32_t block(const exec::WarpContext*, uint32_t pc, uint64_t address, uint32_t lanes, uint32_t n, uint32_t rows);
  static uint32_t atomic(const exec::WarpContext*, uint32_t pc, const uint64_t* addresses, uint32_t lanes);
  static bool barrier(const exec::CtaContext&, uint32_t number);
  static uint32_t any(const exec::WarpContext*, uint32_t pc, const uint64_t* addresses, uint32_t lanes, const void* values);
  bool enter(const exec::WarpContext& w, uint32_t pc, Site*& site);
  void leave() { busy_.store(false, std::memory_order_release); }
  bool inside(const Site& s, uint64_t low, uint64_t end, uint64_t bits) const {
    return low >= s.begin && end <= s.end && (bits & (s.align - 1)) == 0;
  }
  bool judge(const exec::WarpContext& w, const Site& s, const Step& step, const uint64_t* addresses, uint32_t equal);
  uint32_t shared_access(const exec::WarpContext& w, const Site& s, const Step& step, const uint64_t* addresses, const void* values);
  static std::pair<uint64_t, uint64_t> span_of(const Step& step, uint32_t bytes);
  static bool in_memory(const exec::CtaContext& cta, const Site& s, const Step& step, const uint64_t* addresses);
  void record(const Step& step, const uint64_t* addresses);
  void leave_script();
  void make_up();
  void find_written(const exec::RunState& run);
  bool only_read(const Block& b) const;
  void look_at(const exec::CtaContext& cta);
  bool initialised(const Site& s, uint64_t address, uint64_t bytes);
  bool initialised_run(const Site& s, uint64_t address, uint32_t lanes);
  bool unchanged_same(const Site& s, uint64_t address, const void* values, uint32_t lanes) const;
  uint32_t unchanged(const Site& s, uint64_t address, const void* values, uint32_t lanes) const;
  uint32_t unchanged(const Site& s, const uint64_t* addresses, const void* values, uint32_t lanes) const;
  uint32_t unchanged_by(const Site& s, const Step& step, const uint64_t* addresses, const void* values) const;

  const Options& options_;
  Memcheck* const memcheck_;
  Initcheck* const initcheck_;
  Racecheck* const racecheck_;
  bool possible_ = false;
  std::atomic<bool> busy_{false};                    // the worker is in the short way
  std::atomic<int> stops_{0};                        // others that want to be alone
  std::atomic<const void*> worker_{nullptr};         // a thread's mark
  int launches_ = 0;
  const exec::RunState* run_ = nullptr;              // the launch that may take the short way; null: none
  std::vector<Site> sites_;                          // by instruction of its kernel
  std::unordered_map<uint64_t, std::optional<std::vector<uint32_t>>> written_params_;  // by the hash of the program
  bool writes_known_ = false;
  std::vector<uint64_t> written_;                    // where the allocations begin that it may write to
  const exec::CtaContext* cta_ = nullptr;            // whose shared memory is
  WrittenBits* shared_bits_ = nullptr;
  SharedShadow* shared_shadow_ = nullptr;
  const std::byte* shared_ = nullptr;

  enum class ScriptUse : uint8_t { none, record, follow };
  static constexpr int kMostDoubts = 8;
  BlockScript script_;
  bool script_ready_ = false;
  ScriptUse script_use_ = ScriptUse::none;
  const exec::CtaContext* script_cta_ = nullptr;     // the block that records or follows
  size_t script_at_ = 0, script_epoch_ = 0;          // the next step; the first since all threads met
  std::vector<uint32_t> script_equal_;               // by step of a block that follows: lanes that stored what was there
  int script_doubts_ = 0;                            // more blocks do something else
  bool script_failed_ = false;                       // the last block that followed did not come to its end
};

/// Keeps the worker out of the short way; nothing on the worker's own thread.
class QuickPause {
 public:
  explicit QuickPause(Quick* quick);
  ~QuickPause();
  QuickPause(const QuickPause&) = delete;

 private:
  Quick* quick_;
};

}  // namespace orrery::sanitize
