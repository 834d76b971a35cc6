// exec/tma.cc: see tma.h. One walk over the rows of a box serves loads, stores and reductions.
#include "exec/tma.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace orrery::exec {

namespace {

constexpr uint64_t kPiece = 16;
constexpr uint64_t kAhead = 32;                       // rows that a load fetches before their turn
constexpr uint64_t kCached = uint64_t{16} << 20;  // bytes of a tensor that may stay in caches
constexpr uint64_t kMaxRow = 256 * 32;      // bytes: the largest box of the largest unit
constexpr uint16_t kOutsideNan = 0x7FF7;    // what NaN fill writes, in every 16 bits

/// Elements of a tiled box along dimension i. Of an interleaved layout's last dimension but one (the slices of the
/// channels) a box has one, whatever its size says.
uint32_t extent(const TensorMap& m, int i) {
  if (m.interleave != Interleave::none && i == m.rank - 2) return 1;
  return (m.box[i] + m.element_strides[i] - 1u) / m.element_strides[i];
}

uint64_t row_units(const TensorMap& m) { return m.kind == TensorMapKind::tiled ? extent(m, 0) : m.channels; }
uint64_t row_bytes(const TensorMap& m) { return row_units(m) * unit_bytes(m); }
uint64_t row_pitch(const TensorMap& m) { return std::max<uint64_t>(row_bytes(m), swizzle_bytes(m.swizzle)); }
uint64_t row_count(const TensorMap& m) {
  if (m.kind != TensorMapKind::tiled) return m.pixels;
  uint64_t n = 1;
  for (int i = 1; i < m.rank; i++) n *= extent(m, i);
  return n;
}

/// Calls f(row number, address of unit 0 of the row in the tensor, whether the row is inside the tensor) for the rows
/// of a tiled box.
template <class F>
bool walk_tiled(const TensorMap& m, const BoxOrigin& o, F f) {
  uint32_t n[5] = {1, 1, 1, 1, 1};
  for (int i = 1; i < m.rank; i++) n[i] = extent(m, i);
  const int64_t step = m.rank > 1 ? m.element_strides[1] : 1, size = m.rank > 1 ? int64_t(m.size(1)) : 1;
  const uint64_t pitch = m.rank > 1 ? m.strides[0] * uint64_t(step) : 0;
  uint64_t row = 0;
  for (uint32_t k4 = 0; k4 < n[4]; k4++)
    for (uint32_t k3 = 0; k3 < n[3]; k3++)
      for (uint32_t k2 = 0; k2 < n[2]; k2++) {
        const uint32_t k[5] = {0, 0, k2, k3, k4};
        uint64_t address = m.address;
        bool inside = true;
        for (int i = 1; i < m.rank; i++) {
          const int64_t c = o.at[i] + int64_t{k[i]} * m.element_strides[i];
          inside &= i == 1 || (c >= 0 && uint64_t(c) < m.size(i));
          address += uint64_t(c) * m.strides[i - 1];
        }
        int64_t at = m.rank > 1 ? o.at[1] : 0;
        for (uint32_t k1 = 0; k1 < n[1]; k1++, row++, at += step, address += pitch)
          if (!f(row, address, inside && at >= 0 && at < size)) return false;
      }
  return true;
}

/// The same for the pixels of an im2col copy: along W, H, D inside the bounding box, then on to the next image.
template <class F>
bool walk_im2col(const TensorMap& m, const BoxOrigin& o, F f) {
  const int spatial = m.rank - 2, image = m.rank - 1;
  int64_t at[5];
  std::copy(std::begin(o.at), std::end(o.at), at);
  for (uint64_t row = 0; row < m.pixels; row++) {
    uint64_t address = m.address;
    bool inside = true;
    for (int i = 1; i < m.rank; i++) {
      const int64_t c = at[i] + (i <= spatial && o.has_offset ? int64_t{o.offset[i - 1]} : 0);
      inside &= c >= 0 && uint64_t(c) < m.size(i);
      address += uint64_t(c) * m.strides[i - 1];
    }
    if (!f(row, address, inside)) return false;
    int i = 1;
    for (; i <= spatial; i++) {
      at[i] += m.element_strides[i];
      if (at[i] <= int64_t{m.last[i]} + m.upper[i - 1]) break;
      at[i] = m.lower[i - 1];
    }
    if (i > spatial) at[image] += m.element_strides[image];
  }
  return true;
}

template <class F>
bool walk(const TensorMap& m, const BoxOrigin& o, F f) {
  return m.kind == TensorMapKind::tiled ? walk_tiled(m, o, f) : walk_im2col(m, o, f);
}

enum class Move { put, get, stream };  // into the image, out of it, out of it past the caches

/// Rows of the image in shared memory, with the swizzle undone.
struct Image {
  uint64_t address, bytes, pitch;
  uint32_t mask;  // of the pieces that a swizzle exchanges

  Image(const TensorMap& m, uint64_t a)
      : address(a), bytes(row_bytes(m)), pitch(row_pitch(m)), mask(swizzle_bytes(m.swizzle) ? swizzle_bytes(m.swizzle) / 16 - 1 : 0) {}

  /// Copies row `row` of the image at `at` to or from plain memory. A row that lies within one span of the swizzle has one
  /// pattern for all its pieces (rows of an interleaved layout may be longer).
  template <Move M>
  void copy(std::byte* at, uint64_t row, std::byte* plain) const {
    std::byte* const in_image = at + row * pitch;
    if (!mask && M != Move::stream) {
      std::memcpy(M == Move::put ? in_image : plain, M == Move::put ? plain : in_image, bytes);
      return;
    }
    const uint64_t a = address + row * pitch;
    if (mask && bytes > (mask + 1) * kPiece) return copy_pieces<M>(in_image, a, plain);
    const uint64_t pattern = (a >> 7 & mask) << 4, inside = a & (uint64_t{mask} << 4);
    std::byte* const span = in_image - inside;
    const auto piece = [&](uint64_t i) __attribute__((always_inline)) {
      __m128i *x = reinterpret_cast<__m128i*>(span + ((inside + i) ^ pattern)), *y = reinterpret_cast<__m128i*>(plain + i);
      if (M == Move::put) _mm_storeu_si128(x, _mm_loadu_si128(y));
      else if (M == Move::get) _mm_storeu_si128(y, _mm_loadu_si128(x));
      else _mm_stream_si128(y, _mm_loadu_si128(x));
    };
    if (bytes == 128)
      for (uint64_t i = 0; i < 128; i += 4 * kPiece) piece(i), piece(i + kPiece), piece(i + 2 * kPiece), piece(i + 3 * kPiece);
    else
      for (uint64_t i = 0; i < bytes; i += kPiece) piece(i);
  }
  void put(std::byte* image, uint64_t row, const std::byte* from) const { copy<Move::put>(image, row, const_cast<std::byte*>(from)); }
  void get(const std::byte* image, uint64_t row, std::byte* to) const { copy<Move::get>(const_cast<std::byte*>(image), row, to); }

 private:
  /// The row at shared-memory address `a`, each piece with its own pattern.
  template <Move M>
  void copy_pieces(std::byte* in_image, uint64_t a, std::byte* plain) const {
    for (uint64_t i = 0; i < bytes; i += kPiece) {
      std::byte* x = in_image + ((a + i) ^ ((a + i) >> 7 & mask) << 4) - a;
      std::memcpy(M == Move::put ? x : plain + i, M == Move::put ? plain + i : x, kPiece);
    }
  }
};

/// The part [first, end) of a row's units that is inside the tensor along dimension 0.
struct Span {
  uint64_t first, end;
};
Span inside_row(const TensorMap& m, int64_t x, uint64_t units) {
  const int64_t step = m.kind == TensorMapKind::tiled ? m.element_strides[0] : 1, n = int64_t(units);
  const int64_t first = x >= 0 ? 0 : std::min(n, (-x + step - 1) / step);
  const int64_t left = int64_t(m.size(0)) - x;
  const int64_t end = left <= 0 ? first : std::clamp((left + step - 1) / step, first, n);
  return {uint64_t(first), uint64_t(end)};
}

/// To nearest even with 10 fraction bits, as maps of type TFLOAT32 load.
uint32_t to_tf32(uint32_t u) {
  if ((u & 0x7FFFFFFF) > 0x7F800000) return 0x7FFFE000;
  return (u + 0xFFF + (u >> 13 & 1)) & ~uint32_t{0x1FFF};
}
bool rounds_to_tf32(const TensorMap& m) { return tensor_element_type(m.type) == isa::Type::tf32; }

/// Makes a row that is not a plain copy: fill outside, units inside, tf32 rounding.
void make_row(const TensorMap& m, int64_t x, const std::byte* from, Span in, uint64_t bytes, std::byte* row) {
  const uint64_t unit = unit_bytes(m), step = m.kind == TensorMapKind::tiled ? m.element_strides[0] : 1;
  if (m.nan_fill)
    for (uint64_t i = 0; i < bytes; i += 2) std::memcpy(row + i, &kOutsideNan, 2);
  else
    std::memset(row, 0, bytes);
  if (in.first >= in.end) return;
  if (step == 1) std::memcpy(row + in.first * unit, from + (x + int64_t(in.first)) * int64_t(unit), (in.end - in.first) * unit);
  else for (uint64_t i = in.first; i < in.end; i++)
    std::memcpy(row + i * unit, from + (x + int64_t(i * step)) * int64_t(unit), unit);
  if (!rounds_to_tf32(m)) return;
  for (uint64_t i = in.first; i < in.end; i++) {
    uint32_t v;
    std::memcpy(&v, row + i * 4, 4);
    v = to_tf32(v);
    std::memcpy(row + i * 4, &v, 4);
  }
}

}  // namespace

uint64_t box_bytes(const TensorMap& m) { return row_bytes(m) * row_count(m); }

uint64_t image_bytes(const TensorMap& m) {
  const uint64_t n = row_pitch(m) * row_count(m);
  return m.swizzle == Swizzle::none ? n : (n + 127) / 128 * 128;
}

BoxError check_box(const TensorMap& m, int rank, bool im2col, bool store, const BoxOrigin& o) {
  if (m.magic != kTensorMapMagic || m.rank != rank) return BoxError::not_a_map;
  if (m.kind != (im2col ? TensorMapKind::im2col : TensorMapKind::tiled)) return BoxError::wrong_mode;
  if (im2col && m.interleave != Interleave::none) return BoxError::type;
  if (!is_well_formed(m)) return BoxError::not_a_map;
  if (unit_bytes(m) == 0 || (m.interleave != Interleave::none && m.rank < 3)) return BoxError::type;
  if (m.interleave == Interleave::none) {  // what an encoder refuses, but tensormap.replace can make
    const uint64_t bytes = row_bytes(m);
    if (bytes % kPiece || (swizzle_bytes(m.swizzle) && bytes > swizzle_bytes(m.swizzle))) return BoxError::type;
  }
  if (o.at[0] * int64_t{unit_bytes(m)} % int64_t(kPiece)) return BoxError::misaligned;
  if (store && !im2col)
    for (int i = 0; i < rank; i++)
      if (o.at[i] < 0) return BoxError::negative;
  if (store && im2col)
    for (int i = 0; i + 2 < rank; i++)
      if (m.lower[i] < 0 || m.upper[i] > 0) return BoxError::outside;
  return BoxError::none;
}

namespace {

/// Programs load box after box by a fixed step. A store that goes past the caches leaves them room and time to read: it
/// fetches where the next load of its thread should be.
struct Expected {
  uint64_t map = 0, last = 0;  // the tensor of the latest load, and where that was
  uint64_t next = 0;           // where the next is expected; 0: nowhere, or it has been fetched
  uint64_t pitch = 0;
};
thread_local Expected g_expected;
thread_local bool g_unsettled = false;  // stores that went past the caches are not ordered with later ones

void expect_after(const TensorMap& m, uint64_t first, uint64_t pitch) {
  Expected& e = g_expected;
  e.next = e.map == m.address && e.last != first ? first + (first - e.last) : 0;
  e.map = m.address, e.last = first, e.pitch = pitch;
}

constexpr uint64_t kSpan = 128;  // bytes of a row whose 16-byte units the widest swizzle exchanges

bool has_wide_vectors() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}

/// Where the 16-byte units of a row of 128 bytes go.
struct Exchange {
  __m512i order;
  uint32_t near;  // byte in the image at which its first half lies
};
__attribute__((target("avx512f"))) inline Exchange exchange_of(uint32_t pattern) {
  const __m512i identity = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm512_xor_si512(identity, _mm512_set1_epi64(pattern % 4 * 2)), pattern / 4 % 2 * 64};
}

/// `n` rows of 128 bytes into the image, whose pieces are exchanged within them; row r of the image has pattern
/// (first_pattern + r) % 8. Rows `ahead` bytes on are fetched, too. Four rows far apart at a time: the processor's own
/// fetching then follows four pages.
__attribute__((target("avx512f"))) void put_spans(std::byte* image, const std::byte* plain, uint64_t pitch, uint32_t n, uint32_t first_pattern, int64_t ahead) {
  const uint32_t streams = n % 4 == 0 ? 4 : 1, each = n / streams;
  for (uint32_t i = 0; i < each; i++)
    for (uint32_t k = 0; k < streams; k++) {
      const uint32_t r = i + k * each;
      const std::byte* from = plain + r * pitch;
      std::byte* to = image + r * kSpan;
      const Exchange x = exchange_of(first_pattern + r);
      _mm_prefetch(reinterpret_cast<const char*>(from) + ahead, _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(from) + ahead + 64, _MM_HINT_T1);
      const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 64);
      _mm512_storeu_si512(to + x.near, _mm512_maskz_permutexvar_epi64(0xff, x.order, a));
      _mm512_storeu_si512(to + (x.near ^ 64), _mm512_maskz_permutexvar_epi64(0xff, x.order, b));
    }
}

/// The way back, to plain memory (aligned to 64 bytes for stream).
template <Move M>
__attribute__((target("avx512f"))) void get_spans(const std::byte* image, std::byte* plain, uint64_t pitch, uint32_t n, uint32_t first_pattern, uint64_t ahead,
                                                  uint64_t ahead_pitch) {
  for (uint32_t r = 0; r < n; r++, image += kSpan, plain += pitch, ahead += ahead_pitch) {
    const Exchange x = exchange_of(first_pattern + r);
    if (ahead) {
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T1);
      _mm_prefetch(reinterpret_cast<const char*>(ahead + 64), _MM_HINT_T1);
    }
    const __m512i a = _mm512_maskz_permutexvar_epi64(0xff, x.order, _mm512_loadu_si512(image + x.near));
    const __m512i b = _mm512_maskz_permutexvar_epi64(0xff, x.order, _mm512_loadu_si512(image + (x.near ^ 64)));
    if (M == Move::stream) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(plain), a);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(plain + 64), b);
    } else {
      _mm512_storeu_si512(plain, a);
      _mm512_storeu_si512(plain + 64, b);
    }
  }
}

/// Moves a tiled box that lies inside the tensor and has nothing to convert, whole rows at a time. False: not such a box.
template <Move M>
bool move_whole(const TensorMap& m, const BoxOrigin& o, std::byte* image, uint64_t address) {
  if (m.kind != TensorMapKind::tiled || m.rank < 2 || m.element_strides[0] != 1 || (M == Move::put && rounds_to_tf32(m))) return false;
  uint32_t n[5] = {1, 1, 1, 1, 1};
  uint64_t first = m.address + uint64_t(o.at[0]) * unit_bytes(m);
  for (int i = 0; i < m.rank; i++) {
    n[i] = extent(m, i);
    if (o.at[i] < 0 || uint64_t(o.at[i]) + uint64_t{n[i] - 1} * m.element_strides[i] >= m.size(i)) return false;
    if (i > 0) first += uint64_t(o.at[i]) * m.strides[i - 1];
  }
  const auto step = [&](int i) { return i < m.rank ? m.strides[i - 1] * m.element_strides[i] : 0; };
  const uint64_t s1 = step(1), s2 = step(2), s3 = step(3), s4 = step(4);
  const Image rows(m, address);
  uint64_t row = 0;
  const uint64_t expected = M == Move::stream ? std::exchange(g_expected.next, 0) : 0;
  if (M == Move::put) expect_after(m, first, s1);
  const int64_t ahead = g_expected.next ? int64_t(g_expected.next - first) : int64_t(kAhead * s1);
  const bool spans = has_wide_vectors() && rows.bytes == kSpan && rows.mask == 7 && address % kSpan == 0 && (M != Move::stream || (first | s1 | s2 | s3 | s4) % 64 == 0);
  for (uint32_t k4 = 0; k4 < n[4]; k4++)
    for (uint32_t k3 = 0; k3 < n[3]; k3++)
      for (uint32_t k2 = 0; k2 < n[2]; k2++) {
        uint64_t at = first + k4 * s4 + k3 * s3 + k2 * s2;
        if (spans) {
          std::byte *part = image + row * kSpan, *plain = reinterpret_cast<std::byte*>(at);
          const uint32_t pattern = uint32_t(address / kSpan + row);
          if (M == Move::put) put_spans(part, plain, s1, n[1], pattern, ahead);
          else get_spans<M>(part, plain, s1, n[1], pattern, expected ? expected + row * g_expected.pitch : 0, g_expected.pitch);
          row += n[1];
          continue;
        }
        for (uint32_t k1 = 0; k1 < n[1]; k1++, row++, at += s1) {
          if (M == Move::put)
            for (uint64_t i = 0; i < rows.bytes; i += 64) _mm_prefetch(reinterpret_cast<const char*>(at + kAhead * s1 + i), _MM_HINT_T0);
          rows.copy<M>(image, row, reinterpret_cast<std::byte*>(at));
        }
      }
  if (M == Move::stream) g_unsettled = true;
  return true;
}

}  // namespace

void load_box(const TensorMap& m, const BoxOrigin& o, std::byte* image, uint64_t address) {
  if (move_whole<Move::put>(m, o, image, address)) return;
  const Image to(m, address);
  const uint64_t units = row_units(m), unit = unit_bytes(m);
  const Span in = inside_row(m, o.at[0], units);
  const bool plain = in.first == 0 && in.end == units && (m.kind != TensorMapKind::tiled || m.element_strides[0] == 1) && !rounds_to_tf32(m);
  alignas(64) std::byte row[kMaxRow];
  walk(m, o, [&](uint64_t r, uint64_t base, bool inside) {
    const std::byte* from = reinterpret_cast<const std::byte*>(base);
    if (inside && plain) {
      to.put(image, r, from + o.at[0] * int64_t(unit));
      return true;
    }
    make_row(m, o.at[0], from, inside ? in : Span{0, 0}, to.bytes, row);
    to.put(image, r, row);
    return true;
  });
}

namespace {

/// Calls f(destination, source, bytes) for every contiguous piece of the box that a store writes.
template <class F>
bool walk_store(const TensorMap& m, const BoxOrigin& o, const std::byte* image, uint64_t address, F f) {
  const Image from(m, address);
  const uint64_t units = row_units(m), unit = unit_bytes(m), step = m.kind == TensorMapKind::tiled ? m.element_strides[0] : 1;
  const Span in = inside_row(m, o.at[0], units);
  if (in.first >= in.end) return true;
  const uint64_t end = std::min(from.bytes, (in.end * unit + kPiece - 1) / kPiece * kPiece);
  alignas(64) std::byte row[kMaxRow];
  return walk(m, o, [&](uint64_t r, uint64_t base, bool inside) {
    if (!inside) return true;
    from.get(image, r, row);
    std::byte* to = reinterpret_cast<std::byte*>(base) + o.at[0] * int64_t(unit);
    if (step == 1) return f(to + in.first * unit, row + in.first * unit, end - in.first * unit);
    for (uint64_t i = in.first; i < in.end; i++)
      if (!f(to + i * step * unit, row + i * unit, unit)) return false;
    return true;
  });
}

}  // namespace

void for_box_pieces(const TensorMap& m, const BoxOrigin& o, bool store, void (*f)(void*, uint64_t, uint64_t), void* context) {
  const uint64_t units = row_units(m), unit = unit_bytes(m), step = m.kind == TensorMapKind::tiled ? m.element_strides[0] : 1;
  const Span in = inside_row(m, o.at[0], units);
  if (in.first >= in.end) return;
  const uint64_t exact = in.end * unit, end = store ? std::min(row_bytes(m), (exact + kPiece - 1) / kPiece * kPiece) : exact;
  walk(m, o, [&](uint64_t, uint64_t base, bool inside) {
    if (!inside) return true;
    const uint64_t at = base + uint64_t(o.at[0] * int64_t(unit));
    if (step == 1) return f(context, at + in.first * unit, end - in.first * unit), true;
    for (uint64_t i = in.first; i < in.end; i++) f(context, at + i * step * unit, unit);
    return true;
  });
}

void touch_box(const TensorMap& m, const BoxOrigin& o) {
  struct Ends { uint64_t first = 0, last = 0; } ends;
  for_box_pieces(m, o, false, [](void* p, uint64_t address, uint64_t bytes) {
    Ends& e = *static_cast<Ends*>(p);
    if (!e.first) e.first = address;
    e.last = address + bytes - 1;
  }, &ends);
  if (!ends.first) return;  // all of it outside the tensor
  for (uint64_t at : {ends.first, ends.last}) *reinterpret_cast<const volatile std::byte*>(at);
}

void store_box(const TensorMap& m, const BoxOrigin& o, const std::byte* image, uint64_t address) {
  std::byte* const from = const_cast<std::byte*>(image);
  const bool large = m.rank > 1 && m.strides[m.rank - 2] * m.size(m.rank - 1) > kCached && row_bytes(m) % 64 == 0;
  if (large ? move_whole<Move::stream>(m, o, from, address) : move_whole<Move::get>(m, o, from, address)) return;
  walk_store(m, o, image, address, [](std::byte* to, const std::byte* from, uint64_t bytes) { return std::memcpy(to, from, bytes), true; });
}

void settle_stores() {
  if (std::exchange(g_unsettled, false)) _mm_sfence();
}

bool reduce_box(const TensorMap& m, const BoxOrigin& o, const std::byte* image, uint64_t address, ReduceKind kind) {
  const isa::Type type = tensor_element_type(m.type);
  if (type == isa::Type::u8 || type == isa::Type::u16) return false;
  if (type == isa::Type::s64 && kind != ReduceKind::min && kind != ReduceKind::max) return false;
  const bool ftz = m.type == 10 || m.type == 12;  // FLOAT32_FTZ, TFLOAT32_FTZ
  return walk_store(m, o, image, address,
                    [&](std::byte* to, const std::byte* from, uint64_t bytes) { return reduce(to, from, bytes, type, kind, ftz); });
}

}  // namespace orrery::exec
