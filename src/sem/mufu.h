// sem/mufu.h: the special-function unit of a Hopper SM, bit for bit.
//
// Every function is a quadratic interpolation: the leading 6 or 7 fraction bits of the argument choose a row of three
// coefficients, the remaining bits x give (c0 + c1 x + c2 s(x)) >> shift, where s is x squared by an array of partial
// products that are cut off below (square()). The result is truncated; rounding is a constant inside c0.
//
//   function   rows   x bits   squared     shift   result
//   rcp        128    16       2 x         15      significand of 1/m in [1, 2], halved
//   rsqrt      128    17       4 s(x)      16      the same; the first 64 rows for even exponents
//   sqrt       128    17       2 s(x)      17      significand of the root
//   ex2         64    17       s(x)        15      significand of 2^f; argument in 23 fraction bits
//   lg2         64    17       2 s(x)       2      fraction of log2, 36 bits, before normalisation
//   sin         64    17       s(x)         -      sine of a quarter turn, 37 bits, before normalisation
//   tanh        51    17       s(x)         -      39 bits, before normalisation; a binade of arguments has 1 to 16 rows (TanhRows)
//
// A result here is a value without range: sign, 24-bit significand, exponent. approx.cc packs it as a form asks.
// Source: the structure is that of Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator"
// (2005), in the arrangement known of earlier GPUs (envytools); the coefficients are fitted to H200 results.
#pragma once
#include <cstdint>

namespace orrery::sem::mufu {

/// significand * 2^(exponent - 23), significand in [2^23, 2^24), or zero.
struct Value {
  uint32_t significand = 0;
  int exponent = 0;
  bool negative = false;
};

/// 1 / v, for a normal v.
Value rcp(Value v);
/// 1 / sqrt(v) and sqrt(v), for a positive normal v.
Value rsqrt(Value v);
Value sqrt(Value v);
/// 2^x of a finite f32, as the unit sees it: the argument is cut to 23 fraction bits; |x| must be below 128.
Value ex2(float x);
/// log2(v), for a positive v.
Value lg2(Value v);
/// Hyperbolic tangent of a magnitude in [2^-8, 8): below it is the argument, above it is 1.
Value tanh(Value v);
/// Sine or cosine of `turns` whole turns (an f32 product x / 2 pi), for finite arguments.
Value sine(float turns, bool cosine);

/// Where the rows of the binade of 2^(i - 8) begin, and how many leading fraction bits choose among them: from 2^-8 on one row, as the function is
/// nearly its argument, up to sixteen in [2, 4), and eight in [4, 8).
struct TanhRows {
  static constexpr int kLeast = -8, kBinades = 11;
  uint8_t first, bits;
};
constexpr TanhRows kTanhRows[TanhRows::kBinades] = {{0, 0}, {1, 0}, {2, 0}, {3, 1}, {5, 1}, {7, 2}, {11, 2}, {15, 2}, {19, 3}, {27, 4}, {43, 3}};

}  // namespace orrery::sem::mufu
