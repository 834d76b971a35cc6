// timing/sm_state.h: what an SM in detail consists of; private to sm*.cc.
//
// sm.cc issues instructions, sm_execute.cc and what it calls say how long they take, sm_memory.cc and sm_copies.cc move data, sm_ghosts.cc knows what other
// SMs do meanwhile, sm_sync.cc has barriers and mbarriers, sm_fences.cc barriers of memory.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "timing/apart.h"
#include "timing/fences.h"
#include "timing/l1.h"
#include "timing/leaving_lines.h"
#include "timing/sm.h"
#include "timing/sm_units.h"
#include "timing/touched_slices.h"
#include "timing/warp_run.h"

namespace orrery::timing {

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
  uint64_t puts_off = 0;                         // how often a warp was put behind all others
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
  double lookups_of(const WarpRun& w, const Event& e);
  bool joins_local(WarpRun& w, const Event& e, uint64_t line);
  bool joins_waiting(WarpRun& w, uint64_t line, double at, bool alone, bool& joins_held);
  LeavingLines leaving_lines;
  size_t competing(const WarpRun& w) const;
  void part_stores(WarpRun& w);
  double leaves_at(WarpRun& w, const Event& e, uint64_t line, uint32_t mask, double at);
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
  bool branches_soon(const WarpRun& w) const;
  void issue(uint32_t index, double now);
  void execute(WarpRun& w, const MachineInstruction& m, const Step& s, double now);
  void memory(WarpRun& w, const MachineInstruction& m, const Event* e, double start);
  struct Came {
    double done = 0;
    bool missed = false;      // was something not in L1 yet?
  };
  Came global_read(WarpRun& w, const Event& e, const MachineInstruction& m, double at);
  void global_write(WarpRun& w, const Event& e, double at, bool to_surface);
  double remote_load_cycles(const Event& e, bool far) const;
  double remote_add_cycles(const Event& e, bool far) const;
  double remote_store_cycles(double sectors, bool far) const;
  double write_own(uint64_t line, uint32_t mask, uint32_t bytes, double leaves);
  void write_ends_of_ghosts(bool lowest, uint32_t bytes);
  double write_rest(uint64_t line, uint32_t mask, uint32_t bytes, double leaves);
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
