// Sampling of textures; see texture.h.
//
// Filtering follows the programming guide: texel i is centred at i + 0.5, weights are fractions in 8 bits (rounded to
// nearest), and the weighted sum is taken in f32. Nearest fetches take floor of the coordinate. Wrap and mirror exist for
// normalised coordinates only and act as clamp otherwise.
// Limit: the rounding of the hardware's weighted sum is not documented; results of linear filtering are exact in the
// weights and differ from hardware in the last bits of the sum.
#include "exec/texel_watch.h"
#include "exec/texture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace orrery::exec {
namespace {

struct Extent {
  int64_t size[3];
};

Extent extent_of(const TextureObject& t) { return {{int64_t(std::max(1u, t.width)), int64_t(std::max(1u, t.height)), int64_t(std::max(1u, t.depth))}}; }

// Index along one axis after the address mode; -1: border.
int64_t resolve(int64_t i, int64_t n, AddressMode mode, bool normalized) {
  if (!normalized && (mode == AddressMode::wrap || mode == AddressMode::mirror)) mode = AddressMode::clamp;
  switch (mode) {
    case AddressMode::wrap: return ((i % n) + n) % n;
    case AddressMode::mirror: {
      int64_t p = ((i % (2 * n)) + 2 * n) % (2 * n);
      return p < n ? p : 2 * n - 1 - p;
    }
    case AddressMode::clamp: return std::clamp<int64_t>(i, 0, n - 1);
    default: return i >= 0 && i < n ? i : -1;
  }
}

float half_to_float(uint16_t h) { return float(std::bit_cast<_Float16>(h)); }

float srgb_to_linear(float v) { return v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f); }

// One channel of the texel at `p` as the 32 result bits.
uint32_t channel(const TextureObject& t, const std::byte* p, int c) {
  uint32_t raw = 0;
  std::memcpy(&raw, p + c * t.channel_bits / 8, t.channel_bits / 8);
  if (t.kind == TexelKind::flt) return t.channel_bits == 16 ? std::bit_cast<uint32_t>(half_to_float(uint16_t(raw))) : raw;
  const int unused = 32 - t.channel_bits;
  if (t.kind == TexelKind::sint) {
    int32_t v = int32_t(raw << unused) >> unused;
    if (!t.read_normalized_float) return uint32_t(v);
    return std::bit_cast<uint32_t>(std::max(-1.0f, float(v) / float((1 << (t.channel_bits - 1)) - 1)));
  }
  if (!t.read_normalized_float) return raw;
  float v = float(raw) / float((uint64_t{1} << t.channel_bits) - 1);
  return std::bit_cast<uint32_t>(t.srgb && c < 3 ? srgb_to_linear(v) : v);
}

// Absent channels read as 0, the fourth as 1.
Texel border_texel(const TextureObject& t) {
  Texel texel{};
  for (int c = 0; c < 4; c++) {
    if (c >= t.channels) continue;
    if (t.kind == TexelKind::flt || t.read_normalized_float) texel.v[c] = std::bit_cast<uint32_t>(t.border[c]);
    else texel.v[c] = std::bit_cast<uint32_t>(t.border[c]);
  }
  return texel;
}

thread_local TexelWatch* watch = nullptr;

Texel texel_at(const TextureObject& t, const int64_t index[3], uint32_t layer) {
  if (index[0] < 0 || index[1] < 0 || index[2] < 0) return border_texel(t);
  const uint64_t bytes = uint64_t(t.channels) * t.channel_bits / 8;
  const uint64_t plane = t.depth ? uint64_t(index[2]) : layer;
  const auto* p = reinterpret_cast<const std::byte*>(t.data + plane * t.slice + uint64_t(index[1]) * t.pitch + uint64_t(index[0]) * bytes);
  if (watch) watch->object = &t, watch->touch(reinterpret_cast<uint64_t>(p), uint32_t(bytes));
  Texel texel{};
  for (int c = 0; c < t.channels; c++) texel.v[c] = channel(t, p, c);
  return texel;
}

uint32_t clamp_layer(const TextureObject& t, uint32_t layer) { return t.layers ? std::min(layer, t.layers - 1) : 0; }

}  // namespace

TexelWatch*& texel_watch() { return watch; }

Texel fetch_integer(const TextureObject& t, int dims, const int32_t* coords, uint32_t layer) {
  const Extent extent = extent_of(t);
  int64_t index[3] = {0, 0, 0};
  for (int d = 0; d < dims; d++) {
    if (t.linear_memory) {
      // Fetches from linear memory beyond the end give zero.
      if (coords[d] < 0 || coords[d] >= extent.size[d]) return Texel{};
      index[d] = coords[d];
    } else {
      index[d] = resolve(coords[d], extent.size[d], t.mode[d], false);
    }
  }
  return texel_at(t, index, clamp_layer(t, layer));
}

namespace {

Texel sample_level(const TextureObject& t, int dims, const float* coords, uint32_t layer) {
  const Extent extent = extent_of(t);
  layer = clamp_layer(t, layer);
  float at[3] = {0.5f, 0.5f, 0.5f};
  for (int d = 0; d < dims; d++) {
    at[d] = t.normalized_coords ? coords[d] * float(extent.size[d]) : coords[d];
    if (std::isnan(at[d])) at[d] = 0;
    at[d] = std::clamp(at[d], -1e9f, 1e9f);
  }
  if (!t.linear_filter) {
    int64_t index[3] = {0, 0, 0};
    for (int d = 0; d < dims; d++) index[d] = resolve(int64_t(std::floor(at[d])), extent.size[d], t.mode[d], t.normalized_coords);
    return texel_at(t, index, layer);
  }
  int64_t low[3] = {0, 0, 0};
  float weight[3] = {0, 0, 0};
  for (int d = 0; d < dims; d++) {
    // Positions are fixed point with 8 bits of fraction.
    const double fixed = std::nearbyint((double(at[d]) - 0.5) * 256.0);
    low[d] = int64_t(std::floor(fixed / 256.0));
    weight[d] = float((fixed - double(low[d]) * 256.0) / 256.0);
  }
  float sum[4] = {0, 0, 0, 0};
  for (int corner = 0; corner < 1 << dims; corner++) {
    int64_t index[3] = {0, 0, 0};
    float w = 1;
    for (int d = 0; d < dims; d++) {
      const int high = corner >> d & 1;
      index[d] = resolve(low[d] + high, extent.size[d], t.mode[d], t.normalized_coords);
      w *= high ? weight[d] : 1 - weight[d];
    }
    if (w == 0) continue;
    const Texel texel = texel_at(t, index, layer);
    for (int c = 0; c < 4; c++) sum[c] += w * std::bit_cast<float>(texel.v[c]);
  }
  Texel result{};
  for (int c = 0; c < 4; c++) result.v[c] = std::bit_cast<uint32_t>(sum[c]);
  return result;
}

}  // namespace

Texel fetch_float(const TextureObject& t, int dims, const float* coords, uint32_t layer, float level) {
  if (t.levels <= 1 || !t.mips) return sample_level(t, dims, coords, layer);
  const float top = float(t.levels - 1);
  float at = std::clamp(std::isnan(level) ? 0.0f : level + t.mip_bias, t.mip_min, t.mip_max);
  at = std::clamp(at, 0.0f, top);
  if (!t.mip_linear) return sample_level(t.mips[size_t(at + 0.5f)], dims, coords, layer);
  const int low = int(at);
  const float weight = std::nearbyint((at - float(low)) * 256.0f) / 256.0f;
  Texel a = sample_level(t.mips[low], dims, coords, layer);
  if (weight == 0) return a;
  const Texel b = sample_level(t.mips[low + 1], dims, coords, layer);
  for (int c = 0; c < 4; c++)
    a.v[c] = std::bit_cast<uint32_t>((1 - weight) * std::bit_cast<float>(a.v[c]) + weight * std::bit_cast<float>(b.v[c]));
  return a;
}

}  // namespace orrery::exec
