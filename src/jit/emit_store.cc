// jit/emit_store.cc: st. What is known about the addresses decides, as for loads (emit_memory.cc): one place for all lanes
// (the last lane's value stays), a vector store per chunk of consecutive elements, a scatter, or a loop over the lanes.
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

std::vector<Value*> MemoryAccess::sources() {
  std::vector<Value*> v;
  for (int k = 0; k < vector_; k++) {
    const Operand& o = data(k);
    llvm::Type* t = in_.form.type() == Type::f32 && o.kind == OperandKind::imm ? b_.getFloatTy()
                    : in_.form.type() == Type::f64 && o.kind == OperandKind::imm ? b_.getDoubleTy() : memory_type();
    v.push_back(e_.fit(e_.read_as(o, t, 32), memory_type()));
  }
  return v;
}

void MemoryAccess::store() {
  Value* m = all_ ? nullptr : e_.exec_mask();
  const std::vector<Value*> values = sources();
  if (lanes_.chunks == 1 && lanes_.pattern == 0) return store_same(values);
  if (shape() == Shape::consecutive && !repeat_) {
    const int chunks = lanes_.chunks, span = 32 / chunks;
    Value* bases = address(chunks);
    Value* bad = covered(bases, 0, span * size()) ? nullptr : any_bad_chunk(outside(bases, 0, span * size()), m);
    return either(bad, [&] {
      note();
      const auto each = [&](const std::function<void(Value*, Value*, int)>& put) {
        for (int c = 0; c < chunks; c++) {
          std::vector<Value*> part;
          for (Value* v : values) part.push_back(slice(v, c * span, span));
          put(zip(part), pointer(base_of(bases, c)), c);
        }
      };
      const auto to_caches = [&] {
        fetch_ahead(bases, span * size());
        each([&](Value* v, Value* p, int c) {
          const Align align(uint64_t(std::min(32, size())));
          if (m) b_.CreateMaskedStore(v, p, align, mask_of(m, c * span, span));
          else b_.CreateAlignedStore(v, p, align)->setVolatile(is_volatile());
        });
      };
      Value* past = may_stream(bases, m);
      if (!past) to_caches();
      else either_way(past, [&] {
        each([&](Value* v, Value* p, int) {
          auto* one = llvm::ConstantAsMetadata::get(b_.getInt32(1));
          b_.CreateAlignedStore(v, p, Align(64))->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(e_.context_, {one}));
        });
      }, to_caches);
      return std::vector<Value*>();
    });
  }
  if (is_spread()) return if_all([&] { store_spread(values[0]); }, [&] { scatter(values); });
  if (!may_be_row()) return scatter(values);
  rows_or([&](const std::vector<Row>& rows) { store_rows(rows, values); }, [&] { scatter(values); });
}

/// i1: all lanes are on their way, whole lines of the host are stored and the launch stores enough (streams.h). Null: never.
Value* MemoryAccess::may_stream(Value* bases, Value* m) {
  constexpr int kLine = 64;
  if (shared_ || !e_.off_line_ || !e_.plan_.streams.may[e_.inst_] || 32 / lanes_.chunks * size() % kLine) return nullptr;
  Value* off = base_of(bases, 0);
  for (int c = 1; c < lanes_.chunks; c++) off = b_.CreateOr(off, base_of(bases, c));
  off = b_.CreateAnd(off, e_.off_line_);
  if (m) off = b_.CreateOr(off, b_.CreateZExt(b_.CreateNot(e_.bits_of(m)), off->getType()));
  return b_.CreateICmpEQ(off, b_.getInt64(0));
}

void MemoryAccess::scatter(const std::vector<Value*>& values) {
  Value *m = e_.exec_mask(), *at = address(32), *bad = e_.any(b_.CreateAnd(outside(at, 0, size()), m));
  either(bad, [&] {
    note();
    if (bytes_ < 4 || !e_.traits_.avx512) {
      store_small(at, values, m);
    } else {
      for (int k = 0; k < vector_; k++)
        b_.CreateMaskedScatter(values[size_t(k)], element_pointers(at, k), Align(uint64_t(bytes_)), m);
    }
    return std::vector<Value*>();
  });
}

/// All lanes write one place: the value of the last lane stays, as on lanes that store in order.
void MemoryAccess::store_same(const std::vector<Value*>& values) {
  Value* m = e_.exec_mask();
  llvm::BasicBlock *go = nullptr, *skip = nullptr;
  if (e_.guard_) {
    go = e_.block("guarded"), skip = e_.block("skipped");
    b_.CreateCondBr(e_.any(m), go, skip);
    b_.SetInsertPoint(go);
  }
  Value* base = address(1);
  Value* bad = covered(base, 0, size()) ? nullptr : outside(base, 0, size());
  either(bad, [&] {
    note();
    Value* last = b_.CreateSub(b_.getInt32(31), b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, e_.bits_of(m), b_.getTrue()));
    for (int k = 0; k < vector_; k++) {
      Value* v = b_.CreateExtractElement(values[size_t(k)], last);
      b_.CreateAlignedStore(v, e_.field(pointer(base), size_t(k * bytes_)), Align(uint64_t(bytes_)))->setVolatile(is_volatile());
    }
    return std::vector<Value*>();
  });
  if (skip) {
    b_.CreateBr(skip);
    b_.SetInsertPoint(skip);
  }
}

void MemoryAccess::store_small(Value* at, const std::vector<Value*>& v, Value* m) {
  Value *addresses = e_.scratch(256, 0), *values = e_.scratch(size_t(256 * 4), 1);
  if (shared_) at = b_.CreateAdd(b_.CreateZExt(at, FixedVectorType::get(b_.getInt64Ty(), 32)),
                                 e_.widen(b_.CreatePtrToInt(e_.shared_, b_.getInt64Ty()), 32));
  b_.CreateAlignedStore(at, addresses, Align(64));
  for (int k = 0; k < vector_; k++)
    b_.CreateAlignedStore(v[size_t(k)], e_.field(values, size_t(k * 32 * bytes_)), Align(uint64_t(bytes_)));
  e_.for_each_lane(m, [&](Value* lane) {
    Value* a = b_.CreateLoad(b_.getInt64Ty(), b_.CreateInBoundsGEP(b_.getInt64Ty(), addresses, lane));
    Value* p = b_.CreateIntToPtr(a, b_.getPtrTy());
    for (int k = 0; k < vector_; k++)
      b_.CreateStore(b_.CreateLoad(memory_type(), b_.CreateInBoundsGEP(memory_type(), e_.field(values, size_t(k * 32 * bytes_)), lane)),
                     e_.field(p, size_t(k * bytes_)));
  });
}

}  // namespace orrery::jit
