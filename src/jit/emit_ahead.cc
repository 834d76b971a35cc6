// jit/emit_ahead.cc: asks for what a load will read some iterations on (ahead.h). See memory_access.h.
#include "jit/memory_access.h"

namespace orrery::jit {

using llvm::Value;

/// `bases`: the address of each run of lanes; each reads `extent` bytes from there.
void MemoryAccess::fetch_ahead(Value* bases, int64_t extent) {
  constexpr int64_t kLine = 64;
  const Ahead& ahead = e_.plan_.ahead[e_.inst_];
  if (!ahead.iterations || shared_) return;
  const bool foreseen = e_.traits_.asks_foreseen && e_.steady_.stage == Emitter::Steady::foreseen;
  if (ahead.row && !e_.traits_.asks_for_rows && !foreseen) return;
  // Where requests wait for one another, a tile's many at once are the second cache's business.
  const bool near = ahead.near && ahead.row == e_.traits_.asks_for_rows;
  Value* way = b_.getInt64(uint64_t(ahead.step.factor * ahead.iterations));
  if (!ahead.step.constant()) {
    Value* by = e_.bits(ahead.step.by, 1);
    way = b_.CreateMul(b_.CreateSExtOrTrunc(by, b_.getInt64Ty()), way);
  }
  for (int c = 0; c < e_.width_of(bases); c++) {
    Value* next = b_.CreateAdd(base_of(bases, c), way);
    for (int64_t at = 0; at < extent; at += kLine) {
      Value* p = b_.CreateIntToPtr(b_.CreateAdd(next, b_.getInt64(uint64_t(at))), b_.getPtrTy());
      constexpr uint32_t kFirstCache = 3, kSecondCache = 2, kData = 1;
      b_.CreateIntrinsic(b_.getVoidTy(), llvm::Intrinsic::prefetch,
                         {p, b_.getInt32(in_.form.op == isa::Op::st), b_.getInt32(near ? kFirstCache : kSecondCache), b_.getInt32(kData)});
    }
  }
}

}  // namespace orrery::jit
