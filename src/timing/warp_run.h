// timing/warp_run.h: where a warp and a block of an SM stand that is simulated in detail; private to sm*.cc.
//
// Not here: what moves them on (sm*.cc), what the SM's units are busy with (sm_state.h).
#pragma once
#include <array>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timing/apart.h"
#include "timing/leaving_lines.h"
#include "timing/sm.h"
#include "timing/sm_units.h"

namespace orrery::timing {

struct Mbarrier {
  int64_t pending = 0, expected = 0, bytes = 0;
  uint32_t phase = 0;
  double when = 0;                   // of the last completion
  bool of_copies = false;
  std::vector<std::pair<double, int64_t>> arriving;  // transaction bytes on their way
};

struct NamedBarrier {
  uint32_t arrived = 0;
  double last = 0;
  double open = 0;                   // when the next phase may begin
  bool reduces = false;              // it tells warps of all threads
  std::vector<uint32_t> waiting;     // warps
};

/// A store that has not left its SM takes up others of its sub-core to its line.
struct WaitingStore {
  uint64_t line = ~uint64_t{0};
  double leaves = 0;
  bool held = false;                 // by its slice of L2
  uint64_t requests = 0;             // that the sub-core had made
};

/// A line to which a warp has stored.
struct StoredLine {
  uint64_t line = ~uint64_t{0};
  double issued = 0;                 // when the latest was that it took up
  bool gone = false;                 // before another could join it
  bool joined = false;               // in local memory: the latest did, and which bytes of the words all have
  uint8_t bytes = 0;
  uint64_t loads = 0;                // that the warp had made
};

struct WarpRun {
  const std::vector<Step>* steps = nullptr;
  const TracedWarp* trace = nullptr;
  uint32_t at = 0;
  uint32_t slot = 0;
  uint32_t sub = 0;
  uint32_t place = 0;                // in its block
  double ready = 0;                  // stall counts
  std::array<double, 6> barrier{};   // when each dependence barrier frees
  uint8_t results = 0;               // those that free when a result is there (no constant), not when operands have been read; a bit each
  bool live = false, blocked = false;
  uint32_t looks = 0;                // how often it has waited for the grid
  uint8_t parted_from = 0;           // lanes that were together when some last set out on a way of their own
  double copies_done = 0, group_done = 0;
  // A loop of loads and swaps that makes an atomic of floats in shared memory: its event, when the turn loaded, what is left to do.
  const Event* swaps_for = nullptr;
  double swap_loaded = 0;
  std::vector<uint64_t> swaps_left;
  bool stored = false, gave_peers = false;  // since its last barrier of memory: to L2, something to other blocks
  uint32_t met_before = ~0u;         // that one: Slot::meets
  std::array<StoredLine, kNear> stored_lines{};  // the latest
  bool row_waited = false;           // as much was loaded before its row of stores
  uint32_t row_ends = 0, row_lines = 0, row_most = 0;  // of its stores one right behind the other: the step behind the last, and the lines of all
  uint64_t stores = 0, loads = 0;    // of lines; instructions
  double loaded = 0;                 // when its loads are there
  double arrives = 0;                // when the last one is
  double filled = 0;                 // when the last one is for which L1 had to wait
  std::vector<double> copy_groups, bulk_groups, product_groups;  // of products: kNever while one of the group has not begun
  uint32_t waits_object = UINT32_MAX, waits_phase = 0;
  bool tests = false;                // does it look by test_wait?
  uint32_t looks_by = 0;             // instructions of a look
  double waits_until = 0;            // for an mbarrier: kNever as long as that is not known
  uint32_t beside = 0;               // warps that waited for one, itself too, when it began to: of its SM where it tests, else of its sub-core
  uint64_t age = 0;
  double issued = -1;                // when it last issued
  uint64_t turn = 0;                 // Front::turn where it is not put off
  uint32_t since_branch = 0;         // instructions since it last took a branch
  bool parted = false;               // have others issued since?
  bool put_off = false;              // it goes behind all others until it issues again
  Apart apart;                       // of it alone, while it roams
  bool roams = false;                // it has loaded so often since it met others that it has a time of its own on each SM
  uint32_t trips = 0;               // loads since, one after the other
  double came = 0, queued = 0;       // when the last came; cycles since for which it has waited for others
  Wait why = Wait::fixed;            // what Front::earliest waits for
  std::array<Wait, 6> set_by{};      // what each dependence barrier stands for
};

inline constexpr int kOwnTurn = 32;           // bits of a warp's turn within its block
inline constexpr uint32_t kFetchedAhead = 4;   // instructions of a warp that are there when others issue
inline constexpr uint64_t kPutOff = uint64_t{1} << 63;  // a turn behind all blocks'
inline constexpr uint32_t kFirstTurns = 64;   // turns of warps that have waited for nothing yet, the last of a block first

/// What decides which warp issues next; of all warps of an SM side by side, since they are looked at far more often than they issue.
struct Front {
  double earliest = kNever;          // when dependences let it issue
  uint64_t turn = 0;                 // the lowest goes first: its block's, then its own in kOwnTurn bits
  uint32_t products_waiting = 0;     // wgmma that it issued and that have not begun
  uint8_t sub = 0;
  Class kind = Class::nop;           // of its next instruction
  bool reads_uniform = false;        // does that read a uniform register?
};

/// What a block has waited for from L2 or memory: when the latest began, when the first and the last of it came; squares of what came before.
struct Fetching {
  double began = 0, first = -1, ends = 0, variance = 0;
};

struct Slot {
  bool used = false;
  BlockWork work;
  uint32_t live_warps = 0, warps = 0, threads = 0;
  std::vector<uint32_t> members;
  std::array<NamedBarrier, 16> barriers;
  NamedBarrier cluster;
  std::unordered_map<uint32_t, Mbarrier> mbarriers;
  struct Moves {                     // sectors by which addresses of one slope move from the traced block
    bool known = false;
    int64_t own = 0;
    std::vector<uint32_t> mates;     // by SM: alike where the same is touched, 0 where there is no block; empty: nobody touches what another does
    std::vector<std::pair<int64_t, uint32_t>> ghosts;  // of each, and its SM: in_order()
    uint32_t turn = 0;               // Apart::turn by which they are
  };
  std::vector<Moves> moves;          // by number of the slope
  struct Place {                     // blocks from the traced one to a ghost's
    int64_t x = 0, y = 0, z = 0;
    uint32_t sm = 0;
  };
  std::vector<Place> places;         // of ghosts that have a block; found when the first is asked for
  struct Ghost {                     // of kernels whose blocks differ
    GhostTraces::View block;
    uint64_t index = 0;
    uint32_t sm = 0;
    bool as_traced = false;          // the trace is the block's own
  };
  std::vector<Ghost> ghosts;         // in_order()
  uint32_t ghosts_turn = 0;
  double released = -1;              // when what the block before this one writes was seen
  Apart apart;                       // of its warps, but for those that roam
  double began = 0;
  uint32_t units = 0, shared_units = 0;  // instructions since the last trip in units for which warps queue
  double stalled = 0;                // cycles that warps waited for what was fetched ahead, since the last was
  uint32_t stalls = 0;               // and how often they looked
  bool met = false;                  // warps have met at a barrier since
  bool in_phase = false;             // all blocks wait for the same data
  Fetching fetching;                 // since its cluster met
  uint32_t meets = 0, fenced_meet = ~0u;  // barriers that its warps have gone on from; how many when the first barrier of memory since came
  double fenced_from = 0;            // and when that was
  std::unordered_map<uint64_t, double> swapped;  // words of shared memory: when a lane last swapped one
};

}  // namespace orrery::timing
