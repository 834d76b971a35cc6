// Number formats as a plan sees them: bits in storage (scales included) and the arithmetic that they run on.
//
// A DType is a value, not an entry of a registry: `int4 g128` has 4 + 16/128 + 4/128 = 4.15625 bits because
// each group of 128 carries an fp16 scale and a 4-bit zero point. Which tensor-core rate applies is decided
// by tensor_rate (schedule.h): a format that the GPU cannot multiply is widened to 16 bits as it is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery::graph {

enum class Format : std::uint8_t {
  kFp32,
  kTf32,
  kBf16,
  kFp16,
  kFp8,
  kInt8,
  kInt4,
  kInt3,
  kInt2,
  kNf4,
  kMxfp4,
  kNvfp4,
  kVq,
  kByte,
  kInt32
};

struct DType {
  Format format = Format::kBf16;
  double bits = 16;  // stored bits per element, scales and zero points included
  bool blocks = false;  // fp8 with a scale for every 128 x 128 block (0.02% of bytes, not counted), not for a tensor

  double bytes() const { return bits / 8; }
  bool operator==(const DType&) const = default;
};

inline constexpr DType kBf16{Format::kBf16, 16, false};
inline constexpr DType kFp16{Format::kFp16, 16, false};
inline constexpr DType kFp32{Format::kFp32, 32, false};
inline constexpr DType kFp8{Format::kFp8, 8, false};
inline constexpr DType kMxfp4{Format::kMxfp4, 4.25, false};
inline constexpr DType kByte{Format::kByte, 8, false};

// Parses "bf16", "fp8", "fp8 block", "int4 g128" (also "int4-g128"), "nf4", "nf4 dq", "mxfp4", "nvfp4", "vq 256x4"
// (codebook of 256 vectors of 4), "int3", ...; throws base::Error that lists the known names.
DType parse_dtype(std::string_view text);
// The canonical spelling of the format.
std::string_view format_name(Format format);

}  // namespace orrery::graph
