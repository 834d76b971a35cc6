// jit/emit_observed.cc: instructions of an observed kernel that report. See emitter.h.
//
// exec/ executes them: its handler tells the observer and goes on to the ordinary one. What the instruction's own code
// would see to beforehand (all member lanes are here) is seen to here.
//
// With kObserveOutside an access is carried out like any other where it is known to be right (exec/observed.h): then the
// check that every access has, of the reserved range of addresses, becomes one of its instruction's range.
#include <algorithm>

#include "exec/observed.h"
#include "isa/row.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using llvm::Align;
using llvm::FixedVectorType;
using ptx::Instr;

void Emitter::emit_observed(const Instr& in) {
  switch (in.form.op) {
    case Op::shfl: case Op::vote: case Op::match: case Op::redux: case Op::elect: case Op::bar_warp: {
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

/// i1 per element: not all of the `extent` bytes at `address` are known to be right, or they are not aligned.
llvm::Value* MemoryAccess::outside_known(llvm::Value* address, int64_t extent) {
  llvm::Type* t = address->getType();
  const int width = e_.width_of(address);
  Value *begin, *limit, *small = b_.getFalse();
  if (shared_) {
    const uint32_t origin = e_.plan_.origins[e_.inst_];
    const lower::SharedVar* var = origin ? &e_.plan_.program.shared_vars[origin - 1] : nullptr;
    begin = b_.getInt32(var ? var->offset : lower::kSharedStart);
    Value* bytes = var ? static_cast<Value*>(b_.getInt32(var->bytes)) : b_.CreateSub(e_.shared_bytes_, b_.getInt32(lower::kSharedStart));
    limit = b_.CreateSub(bytes, b_.getInt32(uint32_t(extent)));
    small = b_.CreateICmpULT(bytes, b_.getInt32(uint32_t(extent)));
  } else {
    Value* ranges = e_.module_.getOrInsertGlobal(Symbols::site_ranges, b_.getInt8Ty());
    auto* range = b_.CreateAlignedLoad(FixedVectorType::get(b_.getInt64Ty(), 2), e_.field(ranges, e_.inst_ * sizeof(exec::SiteRange)), Align(16));
    begin = b_.CreateExtractElement(range, uint64_t(0));
    Value* bytes = b_.CreateExtractElement(range, uint64_t(1));
    limit = b_.CreateSub(bytes, b_.getInt64(uint64_t(extent)));
    small = b_.CreateICmpULT(bytes, b_.getInt64(uint64_t(extent)));
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
