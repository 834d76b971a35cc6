// jit/emit_stream.cc: prefetching for loops in which a block walks through memory together. See emitter.h.
//
//   for (i = threadIdx.x; i < n; i += blockDim.x) ... a[i] ...
//
// Warps run one after the other, so each of them takes 128 bytes of every block-wide row: the rows come from memory in
// strides, which the host's prefetchers do not follow (measured: 9 instead of 31 GB/s a core). Every such access also
// asks for the next 128 bytes of a stream that runs in order of addresses some way ahead: by the time the next block
// starts, its rows are in the second-level cache. Hint 2 (not the first-level cache) matters: the first level's few
// outstanding misses were the limit.
// A stream belongs to a base register; it lives in CtaContext from block to block and starts anew when it is not ahead
// of the access by a sensible distance. A wrong guess costs time only: prefetches never fault.
#include <optional>

#include "exec/run_state.h"
#include "isa/row.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr int64_t kAhead = 24 << 10, kLeast = 4 << 10, kMost = 256 << 10;  // bytes
constexpr int kLine = 64;

/// How registers change from one iteration of an innermost loop to the next.
class Steps {
 public:
  Steps(const lower::Program& p, const lower::Uniformity& u, uint32_t header) : p_(p), u_(u) {
    for (uint32_t b = header; b < p.blocks.size(); b++) {
      if (p.blocks[b].loop_header != header) continue;
      for (uint32_t i = p.blocks[b].first; i < p.blocks[b].last; i++)
        lower::for_registers(p.code[i], [&](uint32_t r) { at_[r] = at_.count(r) ? lower::kNone : i; }, [](uint32_t) {});
    }
  }
  /// Bytes (or units) by which the register grows; nothing when that is not a constant.
  std::optional<int64_t> of(uint32_t reg, int depth = 0) const {
    const auto at = at_.find(reg);
    if (at == at_.end()) return 0;
    if (at->second == lower::kNone || depth > 6) return {};
    const Instr& in = p_.code[at->second];
    if (in.guard.reg != ptx::kNoReg) return {};
    switch (in.form.op) {
      case Op::mov: case Op::cvt: case Op::cvta: return of(in.ops[1], reg, depth);
      case Op::add: return plus(of(in.ops[1], reg, depth), of(in.ops[2], reg, depth), in, reg);
      case Op::shl: return times(of(in.ops[1], reg, depth), constant(in.ops[2]), true);
      case Op::mul: return times(of(in.ops[1], reg, depth), constant(in.ops[2]), false);
      case Op::mad: {
        const auto product = times(of(in.ops[1], reg, depth), constant(in.ops[2]), false), more = of(in.ops[3], reg, depth);
        return product && more ? std::optional(*product + *more) : std::nullopt;
      }
      default: return {};
    }
  }

 private:
  const lower::Program& p_;
  const lower::Uniformity& u_;
  std::map<uint32_t, uint32_t> at_;  // register -> its only definition in the loop, or kNone

  std::optional<int64_t> constant(const Operand& o) const {
    if (o.kind == OperandKind::imm && !o.is_float) return o.value;
    if (o.kind != OperandKind::reg) return {};
    const lower::Lanes& l = u_.regs[o.id];
    return l.constant && l.flat() ? std::optional(l.value) : std::nullopt;
  }
  std::optional<int64_t> of(const Operand& o, uint32_t self, int depth) const {
    if (o.kind == OperandKind::imm) return 0;
    if (o.kind != OperandKind::reg || o.negated) return {};
    return o.id == self ? 0 : of(o.id, depth + 1);
  }
  /// `r = r + c` grows by c, any other sum by what its operands grow.
  std::optional<int64_t> plus(std::optional<int64_t> a, std::optional<int64_t> b, const Instr& in, uint32_t self) const {
    for (size_t i : {1, 2})
      if (in.ops[i].kind == OperandKind::reg && in.ops[i].id == self) return constant(in.ops[3 - i]);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  static std::optional<int64_t> times(std::optional<int64_t> a, std::optional<int64_t> by, bool shift) {
    if (a && *a == 0) return 0;
    if (!a || !by || *by < 0 || *by > 4096 || (shift && *by > 20)) return {};
    return shift ? *a << *by : *a * *by;
  }
};

}  // namespace

/// True for an access that the block's warps make to neighbouring addresses, row after row.
bool MemoryAccess::walks_with_block() const {
  if (shared_ || address_.base != ptx::BaseKind::reg || lanes_.chunks != 1 || repeat_) return false;
  const lower::Program& p = e_.plan_.program;
  const uint32_t header = p.blocks[p.block_of[e_.inst_]].loop_header;
  if (header == lower::kNone) return false;
  const auto step = Steps(p, e_.plan_.uniformity, header).of(address_.id);
  const int64_t row = int64_t(e_.plan_.uniformity.block.threads()) * size();
  return step && row > 2 * 32 * size() && *step >= row && *step % row == 0 && *step <= 16 * row;
}

/// Asks for the next bytes of the stream of this base register.
void MemoryAccess::prefetch_stream(Value* base) {
  llvm::AllocaInst* slot = e_.stream_of(address_.id);
  if (!slot) return;
  auto number = [&](int64_t v) { return b_.getInt64(uint64_t(v)); };
  Value* at = b_.CreateLoad(b_.getInt64Ty(), slot);
  Value* ahead = b_.CreateSub(b_.CreateSub(at, base), number(kLeast));
  at = b_.CreateSelect(b_.CreateICmpULT(ahead, number(kMost)), at, b_.CreateAdd(base, number(kAhead)));
  for (int64_t line = 0; line < 32 * size(); line += kLine)
    b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                       {b_.CreateIntToPtr(b_.CreateAdd(at, number(line)), b_.getPtrTy()), b_.getInt32(0), b_.getInt32(2), b_.getInt32(1)});
  b_.CreateStore(b_.CreateAdd(at, number(32 * size())), slot);
}

/// The stream of a base register; null when the region has more than CtaContext keeps.
llvm::AllocaInst* Emitter::stream_of(uint32_t reg) {
  if (const auto at = streams_.find(reg); at != streams_.end()) return at->second;
  if (streams_.size() == exec::kStreams) return nullptr;
  return streams_[reg] = new_alloca(b_.getInt64Ty(), "stream");
}

/// Streams go on from warp to warp and from block to block; called at a warp's start and end.
void Emitter::keep_streams(bool store) {
  size_t i = 0;
  for (const auto& [reg, slot] : streams_) {
    Value* place = field(cta_, offsetof(exec::CtaContext, streams) + 8 * i++);
    if (store) b_.CreateStore(b_.CreateLoad(b_.getInt64Ty(), slot), place);
    else b_.CreateStore(b_.CreateLoad(b_.getInt64Ty(), place), slot);
  }
}

}  // namespace orrery::jit
