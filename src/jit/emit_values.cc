// jit/emit_values.cc: registers, operands, masks and their widths. See emitter.h.
#include <llvm/IR/Intrinsics.h>

#include "exec/run_state.h"
#include "jit/emitter.h"
#include "lower/flow.h"

namespace orrery::jit {

using exec::CtaContext;
using exec::LaunchContext;
using exec::WarpContext;
using isa::Type;
using lower::Lanes;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Sreg;

namespace {
using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::FixedVectorType;

llvm::SmallVector<int, 32> repeat_chunks(int from, int to) {
  llvm::SmallVector<int, 32> index;
  for (int i = 0; i < to; i++) index.push_back(i * from / to);
  return index;
}
}  // namespace

llvm::Type* Emitter::element(Type t) const {
  if (t == Type::f32) return llvm::Type::getFloatTy(context_);
  if (t == Type::f64) return llvm::Type::getDoubleTy(context_);
  return llvm::Type::getIntNTy(context_, unsigned(std::max(1, isa::bits_of(t))));
}

llvm::Type* Emitter::element_of_reg(uint32_t reg) const { return element(plan_.program.regs[reg].type); }

llvm::Type* Emitter::wide(LaneType* t, int width) const {
  return width == 1 ? t : FixedVectorType::get(t, unsigned(width));
}

int Emitter::width_of(Value* v) const {
  auto* t = llvm::dyn_cast<FixedVectorType>(v->getType());
  return t ? int(t->getNumElements()) : 1;
}

llvm::AllocaInst* Emitter::new_alloca(LaneType* t, const char* name) {
  llvm::IRBuilder<> at(alloca_point_);
  auto* a = at.CreateAlloca(t, nullptr, name);
  a->setAlignment(llvm::Align(64));
  return a;
}

llvm::AllocaInst* Emitter::scratch(size_t bytes, int index) {
  auto*& a = scratch_[{bytes, index}];
  if (!a) a = new_alloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes), "scratch");
  return a;
}

llvm::Type* Emitter::slot_type(uint32_t reg) const {
  llvm::IRBuilder<> b(context_);
  if (is_pred(reg)) return width_of_reg(reg) == 1 ? static_cast<llvm::Type*>(b.getInt1Ty()) : FixedVectorType::get(traits_.avx512 ? b.getInt1Ty() : b.getInt32Ty(), 32);
  if (is_qword(reg)) return FixedVectorType::get(b.getInt64Ty(), 64);
  return wide(element_of_reg(reg), width_of_reg(reg));
}

/// Where the register is between its uses: an alloca, or its place in the frame.
llvm::Value* Emitter::slot(uint32_t reg) {
  if (plan_.at_home[reg]) return frame_place(reg);
  if (!slots_[reg]) slots_[reg] = new_alloca(slot_type(reg), "r");
  return slots_[reg];
}

llvm::Value* Emitter::load_mask(Value* at, LaneType* type) {
  Value* v = b_.CreateLoad(type, at);
  return traits_.avx512 ? v : b_.CreateICmpSLT(v, llvm::Constant::getNullValue(v->getType()));
}

void Emitter::store_mask(llvm::AllocaInst* slot, Value* mask) {
  b_.CreateStore(traits_.avx512 ? mask : b_.CreateSExt(mask, slot->getAllocatedType()), slot);
}

llvm::Value* Emitter::mask() {
  if (full_) return llvm::Constant::getAllOnesValue(FixedVectorType::get(b_.getInt1Ty(), 32));
  return load_mask(mask_slot_);
}

llvm::Value* Emitter::exec_mask() {
  if (!guard_) return mask();
  Value* g = widen(guard_, 32);
  return full_ ? g : b_.CreateAnd(mask(), g);
}

llvm::Value* Emitter::bits_of(Value* mask) { return b_.CreateBitCast(mask, b_.getInt32Ty()); }
llvm::Value* Emitter::mask_of_bits(Value* bits) {
  return b_.CreateBitCast(bits, FixedVectorType::get(b_.getInt1Ty(), 32));
}
llvm::Value* Emitter::any(Value* mask) {
  if (width_of(mask) == 1) return mask;
  return b_.CreateICmpNE(bits_of(mask), b_.getInt32(0));
}

llvm::Value* Emitter::widen(Value* v, int width, const Lanes* lanes) {
  const int from = width_of(v);
  Value* out = v;
  if (from < width) {
    out = from == 1 ? b_.CreateVectorSplat(unsigned(width), v) : b_.CreateShuffleVector(v, repeat_chunks(from, width));
    if (lanes && lanes->pattern) {
      const lower::Pattern& p = plan_.uniformity.pattern_of(*lanes);
      llvm::SmallVector<llvm::Constant*, 32> c;
      auto* t = llvm::cast<FixedVectorType>(out->getType())->getElementType();
      for (int i = 0; i < width; i++) c.push_back(ConstantInt::get(t, uint64_t(p[size_t(i * 32 / width)]), true));
      out = b_.CreateAdd(out, llvm::ConstantVector::get(c));
    }
  }
  return out;
}

llvm::Value* Emitter::raw(uint32_t reg, int width) {
  Value* a = slot(reg);
  if (is_pred(reg)) return widen(width_of_reg(reg) == 1 ? b_.CreateLoad(b_.getInt1Ty(), a) : load_mask(slots_[reg]), width);
  Value* v = plan_.at_home[reg] ? b_.CreateAlignedLoad(slot_type(reg), a, llvm::Align(64)) : b_.CreateLoad(slot_type(reg), a);
  return is_qword(reg) ? v : widen(v, width, &plan_.uniformity.regs[reg]);
}

llvm::Value* Emitter::fit(Value* v, LaneType* to) {
  LaneType* from = v->getType()->getScalarType();
  if (from == to) return v;
  const int width = width_of(v);
  const unsigned from_bits = from->getScalarSizeInBits(), to_bits = to->getScalarSizeInBits();
  if (from->isFloatingPointTy()) v = b_.CreateBitCast(v, wide(b_.getIntNTy(from_bits), width));
  if (from_bits != to_bits) v = b_.CreateZExtOrTrunc(v, wide(b_.getIntNTy(to_bits), width));
  return b_.CreateBitCast(v, wide(to, width));
}

llvm::Value* Emitter::canonical_nan(Value* v) {
  Value* f = fit(v, b_.getFloatTy());
  Value* nan = ConstantFP::get(f->getType(), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, 0x7fffffff)));
  return fit(b_.CreateSelect(b_.CreateFCmpUNO(f, f), nan, f), v->getType()->getScalarType());
}

llvm::Value* Emitter::bits(uint32_t reg, int width) {
  Value* v = raw(reg, width);
  return plan_.lazy_nan[reg] ? canonical_nan(v) : v;
}

llvm::Value* Emitter::immediate(const Operand& o, LaneType* t, int width) {
  const unsigned bits = t->getScalarSizeInBits();
  uint64_t v = uint64_t(o.value);
  if (o.is_float && o.float_bits == 64 && bits == 32) {
    v = std::bit_cast<uint32_t>(float(std::bit_cast<double>(v)));
  } else if (o.is_float && o.float_bits == 32 && bits == 64) {
    v = std::bit_cast<uint64_t>(double(std::bit_cast<float>(uint32_t(v))));
  }
  llvm::Constant* c = ConstantInt::get(context_, llvm::APInt(bits, v, true));
  if (t->isFloatTy()) c = ConstantFP::get(t, llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, v & 0xffffffff)));
  if (t->isDoubleTy()) c = ConstantFP::get(t, llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, v)));
  return width == 1 ? static_cast<Value*>(c) : llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(unsigned(width)), c);
}

llvm::Value* Emitter::read_as(const Operand& o, LaneType* t, int width, Use use) {
  Value* v = nullptr;
  switch (o.kind) {
    case OperandKind::imm: return immediate(o, t, width);
    case OperandKind::reg:
      v = fit(use == Use::bits ? bits(o.id, width) : raw(o.id, width), t);
      if (o.negated) v = t->isFloatingPointTy() ? b_.CreateFNeg(v) : b_.CreateNeg(v);
      return v;
    case OperandKind::sreg: v = special(Sreg(o.id), o.value, width); return v ? fit(v, t) : nullptr;
    case OperandKind::local_var: return ConstantInt::get(wide(t, width), uint64_t(o.value));
    default: return nullptr;
  }
}

llvm::Value* Emitter::read(const Operand& o, Type t, int width, Use use) { return read_as(o, element(t), width, use); }

llvm::Value* Emitter::predicate(uint32_t reg, bool negated, int width) {
  Value* v = raw(reg, width);
  return negated ? b_.CreateNot(v) : v;
}

llvm::Value* Emitter::read_predicate(const Operand& o, int width) {
  if (o.kind == OperandKind::imm) return ConstantInt::getBool(wide(b_.getInt1Ty(), width), o.value != 0);
  return predicate(o.id, o.negated, width);
}

int Emitter::operand_width(const Operand& o) const {
  switch (o.kind) {
    case OperandKind::reg: return is_qword(o.id) ? 32 : width_of_reg(o.id);
    case OperandKind::sreg: {
      std::vector<lower::Pattern> patterns = plan_.uniformity.patterns;
      const Lanes l = lower::lanes_of_sreg(Sreg(o.id), plan_.uniformity.block, patterns);
      return l.pattern ? 32 : l.chunks;
    }
    case OperandKind::vec: case OperandKind::pair: {
      int w = 1;
      for (const Operand& part : o.parts) w = std::max(w, operand_width(part));
      return w;
    }
    default: return 1;
  }
}

bool Emitter::is_patterned(const Operand& o) const {
  if (o.kind == OperandKind::reg) return plan_.uniformity.regs[o.id].pattern != 0;
  for (const Operand& part : o.parts)
    if (is_patterned(part)) return true;
  return false;
}

/// The fewest elements in which the instruction can be computed: those of its operands, or all lanes when one has a
/// pattern and the result has not.
int Emitter::natural_width(const ptx::Instr& in, int first_source) const {
  int width = 1;
  bool patterned = false;
  for (size_t i = size_t(first_source); i < in.ops.size(); i++) {
    width = std::max(width, operand_width(in.ops[i]));
    patterned |= is_patterned(in.ops[i]);
  }
  int dst = 1;
  for (int i = 0; i < first_source; i++) dst = std::max(dst, operand_width(in.ops[size_t(i)]));
  if (dst < 32) return dst;       // the result is described by its bases
  return patterned ? 32 : width;
}

bool Emitter::keeps_old(uint32_t reg) const { return !kept_.empty() && kept_[reg]; }

void Emitter::define(const Operand& o, Value* v) {
  if (o.kind == OperandKind::sink || o.kind == OperandKind::none) return;
  define_reg(o.id, v);
}

/// The base of a register that has the same one wherever it is written.
llvm::Value* Emitter::known_base(uint32_t reg) {
  llvm::Type* t = element_of_reg(reg);
  return fit(llvm::ConstantInt::get(b_.getIntNTy(t->getScalarSizeInBits()), uint64_t(plan_.uniformity.regs[reg].value)), t);
}

void Emitter::define_reg(uint32_t reg, Value* v) {
  covered_.erase(reg);
  Value* a = slot(reg);
  LaneType* const type = slot_type(reg);
  const int width = is_qword(reg) ? 64 : width_of_reg(reg);
  if (!is_pred(reg) && !is_qword(reg)) {
    if (v->getType()->isFPOrFPVectorTy() && v->getType()->getScalarType()->isFloatTy() && !plan_.lazy_nan[reg] &&
        makes_nan(plan_.program.code[inst_]))
      v = canonical_nan(v);
    v = fit(v, element_of_reg(reg));
  }
  v = widen(v, width);
  // (Low bits of a thread number that comes from memory: other constants LLVM finds itself.)
  if (width == 1 && plan_.program.code[inst_].form.op == isa::Op::and_ && !is_pred(reg) && plan_.uniformity.regs[reg].constant) v = known_base(reg);
  if (width == 1 && guard_ && width_of(guard_) == 1) {
    v = b_.CreateSelect(guard_, v, raw(reg, 1));
  } else if (width == 32 || width == 64) {
    const bool keep = (keeps_old(reg) || (plan_.at_home[reg] && !kept_.empty())) && !full_;  // (a place in the frame may be another register's, too)
    Value* m = guard_ && keep ? exec_mask() : guard_ ? widen(guard_, 32) : keep ? mask() : nullptr;
    if (m && width == 64) m = b_.CreateShuffleVector(m, [] { llvm::SmallVector<int, 64> i; for (int k = 0; k < 64; k++) i.push_back(k % 32); return i; }());
    if (m) v = b_.CreateSelect(m, v, is_pred(reg) ? load_mask(slots_[reg]) : b_.CreateLoad(type, a));
  } else if (guard_ && width_of(guard_) == 1) {
    v = b_.CreateSelect(guard_, v, b_.CreateLoad(type, a));
  }
  if (is_pred(reg) && width == 32) store_mask(slots_[reg], v);
  else if (plan_.at_home[reg]) b_.CreateAlignedStore(v, a, llvm::Align(64));
  else b_.CreateStore(v, a);
}

llvm::Value* Emitter::field(Value* base, size_t offset) {
  return offset ? b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset) : base;
}

llvm::Value* Emitter::load_field(Value* base, size_t offset, LaneType* t, const char* name) {
  return b_.CreateLoad(t, field(base, offset), name);
}

llvm::Value* Emitter::frame_place(uint32_t reg) { return field(frame_, plan_.program.regs[reg].offset); }

void Emitter::store_to_frame(uint32_t reg, Value* mask) {
  Value* at = frame_place(reg);
  if (is_pred(reg)) {
    Value* bits = bits_of(raw(reg, 32));
    if (mask) {
      Value* old = b_.CreateLoad(b_.getInt32Ty(), at);
      Value* m = bits_of(mask);
      bits = b_.CreateOr(b_.CreateAnd(bits, m), b_.CreateAnd(old, b_.CreateNot(m)));
    }
    b_.CreateStore(bits, at);
    return;
  }
  Value* v = bits(reg, 32);
  if (is_qword(reg)) {
    if (mask) mask = b_.CreateShuffleVector(mask, [] { llvm::SmallVector<int, 64> i; for (int k = 0; k < 64; k++) i.push_back(k % 32); return i; }());
  } else {
    v = fit(v, plan_.program.regs[reg].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty());
  }
  if (mask) b_.CreateMaskedStore(v, at, llvm::Align(64), mask);
  else b_.CreateAlignedStore(v, at, llvm::Align(64));
}

llvm::Value* Emitter::load_from_frame(uint32_t reg) {
  Value* at = frame_place(reg);
  const int width = width_of_reg(reg);
  if (is_pred(reg)) {
    Value* bits = b_.CreateLoad(b_.getInt32Ty(), at);
    return width == 1 ? b_.CreateTrunc(bits, b_.getInt1Ty()) : mask_of_bits(bits);
  }
  if (is_qword(reg)) return b_.CreateAlignedLoad(FixedVectorType::get(b_.getInt64Ty(), 64), at, llvm::Align(64));
  LaneType* t = plan_.program.regs[reg].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* v;
  if (width == 32) {
    v = b_.CreateAlignedLoad(FixedVectorType::get(t, 32), at, llvm::Align(64));
  } else if (width == 1) {
    v = b_.CreateLoad(t, at);
  } else {
    v = llvm::PoisonValue::get(wide(t, width));
    for (int c = 0; c < width; c++)
      v = b_.CreateInsertElement(v, b_.CreateLoad(t, field(at, size_t(c * 32 / width) * t->getScalarSizeInBits() / 8)), uint64_t(c));
  }
  return fit(v, element_of_reg(reg));
}

llvm::Value* Emitter::special(Sreg s, int64_t, int width) {
  auto splat = [&](Value* v) { return widen(v, width); };
  auto u32 = [&](Value* base, size_t offset) { return splat(load_field(base, offset, b_.getInt32Ty(), "sreg")); };
  // The same throughout a call: read once for all warps.
  auto of_block = [&](Value* base, size_t offset) {
    auto* load = llvm::cast<llvm::LoadInst>(load_field(base, offset, b_.getInt32Ty(), "sreg"));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return splat(load);
  };
  auto lanes = [&](auto f) {
    llvm::SmallVector<uint32_t, 32> v;
    for (uint32_t i = 0; i < 32; i++) v.push_back(f(i));
    return llvm::ConstantDataVector::get(context_, v);
  };
  // Where a row of threads is whole warps, the number of the warp says it all.
  const lower::BlockSize& size = plan_.uniformity.block;
  const auto by_warp = [&](uint32_t threads, uint32_t most) -> Value* {  // thread number / threads % most
    Value* thread = b_.CreateShl(load_field(warp_, offsetof(WarpContext, warp_id), b_.getInt32Ty(), "warp_id"), 5, "", true, true);
    Value* v = b_.CreateUDiv(thread, b_.getInt32(threads));
    return size.threads() / threads <= most ? v : b_.CreateURem(v, b_.getInt32(most));
  };
  auto tid = [&](size_t offset) -> Value* {
    if (width == 1 && size.x % 32 == 0) {
      if (s == Sreg::tid_x) return by_warp(1, size.x);
      return s == Sreg::tid_y ? by_warp(size.x, size.y) : by_warp(size.x * size.y, size.z);
    }
    if (width == 32) return b_.CreateAlignedLoad(FixedVectorType::get(b_.getInt32Ty(), 32), field(warp_, offset), llvm::Align(4));
    if (width == 1) return load_field(warp_, offset, b_.getInt32Ty(), "tid");
    Value* v = llvm::PoisonValue::get(FixedVectorType::get(b_.getInt32Ty(), unsigned(width)));
    for (int c = 0; c < width; c++)
      v = b_.CreateInsertElement(v, load_field(warp_, offset + size_t(c * 32 / width) * 4, b_.getInt32Ty(), "tid"), uint64_t(c));
    return v;
  };
  const uint64_t chunk = 32 / uint64_t(width);
  switch (s) {
    case Sreg::tid_x: return plan_.uniformity.block.x == 1 ? splat(b_.getInt32(0)) : tid(offsetof(WarpContext, tid_x));
    case Sreg::tid_y: return plan_.uniformity.block.y == 1 ? splat(b_.getInt32(0)) : tid(offsetof(WarpContext, tid_y));
    case Sreg::tid_z: return plan_.uniformity.block.z == 1 ? splat(b_.getInt32(0)) : tid(offsetof(WarpContext, tid_z));
    case Sreg::ntid_x: return splat(b_.getInt32(plan_.uniformity.block.x));
    case Sreg::ntid_y: return splat(b_.getInt32(plan_.uniformity.block.y));
    case Sreg::ntid_z: return splat(b_.getInt32(plan_.uniformity.block.z));
    case Sreg::ctaid_x: case Sreg::ctaid_y: case Sreg::ctaid_z:
      return of_block(cta_, offsetof(CtaContext, ctaid) + 4 * (size_t(s) - size_t(Sreg::ctaid_x)));
    case Sreg::nctaid_x: case Sreg::nctaid_y: case Sreg::nctaid_z:
      return of_block(launch_, offsetof(LaunchContext, grid) + 4 * (size_t(s) - size_t(Sreg::nctaid_x)));
    case Sreg::warpid: return u32(warp_, offsetof(WarpContext, warp_id));
    case Sreg::smid: return u32(cta_, offsetof(CtaContext, smid));
    case Sreg::zero: return splat(b_.getInt32(0));
    case Sreg::laneid:
      if (width == 1) return b_.getInt32(0);
      if (width < 32) {
        llvm::SmallVector<uint32_t, 4> v;
        for (int c = 0; c < width; c++) v.push_back(uint32_t(uint64_t(c) * chunk));
        return llvm::ConstantDataVector::get(context_, v);
      }
      return lanes([](uint32_t i) { return i; });
    case Sreg::lanemask_eq: return lanes([](uint32_t i) { return 1u << i; });
    case Sreg::lanemask_lt: return lanes([](uint32_t i) { return (1u << i) - 1; });
    case Sreg::lanemask_le: return lanes([](uint32_t i) { return (2u << i) - 1; });
    case Sreg::lanemask_gt: return lanes([](uint32_t i) { return ~((2u << i) - 1); });
    case Sreg::lanemask_ge: return lanes([](uint32_t i) { return ~((1u << i) - 1); });
    default: return nullptr;
  }
}

}  // namespace orrery::jit
