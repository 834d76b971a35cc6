// jit/emit_local.cc: ld.local and st.local of a kernel. See memory_access.h.
//
// A thread's local memory is one piece, lane after lane: lane l's byte a lies at local + l * stride + a. Even lanes that use
// the same address therefore touch different lines, and every access is a gather or a scatter; the check is one of the
// address within the lane's own memory, once for all lanes where they agree on it.
//
// Invariant: local memory of a lane starts and ends at a multiple of 4 (exec/), so words of bytes are the lane's own.
// In an observed kernel with marks of what was written (exec/observed.h), those are read and written in the same way; a load
// whose marks are not all set is reported, by exec/.
// Not here: the frames of called functions, which exec/ runs.
#include <algorithm>
#include <bit>

#include "jit/memory_access.h"

namespace orrery::jit {

using llvm::ConstantInt;
using llvm::Value;

/// Addresses in local memory, 64 bits each: one when all lanes have the same.
Value* MemoryAccess::local_offsets() {
  if (address_.base != ptx::BaseKind::reg) return b_.getInt64(uint64_t(address_.value));
  const lower::Lanes& lanes = e_.plan_.uniformity.regs[address_.id];
  if (lanes.constant && lanes.flat()) return b_.getInt64(uint64_t(lanes.value + address_.value));
  Value* v = e_.fit(e_.bits(address_.id, lanes.uniform() ? 1 : 32), b_.getInt64Ty());
  return b_.CreateAdd(v, ConstantInt::get(v->getType(), uint64_t(address_.value), true));
}

/// i1 per address: not inside the lane's memory, or not aligned; null where it is known that this cannot be.
Value* MemoryAccess::outside_local(Value* offsets) {
  const uint64_t align = uint64_t(std::min(32, size()));
  if (auto* known = llvm::dyn_cast<ConstantInt>(offsets)) {
    const uint64_t at = known->getZExtValue();
    if (at % align == 0 && at < e_.plan_.program.local_bytes && at + uint64_t(size()) <= e_.plan_.program.local_bytes) return nullptr;
  }
  const int width = e_.width_of(offsets);
  llvm::Type* t = offsets->getType();
  Value* limit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, e_.local_stride_, b_.getInt64(uint64_t(size())));
  return b_.CreateOr(b_.CreateICmpUGT(offsets, e_.widen(limit, width)),
                     b_.CreateICmpNE(b_.CreateAnd(offsets, ConstantInt::get(t, align - 1)), ConstantInt::get(t, 0)));
}

/// What the lanes' addresses are relative to the warp's local memory, 32 bits each.
Value* MemoryAccess::local_places(Value* offsets) {
  auto* i32 = b_.getInt32Ty();
  llvm::SmallVector<uint32_t, 32> lanes;
  for (uint32_t l = 0; l < 32; l++) lanes.push_back(l);
  Value* stride = e_.widen(b_.CreateTrunc(e_.local_stride_, i32), 32);
  Value* first = b_.CreateMul(stride, llvm::ConstantDataVector::get(e_.context_, lanes));
  return b_.CreateAdd(first, e_.widen(e_.fit(offsets, i32), 32));
}

/// The aligned words that bytes or halves lie in, and by how many bits to shift them. Nobody else touches a lane's words, so
/// that they may be read and written whole.
MemoryAccess::Word MemoryAccess::word_at(Value* at, int k, Value* m) {
  auto* words = llvm::FixedVectorType::get(b_.getInt32Ty(), 32);
  auto all = [&](uint32_t v) { return ConstantInt::get(words, v); };
  at = b_.CreateAdd(at, all(uint32_t(k * bytes_)));
  Value* places = b_.CreateGEP(b_.getInt8Ty(), e_.local_, b_.CreateAnd(at, all(~3u)));
  Value* shift = b_.CreateShl(b_.CreateAnd(at, all(3)), all(3));
  return {places, shift, b_.CreateMaskedGather(words, places, llvm::Align(4), m, llvm::PoisonValue::get(words))};
}

std::vector<Value*> MemoryAccess::load_local(Value* at, Value* m) {
  std::vector<Value*> out;
  auto* t = llvm::FixedVectorType::get(memory_type(), 32);
  for (int k = 0; k < vector_; k++) {
    if (bytes_ < 4) {
      const Word w = word_at(at, k, m);
      out.push_back(b_.CreateTrunc(b_.CreateLShr(w.value, w.shift), t));
    } else {
      out.push_back(b_.CreateMaskedGather(t, element_pointers(at, k), llvm::Align(uint64_t(bytes_)), m, llvm::PoisonValue::get(t)));
    }
  }
  return out;
}

void MemoryAccess::store_local(const std::vector<Value*>& values, Value* at, Value* m) {
  for (int k = 0; k < vector_; k++) {
    if (bytes_ >= 4) {
      b_.CreateMaskedScatter(values[size_t(k)], element_pointers(at, k), llvm::Align(uint64_t(bytes_)), m);
      continue;
    }
    const Word w = word_at(at, k, m);
    Value* mask = b_.CreateShl(ConstantInt::get(w.value->getType(), bytes_ == 1 ? 0xFF : 0xFFFF), w.shift);
    Value* part = b_.CreateShl(b_.CreateZExt(values[size_t(k)], w.value->getType()), w.shift);
    b_.CreateMaskedScatter(b_.CreateOr(b_.CreateAnd(w.value, b_.CreateNot(mask)), part), w.places, llvm::Align(4), m);
  }
}

/// A load or store where the lanes have local memory of their own.
void MemoryAccess::local() {
  const std::vector<Value*> values = is_store() ? sources() : std::vector<Value*>();
  Value *m = e_.exec_mask(), *offsets = local_offsets(), *bad = outside_local(offsets);
  if (e_.local_marks_ && !is_store()) {
    Value* safe = bad ? b_.CreateAnd(m, b_.CreateNot(e_.widen(bad, 32))) : m;
    Value* unwritten = unmarked(local_places(offsets), safe);
    bad = bad ? b_.CreateOr(b_.CreateAnd(e_.widen(bad, 32), m), unwritten) : unwritten;
  }
  if (bad && e_.width_of(bad) != 1) bad = e_.any(b_.CreateAnd(bad, m));
  either(bad, [&] {
    Value* at = local_places(offsets);
    if (!is_store()) return load_local(at, m);
    store_local(values, at, m);
    if (e_.local_marks_) mark(at, m);
    return std::vector<Value*>();
  });
}

/// i1 per lane of `m`: not all bytes of its access are marked.
Value* MemoryAccess::unmarked(Value* at, Value* m) {
  std::swap(e_.local_, e_.local_marks_);
  Value* some = llvm::Constant::getNullValue(m->getType());
  for (Value* marks : load_local(at, m)) {
    Value* clear = b_.CreateICmpNE(marks, llvm::Constant::getAllOnesValue(marks->getType()));
    some = b_.CreateOr(some, b_.CreateSelect(m, clear, llvm::Constant::getNullValue(m->getType())));
  }
  std::swap(e_.local_, e_.local_marks_);
  return some;
}

void MemoryAccess::mark(Value* at, Value* m) {
  std::swap(e_.local_, e_.local_marks_);
  Value* set = llvm::Constant::getAllOnesValue(llvm::FixedVectorType::get(b_.getIntNTy(unsigned(bytes_) * 8), 32));
  store_local(std::vector<Value*>(size_t(vector_), set), at, m);
  std::swap(e_.local_, e_.local_marks_);
}

}  // namespace orrery::jit
