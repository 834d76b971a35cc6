// exec/decode.cc: see decode.h.
#include "exec/decode.h"
#include "exec/observer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "base/error.h"
#include "exec/stepper.h"
#include "exec/tensor_operands.h"
#include "lower/flow.h"
#include "lower/in_flight.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Type;
using ptx::BaseKind;
using ptx::Operand;
using ptx::OperandKind;

namespace {

/// The type in which an instruction reads source operand `i` (counted after the destinations).
Type source_type(const isa::Form& f, int i) {
  const Type last = f.n_types ? f.types[f.n_types - 1] : Type::b32;
  switch (f.op) {
    case Op::shl: case Op::shr: return i == 1 ? Type::u32 : f.type();
    case Op::bfe: return i >= 1 ? Type::u32 : f.type();
    case Op::bfi: return i >= 2 ? Type::u32 : f.type();
    case Op::shf: case Op::prmt: case Op::lop3: case Op::fns: case Op::bmsk: case Op::szext: return Type::b32;
    case Op::slct: return i == 2 ? last : f.type();
    case Op::selp: return i == 2 ? Type::pred : f.type();
    case Op::setp: case Op::set: return i == 2 ? Type::pred : last;
    case Op::mad:
      if (f.has(Mod::wide) && i == 2) return isa::bits_of(f.type()) == 16 ? Type::b32 : Type::b64;
      return i == 3 ? Type::pred : f.type();
    case Op::addc: case Op::subc: return i == 2 ? Type::pred : f.type();
    case Op::madc: return i == 3 ? Type::pred : f.type();
    case Op::dp4a: case Op::dp2a: return Type::b32;
    case Op::match: return i == 1 ? Type::b32 : f.type();
    case Op::shfl: return Type::b32;
    case Op::vote: return i == 0 ? Type::pred : Type::b32;
    case Op::redux: return i == 1 ? Type::b32 : f.type();
    case Op::cvt: return i >= 1 && f.has(Mod::rs) ? Type::b32 : last;
    case Op::bar: case Op::barrier: return Type::u32;
    case Op::mbarrier_init: case Op::mbarrier_expect_tx: case Op::mbarrier_complete_tx: case Op::mbarrier_arrive:
    case Op::mbarrier_arrive_drop:
      return Type::u32;
    case Op::mbarrier_test_wait: case Op::mbarrier_try_wait:
      return i == 0 && !f.has(Mod::parity) ? Type::b64 : Type::u32;
    case Op::cp_async: case Op::cp_async_bulk: case Op::cp_reduce_async_bulk: case Op::cp_async_bulk_prefetch:
    case Op::cp_async_wait_group: case Op::cp_async_bulk_wait_group: case Op::nanosleep: case Op::setmaxnreg:
    case Op::wgmma_wait_group: case Op::elect: case Op::bar_warp:
      return Type::b32;
    case Op::mapa: return i == 1 ? Type::b32 : last;
    case Op::isspacep: case Op::alloca: return Type::u64;
    default: return last;
  }
}

/// The type of destination `i` of a pure instruction.
Type destination_type(const isa::Form& f, int i) {
  switch (f.op) {
    case Op::setp: case Op::testp: return Type::pred;
    case Op::popc: case Op::clz: case Op::bfind: return Type::u32;
    case Op::mul: case Op::mad:
      if (i == 1) return Type::pred;
      if (f.has(Mod::wide)) return isa::bits_of(f.type()) == 16 ? Type::b32 : Type::b64;
      return f.type();
    case Op::add: case Op::sub: case Op::addc: case Op::subc: case Op::madc:
      return i == 1 ? Type::pred : f.type();
    default: return f.type();
  }
}

int width_class(int bits) { return bits == 1 ? 1 : bits <= 32 ? 32 : bits <= 64 ? 64 : 128; }

uint64_t half_bits(float f) {
  const _Float16 h = static_cast<_Float16>(f);
  return std::bit_cast<uint16_t>(h);
}

uint64_t immediate_bits(const Operand& o, Type type) {
  if (!o.is_float) return uint64_t(o.value);
  const double d = o.float_bits == 32 ? double(std::bit_cast<float>(uint32_t(o.value))) : std::bit_cast<double>(o.value);
  if (type == Type::f64) return o.float_bits == 64 ? uint64_t(o.value) : std::bit_cast<uint64_t>(d);
  if (type == Type::f16) return half_bits(float(d));
  if (type == Type::bf16) return std::bit_cast<uint32_t>(float(d)) >> 16;
  if (isa::bits_of(type) == 64) return uint64_t(o.value);
  return o.float_bits == 32 ? uint64_t(uint32_t(o.value)) : std::bit_cast<uint32_t>(float(d));
}

class Decoder {
 public:
  Decoder(std::shared_ptr<const lower::Program> program, unsigned observe) : observe_(observe), out_(std::make_shared<DecodedProgram>()) {
    out_->program = std::move(program);
  }

  std::shared_ptr<const DecodedProgram> run() {
    const lower::Program& p = *out_->program;
    out_->block_start.assign(p.code.size() + 1, false);
    for (const lower::Block& b : p.blocks) out_->block_start[b.first] = true;
    for (const auto& table : p.branch_tables) {
      std::vector<uint32_t> pcs;
      for (uint32_t b : table) pcs.push_back(p.blocks[b].first);
      out_->tables.push_back(std::move(pcs));
    }
    out_->spin_edge.assign(p.code.size(), 0);
    for (uint32_t i = 0; i < p.code.size(); i++) decode(p.code[i], i);
    if (observe_ & kObserveSync) observe_wgmma_registers(*out_);
    if (p.is_entry) delay_wgmma();
    return out_;
  }

 private:
  bool same_destination(const Decoded& a, const Decoded& b) const {
    const auto offset = [&](const Decoded& d, uint32_t i) { return out_->refs[d.first_ref + i].offset; };
    if (!(a.instr->form == b.instr->form) || a.n_dst != b.n_dst) return false;
    for (uint32_t i = 0; i < a.n_dst; i++)
      if (offset(a, i) != offset(b, i)) return false;
    return true;
  }

  /// A copy of an accumulator in flight is no use of it: ptxas makes such kernels wait at once.
  void delay_wgmma() {
    const lower::InFlight flights = lower::find_in_flight(*out_->program);
    if (!flights.wgmmas || !(flights.apart() || (observe_ && flights.copied == UINT32_MAX))) return;
    std::vector<const Decoded*> kinds;
    for (Decoded& d : out_->code) {
      if (d.instr->form.op != Op::wgmma_mma_async && d.instr->form.op != Op::wgmma_mma_async_sp) continue;
      const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const Decoded* k) { return same_destination(*k, d); });
      d.extra = uint32_t(known - kinds.begin()) + 1;
      if (known == kinds.end()) kinds.push_back(&d);
    }
  }
  void decode(const ptx::Instr& in, uint32_t pc) {
    const lower::Program& p = *out_->program;
    Decoded d;
    d.instr = &in;
    if (in.guard.reg != ptx::kNoReg) {
      d.guard = p.regs[in.guard.reg].offset;
      d.guard_negated = in.guard.negated;
    }
    d.first_ref = uint32_t(out_->refs.size());
    if (in.form.op == Op::bra) {
      d.target = p.blocks[in.ops[0].id].first;
      if (d.target <= pc) {
        const lower::Block& header = p.blocks[in.ops[0].id];
        out_->spin_edge[pc] = header.may_spin ? 1 : 2;
      }
    } else if (in.form.op != Op::call) {
      add_operands(in, d);
    }
    choose(in, d);
    if (Handler observed = observe_ ? find_observed_handler(d, observe_) : nullptr) d.inner = d.run, d.run = observed;
    out_->code.push_back(d);
  }

  void add_operands(const ptx::Instr& in, Decoded& d) {
    const int n_dst = lower::destinations(in);
    int source = 0, dest = 0;
    for (int i = 0; i < int(in.ops.size()); i++) {
      const Operand& o = in.ops[i];
      if (o.kind == OperandKind::address) {
        add_address(o, d);
        for (const Operand& part : o.parts) add(part, false, in.form, 0, d);  // tensor coordinates: 32-bit
        continue;
      }
      const bool is_dst = i < n_dst;
      const int index = is_dst ? dest : source;
      if (o.kind == OperandKind::vec || o.kind == OperandKind::pair)
        for (const Operand& part : o.parts) add_part(part, is_dst, in, index, int(o.parts.size()), d);
      else if (o.kind != OperandKind::none && o.kind != OperandKind::prototype && o.kind != OperandKind::label)
        add(o, is_dst, in.form, index, d);
      ++(is_dst ? dest : source);
    }
  }

  void add_address(const Operand& o, Decoded& d) {
    AddressRef a;
    a.value = o.value;
    if (o.base == BaseKind::reg) a.base = register_ref(o.id);
    a.local_frame = o.base == BaseKind::local_var;
    if (d.address < 0) d.address = int32_t(out_->addresses.size());
    else d.extra++;  // a second address follows the first
    out_->addresses.push_back(a);
  }

  Ref register_ref(uint32_t reg) {
    const lower::Register& r = out_->program->regs[reg];
    static constexpr uint8_t kBits[] = {1, 32, 64, 128};
    Ref ref;
    ref.kind = RefKind::frame;
    ref.bits = kBits[int(r.kind)];
    ref.offset = r.offset;
    return ref;
  }

  void add(const Operand& o, bool is_dst, const isa::Form& f, int index, Decoded& d) {
    Ref ref;
    switch (o.kind) {
      case OperandKind::reg: ref = register_ref(o.id); break;
      case OperandKind::imm: ref = constant(immediate_bits(o, source_type(f, index)), source_type(f, index)); break;
      case OperandKind::sreg:
        ref.kind = RefKind::sreg;
        ref.offset = o.id;
        ref.value = o.value;
        ref.bits = uint8_t(width_class(isa::bits_of(source_type(f, index))));
        break;
      case OperandKind::local_var:
        ref.kind = RefKind::local_address;
        ref.value = o.value;
        ref.bits = uint8_t(width_class(isa::bits_of(source_type(f, index))));
        break;
      case OperandKind::sink: ref.kind = RefKind::sink; break;
      default: return;
    }
    ref.negated = o.negated;
    ref.selector = o.selector;
    if (ref.kind == RefKind::frame || ref.kind == RefKind::sreg || ref.kind == RefKind::local_address)
      ref.want = uint8_t(width_class(isa::bits_of(is_dst ? destination_type(f, index) : source_type(f, index))));
    else
      ref.want = ref.bits;
    out_->refs.push_back(ref);
    ++(is_dst ? d.n_dst : d.n_src);
  }

  /// An element of a vector. Where mov packs or unpacks, it has its own width, not the instruction's.
  void add_part(const Operand& o, bool is_dst, const ptx::Instr& in, int index, int n_parts, Decoded& d) {
    if (in.form.op != Op::mov || n_parts < 2) return add(o, is_dst, in.form, index, d);
    const int bits = isa::bits_of(in.form.type()) / n_parts;
    isa::Form part = in.form;
    part.types[0] = bits <= 8 ? Type::b8 : bits <= 16 ? Type::b16 : bits <= 32 ? Type::b32 : Type::b64;
    add(o, is_dst, part, index, d);
  }

  Ref constant(uint64_t value, Type type) {
    const int bits = width_class(isa::bits_of(type));
    Ref ref;
    ref.kind = RefKind::constant;
    ref.bits = uint8_t(bits);
    ref.value = int64_t(value);
    const auto key = std::make_pair(value, bits);
    if (auto it = constants_.find(key); it != constants_.end()) {
      ref.offset = it->second;
      return ref;
    }
    const uint32_t at = uint32_t(out_->pool.size() * 8);
    const uint64_t word = bits == 1 ? (value ? ~uint64_t{0} : 0) : bits == 32 ? (value & 0xFFFFFFFF) * 0x100000001ull : value;
    const size_t n = bits == 128 ? 64 : 32;
    for (size_t i = 0; i < n; i++) out_->pool.push_back(bits == 128 && i >= 32 ? (int64_t(value) < 0 ? ~uint64_t{0} : 0) : word);
    constants_[key] = at;
    ref.offset = at;
    return ref;
  }

  static bool is_video(Op op) { return op >= Op::vadd && op <= Op::vset4; }

  void add_selectors(Decoded& d) {
    uint32_t words[4] = {};
    for (int i = 0; i < 3 && i < d.n_dst + d.n_src; i++) {
      const Mod m = out_->refs[d.first_ref + uint32_t(i)].selector;
      words[i] = sem::video_selector(m == Mod::count ? std::string_view() : isa::name_of(m));
    }
    if (out_->pool.empty()) out_->pool.resize(8);  // offset 0 means: no selectors
    d.extra = uint32_t(out_->pool.size() * 8);
    out_->pool.insert(out_->pool.end(), 8, 0);
    std::memcpy(out_->pool.data() + d.extra / 8, words, sizeof words);
  }

  void choose(const ptx::Instr& in, Decoded& d);

  const unsigned observe_;
  std::shared_ptr<DecodedProgram> out_;
  std::map<std::pair<uint64_t, int>, uint32_t> constants_;
};

/// Runs a pure meaning over the operands' lanes, converting where a register is wider or narrower than the type.
Next run_pure(Stepper& s, const Decoded& d) {
  void* dst[8];
  const void* src[16];
  alignas(64) uint64_t out[2][64];
  int converted = -1;
  for (int i = 0; i < d.n_dst; i++) {
    const Ref& r = s.ref(d, i);
    dst[i] = s.destination(r);
    if (dst[i] && r.want != r.bits && i < 2) dst[i] = out[i], converted = i;
  }
  dst[d.n_dst] = nullptr;
  for (int i = 0; i < d.n_src; i++) {
    const Ref& r = s.ref(d, d.n_dst + i);
    src[i] = s.source(r, i);
  }
  src[d.n_src] = nullptr;
  if (d.extra) {  // video: three words that say which part of d, a and b is meant
    const std::byte* words = reinterpret_cast<const std::byte*>(s.code->pool.data()) + d.extra;
    for (int i = d.n_src; i < 3; i++) src[i] = nullptr;
    for (int i = 0; i < 3; i++) src[3 + i] = words + 4 * i;
  }
  d.pure(d.instr->form, dst, src, s.mask);
  if (converted >= 0) {
    const Ref& r = s.ref(d, converted);
    std::byte* to = s.frame + r.offset;
    const bool sign = isa::is_signed(d.instr->form.type());
    for_lanes(s.mask, [&](int l) {
      uint64_t v = r.want == 64 ? out[converted][l] : reinterpret_cast<uint32_t*>(out[converted])[l];
      if (sign && r.want == 32) {
        const int shift = 64 - isa::bits_of(d.instr->form.type());
        v = uint64_t(int64_t(v << shift) >> shift);
      }
      if (r.bits == 64) reinterpret_cast<uint64_t*>(to)[l] = v;
      else if (r.bits == 32) reinterpret_cast<uint32_t*>(to)[l] = uint32_t(v);
    });
  }
  return Next::next;
}

/// Reached only when control reaches an instruction that this machine cannot execute.
Next run_unsupported(Stepper& s, const Decoded& d) {
  const lower::Program& p = *s.code->program;
  return s.fault(FaultKind::unsupported, std::countr_zero(s.mask), 0,
                 fmt::format("'{}' is not supported on this GPU", lower::text_of(p, s.pc)));
}

void Decoder::choose(const ptx::Instr& in, Decoded& d) {
  for (auto find : {find_control_handler, find_memory_handler, find_warp_handler, find_sync_handler, find_atomic_handler,
                    find_async_handler, find_texture_handler, find_tensor_handler}) {
    d.run = find(in.form);
    if (d.run) return;
  }
  d.pure = sem::find_pure(in.form, d.n_dst, d.n_src);
  if (d.pure) {
    if (is_video(in.form.op)) add_selectors(d);
    d.run = run_pure;
    return;
  }
  d.run = run_unsupported;
}

}  // namespace

std::shared_ptr<const DecodedProgram> decode(std::shared_ptr<const lower::Program> program, unsigned observe) {
  return Decoder(std::move(program), observe).run();
}

std::shared_ptr<const Kernel> make_kernel(const lower::KernelPrograms& programs, const lower::Addresses& addresses, unsigned observe) {
  auto kernel = std::make_shared<Kernel>();
  kernel->entry = decode(programs.entry, observe);
  kernel->functions.resize(programs.functions.size());
  kernel->pointer_of = addresses.function;
  for (uint32_t f = 0; f < programs.functions.size(); f++) {
    if (f < addresses.function.size() && addresses.function[f]) kernel->function_at[addresses.function[f]] = f;
    if (programs.functions[f] && !programs.functions[f]->is_entry) kernel->functions[f] = decode(programs.functions[f], observe);
  }
  return kernel;
}

std::set<std::string> unsupported_forms(const Kernel& kernel) {
  std::set<std::string> out;
  auto visit = [&](const DecodedProgram& program) {
    for (const Decoded& d : program.code)
      if (d.run == run_unsupported) out.insert(isa::to_string(d.instr->form));
  };
  visit(*kernel.entry);
  for (const auto& f : kernel.functions)
    if (f) visit(*f);
  return out;
}

const lower::Program& program_of(const Kernel& kernel) { return *kernel.entry->program; }

}  // namespace orrery::exec
