// timing/sm_state.h: what an SM in detail consists of; private to sm*.cc.
//
// sm.cc issues instructions, sm_memory.cc and sm_copies.cc move data, sm_ghosts.cc knows what other SMs do meanwhile, sm_sync.cc has
// barriers and mbarriers, sm_fences.cc barriers of memory.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <unordered_map>
#include <utility>
#include <optional>
#include <set>
#include <vector>

#include "timing/apart.h"
#include "timing/fences.h"
#include "timing/l1.h"
#include "timing/leaving_lines.h"
#include "timing/sm.h"
#include "timing/touched_slices.h"

namespace orrery::timing {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr double kQueue = 24;        // cycles of work that a memory queue of a sub-core holds before issue stops
inline constexpr size_t kProductQueue = 6;   // wgmma of a sub-core that are issued and have not ended [wgmma.issued.1groups, 2groups: six, however many warps]
inline constexpr double kProductDone = 49;    // from the end of a wgmma until who waits for it goes on [wgmma.batch.1.wait0 to 8.wait0: 59 cycles beside the products, ten of them in the loop]
inline constexpr double kCopyBytes = 142;    // that arrive in shared memory in a cycle in which wgmma does not read [ring_one/5, ring_few/5: a step of 64 x 256 x 64 takes 606 and 641 cycles; effective, chosen with the next among the pairs that give these: docs/timing.md]
inline constexpr double kCopiesWait = 320;    // cycles of copies into shared memory that wait while wgmma reads there: what a step of a product brings [ring_few/4, 5]
inline constexpr double kWideArithmetic = 2; // ... and half-rate arithmetic [mixes of wide products and two and three pieces of logic (YLL, YLLL): 6.2 and 8.3 cycles]
inline constexpr double kWideSum = 4;        // for which it keeps the register file from being read where 64 bits are added that registers hold [only_near_b_4 of calib/naive.cu: 663 thousand cycles; 660 here, 585 without]
inline constexpr double kWideProduct = 2;    // cycles by which a product of 64 bits, or its upper half, holds its warp up [form.mul_hi_u32: 6.2 for 4, 9.2 in a chain; instruction.mul_lo_s64]
// Beside wgmma, which reads and writes its sums, whatever reads registers waits for them, and with it all that its sub-core would issue next:
// half-rate arithmetic [overlap.max, pack, logic; softmax.maxima: dependent ones 7 cycles apart for 4], integer products and halves [overlap.imad, half], special functions
// [overlap.special, softmax.exponentials].
inline constexpr double kHeldUp = 2.6, kHeldUpRegisters = 2.1;  // the second where A comes from registers
inline constexpr double kProductHeldUp = 2, kSpecialHeldUp = 2.4;
inline constexpr double kReadBeside = 3.46, kReadBesideRegisters = 3.84;  // a read from a bank by full-rate arithmetic takes so long [overlap.fma: from both banks by turns, 1.65 and 1.76 cycles; softmax.exponentials: from one, 3.5]
inline constexpr double kFmaDelays = 0.405;    // cycles by which it holds wgmma up [overlap.fma]
inline constexpr double kShuffleBeside = 9.4;   // cycles more [overlap.shuffle]
inline constexpr double kClusterBarrier = 60;  // from the last arrival [barrier.cluster: 354 with what is around it, of which the fence of an arrival that releases takes most]
inline constexpr double kFetchSpread = .125;   // of the time for which a block has waited for L2 or memory: how far blocks of a cluster that have are apart [calib/cluster_clocks.cu: what they wait for the last of 2, 4 and 8 beyond what that one waits]
inline constexpr double kIssueToHit = 4, kIssueToMiss = 13;  // of a load's latency that lie before its request [latency.global.ca.16KB, 16384KB]
inline constexpr double kCopySooner = 44;    // of a load's latency that a bulk copy does not take [tma.bulk.latency.l2.16B to 1024B]
inline constexpr double kStoredPiece = 2.9;  // cycles of the copy engine for a piece of a row that it stores, at least [box_store/8]
inline constexpr double kAddedSector = 1.17;  // times that its first sector takes an atomic unit, for each other one that the copy engine adds to in a line [box_add_same/64, box_add/8 to 128: 47, 34, 39 and 42 sectors a cycle]
inline constexpr double kIssueToRemote = 11;  // of a load from another block that lie before it leaves [latency.dsmem.2ctas.peer1]
inline constexpr double kCall = 23, kCallIssue = 3;  // cycles from a call or a return to the next instruction, and until another warp issues [call_leaf, call_nested]
inline constexpr double kCallAny = 83, kCallAnyIssue = 24;  // ... and from a call of what a register holds [call_pointer]
inline constexpr double kTakenBranch = 11;   // cycles to the next instruction, at least [short_loop/4, side_none/1, side_all/1: 29.5, 30.2, 65 cycles a turn]
inline constexpr double kWriteQueue = 8;      // results that may wait for the write port of the register file
inline constexpr double kCountLanes = 4.25;   // wavefronts of a shared atomic that adds the number of lanes [shared_add: any addresses]
inline constexpr double kAtomicWave = 0.8;     // cycles of a wavefront of any other [shared_add_bins/8: 5.9 for 7.4, others: 2.8 for 3.5]
inline constexpr double kSwap = 58;            // until a compare-and-swap of a loop that stands for an atomic has answered [shared_add_float/1024]
inline constexpr uint16_t kS2r = 0x119, kS2ur = 0x1c3, kCacheControl = 0x18f;
inline constexpr double kUniformRegister = 29;  // until a special register is in a uniform one [overlap.alternate.fma.groups1: 73 cycles a product, of which this is one]
inline constexpr double kTriesEvery = 8200, kTestsEvery = 99, kPoll = 3;  // cycles from one look for an mbarrier's phase to the next, of try_wait and test_wait; instructions of each but the first [poll_try_1/4096, 16384; poll_test_1]
inline constexpr double kTestsApart = 7;      // cycles from one test_wait of an SM to the next, where more warps wait [looks.cu: crowd, 15 to 60 waiting warps look each 125 to 343 cycles]
inline constexpr uint32_t kAsleep = 12;       // warps of a sub-core that try_wait may keep asleep: where more wait, they look by turns ... [looks.cu: crowd, up to 8 look once, 15 and 16 again and again]
inline constexpr double kTriesApart = 46;     // ... so many cycles apart [the same: 3.5 and 3.8 looks in 1,840 and 1,930 cycles]
inline constexpr uint16_t kMembar = 0x192, kFenceView = 0x1c6, kStoreMatrix = 0x044, kCloseBulkGroup = 0x1b7;
inline constexpr double kFenceOfBlock = 4.4, kFenceOfBlockWaits = 6, kFenceOfBlockOrders = 20;  // barrier of memory for the block alone: one warp of an SM after another, and until its warp goes on: of membar, and of one behind a store or that acquires and releases [fence_block/8 to 32, fence_block/1, fence_block_store/1, fence.cta]
inline constexpr double kOff = 3;            // cycles of its sub-core's queue that an access takes which no lane executes [off_load to off_write: 1.5 to 6% too slow; tree_steps]
inline constexpr double kFencePipe = 4.3;      // of the pipe to shared memory that a fence of the async proxy takes [turns.fence_alone.warps16]
inline constexpr double kFenceWaits = 3.6;     // from there until its warp goes on [turns.fence_alone.warps1: 12.6 with the barrier of memory before it]
inline constexpr double kFenceDrains = 14, kFenceOfStores = 24;  // the same where something was stored since the last one [turns.end.fence]
inline constexpr double kBulkGroup = 10;       // closing a group of bulk stores, and looking whether one has ended [turns.group_wait: 20.2 both]
inline constexpr double kMatrixWaveQueue = 3.2, kMatrixWave = 1.07;  // of a wavefront of stmatrix: of its sub-core, of the pipe [turns.store_matrix.warps1: 12.8 for 4 of them, warps8: 34.2 for 32]
inline constexpr double kMatrixMove = 6.5;    // a transposed 8 x 8 piece [fragments_column_512/16]
inline constexpr double kPartialLine = 2;  // cycles for each line of a store of parts of sectors [lane_stores_4_8_warps/1, lane_stores_groups/2 and 4: 2.01 to 2.15; of whole sectors, groups/8: 1.1]
inline constexpr uint32_t kFewLines = 4;  // of a store, up to which the pipe takes a cycle for each whatever it has of them
inline constexpr double kConstantWord = 2.03;  // cycles for each different word of the constant bank that a warp reads [constants_chase/1024: 2.06, constants_words_2 to 32: 2.01 to 2.12]
inline constexpr uint64_t kLocalBase = uint64_t{1} << 52;  // where local memory lies here
inline constexpr double kSleep = 5.6, kSleepLeast = 68;  // cycles in which one warp of an SM goes to sleep, and from there until it wakes [sleep_many/0, sleep/0; sleep/50 to 100000: 1.0 times the next power of two]
inline constexpr double kMatchValue = 2;      // cycles for each different value that lanes hold, one warp of an SM at a time [match_values/1 to 32]
inline constexpr double kMatch = 60, kMatchWait = 4.9;  // until the result is there, and for each value [match_alone/1 to 32]
// Special registers hold the pipe of shuffles [special_sm/32, special_warp/32; special_shuffles/32: 3.02 with a shuffle]; those of a thread's and a block's
// place for less long [short_blocks/512: blocks that read six of them take 12 cycles a warp].
inline constexpr double kSpecial = 2, kSpecialPlace = 1;
inline constexpr double kRedux = 2;            // adding up over a warp holds what match does [reduce_all of members.cu]
inline constexpr double kMeet = 22;           // cycles in which lanes that had parted meet again [side_half/1, side_one/1]
inline constexpr double kRemoteSector = 3.1, kRemoteSectorWord = .2, kRemoteSame = 8;  // cycles in which additions to a sector of another block leave an SM: at least, each word, each lane on one word [remote_add_any, remote_add_lanes, remote_add_one]
inline constexpr double kLinesLookedUp = 3.93;  // by L1 in a cycle [lane_lines.hit.4bytes.32lines.apart.4together.16warps]
inline constexpr double kWavefront = 2;         // cycles of what L1 gives back in one to a sub-core [lane_lines.hit.4bytes.32lines.one_bank.4together.1warps]
inline constexpr double kWordMoreMissed = 0.8;  // a word more of a bank where not all was in L1 [lane_lines.line.4bytes.32lines.one_bank.1together.1warps]
inline constexpr double kAnswered = 1.335, kAnsweredWordMore = .128;  // of the time of a sector in all of L2's atomic units together: an answer of one word, and each word more [add_answered, sector_answered: 39 and 23.5 a cycle]
inline constexpr double kWordMore = .073;  // of a sector's time in its unit: each word more [add_silent, sector_silent: 52 and 35 a cycle]
inline constexpr double kDoublePasses = 2.08, kDoubleWordMore = .11;  // sums of doubles: times of a sector of four words (one takes as long as any other word [random_add_f64]), and for each word more of a sector summed again [dense_f64/32, 256 and 4]
inline constexpr double kAtomicOut = .9, kAtomicWordOut = .165, kSwapOut = 1.25;  // cycles for which a line's words leave an SM: at least, each of one sector, and of compare and swap [add_silent/1, sector_silent/1, swap_answered/1]
inline constexpr double kRemoteWords = 1.8;   // rate of loads of 4 bytes a lane from another block over that of loads of 16 [take4_2/1024: 7.75 cycles]
inline constexpr double kRemoteLoad = 1.97, kRemoteLoadFar = 2.2;  // cycles for each sector of such a load [take4_32_2/1024, take4_8_2/1024; take4_8_4/256, take16_4/256]
inline constexpr double kRemoteBank = 3.25;   // ... and for each word of a bank [take4_128_2/1024]
inline constexpr double kRemoteBankWide = 5;  // ... in clusters of more than four [calib/takes.cu: all warps read a word of each of 8 blocks, 8 to 64 warps: 4.7 to 6.5 cycles each; of 2 and 4 blocks about 3]
inline constexpr double kRemoteStore = 1.82, kRemoteStoreFar = 1.98;  // for each sector that a store to another block fills, or half of one that it does not [put16_2/1024, put8_2, put4_8_2, put4_32_2; put16_4/1024, put4_8_4, put4_32_4]
inline constexpr size_t kClockReads = 100'000;
inline constexpr uint64_t kNear = 8;         // lines from one that is stored to another that joins it, at most [struct3_3 to struct7_3_read: nearly all join; pieces8_4_4: some; struct10_5_read, struct12_6: none]
inline constexpr double kJoinsWithin = 16;  // cycles from a store of a warp until one could be issued that joins it [struct3_3, struct7_3_read, one right behind the other: nearly all; store_parts, a turn of a loop: none]
inline constexpr uint32_t kInARow = 16;       // instructions from one store to another right behind it [pieces2_8_8_work4: as without]
struct RowLines {
  double together = 0, apart = 0;
};
inline constexpr RowLines kRow{12, 34};       // lines of stores one right behind the other: so many join, of so many none [pieces]
inline constexpr RowLines kWaited{6, 12};     // the most of one of them, where warps load as much before [move_4_5_5, move_8_3_3: 0.87 to 0.98 join; move_4_7_7, 4_4_7, 16_2_2: 0.4 to 0.7; move_4_9_9: 0.3; move_16_3_3: 0.1]
inline constexpr RowLines kWaitedAlone{8, 18};  // where no other warps could store [move_8_4_4_work: all; move_16_3_3_work: 0.7; move_16_4_4_work: 0.2]
inline constexpr uint32_t kLooksBack = 256;   // instructions before a row in which that is looked for
inline constexpr double kAtOnce = 3;          // cycles within which a store leaves that finds nothing ahead of it
inline constexpr uint32_t kFewestInRow = 3;   // lines that a store counts as, at least [pieces1_8_8: as 24]
inline constexpr size_t kCompeting = 2;      // warps of a sub-core that could store besides one and so come between its stores [go_4_7_7/8: 0.84 join; /32: 0.05]
inline constexpr double kOnTheWay = 300;     // cycles of writes that are between SMs and L2; the rest waits in the SMs [store_parts_few]
inline constexpr double kOutstanding = 1200;  // cycles of traffic that may be queued towards L2
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
  uint64_t stores = 0;               // of lines
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
  Apart apart;                       // of it alone, while it roams
  bool roams = false;                // it has loaded so often since it met others that it has a time of its own on each SM
  uint32_t trips = 0;               // loads since, one after the other
  double came = 0, queued = 0;       // when the last came; cycles since for which it has waited for others
  Wait why = Wait::fixed;            // what Front::earliest waits for
  std::array<Wait, 6> set_by{};      // what each dependence barrier stands for
};

inline constexpr int kOwnTurn = 32;           // bits of a warp's turn within its block
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

struct Sm::State {
  State(const ChipFigures& f, const Kernel& k, Chip& c, uint32_t n, uint32_t slots);
  const ChipFigures& f;
  const Kernel& kernel;
  const std::vector<MachineInstruction>& code;
  Chip& chip;
  const uint32_t number;
  std::vector<Slot> slots;
  std::vector<WarpRun> warps;
  std::vector<Front> fronts;                     // of each warp
  std::array<std::vector<uint32_t>, 4> active;   // warps of each sub-core
  std::array<uint32_t, 4> last{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  std::vector<uint32_t> free_warps;
  std::vector<std::pair<uint64_t, double>> finished;
  L1 l1;
  ConstantCache constant_cache;
  CodeFetch fetched;
  TouchedSlices slices;
  SmCounts counts;
  uint64_t ages = 0;
  uint64_t first_block = ~uint64_t{0};
  // Resources: the time at which each is free.
  struct SubCore {
    uint64_t stores = 0, requests = 0;          // to L2; of loads and atomics
    std::array<WaitingStore, kNear> waiting{};  // the latest stores
    double bank[2] = {0, 0};                    // read ports of the register file
    uint64_t waited = 0;                        // how often a warp had to wait for a result
    double write = 0;                           // its write port: a register a cycle
    double returned = 0;                        // when L1 has given its warps what it held
    double issue = 0;                           // when the next instruction may be issued
    double wakes = 0;                           // when one of its warps may issue, unless something happens to one before
    uint64_t kept[3][2] = {{~0ull, ~0ull}, {~0ull, ~0ull}, {~0ull, ~0ull}};  // operand cache: warp << 8 | register, by slot and bank
    struct Product {                            // issued, not begun
      uint32_t warp = 0;
      uint64_t age = 0;                         // of the warp
      const MachineInstruction* m = nullptr;
      double issued = 0;
    };
    std::deque<Product> products_waiting;       // in order of issue
    bool takes_registers = false;               // the last one begun takes A from registers
    std::deque<double> product_ends;            // of those that have begun
    double seen_written = 0, owed = 0;          // of shared_written: until the last product began; what found no room since
    double alu = 0, fma_heavy = 0, fma_lite = 0, half = 0, fp64 = 0, xu = 0, uniform = 0, queue = 0, tensor = 0, mover = 0, products = 0, held_up = 0;
  };
  std::array<SubCore, 4> sub;
  void note_row(WarpRun& w);
  bool stays_near(const WarpRun& w, uint64_t line, bool alone) const;
  bool joins_waiting(WarpRun& w, uint64_t line, double at, bool alone, bool& joins_held);
  LeavingLines leaving_lines;
  size_t competing(const WarpRun& w) const;
  void part_stores(WarpRun& w);
  double leaves_at(WarpRun& w, uint64_t line, uint32_t mask, double at);
  Fences fences;
  std::vector<CopyUnderWay> copies_under_way;  // that the SM's copy engine has been given
  double copied(double now, double when) const;
  void fence_copy(const CopyUnderWay& copy, double now);
  double translated = -1;   // when addresses are
  bool stored_shared = false;  // since the last fence of the async proxy
  double shared_written = 0;  // cycles of shared memory's bandwidth that copies into it have taken
  double pipe = 0;          // L1 and shared memory: one wavefront a cycle
  double texels = 0;        // the texture unit
  double described = -1;    // when it knows the texture
  static constexpr size_t kSurfaceLines = 16;  // of stores to surfaces that others take up, of the older half every other one [surface_write_4: all do; surface_write_4x4: a third to a half]
  struct SurfaceLine {
    uint64_t line = ~uint64_t{0};
    uint32_t sectors = 0;
    double issued = 0;
  };
  std::array<SurfaceLine, kSurfaceLines> surface_lines{};  // the latest
  size_t surface_stores = 0;
  bool joins_surface(uint64_t line, uint32_t sectors, double at);
  struct Fetch {
    double done = 0, cycles = 0;
  };
  std::deque<Fetch> fetches;        // of it that are under way: those that came last at the end
  double fetched_cycles = 0;        // of them all
  double request = 0, write_port = 0, tma = 0, barrier_unit = 0, dsmem = 0, peers_done = 0, match = 0, sleeper = 0, block_fences = 0, constants = 0;
  // Requests leave in order; stores that L2 cannot take yet hold up what is behind them.
  static constexpr size_t kWaiting = 16;         // stores that wait to leave before the SM holds up its warps [store_lines/8, 32]
  static constexpr double kJoin = 12;            // cycles [store_one_word/64: 11.8 for each that does not leave the SM]
  static constexpr size_t kInFlight = 45;        // stores that L2 has not taken yet [store_one_word/1: 48 of 64 leave the SM]
  std::array<double, kInFlight> taken{};         // by L2: the latest
  std::array<double, kWaiting> left{};              // the SM: the latest
  uint64_t stores = 0;
  double held_until = 0;
  using Moves = Slot::Moves;
  std::vector<Slope> slopes;                          // those of the kernel's instructions, each once
  std::unordered_map<uint32_t, uint32_t> slope_of;    // by PTX instruction, of those that move evenly: which; others have the first, none
  static constexpr size_t kTogether = 1024;       // requests that are looked up at a time, and as many more as one line makes
  std::vector<Request> requests, ends;              // ends: one sector of each, which a store fills in part
  size_t n_requests = 0;                          // that wait to be looked up
  float asking_apart = 0;                         // see Request::apart
  const float* asking_late = nullptr;             // Apart::late of who asks
  uint32_t first_sm = 0;                          // of the detailed one and its ghosts
  uint32_t fresh_warps = 1;                       // of the block that begins
  uint64_t draws = 0;
  uint32_t roamed_last = UINT32_MAX;              // the warp that did
  uint32_t orders = 0;                            // that Apart::turn counts
  struct AnsweredTogether {        // SMs whose requests became one; of this turn of `draws` only
    uint64_t key = 0, turn = 0;
    float late = 0, wake = 0;
    uint32_t asked = 0;
  };
  std::vector<AnsweredTogether> answered;
  std::vector<float> coming;                      // by SM: when what came last is there, behind the detailed one
  double comes = 0;                               // when there
  std::vector<float> wakes, distances;            // by SM: when each is answered, how much longer a trip to L2 takes it
  bool shared_data = false;                       // any that other blocks load, too
  std::vector<uint32_t> found_mates, sorted_mates;
  std::vector<uint32_t> ghost_of;                // an SM's among those that are put in order
  bool copies = false;                            // the copy engine asks
  bool for_many = false;                          // ... for several blocks of a cluster
  FetchSize fetch = FetchSize::half;                      // ... and how much comes from memory
  bool past_l1 = false;                           // what is asked for L1 does not keep
  bool parted = false;                            // an instruction asks for the line more than once
  std::array<double, 320> adding{};               // when L2's units have done the last sectors of atomic operations: no more wait there [add_at_end/1536 to 4096; add_silent/1: one a cycle where none wait]
  uint64_t adds = 0;
  uint8_t on_word = 1;                            // of an atomic's lanes, the most on one word of the line
  double kept_waiting = 0;                        // the most that others and memory kept a line of it waiting
  double longest = 0;                             // that a line of the detailed block took since
  struct Asked {                                  // by a load of the detailed block
    size_t request = 0;                           // of a page that is not looked up: that of a ghost's block, or kNone
    L1::Way way;                                  // none: past L1
    uint64_t line = 0;
    double when = 0;
  };
  static constexpr size_t kNone = SIZE_MAX;
  std::vector<Asked> asked;                       // of those that wait
  std::unordered_map<uint32_t, double> took;      // by PTX instruction: what the latest answer took
  std::vector<std::pair<int64_t, uint32_t>> ghost_copies;  // of the copy under way: sectors ahead of the detailed block's, and the SM
  Record* record = nullptr;

  void note(const WarpRun& w, uint32_t index, uint32_t instruction, double now);

  static bool before(const Front& a, const Front& b);
  uint32_t number_of(const WarpRun& w) const { return uint32_t(&w - warps.data()); }
  uint32_t choose(uint32_t sub_core, double now);
  double room(const SubCore& p, Class c) const;
  double pipe_room(const SubCore& p, Class c) const;
  /// Returns the words that it reads of them.
  uint32_t read_registers(SubCore& p, const MachineInstruction& m, uint32_t warp, double now);
  void refresh(WarpRun& w);
  void issue(uint32_t index, double now);
  void execute(WarpRun& w, const MachineInstruction& m, const Step& s, double now);
  void memory(WarpRun& w, const MachineInstruction& m, const Event* e, double start);
  struct Came {
    double done = 0;
    bool missed = false;      // was something not in L1 yet?
  };
  Came global_read(WarpRun& w, const Event& e, const MachineInstruction& m, double at);
  void global_write(WarpRun& w, const Event& e, double at, bool to_surface);
  double remote_load_cycles(const Event& e, const MachineInstruction& m, bool far) const;
  double remote_store_cycles(const Event& e, bool far) const;
  double write_own(uint64_t line, uint32_t mask, uint32_t bytes, double leaves);
  void write_ends_of_ghosts(bool lowest, uint32_t bytes);
  double write_rest(uint64_t line, uint32_t mask, uint32_t bytes, double leaves);
  void keep_local(const WarpRun& w, const Event& e, double at);
  void note_tensor(const WarpRun& w, double start, double interval);
  double begin_products(SubCore& p, double now);
  double held_up(SubCore& p, const MachineInstruction& m, double start) const;
  void begin_product(SubCore& p);
  double run_copy(WarpRun& w, const MachineInstruction& m, const Event& e, double at, bool store, const PeerCopy* peer = nullptr);
  uint32_t turn = 0;        // of the copy that is issued now: Step::turn
  void take_from_peers(WarpRun& w, const MachineInstruction& m, const Event& e, double at);
  double copy_to_peer(const Event& e, double at);
  void find_copies_of_ghosts(const WarpRun& w, const Event& e, const CopyPool& pool, uint64_t key);
  void leave_out_others(std::vector<std::pair<int64_t, uint32_t>>& copies, uint64_t block, uint32_t ranks, uint32_t own) const;
  void synchronise(WarpRun& w, uint32_t index, const MachineInstruction& m, const Event* e, double start);
  void swap(WarpRun& w, const Event& e, double at);
  void fetch_texels(WarpRun& w, const MachineInstruction& m, const Event* e, double start);
  double fenced(WarpRun& w, double now, double cycles, double slices_touched);
  void arrive(Slot& slot, uint32_t number, uint32_t expected, double when);
  void complete(NamedBarrier& b, double when);
  void settle(Slot& slot, uint32_t object, double when);
  void wake_waiters(Slot& slot, uint32_t object, const Mbarrier& b, double when);
  double looks_left = 0;                          // instructions that warps have executed which look again, less those that were counted
  void begin_looks(WarpRun& w, const MachineInstruction& m, double now);
  void note_looks(WarpRun& w, double from, double to);
  void end_warp(uint32_t index, double now);
  void set_barriers(WarpRun& w, const MachineInstruction& m, double result, double operands);
  Apart& apart_of(WarpRun& w) { return w.roams ? w.apart : slots[w.slot].apart; }
  const Apart& apart_of(const WarpRun& w) const { return w.roams ? w.apart : slots[w.slot].apart; }
  const Moves& moves_of(Slot& slot, const Apart& apart, uint32_t pc);
  const Moves& moves_of(const WarpRun& w, const Event& e);
  void find_local_moves(Slot& slot, Moves& m);
  void find_moves(Slot& slot, const Slope& slope, Moves& m);
  void forget_strangers(std::vector<uint32_t>& mates);
  const std::vector<uint32_t>& traced_mates(const WarpRun& w, const Event& e, int64_t own);
  void find_places(Slot& slot) const;
  double read_asked(uint32_t pc);
  size_t stand_in_for(uint64_t line, size_t first) const;
  template <class F>
  static void moved(uint64_t packed, int64_t sectors, F f);
  void begin_apart(Slot& fresh, const Slot& before, double now);
  void settle_late(Apart& apart);
  template <class Ghosts, class SmOf>
  void in_order(const Apart& apart, Ghosts& ghosts, uint32_t& turn, SmOf sm_of);
  void settle_clusters(Slot& slot);
  bool shares() const;
  void find_distances();
  void asks(Apart& apart, const Slot& slot, double at, bool by_copies);
  void drift(Slot& slot, double at);
  void drift(WarpRun& w);
  void spread(Apart& apart);
  void roam(WarpRun& w, double at, double done);
  void meet(Slot& slot, WarpRun& w);
  void wait_with(WarpRun& w, double done);
  void wait_for_members(WarpRun& w, const MachineInstruction& m, const Event* e, double now);
  void answer(const Apart& apart, const std::vector<uint32_t>& mates, double waited, bool memory);
  void note_fetch(Slot& slot, double at, double done);
  double wait_for_last(Slot& slot) const;
  void note_stall(Slot& slot, double cycles) { slot.stalled += std::max(0.0, cycles), slot.stalls++; }
  void close_trip(Apart& apart, uint32_t warps);
  void note_trip(WarpRun& w, double at, double done, const std::vector<uint32_t>& mates, bool ahead);
  float late_of(uint32_t sm) const { return asking_late ? asking_late[sm - first_sm] : 0; }
  void ask(uint64_t line, uint32_t mask, uint32_t sm, double when) {
    if (n_requests == requests.size()) requests.resize(2 * n_requests);  // ghosts whose blocks touch many lines at once
    requests[n_requests++] = {line, mask, sm, when, fetch, copies, 0, copies ? 0 : asking_apart, late_of(sm), for_many, past_l1, parted, on_word};
  }
  /// The same if the line's page is looked up.
  void ask_if_taken(uint64_t line, uint32_t mask, uint32_t sm, double when) {
    counts.requests++;
    if (!chip.takes(line)) return;
    counts.looked_up++;
    ask(chip.among_taken(line), mask, sm, when);
  }
  template <class F>
  void for_ghosts(const WarpRun& w, const Event& e, uint32_t line, F f);
  template <class F>
  static void for_even_ghosts(const Moves& moves, uint64_t packed, F f);
  void ask_even_ghosts(const std::vector<std::pair<int64_t, uint32_t>>& ghosts, uint64_t packed, double when);
  template <class F>
  void for_traced_ghosts(const WarpRun& w, const Event& e, uint32_t line, F f);
  void find_ghosts(Slot& slot) const;
  enum class Part { all, filled, rest };          // of a line's sectors: those that a store fills, the others
  static uint32_t filled_sectors(const uint64_t* lines, uint32_t n, uint32_t line, Filled filled);
  struct GhostLines {                             // of a ghost's event
    const uint64_t* lines = nullptr;
    const uint8_t* own = nullptr;                 // of each, whether it lies elsewhere for this block; null: none does
    uint32_t n = 0, sm = 0;
    int64_t sectors = 0;                          // by which they move
    uint64_t low = 0, room = 0;                   // where they may lie: the first line, and how many
    uint64_t away = 0;                            // by how many lines those move that lie elsewhere
    Filled filled = Filled::none;
    uint64_t packed(uint32_t line) const;
    uint32_t sectors_of(uint32_t line, Part part) const;
  };
  GhostLines lines_of(const Slot::Ghost& g, uint32_t pc, const GhostTraces::Access& access) const;
  template <class F>
  static void for_lines_of(const GhostLines& g, uint32_t first, uint32_t last, F f);
  std::vector<GhostLines> ghost_lines;            // of the event that was asked for last
  std::vector<std::pair<const Slot::Ghost*, const GhostTraces::Access*>> ghost_accesses;  // those that are looked at
  const Event* ghost_event = nullptr;
  uint32_t ghost_slot = 0;
  void find_ghost_lines(const WarpRun& w, const Event& e);
  void ask_ghosts(const WarpRun& w, const Event& e, uint32_t line, double when, uint32_t sectors, Part part = Part::all);
  template <class F>
  size_t find_asking(size_t n, uint64_t& requests, F move);
  std::vector<uint32_t> asking;                   // places of ghosts whose request may be for a page that is looked up
  struct GhostLine {                              // what a ghost touches
    uint64_t packed = 0;
    int64_t sectors = 0;                          // by which it moves
    uint32_t sm = 0;
  };
  void ask_traced_ghosts(const Event& e, uint32_t line, uint32_t touched, uint32_t missing, double when, Part part);
  std::vector<GhostLine> asking_lines;            // those that may be of a page that is looked up
  struct RestAccess {                             // of a ghost's block that does more than the detailed one
    const GhostTraces::Access* access = nullptr;
    uint32_t warp = 0;
    bool done = false;                            // of those that both make: it has been asked for
  };
  std::optional<L1> ghost_l1;                     // of the block that is looked at
  std::set<uint32_t> past_l1_at;                  // PTX instructions that load past L1
  void finish_ghosts(Slot& slot, double now);
  void finish_access(const Slot::Ghost& g, const RestAccess& x, double now);
  double waited_for(WarpRun& w, const Event& e, double done);
  void tell_next(const WarpRun& w, const Event& e, double at);
};

}  // namespace orrery::timing
