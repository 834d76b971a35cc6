// exec/observed.cc: the handlers of an observed kernel: each reports its instruction and goes on to the ordinary one.
//
// An access is reported before it happens (it may fault); where lanes must first meet (ldmatrix, wmma) it is reported
// when they have met, with the addresses that they had before. See observer.h.
#include <algorithm>

#include "exec/async.h"
#include "exec/observed.h"
#include "exec/observer.h"
#include "exec/stepper.h"
#include "exec/texel_watch.h"
#include "sem/tensor.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;

namespace {

Scope scope_of(const isa::Form& f) {
  if (f.has(Mod::sys)) return Scope::sys;
  if (f.has(Mod::gpu) || f.has(Mod::gl)) return Scope::gpu;
  if (f.has(Mod::cluster)) return Scope::cluster;
  if (f.has(Mod::cta)) return Scope::cta;
  return Scope::none;
}

Order order_of(const isa::Form& f) {
  if (f.has(Mod::acq_rel)) return Order::acq_rel;
  if (f.has(Mod::acquire)) return Order::acquire;
  if (f.has(Mod::release)) return Order::release;
  if (f.has(Mod::relaxed) || f.has(Mod::volatile_) || f.has(Mod::mmio)) return Order::relaxed;
  return Order::weak;
}

Space space_of(const isa::Form& f, const AddressRef& a) {
  const Space s = f.n_spaces ? f.space() : Space::none;
  const bool param = s == Space::param || s == Space::param_entry || s == Space::param_func;
  return param && a.local_frame ? Space::local : s;
}

bool is_atomic(Op op) { return op == Op::atom || op == Op::red; }

/// What the instruction's name says of its access; atomics without words are relaxed at the scope of the GPU.
void describe(const isa::Form& f, Access& a) {
  a.order = order_of(f);
  a.scope = scope_of(f);
  a.volatile_ = f.has(Mod::volatile_);
  a.proxy_read_only = f.has(Mod::nc);
  if (a.volatile_ || f.has(Mod::mmio)) a.scope = Scope::sys;
  if (!is_atomic(f.op)) return;
  if (a.order == Order::weak) a.order = Order::relaxed;
  if (a.scope == Scope::none) a.scope = Scope::gpu;
}

void fill_addresses(Stepper& s, const Decoded& d, Access& a) {
  const AddressRef& at = s.code->addresses[d.address];
  a.where = s.where();
  a.space = space_of(d.instr->form, at);
  for_lanes(s.mask, [&](int lane) { a.address[lane] = s.address(at, lane); });
}

void fill_values(Stepper& s, const Decoded& d, int first, Access& a) {
  if (d.n_src == 0) return;
  const Ref& r = s.ref(d, first);
  const void* p = s.source(r, 0);
  a.has_value = true;
  for_lanes(s.mask, [&](int lane) {
    a.value[lane] = r.want >= 64 ? static_cast<const uint64_t*>(p)[lane] : static_cast<const uint32_t*>(p)[lane];
  });
}

/// A plain load or store of `elements` by each lane, but for its values.
Access plain_access(Stepper& s, const Decoded& d, AccessKind kind, uint32_t elements) {
  const isa::Form& f = d.instr->form;
  Access a;
  a.kind = kind;
  a.bytes = uint32_t(isa::bytes_of(f.type())) * elements;
  a.align = std::min(a.bytes, 32u);
  describe(f, a);
  fill_addresses(s, d, a);
  return a;
}

Next observed_load(Stepper& s, const Decoded& d) {
  const Access a = plain_access(s, d, AccessKind::load, d.n_dst);
  if (s.observer()) s.observer()->access(a);
  return d.inner(s, d);
}

Next observed_store(Stepper& s, const Decoded& d) {
  Access a = plain_access(s, d, AccessKind::store, d.n_src);
  fill_values(s, d, 0, a);
  if (s.observer()) s.observer()->access(a);
  return d.inner(s, d);
}

Next observed_atomic(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  Access a;
  a.kind = f.op == Op::red ? AccessKind::reduction : AccessKind::atomic;
  a.bytes = uint32_t(isa::bytes_of(f.types[f.n_types - 1])) * std::max<uint32_t>(1, f.vec);
  a.align = a.bytes;
  describe(f, a);
  fill_addresses(s, d, a);
  fill_values(s, d, d.n_dst, a);
  if (s.observer()) s.observer()->access(a);
  return d.inner(s, d);
}

/// ldmatrix, stmatrix: a lane's access is the row whose address it gives.
Next observed_matrix(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  Access a;
  a.kind = f.op == Op::stmatrix ? AccessKind::store : AccessKind::load;
  a.bytes = a.align = 16;
  fill_addresses(s, d, a);
  const int rows = sem::matrix_rows(f);
  if (rows < 32) a.where.mask &= (1u << rows) - 1;
  const Next next = d.inner(s, d);
  if (s.observer() && next == Next::next) s.observer()->access(a);
  return next;
}

/// Textures and surfaces: an access of a lane for every texel.
struct Texels : TexelWatch {
  Stepper& s;
  Access access;
  explicit Texels(Stepper& stepper) : s(stepper) { texel_watch() = this; }
  ~Texels() { texel_watch() = nullptr; }
  void touch(uint64_t address, uint32_t bytes) override {
    access.where = s.where();
    access.where.mask = 1u << lane;
    access.bytes = bytes;
    access.address[lane] = address;
    s.observer()->access(access);
  }
};

Next observed_texels(Stepper& s, const Decoded& d) {
  if (!s.observer()) return d.inner(s, d);
  Texels texels(s);
  const Op op = d.instr->form.op;
  texels.access.kind = op == Op::sust ? AccessKind::store : op == Op::sured ? AccessKind::reduction : AccessKind::load;
  texels.access.space = Space::global;
  texels.access.proxy_read_only = op == Op::tex || op == Op::tld4;
  if (op == Op::sured) texels.access.order = Order::relaxed, texels.access.scope = Scope::gpu;
  return d.inner(s, d);
}

/// Lanes that each name the members of their exchange.
Next observed_warp(Stepper& s, const Decoded& d) {
  Observer* o = s.observer();
  if (!o) return d.inner(s, d);
  uint32_t members[32];
  std::memcpy(members, s.source(s.ref(d, d.n_dst + d.n_src - 1), 7), sizeof members);
  Where where = s.where();
  o->warp_arrive(where, members);
  const uint32_t before = s.mask;
  const Next next = d.inner(s, d);
  uint32_t done = next == Next::next ? before : 0;
  // Some sets of members were complete and have gone on, the others wait.
  if (next == Next::regroup && s.group && s.group->state == GroupState::ready && s.group->pc == s.pc + 1) done = before & s.group->mask;
  while (done) {
    const uint32_t named = members[std::countr_zero(done)];
    uint32_t set = 0;
    for_lanes(done, [&](int l) { set |= uint32_t(members[l] == named) << l; });
    done &= ~set;
    where.mask = set;
    o->warp_sync(where, named);
  }
  return next;
}

/// Matrix instructions, which the whole warp executes.
Next observed_aligned(Stepper& s, const Decoded& d) {
  static constexpr auto kAll = [] {
    std::array<uint32_t, 32> all{};
    all.fill(~0u);
    return all;
  }();
  if (Observer* o = s.observer()) o->warp_arrive(s.where(), kAll.data());
  return d.inner(s, d);
}

Next observed_instruction(Stepper& s, const Decoded& d) {
  const Where where = s.where();
  const Next next = d.inner(s, d);
  if (Observer* o = s.observer(); o && next == Next::next) o->instruction(where);
  return next;
}

/// Lanes whose operand has a NaN or Inf, as the type in which the instruction reads it.
uint32_t special_lanes(Stepper& s, const Ref& r, Type type) {
  if (r.want == 1) return 0;
  const void* p = s.source(r, 6);
  uint32_t found = 0;
  for_lanes(s.mask, [&](int l) {
    const uint64_t v = r.want >= 64 ? static_cast<const uint64_t*>(p)[l] : static_cast<const uint32_t*>(p)[l];
    found |= uint32_t(is_special(type, v)) << l;
  });
  return found;
}

Next observed_result(Stepper& s, const Decoded& d) {
  if (!s.observer()) return d.inner(s, d);
  const isa::Form& f = d.instr->form;
  const Type type = f.op == Op::cvt ? f.types[f.n_types - 1] : f.type();
  uint32_t special = 0;
  for (int i = 0; i < d.n_src; i++) special |= special_lanes(s, s.ref(d, d.n_dst + i), type);
  const Where where = s.where();
  const Next next = d.inner(s, d);
  s.observer()->computed(where, special);
  return next;
}

/// Uses of registers that a wgmma of the kernel owns for a time.
Next observed_registers(Stepper& s, const Decoded& d) {
  if (Observer* o = s.observer()) o->registers(s.where());
  return d.inner(s, d);
}

template <class F>
bool any_register(const ptx::Operand& o, F f) {
  if (o.kind == ptx::OperandKind::reg || (o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg))
    if (f(o.id)) return true;
  return std::any_of(o.parts.begin(), o.parts.end(), [&](const ptx::Operand& p) { return any_register(p, f); });
}

Handler memory_handler(const Decoded& d) {
  const isa::Form& f = d.instr->form;
  if (d.address < 0) return nullptr;
  const bool param = f.n_spaces && (f.space() == Space::param || f.space() == Space::param_entry);
  switch (f.op) {
    case Op::ld: case Op::ldu: return param ? nullptr : observed_load;
    case Op::st: return param ? nullptr : observed_store;
    case Op::atom: case Op::red: return observed_atomic;
    case Op::ldmatrix: case Op::stmatrix: return observed_matrix;
    case Op::tex: case Op::tld4: case Op::suld: case Op::sust: case Op::sured: return observed_texels;
    default: return nullptr;
  }
}

Handler sync_handler(const Decoded& d) {
  const isa::Form& f = d.instr->form;
  switch (f.op) {
    case Op::shfl: case Op::vote: return f.has(Mod::sync) ? observed_warp : nullptr;
    case Op::match: case Op::redux: case Op::elect: case Op::bar_warp: return observed_warp;
    case Op::mma: case Op::mma_sp: case Op::wmma_mma: case Op::wmma_load: case Op::wmma_store: case Op::movmatrix:
    case Op::wgmma_mma_async: case Op::wgmma_mma_async_sp:
      return observed_aligned;
    case Op::fence: case Op::membar: case Op::cp_async_commit_group: case Op::cp_async_wait_group: case Op::cp_async_wait_all:
    case Op::cp_async_bulk_commit_group: case Op::cp_async_bulk_wait_group: case Op::wgmma_fence: case Op::wgmma_commit_group:
    case Op::wgmma_wait_group: case Op::griddepcontrol: case Op::setmaxnreg:
      return observed_instruction;
    default: return nullptr;
  }
}

/// Computations with a floating-point result.
bool makes_float(const Decoded& d) {
  if (!d.pure || d.n_dst != 1) return false;
  const isa::Form& f = d.instr->form;
  if (f.op == Op::mov || f.op == Op::selp || f.op == Op::setp || f.op == Op::testp) return false;
  const isa::TypeClass c = isa::class_of(f.type());
  return c == isa::TypeClass::flt || c == isa::TypeClass::packed;
}

}  // namespace

void observe_wgmma_registers(DecodedProgram& p) {
  std::vector<bool> owned(p.program->regs.size());
  bool some = false;
  const auto is_wgmma = [](const Decoded& d) { return d.instr->form.op == Op::wgmma_mma_async || d.instr->form.op == Op::wgmma_mma_async_sp; };
  for (const Decoded& d : p.code)
    for (size_t i = 0; i < 2 && is_wgmma(d); i++)
      if (d.instr->ops[i].kind == ptx::OperandKind::vec) some |= any_register(d.instr->ops[i], [&](uint32_t r) { return owned[r] = true, false; }) || true;
  if (!some) return;
  for (Decoded& d : p.code) {
    if (d.inner || is_wgmma(d)) continue;
    const auto& ops = d.instr->ops;
    if (!std::any_of(ops.begin(), ops.end(), [&](const ptx::Operand& o) { return any_register(o, [&](uint32_t r) { return r < owned.size() && owned[r]; }); })) continue;
    d.inner = d.run;
    d.run = observed_registers;
  }
}

Handler find_observed_handler(const Decoded& d, unsigned observe) {
  if (observe & kObserveMemory)
    if (Handler h = memory_handler(d)) return h;
  if (observe & kObserveSync)
    if (Handler h = sync_handler(d)) return h;
  return (observe & kObserveValues) && makes_float(d) ? observed_result : nullptr;
}

std::vector<uint8_t> observed_instructions(const lower::Program& program, unsigned observe) {
  const std::shared_ptr<const lower::Program> borrowed(std::shared_ptr<void>(), &program);
  const std::shared_ptr<const DecodedProgram> decoded = decode(borrowed, observe);
  std::vector<uint8_t> out;
  for (const Decoded& d : decoded->code) out.push_back(d.inner != nullptr);
  return out;
}

}  // namespace orrery::exec
