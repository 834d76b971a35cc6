// jit/emit_control.cc: regions and their nodes. See emitter.h. Not here: edges between nodes (emit_branches.cc), how a warp leaves
// (emit_stops.cc).
#include <algorithm>

#include "exec/interpreter.h"
#include "exec/observed.h"
#include "exec/run_state.h"
#include "jit/abreast.h"
#include "jit/emitter.h"
#include "jit/rows.h"
#include "lower/flow.h"

namespace orrery::jit {

using exec::CtaContext;
using exec::LaunchContext;
using exec::Stop;
using exec::WarpContext;
using isa::Op;
using ptx::Instr;
using ptx::OperandKind;

namespace {

/// True when the slot has one store, which does not depend on what was there: LLVM finds its value without a search.
bool written_once(const llvm::AllocaInst& slot) {
  const llvm::StoreInst* only = nullptr;
  for (const llvm::User* u : slot.users()) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(u);
    if (store && std::exchange(only, store)) return false;
  }
  if (!only) return false;
  const auto* value = llvm::dyn_cast<llvm::SelectInst>(only->getValueOperand());
  const auto* old = value ? llvm::dyn_cast<llvm::LoadInst>(value->getFalseValue()) : nullptr;
  return !old || old->getPointerOperand() != &slot;
}

constexpr int32_t kPollPeriod = 1 << 16;  // loop iterations between looks at the stop flag
}

Emitter::Emitter(const Plan& plan, llvm::Module& module, const HostTraits& traits)
    : plan_(plan), module_(module), context_(module.getContext()), traits_(traits), b_(module.getContext()) {
  const lower::Program& p = plan.program;
  live_.resize(p.blocks.size());
  for (size_t b = 0; b < p.blocks.size(); b++) {
    live_[b].assign(p.regs.size(), 0);
    for (uint32_t r : p.live_in[b]) live_[b][r] = 1;
  }
  // Lanes that have exited, as long as shuffles may name them, give the values that they had.
  for (const Instr& in : p.code) {
    if (in.form.op != Op::shfl || in.ops[1].kind != OperandKind::reg || !plan.uniformity.regs[in.ops[1].id].varies()) continue;
    for (size_t b = 0; b < p.blocks.size(); b++)
      if (p.blocks[b].last == p.blocks[b].first + 1 && p.blocks[b].successors.empty()) live_[b][in.ops[1].id] = 1;
  }
}

Emitter::Block* Emitter::block(const char* name) { return Block::Create(context_, name, function_); }

/// The function: a loop over warps around the region (emit_turns.cc). What is the same for all warps of a block is read before it.
void Emitter::begin(uint32_t region) {
  region_ = region;
  llvm::Type *i32 = b_.getInt32Ty(), *ptr = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(i32, {ptr, i32}, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, Symbols::region(region), module_);
  function_->addFnAttr("target-cpu", traits_.cpu);
  function_->addFnAttr("target-features", traits_.features);
  function_->addFnAttr("prefer-vector-width", traits_.avx512 ? "512" : "256");
  function_->addFnAttr("no-trapping-math", "true");
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  entry_block_ = block("entry"), warp_block_ = block("warp"), back_block_ = block("back");
  fault_block_ = nullptr;
  slots_.assign(plan_.program.regs.size(), nullptr);
  scratch_.clear();
  guard_ = nullptr;
  kept_.clear();
  b_.SetInsertPoint(entry_block_);
  Value* first = function_->getArg(0);
  alloca_point_ = b_.CreateAlloca(b_.getInt8Ty(), nullptr, "here");
  auto fixed = [&](Value* base, size_t offset, LaneType* t, const char* name) {
    auto* load = llvm::cast<llvm::LoadInst>(load_field(base, offset, t, name));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return load;
  };
  cta_ = fixed(first, offsetof(WarpContext, cta), ptr, "cta");
  launch_ = fixed(cta_, offsetof(CtaContext, launch), ptr, "launch");
  shared_ = fixed(cta_, offsetof(CtaContext, shared), ptr, "shared");
  shared_bytes_ = fixed(cta_, offsetof(CtaContext, shared_bytes), i32, "shared_bytes");
  params_ = fixed(cta_, offsetof(CtaContext, params), ptr, "params");
  memory_base_ = fixed(launch_, offsetof(LaunchContext, memory_base), b_.getInt64Ty(), "memory_base");
  memory_size_ = fixed(launch_, offsetof(LaunchContext, memory_size), b_.getInt64Ty(), "memory_size");
  off_line_ = nullptr;
  if (traits_.streams && plan_.streams.bytes) {
    Value* threads = fixed(launch_, offsetof(LaunchContext, streaming_threads), b_.getInt64Ty(), "threads");
    constexpr uint64_t kLine = 64;
    off_line_ = b_.CreateSelect(b_.CreateICmpUGE(threads, b_.getInt64(plan_.streams.least_threads())), b_.getInt64(kLine - 1), b_.getInt64(~uint64_t{0}));
  }
  stop_ = llvm::PHINode::Create(i32, 4, "stop", back_block_);
  turns_ = {};
  abreast_ = {};
  if (row_latch_ == lower::kNone) begin_warps();
  else begin_turns();
}

void Emitter::begin_warp() {
  b_.CreateStore(warp_, field(cta_, offsetof(CtaContext, running)));
  frame_ = load_field(warp_, offsetof(WarpContext, frame), b_.getPtrTy(), "frame");
  if (plan_.program.local_bytes) {
    local_ = load_field(warp_, offsetof(WarpContext, local), b_.getPtrTy(), "local");
    local_stride_ = load_field(warp_, offsetof(WarpContext, local_stride), b_.getInt64Ty(), "local_stride");
    if (plan_.quiet_local && (plan_.observe & exec::kObserveWritten)) {
      auto marks = module_.getOrInsertFunction(Symbols::local_marks, llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy()}, false));
      auto* call = b_.CreateCall(marks, {warp_}, "local_marks");
      call->addFnAttr(llvm::Attribute::NoUnwind);
      local_marks_ = call;
    }
  }
  mask_slot_ = new_alloca(llvm::FixedVectorType::get(traits_.avx512 ? b_.getInt1Ty() : b_.getInt32Ty(), 32), "mask");
  poll_slot_ = new_alloca(b_.getInt32Ty(), "poll");
  b_.CreateStore(b_.getInt32(kPollPeriod), poll_slot_);
  count_slot_ = new_alloca(b_.getInt64Ty(), "count");
  b_.CreateStore(load_field(warp_, offsetof(WarpContext, instructions), b_.getInt64Ty(), "ran"), count_slot_);
}

/// This warp is done with: `stop` says why.
void Emitter::give_back(Value* stop) {
  stop_->addIncoming(stop, b_.GetInsertBlock());
  b_.CreateBr(back_block_);
}

/// The way back to the next warp. Registers of one warp mean nothing to the next: without the stores of no value, a
/// register that is written under a mask would be carried from warp to warp.
void Emitter::finish_function() {
  b_.SetInsertPoint(warp_block_, warp_block_->getFirstInsertionPt());
  for (llvm::AllocaInst* slot : slots_)
    if (slot && !written_once(*slot)) b_.CreateStore(llvm::UndefValue::get(slot->getAllocatedType()), slot);
  if (row_latch_ == lower::kNone) finish_warps();
  else finish_turns();
}

void Emitter::emit_region(uint32_t region) {
  const uint32_t pc = plan_.entries[region];
  schedule_ = lower::make_schedule(plan_.program, pc, [&](uint32_t i) { return plan_.ends_before(region, i); },
                                   plan_.uniformity.divergent);
  row_latch_ = find_row_loop(plan_, schedule_);
  steady_ = {};
  begin(region);
  written_.assign(plan_.program.regs.size(), 0);
  waiting_.assign(schedule_.nodes.size(), nullptr);
  node_block_.clear();
  for (const lower::Node& n : schedule_.nodes) {
    node_block_.push_back(block("node"));
    for (uint32_t i = n.first; i < n.last; i++)
      lower::for_registers(plan_.program.code[i], [&](uint32_t r) { written_[r] = 1; }, [](uint32_t) {});
  }
  const bool full = plan_.all_lanes[region] != 0;
  find_full_nodes(full);
  changed_ = written_;
  begin_kept(pc);
  if (traits_.avx512 && goes_abreast(plan_, schedule_, region)) emit_abreast(pc);
  check_all_lanes(pc, full);
  settle(pc, plan_.live_before(pc));
  load_live_registers(pc);
  Value* live = load_field(warp_, offsetof(WarpContext, live), b_.getInt32Ty(), "live");
  store_mask(mask_slot_, full ? llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getInt1Ty(), 32)) : mask_of_bits(live));
  for (const lower::Node& n : schedule_.nodes)
    n.waiting.each([&](uint32_t w) {
      if (waiting_[w]) return;
      waiting_[w] = new_alloca(mask_slot_->getAllocatedType(), "waiting");
      b_.CreateStore(llvm::Constant::getNullValue(mask_slot_->getAllocatedType()), waiting_[w]);
    });
  b_.CreateBr(node_block_[schedule_.start]);
  for (uint32_t n = 0; n < schedule_.nodes.size(); n++) emit_node(n);
  finish_function();
}

/// A node has all 32 lanes when the region starts with them, none can have exited and none can wait elsewhere.
void Emitter::find_full_nodes(bool full) {
  const auto& nodes = schedule_.nodes;
  std::vector<uint8_t> reduced(nodes.size(), 0);
  std::vector<uint32_t> work;
  auto reduce = [&](uint32_t n) { if (!reduced[n]) reduced[n] = 1, work.push_back(n); };
  for (const lower::Node& n : nodes)
    if (n.exits && (n.divergent || !n.waiting.empty())) {
      n.waiting.each(reduce);
      for (uint32_t s : n.successors) reduce(s);
    }
  while (!work.empty()) {
    const lower::Node& n = nodes[work.back()];
    work.pop_back();
    n.waiting.each(reduce);
    for (uint32_t s : n.successors) reduce(s);
  }
  full_nodes_.assign(nodes.size(), 0);
  for (size_t n = 0; n < nodes.size(); n++) full_nodes_[n] = full && nodes[n].waiting.empty() && !reduced[n];
}

/// A region compiled for 32 live lanes gives the warp back when some have exited.
void Emitter::check_all_lanes(uint32_t pc, bool full) {
  if (!full) return;
  Value* live = load_field(warp_, offsetof(WarpContext, live), b_.getInt32Ty(), "live");
  Block *bad = block("partial"), *ok = block("all_lanes");
  b_.CreateCondBr(b_.CreateICmpEQ(live, b_.getInt32(~0u)), ok, bad);
  b_.SetInsertPoint(bad);
  leave_at_entry(pc);
  b_.SetInsertPoint(ok);
}

/// Gives the warp back before anything was done.
void Emitter::leave_at_entry(uint32_t pc) {
  if (is_kept_) emit_unpack();
  write_group(b_.getInt32(0), pc, load_field(warp_, offsetof(WarpContext, live), b_.getInt32Ty(), "live"));
  b_.CreateStore(b_.getInt32(1), field(warp_, offsetof(WarpContext, n_groups)));
  give_back(b_.getInt32(uint32_t(Stop::diverged)));
}

/// The interpreter may have let lanes run apart and meet again in different iterations of a loop; then a register
/// that compiled code would keep as one value may differ between lanes. settle (runtime.cc) looks, unless the warp
/// comes straight from compiled code.
void Emitter::settle(uint32_t pc, const std::vector<uint32_t>& live) {
  if (pc == 0) return;
  std::vector<llvm::Constant*> rows, patterns;
  auto* i32 = b_.getInt32Ty();
  for (uint32_t r : live) {
    const lower::Lanes& l = plan_.uniformity.regs[r];
    if (l.varies() || l.chunks == 0 || is_qword(r)) continue;
    const uint32_t bytes = is_pred(r) ? 0 : plan_.program.regs[r].kind == lower::RegKind::word ? 4 : 8;
    for (uint32_t v : {plan_.program.regs[r].offset, bytes, uint32_t(l.chunks), uint32_t(patterns.size())})
      rows.push_back(llvm::ConstantInt::get(i32, v));
    for (int64_t v : plan_.uniformity.pattern_of(l)) patterns.push_back(llvm::ConstantInt::get(b_.getInt64Ty(), uint64_t(v)));
  }
  if (rows.empty()) return;
  auto table = [&](llvm::Type* t, llvm::ArrayRef<llvm::Constant*> values) {
    auto* at = llvm::ArrayType::get(t, values.size());
    return new llvm::GlobalVariable(module_, at, true, llvm::GlobalValue::PrivateLinkage, llvm::ConstantArray::get(at, values), "settle");
  };
  Value* ran = b_.CreateSub(load_field(warp_, offsetof(WarpContext, instructions), b_.getInt64Ty(), "ran"),
                            load_field(warp_, offsetof(WarpContext, intact_since), b_.getInt64Ty(), "since"));
  Block *look = block("settle"), *apart = block("apart"), *ok = block("settled");
  Value* known = b_.CreateICmpULE(ran, b_.getInt64(1));
  b_.CreateCondBr(is_kept_ ? b_.CreateOr(known, is_kept_) : known, ok, look);
  b_.SetInsertPoint(look);
  Value* bad = call_runtime(Symbols::settle, i32, {warp_, table(i32, rows), table(b_.getInt64Ty(), patterns), b_.getInt32(uint32_t(rows.size() / 4))});
  b_.CreateCondBr(b_.CreateICmpEQ(bad, b_.getInt32(0)), ok, apart);
  b_.SetInsertPoint(apart);
  leave_at_entry(pc);
  b_.SetInsertPoint(ok);
}

void Emitter::load_live_registers(uint32_t pc) {
  if (is_kept_) load_kept_registers(pc);
  for (uint32_t r : plan_.live_before(pc)) {
    if (plan_.at_home[r] || (is_kept_ && plan_.kept_at[r] != Plan::kInFrame)) continue;
    Value* v = load_from_frame(r);
    if (is_pred(r) && width_of_reg(r) == 32) store_mask(llvm::cast<llvm::AllocaInst>(slot(r)), v);
    else b_.CreateStore(v, slot(r));
  }
}

void Emitter::emit_node(uint32_t n) {
  const lower::Node& node = schedule_.nodes[n];
  node_ = n;
  b_.SetInsertPoint(steady_.leave ? steady_.node_block[n] : node_block_[n]);
  full_ = full_nodes_[n] || steady_.leave;
  covered_.clear();
  loaded_early_.clear();
  offered_.clear();
  kept_.clear();
  if (!node.waiting.empty() && !steady_.leave) {
    kept_.assign(plan_.program.regs.size(), 0);
    node.waiting.each([&](uint32_t w) {
      const auto& live = live_[schedule_.nodes[w].block];
      for (size_t r = 0; r < live.size(); r++) kept_[r] |= live[r];
    });
  }
  if (node.latch) {
    if (n == row_latch_) b_.CreateStore(b_.getTrue(), turns_.has_walked);
    else emit_loop_header(n);
    jump(node.successors[0], mask());
    return;
  }
  if (row_latch_ != lower::kNone && n == schedule_.nodes[row_latch_].successors[0] && !steady_.leave) park(n);
  const bool cut = node.stops && !plan_.service[node.last - 1];  // before another entry
  count_instructions(node.last - node.first - node.stops);  // what it stops before is counted by who executes it
  for (uint32_t i = node.first; i < node.last; i++) {
    inst_ = i;
    const Instr& in = plan_.program.code[i];
    guard_ = nullptr;
    if (node.stops && i + 1 == node.last) {
      if (!cut && emit_arrival(i)) return;
      emit_stop(i, uint32_t(cut ? Stop::entry : Stop::service), true);
      return;
    }
    const Op op = in.form.op;
    if (op == Op::bra || op == Op::brx || op == Op::ret || op == Op::exit) {
      emit_terminator(in);
      return;
    }
    if (steady_.stage == Steady::look) {
      const auto at = slice_.find(i);
      if (at == slice_.end()) continue;
      for (uint32_t r : at->second) look_for_wrap(r);
    }
    emit_instr(i);
  }
  jump(node.successors.at(0), mask());
}

/// On the way back to a loop header: spinning loops count down their budget, all others look at the stop flag.
void Emitter::emit_loop_header(uint32_t n) {
  const uint32_t header = plan_.program.blocks[schedule_.nodes[n].block].first;
  if (plan_.spin_entry[header]) {
    Value* at = field(warp_, offsetof(WarpContext, budget));
    Value* left = b_.CreateSub(b_.CreateLoad(b_.getInt32Ty(), at), b_.getInt32(1));
    b_.CreateStore(left, at);
    Block *stop = block("spin"), *go = block("go");
    b_.CreateCondBr(b_.CreateICmpSLT(left, b_.getInt32(0)), stop, go);
    b_.SetInsertPoint(stop);
    emit_stop(header, uint32_t(Stop::spin), true);
    b_.SetInsertPoint(go);
    return;
  }
  Value* left = b_.CreateSub(b_.CreateLoad(b_.getInt32Ty(), poll_slot_), b_.getInt32(1));
  b_.CreateStore(left, poll_slot_);
  Block *poll = block("poll"), *go = block("go");
  auto* branch = b_.CreateCondBr(b_.CreateICmpEQ(left, b_.getInt32(0)), poll, go);
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 16));
  b_.SetInsertPoint(poll);
  b_.CreateStore(b_.getInt32(kPollPeriod), poll_slot_);
  check_fault(call_runtime(Symbols::should_stop, b_.getInt32Ty(), {warp_}));
  b_.CreateBr(go);
  b_.SetInsertPoint(go);
}

}  // namespace orrery::jit
