// timing/pieces.cc: what a PTX instruction becomes where there is no assembler to ask: the classes of its machine
// instructions, in order. Counts are those of ptxas 13.0 on sm_90a for the same instructions, seen in calib/steps and in
// docs/timing.md; moves, address conversions and parameters cost nothing, as they do there.
// Not here: their order and their waits (stand_in.cc).
#include "timing/stand_in.h"

namespace orrery::timing {

namespace {

using isa::Mod;
using isa::Op;
using isa::Space;
using List = std::vector<Class>;

List times(size_t n, Class c) { return List(n, c); }
List chain(std::initializer_list<std::pair<size_t, Class>> parts) {
  List out;
  for (const auto& [n, c] : parts) out.insert(out.end(), n, c);
  return out;
}

/// Arithmetic on one type: floats of each width, and integers by how many registers they take.
List arithmetic(const isa::Form& f) {
  const isa::Type t = f.type();
  if (isa::is_float(t)) {
    if (isa::bits_of(t) == 64) return {Class::fp64};
    return {isa::bits_of(t) == 32 && f.op != Op::min && f.op != Op::max ? Class::fma : isa::bits_of(t) == 32 ? Class::alu : Class::half};
  }
  return times(isa::bits_of(t) == 64 ? 2 : 1, Class::alu);
}

List product(const isa::Form& f) {
  if (isa::is_float(f.type())) return arithmetic(f);
  if (f.has(Mod::wide) || f.has(Mod::hi)) return isa::bits_of(f.type()) == 64 ? times(4, Class::imad_wide) : List{Class::imad_wide};
  return isa::bits_of(f.type()) == 64 ? List{Class::imad_wide, Class::imad, Class::imad} : List{Class::imad};
}

List division(const isa::Form& f) {
  const int bits = isa::bits_of(f.type());
  if (!isa::is_float(f.type())) return bits == 64 ? chain({{4, Class::xu}, {30, Class::imad_wide}, {36, Class::alu}}) : chain({{3, Class::xu}, {7, Class::imad}, {8, Class::alu}});
  if (bits == 64) return chain({{1, Class::xu}, {9, Class::fp64}, {3, Class::alu}});
  if (f.has(Mod::approx) || f.has(Mod::full)) return chain({{1, Class::alu}, {1, Class::xu}, {3, Class::fma}});
  return chain({{2, Class::xu}, {7, Class::fma}, {1, Class::branch}});
}

/// Reciprocals, roots, exponentials and the like.
List special(const isa::Form& f) {
  if (isa::bits_of(f.type()) == 64) return chain({{1, Class::xu}, {8, Class::fp64}, {3, Class::alu}});
  if (f.has(Mod::rn) || f.has(Mod::rz)) return chain({{1, Class::xu}, {5, Class::fma}, {2, Class::alu}, {1, Class::branch}});
  if (f.op == Op::sin || f.op == Op::cos) return {Class::fma, Class::xu};
  if (f.has(Mod::ftz) || isa::bits_of(f.type()) == 16) return {Class::xu};
  return {Class::alu, Class::fma, Class::xu, Class::fma};  // with the scaling of small arguments
}

List conversion(const isa::Form& f) {
  const isa::Type to = f.type(0), from = f.type(f.n_types > 1 ? 1 : 0);
  const int to_bits = isa::bits_of(to), from_bits = isa::bits_of(from);
  if (isa::is_float(to) != isa::is_float(from)) return to_bits <= 32 && from_bits <= 8 ? List{Class::alu, Class::alu} : List{Class::xu};
  if (!isa::is_float(to)) return to_bits < 32 ? List{Class::alu} : to_bits == 64 && from_bits < 64 && isa::class_of(from) == isa::TypeClass::sint ? List{Class::alu} : List{};
  if (to_bits == 64 || from_bits == 64 || to_bits == from_bits) return {Class::xu};
  return {from_bits == 32 ? Class::alu : Class::half};
}

List memory(const ptx::Instr& in, Class global, Class shared, Class local) {
  switch (in.form.n_spaces ? in.form.space() : Space::none) {
    case Space::param: case Space::param_entry: case Space::param_func: return {};
    case Space::const_: return {Class::constant};
    case Space::shared: case Space::shared_cta: case Space::shared_cluster: return {shared};
    case Space::local: return {local};
    default: return {global};
  }
}

List logic(const isa::Form& f) { return times(isa::bits_of(f.type()) == 64 ? 2 : 1, Class::alu); }

List of_sreg(const ptx::Instr& in) {  // sizes of grid and block are constants
  for (const ptx::Operand& o : in.ops)
    if (o.kind == ptx::OperandKind::sreg) return {Class::special_register};
  return {};
}

List of_asynchronous(const ptx::Instr& in) {
  switch (in.form.op) {
    case Op::cp_async: return {Class::copy_async};
    case Op::cp_async_commit_group: case Op::cp_async_bulk_commit_group: return {Class::async_group};
    case Op::cp_async_wait_group: case Op::cp_async_wait_all: case Op::cp_async_bulk_wait_group: return {Class::depbar};
    case Op::cp_async_bulk: case Op::cp_reduce_async_bulk: case Op::cp_async_bulk_prefetch: return chain({{4, Class::uniform}, {1, Class::bulk_copy}});
    case Op::cp_async_bulk_tensor: case Op::cp_reduce_async_bulk_tensor: case Op::cp_async_bulk_prefetch_tensor: return chain({{5, Class::uniform}, {1, Class::tensor_copy}});
    case Op::mbarrier_init: case Op::mbarrier_inval: case Op::mbarrier_expect_tx: case Op::mbarrier_complete_tx: case Op::mbarrier_arrive: case Op::mbarrier_arrive_drop:
    case Op::mbarrier_test_wait: case Op::mbarrier_try_wait: case Op::cp_async_mbarrier_arrive: case Op::st_async: case Op::red_async: return {Class::mbarrier};
    case Op::wmma_load: case Op::wmma_store: {
      const bool store = in.form.op == Op::wmma_store;
      const List one = memory(in, store ? Class::store : Class::load, store ? Class::shared_store : Class::shared_load, Class::load);
      return chain({{4, Class::alu}, {4, one.empty() ? Class::load : one[0]}});
    }
    case Op::wmma_mma: return times(2, Class::hmma);
    case Op::mma: case Op::mma_sp: return {isa::bits_of(in.form.type()) == 64 ? Class::dmma : isa::is_float(in.form.type()) ? Class::hmma : Class::imma};
    case Op::ldmatrix: return {Class::matrix_load};
    case Op::stmatrix: return {Class::shared_store};
    case Op::movmatrix: return {Class::matrix_move};
    case Op::wgmma_mma_async: case Op::wgmma_mma_async_sp: return chain({{2, Class::uniform}, {1, Class::wgmma}});
    case Op::wgmma_fence: case Op::wgmma_wait_group: return {Class::warpgroup};
    case Op::wgmma_commit_group: return {};
    default: return {Class::alu};
  }
}

List of_warp(const ptx::Instr& in) {
  switch (in.form.op) {
    case Op::shfl: return {Class::shuffle};
    case Op::vote: case Op::activemask: return {Class::vote};
    case Op::match: return {Class::match};
    case Op::redux: return {Class::redux};
    case Op::bar: case Op::barrier: return {Class::barrier};
    case Op::barrier_cluster: return {Class::cluster_barrier};
    case Op::membar: case Op::fence: return {Class::fence};
    case Op::bra: case Op::brx: return {Class::branch};
    case Op::ret: case Op::exit: return {Class::exit};
    case Op::call: return times(2, Class::control);
    case Op::nanosleep: return {Class::sleep};
    case Op::bar_warp: case Op::setmaxnreg: case Op::griddepcontrol: case Op::trap: case Op::nop: return {Class::control};
    case Op::tex: case Op::tld4: case Op::suld: case Op::sust: return {Class::texture};
    case Op::txq: case Op::suq: return {Class::special_register};
    case Op::sured: return {Class::atomic};
    default: return of_asynchronous(in);
  }
}

}  // namespace

List pieces_of(const ptx::Instr& in) {
  const isa::Form& f = in.form;
  switch (f.op) {
    case Op::mov: return of_sreg(in);
    case Op::cvta: case Op::isspacep: case Op::abs: case Op::neg: return isa::is_float(f.type()) || f.op == Op::cvta ? List{} : List{Class::alu};
    case Op::add: case Op::sub: case Op::min: case Op::max: case Op::fma: case Op::addc: case Op::subc: return arithmetic(f);
    case Op::mul: case Op::mad: return product(f);
    case Op::mul24: case Op::mad24: case Op::dp4a: case Op::dp2a: return {Class::imad};
    case Op::div: case Op::rem: return division(f);
    case Op::rcp: case Op::sqrt: case Op::rsqrt: case Op::sin: case Op::cos: case Op::lg2: case Op::ex2: case Op::tanh: return special(f);
    case Op::popc: case Op::clz: case Op::brev: case Op::bfind: return {Class::xu};
    case Op::bfe: return times(2, Class::alu);
    case Op::bfi: return times(3, Class::alu);
    case Op::and_: case Op::or_: case Op::xor_: case Op::not_: case Op::selp: case Op::lop3: return logic(f);
    case Op::shl: case Op::shr: case Op::shf: return logic(f);
    case Op::setp: case Op::set: return isa::is_float(f.type(f.n_types - 1)) ? arithmetic(f) : logic(f);
    case Op::cvt: return conversion(f);
    case Op::ld: case Op::ldu: return memory(in, Class::load, Class::shared_load, Class::local_load);
    case Op::st: return memory(in, Class::store, Class::shared_store, Class::local_store);
    case Op::atom: case Op::red: return memory(in, Class::atomic, Class::shared_atomic, Class::atomic);
    default: return of_warp(in);
  }
}

}  // namespace orrery::timing
