// exec/ops_texture.cc: tex, tld4, txq, suld, sust, sured, suq on texture and surface objects.
//
// The object is a handle (unified mode); sampling itself is in texture.h. Coordinates of surfaces count bytes in x.
// Limits: filtering does not cross the faces of a cube; tex.grad takes its level from the gradients' largest extent.
// Source: PTX ISA manual, texture and surface instructions.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "exec/stepper.h"
#include "exec/texel_watch.h"
#include "exec/texture.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Type;

namespace {

void write_lane(Stepper& s, const Ref& r, int lane, uint64_t value) {
  if (r.kind == RefKind::sink) return;
  std::byte* p = s.frame + r.offset;
  if (r.bits == 32) reinterpret_cast<uint32_t*>(p)[lane] = uint32_t(value);
  else if (r.bits == 64) reinterpret_cast<uint64_t*>(p)[lane] = value;
  else if (r.bits == 1) {
    uint32_t& m = *reinterpret_cast<uint32_t*>(p);
    m = (m & ~(uint32_t{1} << lane)) | uint32_t(value & 1) << lane;
  }
}

struct Geometry {
  int dims = 1;
  bool layered = false, cube = false;
};

Geometry geometry_of(const isa::Form& f) {
  if (f.has(Mod::g2d)) return {2, false, false};
  if (f.has(Mod::g3d)) return {3, false, false};
  if (f.has(Mod::a1d)) return {1, true, false};
  if (f.has(Mod::a2d)) return {2, true, false};
  if (f.has(Mod::cube)) return {3, false, true};
  if (f.has(Mod::acube)) return {3, true, true};
  return {1, false, false};
}

const TextureObject* object_of(Stepper& s, const Decoded& d, int lane, const char* what) {
  const uint64_t handle = s.address(s.code->addresses[d.address], lane);
  const TextureObject* object = s.run.machine.texture ? s.run.machine.texture(handle) : nullptr;
  if (!object) s.fault(FaultKind::illegal_address, lane, handle, fmt::format("{:#x} is no {} object", handle, what));
  return object;
}

// Face of a cube that a direction hits, and the place on it in 0..1.
uint32_t cube_face(const float v[3], float at[2]) {
  const float ax = std::fabs(v[0]), ay = std::fabs(v[1]), az = std::fabs(v[2]);
  float s, t, m;
  uint32_t face;
  if (ax >= ay && ax >= az) face = v[0] >= 0 ? 0 : 1, m = ax, s = v[0] >= 0 ? -v[2] : v[2], t = -v[1];
  else if (ay >= az) face = v[1] >= 0 ? 2 : 3, m = ay, s = v[0], t = v[1] >= 0 ? v[2] : -v[2];
  else face = v[2] >= 0 ? 4 : 5, m = az, s = v[2] >= 0 ? v[0] : -v[0], t = -v[1];
  at[0] = (s / m + 1) * 0.5f;
  at[1] = (t / m + 1) * 0.5f;
  return face;
}

// One fetch: what the operands say for one lane.
struct Fetch {
  const TextureObject* object = nullptr;
  Geometry geometry;
  uint32_t layer = 0;
  float at[3] = {0, 0, 0};
  int32_t index[3] = {0, 0, 0};
  int next = 0;              // first source after the coordinates
};

Fetch read_fetch(Stepper& s, const Decoded& d, int lane, bool integer) {
  if (TexelWatch* watch = texel_watch()) watch->lane = lane;
  Fetch fetch;
  fetch.geometry = geometry_of(d.instr->form);
  fetch.object = object_of(s, d, lane, "texture");
  int source = d.n_dst;
  const int coordinates = int(d.instr->ops[1].parts.size());
  fetch.next = d.n_dst + coordinates;
  if (fetch.geometry.layered) fetch.layer = uint32_t(s.value(s.ref(d, source++), 0, lane));
  for (int i = 0; i < fetch.geometry.dims && source < fetch.next; i++, source++) {
    const uint32_t bits = uint32_t(s.value(s.ref(d, source), 0, lane));
    fetch.index[i] = int32_t(bits);
    fetch.at[i] = std::bit_cast<float>(bits);
  }
  if (!fetch.geometry.cube || integer) return fetch;
  float place[2];
  const uint32_t face = cube_face(fetch.at, place);
  fetch.layer = fetch.layer * 6 + face;
  if (fetch.object && !fetch.object->normalized_coords) place[0] *= float(fetch.object->width), place[1] *= float(fetch.object->height);
  fetch.at[0] = place[0], fetch.at[1] = place[1];
  fetch.geometry.dims = 2;
  return fetch;
}

// Level that the gradients ask for: the longer side of a step, in texels.
float gradient_level(Stepper& s, const Decoded& d, const Fetch& fetch, int lane) {
  const TextureObject& t = *fetch.object;
  const float size[3] = {float(t.width), float(std::max(1u, t.height)), float(std::max(1u, t.depth))};
  const int each = (d.n_dst + d.n_src - fetch.next) / 2;
  float longest = 0;
  for (int k = 0; k < 2; k++) {
    float sum = 0;
    for (int i = 0; i < fetch.geometry.dims && i < each; i++) {
      const float step = std::bit_cast<float>(uint32_t(s.value(s.ref(d, fetch.next + k * each + i), 0, lane))) * (t.normalized_coords ? size[i] : 1);
      sum += step * step;
    }
    longest = std::max(longest, std::sqrt(sum));
  }
  return longest > 0 ? std::log2(longest) : 0;
}

uint32_t to_half_pair(uint32_t low, uint32_t high) {
  auto half = [](uint32_t bits) { return std::bit_cast<uint16_t>(_Float16(std::bit_cast<float>(bits))); };
  return half(low) | uint32_t(half(high)) << 16;
}

void write_texel(Stepper& s, const Decoded& d, int lane, const Texel& texel) {
  if (d.instr->form.type() == Type::f16x2) {
    for (int i = 0; i < 2 && i < d.n_dst; i++) write_lane(s, s.ref(d, i), lane, to_half_pair(texel.v[2 * i], texel.v[2 * i + 1]));
    return;
  }
  for (int i = 0; i < 4 && i < d.n_dst; i++) write_lane(s, s.ref(d, i), lane, texel.v[i]);
  if (d.n_dst > 4) write_lane(s, s.ref(d, 4), lane, 1);  // p: the texel is resident
}

Next op_tex(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool integer = f.type(f.n_types - 1) == Type::s32;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    Fetch fetch = read_fetch(s, d, lane, integer);
    if (!fetch.object) return Next::fault;
    if (integer) {
      write_texel(s, d, lane, fetch_integer(*fetch.object, fetch.geometry.dims, fetch.index, fetch.layer));
      continue;
    }
    float level = 0;
    if (f.has(Mod::level)) level = std::bit_cast<float>(uint32_t(s.value(s.ref(d, fetch.next), 0, lane)));
    if (f.has(Mod::grad)) level = gradient_level(s, d, fetch, lane);
    write_texel(s, d, lane, fetch_float(*fetch.object, fetch.geometry.dims, fetch.at, fetch.layer, level));
  }
  return Next::next;
}

// Gather: one component of the four texels that linear filtering would blend, counter-clockwise from the lower left.
Next op_tld4(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const int component = f.has(Mod::g) ? 1 : f.has(Mod::b) ? 2 : f.has(Mod::a) ? 3 : 0;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    Fetch fetch = read_fetch(s, d, lane, false);
    if (!fetch.object) return Next::fault;
    TextureObject point = *fetch.object;
    point.linear_filter = false;
    point.mips = nullptr;
    const float sx = point.normalized_coords ? 1 / float(point.width) : 1, sy = point.normalized_coords ? 1 / float(std::max(1u, point.height)) : 1;
    static constexpr float kStep[4][2] = {{-0.5f, 0.5f}, {0.5f, 0.5f}, {0.5f, -0.5f}, {-0.5f, -0.5f}};
    Texel result;
    for (int i = 0; i < 4; i++) {
      const float at[2] = {fetch.at[0] + kStep[i][0] * sx, fetch.at[1] + kStep[i][1] * sy};
      result.v[i] = fetch_float(point, 2, at, fetch.layer, 0).v[component];
    }
    write_texel(s, d, lane, result);
  }
  return Next::next;
}

uint32_t query(const isa::Form& f, const TextureObject& t, bool* known) {
  *known = true;
  if (f.has(Mod::width)) return t.width;
  if (f.has(Mod::height)) return t.height;
  if (f.has(Mod::depth)) return t.depth;
  if (f.has(Mod::array_size)) return t.cubemap ? t.layers / 6 : t.layers;
  if (f.has(Mod::num_mipmap_levels)) return t.levels;
  if (f.has(Mod::num_samples)) return 1;
  if (f.has(Mod::normalized_coords)) return t.normalized_coords;
  *known = false;
  return 0;
}

Next op_query(Stepper& s, const Decoded& d) {
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const TextureObject* t = object_of(s, d, lane, "texture or surface");
    if (!t) return Next::fault;
    bool known = false;
    uint32_t value = query(d.instr->form, *t, &known);
    if (!known) return s.fault(FaultKind::unsupported, lane, 0, "this query of a texture is not supported");
    if (d.instr->form.has(Mod::level) && t->mips) {
      const uint32_t level = std::min<uint32_t>(uint32_t(s.value(s.ref(d, d.n_dst), 0, lane)), t->levels - 1u);
      value = query(d.instr->form, t->mips[level], &known);
    }
    write_lane(s, s.ref(d, 0), lane, value);
  }
  return Next::next;
}

// Place of a surface access of `bytes`: null when it is outside and the mode says zero (or a fault was recorded).
struct Spot {
  std::byte* at = nullptr;
  bool fault = false;
};

Spot surface_spot(Stepper& s, const Decoded& d, int lane, uint32_t bytes, bool texels) {
  const isa::Form& f = d.instr->form;
  const Geometry g = geometry_of(f);
  const TextureObject* t = object_of(s, d, lane, "surface");
  if (!t) return {nullptr, true};
  int source = d.n_dst;
  int64_t layer = 0, at[3] = {0, 0, 0};
  if (g.layered) layer = int32_t(s.value(s.ref(d, source++), 0, lane));
  for (int i = 0; i < g.dims; i++) at[i] = int32_t(s.value(s.ref(d, source++), 0, lane));
  const int64_t texel = int64_t(t->channels) * t->channel_bits / 8;
  if (texels) at[0] *= texel;
  const int64_t row = int64_t(t->width) * texel;
  int64_t limit[3] = {row - int64_t(bytes), int64_t(std::max(1u, t->height)) - 1, int64_t(std::max(1u, t->depth)) - 1};
  bool inside = layer >= 0 && layer < int64_t(std::max(1u, t->layers));
  for (int i = 0; i < g.dims; i++) inside &= at[i] >= 0 && at[i] <= limit[i];
  if (!inside) {
    if (f.has(Mod::zero)) return {};
    if (f.has(Mod::trap)) {
      s.fault(FaultKind::illegal_address, lane, t->data, fmt::format("surface access at ({}, {}, {}), layer {} is outside {} x {} x {}", at[0], at[1], at[2], layer, t->width, t->height, t->depth));
      return {nullptr, true};
    }
    for (int i = 0; i < g.dims; i++) at[i] = std::clamp<int64_t>(at[i], 0, std::max<int64_t>(0, limit[i]));
    layer = std::clamp<int64_t>(layer, 0, int64_t(std::max(1u, t->layers)) - 1);
  }
  const int64_t plane = t->depth ? at[2] : layer;
  const uint64_t place = t->data + uint64_t(plane) * t->slice + uint64_t(at[1]) * t->pitch + uint64_t(at[0]);
  if (TexelWatch* watch = texel_watch()) watch->lane = lane, watch->object = t, watch->touch(place, bytes);
  return {reinterpret_cast<std::byte*>(place), false};
}

Next op_suld(Stepper& s, const Decoded& d) {
  const uint32_t bytes = uint32_t(isa::bytes_of(d.instr->form.type()));
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Spot spot = surface_spot(s, d, lane, bytes * d.n_dst, false);
    if (spot.fault) return Next::fault;
    for (int i = 0; i < d.n_dst; i++) write_lane(s, s.ref(d, i), lane, spot.at ? load_bytes(spot.at + uint32_t(i) * bytes, bytes) : 0);
  }
  return Next::next;
}

// Formatted stores convert 32-bit components to the surface's own format.
void store_component(const TextureObject& t, std::byte* p, uint32_t value) {
  const int bits = t.channel_bits;
  if (t.kind == TexelKind::flt && bits == 16) value = std::bit_cast<uint16_t>(_Float16(std::bit_cast<float>(value)));
  else if (t.kind == TexelKind::sint && bits < 32) value = uint32_t(std::clamp(int32_t(value), -(1 << (bits - 1)), (1 << (bits - 1)) - 1));
  else if (t.kind == TexelKind::uint && bits < 32) value = std::min(value, (uint32_t{1} << bits) - 1);
  std::memcpy(p, &value, size_t(bits) / 8);
}

Next op_sust(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool formatted = f.has(Mod::p);
  const int coordinates = int(d.instr->ops[0].parts.size()), values = d.n_src - coordinates;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const TextureObject* t = formatted ? object_of(s, d, lane, "surface") : nullptr;
    if (formatted && !t) return Next::fault;
    const uint32_t bytes = formatted ? t->channel_bits / 8 : uint32_t(isa::bytes_of(f.type()));
    const int count = formatted ? std::min<int>(values, t->channels) : values;
    const Spot spot = surface_spot(s, d, lane, bytes * uint32_t(count), formatted);
    if (spot.fault) return Next::fault;
    if (!spot.at) continue;
    for (int i = 0; i < count; i++) {
      const uint64_t value = s.value(s.ref(d, d.n_dst + coordinates + i), 1, lane);
      if (formatted) store_component(*t, spot.at + uint32_t(i) * bytes, uint32_t(value));
      else std::memcpy(spot.at + uint32_t(i) * bytes, &value, bytes);
    }
  }
  return Next::next;
}

template <class T>
void reduce(const isa::Form& f, std::byte* at, uint64_t operand) {
  std::atomic_ref<T> place(*reinterpret_cast<T*>(at));
  const T value = T(operand);
  T old = place.load();
  T next;
  do {
    next = f.has(Mod::add) ? T(old + value) : f.has(Mod::min) ? std::min(old, value) : f.has(Mod::max) ? std::max(old, value)
           : f.has(Mod::and_) ? T(old & value) : T(old | value);
  } while (!place.compare_exchange_weak(old, next));
}

Next op_sured(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const uint32_t bytes = uint32_t(isa::bytes_of(f.type()));
  const int coordinates = int(d.instr->ops[0].parts.size());
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Spot spot = surface_spot(s, d, lane, bytes, f.has(Mod::p));
    if (spot.fault) return Next::fault;
    if (!spot.at) continue;
    const uint64_t value = s.value(s.ref(d, coordinates), 1, lane);
    if (bytes == 8) isa::is_signed(f.type()) ? reduce<int64_t>(f, spot.at, value) : reduce<uint64_t>(f, spot.at, value);
    else isa::is_signed(f.type()) ? reduce<int32_t>(f, spot.at, value) : reduce<uint32_t>(f, spot.at, value);
  }
  return Next::next;
}

}  // namespace

Handler find_texture_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::tex: return op_tex;
    case Op::tld4: return op_tld4;
    case Op::txq: case Op::suq: return op_query;
    case Op::suld: return op_suld;
    case Op::sust: return op_sust;
    case Op::sured: return op_sured;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
