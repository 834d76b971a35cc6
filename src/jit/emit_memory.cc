// jit/emit_memory.cc: what ld and st have in common: addresses and their checks. See emitter.h.
//
// What is known about the lanes' addresses decides the code:
//
//   one address for all lanes (of a chunk)         scalar loads, kept as scalars
//   consecutive elements                           one vector load or store per chunk, under the mask
//   a fixed pattern within a small span            (all lanes on their way) vector loads and shuffles (emit_spread.cc)
//   anything else, computed from thread numbers    a test for rows at run time (emit_rows.cc), else gather or scatter
//   anything else                                  gather or scatter
//
// Before an access its addresses are checked: inside device memory (or the block's shared memory) and aligned. When
// the check fails, exec/ executes the instruction: it knows registered host memory, cluster addresses and faults.
// Pages inside device memory that are not mapped raise a signal, which exec/ reports with WarpContext::at_inst.
// Not here: loads (emit_loads.cc), stores (emit_store.cc), atomics (emit_atomic.cc), loads of neighbouring words (emit_runs.cc).
#include <algorithm>
#include <bit>

#include "exec/observed.h"
#include "exec/run_state.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using exec::WarpContext;
using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;
using llvm::Align;
using llvm::ConstantInt;
using llvm::FixedVectorType;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {
constexpr int64_t kMostCover = int64_t{1} << 20;  // bytes that one check covers
}

MemoryAccess::MemoryAccess(Emitter& e, const Instr& in, const Operand& address, int element_bytes, int vector)
    : e_(e), b_(e.b_), in_(in), address_(address), bytes_(element_bytes), vector_(vector) {
  const Space s = in.form.n_spaces ? in.form.space() : Space::none;
  local_ = s == Space::local;
  shared_ = s == Space::shared || s == Space::shared_cta || s == Space::shared_cluster;
  if (address.base == ptx::BaseKind::reg) lanes_ = e.plan_.uniformity.regs[address.id];
  else lanes_ = {1, 0, 0, true, address.value};
  if (lanes_.chunks == 0) lanes_.chunks = 32;
  all_ = e.full_ && !e.guard_;
  sharpen();
}

bool MemoryAccess::consecutive(int chunks) const {
  for (int i = 0; i < 32; i++)
    if (pattern_[size_t(i)] != int64_t(i % (32 / chunks)) * size()) return false;
  return true;
}

/// Describes the addresses with more chunks, or as a repeated run, where that makes them flat or consecutive: the
/// columns of a 16 x 16 block are one run of 16 elements, twice.
void MemoryAccess::sharpen() {
  if (lanes_.varies() || lanes_.pattern == 0) return;
  const lower::Pattern whole = e_.plan_.uniformity.pattern_of(lanes_);
  pattern_ = whole;
  if (consecutive(lanes_.chunks)) return;
  if (lanes_.chunks == 1 && in_.form.op == Op::ld)
    for (int q : {16, 8, 4}) {
      bool same = true;
      for (int i = 0; i < 32; i++) same &= whole[size_t(i)] == int64_t(i % q) * size();
      if (same) {
        repeat_ = q;
        return;
      }
    }
  for (int n = 2 * lanes_.chunks; n <= 4; n *= 2) {
    bool flat = true;
    for (int i = 0; i < 32; i++) {
      pattern_[size_t(i)] = whole[size_t(i)] - whole[size_t(i / (32 / n) * (32 / n))];
      flat &= pattern_[size_t(i)] == 0;
    }
    if (!flat && !consecutive(n)) continue;
    lanes_.chunks = uint8_t(n);
    if (flat) lanes_.pattern = 0;
    return;
  }
  pattern_ = whole;
}

MemoryAccess::Shape MemoryAccess::shape() const {
  if (lanes_.varies()) return Shape::any;
  if (lanes_.pattern == 0) return Shape::same;
  if (repeat_ || consecutive(lanes_.chunks)) return Shape::consecutive;
  const int span = 32 / lanes_.chunks;
  int64_t low = 0, high = 0;
  for (int64_t v : pattern_) {
    if (v % size() != 0) return Shape::any;
    low = std::min(low, v), high = std::max(high, v);
  }
  return all_ && (high - low) / size() < 2 * span ? Shape::pattern : Shape::any;
}

/// Address of each chunk (or lane) as a number: a device address, or an offset in shared memory.
Value* MemoryAccess::address(int width) {
  llvm::Type* t = shared_ ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* v = address_.base == ptx::BaseKind::reg ? e_.fit(e_.bits(address_.id, width), t)
                                                  : ConstantInt::get(e_.wide(t, width), 0);
  return b_.CreateAdd(v, ConstantInt::get(v->getType(), uint64_t(address_.value)));
}

/// i1 per element: the `extent` bytes at `address` are not all inside the memory, or not aligned.
Value* MemoryAccess::outside(Value* address, int64_t low, int64_t extent) {
  const unsigned shift = unsigned(std::countr_zero(unsigned(std::min(32, size()))));
  llvm::Type* t = address->getType();
  Value *from, *limit;
  if (low) address = b_.CreateAdd(address, ConstantInt::get(t, uint64_t(low), true));
  if (e_.checked_) return llvm::Constant::getNullValue(e_.wide(b_.getInt1Ty(), e_.width_of(address)));
  if (e_.plan_.observe & exec::kObserveOutside) return outside_known(address, extent);
  if (shared_) {
    from = address;
    limit = b_.CreateSub(e_.shared_bytes_, b_.getInt32(uint32_t(extent)));
    // A block has at least the system's part of shared memory; a larger access than all of it never fits.
    limit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, b_.getInt32(0));
  } else {
    from = b_.CreateSub(address, e_.widen(e_.memory_base_, e_.width_of(address)));
    limit = b_.CreateSub(e_.memory_size_, b_.getInt64(uint64_t(extent)));
  }
  if (shift) {
    // One comparison checks both: misaligned low bits become high bits.
    from = b_.CreateIntrinsic(t, llvm::Intrinsic::fshr, {from, from, ConstantInt::get(t, shift)});
    limit = b_.CreateLShr(limit, shift);
  }
  return b_.CreateICmpUGT(from, e_.widen(limit, e_.width_of(address)));
}

Value* MemoryAccess::pointer(Value* address) {
  if (shared_) {
    // What is covered does not wrap: from one place on, the accesses of an unrolled loop differ by a number.
    if (lead_) address = b_.CreateSub(address, ConstantInt::get(address->getType(), uint64_t(lead_), true));
    Value* p = b_.CreateGEP(b_.getInt8Ty(), e_.shared_, b_.CreateZExt(address, e_.wide(b_.getInt64Ty(), e_.width_of(address))));
    return lead_ ? b_.CreateGEP(b_.getInt8Ty(), p, ConstantInt::get(e_.wide(b_.getInt64Ty(), e_.width_of(address)), uint64_t(lead_), true)) : p;
  }
  return b_.CreateIntToPtr(address, e_.wide(b_.getPtrTy(), e_.width_of(address)));
}

void MemoryAccess::note() {
  if (shared_ || e_.steady_.noted) return;
  auto put = [&](Value* v, size_t at) { b_.CreateStore(v, e_.field(e_.warp_, at))->setVolatile(true); };
  put(b_.getInt32(e_.inst_), offsetof(WarpContext, at_inst));
}

/// Bytes from the base (of a chunk) to the lowest and past the highest byte of its lanes.
std::pair<int64_t, int64_t> MemoryAccess::span_of_lanes() const {
  if (lanes_.pattern == 0) return {0, size()};
  if (repeat_) return {0, repeat_ * size()};
  const auto [low, high] = std::minmax_element(pattern_.begin(), pattern_.end());
  return {*low, *high + size()};
}

/// Accesses of a node through one base register, such as an unrolled loop's, are checked together, before the first:
/// when one of them is outside, the warp leaves here and the interpreter finds the exact one. True when this access
/// needs no check of its own.
bool MemoryAccess::covered(Value* bases, int64_t low, int64_t extent) {
  if (e_.checked_) return true;
  if (address_.base != ptx::BaseKind::reg || e_.guard_ || !(lanes_.chunks == 1 || all_)) return false;
  if (shared_ && !all_ && lanes_.pattern) return false;  // lanes that are off may point past a small array
  const int64_t first = address_.value + low, last = first + extent;
  if (auto at = e_.covered_.find(address_.id); at != e_.covered_.end()) {
    const Emitter::Cover& c = at->second;
    const bool is = c.shared == shared_ && c.size == size() && first >= c.low && last <= c.high && (first - c.low) % size() == 0;
    if (is) lead_ = address_.value - c.low;
    return is;
  }
  const auto [cover, count] = cover_of_node(first, last);
  if (count < 2 || cover.high - cover.low > kMostCover) return false;
  e_.leave_if(any_bad_chunk(outside(bases, cover.low - address_.value, cover.high - cover.low), nullptr));
  e_.covered_[address_.id] = cover;
  lead_ = address_.value - cover.low;
  return true;
}

/// What this access, bytes [first, last) from its base register, and those after it in the node through the same register
/// touch together; how many these are.
std::pair<Emitter::Cover, int> MemoryAccess::cover_of_node(int64_t first, int64_t last) {
  Emitter::Cover cover{first, last, size(), shared_};
  int count = 1;
  const lower::Node& node = e_.schedule_.nodes[e_.node_];
  for (uint32_t i = e_.inst_ + 1; i < node.last; i++) {
    const Instr& in = e_.plan_.program.code[i];
    if ((in.form.op == Op::ld || in.form.op == Op::st) && in.guard.reg == ptx::kNoReg) {
      const Operand& o = in.ops[in.form.op == Op::st ? 0 : 1];
      const Space s = in.form.n_spaces ? in.form.space() : Space::none, own = in_.form.n_spaces ? in_.form.space() : Space::none;
      if (o.kind == OperandKind::address && o.base == ptx::BaseKind::reg && o.id == address_.id && s == own) {
        const MemoryAccess other(e_, in, o, isa::bytes_of(in.form.type()), std::max<int>(1, in.form.vec));
        const auto [from, to] = other.span_of_lanes();
        const Shape shape = other.shape();
        if (shape != Shape::any && other.size() == size() && other.lanes_.chunks == lanes_.chunks && (o.value + from - first) % size() == 0) {
          cover.low = std::min(cover.low, o.value + from), cover.high = std::max(cover.high, o.value + to);
          count++;
        }
      }
    }
    bool rewritten = false;
    lower::for_registers(in, [&](uint32_t r) { rewritten |= r == address_.id; }, [](uint32_t) {});
    if (rewritten) break;
  }
  return {cover, count};
}

/// i1: of this access or of those that it covers from now on, some are outside; true where nothing is known of the lanes'
/// addresses. Null: an earlier access has covered it.
Value* MemoryAccess::cover_together() {
  if (shape() == Shape::any) return b_.getTrue();
  const auto [low, high] = span_of_lanes();
  const int64_t first = address_.value + low, last = address_.value + high;
  if (const auto at = e_.covered_.find(address_.id); at != e_.covered_.end()) {
    const Emitter::Cover& c = at->second;
    return c.size == size() && first >= c.low && last <= c.high && (first - c.low) % size() == 0 ? nullptr : b_.getTrue();
  }
  const Emitter::Cover cover = cover_of_node(first, last).first;
  if (cover.high - cover.low > kMostCover) return b_.getTrue();
  e_.covered_[address_.id] = cover;
  return any_bad_chunk(outside(address(lanes_.chunks), cover.low - address_.value, cover.high - cover.low), nullptr);
}

/// Emits `fast` where the checks hold and the general way elsewhere; `results` are the values that both define.
void MemoryAccess::either(Value* bad, const std::function<std::vector<Value*>()>& fast) {
  if (!bad) {
    const std::vector<Value*> values = fast();
    for (size_t i = 0; i < values.size(); i++) define(int(i), values[i]);
    return;
  }
  llvm::BasicBlock *slow = e_.block("slow"), *quick = e_.block("fast"), *done = e_.block("accessed");
  auto* branch = b_.CreateCondBr(bad, slow, quick);
  branch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(e_.context_).createBranchWeights(1, 1 << 20));
  // Both ways write registers through their slots; mem2reg joins them.
  b_.SetInsertPoint(slow);
  e_.emit_execute(in_);
  b_.CreateBr(done);
  b_.SetInsertPoint(quick);
  const std::vector<Value*> values = fast();
  for (size_t i = 0; i < values.size(); i++) define(int(i), values[i]);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

/// Some chunk has lanes on their way and a bad address.
Value* MemoryAccess::any_bad_chunk(Value* bad, Value* m) {
  if (e_.width_of(bad) == 1) return bad;
  if (m) {
    const unsigned n = unsigned(e_.width_of(bad));
    Value* chunks = b_.CreateBitCast(m, FixedVectorType::get(b_.getIntNTy(32 / n), n));
    bad = b_.CreateAnd(bad, b_.CreateICmpNE(chunks, llvm::Constant::getNullValue(chunks->getType())));
  }
  return b_.CreateOrReduce(bad);
}

/// Emits `body(lane)` in a loop over the lanes of `m`, lowest first; `lane` is an i64.
void Emitter::for_each_lane(Value* m, const std::function<void(Value*)>& body) {
  Block *before = b_.GetInsertBlock(), *loop = block("lane"), *done = block("lanes_done");
  Value* all = bits_of(m);
  b_.CreateCondBr(b_.CreateICmpEQ(all, b_.getInt32(0)), done, loop);
  b_.SetInsertPoint(loop);
  auto* left = b_.CreatePHI(b_.getInt32Ty(), 2);
  left->addIncoming(all, before);
  body(b_.CreateZExt(b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b_.getTrue()), b_.getInt64Ty()));
  Value* rest = b_.CreateAnd(left, b_.CreateSub(left, b_.getInt32(1)));
  left->addIncoming(rest, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpEQ(rest, b_.getInt32(0)), done, loop);
  b_.SetInsertPoint(done);
}

bool Emitter::emit_memory(const Instr& in) {
  const isa::Form& f = in.form;
  const Space s = f.n_spaces ? f.space() : Space::none;
  const bool is_store = f.op == isa::Op::st;
  const Operand& address = in.ops[is_store ? 0 : 1];
  const int bytes = isa::bytes_of(f.type()), vector = std::max<int>(1, f.vec);
  if (address.kind != OperandKind::address || bytes > 8 || f.type() == Type::b128) return false;
  if (is_param_space(s) && !is_store && address.base == ptx::BaseKind::none) return load_param(in, address, bytes, vector);
  if (is_param_space(s) || s == Space::param_func || s == Space::shared_cluster) return false;
  if (s == Space::local) {
    if ((plan_.observe && !plan_.quiet_local) || !plan_.program.local_bytes || (is_store && !traits_.avx512)) return false;
    MemoryAccess(*this, in, address, bytes, vector).local();
    return true;
  }
  if (address.base == ptx::BaseKind::local_var) return false;
  if (f.has(Mod::acquire) || f.has(Mod::release) || f.has(Mod::sc)) b_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
  MemoryAccess access(*this, in, address, bytes, vector);
  if (is_store) access.store();
  else access.load();
  return true;
}

bool Emitter::load_param(const Instr& in, const Operand& address, int bytes, int vector) {
  llvm::Type* t = b_.getIntNTy(unsigned(bytes) * 8);
  for (int k = 0; k < vector; k++) {
    const Operand& o = in.ops[0].kind == OperandKind::vec ? in.ops[0].parts[size_t(k)] : in.ops[0];
    if (o.kind == OperandKind::sink) continue;
    auto* load = b_.CreateAlignedLoad(t, field(params_, size_t(address.value + k * bytes)), Align(1));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    Value* v = load;
    const unsigned bits = element_of_reg(o.id)->getScalarSizeInBits();
    if (isa::is_signed(in.form.type()) && unsigned(bytes) * 8 < bits) v = b_.CreateSExt(v, b_.getIntNTy(bits));
    define_reg(o.id, fit(v, element_of_reg(o.id)));
  }
  return true;
}

}  // namespace orrery::jit
