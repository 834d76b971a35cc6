// sanitize/numerics.cc: see numerics.h.
#include "sanitize/numerics.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "exec/decode.h"
#include "exec/stepper.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Type;

namespace {

bool is_nan(Type type, uint64_t v) {
  switch (type) {
    case Type::f64: return (v & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
    case Type::f32: return (v & 0x7FFFFFFF) > 0x7F800000;
    case Type::f16: return (v & 0x7FFF) > 0x7C00;
    case Type::bf16: return (v & 0x7FFF) > 0x7F80;
    case Type::f16x2: return is_nan(Type::f16, v) || is_nan(Type::f16, v >> 16);
    case Type::bf16x2: return is_nan(Type::bf16, v) || is_nan(Type::bf16, v >> 16);
    default: return false;
  }
}

/// From this magnitude on a number becomes the largest one of the type when it is rounded to nearest; 0: not such a type.
float saturates_from(Type type) {
  if (type == Type::e4m3x2) return 464.f;    // 448 is the largest, 480 would be the next; the middle goes to 448
  if (type == Type::e5m2x2) return 61439.99609375f;  // 57344 is the largest, 65536 would be the next; the middle, 61440, goes up
  return 0;
}

/// Lanes that have a finite number beyond the type's largest among their f32 inputs.
uint32_t saturated_lanes(const Where& where, const Decoded& d, const std::byte* frame, float limit) {
  uint32_t found = 0;
  for (int i = 0; i < d.n_src; i++) {
    const Ref& r = where.code->refs[d.first_ref + uint32_t(d.n_dst + i)];
    if (r.kind != RefKind::frame || r.bits != 32) continue;
    const float* values = reinterpret_cast<const float*>(frame + r.offset);
    for (uint32_t m = where.mask; m; m &= m - 1) {
      const int l = std::countr_zero(m);
      if (std::isfinite(values[l]) && std::fabs(values[l]) > limit) found |= 1u << l;
    }
  }
  return found;
}

}  // namespace

void Numerics::saturated(const Where& where, uint32_t lanes, Type type) {
  Finding f;
  f.check = "numerics";
  f.severity = "warning";
  f.kind = "saturation";
  f.place = place_of(where, std::countr_zero(lanes));
  f.message = fmt::format("the value is too large for {} and becomes its largest number", isa::name_of(type));
  f.remedy = "scale the values before they are narrowed";
  f.count = uint64_t(std::popcount(lanes));
  collector_.add(std::move(f));
}

void Numerics::computed(const Where& where, uint32_t special) {
  const uint32_t lanes = where.mask & ~special;
  if (!lanes) return;
  const Decoded& d = where.code->code[where.pc];
  const Ref& r = where.code->refs[d.first_ref];
  if (r.kind != RefKind::frame) return;
  const Type type = d.instr->form.type();
  const std::byte* frame = where.call ? where.call->registers : where.warp->frame;
  const isa::Form& form = d.instr->form;
  if (const float limit = saturates_from(type); limit && form.n_types > 1 && form.types[form.n_types - 1] == Type::f32) {
    if (const uint32_t beyond = saturated_lanes(where, d, frame, limit)) saturated(where, beyond, type);
    return;
  }
  const std::byte* p = frame + r.offset;
  uint32_t born = 0, nan = 0;
  for (uint32_t m = lanes; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const uint64_t v = r.bits >= 64 ? reinterpret_cast<const uint64_t*>(p)[l] : reinterpret_cast<const uint32_t*>(p)[l];
    if (!is_special(type, v)) continue;
    born |= 1u << l;
    if (is_nan(type, v)) nan |= 1u << l;
  }
  if (!born) return;
  const bool narrows = d.instr->form.op == isa::Op::cvt;
  Finding f;
  f.check = "numerics";
  f.severity = "warning";
  f.kind = nan ? "nan-born" : narrows ? "overflow" : "infinity-born";
  f.place = place_of(where, std::countr_zero(nan ? nan : born));
  f.message = nan ? "the result is NaN although no input is"
                  : narrows ? fmt::format("the value is too large for {} and becomes infinite", isa::name_of(type)) : "the result is infinite although no input is";
  f.remedy = nan ? "look at the inputs: 0/0, the root or logarithm of a negative number, or the difference of infinities"
                 : "scale the values, accumulate in a wider type, or saturate on purpose (.satfinite)";
  f.count = uint64_t(std::popcount(born));
  collector_.add(std::move(f));
}

}  // namespace orrery::sanitize
