// jit/emitter.h: from one region of a kernel to one LLVM function.
//
// A warp is a vector: a register whose lanes differ is an LLVM vector of 32 elements; one that is uniform (or uniform
// in 2 or 4 chunks of lanes, up to a known pattern) is a scalar (or a short vector) and is widened where it meets
// others. Registers are allocas, made SSA by LLVM. What a value of width w is:
//
//   w = 1           one element for all lanes          w = 2, 4   one element for each chunk of lanes
//   w = 32          one element for each lane
//
// Lanes that are on their way are a mask (<32 x i1>). Other lanes of the warp wait at later nodes of the region's
// schedule, each with its own mask; lower/schedule.h says where they can be. A register keeps the old value of
// waiting lanes only if it is live where they wait.
//
//   emit_control.cc  regions and their nodes                  emit_values.cc  reading and writing registers
//   emit_branches.cc edges between nodes                      emit_stops.cc   how a warp leaves
//   emit_kept.cc     registers at barriers of the block
//   emit_runs.cc     ld of neighbouring words by each lane    emit_turns.cc    the loop over warps
//   emit_rows.cc     ld, st of rows found at run time         emit_spread.cc   ld, st of lanes a few elements apart
//   emit_steady.cc   loops over rows while all warps are in them
//   emit_abreast.cc  several warps at once between barriers
//   emit_memory.cc   ld, st: addresses, checks                emit_atomic.cc  atom, red
//   emit_loads.cc    ld                                       emit_store.cc   st
//   emit_arith.cc    integers, mov, dispatch                  emit_compare.cc setp, selp, set, logic on predicates
//   emit_float.cc    f32, f64                                 emit_half.cc    f16, bf16, fp8: arithmetic and cvt
//   emit_convert.cc  cvt between the others                   emit_warp.cc    shfl, vote, special registers
//   emit_call.cc     instructions executed by sem/ and exec/
//   emit_observed.cc instructions that somebody listens to
//
// Every emit_* function for an instruction returns false when it does not know the form; the general way
// (emit_call.cc) then takes over, so coverage is complete.
// Not here: optimisation and object code (target.h), which regions there are (plan.h).
#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jit/plan.h"
#include "jit/target.h"
#include "lower/schedule.h"

namespace orrery::jit {

/// What the object code refers to by name; the linker gives the addresses.
struct Symbols {
  static constexpr const char* execute = "orrery_thunk_execute";
  static constexpr const char* execute_memory = "orrery_thunk_execute_memory";
  static constexpr const char* should_stop = "orrery_thunk_should_stop";
  static constexpr const char* settle = "orrery_thunk_settle";
  static constexpr const char* site_ranges = "orrery_site_ranges";
  static constexpr const char *quick_run = "orrery_quick_run", *quick_same = "orrery_quick_same", *quick_block = "orrery_quick_block",
                              *quick_any = "orrery_quick_any", *quick_atomic = "orrery_quick_atomic";
  static constexpr const char* local_marks = "orrery_local_marks";
  static std::string form(uint32_t inst) { return "orrery_form_" + std::to_string(inst); }
  static std::string meaning(uint32_t inst) { return "orrery_meaning_" + std::to_string(inst); }
  static std::string region(uint32_t entry) { return "orrery_region_" + std::to_string(entry); }
};

constexpr uint32_t kRoundsToPoll = 1 << 14;  // of a row loop (rows.h), between looks at the stop flag

class Emitter {
 public:
  Emitter(const Plan& plan, llvm::Module& module, const HostTraits& traits);
  /// Adds the function of region number `region` to the module.
  void emit_region(uint32_t region);

 private:
  using Value = llvm::Value;
  using Block = llvm::BasicBlock;
  using LaneType = llvm::Type;
  struct Place { llvm::AllocaInst* slot = nullptr; };
  struct Target { uint32_t node; Value* mask; };
  enum class Use { arithmetic, bits };
  /// Bytes [low, high) from a base register that a check has found inside memory (shared memory, or the device's).
  struct Cover { int64_t low = 0, high = 0; int size = 0; bool shared = false; };

  // -- emit_control.cc, emit_branches.cc
  void begin(uint32_t region);
  void load_live_registers(uint32_t pc);
  void settle(uint32_t pc, const std::vector<uint32_t>& live);
  void find_full_nodes(bool full);
  void check_all_lanes(uint32_t pc, bool full);
  void emit_node(uint32_t n);
  void emit_loop_header(uint32_t n);
  void emit_terminator(const ptx::Instr& in);
  void emit_branch(const ptx::Instr& in);
  void emit_branch_table(const ptx::Instr& in);
  void emit_exit(const ptx::Instr& in);
  void jump(uint32_t node, Value* mask);
  void part(const std::vector<Target>& targets, bool may_all_exit);
  void dispatch(const std::vector<uint32_t>& candidates, bool last_is_certain);
  void take(uint32_t node);
  uint32_t successor(uint32_t block) const;
  void begin_warp();
  void finish_function();
  void give_back(Value* stop);
  void emit_stop(uint32_t pc, uint32_t why, bool intact);
  bool emit_arrival(uint32_t pc);
  void keep_registers(uint32_t pc);
  void leave_at_entry(uint32_t pc);
  void write_live(const std::vector<uint32_t>& regs, Value* mask);
  Value* write_group(Value* n, uint32_t pc, Value* bits);
  void emit_instr(uint32_t i);
  void return_done();
  Block* block(const char* name);
  Block* fault_block();
  /// Stops before the current instruction when `bad` (i1) holds: the interpreter executes it.
  void leave_if(Value* bad, bool intact = false);

  // -- emit_turns.cc
  struct Parked {
    enum What { value, mask, waiting, count } what;
    llvm::AllocaInst* slot;
    size_t at;                                                             // bytes into the warp's state
    uint64_t align;
    bool fixed;                                                            // nothing writes it in the loop or after
    uint32_t reg;                                                          // of a value
  };
  struct Turns {
    llvm::PHINode *left = nullptr, *agreed = nullptr;                      // warps still to run; the stop of those that have
    llvm::PHINode *turn = nullptr, *parked = nullptr, *rounds = nullptr;   // of a region with a row loop
    Value *is_parked = nullptr, *all = nullptr;                            // all: a bit for each warp
    Block *resume = nullptr, *aside = nullptr;
    std::vector<Parked> parts;                                             // what is put aside of a warp, in `states`
    llvm::ArrayType* state = nullptr;                                         // of a warp
    llvm::AllocaInst *states = nullptr, *may_be_steady = nullptr;
    llvm::AllocaInst* has_walked = nullptr;                                // this turn has been through an iteration
  };
  void begin_warps();
  void finish_warps();
  void begin_turns();
  void finish_turns();
  void park(uint32_t node);
  void lay_out_state(uint32_t node);
  Value* state_of(Value* turn);                                            // where the warp's state is put aside
  void put_aside(const Parked& part, Value* state);
  void put_back(const Parked& part, Value* state);
  Value* agree_on_stop();
  bool first_runs_last() const;
  Value* next_warp(Value* warp, Value* left);

  // -- emit_steady.cc
  struct Linear { const Parked* part; Step step; };                        // what each iteration adds to a part
  struct Steady {
    enum Stage { checked, look, foreseen };                                // look: the checks alone; foreseen: without checks
    Block* leave = nullptr;                                                // this warp's turn again, the general way; null: not in such code
    std::vector<Block*> node_block;                                        // as node_block_; null: not on the path
    Stage stage = checked;
    bool noted = false;                                                    // the only load that can raise a signal is already in at_inst
    uint32_t instructions = 0;                                             // of an iteration
  };
  std::vector<uint32_t> steady_path() const;
  uint32_t only_noted(const std::vector<uint32_t>& path) const;
  Value* all_in_step();
  void emit_steady(const std::vector<uint32_t>& path, Value* parked, Value* rounds, Value* result, Block* otherwise);
  struct SteadyTurns {
    Block* special;                                                        // `warp` turns out to have a turn that is not steady
    Value* warp;
    std::vector<Linear> linear;
  };
  SteadyTurns emit_steady_turns(const std::vector<uint32_t>& path, Value* done, Block* over);
  uint32_t emit_path(const std::vector<uint32_t>& path, Steady::Stage stage, Block* leave);
  std::optional<Step> step_of(const Parked& part, const std::vector<uint32_t>& path) const;
  bool is_unchanged(uint32_t reg, const std::vector<uint32_t>& path) const;
  const Parked* part_of(uint32_t reg) const;
  Value* way(const Step& step, Value* rounds, LaneType* t);
  void add_to(const Parked& part, Value* amount);
  void make_up(Value* turn, Value* rounds, const std::vector<Linear>& linear);

  // -- emit_abreast.cc
  struct Abreast {                                                         // what differs between warps that go side by side
    Value *warp, *frame;
    std::vector<llvm::AllocaInst*> slots;
    std::map<uint32_t, Cover> covered;
    std::map<uint32_t, Value*> loaded_early;
  };
  struct Ended { Block* from = nullptr; Value *warp = nullptr, *left = nullptr; };  // the last of them, and the warps left with it
  void emit_abreast(uint32_t pc);
  void swap_state(Abreast& other);
  void hold_order();
  Ended abreast_;

  // -- emit_foreseen.cc
  struct OwnSlot { llvm::AllocaInst* slot; std::optional<Step> step; bool unchanged; };  // of a warp's part (null: no register); by an iteration
  using OwnSlots = std::vector<OwnSlot>;                                   // by part
  using Slice = std::map<uint32_t, std::vector<uint32_t>>;                 // by instruction
  struct Bound { uint32_t reg; Step step; const ptx::Operand* against; };
  class Foresight;
  Value* guess_rounds();
  Value* is_long_walk();
  uint32_t warps_to_foresee(const std::vector<uint32_t>& path);
  void emit_foreseen(const std::vector<uint32_t>& path, uint32_t warps, Value* rounds, Block* round, llvm::PHINode* due, llvm::PHINode* done);
  void emit_turns_of_all(const std::vector<uint32_t>& path, const std::vector<OwnSlots>& own, Value* round, Steady::Stage stage, Block* leave);
  std::vector<OwnSlots> take_own_slots(const std::vector<uint32_t>& path, uint32_t warps);
  void put_own_aside(const std::vector<OwnSlots>& own);
  void stand_in_round(const OwnSlots& own, Value* round, bool look);
  void look_for_wrap(uint32_t reg);
  Value* is_long_way(const Step& step, Value* round, LaneType* t);
  bool is_foreseen(uint32_t reg) const;

  // -- emit_kept.cc
  void begin_kept(uint32_t pc);
  void emit_unpack();
  Value* load_kept(uint32_t reg);
  void load_kept_registers(uint32_t pc);
  void store_kept(uint32_t reg);
  Value* kept_place(uint32_t reg, int chunk);

  // -- emit_values.cc
  LaneType* element(isa::Type t) const;
  LaneType* element_of_reg(uint32_t reg) const;
  LaneType* wide(LaneType* element, int width) const;
  int width_of(Value* v) const;
  int width_of_reg(uint32_t reg) const { return plan_.uniformity.regs[reg].chunks ? plan_.uniformity.regs[reg].chunks : 1; }
  Value* slot(uint32_t reg);
  LaneType* slot_type(uint32_t reg) const;
  Value* raw(uint32_t reg, int width);                      // the register as it is kept, widened to `width`
  Value* bits(uint32_t reg, int width);                     // ... with the hardware's NaN
  Value* read(const ptx::Operand& o, isa::Type t, int width, Use use = Use::bits);
  Value* read_as(const ptx::Operand& o, LaneType* type, int width, Use use = Use::bits);
  Value* immediate(const ptx::Operand& o, LaneType* type, int width);
  Value* special(ptx::Sreg s, int64_t number, int width);
  Value* predicate(uint32_t reg, bool negated, int width);
  Value* read_predicate(const ptx::Operand& o, int width);
  Value* fit(Value* v, LaneType* to_element);               // same bits in another type; truncates or zero-extends
  Value* widen(Value* v, int width, const lower::Lanes* lanes = nullptr);
  Value* canonical_nan(Value* v);
  int natural_width(const ptx::Instr& in, int first_source) const;
  int operand_width(const ptx::Operand& o) const;
  bool is_patterned(const ptx::Operand& o) const;
  /// Writes `v` (any width that divides the register's) under the guard and mask.
  void define(const ptx::Operand& o, Value* v);
  void define_reg(uint32_t reg, Value* v);
  Value* known_base(uint32_t reg);
  bool keeps_old(uint32_t reg) const;                       // waiting lanes need the register
  Value* mask();                                            // <32 x i1> of this node's lanes
  Value* exec_mask();                                       // ... with the guard applied
  Value* bits_of(Value* mask);                              // i32
  Value* mask_of_bits(Value* bits);
  Value* any(Value* mask);
  Value* load_mask(llvm::AllocaInst* slot) { return load_mask(slot, slot->getAllocatedType()); }
  Value* load_mask(Value* at, LaneType* type);
  void store_mask(llvm::AllocaInst* slot, Value* mask);
  llvm::AllocaInst* new_alloca(LaneType* t, const char* name);
  Value* field(Value* base, size_t offset);
  Value* load_field(Value* base, size_t offset, LaneType* t, const char* name);
  Value* frame_place(uint32_t reg);
  void store_to_frame(uint32_t reg, Value* mask = nullptr);
  Value* load_from_frame(uint32_t reg);                     // in the width that the register is kept
  bool is_pred(uint32_t reg) const { return plan_.program.regs[reg].kind == lower::RegKind::pred; }
  bool is_qword(uint32_t reg) const { return plan_.program.regs[reg].kind == lower::RegKind::qword; }

  // -- instructions; false: unknown form
  bool emit_arith(const ptx::Instr& in);
  Value* integer_op(const ptx::Instr& in, int width);
  Value* float_op(const ptx::Instr& in, int width);
  Value* bitfield_op(const ptx::Instr& in, int width);
  Value* divide(Value* a, Value* b, bool is_signed, bool remainder);
  Value* lop3(Value* a, Value* b, Value* c, unsigned table);
  Value* permute_bytes(Value* a, Value* b, unsigned selector);
  bool pack(const ptx::Instr& in);
  bool unpack(const ptx::Instr& in);
  bool emit_mov(const ptx::Instr& in);
  bool emit_setp(const ptx::Instr& in);
  bool emit_set(const ptx::Instr& in);
  bool emit_select(const ptx::Instr& in);
  Value* compare(const ptx::Instr& in, isa::Type t, int a, int b, int width);
  bool emit_predicate_logic(const ptx::Instr& in);
  Value* agree(uint32_t reg, bool want, uint32_t at, int depth);
  Value* agree_on(const ptx::Instr& in, bool want, uint32_t at, int depth);
  Value* agree_on_comparison(const ptx::Instr& in, bool want);
  // -- emit_half.cc
  static bool is_half(isa::Type t);
  Value* halves(const ptx::Operand& o, isa::Type t, int width);
  Value* joined(Value* v, isa::Type t);
  Value* flushed_half(Value* v);
  Value* lifted(Value* v, bool brain);
  Value* narrowed(Value* v, bool brain);
  Value* rounded_to_odd(Value* v, Value* error, Value* where);
  Value* fused_f16(Value* a, Value* b, Value* c);
  Value* fused_bf16(Value* a, Value* b, Value* c);
  Value* half_op(const ptx::Instr& in, int width);
  Value* compare_halves(const isa::Form& f, isa::Type t, llvm::CmpInst::Predicate p, const ptx::Operand& x, const ptx::Operand& y, int width);
  Value* alternate(Value* v, int first);
  Value* two_in_a_word(Value* low, Value* high);
  Value* to_fp8(Value* v, bool e4, bool relu);
  Value* from_fp8(Value* v, bool e4);
  Value* convert_half(const ptx::Instr& in, int width);

  bool emit_convert(const ptx::Instr& in);
  Value* int_to_int(const ptx::Instr& in, int width);
  Value* int_to_real(const ptx::Instr& in, int width);
  Value* real_to_int(const ptx::Instr& in, int width);
  Value* real_to_real(const ptx::Instr& in, int width);
  bool emit_memory(const ptx::Instr& in);
  bool load_param(const ptx::Instr& in, const ptx::Operand& address, int bytes, int vector);
  void for_each_lane(Value* m, const std::function<void(Value*)>& body);
  bool emit_atomic(const ptx::Instr& in);
  bool emit_warp(const ptx::Instr& in);
  bool emit_vote(const ptx::Instr& in);
  bool emit_shuffle(const ptx::Instr& in);
  bool shuffle_by_register(const ptx::Instr& in, const ptx::Operand& d, const ptx::Operand* p, Value* v, uint32_t c);
  bool gather_then_execute(const ptx::Instr& in);
  void require_members(Value* members);
  bool only_exits(const lower::Node& node) const;
  bool same_members(const ptx::Operand& o) const;
  Value* member_mask(const ptx::Operand& o);
  bool constant_word(const ptx::Operand& o, uint32_t& v) const;
  void emit_execute(const ptx::Instr& in);
  Value* first_lane_from_frame(uint32_t reg, Value* m);
  bool emit_meaning(const ptx::Instr& in);
  void emit_observed(const ptx::Instr& in);
  bool emit_offered(const ptx::Instr& in);
  bool emit_offered_atomic(const ptx::Instr& in);
  bool emit_watched(const ptx::Instr& in);
  void either_reported(Value* report, const ptx::Instr& in, const std::function<void()>& quick);
  void widen_bases(const ptx::Instr& in);
  Value* widen_base(const ptx::Operand& o, bool is_signed, int width);
  Value* quieted(Value* v);
  Value* pick_nan(Value* result, std::initializer_list<Value*> by_rank);
  Value* flush(Value* v);                                   // f32 subnormals to signed zero
  Value* saturated(Value* v);
  Value* directed(const isa::Form& f, llvm::ArrayRef<Value*> sources);
  Value* minmax(Value* a, Value* b, bool is_max, bool nan);
  Value* shift(unsigned op, Value* a, Value* by);

  friend class MemoryAccess;

  const Plan& plan_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const HostTraits traits_;
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  Block *entry_block_ = nullptr, *warp_block_ = nullptr, *back_block_ = nullptr;
  llvm::PHINode* stop_ = nullptr;
  Turns turns_;
  uint32_t row_latch_ = lower::kNone;                       // node: the latch of the region's row loop
  Steady steady_;                                           // of its second form
  Slice slice_;                                             // what its way depends on, with registers that must not wrap
  std::optional<Bound> bound_;                              // of its iterations
  Block* fault_block_ = nullptr;
  llvm::Instruction* alloca_point_ = nullptr;
  Value *warp_ = nullptr, *frame_ = nullptr, *cta_ = nullptr, *launch_ = nullptr, *shared_ = nullptr, *params_ = nullptr;
  Value *memory_base_ = nullptr, *memory_size_ = nullptr, *shared_bytes_ = nullptr;
  Value* off_line_ = nullptr;  // bits that are 0 in addresses that may be stored past the caches; all of them where none may
  Value *local_ = nullptr, *local_stride_ = nullptr;  // of the warp: where lane 0's local memory is, bytes to the next lane's
  Value* local_marks_ = nullptr;                      // which of it has been written (exec/observed.h), where that is observed
  lower::Schedule schedule_;
  std::vector<Block*> node_block_;
  std::vector<uint8_t> full_nodes_;                         // by node: it runs with all 32 lanes
  std::vector<llvm::AllocaInst*> waiting_;                  // by node
  std::vector<llvm::AllocaInst*> slots_;                    // by register
  std::vector<uint8_t> changed_;                            // by register: some instruction of the region writes it
  std::vector<uint8_t> written_;                            // by register: that, or the frame may lack it
  std::vector<std::vector<uint8_t>> live_;                  // by program block: registers live at its start
  std::vector<uint8_t> kept_;                               // by register: live where lanes wait during this node
  llvm::AllocaInst* mask_slot_ = nullptr;
  llvm::AllocaInst* poll_slot_ = nullptr;
  llvm::AllocaInst* count_slot_ = nullptr;                  // warp instructions executed
  std::map<std::pair<size_t, int>, llvm::AllocaInst*> scratch_;
  std::map<uint32_t, Cover> covered_;                       // by base register: checked since it was written in this node
  std::map<uint32_t, Value*> loaded_early_;                 // by instruction: a load of this node whose value is there already
  std::map<uint32_t, Value*> offered_;                      // by instruction: i1, it has been dealt with together with others of this node
  std::map<size_t, Value*> widened_;                        // by operand of this instruction: its 64-bit base
  uint32_t region_ = 0, node_ = 0, inst_ = 0;
  bool full_ = false;                                       // the mask of this node is known to be all lanes
  Value* is_kept_ = nullptr;                                // i1: this warp comes from the barrier before the region; null: never
  Value* guard_ = nullptr;                                  // i1 or <32 x i1>; null: none
  bool checked_ = false;                                    // this access is known to be inside memory and aligned

  llvm::AllocaInst* scratch(size_t bytes, int index);
  llvm::FunctionCallee runtime(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> args);
  llvm::CallInst* call_runtime(const char* name, llvm::Type* result, llvm::ArrayRef<Value*> args);
  void check_fault(Value* failed);
  void count_instructions(uint32_t n);
  void publish_count();
  void emit_guarded(const ptx::Instr& in);
  bool emit_known(const ptx::Instr& in);
};

}  // namespace orrery::jit
