// exec/ops_memory.cc: mov, ld, st, address conversion, prefetch hints, alloca.
//
// Cache operators and eviction hints change nothing here. Source: PTX ISA manual, data movement instructions.
#include "exec/fault.h"
#include "exec/stepper.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

void write_lane(Stepper& s, const Ref& r, int lane, uint64_t lo, uint64_t hi = 0) {
  if (r.kind == RefKind::sink) return;
  std::byte* p = s.frame + r.offset;
  if (r.bits == 32) reinterpret_cast<uint32_t*>(p)[lane] = uint32_t(lo);
  else if (r.bits == 1) {
    uint32_t& m = *reinterpret_cast<uint32_t*>(p);
    m = (m & ~(uint32_t{1} << lane)) | uint32_t(lo & 1) << lane;
  } else {
    reinterpret_cast<uint64_t*>(p)[lane] = lo;
    if (r.bits == 128) reinterpret_cast<uint64_t*>(p)[32 + lane] = hi;
  }
}

uint64_t sign_extend(uint64_t v, int bits) {
  const int shift = 64 - bits;
  return uint64_t(int64_t(v << shift) >> shift);
}

Space space_of(const isa::Form& f, const AddressRef& a) {
  const Space s = f.n_spaces ? f.space() : Space::none;
  const bool param = s == Space::param || s == Space::param_entry || s == Space::param_func;
  return param && a.local_frame ? Space::local : s;
}

Next op_ld(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const AddressRef& a = s.code->addresses[d.address];
  const Space space = space_of(f, a);
  const uint32_t bytes = uint32_t(isa::bytes_of(f.type())), total = bytes * d.n_dst;
  const bool sign = isa::is_signed(f.type());
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const std::byte* p = translate(s, space, s.address(a, lane), total, std::min(total, 32u), lane, false);
    if (!p) return Next::fault;
    for (int i = 0; i < d.n_dst; i++, p += bytes) {
      uint64_t lo = load_bytes(p, std::min(bytes, 8u)), hi = bytes == 16 ? load_bytes(p + 8, 8) : 0;
      write_lane(s, s.ref(d, i), lane, sign && bytes < 8 ? sign_extend(lo, int(bytes) * 8) : lo, hi);
    }
  }
  return Next::next;
}

Next op_st(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const AddressRef& a = s.code->addresses[d.address];
  const Space space = space_of(f, a);
  const uint32_t bytes = uint32_t(isa::bytes_of(f.type())), total = bytes * d.n_src;
  // What compiled code has stored past the caches comes before it (jit/streams.h).
  if (f.has(Mod::release)) __atomic_thread_fence(__ATOMIC_SEQ_CST);
  const void* src[16];
  for (int i = 0; i < d.n_src; i++) src[i] = s.source(s.ref(d, i), i);
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    std::byte* p = translate(s, space, s.address(a, lane), total, std::min(total, 32u), lane, true);
    if (!p) return Next::fault;
    for (int i = 0; i < d.n_src; i++, p += bytes) {
      const Ref& r = s.ref(d, i);
      if (bytes == 16) {
        const uint64_t* q = static_cast<const uint64_t*>(src[i]);
        std::memcpy(p, q + lane, 8);
        std::memcpy(p + 8, q + 32 + lane, 8);
      } else {
        const uint64_t v = r.want == 64 ? static_cast<const uint64_t*>(src[i])[lane] : static_cast<const uint32_t*>(src[i])[lane];
        std::memcpy(p, &v, bytes);
      }
    }
  }
  return Next::next;
}

/// mov of a value, and the forms that pack {a,b,..} into a wider register or unpack one.
Next op_mov(Stepper& s, const Decoded& d) {
  if (d.n_dst == 1 && d.n_src == 1) {
    const Ref &to = s.ref(d, 0), &from = s.ref(d, 1);
    const void* p = s.source(from, 0);
    if (from.want == 1) {
      uint32_t& m = *reinterpret_cast<uint32_t*>(s.frame + to.offset);
      m = (m & ~s.mask) | (*static_cast<const uint32_t*>(p) & s.mask);
      return Next::next;
    }
    for_lanes(s.mask, [&](int l) {
      if (from.want == 128) write_lane(s, to, l, static_cast<const uint64_t*>(p)[l], static_cast<const uint64_t*>(p)[32 + l]);
      else write_lane(s, to, l, from.want == 64 ? static_cast<const uint64_t*>(p)[l] : static_cast<const uint32_t*>(p)[l]);
    });
    return Next::next;
  }
  const int bits = isa::bits_of(d.instr->form.type());
  const int parts = std::max<int>(d.n_dst, d.n_src), part_bits = bits / parts;
  const uint64_t part_mask = part_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << part_bits) - 1;
  const void* src[16];
  for (int i = 0; i < d.n_src; i++) src[i] = s.source(s.ref(d, d.n_dst + i), i);
  auto read = [&](int i, int l) -> uint64_t {
    const Ref& r = s.ref(d, d.n_dst + i);
    return r.want >= 64 ? static_cast<const uint64_t*>(src[i])[l] : static_cast<const uint32_t*>(src[i])[l];
  };
  for_lanes(s.mask, [&](int l) {
    uint64_t half[2] = {0, 0};
    if (d.n_src == 1) {
      half[0] = read(0, l);
      if (bits == 128) half[1] = static_cast<const uint64_t*>(src[0])[32 + l];
    } else {
      for (int i = 0; i < parts; i++) half[i * part_bits / 64] |= (read(i, l) & part_mask) << (i * part_bits % 64);
    }
    if (d.n_dst == 1) {
      write_lane(s, s.ref(d, 0), l, half[0], half[1]);
    } else {
      for (int i = 0; i < parts; i++) write_lane(s, s.ref(d, i), l, half[i * part_bits / 64] >> (i * part_bits % 64) & part_mask);
    }
  });
  return Next::next;
}

/// The shared-memory address (own offset, or CTA rank in the upper byte) that a generic address stands for.
uint64_t to_shared(const Stepper& s, uint64_t generic) {
  const uint64_t own = reinterpret_cast<uint64_t>(s.cta.shared);
  if (s.cta.cluster && generic - own >= s.cta.shared_bytes)
    for (uint32_t r = 0; r < s.cta.cluster->n; r++) {
      const uint64_t base = reinterpret_cast<uint64_t>(s.cta.cluster->ctas[r]->shared);
      if (generic - base < s.cta.cluster->ctas[r]->shared_bytes) return uint64_t(r + 1) << 24 | (generic - base);
    }
  return generic - own;
}

uint64_t from_shared(const Stepper& s, uint64_t address) {
  const uint32_t rank = uint32_t(address) >> 24;
  if (rank && s.cta.cluster && rank <= s.cta.cluster->n)
    return reinterpret_cast<uint64_t>(s.cta.cluster->ctas[rank - 1]->shared) + (address & 0xFFFFFF);
  return reinterpret_cast<uint64_t>(s.cta.shared) + uint32_t(address);
}

bool is_shared(Space s) { return s == Space::shared || s == Space::shared_cta || s == Space::shared_cluster; }
bool is_param(Space s) { return s == Space::param || s == Space::param_entry || s == Space::param_func; }

Next op_cvta(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool to = f.has(Mod::to);
  const Space space = f.space();
  const void* src = s.source(s.ref(d, 1), 0);
  const Ref& r = s.ref(d, 1);
  for_lanes(s.mask, [&](int l) {
    uint64_t v = r.want == 64 ? static_cast<const uint64_t*>(src)[l] : static_cast<const uint32_t*>(src)[l];
    const uint64_t local = reinterpret_cast<uint64_t>(s.w.local) + uint64_t(l) * s.w.local_stride;
    if (is_shared(space)) v = to ? to_shared(s, v) : from_shared(s, v);
    else if (space == Space::local) v = to ? v - local : v + local;
    else if (is_param(space)) v = to ? v - s.run.param_address : v + s.run.param_address;
    write_lane(s, s.ref(d, 0), l, v);
  });
  return Next::next;
}

Next op_isspacep(Stepper& s, const Decoded& d) {
  const Space space = d.instr->form.space();
  const uint64_t* a = s.dwords(s.ref(d, 1), 0);
  for_lanes(s.mask, [&](int l) {
    const uint64_t shared = reinterpret_cast<uint64_t>(s.cta.shared);
    const uint64_t local = reinterpret_cast<uint64_t>(s.w.local) + uint64_t(l) * s.w.local_stride;
    const bool in_shared = a[l] - shared < s.cta.shared_bytes, in_local = a[l] - local < s.w.local_stride;
    const bool in_param = a[l] - s.run.param_address < 4096 * 8 && s.run.param_address;
    bool yes = false;
    if (space == Space::shared || space == Space::shared_cta) yes = in_shared;
    else if (space == Space::shared_cluster) yes = in_shared || (s.cta.cluster && to_shared(s, a[l]) >> 24 && to_shared(s, a[l]) < (uint64_t{17} << 24));
    else if (space == Space::local) yes = in_local;
    else if (space == Space::const_) yes = false;
    else if (is_param(space)) yes = in_param;
    else yes = !in_shared && !in_local;
    write_lane(s, s.ref(d, 0), l, yes);
  });
  return Next::next;
}

/// mapa: the address of the same variable in another CTA of the cluster.
Next op_mapa(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool shared = f.n_spaces > 0;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const bool has_address = d.address >= 0;
    const uint64_t a = has_address ? s.address(s.code->addresses[d.address], l) : s.value(s.ref(d, 1), 0, l);
    const uint32_t rank = uint32_t(s.value(s.ref(d, has_address ? 1 : 2), 1, l));
    const uint32_t n = s.cta.cluster ? s.cta.cluster->n : 1;
    if (rank >= n) return s.fault(FaultKind::trap, l, a, fmt::format("mapa names CTA {} of a cluster of {}", rank, n));
    uint64_t v;
    if (shared) v = uint64_t(rank + 1) << 24 | (a & 0xFFFFFF);
    else v = from_shared(s, uint64_t(rank + 1) << 24 | (to_shared(s, a) & 0xFFFFFF));
    if (!s.cta.cluster) v = a;
    write_lane(s, s.ref(d, 0), l, v);
  }
  return Next::next;
}

Next op_getctarank(Stepper& s, const Decoded& d) {
  const bool shared = d.instr->form.n_spaces > 0;
  for_lanes(s.mask, [&](int l) {
    const uint64_t a = s.value(s.ref(d, 1), 0, l);
    const uint64_t address = shared ? a : to_shared(s, a);
    const uint32_t rank = uint32_t(address) >> 24;
    write_lane(s, s.ref(d, 0), l, rank ? rank - 1 : s.cta.cluster_rank);
  });
  return Next::next;
}

Next op_nothing(Stepper&, const Decoded&) { return Next::next; }

Next op_zero(Stepper& s, const Decoded& d) {
  for_lanes(s.mask, [&](int l) { write_lane(s, s.ref(d, 0), l, 0); });
  return Next::next;
}

}  // namespace

Handler find_memory_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::ld: case Op::ldu: return op_ld;
    case Op::st: return op_st;
    case Op::mov: return op_mov;
    case Op::cvta: return op_cvta;
    case Op::isspacep: return op_isspacep;
    case Op::mapa: return op_mapa;
    case Op::getctarank: return op_getctarank;
    case Op::prefetch: case Op::prefetchu: case Op::applypriority: case Op::discard: case Op::pmevent:
      return op_nothing;
    case Op::createpolicy: return op_zero;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
