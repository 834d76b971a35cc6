// jit/emit_kept.cc: registers at barriers of the whole block. See emitter.h.
//
// A warp that reaches __syncthreads() in compiled code and goes on in compiled code needs no register frame as the
// interpreter knows it. A register with 32 different lanes is stored there all the same; one that is described by
// bases (thread and block indices, counters, pointers, constants) is kept as these alone, 8 bytes each behind the
// frame, a constant or a copy of a special register not at all. Writing the frame in full took more cache lines than many a kernel's own data
// (reduction: 14 a warp, of which 2 are left).
//
//   region ... bar.sync   bases behind the frame, Stop::arrived
//   region after it       WarpContext::stop still says so: bases from there; else, as everywhere, from the frame
//   called with n = 0     (exec/: the block's warps part) fills the frame from the bases
//
// Invariant: at Stop::arrived every live register with a place is there, whether or not the region wrote it. The frame
// may lack it, so whatever a region found there counts as written when the region stops in another way.
#include "exec/interpreter.h"
#include "exec/run_state.h"
#include "jit/emitter.h"

namespace orrery::jit {

using exec::Stop;
using exec::WarpContext;
using llvm::Value;

Value* Emitter::kept_place(uint32_t reg, int chunk) {
  const size_t frame = (plan_.program.frame_bytes + 63) / 64 * 64;
  return field(frame_, frame + size_t(plan_.kept_at[reg]) + 8 * size_t(chunk));
}

void Emitter::store_kept(uint32_t reg) {
  if (plan_.kept_at[reg] < 0) return;
  const int width = width_of_reg(reg);
  Value* v = bits(reg, width);
  if (is_pred(reg)) {
    b_.CreateStore(b_.CreateSExt(v, b_.getInt32Ty()), kept_place(reg, 0));
    return;
  }
  v = fit(v, plan_.program.regs[reg].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty());
  for (int c = 0; c < width; c++) b_.CreateStore(width == 1 ? v : b_.CreateExtractElement(v, uint64_t(c)), kept_place(reg, c));
}

/// The bases of a register from behind the frame.
Value* Emitter::load_kept(uint32_t reg) {
  if (plan_.kept_at[reg] == Plan::kConstant) return known_base(reg);
  if (plan_.kept_at[reg] == Plan::kSpecial) return fit(special(plan_.special_of(reg), 0, 1), element_of_reg(reg));
  const int width = width_of_reg(reg);
  auto* t = is_pred(reg) || plan_.program.regs[reg].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty();
  if (is_pred(reg)) return b_.CreateTrunc(b_.CreateLoad(t, kept_place(reg, 0)), b_.getInt1Ty());
  if (width == 1) return fit(b_.CreateLoad(t, kept_place(reg, 0)), element_of_reg(reg));
  Value* v = llvm::PoisonValue::get(wide(t, width));
  for (int c = 0; c < width; c++) v = b_.CreateInsertElement(v, b_.CreateLoad(t, kept_place(reg, c)), uint64_t(c));
  return fit(v, element_of_reg(reg));
}

/// Live registers with a place behind the frame: from there, or from the frame, and then they are put there.
void Emitter::load_kept_registers(uint32_t pc) {
  llvm::BasicBlock *kept = block("kept"), *framed = block("framed"), *go = block("loaded");
  b_.CreateCondBr(is_kept_, kept, framed);
  for (const bool from_frame : {false, true}) {
    b_.SetInsertPoint(from_frame ? framed : kept);
    for (uint32_t r : plan_.live_before(pc)) {
      if (plan_.kept_at[r] == Plan::kInFrame) continue;
      b_.CreateStore(from_frame && plan_.kept_at[r] >= 0 ? load_from_frame(r) : load_kept(r), slot(r));
      if (from_frame) store_kept(r);
    }
    b_.CreateBr(go);
  }
  b_.SetInsertPoint(go);
}

/// Finds out where this warp's registers are, and emits what fills the frame when exec/ asks for that (n = 0).
void Emitter::begin_kept(uint32_t pc) {
  is_kept_ = nullptr;
  if (!plan_.after_barrier[region_]) return;
  const std::vector<uint32_t> live = plan_.live_before(pc);
  for (uint32_t r : live)
    if (plan_.kept_at[r] != Plan::kInFrame) written_[r] = 1;
  const llvm::IRBuilderBase::InsertPoint here = b_.saveIP();
  Value *warp = warp_, *frame = frame_;
  llvm::BasicBlock *fill = block("fill"), *start = entry_block_->getSingleSuccessor();
  entry_block_->getTerminator()->eraseFromParent();
  b_.SetInsertPoint(entry_block_);
  b_.CreateCondBr(b_.CreateICmpEQ(function_->getArg(1), b_.getInt32(0)), fill, start);
  b_.SetInsertPoint(fill);
  warp_ = function_->getArg(0);
  frame_ = load_field(warp_, offsetof(WarpContext, frame), b_.getPtrTy(), "frame");
  for (uint32_t r : live) {
    if (plan_.kept_at[r] == Plan::kInFrame) continue;
    b_.CreateStore(load_kept(r), slot(r));
    store_to_frame(r);
  }
  b_.CreateRet(b_.getInt32(0));
  b_.restoreIP(here);
  warp_ = warp, frame_ = frame;
  is_kept_ = b_.CreateICmpEQ(load_field(warp_, offsetof(WarpContext, stop), b_.getInt32Ty(), "stopped"),
                             b_.getInt32(uint32_t(Stop::arrived) | (pc - 1) << 8));
}

/// This warp's frame is filled if it was not; the warp is about to be given back as it came.
void Emitter::emit_unpack() {
  llvm::BasicBlock *fill = block("unpack"), *go = block("unpacked");
  b_.CreateCondBr(is_kept_, fill, go);
  b_.SetInsertPoint(fill);
  b_.CreateCall(function_, {warp_, b_.getInt32(0)});
  b_.CreateBr(go);
  b_.SetInsertPoint(go);
}

}  // namespace orrery::jit
