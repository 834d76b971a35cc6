// exec/ops_tma.cc: the instructions on tensor maps: cp.async.bulk.tensor, its reductions and prefetch,
// tensormap.replace and tensormap.cp_fenceproxy.
//
// A refused copy is an illegal instruction, as on the GPU, with the reason in the message.
// Source: PTX ISA manual, cp.async.bulk.tensor, tensormap.replace; shared-memory alignment of 128 bytes from the same.
#include <algorithm>

#include "exec/async.h"
#include "exec/fault.h"
#include "exec/later.h"
#include "exec/tma.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

constexpr uint32_t kImageAlign = 128;

/// The operands of one tensor copy.
struct BoxCopy {
  const TensorMap* map = nullptr;
  BoxOrigin origin;
  int next_ref = 0;  // the first operand after coordinates and offsets
};

int rank_of(const isa::Form& f) {
  static constexpr Mod kRanks[] = {Mod::g1d, Mod::g2d, Mod::g3d, Mod::g4d, Mod::g5d};
  for (int i = 0; i < 5; i++)
    if (f.has(kRanks[i])) return i + 1;
  return 0;
}

bool is_im2col(const isa::Form& f) { return f.has(Mod::im2col) || f.has(Mod::im2col_no_offs); }

bool of_sm_100(const isa::Form& f) {
  return f.has(Mod::tile_gather4) || f.has(Mod::tile_scatter4) || f.has(Mod::im2col_w) || f.has(Mod::im2col_w_128) ||
         f.has(Mod::cta_group_1) || f.has(Mod::cta_group_2);
}

const char* reason(BoxError e) {
  switch (e) {
    case BoxError::not_a_map: return "the address does not hold a tensor map of this rank (cuTensorMapEncode* makes one)";
    case BoxError::misaligned: return "the first coordinate times the element size is not a multiple of 16 bytes";
    case BoxError::negative: return "a tensor store starts at a negative coordinate";
    case BoxError::outside: return "an im2col store whose bounding box (pixelBoxLowerCorner, pixelBoxUpperCorner) reaches outside the tensor";
    case BoxError::wrong_mode: return "the tensor map was encoded for another mode (tiled or im2col) than the instruction's";
    default: return "the tensor map's element type or layout does not allow this copy";
  }
}

/// Reads map, coordinates and offsets; the map is null after a fault was recorded.
BoxCopy read_copy(Stepper& s, const Decoded& d, int map_address, bool store, int lane) {
  const isa::Form& f = d.instr->form;
  BoxCopy c;
  const int rank = rank_of(f);
  const uint64_t at = s.address(s.code->addresses[d.address + map_address], lane);
  const std::byte* p = translate(s, Space::none, at, sizeof(TensorMap), 64, lane, false);
  if (!p) return c;
  if (in_cluster_shared(s, p)) {
    s.fault(FaultKind::illegal_address, lane, at, "the tensor map is in shared memory");
    return c;
  }
  int ref = 0;
  for (int i = 0; i < rank; i++) c.origin.at[i] = int32_t(scalar(s, s.ref(d, ref++), lane));
  if (f.has(Mod::im2col)) {
    c.origin.has_offset = true;
    for (int i = 0; i + 2 < rank; i++) c.origin.offset[i] = uint16_t(scalar(s, s.ref(d, ref++), lane));
  }
  c.next_ref = ref;
  const TensorMap* map = reinterpret_cast<const TensorMap*>(p);
  if (map->address % 16) {
    s.fault(FaultKind::misaligned_address, lane, map->address, fmt::format("the tensor map's address {:#x} is not a multiple of 16", map->address));
    return c;
  }
  if (const BoxError e = check_box(*map, rank, is_im2col(f), store, c.origin); e != BoxError::none) {
    std::string where;
    for (int i = 0; i < rank; i++) where += fmt::format("{}{}", i ? ", " : "", c.origin.at[i]);
    s.fault(FaultKind::illegal_instruction, lane, at, fmt::format("tensor copy at ({}): {}", where, reason(e)));
    return c;
  }
  c.map = map;
  return c;
}

/// The shared-memory image of a copy; null after a fault was recorded.
std::byte* image_at(Stepper& s, Space space, const TensorMap& map, uint64_t address, bool write, int lane) {
  const uint64_t bytes = std::min<uint64_t>(image_bytes(map), UINT32_MAX);  // (no block has so much)
  return translate(s, space, address, uint32_t(bytes), kImageAlign, lane, write);
}

/// Whether kernels may touch all the global memory that the copy does; false after a fault was recorded.
bool check_reach(Stepper& s, const BoxCopy& c, bool store, int lane) {
  struct Search {
    const DeviceMemory& memory;
    uint64_t address = 0, bytes = 0;  // of the first piece elsewhere
  } search{*s.run.machine.memory};
  const auto end = tensor_end(*c.map);
  if (end && may_touch(search.memory, c.map->address, *end - c.map->address)) return true;
  const auto look = [](void* p, uint64_t address, uint64_t bytes) {
    auto& search = *static_cast<Search*>(p);
    if (!search.bytes && !may_touch(search.memory, address, bytes)) search.address = address, search.bytes = bytes;
  };
  for_box_pieces(*c.map, c.origin, store, look, &search);
  if (!search.bytes) return true;
  const std::string access = fmt::format("tensor copy's {} of {} bytes", store ? "write" : "read", search.bytes);
  s.fault(FaultKind::illegal_address, lane, search.address, describe_address(search.memory, search.address, access));
  return false;
}

/// Tells the observer of a tensor copy: `image` is a box in the shared memory of some block of the cluster.
void report_box(Stepper& s, const BoxCopy& c, bool store, bool reduces, const std::byte* image, const uint64_t* bar, int lane) {
  if (!s.observer()) return;
  std::vector<ByteRange> global;
  const auto add = [](void* list, uint64_t address, uint64_t bytes) {
    auto& ranges = *static_cast<std::vector<ByteRange>*>(list);
    const std::byte* const begin = reinterpret_cast<const std::byte*>(address);
    if (!ranges.empty() && ranges.back().begin + ranges.back().bytes == begin) ranges.back().bytes += bytes;
    else ranges.push_back({begin, bytes, false});
  };
  for_box_pieces(*c.map, c.origin, store, add, &global);
  const ByteRange box{image, image_bytes(*c.map), true};
  AsyncEvent e{s.where(), lane, AsyncKind::tensor, reduces, {&box, 1}, global, bar, bar ? box_bytes(*c.map) : 0, reinterpret_cast<const std::byte*>(c.map)};
  if (!store) std::swap(e.reads, e.writes);
  s.observer()->async_copy(e);
}

/// Fills an image in shared memory and tells the mbarrier there, now or later, with the tensor map as it is now.
Next deliver_box(Stepper& s, const BoxCopy& c, std::byte* image, uint64_t to, uint64_t* bar, int lane) {
  if (!check_reach(s, c, false, lane)) return Next::fault;
  return in_time(s, Later::Kind::mbarrier, lane, [map = *c.map, origin = c.origin, image, to, bar, lane](Stepper& t) {
    if (t.run.copies_data) load_box(map, origin, image, to);
    else touch_box(map, origin);
    return complete_bytes(t, bar, box_bytes(map), lane) ? Next::next : Next::fault;
  });
}

Next load_one(Stepper& s, const Decoded& d, int lane) {
  const isa::Form& f = d.instr->form;
  const BoxCopy c = read_copy(s, d, 1, false, lane);
  if (!c.map) return Next::fault;
  std::byte* image = image_at(s, f.space(0), *c.map, s.address(s.code->addresses[d.address], lane), true, lane);
  if (!image) return Next::fault;
  uint64_t* bar = mbarrier_at(s, f.space(0), s.address(s.code->addresses[d.address + 2], lane), lane);
  if (!bar) return Next::fault;
  const uint64_t to = shared_offset(s, image);
  if (!f.has(Mod::multicast_cluster)) {
    report_box(s, c, false, false, image, bar, lane);
    return deliver_box(s, c, image, to, bar, lane);
  }
  const uint64_t at = shared_offset(s, bar);
  const uint32_t mask = uint32_t(scalar(s, s.ref(d, c.next_ref), lane)) & 0xFFFF;
  if (mask >> s.cta.cluster->n)
    return s.fault(FaultKind::trap, lane, mask, fmt::format("multicast mask {:#x} in a cluster of {} blocks", mask, s.cta.cluster->n));
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t rank = uint32_t(std::countr_zero(m));
    report_box(s, c, false, false, in_block(s, rank, to), reinterpret_cast<uint64_t*>(in_block(s, rank, at)), lane);
    if (deliver_box(s, c, in_block(s, rank, to), to, reinterpret_cast<uint64_t*>(in_block(s, rank, at)), lane) == Next::fault) return Next::fault;
  }
  return Next::next;
}

Next store_one(Stepper& s, const Decoded& d, int lane) {
  const isa::Form& f = d.instr->form;
  const BoxCopy c = read_copy(s, d, 0, true, lane);
  if (!c.map) return Next::fault;
  const std::byte* image = image_at(s, Space::shared_cta, *c.map, s.address(s.code->addresses[d.address + 1], lane), false, lane);
  if (!image) return Next::fault;
  const uint64_t from = uint64_t(image - s.cta.shared);
  report_box(s, c, true, f.op != Op::cp_async_bulk_tensor, image, nullptr, lane);
  if (!check_reach(s, c, true, lane)) return Next::fault;
  return in_time(s, Later::Kind::group, lane, [map = *c.map, origin = c.origin, image, from, lane, &f](Stepper& t) {
    if (f.op == Op::cp_async_bulk_tensor) store_box(map, origin, image, from);
    else if (!reduce_box(map, origin, image, from, reduce_kind(f)))
      return t.fault(FaultKind::illegal_instruction, lane, 0, "the tensor map's element type has no such reduction");
    return Next::next;
  });
}

Next op_tensor_copy(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  if (of_sm_100(f)) return refuse(s, d);
  const bool store = f.has(Mod::bulk_group);
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if ((store ? store_one(s, d, lane) : load_one(s, d, lane)) == Next::fault) return Next::fault;
  }
  return Next::next;
}

/// A prefetch moves nothing that a program can see, but its map and coordinates are checked.
Next op_prefetch(Stepper& s, const Decoded& d) {
  if (of_sm_100(d.instr->form)) return refuse(s, d);
  for (uint32_t m = s.mask; m; m &= m - 1)
    if (!read_copy(s, d, 0, false, std::countr_zero(m)).map) return Next::fault;
  return Next::next;
}

/// tensormap.replace's numbering of element types, by CUtensorMapDataType.
constexpr uint8_t kReplaceTypes[] = {0 /*u8*/, 1 /*u16*/, 2 /*u32*/, 3 /*s32*/, 4 /*u64*/, 5 /*s64*/, 6 /*f16*/, 7 /*f32*/, 10 /*f32.ftz*/, 8 /*f64*/, 9 /*bf16*/, 11 /*tf32*/, 12 /*tf32.ftz*/};

/// Changes one field; fields hold as many bits as they need. False when the value is outside the field's range.
bool replace_field(const isa::Form& f, TensorMap& m, uint32_t ordinal, uint64_t v) {
  if (f.has(Mod::global_address)) return m.address = v, true;  // (a copy finds it misaligned)
  if (f.has(Mod::rank)) return m.rank = uint8_t(v + 1), v < 5;  // the field holds the rank less one
  if (f.has(Mod::swizzle_atomicity)) return v == 0;
  if (f.has(Mod::elemtype)) {
    if (v >= std::size(kReplaceTypes)) return false;
    return m.type = kReplaceTypes[v], true;
  }
  if (f.has(Mod::interleave_layout)) return m.interleave = Interleave(v), v <= 2;
  if (f.has(Mod::swizzle_mode)) return m.swizzle = Swizzle(v), v <= 3;
  if (f.has(Mod::fill_mode)) return m.nan_fill = uint8_t(v), v <= 1;
  if (ordinal >= 5) return false;
  if (f.has(Mod::box_dim)) return m.box[ordinal] = uint16_t((v - 1) % 256 + 1), true;
  if (f.has(Mod::global_dim)) return m.last[ordinal] = uint32_t(v - 1), v != 0;
  if (f.has(Mod::element_stride)) return m.element_strides[ordinal] = uint8_t((v - 1) % 8 + 1), true;
  if (ordinal >= 4) return false;
  return m.strides[ordinal] = v / 16 * 16, true;
}

/// Tells the observer that a tensor map is written.
void report_map(Stepper& s, Space space, uint64_t address, int lane) {
  if (!s.observer()) return;
  Access a;
  a.where = s.where();
  a.where.mask = 1u << lane;
  a.kind = AccessKind::store;
  a.space = space;
  a.bytes = sizeof(TensorMap);
  a.align = 64;
  a.address[lane] = address;
  s.observer()->access(a);
}

Next op_replace(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool has_ordinal = d.n_src > 1;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t at = s.address(s.code->addresses[d.address], lane);
    report_map(s, f.n_spaces ? f.space() : Space::none, at, lane);
    std::byte* p = translate(s, f.n_spaces ? f.space() : Space::none, at, sizeof(TensorMap), 64, lane, true);
    if (!p) return Next::fault;
    TensorMap& map = *reinterpret_cast<TensorMap*>(p);
    const uint64_t value = scalar(s, s.ref(d, has_ordinal ? 1 : 0), lane);
    if (map.magic != kTensorMapMagic || !replace_field(f, map, has_ordinal ? uint32_t(s.ref(d, 0).value) : 0, value))
      return s.fault(FaultKind::illegal_instruction, lane, at, fmt::format("tensormap.replace cannot put {} into this field", value));
  }
  return Next::next;
}

/// Copies a changed map from shared to global memory; the fence that goes with it holds already.
Next op_cp_fenceproxy(Stepper& s, const Decoded& d) {
  const int lane = std::countr_zero(s.mask);
  const uint64_t to = s.address(s.code->addresses[d.address], lane), from = s.address(s.code->addresses[d.address + 1], lane);
  report_map(s, Space::global, to, lane);
  const std::byte* q = translate(s, Space::shared, from, sizeof(TensorMap), 64, lane, false);
  std::byte* p = q ? translate(s, Space::global, to, sizeof(TensorMap), 64, lane, true) : nullptr;
  if (!p) return Next::fault;
  std::memcpy(p, q, sizeof(TensorMap));
  return Next::next;
}

}  // namespace

Handler find_tma_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::cp_async_bulk_tensor: case Op::cp_reduce_async_bulk_tensor: return op_tensor_copy;
    case Op::cp_async_bulk_prefetch_tensor: return op_prefetch;
    case Op::tensormap_replace: return op_replace;
    case Op::tensormap_cp_fenceproxy: return op_cp_fenceproxy;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
