// jit/emit_loads.cc: loads, by what is known about the lanes' addresses (emit_memory.cc says the cases). See memory_access.h.
#include <algorithm>

#include "exec/observed.h"
#include "exec/run_state.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Space;
using llvm::Align;
using llvm::ConstantInt;
using llvm::FixedVectorType;
using llvm::Value;
using ptx::Instr;

void MemoryAccess::load_same() {
  const int chunks = lanes_.chunks;
  Value* m = all_ || (chunks == 1 && !e_.guard_) ? nullptr : e_.exec_mask();
  llvm::BasicBlock* skip = nullptr;
  if (e_.guard_) {
    // No lane may be on its way: then nothing is read, and the registers keep their values.
    llvm::BasicBlock* go = e_.block("guarded");
    skip = e_.block("skipped");
    b_.CreateCondBr(e_.any(m), go, skip);
    b_.SetInsertPoint(go);
  }
  Value* bases = used_addresses(address(chunks), m);
  Value* bad = covered(bases, 0, size()) ? nullptr : any_bad_chunk(outside(bases, 0, size()), nullptr);
  either(bad, [&] {
    note();
    std::vector<Value*> out;
    for (int k = 0; k < vector_; k++) out.push_back(chunks == 1 ? load_scalar(bases, k) : load_chunks(bases, k));
    return out;
  });
  if (skip) {
    b_.CreateBr(skip);
    b_.SetInsertPoint(skip);
  }
}

Value* MemoryAccess::load_scalar(Value* at, int k) {
  auto* load = b_.CreateAlignedLoad(memory_type(), e_.field(pointer(at), size_t(k * bytes_)), Align(uint64_t(bytes_)));
  load->setVolatile(is_volatile());
  return load;
}

/// Addresses of the chunks; a chunk without lanes on their way gets that of one that has some (there is one).
Value* MemoryAccess::used_addresses(Value* bases, Value* m) {
  const unsigned n = unsigned(lanes_.chunks);
  if (!m || n == 1) return bases;
  Value* lanes = b_.CreateBitCast(m, FixedVectorType::get(b_.getIntNTy(32 / n), n));
  Value* some = b_.CreateICmpNE(lanes, llvm::Constant::getNullValue(lanes->getType()));
  Value* used = base_of(bases, 0);
  for (unsigned c = 1; c < n; c++) used = b_.CreateSelect(b_.CreateExtractElement(some, uint64_t(c)), base_of(bases, int(c)), used);
  return b_.CreateSelect(some, bases, e_.widen(used, int(n)));
}

Value* MemoryAccess::load_chunks(Value* bases, int k) {
  Value* v = llvm::PoisonValue::get(e_.wide(memory_type(), lanes_.chunks));
  for (unsigned c = 0; c < lanes_.chunks; c++) v = b_.CreateInsertElement(v, load_scalar(base_of(bases, int(c)), k), uint64_t(c));
  return v;
}

void MemoryAccess::load_consecutive() {
  const int chunks = lanes_.chunks, span = repeat_ ? repeat_ : 32 / chunks;
  Value* m = all_ ? nullptr : repeat_ ? repeated_mask(e_.exec_mask()) : e_.exec_mask();
  // The whole range must be inside even where lanes are off: rare at the edges, and then exec/ does it.
  Value* bases = address(chunks);
  Value* bad = covered(bases, 0, span * size()) ? nullptr : any_bad_chunk(outside(bases, 0, span * size()), chunks > 1 ? m : nullptr);
  either(bad, [&] {
    note();
    fetch_ahead(bases, span * size());
    std::vector<std::vector<Value*>> parts(static_cast<size_t>(vector_));
    auto* t = FixedVectorType::get(memory_type(), unsigned(span * vector_));
    for (int c = 0; c < chunks; c++) {
      Value* p = pointer(base_of(bases, c));
      const Align align(uint64_t(std::min(32, size())));
      Value* v;
      if (m) v = b_.CreateMaskedLoad(t, p, align, mask_of(m, c * span, span));
      else {
        auto* load = b_.CreateAlignedLoad(t, p, align);
        load->setVolatile(is_volatile());
        v = load;
      }
      const auto split = unzip(v, span);
      for (int k = 0; k < vector_; k++) parts[size_t(k)].push_back(split[size_t(k)]);
    }
    std::vector<Value*> out;
    for (auto& list : parts) {
      Value* v = join(list);
      llvm::SmallVector<int, 32> again;
      for (int i = 0; i < 32; i++) again.push_back(i % span);
      out.push_back(repeat_ ? b_.CreateShuffleVector(v, again) : v);
    }
    return out;
  });
}

/// The run of a repeated access: an element is wanted when any of its lanes is on its way.
Value* MemoryAccess::repeated_mask(Value* m) {
  Value* some = slice(m, 0, repeat_);
  for (int i = repeat_; i < 32; i += repeat_) some = b_.CreateOr(some, slice(m, i, repeat_));
  return some;
}

/// Concatenates 1, 2 or 4 vectors.
Value* MemoryAccess::join(std::vector<Value*> list) {
  while (list.size() > 1) {
    std::vector<Value*> next;
    for (size_t i = 0; i < list.size(); i += 2) next.push_back(concat(list[i], list[i + 1]));
    list = std::move(next);
  }
  return list[0];
}

void MemoryAccess::load_pattern() {
  const lower::Pattern& p = pattern_;
  const int chunks = lanes_.chunks, span = 32 / chunks;
  int64_t low = 0, high = 0;
  for (int64_t v : p) low = std::min(low, v), high = std::max(high, v);
  const int elements = int((high - low) / size()) + 1;
  Value* bases = address(chunks);
  Value* bad = covered(bases, low, high - low + size()) ? nullptr : any_bad_chunk(outside(bases, low, high - low + size()), nullptr);
  either(bad, [&] {
    note();
    fetch_ahead(bases, span * size());
    std::vector<std::vector<Value*>> parts(static_cast<size_t>(vector_));
    for (int c = 0; c < chunks; c++) {
      Value* at = b_.CreateAdd(base_of(bases, c), ConstantInt::get(bases->getType()->getScalarType(), uint64_t(low), true));
      auto* load = b_.CreateAlignedLoad(FixedVectorType::get(memory_type(), unsigned(elements * vector_)), pointer(at),
                                        Align(uint64_t(std::min(32, size()))));
      load->setVolatile(is_volatile());
      for (int k = 0; k < vector_; k++) {
        llvm::SmallVector<int, 32> index;
        for (int i = 0; i < span; i++) index.push_back(int((p[size_t(c * span + i)] - low) / size()) * vector_ + k);
        parts[size_t(k)].push_back(b_.CreateShuffleVector(load, index));
      }
    }
    std::vector<Value*> out;
    for (auto& list : parts) out.push_back(join(list));
    return out;
  });
}

Value* MemoryAccess::element_pointers(Value* addresses, int k) {
  if (windowed()) {
    // Offsets are below 2^31: a sign-extended 32-bit index lets the gather use 32-bit lanes.
    Value* at = b_.CreateAdd(addresses, ConstantInt::get(addresses->getType(), uint64_t(k * bytes_)));
    return b_.CreateGEP(b_.getInt8Ty(), window(), at);
  }
  return b_.CreateIntToPtr(b_.CreateAdd(addresses, ConstantInt::get(addresses->getType(), uint64_t(k * bytes_))),
                           FixedVectorType::get(b_.getPtrTy(), 32));
}

void MemoryAccess::load_any() {
  if (const auto early = e_.loaded_early_.find(e_.inst_); early != e_.loaded_early_.end()) return define(0, early->second);
  const bool row = may_be_row();
  if (is_spread() && (bytes_ != 4 || best_window(neighbours()).second < 4)) return if_all([&] { load_spread(); }, [&] { gather(); });
  // What loads for its neighbours, too, has to do so on every way.
  if ((!row || vector_ == 1) && load_run()) return;
  if (!row) return gather();
  rows_or([&](const std::vector<Row>& rows) { load_rows(rows); }, [&] { if (vector_ == 1 || !load_run()) gather(); });
}

void MemoryAccess::gather() {
  Value *m = e_.exec_mask(), *at = address(32);
  Value* bad = e_.any(b_.CreateAnd(outside(at, 0, size()), m));
  either(bad, [&] {
    note();
    std::vector<Value*> out;
    const Align align{uint64_t(bytes_)};
    auto* t = FixedVectorType::get(memory_type(), 32);
    if (bytes_ < 4) return load_small(at, m);
    for (int k = 0; k < vector_; k++)
      out.push_back(b_.CreateMaskedGather(t, element_pointers(at, k), align, m, llvm::PoisonValue::get(t)));
    return out;
  });
}

/// Bytes and halves have no gather: a loop over the lanes.
std::vector<Value*> MemoryAccess::load_small(Value* at, Value* m) {
  Value *addresses = e_.scratch(256, 0), *values = e_.scratch(256, 1);
  if (shared_) at = b_.CreateAdd(b_.CreateZExt(at, FixedVectorType::get(b_.getInt64Ty(), 32)),
                                 e_.widen(b_.CreatePtrToInt(e_.shared_, b_.getInt64Ty()), 32));
  b_.CreateAlignedStore(at, addresses, Align(64));
  e_.for_each_lane(m, [&](Value* lane) {
    Value* a = b_.CreateLoad(b_.getInt64Ty(), b_.CreateInBoundsGEP(b_.getInt64Ty(), addresses, lane));
    Value* p = b_.CreateIntToPtr(a, b_.getPtrTy());
    for (int k = 0; k < vector_; k++)
      b_.CreateStore(b_.CreateLoad(memory_type(), e_.field(p, size_t(k * bytes_))),
                     b_.CreateInBoundsGEP(memory_type(), e_.field(values, size_t(k * 32 * bytes_)), lane));
  });
  std::vector<Value*> out;
  for (int k = 0; k < vector_; k++)
    out.push_back(b_.CreateAlignedLoad(FixedVectorType::get(memory_type(), 32), e_.field(values, size_t(k * 32 * bytes_)), Align(uint64_t(bytes_))));
  return out;
}

/// Whether look() tells all that load() would check, for an address that moves by `step` in an iteration.
bool MemoryAccess::can_look(Emitter& e, const Instr& in, int64_t step) {
  const Space s = in.form.n_spaces ? in.form.space() : Space::none;
  if (s == Space::local || is_param_space(s)) return false;
  const MemoryAccess a(e, in, in.ops[1], isa::bytes_of(in.form.type()), std::max<int>(1, in.form.vec));
  const Shape shape = a.shape();
  return (shape == Shape::same || shape == Shape::consecutive) && step % std::min(32, a.size()) == 0;
}

/// A load's check without the load.
void MemoryAccess::look() {
  const auto [low, high] = span_of_lanes();
  e_.leave_if(any_bad_chunk(outside(address(lanes_.chunks), low, high - low), nullptr));
}

void MemoryAccess::load() {
  if (e_.steady_.stage == Emitter::Steady::look) return look();
  switch (shape()) {
    case Shape::same: return load_same();
    case Shape::consecutive: return load_consecutive();
    case Shape::pattern: return load_pattern();
    case Shape::any: return load_any();
  }
}

}  // namespace orrery::jit
