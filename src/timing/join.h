// timing/join.h: machine code joined with executed PTX: the stream of machine instructions that a traced warp issues.
//
// Each basic block of machine code has a home: the PTX block that most of its instructions (by the line table) come
// from. A warp goes through the machine code as its trace leads it (walk.cc); where that fails, the machine blocks at
// home in a PTX block are issued in order when the trace enters it. Blocks are issued whole, with the control bits that
// ptxas gave them; a memory instruction takes the addresses of the next event of its PTX line, and is predicated off
// when there is none. Unrolled copies stand for as many entries as they have copies of the block's lines.
// Functions that quotients and roots call (slow_paths.h) are ways through their machine code of as many instructions as the operands take.
// Code that a converged warp does not reach (collective fall-backs) is left out.
// Without machine code, a schedule of our own stands in, block by block of PTX (stand_in.h).
// Not here: how long an instruction takes (sm.h). The approximations are in docs/timing.md.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "exec/decode.h"
#include "timing/assemble.h"
#include "timing/trace.h"

namespace orrery::timing {

/// What an instruction occupies and how its result comes back.
enum class Class : uint8_t {
  alu, fma, imad, imad_wide, half, half_mma, fp64, xu, shuffle, vote, uniform, uniform_move, constant, special_register, match, redux, matrix_move,
  load, store, atomic, shared_load, shared_store, shared_atomic, local_load, local_store, copy_async, matrix_load, texture,
  hmma, imma, dmma, wgmma, warpgroup, tensor_copy, bulk_copy, mbarrier, barrier, cluster_barrier, fence, depbar, async_group,
  branch, exit, control, sleep, nop, count
};
std::string_view name_of(Class c);
/// Does it take part in memory or synchronisation, so that an event of the trace tells its operands?
bool eventful(Class c);

/// Does it have an event where the PTX instruction that it comes from is of its kind? And is the event of that kind?
bool may_have_event(Class c);
bool is_of(Class c, What what);

enum FenceScope : uint16_t { kBlockFence, kGpuFence, kSystemFence };  // for whom a barrier of memory is

/// What an instruction does by the sets of lanes that name each other as members of an exchange: it compares what they name (MATCH), has them meet
/// (WARPSYNC R), or has one set after the other do what comes up to where all meet again (WARPSYNC.EXCLUSIVE R and, out of line, WARPSYNC.COLLECTIVE R,
/// both up to BSYNC).
enum class Members : uint8_t { none, compared, meet, one_by_one, collective };

struct MachineInstruction {
  Instruction i;
  Class kind = Class::alu;
  uint32_t pc = UINT32_MAX;      // PTX instruction (program order, function << 24), none: UINT32_MAX
  isa::Op op = isa::Op::none;    // of that PTX instruction
  uint16_t n = 0;                // wgmma: N; products of doubles: how many; group waits: pending groups; fences: FenceScope; waits for mbarriers: instructions of a look, 0: as any
  uint16_t width = 4;            // memory: bytes a lane
  uint16_t asked = 0;            // loads and stores: bytes a lane of the PTX instruction; more than `width` when it was split
  /// A wider access that ptxas made of several PTX instructions, of neighbouring words or of several turns of a loop that it unrolled.
  bool joined() const { return asked > 0 && width > asked; }
  bool part = false;             // of an access that was split: what comes behind its first machine instruction
  float interval = 1;            // tensor instructions: cycles that they hold the pipe
  bool a_in_registers = false;   // wgmma
  bool swaps = false;            // shared memory: of a loop that ptxas makes of an atomic: loads, computes, compares and swaps until no lane is left
  bool in_halves = false;        // of arithmetic on whole numbers of 64 bits, most of which comes as two instructions on words
  bool closes_group = false;     // wgmma: the last before a commit
  bool bypasses_l1 = false;      // load
  FetchSize fetch = FetchSize::half;     // load, copy
  bool counts_lanes = false;     // shared atomic that adds how many lanes name a word (ATOMS.POPC.INC)
  bool answers = false, compares = false;      // atomic: the result is used; compare and swap
  bool aggregated = false, floating = false;  // atomic: one lane works for the warp; on floating point
  uint8_t source[3] = {255, 255, 255};  // registers that an arithmetic instruction reads, by operand slot; 255: none
  bool reads_uniform = false;    // an arithmetic instruction: a uniform register
  uint8_t reuse = 0;             // slots whose value stays in the operand cache
  bool wide = false;             // registers are pairs
  Members members = Members::none;
  float change = 1;              // by how much its data change, of what random data do (data_change.h)
  bool sparse = false;           // wgmma
  /// Cycles that a wgmma holds the tensor core [wgmma.*.interval].
  double product_interval() const {
    const double columns = n / 2.0;
    if (n == 0) return 0;
    return a_in_registers ? std::max(columns, 13.0) : sparse ? columns + 20 : std::max(columns, product_reads());
  }
  /// Cycles for which it reads all of shared memory's 128 bytes: 32 bytes (sparse: 64) of each of n columns, and of 64 rows.
  double product_reads() const { return n == 0 ? 0 : (a_in_registers ? 0 : 16) + n / (sparse ? 2.0 : 4.0); }
  bool reads_clock = false;      // CS2R of the SM's clock
  bool always_calls = false;     // of a PTX instruction that is a function whatever its operands are
};

/// One issued instruction of a warp: which, and the event of the warp that says what it touched.
struct Step {
  uint32_t instruction = 0;
  uint32_t event = UINT32_MAX;
  uint32_t off : 1 = 0;          // predicated off
  uint32_t lanes : 6 = 32;
  uint32_t turn : 6 = 0;         // of a copy that its lanes make one after the other: whose, from 1 on; 0: all at once
};

struct JoinStatistics {
  uint64_t steps = 0, memory_steps = 0, unmatched = 0, walked = 0, by_entries = 0, calls_lost = 0;
};

class Join {
 public:
  /// With machine code. `programs` are the decoded kernel and functions (by tag: 0, then function number + 1).
  Join(const exec::Kernel& kernel, const Layout& layout, std::vector<MachineCode> code);
  /// Without: a stand-in is scheduled from the PTX (stand_in.h).
  explicit Join(const exec::Kernel& kernel);

  const std::vector<MachineInstruction>& instructions() const { return code_; }
  /// By how much the data of each instruction change: change(instruction).
  template <class F>
  void set_changes(F change) {
    for (MachineInstruction& m : code_) m.change = float(change(m));
  }
  uint32_t registers() const { return registers_; }
  /// Appends to the warps of `block`, which has been traced, an event for each instruction that keeps in local memory what ptxas had no register for.
  void add_spills(TracedBlock& block) const;
  /// Gives accesses to local memory of `block`, which has been traced, the lines of all words that one machine instruction takes.
  void widen_local(TracedBlock& block) const;
  /// The machine instructions that `warp` issues.
  std::vector<Step> steps(const TracedWarp& warp, JoinStatistics& statistics) const;

 private:
  struct Version {               // a set of machine blocks that stand for `unroll` entries of a PTX block
    std::vector<std::pair<uint32_t, uint32_t>> ranges;
    uint32_t unroll = 1;
    bool loops = false;
  };
  struct Home {
    uint32_t first_pc = 0;       // of the PTX block
    std::vector<Version> versions;
  };
  void map_lines(const exec::Kernel& kernel, const Layout& layout);
  void find_collectives();
  void find_first_tries();
  void find_looks();
  void find_texels(const exec::Kernel& kernel);
  void find_swaps();
  void find_spills();
  void find_wide_local();
  void find_blocks();
  /// How many copies of a PTX block a machine block holds, by how often it has each of its instructions.
  static uint32_t copies_of(std::vector<uint32_t> counts);
  void find_homes();
  void find_flow();
  int32_t block_at(uint32_t i) const { return int32_t(std::upper_bound(blocks_.begin(), blocks_.end(), std::pair{i, UINT32_MAX}) - blocks_.begin()) - 1; }
  void find_own();
  std::vector<std::vector<uint32_t>> natural_loops() const;
  void find_hoisted(const std::vector<std::vector<uint32_t>>& loops);
  bool only_counts(uint32_t b, uint32_t block) const;
  struct Cursor;
  struct Walker;
  struct Carried {               // a PTX block that a machine block carries, and which of its instructions
    uint32_t block = 0;          // its first instruction
    uint32_t number = 0;         // among the blocks (block_number_)
    std::vector<uint32_t> own;
    std::vector<uint64_t> forms; // and what they became (opcodes)
    bool whole_run = false;      // it is all that ptxas made of a loop of PTX: arrays that are cleared, sums that are known
    uint32_t copies = 1;         // of it, where the machine block is unrolled
    std::vector<uint32_t> tells; // numbers of those (PTX instruction and opcode) that tell parts of an entry from copies
  };
  static constexpr uint32_t kNowhere = UINT32_MAX;
  struct Flow {                  // of a machine block
    int32_t fall = -1, taken = -1, calls = -1;
    std::vector<int32_t> table;  // where a jump by a table may lead
    bool exits = false, returns = false, calls_any = false;  // calls_any: what a register holds
    uint32_t home = UINT32_MAX, copies = 1, loop_copies = 1;
    int32_t loop = -1;           // the innermost loop around it
    int32_t slow = -1;           // the block beside its branch that calls the function of a quotient or root
    uint32_t slow_place = kNowhere;  // of that quotient or root
    uint32_t parted = 0, parted_end = 0;  // blocks out of line, from and to, which end with a jump back to a block behind this one, where sets of lanes make an exchange
    uint32_t exchange = kNowhere;    // one by one: its place
    uint32_t always = UINT32_MAX;    // where the function begins that it ends with, whatever the operands are
    bool by_lanes = false;       // it is executed again until each lane has made its copy or its mbarrier
    uint32_t to_exit = UINT32_MAX;
    std::vector<Carried> carried;
    std::vector<uint32_t> cluster_barriers;  // its machine instructions that are one
  };
  void find_parted(uint32_t b, Flow& f) const;
  template <class F>
  static void erase_carried(Flow& f, F which);
  using Way = std::vector<uint32_t>;
  void find_ways(uint32_t begin);
  void call(uint32_t begin, uint32_t instructions, uint32_t lanes, std::vector<Step>& out) const;
  void call_slowly(const Flow& f, const SlowCall& slow, Cursor& c, std::vector<Step>& out, JoinStatistics& statistics) const;
  bool walk(const TracedWarp& warp, Cursor& c, std::vector<Step>& out, JoinStatistics& statistics) const;
  /// Is a PTX block carried by machine blocks, of which none holds what those do that hold `beside`?
  bool lies_elsewhere(uint32_t block, const std::set<uint32_t>& beside) const { return !beside.count(block) && std::binary_search(used_homes_.begin(), used_homes_.end(), block); }
  bool all_events_used(uint32_t home, const Cursor& c) const;
  void take_step(uint32_t i, Cursor& c, size_t begin, size_t end, uint32_t lanes, std::vector<Step>& out, JoinStatistics& statistics) const;
  void emit_range(std::pair<uint32_t, uint32_t> range, Cursor& c, size_t end, uint32_t lanes, std::vector<Step>& out, JoinStatistics& statistics) const;
  void issue_owed(std::pair<uint32_t, uint32_t> range, Cursor& c, uint32_t lanes, std::vector<Step>& out) const;
  void issue_waiting(Cursor& c, std::vector<Step>& out) const;
  bool are_parted(const Flow& f, const Cursor& c) const;
  bool take_members(uint32_t i, Cursor& c, size_t begin, size_t end, Step& s) const;
  void repeat_for_members(Cursor& c, std::vector<Step>& out) const;
  void repeat_for_lanes(size_t begin, const std::vector<Event>& events, std::vector<Step>& out) const;
  void some_leave(std::vector<Step>& steps) const;
  std::vector<Step> by_entries(const TracedWarp& warp, Cursor& c, JoinStatistics& statistics) const;
  std::pair<uint32_t, uint32_t> loop_of(uint32_t first_pc) const;
  uint32_t first_of(uint32_t pc) const;
  uint32_t place_of(uint32_t pc) const;
  uint32_t number_of(uint32_t first_pc) const;
  void number_blocks();
  std::vector<uint32_t> find_jumped_to() const;
  std::vector<uint32_t> table_of(size_t b, const std::vector<uint32_t>& jumped_to) const;
  void find_parts();
  void take_event_if_any(uint32_t i, Cursor& c, size_t begin, size_t end, Step& s) const;
  uint32_t spill_event(uint32_t i, const Cursor& c) const;
  void emit(const Version& v, Cursor& c, size_t begin, size_t end, uint32_t lanes, std::vector<Step>& out, JoinStatistics& statistics) const;

  std::vector<Step> replay(const TracedWarp& warp, JoinStatistics& statistics) const;
  static void describe_operands(MachineInstruction& m, const ptx::Instr& in, bool closes);
  static void read_products(MachineInstruction& m);

  struct Spill {                 // an access to the stack frame, by as many instructions as make it
    bool loads = false;
    uint32_t offset = 0, bytes = 0;
    auto operator<=>(const Spill&) const = default;
  };
  std::vector<Spill> spills_;
  std::map<uint32_t, uint32_t> spill_of_;               // by instruction
  std::map<uint32_t, uint32_t> wide_local_;             // by PTX instruction: bytes of a lane that ptxas takes at once
  uint32_t frame_ = 0;                                  // bytes of a thread's stack that they reach
  std::map<uint32_t, uint32_t> products_of_;            // wgmma of a PTX block, by its first instruction
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> stand_in_;  // without machine code: by first pc of a PTX block, its code
  std::vector<MachineInstruction> code_;
  std::vector<int32_t> functions_;                      // blocks in which functions begin that a register may hold
  bool calls_any_ = false;                              // are there calls of what a register holds?
  std::vector<uint32_t> section_start_;
  std::vector<std::pair<uint32_t, uint32_t>> blocks_;   // machine blocks
  std::vector<bool> reached_;
  std::set<uint32_t> retries_;                          // machine instructions that try a wait again, out of line
  std::vector<std::pair<uint32_t, uint32_t>> roots_;
  std::vector<std::pair<uint32_t, uint32_t>> homes_of_blocks_;  // home and copies of each machine block
  std::vector<Flow> flow_;
  std::map<uint32_t, uint32_t> skipped_;                // PTX blocks that a branch of the block before them skips, by first pc: the block behind, which both come to
  std::map<uint32_t, std::vector<Way>> ways_;           // through functions of quotients and roots, by where they begin
  std::vector<uint32_t> used_homes_;                    // homes of the machine blocks, sorted
  std::map<uint32_t, std::set<uint32_t>> beside_;       // of homes that machine blocks hold several times: the PTX blocks of which these hold anything
  std::set<uint32_t> turning_;                          // PTX blocks that are carried as often as they are entered: not those of loops of which only code ahead of them is left
  std::map<uint32_t, std::pair<uint32_t, uint32_t>> loops_;     // PTX: by first pc of a block, the pcs of its innermost loop
  std::vector<std::pair<uint32_t, Home>> homes_;        // by first pc of the PTX block, sorted
  std::vector<std::pair<uint32_t, uint32_t>> block_first_;  // (pc, first pc of its block), by pc, sorted: a PTX instruction's place
  std::vector<uint32_t> block_number_;                  // by place: which block it is in
  std::vector<uint32_t> place_;                         // by machine instruction: of its PTX instruction, or kNowhere
  uint32_t ptx_blocks_ = 0, tells_ = 0;                 // how many there are
  uint32_t registers_ = 0;
  const Home* home_of(uint32_t first_pc) const;
};

}  // namespace orrery::timing
