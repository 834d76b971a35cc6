// jit/emit_stops.cc: how a warp leaves compiled code: registers to the frame, groups, counts. See emitter.h.
//
// Invariant: what stands in the context after a stop is what the interpreter would have left there, but for registers that
// no instruction reads any more.
#include "exec/interpreter.h"
#include "exec/run_state.h"
#include "jit/emitter.h"

namespace orrery::jit {

using exec::Group;
using exec::Stop;
using exec::WarpContext;

void Emitter::write_live(const std::vector<uint32_t>& regs, Value* m) {
  for (uint32_t r : regs)
    if (written_[r] && !plan_.at_home[r]) store_to_frame(r, m);
}

/// Appends a ready group; returns the new number of groups.
llvm::Value* Emitter::write_group(Value* n, uint32_t pc, Value* bits) {
  Value* at = b_.CreateGEP(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(Group)), field(warp_, offsetof(WarpContext, groups)),
                           {b_.CreateZExt(n, b_.getInt64Ty())});
  b_.CreateMemSet(at, b_.getInt8(0), sizeof(Group), llvm::Align(8));
  b_.CreateStore(b_.getInt32(pc), field(at, offsetof(Group, pc)));
  b_.CreateStore(bits, field(at, offsetof(Group, mask)));
  return b_.CreateAdd(n, b_.getInt32(1));
}

/// A barrier of all threads that all live lanes reach together: only the registers are written, and of those that are
/// described by bases only these when a region starts behind the barrier.
bool Emitter::emit_arrival(uint32_t pc) {
  if (!exec::is_plain_barrier(plan_.program.code[pc]) || !schedule_.nodes[node_].waiting.empty() || pc >> 24) return false;
  publish_count();
  keep_registers(pc);
  b_.CreateStore(b_.CreateLoad(b_.getInt64Ty(), count_slot_), field(warp_, offsetof(WarpContext, intact_since)));
  give_back(b_.getInt32(uint32_t(Stop::arrived) | pc << 8));
  return true;
}

/// Registers live at the barrier `pc` go where the region after it looks for them.
void Emitter::keep_registers(uint32_t pc) {
  const bool keep = plan_.entry_of[pc + 1] >= 0;
  for (uint32_t r : plan_.live_before(pc)) {
    if (plan_.at_home[r]) continue;
    if (!keep || plan_.kept_at[r] == Plan::kInFrame) { if (written_[r]) store_to_frame(r); }
    else if (changed_[r] || !plan_.after_barrier[region_]) store_kept(r);
  }
}

/// Writes the state of the warp, standing before instruction `pc`, and returns. `intact`: registers are as described
/// by the uniformity analysis for all lanes, so that an entry right after needs no check.
void Emitter::emit_stop(uint32_t pc, uint32_t why, bool intact) {
  if (steady_.leave) {
    b_.CreateBr(steady_.leave);
    return;
  }
  const lower::NodeSet& waiting = schedule_.nodes[node_].waiting;
  Value* here = mask();
  const bool alone = waiting.empty();
  publish_count();
  write_live(plan_.live_before(pc), alone ? nullptr : here);
  Value* live = bits_of(here);
  Value* n = write_group(b_.getInt32(0), pc, live);
  waiting.each([&](uint32_t w) {
    const uint32_t at = plan_.program.blocks[schedule_.nodes[w].block].first;
    Value* m = load_mask(waiting_[w]);
    Value* bits = bits_of(m);
    Block *write = block("group"), *next = block("next_group"), *from = b_.GetInsertBlock();
    b_.CreateCondBr(b_.CreateICmpNE(bits, b_.getInt32(0)), write, next);
    b_.SetInsertPoint(write);
    write_live(plan_.live_before(at), m);
    Value* more = write_group(n, at, bits);
    Block* written = b_.GetInsertBlock();
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
    auto* phi = b_.CreatePHI(b_.getInt32Ty(), 2);
    phi->addIncoming(n, from);
    phi->addIncoming(more, written);
    n = phi;
    live = b_.CreateOr(live, bits);
  });
  b_.CreateStore(n, field(warp_, offsetof(WarpContext, n_groups)));
  b_.CreateStore(live, field(warp_, offsetof(WarpContext, live)));
  Value* since = intact && alone ? b_.CreateLoad(b_.getInt64Ty(), count_slot_)
                                 : static_cast<Value*>(b_.getInt64(uint64_t{1} << 62));
  b_.CreateStore(since, field(warp_, offsetof(WarpContext, intact_since)));
  if (alone) {
    give_back(b_.getInt32(why));
    return;
  }
  give_back(b_.CreateSelect(b_.CreateICmpEQ(n, b_.getInt32(1)), b_.getInt32(why), b_.getInt32(uint32_t(Stop::diverged))));
}

void Emitter::leave_if(Value* bad, bool intact) {
  if (auto* c = llvm::dyn_cast<llvm::ConstantInt>(bad); c && c->isZero()) return;
  Block *leave = block("leave"), *stay = block("stay");
  auto* branch = b_.CreateCondBr(bad, leave, stay);
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(leave);
  emit_stop(inst_, uint32_t(Stop::service), intact);
  b_.SetInsertPoint(stay);
}

Emitter::Block* Emitter::fault_block() {
  if (fault_block_) return fault_block_;
  fault_block_ = block("fault");
  llvm::IRBuilder<>(fault_block_).CreateRet(b_.getInt32(uint32_t(Stop::fault)));
  return fault_block_;
}

void Emitter::check_fault(Value* failed) {
  Block* ok = block("ok");
  auto* branch = b_.CreateCondBr(b_.CreateICmpEQ(failed, b_.getInt32(0)), ok, fault_block());
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(ok);
}

void Emitter::count_instructions(uint32_t n) {
  steady_.instructions += n;
  if (steady_.leave) return;
  b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), count_slot_), b_.getInt64(n)), count_slot_);
}

/// The count lives in a register; others see it in the context.
void Emitter::publish_count() {
  b_.CreateStore(b_.CreateLoad(b_.getInt64Ty(), count_slot_), field(warp_, offsetof(WarpContext, instructions)));
}

}  // namespace orrery::jit
