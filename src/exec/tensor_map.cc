// exec/tensor_map.cc: see tensor_map.h. The checks follow the requirements that the driver API lists, in its order.
#include "exec/tensor_map.h"

namespace orrery::exec {

using isa::Type;

namespace {

constexpr uint64_t kMaxDim = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;
constexpr uint32_t kMaxBox = 256, kMaxElementStride = 8, kMaxChannels = 256, kMaxPixels = 1024;

struct ElementType {
  uint8_t bytes;
  Type type;
  bool is_float;
};
/// By CUtensorMapDataType. The packed 4-bit and 6-bit types (13 to 15) need compute capability 10.0.
constexpr ElementType kTypes[] = {
    {1, Type::u8, false},  {2, Type::u16, false}, {4, Type::u32, false}, {4, Type::s32, false}, {8, Type::u64, false},
    {8, Type::s64, false}, {2, Type::f16, true},  {4, Type::f32, true},  {8, Type::f64, true},  {2, Type::bf16, true},
    {4, Type::f32, true},  {4, Type::tf32, true}, {4, Type::tf32, true},
};
constexpr uint32_t kTypeCount = sizeof kTypes / sizeof *kTypes;

bool check_common(const TensorMap* out, const TensorSpec& t, TensorMapKind kind) {
  if (!out || reinterpret_cast<uintptr_t>(out) % 64 || !t.dims || !t.element_strides) return false;
  if (t.type >= kTypeCount || t.interleave > 2 || t.swizzle > uint32_t(Swizzle::b128) || t.l2_promotion > 3 || t.fill > 1) return false;
  if (t.rank == 0 || t.rank > 5 || (t.rank > 1 && !t.strides)) return false;
  const Interleave inter = Interleave(t.interleave);
  if (inter != Interleave::none && t.rank < 3) return false;
  if (inter == Interleave::b32 && Swizzle(t.swizzle) != Swizzle::b32 && kind != TensorMapKind::im2col_wide) return false;
  if (t.fill && !kTypes[t.type].is_float) return false;
  const uint64_t align = inter == Interleave::b32 ? 32 : 16;
  if (t.address % align) return false;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (t.dims[i] == 0 || t.dims[i] > kMaxDim) return false;
    if (i == 0 && inter == Interleave::none) continue;  // no stride along dimension 0: its value is ignored
    if (t.element_strides[i] == 0 || t.element_strides[i] > kMaxElementStride) return false;
  }
  for (uint32_t i = 0; i + 1 < t.rank; i++)
    if (t.strides[i] % align || t.strides[i] >= kMaxStride) return false;
  return true;
}

/// The inner extent of a copy must be whole 16-byte units (as if it counted elements, also where it counts slices) and,
/// without an interleave, fit the swizzle.
bool check_inner(const TensorSpec& t, uint64_t elements) {
  const uint64_t bytes = elements * kTypes[t.type].bytes;
  const uint32_t span = swizzle_bytes(Swizzle(t.swizzle));
  return bytes % 16 == 0 && (span == 0 || bytes <= span || Interleave(t.interleave) != Interleave::none);
}

TensorMap start(const TensorSpec& t, TensorMapKind kind) {
  TensorMap m;
  m.magic = kTensorMapMagic;
  m.kind = kind;
  m.type = uint8_t(t.type);
  m.rank = uint8_t(t.rank);
  m.interleave = Interleave(t.interleave);
  m.swizzle = Swizzle(t.swizzle);
  m.nan_fill = uint8_t(t.fill);
  m.l2_promotion = uint8_t(t.l2_promotion);
  m.address = t.address;
  for (uint32_t i = 0; i < t.rank; i++) {
    m.last[i] = uint32_t(t.dims[i] - 1);
    m.element_strides[i] = i == 0 && m.interleave == Interleave::none ? 1 : uint8_t(t.element_strides[i]);
  }
  std::fill(std::begin(m.box), std::end(m.box), uint16_t{1});
  for (uint32_t i = 0; i + 1 < t.rank; i++) m.strides[i] = t.strides[i];
  return m;
}

/// A map of either im2col kind, with corners along dimensions 1 to `corners`.
EncodeStatus encode_columns(TensorMap* out, const TensorSpec& t, const int* lower, const int* upper, uint32_t corners, uint32_t channels, uint32_t pixels,
                            TensorMapKind kind) {
  if (!check_common(out, t, kind) || t.rank < 3) return EncodeStatus::invalid_value;
  if (channels == 0 || channels > kMaxChannels || pixels == 0 || pixels > kMaxPixels) return EncodeStatus::invalid_value;
  if (!check_inner(t, channels)) return EncodeStatus::invalid_value;
  const int limit = t.rank == 3 ? 32768 : t.rank == 4 ? 128 : 16;
  TensorMap m = start(t, kind);
  for (uint32_t i = 0; i < corners; i++) {
    if (lower[i] < -limit || lower[i] >= limit || upper[i] < -limit || upper[i] >= limit) return EncodeStatus::invalid_value;
    if (int64_t(t.dims[i + 1]) - 1 + upper[i] < lower[i]) return EncodeStatus::invalid_value;  // an empty box
    m.lower[i] = int16_t(lower[i]);
    m.upper[i] = int16_t(upper[i]);
  }
  m.channels = uint16_t(channels);
  m.pixels = uint16_t(pixels);
  *out = m;
  return EncodeStatus::ok;
}

}  // namespace

uint32_t tensor_element_bytes(uint32_t type) { return type < kTypeCount ? kTypes[type].bytes : 0; }
Type tensor_element_type(uint32_t type) { return type < kTypeCount ? kTypes[type].type : Type::none; }
bool tensor_type_is_float(uint32_t type) { return type < kTypeCount && kTypes[type].is_float; }

bool is_well_formed(const TensorMap& m) {
  if (m.rank == 0 || m.rank > 5 || m.interleave > Interleave::b32 || m.swizzle > Swizzle::b128) return false;
  for (uint32_t i = 0; i < m.rank; i++)
    if (m.element_strides[i] == 0 || m.element_strides[i] > kMaxElementStride || (i > 0 && m.strides[i - 1] % 16)) return false;
  if (m.kind != TensorMapKind::tiled) return m.channels && m.channels <= kMaxChannels && m.pixels && m.pixels <= kMaxPixels;
  for (uint32_t i = 0; i < m.rank; i++)
    if (m.box[i] == 0 || m.box[i] > kMaxBox) return false;
  return true;
}

std::optional<uint64_t> tensor_end(const TensorMap& m) {
  unsigned __int128 end = m.address;
  end += (m.size(0) * unit_bytes(m) + 15) / 16 * 16;
  for (int i = 1; i < m.rank; i++) end += static_cast<unsigned __int128>(m.last[i]) * m.strides[i - 1];
  return end >> 64 ? std::nullopt : std::optional(uint64_t(end));
}

uint32_t unit_bytes(const TensorMap& map) {
  if (map.interleave == Interleave::b16) return 16;
  if (map.interleave == Interleave::b32) return 32;
  return tensor_element_bytes(map.type);
}

uint32_t swizzle_bytes(Swizzle s) {
  switch (s) {
    case Swizzle::none: return 0;
    case Swizzle::b32: return 32;
    case Swizzle::b64: return 64;
    default: return 128;
  }
}

EncodeStatus encode_tiled(TensorMap* out, const TensorSpec& t, const uint32_t* box) {
  if (!check_common(out, t, TensorMapKind::tiled) || !box) return EncodeStatus::invalid_value;
  for (uint32_t i = 0; i < t.rank; i++)
    if (box[i] == 0 || box[i] > kMaxBox) return EncodeStatus::invalid_value;
  if (!check_inner(t, box[0])) return EncodeStatus::invalid_value;
  TensorMap m = start(t, TensorMapKind::tiled);
  for (uint32_t i = 0; i < t.rank; i++) m.box[i] = uint16_t(box[i]);
  *out = m;
  return EncodeStatus::ok;
}

EncodeStatus encode_im2col(TensorMap* out, const TensorSpec& t, const int* lower, const int* upper, uint32_t channels, uint32_t pixels) {
  if (!lower || !upper) return EncodeStatus::invalid_value;
  return encode_columns(out, t, lower, upper, t.rank < 3 ? 0 : t.rank - 2, channels, pixels, TensorMapKind::im2col);
}

EncodeStatus encode_im2col_wide(TensorMap* out, const TensorSpec& t, int lower, int upper, uint32_t channels, uint32_t pixels, uint32_t mode) {
  if (mode > 1) return EncodeStatus::invalid_value;
  return encode_columns(out, t, &lower, &upper, 1, channels, pixels, TensorMapKind::im2col_wide);
}

EncodeStatus replace_address(TensorMap* map, uint64_t address) {
  if (!map || reinterpret_cast<uintptr_t>(map) % 64 || !address) return EncodeStatus::invalid_value;
  if (address % (map->interleave == Interleave::b32 ? 32 : 16)) return EncodeStatus::invalid_value;
  map->address = address;  // whatever the 128 bytes are: the driver does not look
  return EncodeStatus::ok;
}

}  // namespace orrery::exec
