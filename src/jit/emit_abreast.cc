// jit/emit_abreast.cc: the code of a region for several warps at once (abreast.h). See emitter.h.
//
//   at a warp: are kWarps left, all with all their lanes and from the barrier before, all addresses inside shared memory?
//     yes -> kWarps abreast to the next barrier, without a check      no -> this warp alone
//
// Invariant: what the warps leave behind is what they would leave one after the other, where they do not race; nothing is changed before all checks.
#include <llvm/IR/CFG.h>
#include <llvm/IR/InlineAsm.h>

#include <algorithm>

#include "exec/interpreter.h"
#include "exec/run_state.h"
#include "jit/abreast.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"

namespace orrery::jit {

using exec::Stop;
using exec::WarpContext;
using isa::Op;
using llvm::Value;
using ptx::Instr;

namespace {
constexpr size_t kWarps = 4;
}

/// Exchanges what the emitter knows of the current warp for another's.
void Emitter::swap_state(Abreast& other) {
  std::swap(warp_, other.warp), std::swap(frame_, other.frame);
  std::swap(slots_, other.slots), std::swap(covered_, other.covered), std::swap(loaded_early_, other.loaded_early);
}

/// LLVM's schedulers would run one chain to its end before the next, to need fewer registers: no load moves past this.
void Emitter::hold_order() {
  auto* t = llvm::FunctionType::get(b_.getVoidTy(), false);
  b_.CreateCall(t, llvm::InlineAsm::get(t, "", "~{memory}", /*hasSideEffects=*/true));
}

/// At the start of a warp: kWarps of them to the barrier, or on to the code of one. `pc`: the region's start.
void Emitter::emit_abreast(uint32_t pc) {
  const lower::Node& node = schedule_.nodes[0];
  const auto arrived = [](uint32_t barrier) { return uint32_t(Stop::arrived) | barrier << 8; };
  const uint32_t end = node.last - 1, stop = arrived(end);
  auto* i32 = b_.getInt32Ty();
  Block *start = b_.GetInsertBlock(), *look = block("look_abreast"), *run = block("abreast"), *never = block("never"), *alone = block("alone");
  b_.SetInsertPoint(look);
  Value *left = turns_.left, *at = warp_, *bad = b_.getFalse();
  std::vector<Abreast> warps(kWarps);
  node_ = 0, full_ = true;
  slice_.clear();
  steady_ = {never, {}, Steady::checked};
  for (Abreast& w : warps) {
    w.warp = at, w.frame = load_field(at, offsetof(WarpContext, frame), b_.getPtrTy(), "frame");
    w.slots.assign(plan_.program.regs.size(), nullptr);
    if (&w != &warps.back()) at = next_warp(at, left = b_.CreateSub(left, b_.getInt32(1)));
    swap_state(w);
    bad = b_.CreateOr(bad, b_.CreateICmpNE(load_field(warp_, offsetof(WarpContext, live), i32, "live"), b_.getInt32(~0u)));
    bad = b_.CreateOr(bad, b_.CreateICmpNE(load_field(warp_, offsetof(WarpContext, stop), i32, "stopped"), b_.getInt32(arrived(pc - 1))));
    for (const uint32_t r : plan_.live_before(pc)) {
      Value* v = plan_.kept_at[r] == Plan::kInFrame ? load_from_frame(r) : load_kept(r);
      if (is_pred(r) && width_of_reg(r) == 32) store_mask(llvm::cast<llvm::AllocaInst>(slot(r)), v);
      else b_.CreateStore(v, slot(r));
    }
    for (inst_ = node.first; inst_ < end; inst_++) {
      const Instr& in = plan_.program.code[inst_];
      if (!is_shared_access(in)) continue;
      MemoryAccess access(*this, in, in.ops[in.form.op == Op::st ? 0 : 1], isa::bytes_of(in.form.type()), std::max<int>(1, in.form.vec));
      if (Value* outside = access.cover_together()) bad = b_.CreateOr(bad, outside);
    }
    swap_state(w);
  }
  Block* looked = b_.GetInsertBlock();
  b_.CreateCondBr(bad, alone, run);

  b_.SetInsertPoint(run);
  for (inst_ = node.first; inst_ < end; inst_++) {
    for (Abreast& w : warps) {
      swap_state(w);
      guard_ = nullptr;
      emit_instr(inst_);
      swap_state(w);
    }
    if (is_float_arithmetic(plan_.program.code[inst_])) hold_order();
  }
  for (Abreast& w : warps) {
    swap_state(w);
    Value* count = field(warp_, offsetof(WarpContext, instructions));
    Value* counted = b_.CreateAdd(b_.CreateLoad(b_.getInt64Ty(), count), b_.getInt64(end - node.first));
    b_.CreateStore(counted, count);
    keep_registers(end);
    b_.CreateStore(counted, field(warp_, offsetof(WarpContext, intact_since)));
    b_.CreateStore(b_.getInt32(stop), field(warp_, offsetof(WarpContext, stop)));
    swap_state(w);
  }
  Block* ran = b_.GetInsertBlock();
  const bool straight = ran == run && looked == look && llvm::pred_empty(never);
  b_.CreateBr(back_block_);
  abreast_ = {ran, at, left};
  stop_->addIncoming(b_.getInt32(stop), ran);
  steady_ = {};
  b_.SetInsertPoint(never);
  b_.CreateUnreachable();
  b_.SetInsertPoint(start);
  b_.CreateCondBr(straight ? b_.CreateICmpUGE(turns_.left, b_.getInt32(kWarps)) : b_.getFalse(), look, alone);
  b_.SetInsertPoint(alone);
}

}  // namespace orrery::jit
