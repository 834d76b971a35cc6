// jit/emit_turns.cc: the loop over warps around a region. See emitter.h.
//
// Most regions run warp after warp: the block's first warp last (what a kernel singles out thread 0 for follows on
// hardware, as a rule, what the others did at the same point), but in order where nothing but addresses can depend on it.
// A region with a row loop (rows.h) runs all warps to the loop, or to the end of its first iteration where few are to come,
// then each in turn through one more, until all have left the loop and gone on to where they stop:
//
//   turn t:  warp t -> region's start (first round) or from the loop's header with its state put back
//                    -> header: state put aside, next turn      -> region's end: done with
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

/// The warp after `warp`, of which `left` are to come.
Value* Emitter::next_warp(Value* warp, Value* left) {
  Value* next = field(warp, sizeof(WarpContext));
  return first_runs_last() ? b_.CreateSelect(b_.CreateICmpEQ(left, b_.getInt32(1)), function_->getArg(0), next) : next;
}

void Emitter::finish_warps() {
  b_.SetInsertPoint(back_block_);
  Value *warp = warp_, *still_left = turns_.left;
  if (abreast_.from) {
    auto *last = b_.CreatePHI(b_.getPtrTy(), 2, "last"), *count = b_.CreatePHI(b_.getInt32Ty(), 2);
    for (Block* from : stop_->blocks()) {
      last->addIncoming(from == abreast_.from ? abreast_.warp : warp_, from);
      count->addIncoming(from == abreast_.from ? abreast_.left : turns_.left, from);
    }
    warp = last, still_left = count;
  }
  Value* agreed = agree_on_stop();
  Value* left = b_.CreateSub(still_left, b_.getInt32(1));
  Value* next = next_warp(warp, left);
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
  turns_.all = b_.CreateLShr(b_.getInt32(~0u), b_.CreateAnd(b_.CreateSub(b_.getInt32(32), n), b_.getInt32(31)));
  turns_.may_be_steady = new_alloca(b_.getInt1Ty(), "may_be_steady");
  b_.CreateStore(b_.getTrue(), turns_.may_be_steady);
  b_.CreateBr(warp_block_);
  b_.SetInsertPoint(warp_block_);
  turns_.turn = b_.CreatePHI(i32, 2, "turn");
  turns_.left = b_.CreatePHI(i32, 2, "left");  // of this round, a bit each
  turns_.parked = b_.CreatePHI(i32, 2, "parked");
  turns_.agreed = b_.CreatePHI(i32, 2, "agreed");
  turns_.rounds = b_.CreatePHI(i32, 2, "rounds");
  turns_.turn->addIncoming(b_.getInt32(0), entry_block_);
  turns_.left->addIncoming(turns_.all, entry_block_);
  turns_.parked->addIncoming(b_.getInt32(0), entry_block_);
  turns_.agreed->addIncoming(b_.getInt32(~0u), entry_block_);
  turns_.rounds->addIncoming(b_.getInt32(kRoundsToPoll), entry_block_);
  Value* turn = b_.CreateZExt(turns_.turn, b_.getInt64Ty());
  warp_ = b_.CreateGEP(llvm::ArrayType::get(b_.getInt8Ty(), sizeof(WarpContext)), function_->getArg(0), {turn});
  begin_warp();
  turns_.has_walked = new_alloca(b_.getInt1Ty(), "has_walked");
  b_.CreateStore(b_.getFalse(), turns_.has_walked);
  turns_.resume = block("resume"), turns_.aside = block("aside");
  Block* start = block("start");
  turns_.is_parked = b_.CreateICmpNE(b_.CreateAnd(b_.CreateLShr(turns_.parked, turns_.turn), b_.getInt32(1)), b_.getInt32(0));
  b_.CreateCondBr(turns_.is_parked, turns_.resume, start);
  b_.SetInsertPoint(start);
}

/// What a warp's state consists of, and where it lies. Parts lie close together: many lines of state would meet the loop's
/// own loads in the low 12 bits of their addresses, which the host takes for dependences.
void Emitter::lay_out_state(uint32_t node) {
  auto& parts = turns_.parts;
  auto size_of = [&](const Parked& p) { return uint64_t(module_.getDataLayout().getTypeAllocSize(p.slot->getAllocatedType())); };
  auto add = [&](Parked::What what, llvm::AllocaInst* slot, bool fixed, uint32_t reg = lower::kNone) {
    parts.push_back({what, slot, 0, 1, fixed, reg});
    parts.back().align = std::min<uint64_t>(64, std::bit_ceil(size_of(parts.back())));
  };
  const std::set<uint32_t> written = written_from(plan_, schedule_, node);
  add(Parked::count, count_slot_, false);
  for (uint32_t r : live_at(plan_, schedule_, node))
    if (!plan_.at_home[r]) add(Parked::value, llvm::cast<llvm::AllocaInst>(slot(r)), !written.count(r), r);
  if (!full_) add(Parked::mask, mask_slot_, false);
  schedule_.nodes[node].waiting.each([&](uint32_t w) { add(Parked::waiting, waiting_[w], false); });
  std::stable_sort(parts.begin(), parts.end(), [](const Parked& a, const Parked& b) { return a.align > b.align; });
  size_t bytes = 0;
  for (Parked& p : parts) p.at = bytes, bytes += size_of(p);
  turns_.state = llvm::ArrayType::get(b_.getInt8Ty(), (bytes + 63) / 64 * 64);
  turns_.states = new_alloca(llvm::ArrayType::get(turns_.state, 32), "states");
}

Value* Emitter::state_of(Value* turn) {
  return b_.CreateInBoundsGEP(turns_.state, turns_.states, {b_.CreateZExt(turn, b_.getInt64Ty())});
}

void Emitter::put_aside(const Parked& p, Value* state) {
  b_.CreateAlignedStore(b_.CreateLoad(p.slot->getAllocatedType(), p.slot), field(state, p.at), llvm::Align(p.align));
}

void Emitter::put_back(const Parked& p, Value* state) {
  b_.CreateStore(b_.CreateAlignedLoad(p.slot->getAllocatedType(), field(state, p.at), llvm::Align(p.align)), p.slot);
}

/// The header of the row loop: this warp's state is put aside after an iteration, and before the first where rounds that
/// can be foreseen (emit_foreseen.cc) are worth the start; the code after this follows its being put back. What is not
/// written any more is put aside once.
void Emitter::park(uint32_t node) {
  lay_out_state(node);
  Value* has_walked = b_.CreateLoad(b_.getInt1Ty(), turns_.has_walked);
  Block *walk = block("walk"), *stop = block("park");
  b_.CreateCondBr(b_.CreateOr(has_walked, is_long_walk()), stop, walk);
  b_.SetInsertPoint(stop);
  auto aside = [&](bool fixed) {
    Value* state = state_of(turns_.turn);
    for (const Parked& p : turns_.parts)
      if (p.fixed == fixed) put_aside(p, state);
  };
  Block *once = block("put_aside_once"), *always = block("put_aside");
  b_.CreateCondBr(turns_.is_parked, always, once);
  b_.SetInsertPoint(once);
  aside(true);
  if (const uint32_t load = only_noted(steady_path()); load != lower::kNone)
    b_.CreateStore(b_.getInt32(load), field(warp_, offsetof(WarpContext, at_inst)))->setVolatile(true);
  b_.CreateBr(always);
  b_.SetInsertPoint(always);
  aside(false);
  b_.CreateBr(turns_.aside);
  b_.SetInsertPoint(turns_.resume);
  Value* state = state_of(turns_.turn);
  for (const Parked& p : turns_.parts) put_back(p, state);
  b_.CreateBr(walk);
  b_.SetInsertPoint(walk);
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
  if (const auto path = steady_path(); !path.empty()) {
    Block* general = block("general");
    emit_steady(path, parked, rounds, result, general);
    b_.SetInsertPoint(general);
  }
  go(parked, rounds);
  b_.SetInsertPoint(poll);
  check_fault(call_runtime(Symbols::should_stop, i32, {warp_}));
  b_.CreateStore(b_.getTrue(), turns_.may_be_steady);
  go(parked, b_.getInt32(kRoundsToPoll));
  b_.SetInsertPoint(leave);
  b_.CreateRet(result);
}

}  // namespace orrery::jit
