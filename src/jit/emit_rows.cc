// jit/emit_rows.cc: addresses of which the analysis knows nothing but that thread numbers alone determine them. See emitter.h.
//
// After a loop that some lanes may go round once more than others, such as the short one that a compiler puts before an
// unrolled one, every lane has an address of its own; yet the lanes' addresses nearly always follow one another, or do
// so in two runs. A test at run time costs less than a gather of 32 words, and a gather in strides waits for memory.
// Not here: which loops warps take turns in (rows.h).
#include "jit/emitter.h"
#include "jit/memory_access.h"

namespace orrery::jit {

using llvm::Align;
using llvm::ConstantInt;
using llvm::FixedVectorType;
using llvm::Value;

/// Nothing from memory is in the address, and it is one that each lane has for itself.
bool MemoryAccess::may_be_row() const {
  return !e_.plan_.observe && !e_.guard_ && bytes_ >= 4 && address_.base == ptx::BaseKind::reg && e_.plan_.computed[address_.id];
}

/// Emits `rows` where the lanes' addresses follow one another at run time, all of them or in two runs (lanes that have
/// gone round a loop once more, and the others); `scattered` elsewhere.
void MemoryAccess::rows_or(const std::function<void(const std::vector<Row>&)>& rows, const std::function<void()>& scattered) {
  Value *own = e_.bits(address_.id, 32), *apart = not_following(own, 0);
  const auto base = [&](int lane) {
    Value* at = b_.CreateExtractElement(address(32), uint64_t(lane));
    return b_.CreateSub(at, ConstantInt::get(at->getType(), uint64_t(lane * size())));
  };
  either_way(b_.CreateICmpEQ(e_.bits_of(apart), b_.getInt32(0)), [&] { rows({{base(0), all_ ? nullptr : e_.exec_mask()}}); }, [&] {
    Value* alone = b_.CreateAnd(apart, not_following(own, 31));
    either_way(b_.CreateICmpEQ(e_.bits_of(alone), b_.getInt32(0)), [&] {
      Value* m = e_.exec_mask();
      rows({{base(0), b_.CreateAnd(m, b_.CreateNot(apart))}, {base(31), b_.CreateAnd(m, apart)}});
    }, scattered);
  });
}

/// <32 x i1>: the lane's address is not where it would be in a row with that of `lane`.
Value* MemoryAccess::not_following(Value* addresses, int lane) {
  llvm::SmallVector<llvm::Constant*, 32> step;
  llvm::Type* t = addresses->getType()->getScalarType();
  for (int i = 0; i < 32; i++) step.push_back(ConstantInt::get(t, uint64_t((i - lane) * size()), true));
  Value* expected = b_.CreateAdd(e_.widen(b_.CreateExtractElement(addresses, uint64_t(lane)), 32), llvm::ConstantVector::get(step));
  return b_.CreateICmpNE(expected, addresses);
}

Value* MemoryAccess::outside_rows(const std::vector<Row>& rows) {
  Value* bad = outside(rows[0].base, 0, 32 * size());
  for (size_t i = 1; i < rows.size(); i++) bad = b_.CreateOr(bad, outside(rows[i].base, 0, 32 * size()));
  return bad;
}

void MemoryAccess::load_rows(const std::vector<Row>& rows) {
  either(outside_rows(rows), [&] {
    auto* t = FixedVectorType::get(memory_type(), unsigned(32 * vector_));
    const Align align(uint64_t(std::min(32, size())));
    Value* v = llvm::PoisonValue::get(t);
    for (const Row& row : rows) {
      note();
      fetch_ahead(row.base, 32 * size());
      if (row.mask) v = b_.CreateMaskedLoad(t, pointer(row.base), align, mask_of(row.mask, 0, 32), v);
      else v = b_.CreateAlignedLoad(t, pointer(row.base), align, is_volatile());
    }
    return unzip(v, 32);
  });
}

void MemoryAccess::store_rows(const std::vector<Row>& rows, const std::vector<Value*>& values) {
  either(outside_rows(rows), [&] {
    Value* v = zip(values);
    const Align align(uint64_t(std::min(32, size())));
    for (const Row& row : rows) {
      note();
      if (row.mask) b_.CreateMaskedStore(v, pointer(row.base), align, mask_of(row.mask, 0, 32));
      else b_.CreateAlignedStore(v, pointer(row.base), align)->setVolatile(is_volatile());
    }
    return std::vector<Value*>();
  });
}

}  // namespace orrery::jit
