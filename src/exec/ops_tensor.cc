// exec/ops_tensor.cc: matrix instructions of one warp: mma, wmma, ldmatrix, stmatrix, movmatrix. Handlers find the
// operands; sem/tensor.h computes.
//
// Invariant: all live lanes of the warp are at the instruction (they wait for each other, as .sync says).
// Not here: wgmma (ops_wgmma.cc). Source: PTX ISA manual, warp level matrix instructions.
#include "exec/async.h"
#include "exec/interpreter.h"
#include "exec/tensor_operands.h"
#include "sem/tensor.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

constexpr int kMaxOperands = 40;
constexpr uint32_t kRowBytes = 16;

Space space_of(const isa::Form& f) { return f.n_spaces ? f.space() : Space::none; }

Next op_mma(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  void* to[kMaxOperands];
  const void* from[kMaxOperands];
  for (int i = 0; i < d.n_dst; i++) to[i] = s.frame + s.ref(d, i).offset;
  for (int i = 0; i < d.n_src; i++) from[i] = s.source(s.ref(d, d.n_dst + i), i);
  sem::run_mma(d.instr->form, to, from, numerics_of(s));
  return Next::next;
}

/// The rows that lanes 0 to n - 1 name; false after a fault was recorded.
bool find_rows(Stepper& s, const Decoded& d, uint8_t** rows, bool write) {
  const AddressRef& a = s.code->addresses[d.address];
  const Space space = space_of(d.instr->form);
  const int n = sem::matrix_rows(d.instr->form);
  for (int lane = 0; lane < n; lane++) {
    std::byte* p = translate(s, space, s.address(a, lane), kRowBytes, kRowBytes, lane, write);
    if (!p) return false;
    rows[lane] = reinterpret_cast<uint8_t*>(p);
  }
  return true;
}

Next op_ldmatrix(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  uint8_t* rows[32] = {};
  if (!find_rows(s, d, rows, false)) return Next::fault;
  void* to[8];
  for (int i = 0; i < d.n_dst; i++) to[i] = s.frame + s.ref(d, i).offset;
  sem::run_ldmatrix(d.instr->form, to, rows);
  return Next::next;
}

Next op_stmatrix(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  uint8_t* rows[32] = {};
  if (!find_rows(s, d, rows, true)) return Next::fault;
  const void* from[8];
  for (int i = 0; i < d.n_src; i++) from[i] = s.source(s.ref(d, i), i);
  sem::run_stmatrix(d.instr->form, from, rows);
  return Next::next;
}

Next op_movmatrix(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  sem::run_movmatrix(s.frame + s.ref(d, 0).offset, s.source(s.ref(d, 1), 0));
  return Next::next;
}

/// The stride operand, or without one the matrix's own rows (columns) one after the other.
uint32_t stride_of(Stepper& s, const Decoded& d, int ref, bool has) {
  if (has) return uint32_t(scalar(s, s.ref(d, ref), std::countr_zero(s.mask)));
  const isa::Form& f = d.instr->form;
  const isa::Shape& z = f.shape;
  const bool row = f.has(Mod::row), is_store = f.op == Op::wmma_store;
  if (!is_store && f.has(Mod::a)) return row ? z.k : z.m;
  if (!is_store && f.has(Mod::b)) return row ? z.n : z.k;
  return row ? z.n : z.m;
}

/// Reports a whole matrix as rows (columns), one to a lane.
void report_matrix(Stepper& s, const Decoded& d, uint32_t stride, AccessKind kind) {
  if (!s.observer()) return;
  const isa::Form& f = d.instr->form;
  const isa::Shape& z = f.shape;
  const int bits = isa::bits_of(f.types[f.n_types - 1]);
  const uint32_t length = stride_of(s, d, 0, false);
  const bool load = kind == AccessKind::load;
  const uint32_t elements = load && f.has(Mod::a) ? uint32_t(z.m) * z.k : load && f.has(Mod::b) ? uint32_t(z.k) * z.n : uint32_t(z.m) * z.n;
  Access a;
  a.where = s.where();
  a.kind = kind;
  a.space = space_of(f);
  a.bytes = length * uint32_t(bits) / 8;
  const uint64_t first = s.address(s.code->addresses[d.address], std::countr_zero(s.mask));
  const uint32_t rows = std::min(32u, elements / length);
  for (uint32_t i = 0; i < rows; i++) a.address[i] = first + uint64_t{i} * stride * uint32_t(bits) / 8;
  if (rows < 32) a.where.mask &= (1u << rows) - 1;
  s.observer()->access(a);
}

Next op_wmma_load(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  const isa::Form& f = d.instr->form;
  const int lane = std::countr_zero(s.mask);
  const uint32_t stride = stride_of(s, d, d.n_dst, d.n_src > 0);
  const std::byte* p = translate(s, space_of(f), s.address(s.code->addresses[d.address], lane), uint32_t(sem::wmma_extent(f, stride)), 1, lane, false);
  if (!p) return Next::fault;
  void* to[kMaxOperands];
  for (int i = 0; i < d.n_dst; i++) to[i] = s.frame + s.ref(d, i).offset;
  report_matrix(s, d, stride, AccessKind::load);
  sem::run_wmma_load(f, to, reinterpret_cast<const uint8_t*>(p), stride);
  return Next::next;
}

Next op_wmma_store(Stepper& s, const Decoded& d) {
  if (!gathered(s, ~0u)) return Next::regroup;
  const isa::Form& f = d.instr->form;
  const int lane = std::countr_zero(s.mask), n = int(d.instr->ops[1].parts.size());
  const uint32_t stride = stride_of(s, d, n, d.n_src > n);
  std::byte* p = translate(s, space_of(f), s.address(s.code->addresses[d.address], lane), uint32_t(sem::wmma_extent(f, stride)), 1, lane, true);
  if (!p) return Next::fault;
  const void* from[kMaxOperands];
  for (int i = 0; i < n; i++) from[i] = s.source(s.ref(d, i), i);
  report_matrix(s, d, stride, AccessKind::store);
  sem::run_wmma_store(f, from, reinterpret_cast<uint8_t*>(p), stride);
  return Next::next;
}

}  // namespace

Handler find_tensor_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::mma: case Op::mma_sp: case Op::wmma_mma: return sem::can_mma(form) ? op_mma : nullptr;
    case Op::ldmatrix: return sem::matrix_rows(form) ? op_ldmatrix : nullptr;
    case Op::stmatrix: return sem::matrix_rows(form) ? op_stmatrix : nullptr;
    case Op::movmatrix: return op_movmatrix;
    case Op::wmma_load: return op_wmma_load;
    case Op::wmma_store: return op_wmma_store;
    default: return find_wgmma_handler(form);
  }
}

}  // namespace orrery::exec
