// jit/emit_observed.cc: instructions of an observed kernel that report. See emitter.h.
//
// exec/ executes them: its handler tells the observer and goes on to the ordinary one. What the instruction's own code
// would see to beforehand (all member lanes are here) is seen to here.
//
// With kObserveOutside an access is carried out like any other where it is known to be right (exec/observed.h): then the
// check that every access has, of the reserved range of addresses, becomes one of its instruction's range.
#include <algorithm>

#include "exec/observed.h"
#include "exec/observer.h"
#include "isa/row.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using llvm::Align;
using llvm::FixedVectorType;
using ptx::Instr;

/// An ordinary load or store: the short way, or the report.
bool Emitter::emit_offered(const Instr& in) {
  const isa::Form& f = in.form;
  if (!(plan_.observe & exec::kObserveQuick) || (f.op != Op::ld && f.op != Op::st)) return false;
  for (const Mod m : {Mod::volatile_, Mod::relaxed, Mod::acquire, Mod::release, Mod::mmio})
    if (f.has(m)) return false;
  const isa::Space s = f.n_spaces ? f.space() : isa::Space::none;
  if (s != isa::Space::global && s != isa::Space::none && s != isa::Space::const_ && s != isa::Space::shared && s != isa::Space::shared_cta) return false;
  const ptx::Operand& address = in.ops[f.op == Op::st ? 0 : 1];
  const int bytes = isa::bytes_of(f.type()), vector = std::max<int>(1, f.vec), total = bytes * vector;
  if (address.kind != ptx::OperandKind::address || address.base == ptx::BaseKind::local_var || bytes > 8 || f.type() == isa::Type::b128)
    return false;
  const bool words = bytes >= 4 && (total == 4 || total == 8 || total == 16), ranged = f.op == Op::ld && s != isa::Space::shared && s != isa::Space::shared_cta;
  if (!words && !ranged) return false;
  for (const ptx::Operand& o : in.ops) {
    bool wide_register = false;
    lower::for_operand_registers(o, [&](uint32_t r) { wide_register |= is_qword(r); });
    if (wide_register) return false;
  }
  MemoryAccess access(*this, in, address, bytes, vector);
  Block *report = block("report"), *quick = block("quick"), *done = block("accessed");
  if (ranged) {
    Block* look = block("offer");
    b_.CreateCondBr(access.leaves_range(), look, quick);
    b_.SetInsertPoint(look);
  }
  if (words && f.op == Op::ld && !ranged) {
    access.offer_together();
    if (const auto together = offered_.find(inst_); together != offered_.end()) {
      Block* look = block("offer");
      b_.CreateCondBr(together->second, quick, look);
      b_.SetInsertPoint(look);
    }
  }
  if (words) {
    auto* branch = b_.CreateCondBr(access.offer(), report, quick);
    branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  } else {
    b_.CreateBr(report);
  }
  b_.SetInsertPoint(report);
  emit_execute(in);
  b_.CreateBr(done);
  b_.SetInsertPoint(quick);
  checked_ = true;
  if (f.op == Op::st) access.store();
  else access.load();
  checked_ = false;
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  return true;
}

bool Emitter::emit_offered_atomic(const Instr& in) {
  const isa::Form& f = in.form;
  if (!(plan_.observe & exec::kObserveQuick) || (f.op != Op::atom && f.op != Op::red)) return false;
  for (const Mod m : {Mod::acquire, Mod::release, Mod::acq_rel})
    if (f.has(m)) return false;
  const isa::Space s = f.n_spaces ? f.space() : isa::Space::none;
  const int bytes = isa::bytes_of(f.types[f.n_types - 1]);
  const ptx::Operand& address = in.ops[f.op == Op::red ? 0 : 1];
  if ((s != isa::Space::global && s != isa::Space::shared && s != isa::Space::shared_cta) || (bytes != 4 && bytes != 8) || f.vec > 1 ||
      address.kind != ptx::OperandKind::address || address.base == ptx::BaseKind::local_var)
    return false;
  MemoryAccess access(*this, in, address, bytes, 1);
  either_reported(access.offer_atomic(), in, [&] {
    if (!emit_atomic(in)) emit_execute(in);
  });
  return true;
}

/// The instruction, reported where `report` (i1) says so; elsewhere `quick`, which may take its place for checked.
void Emitter::either_reported(Value* report, const Instr& in, const std::function<void()>& quick) {
  Block *slow = block("report"), *fast = block("quick"), *done = block("accessed");
  auto* branch = b_.CreateCondBr(report, slow, fast);
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(slow);
  emit_execute(in);
  b_.CreateBr(done);
  b_.SetInsertPoint(fast);
  checked_ = true;
  quick();
  checked_ = false;
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

/// A computation of which an observer wants to know NaN and Inf results: they are rare, and then it is executed once more,
/// from the old values, by the interpreter's handler, which reports.
bool Emitter::emit_watched(const Instr& in) {
  const isa::Type t = in.form.type();
  if (!(plan_.observe & exec::kObserveValues) || (t != isa::Type::f32 && t != isa::Type::f64)) return false;
  if (in.ops.empty() || in.ops[0].kind != ptx::OperandKind::reg || is_qword(in.ops[0].id) || is_pred(in.ops[0].id) || plan_.at_home[in.ops[0].id]) return false;
  const uint32_t reg = in.ops[0].id;
  Value* old = b_.CreateLoad(slot_type(reg), slot(reg));
  if (!emit_known(in) && !emit_meaning(in)) return false;
  llvm::Type* type = t == isa::Type::f32 ? b_.getFloatTy() : b_.getDoubleTy();
  Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, fit(raw(reg, 32), type));
  Value* special = b_.CreateFCmpUGE(magnitude, llvm::ConstantFP::getInfinity(magnitude->getType()));
  Block *report = block("report"), *done = block("computed");
  auto* branch = b_.CreateCondBr(any(b_.CreateAnd(special, exec_mask())), report, done);
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context_).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(report);
  b_.CreateStore(old, slot(reg));
  emit_execute(in);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  return true;
}

void Emitter::emit_observed(const Instr& in) {
  if (emit_watched(in)) return;
  if (emit_offered(in) || emit_offered_atomic(in)) return;
  switch (in.form.op) {
    case Op::shfl: case Op::vote: case Op::match: case Op::redux: case Op::elect: case Op::bar_warp: {
      const ptx::Operand& named = in.ops.back();
      const bool whole = full_ && !guard_ && named.kind == ptx::OperandKind::imm && uint32_t(named.value) == ~0u;
      if (whole && plan_.quiet_exchanges && in.form.op != Op::bar_warp && emit_known(in)) return;
      Value* members = member_mask(in.ops.back());
      require_members(members ? members : b_.getInt32(~0u));
      break;
    }
    default:
      if (isa::row(in.form.row).effects & isa::effect::convergent) require_members(b_.getInt32(~0u));
  }
  if (in.form.has(Mod::acquire) || in.form.has(Mod::release) || in.form.has(Mod::sc)) b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  emit_execute(in);
}

llvm::Value* MemoryAccess::offer_atomic() {
  llvm::Type *i32 = b_.getInt32Ty(), *i64 = b_.getInt64Ty(), *ptr = b_.getPtrTy();
  Value* where = e_.scratch(256, 61);
  b_.CreateAlignedStore(b_.CreateZExt(address(32), e_.wide(i64, 32)), where, Align(64));
  auto callee = e_.module_.getOrInsertFunction(Symbols::quick_atomic, llvm::FunctionType::get(i32, {ptr, i32, ptr, i32}, false));
  auto* call = b_.CreateCall(callee, {e_.warp_, b_.getInt32(e_.inst_), where, e_.bits_of(e_.exec_mask())});
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return b_.CreateICmpNE(call, b_.getInt32(0));
}

void MemoryAccess::offer_together() {
  if (e_.offered_.contains(e_.inst_) || address_.base != ptx::BaseKind::reg || e_.guard_ || (!is_flat() && !(is_row() && all_))) return;
  const bool rows = !is_flat();
  const int64_t step = size() * (rows ? 32 : 1);
  std::map<int64_t, std::vector<uint32_t>> at;  // place -> loads
  at[address_.value].push_back(e_.inst_);
  const lower::Node& node = e_.schedule_.nodes[e_.node_];
  for (uint32_t i = e_.inst_ + 1; i < node.last; i++) {
    const Instr& in = e_.plan_.program.code[i];
    if (e_.plan_.observed[i] && in.form.op != Op::ld) break;  // it may order what comes before and after
    bool rewritten = false;
    lower::for_registers(in, [&](uint32_t r) { rewritten |= r == address_.id; }, [](uint32_t) {});
    if (in.form.op == Op::ld && in.guard.reg == ptx::kNoReg && in.form.n_spaces && in_.form.n_spaces && in.form.space() == in_.form.space()) {
      const ptx::Operand& o = in.ops[1];
      if (o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg && o.id == address_.id) {
        const MemoryAccess other(e_, in, o, isa::bytes_of(in.form.type()), std::max<int>(1, in.form.vec));
        if (other.size() == size() && (rows ? other.is_row() : other.is_flat())) at[o.value].push_back(i);
      }
    }
    if (rewritten) break;
  }
  // Those that lie side by side with this one.
  int64_t low = address_.value, high = address_.value + step;
  while (at.contains(low - step)) low -= step;
  while (at.contains(high)) high += step;
  if (high - low == step) return;
  llvm::Type *i32 = b_.getInt32Ty(), *i64 = b_.getInt64Ty();
  Value* where = b_.CreateAdd(b_.CreateZExt(address(1), i64), b_.getInt64(uint64_t(low - address_.value)));
  auto callee = e_.module_.getOrInsertFunction(Symbols::quick_block, llvm::FunctionType::get(i32, {b_.getPtrTy(), i32, i64, i32, i32, i32}, false));
  auto* call = b_.CreateCall(callee, {e_.warp_, b_.getInt32(e_.inst_), where, e_.bits_of(e_.exec_mask()), b_.getInt32(uint32_t((high - low) / step)), b_.getInt32(rows)});
  call->addFnAttr(llvm::Attribute::NoUnwind);
  Value* clear = b_.CreateICmpEQ(call, b_.getInt32(0));
  for (int64_t place = low; place < high; place += step)
    for (uint32_t inst : at[place]) e_.offered_[inst] = clear;
}

llvm::Value* MemoryAccess::leaves_range() {
  if (lanes_.varies()) return e_.any(b_.CreateAnd(outside_known(address(32), size()), e_.exec_mask()));
  const auto [low, high] = span_of_lanes();
  Value* at = address(lanes_.chunks);
  if (low) at = b_.CreateAdd(at, llvm::ConstantInt::get(at->getType(), uint64_t(low), true));
  return any_bad_chunk(outside_known(at, high - low), lanes_.chunks > 1 && !all_ ? e_.exec_mask() : nullptr);
}

llvm::Value* MemoryAccess::offer() {
  llvm::Type *i32 = b_.getInt32Ty(), *i64 = b_.getInt64Ty(), *ptr = b_.getPtrTy();
  Value* values = llvm::ConstantPointerNull::get(b_.getPtrTy());
  if (is_store() && vector_ == 1) {
    values = e_.scratch(256, 60);
    b_.CreateAlignedStore(sources()[0], values, Align(64));
  }
  const bool flat = is_flat(), row = is_row();
  const char* name = flat ? Symbols::quick_same : row ? Symbols::quick_run : Symbols::quick_any;
  Value* where;
  if (flat || row) {
    where = b_.CreateZExt(address(1), i64);
  } else {
    where = e_.scratch(256, 61);
    b_.CreateAlignedStore(b_.CreateZExt(address(32), e_.wide(i64, 32)), where, Align(64));
  }
  auto callee = e_.module_.getOrInsertFunction(name, llvm::FunctionType::get(i32, {ptr, i32, where->getType(), i32, ptr}, false));
  auto* call = b_.CreateCall(callee, {e_.warp_, b_.getInt32(e_.inst_), where, e_.bits_of(e_.exec_mask()), values});
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return b_.CreateICmpNE(call, b_.getInt32(0));
}

/// i1 per element: not all of the `extent` bytes at `address` are known to be right, or they are not aligned.
llvm::Value* MemoryAccess::outside_known(llvm::Value* address, int64_t extent) {
  llvm::Type* t = address->getType();
  const int width = e_.width_of(address);
  Value *begin, *limit, *small = b_.getFalse();
  // Lanes that are off at the ends of a row do not count.
  Value* length = llvm::ConstantInt::get(t->getScalarType(), uint64_t(extent));
  if (is_row() && !all_ && width == 1 && extent == 32 * size()) {
    Value* m = e_.bits_of(e_.exec_mask());
    Value* first = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, m, b_.getFalse());
    Value* past = b_.CreateSub(b_.getInt32(32), b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, m, b_.getFalse()));
    const auto bytes = [&](Value* lanes) { return b_.CreateMul(b_.CreateZExtOrTrunc(lanes, t), llvm::ConstantInt::get(t, uint64_t(size()))); };
    Value* some = b_.CreateICmpNE(m, b_.getInt32(0));
    first = b_.CreateSelect(some, first, b_.getInt32(0)), past = b_.CreateSelect(some, past, b_.getInt32(0));
    address = b_.CreateAdd(address, bytes(first));
    length = bytes(b_.CreateSub(past, first));
  }
  if (shared_) {
    const uint32_t origin = e_.plan_.origins[e_.inst_];
    const lower::SharedVar* var = origin ? &e_.plan_.program.shared_vars[origin - 1] : nullptr;
    begin = b_.getInt32(var ? var->offset : lower::kSharedStart);
    Value* bytes = var ? static_cast<Value*>(b_.getInt32(var->bytes)) : b_.CreateSub(e_.shared_bytes_, b_.getInt32(lower::kSharedStart));
    limit = b_.CreateSub(bytes, length);
    small = b_.CreateICmpULT(bytes, length);
  } else {
    Value* ranges = e_.module_.getOrInsertGlobal(Symbols::site_ranges, b_.getInt8Ty());
    auto* range = b_.CreateAlignedLoad(FixedVectorType::get(b_.getInt64Ty(), 2), e_.field(ranges, e_.inst_ * sizeof(exec::SiteRange)), Align(16));
    begin = b_.CreateExtractElement(range, uint64_t(0));
    Value* bytes = b_.CreateExtractElement(range, uint64_t(1));
    limit = b_.CreateSub(bytes, length);
    small = b_.CreateICmpULT(bytes, length);
  }
  Value* bad = b_.CreateICmpUGT(b_.CreateSub(address, e_.widen(begin, width)), e_.widen(limit, width));
  const uint64_t align = uint64_t(std::min(32, size()));
  if (align > 1) {
    Value* low = b_.CreateAnd(address, llvm::ConstantInt::get(t, align - 1));
    bad = b_.CreateOr(bad, b_.CreateICmpNE(low, llvm::Constant::getNullValue(t)));
  }
  return b_.CreateOr(bad, e_.widen(small, width));
}

}  // namespace orrery::jit
