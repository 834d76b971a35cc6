// jit/emit_call.cc: one instruction: the known forms first, then the general ways: sem/'s function for pure forms,
// exec/'s interpreter for the rest. See emitter.h.
#include "exec/native.h"
#include "isa/row.h"
#include "jit/emitter.h"
#include "lower/flow.h"
#include "sem/pure.h"

namespace orrery::jit {

using isa::Op;
using isa::Type;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

void Emitter::emit_instr(uint32_t i) {
  const Instr& in = plan_.program.code[i];
  guard_ = nullptr;
  if (in.guard.reg != ptx::kNoReg) guard_ = predicate(in.guard.reg, in.guard.negated, width_of_reg(in.guard.reg));
  if (plan_.observed[i]) return emit_observed(in);
  if (emit_known(in)) return;
  if (emit_meaning(in)) return;
  if (isa::row(in.form.row).effects & isa::effect::convergent) require_members(b_.getInt32(~0u));
  emit_execute(in);
}

bool Emitter::emit_known(const Instr& in) {
  for (const Operand& o : in.ops) {  // 128-bit registers are left to the general ways
    bool wide_register = false;
    lower::for_operand_registers(o, [&](uint32_t r) { wide_register |= is_qword(r); });
    if (wide_register) return false;
  }
  switch (in.form.op) {
    case Op::mov: return emit_mov(in);
    case Op::cvta: return emit_mov(in);
    case Op::setp: return emit_setp(in);
    case Op::set: return emit_set(in);
    case Op::selp: case Op::slct: return emit_select(in);
    case Op::cvt: return emit_convert(in);
    case Op::ld: case Op::ldu: case Op::st: return emit_memory(in);
    case Op::atom: case Op::red: return emit_atomic(in);
    case Op::shfl: case Op::vote: case Op::activemask: case Op::bar_warp: case Op::redux: case Op::elect: case Op::match:
    case Op::membar: case Op::fence: case Op::prefetch: case Op::prefetchu:
      return emit_warp(in);
    case Op::nop: case Op::pmevent: return true;
    default: break;
  }
  if (in.form.type() == Type::pred && emit_predicate_logic(in)) return true;
  return emit_arith(in);
}

llvm::FunctionCallee Emitter::runtime(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> args) {
  auto callee = module_.getOrInsertFunction(name, llvm::FunctionType::get(result, args, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->addFnAttr("no_caller_saved_registers");
  f->addFnAttr(llvm::Attribute::NoUnwind);
  return callee;
}

/// Calls a thunk (thunks.cc) that preserves every register, so that a call on a rare path costs the others nothing.
llvm::CallInst* Emitter::call_runtime(const char* name, llvm::Type* result, llvm::ArrayRef<Value*> args) {
  llvm::SmallVector<llvm::Type*, 6> types;
  for (Value* v : args) types.push_back(v->getType());
  auto* call = b_.CreateCall(runtime(name, result, types), args);
  call->addFnAttr(llvm::Attribute::get(context_, "no_caller_saved_registers"));
  call->addFnAttr(llvm::Attribute::NoUnwind);
  return call;
}

/// Operands of a pure instruction, flattened as sem/ wants them.
static void flatten(const Operand& o, std::vector<const Operand*>& out) {
  if (o.kind == OperandKind::vec || o.kind == OperandKind::pair)
    for (const Operand& part : o.parts) flatten(part, out);
  else out.push_back(&o);
}

bool Emitter::emit_meaning(const Instr& in) {
  if ((isa::row(in.form.row).effects & 0xffff) != 0) return false;
  if (in.form.op >= Op::vadd && in.form.op <= Op::vset4) return false;  // their meaning takes selectors, too: exec/ has them
  const int n_dst = lower::destinations(in);
  std::vector<const Operand*> dst, src;
  for (int i = 0; i < int(in.ops.size()); i++) flatten(in.ops[size_t(i)], i < n_dst ? dst : src);
  for (const auto* list : {&dst, &src})
    for (const Operand* o : *list)
      if ((o->kind != OperandKind::reg && o->kind != OperandKind::imm && o->kind != OperandKind::sink) ||
          o->selector != isa::Mod::count || (o->kind == OperandKind::reg && (is_qword(o->id) || (o->negated && !is_pred(o->id)))))
        return false;  // exec/ knows how
  // An immediate has the width that its meaning reads; that is plain only where all types are words.
  bool words = true;
  for (int i = 0; i < in.form.n_types; i++) words &= isa::bits_of(in.form.type(i)) <= 32;
  for (const Operand* o : src)
    if (o->kind == OperandKind::imm && !words) return false;
  if (!sem::find_pure(in.form, int(dst.size()), int(src.size()))) return false;
  auto* ptr = b_.getPtrTy();
  auto* pointers = llvm::ArrayType::get(ptr, 16);
  Value *d = scratch(sizeof(void*) * 16, 100), *s = scratch(sizeof(void*) * 16, 101);
  for (size_t i = 0; i < src.size(); i++) {
    Value* place = scratch(256, int(i));
    Value* v;
    if (src[i]->kind == OperandKind::reg && is_pred(src[i]->id)) {
      v = bits_of(predicate(src[i]->id, src[i]->negated, 32));
    } else if (src[i]->kind == OperandKind::imm) {
      v = immediate(*src[i], src[i]->is_float ? b_.getFloatTy() : b_.getInt32Ty(), 32);
      v = fit(v, b_.getInt32Ty());
    } else {
      v = bits(src[i]->id, 32);
      v = fit(v, plan_.program.regs[src[i]->id].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty());
    }
    b_.CreateAlignedStore(v, place, llvm::Align(64));
    b_.CreateStore(place, b_.CreateConstInBoundsGEP2_64(pointers, s, 0, i));
  }
  auto* null = llvm::ConstantPointerNull::get(ptr);
  b_.CreateStore(null, b_.CreateConstInBoundsGEP2_64(pointers, s, 0, src.size()));
  if (in.form.op >= Op::vadd && in.form.op <= Op::vset4) {  // video: no c, perhaps, and three words: no selectors
    Value* none = scratch(256, 19);
    b_.CreateStore(b_.getInt32(0), none);
    for (size_t i = src.size(); i < 6; i++) b_.CreateStore(i < 3 ? null : none, b_.CreateConstInBoundsGEP2_64(pointers, s, 0, i));
  }
  for (size_t i = 0; i < dst.size(); i++) {
    Value* place = dst[i]->kind == OperandKind::sink ? static_cast<Value*>(llvm::ConstantPointerNull::get(ptr)) : scratch(256, 20 + int(i));
    if (dst[i]->kind != OperandKind::sink && is_pred(dst[i]->id)) b_.CreateStore(b_.getInt32(0), place);
    b_.CreateStore(place, b_.CreateConstInBoundsGEP2_64(pointers, d, 0, i));
  }
  // An ordinary call: it is always made, so that what lives across it is spilled, which is less than all registers.
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {ptr, ptr, ptr, b_.getInt32Ty()}, false);
  auto meaning = module_.getOrInsertFunction(Symbols::meaning(inst_), type);
  llvm::cast<llvm::Function>(meaning.getCallee())->addFnAttr(llvm::Attribute::NoUnwind);
  b_.CreateCall(meaning, {module_.getOrInsertGlobal(Symbols::form(inst_), b_.getInt8Ty()), d, s, b_.getInt32(~0u)});
  for (size_t i = 0; i < dst.size(); i++) {
    if (dst[i]->kind == OperandKind::sink) continue;
    const uint32_t r = dst[i]->id;
    const int width = width_of_reg(r);
    Value* place = scratch(256, 20 + int(i));
    if (is_pred(r)) {
      Value* bits = b_.CreateLoad(b_.getInt32Ty(), place);
      define_reg(r, width == 1 ? b_.CreateTrunc(bits, b_.getInt1Ty()) : mask_of_bits(bits));
      continue;
    }
    auto* t = plan_.program.regs[r].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty();
    Value* all = b_.CreateAlignedLoad(wide(t, 32), place, llvm::Align(64));
    if (width < 32) {
      llvm::SmallVector<int, 4> firsts;
      for (int c = 0; c < width; c++) firsts.push_back(c * 32 / width);
      all = width == 1 ? b_.CreateExtractElement(all, uint64_t(0)) : b_.CreateShuffleVector(all, firsts);
    }
    define_reg(r, fit(all, element_of_reg(r)));
  }
  return true;
}

/// Lanes may name different members, of whom some are not here: exec/ then lets the others wait.
static bool names_members(const Instr& in) {
  switch (in.form.op) {
    case Op::shfl: case Op::vote: case Op::match: case Op::redux: case Op::elect: case Op::bar_warp: case Op::activemask: return true;
    default: return false;
  }
}

/// The general way: operands to the frame, exec/ executes the instruction for the lanes at hand, results back.
void Emitter::emit_execute(const Instr& in) {
  if (steady_.leave) {
    b_.CreateBr(steady_.leave);
    b_.SetInsertPoint(block("unreached"));
    return;
  }
  std::vector<uint32_t> read, written;
  lower::for_registers(in, [&](uint32_t r) { written.push_back(r); }, [&](uint32_t r) { read.push_back(r); });
  Value* m = exec_mask();
  // Frame slots are shared by registers that are not live together: leave those of waiting lanes alone.
  Value* here = kept_.empty() ? nullptr : mask();
  const auto at_home = [&](uint32_t r) { return plan_.at_home[r] != 0; };
  std::erase_if(read, at_home), std::erase_if(written, at_home);
  for (uint32_t r : read) store_to_frame(r, here);
  Block *run = nullptr, *skip = nullptr;
  std::vector<Value*> old;
  if (guard_) {
    // The old values stand in the frame in case no lane executes it.
    for (uint32_t r : written) store_to_frame(r, here);
    run = block("execute"), skip = block("executed");
    b_.CreateCondBr(any(m), run, skip);
    b_.SetInsertPoint(run);
  }
  publish_count();
  Value* outcome = call_runtime(Symbols::execute, b_.getInt32Ty(), {warp_, b_.getInt32(inst_), bits_of(m)});
  if (may_block(in) || names_members(in)) leave_if(b_.CreateICmpEQ(outcome, b_.getInt32(exec::RuntimeCalls::kMustWait)), true);
  check_fault(outcome);
  if (guard_) {
    b_.CreateBr(skip);
    b_.SetInsertPoint(skip);
  }
  for (uint32_t r : written) {
    Value* guard = guard_;
    guard_ = nullptr;  // lanes that are held back have their old values in the frame
    Value* v;
    if (width_of_reg(r) < 32 && !is_qword(r) && !full_) v = first_lane_from_frame(r, m);
    else v = load_from_frame(r);
    if (guard && !kept_.empty()) guard_ = guard;
    define_reg(r, v);
    guard_ = guard;
  }
}

/// A uniform result is valid in the lanes that executed only: take it from the first of these.
llvm::Value* Emitter::first_lane_from_frame(uint32_t reg, Value* m) {
  const int width = width_of_reg(reg);
  Value* bits = bits_of(m);
  bits = b_.CreateSelect(b_.CreateICmpEQ(bits, b_.getInt32(0)), b_.getInt32(1), bits);  // none: old values, in every lane
  auto first = [&](Value* chunk_bits) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, chunk_bits, b_.getTrue());
  };
  Value* at = frame_place(reg);
  if (is_pred(reg)) {
    Value* v = b_.CreateLoad(b_.getInt32Ty(), at);
    return b_.CreateTrunc(b_.CreateLShr(v, first(bits)), b_.getInt1Ty());
  }
  auto* t = plan_.program.regs[reg].kind == lower::RegKind::word ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* v = llvm::PoisonValue::get(wide(t, width));
  for (int c = 0; c < width; c++) {
    const uint32_t chunk = width == 1 ? ~0u : ((1u << (32 / width)) - 1) << (c * 32 / width);
    Value* in_chunk = b_.CreateAnd(bits, b_.getInt32(chunk));
    Value* lane = first(b_.CreateSelect(b_.CreateICmpEQ(in_chunk, b_.getInt32(0)), bits, in_chunk));
    Value* one = b_.CreateLoad(t, b_.CreateInBoundsGEP(t, at, b_.CreateZExt(lane, b_.getInt64Ty())));
    v = width == 1 ? one : b_.CreateInsertElement(v, one, uint64_t(c));
  }
  return fit(v, element_of_reg(reg));
}

}  // namespace orrery::jit
