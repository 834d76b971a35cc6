// jit/memory_shapes.cc: from the elements of an access to vectors of lanes and back (memory_access.h).
#include "isa/row.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"

namespace orrery::jit {

using isa::Type;
using llvm::Align;
using llvm::FixedVectorType;
using llvm::Value;
using ptx::Operand;
using ptx::OperandKind;

const Operand& MemoryAccess::data(int i) const {
  const Operand& o = in_.ops[is_store() ? 1 : 0];
  return o.kind == OperandKind::vec ? o.parts[size_t(i)] : o;
}

/// Memory element to register: sub-word types extend.
void MemoryAccess::define(int i, Value* v) {
  const Operand& o = data(i);
  if (o.kind == OperandKind::sink) return;
  llvm::Type* to = e_.element_of_reg(o.id);
  const unsigned bits = to->getScalarSizeInBits(), have = v->getType()->getScalarSizeInBits();
  if (isa::is_signed(in_.form.type()) && have < bits) v = b_.CreateSExt(v, e_.wide(b_.getIntNTy(bits), e_.width_of(v)));
  e_.define_reg(o.id, e_.fit(v, to));
}

llvm::Type* MemoryAccess::memory_type() const { return b_.getIntNTy(unsigned(bytes_) * 8); }

/// Vector of `lanes` * vector_ consecutive elements to one vector per element of the access.
std::vector<Value*> MemoryAccess::unzip(Value* v, int lanes) {
  if (vector_ == 1) return {v};
  std::vector<Value*> out;
  for (int k = 0; k < vector_; k++) {
    llvm::SmallVector<int, 32> index;
    for (int i = 0; i < lanes; i++) index.push_back(i * vector_ + k);
    out.push_back(b_.CreateShuffleVector(v, index));
  }
  return out;
}

Value* MemoryAccess::zip(const std::vector<Value*>& v) {
  if (vector_ == 1) return v[0];
  std::vector<Value*> level = v;  // pairwise concatenation, then one shuffle
  const int lanes = e_.width_of(v[0]);
  while (level.size() > 1) {
    std::vector<Value*> next;
    for (size_t i = 0; i < level.size(); i += 2) next.push_back(concat(level[i], level[i + 1]));
    level = std::move(next);
  }
  llvm::SmallVector<int, 256> index;
  for (int i = 0; i < lanes; i++)
    for (int k = 0; k < vector_; k++) index.push_back(k * lanes + i);
  return b_.CreateShuffleVector(level[0], index);
}

Value* MemoryAccess::concat(Value* a, Value* b) {
  llvm::SmallVector<int, 64> index;
  for (int i = 0; i < 2 * e_.width_of(a); i++) index.push_back(i);
  return b_.CreateShuffleVector(a, b, index);
}

Value* MemoryAccess::slice(Value* v, int first, int n) {
  llvm::SmallVector<int, 32> index;
  for (int i = 0; i < n; i++) index.push_back(first + i);
  return n == e_.width_of(v) ? v : b_.CreateShuffleVector(v, index);
}

/// The mask of `n` lanes from `first`, each repeated for the elements of the access.
Value* MemoryAccess::mask_of(Value* m, int first, int n) {
  llvm::SmallVector<int, 128> index;
  for (int i = 0; i < n * vector_; i++) index.push_back(first + i / vector_);
  return b_.CreateShuffleVector(m, index);
}

Value* MemoryAccess::base_of(Value* bases, int chunk) {
  return e_.width_of(bases) == 1 ? bases : b_.CreateExtractElement(bases, uint64_t(chunk));
}

}  // namespace orrery::jit
