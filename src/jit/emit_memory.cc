// jit/emit_memory.cc: what ld and st have in common: addresses, their checks, and loads. See emitter.h.
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
// Not here: stores (emit_store.cc), atomics (emit_atomic.cc), loads of neighbouring words (emit_runs.cc).
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
bool is_param_space(Space s) { return s == Space::param || s == Space::param_entry; }
}  // namespace

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
  if (count < 2 || cover.high - cover.low > (int64_t{1} << 20)) return false;
  e_.leave_if(any_bad_chunk(outside(bases, cover.low - address_.value, cover.high - cover.low), nullptr));
  e_.covered_[address_.id] = cover;
  lead_ = address_.value - cover.low;
  return true;
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
