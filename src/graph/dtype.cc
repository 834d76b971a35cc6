// Table of number formats. Bits of block formats: MXFP4 has an 8-bit scale per 32 (OCP MX), NVFP4 an fp8
// scale per 16, NF4 an fp32 constant per 64 or, with double quantization, 8 bits per 64 and 32 per 16,384
// (QLoRA).
#include "graph/dtype.h"

#include <charconv>
#include <cmath>

#include "base/error.h"

namespace orrery::graph {
namespace {

struct Row {
  std::string_view name;
  Format format;
  double bits;
};
constexpr Row kRows[] = {
    {"fp32", Format::kFp32, 32},    {"float32", Format::kFp32, 32},  {"tf32", Format::kTf32, 32},
    {"bf16", Format::kBf16, 16},    {"bfloat16", Format::kBf16, 16}, {"fp16", Format::kFp16, 16},
    {"float16", Format::kFp16, 16}, {"fp8", Format::kFp8, 8},        {"int8", Format::kInt8, 8},
    {"int4", Format::kInt4, 4},     {"int3", Format::kInt3, 3},      {"int2", Format::kInt2, 2},
    {"nf4", Format::kNf4, 4.5},     {"mxfp4", Format::kMxfp4, 4.25}, {"nvfp4", Format::kNvfp4, 4.5},
    {"byte", Format::kByte, 8},     {"int32", Format::kInt32, 32},
};

double number(std::string_view text, std::string_view whole) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0 && value < 1e9))
    base::fail("bad number '{}' in dtype '{}'", text, whole);
  return value;
}

[[noreturn]] void unknown(std::string_view text) {
  std::string names;
  for (const Row& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  base::fail("unknown dtype '{}'; known: {}, vq KxD, and integers with a group such as 'int4 g128'", text,
             names);
}

}  // namespace

DType parse_dtype(std::string_view text) {
  auto cut = text.find_first_of(" -");
  std::string_view name = text.substr(0, cut);
  std::string_view extra = cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
  if (name == "vq") {
    auto times = extra.find('x');
    if (times == std::string_view::npos) unknown(text);
    double entries = number(extra.substr(0, times), text), values = number(extra.substr(times + 1), text);
    if (entries < 2 || values < 1) base::fail("dtype '{}': a codebook has at least 2 entries of at least 1 value", text);
    return {Format::kVq, std::log2(entries) / values, false};
  }
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    DType dtype{row.format, row.bits, false};
    if (extra.empty()) return dtype;
    if (extra == "block" && row.format == Format::kFp8) return {Format::kFp8, 8, true};
    if (extra == "dq" && row.format == Format::kNf4) return {Format::kNf4, 4 + 8.0 / 64 + 32.0 / 16384, false};
    bool integer = row.format == Format::kInt8 || row.format == Format::kInt4 ||
                   row.format == Format::kInt3 || row.format == Format::kInt2;
    if (extra[0] == 'g' && integer) {
      double group = number(extra.substr(1), text);
      dtype.bits += (16 + row.bits) / group;
      return dtype;
    }
    unknown(text);
  }
  unknown(text);
}

std::string_view format_name(Format format) {
  if (format == Format::kVq) return "vq";
  for (const Row& row : kRows)
    if (row.format == format) return row.name;
  return "?";
}

}  // namespace orrery::graph
