// jit/emit_turns.cc: the loop over warps around a region. See emitter.h.
//
// Most regions run warp after warp: the block's first warp last (what a kernel singles out thread 0 for follows on
// hardware, as a rule, what the others did at the same point), but in order where nothing but addresses can depend on it.
// A region with a row loop (rows.h) runs all warps to the end of the loop's first iteration, then each in turn through
// one more, until all have left the loop and gone on to where they stop:
//
//   turn t:  warp t -> region's start (first round) or from the latch with its state put back
//                    -> latch: state put aside, next turn       -> region's end: done with
//
// Invariant: between turns nothing of a warp is in registers; `parked` has a bit for each warp whose state is put aside.
#include <algorithm>
#include <bit>

#include "exec/run_state.h"
#include "jit/emitter.h"
#include "jit/rows.h"

namespace orrery::jit {

using exec::Stop;
using exec::WarpContext;
using llvm::Value;

namespace {
constexpr uint32_t kPollPeriod = 1 << 14;  // rounds between looks at the stop flag
}

void Emitter::begin_warps() {
  llvm::Type *i32 = b_.getInt32Ty(), *ptr = b_.getPtrTy();
  Value *first = function_->getArg(0), *n = function_->getArg(1), *start = first;
  if (first_runs_last()) start = b_.CreateSelect(b_.CreateICmpUGT(n, b_.getInt32(1)), field(first, sizeof(WarpContext)), first);
  b_.CreateBr(warp_block_);
  b_.SetInsertPoint(warp_block_);
  auto* warp = b_.CreatePHI(ptr, 2, "warp");
  turns_.left = b_.CreatePHI(i32, 2, "warps_left");
  turns_.agreed = b_.CreatePHI(i32, 2, "agreed");
  warp->addIncoming(start, entry_block_);
  turns_.left->addIncoming(n, entry_block_);
  turns_.agreed->addIncoming(b_.getInt32(~0u), entry_block_);
  warp_ = warp;
  begin_warp();
}

bool Emitter::first_runs_last() const { return !plan_.program.prints && !plan_.independent; }

void Emitter::finish_warps() {
  b_.SetInsertPoint(back_block_);
  Value* agreed = agree_on_stop();
  Value* left = b_.CreateSub(turns_.left, b_.getInt32(1));
  Value* next = field(warp_, sizeof(WarpContext));
  if (first_runs_last()) next = b_.CreateSelect(b_.CreateICmpEQ(left, b_.getInt32(1)), function_->getArg(0), next);
  Block* leave = block("leave");
  b_.CreateCondBr(b_.CreateICmpEQ(left, b_.getInt32(0)), leave, warp_block_);
  llvm::cast<llvm::PHINode>(warp_)->addIncoming(next, back_block_);
  turns_.left->addIncoming(left, back_block_);
  turns_.agreed->addIncoming(agreed, back_block_);
  b_.SetInsertPoint(leave);
  b_.CreateRet(agreed);
}

/// This warp's stop goes to its context; the stop of all warps so far.
Value* Emitter::agree_on_stop() {
  b_.CreateStore(stop_, field(warp_, offsetof(WarpContext, stop)));
  Value* same = b_.CreateOr(b_.CreateICmpEQ(turns_.agreed, b_.getInt32(~0u)), b_.CreateICmpEQ(stop_, turns_.agreed));
  return b_.CreateSelect(same, stop_, b_.getInt32(uint32_t(Stop::mixed)));
}

void Emitter::begin_turns() {
  auto* i32 = b_.getInt32Ty();
  Value* n = function_->getArg(1);
  Value* all = b_.CreateLShr(b_.getInt32(~0u), b_.CreateAnd(b_.CreateSub(b_.getInt32(32), n), b_.getInt32(31)));
  b_.CreateBr(warp_block_);
  b_.SetInsertPoint(warp_block_);
  turns_.turn = b_.CreatePHI(i32, 2, "turn");
  turns_.left = b_.CreatePHI(i32, 2, "left");  // of this round, a bit each
  turns_.parked = b_.CreatePHI(i32, 2, "parked");
  turns_.agreed = b_.CreatePHI(i32, 2, "agreed");
  turns_.rounds = b_.CreatePHI(i32, 2, "rounds");
  turns_.turn->addIncoming(b_.getInt32(0), entry_block_);
  turns_.left->addIncoming(all, entry_block_);
  turns_.parked->addIncoming(b_.getInt32(0), entry_block_);
  turns_.agreed->addIncoming(b_.getInt32(~0u), entry_block_);
  turns_.rounds->addIncoming(b_.getInt32(kPollPeriod), entry_block_);
  Value* turn = b_.CreateZExt(turns_.turn, b_.getInt64Ty());
  warp_ = b_.CreateGEP(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(WarpContext)), function_->getArg(0), {turn});
  begin_warp();
  turns_.resume = block("resume"), turns_.aside = block("aside");
  Block* start = block("start");
  turns_.is_parked = b_.CreateICmpNE(b_.CreateAnd(b_.CreateLShr(turns_.parked, turns_.turn), b_.getInt32(1)), b_.getInt32(0));
  b_.CreateCondBr(turns_.is_parked, turns_.resume, start);
  b_.SetInsertPoint(start);
}

/// The latch of the row loop: this warp's state is put aside; the code after this follows its being put back. What is
/// not written any more is put aside once. Parts lie close together: many lines of state would meet the loop's own loads
/// in the low 12 bits of their addresses, which the host takes for dependences.
void Emitter::park(uint32_t node) {
  struct Part { llvm::AllocaInst* slot; size_t at; uint64_t align; bool fixed; };
  std::vector<Part> parts;
  auto add = [&](llvm::AllocaInst* a, bool fixed) {
    const uint64_t size = module_.getDataLayout().getTypeAllocSize(a->getAllocatedType());
    parts.push_back({a, 0, std::min<uint64_t>(64, std::bit_ceil(size)), fixed});
  };
  const std::set<uint32_t> written = written_after(plan_, schedule_, node);
  add(count_slot_, false);
  for (uint32_t r : live_at_latch(plan_, schedule_, node))
    if (!plan_.at_home[r]) add(llvm::cast<llvm::AllocaInst>(slot(r)), !written.count(r));
  if (!full_) add(mask_slot_, false);
  schedule_.nodes[node].waiting.each([&](uint32_t w) { add(waiting_[w], false); });
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.align > b.align; });
  size_t bytes = 0;
  for (Part& p : parts) p.at = bytes, bytes += module_.getDataLayout().getTypeAllocSize(p.slot->getAllocatedType());
  bytes = (bytes + 63) / 64 * 64;
  auto* state = llvm::ArrayType::get(b_.getInt8Ty(), bytes);
  llvm::AllocaInst* states = new_alloca(llvm::ArrayType::get(state, 32), "states");
  auto move = [&](bool aside, bool fixed, bool all) {
    Value* place = b_.CreateInBoundsGEP(state, states, {b_.CreateZExt(turns_.turn, b_.getInt64Ty())});
    for (const Part& p : parts) {
      if (!all && p.fixed != fixed) continue;
      const llvm::Align align(p.align);
      if (aside) b_.CreateAlignedStore(b_.CreateLoad(p.slot->getAllocatedType(), p.slot), field(place, p.at), align);
      else b_.CreateStore(b_.CreateAlignedLoad(p.slot->getAllocatedType(), field(place, p.at), align), p.slot);
    }
  };
  Block *once = block("put_aside_once"), *always = block("put_aside");
  b_.CreateCondBr(turns_.is_parked, always, once);
  b_.SetInsertPoint(once);
  move(true, true, false);
  b_.CreateBr(always);
  b_.SetInsertPoint(always);
  move(true, false, false);
  b_.CreateBr(turns_.aside);
  b_.SetInsertPoint(turns_.resume);
  move(false, false, true);
}

void Emitter::finish_turns() {
  auto* i32 = b_.getInt32Ty();
  Block *next = block("next_turn"), *more = block("more"), *round = block("round"), *again = block("again");
  Block *unpolled = block("unpolled"), *poll = block("poll"), *leave = block("leave");
  b_.SetInsertPoint(back_block_);
  Value* agreed = agree_on_stop();
  Value* bit = b_.CreateShl(b_.getInt32(1), turns_.turn);
  Value* gone = b_.CreateAnd(turns_.parked, b_.CreateNot(bit));
  b_.CreateBr(next);
  b_.SetInsertPoint(turns_.aside);
  Value* kept = b_.CreateOr(turns_.parked, b_.CreateShl(b_.getInt32(1), turns_.turn));
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  auto *parked = b_.CreatePHI(i32, 2), *result = b_.CreatePHI(i32, 2);
  parked->addIncoming(gone, back_block_), parked->addIncoming(kept, turns_.aside);
  result->addIncoming(agreed, back_block_), result->addIncoming(turns_.agreed, turns_.aside);
  auto go = [&](Value* left, Value* rounds) {
    Block* from = b_.GetInsertBlock();
    turns_.turn->addIncoming(b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b_.getTrue()), from);
    turns_.left->addIncoming(left, from);
    turns_.parked->addIncoming(parked, from);
    turns_.agreed->addIncoming(result, from);
    turns_.rounds->addIncoming(rounds, from);
    b_.CreateBr(warp_block_);
  };
  Value* rest = b_.CreateAnd(turns_.left, b_.CreateSub(turns_.left, b_.getInt32(1)));
  b_.CreateCondBr(b_.CreateICmpNE(rest, b_.getInt32(0)), more, round);
  b_.SetInsertPoint(more);
  go(rest, turns_.rounds);
  b_.SetInsertPoint(round);
  b_.CreateCondBr(b_.CreateICmpEQ(parked, b_.getInt32(0)), leave, again);
  b_.SetInsertPoint(again);
  Value* rounds = b_.CreateSub(turns_.rounds, b_.getInt32(1));
  b_.CreateCondBr(b_.CreateICmpEQ(rounds, b_.getInt32(0)), poll, unpolled);
  b_.SetInsertPoint(unpolled);
  go(parked, rounds);
  b_.SetInsertPoint(poll);
  check_fault(call_runtime(Symbols::should_stop, i32, {warp_}));
  go(parked, b_.getInt32(kPollPeriod));
  b_.SetInsertPoint(leave);
  b_.CreateRet(result);
}

}  // namespace orrery::jit
