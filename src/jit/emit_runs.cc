// jit/emit_runs.cc: loads of 2 or 4 neighbouring words by every lane at an address of its own. See emitter.h.
//
// A gather costs the same for 32 words however near they are to others that the lanes want. Here a lane's neighbouring
// words come with one load, and a transposition gives each word its vector:
//
//   2 words   one gather of 64-bit elements, split
//   4 words   a 128-bit load per lane, then 4 x 4 transpositions        (15 ns for 4 x 32 words; four gathers: 55 ns)
//
// The words are those of a vector load (ld.v2, ld.v4), or of several loads through one base register with nothing in
// between that could change memory: an unrolled loop over a row, the members of a struct. Of these the first loads for
// all; the others find their values in Emitter::loaded_early_.
// Invariant: no byte is read that does not lie between two that the program reads.
#include <algorithm>

#include "isa/row.h"
#include "jit/emitter.h"
#include "jit/memory_access.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using llvm::FixedVectorType;
using llvm::Value;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr int kWord = 4;

bool ordinary(const isa::Form& f) {
  return !f.has(Mod::volatile_) && !f.has(Mod::relaxed) && !f.has(Mod::acquire) && !f.has(Mod::mmio);
}

bool may_change_memory(const Instr& in) {
  if (in.form.op == Op::ld || in.form.op == Op::ldu) return !ordinary(in.form);
  return (isa::row(in.form.row).effects & 0xffff) != 0;
}

}  // namespace

/// The unguarded one-word loads from here on through this base, before anything changes it or memory.
std::vector<std::pair<uint32_t, int64_t>> MemoryAccess::neighbours() const {
  std::vector<std::pair<uint32_t, int64_t>> out;
  const lower::Node& node = e_.schedule_.nodes[e_.node_];
  for (uint32_t i = e_.inst_; i < node.last; i++) {
    const Instr& in = e_.plan_.program.code[i];
    if (may_change_memory(in)) break;
    const Operand& o = in.ops.size() > 1 ? in.ops[1] : address_;
    if (in.form.op == Op::ld && in.guard.reg == ptx::kNoReg && o.kind == OperandKind::address && o.base == ptx::BaseKind::reg &&
        o.id == address_.id && in.form.vec <= 1 && isa::bytes_of(in.form.type()) == kWord && in.ops[0].kind == OperandKind::reg &&
        in.form.n_spaces == in_.form.n_spaces && (!in.form.n_spaces || in.form.space() == in_.form.space()))
      out.emplace_back(i, o.value);
    bool rewritten = false;
    lower::for_registers(in, [&](uint32_t r) { rewritten |= r == address_.id; }, [](uint32_t) {});
    if (rewritten) break;
  }
  return out;
}

/// The window of 4 (else 2) words around this access that serves most loads: its first byte and how many words.
std::pair<int64_t, int> MemoryAccess::best_window(const std::vector<std::pair<uint32_t, int64_t>>& loads) const {
  int64_t low = address_.value, high = address_.value;
  for (const auto& [inst, at] : loads)
    if ((at - address_.value) % kWord == 0) low = std::min(low, at), high = std::max(high, at);
  std::pair<int64_t, int> best{address_.value, 1};
  long most = 1;
  for (int words : {4, 2})
    for (int64_t from = address_.value - (words - 1) * kWord; from <= address_.value; from += kWord) {
      if (from < low || from + words * kWord > high + kWord) continue;
      const long n = std::count_if(loads.begin(), loads.end(), [&](const auto& l) {
        return l.second >= from && l.second < from + words * kWord && (l.second - from) % kWord == 0;
      });
      if (n > most) most = n, best = {from, words};
    }
  return best;
}

constexpr size_t kMostApart = 3;

bool MemoryAccess::load_run() {
  if (e_.checked_ || e_.guard_ || bytes_ != kWord || !ordinary(in_.form) || address_.base != ptx::BaseKind::reg) return false;
  size_t apart = 0;  // each place where lanes wait is written out at every way to leave
  e_.schedule_.nodes[e_.node_].waiting.each([&](uint32_t) { apart++; });
  if (apart > kMostApart) return false;
  std::vector<std::pair<uint32_t, int64_t>> loads;
  std::pair<int64_t, int> window{address_.value, vector_};
  if (vector_ == 1) loads = neighbours(), window = best_window(loads);
  const auto [from, words] = window;
  if (words != 2 && words != 4) return false;
  Value *m = e_.exec_mask(), *at = address(32);
  e_.leave_if(e_.any(b_.CreateAnd(outside(at, from - address_.value, words * kWord), m)));
  note();
  if (shared_)
    at = b_.CreateAdd(b_.CreateZExt(at, e_.wide(b_.getInt64Ty(), 32)), e_.widen(b_.CreatePtrToInt(e_.shared_, b_.getInt64Ty()), 32));
  at = b_.CreateAdd(at, llvm::ConstantInt::get(at->getType(), uint64_t(from - address_.value), true));
  const std::vector<Value*> values = words == 2 ? load_pairs(at, m) : load_quads(at, m);
  if (vector_ > 1) {
    for (int k = 0; k < vector_; k++) define(k, values[size_t(k)]);
    return true;
  }
  for (const auto& [inst, value] : loads)
    if (value >= from && value < from + words * kWord && (value - from) % kWord == 0)
      e_.loaded_early_[inst] = values[size_t((value - from) / kWord)];
  define(0, e_.loaded_early_.at(e_.inst_));
  return true;
}

std::vector<Value*> MemoryAccess::load_pairs(Value* at, Value* m) {
  auto *pairs = e_.wide(b_.getInt64Ty(), 32), *words = e_.wide(b_.getInt32Ty(), 32);
  Value* p = b_.CreateIntToPtr(at, e_.wide(b_.getPtrTy(), 32));
  Value* v = b_.CreateMaskedGather(pairs, p, llvm::Align(kWord), m, llvm::PoisonValue::get(pairs));
  return {b_.CreateTrunc(v, words), b_.CreateTrunc(b_.CreateLShr(v, 32), words)};
}

/// Lanes that are off load where the first that is on does.
std::vector<Value*> MemoryAccess::load_quads(Value* at, Value* m) {
  if (!all_) {
    Value* first = b_.CreateAnd(b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, e_.bits_of(m), b_.getFalse()), b_.getInt32(31));
    at = b_.CreateSelect(m, at, e_.widen(b_.CreateExtractElement(at, first), 32));
  }
  Value* addresses = e_.scratch(256, 0);
  // Volatile: the addresses are to come back one by one from memory, which is cheaper than from the vector.
  b_.CreateAlignedStore(at, addresses, llvm::Align(64))->setVolatile(true);
  auto* quad = FixedVectorType::get(b_.getInt32Ty(), 4);
  std::vector<Value*> lanes;
  for (uint64_t i = 0; i < 32; i++) {
    auto* a = b_.CreateAlignedLoad(b_.getInt64Ty(), e_.field(addresses, i * 8), llvm::Align(8));
    a->setVolatile(true);
    lanes.push_back(b_.CreateAlignedLoad(quad, b_.CreateIntToPtr(a, b_.getPtrTy()), llvm::Align(kWord)));
  }
  std::vector<std::vector<Value*>> parts(4);
  for (size_t g = 0; g < 32; g += 16) {
    Value* row[4];
    for (size_t k = 0; k < 4; k++) row[k] = join({lanes[g + k], lanes[g + 4 + k], lanes[g + 8 + k], lanes[g + 12 + k]});
    auto interleave = [&](Value* x, Value* y, std::initializer_list<int> pick) {  // within each 4 words; 4.. is y
      llvm::SmallVector<int, 16> index;
      for (int q = 0; q < 16; q += 4)
        for (int i : pick) index.push_back(i < 4 ? q + i : 16 + q + i - 4);
      return b_.CreateShuffleVector(x, y, index);
    };
    Value *low01 = interleave(row[0], row[1], {0, 4, 1, 5}), *high01 = interleave(row[0], row[1], {2, 6, 3, 7});
    Value *low23 = interleave(row[2], row[3], {0, 4, 1, 5}), *high23 = interleave(row[2], row[3], {2, 6, 3, 7});
    parts[0].push_back(interleave(low01, low23, {0, 1, 4, 5}));
    parts[1].push_back(interleave(low01, low23, {2, 3, 6, 7}));
    parts[2].push_back(interleave(high01, high23, {0, 1, 4, 5}));
    parts[3].push_back(interleave(high01, high23, {2, 3, 6, 7}));
  }
  std::vector<Value*> out;
  for (auto& p : parts) out.push_back(join(p));
  return out;
}

}  // namespace orrery::jit
