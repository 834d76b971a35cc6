// Physical quantities as types: a number that knows its dimension, so that bytes are never added to cycles.
//
// A Quantity carries five integer exponents (byte, cycle, operation, second, joule) and one double. Products
// and quotients compute the exponents at compile time; sums need equal ones; a quantity with no dimension
// left turns into a double. Whole numbers up to 2^53 are exact, which covers every byte and operation count
// in use here. The value is always held in the base unit (bytes, cycles, operations, seconds, joules); scales
// such as GB/s belong to the edges: file loaders and reports.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>
#include <type_traits>

namespace orrery {

template <int kByte, int kCycle, int kOp, int kSecond, int kJoule>
class Quantity {
 public:
  static constexpr bool kPlain = kByte == 0 && kCycle == 0 && kOp == 0 && kSecond == 0 && kJoule == 0;

  constexpr Quantity() = default;
  constexpr explicit(!kPlain) Quantity(double value) : value_(value) {}

  // The number in base units.
  constexpr double value() const { return value_; }
  // The number in base units, rounded to the nearest integer.
  std::int64_t count() const { return std::llround(value_); }
  constexpr operator double() const requires(kPlain) { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator-() const { return Quantity(-value_); }
  constexpr Quantity& operator+=(Quantity other) { return value_ += other.value_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value_ -= other.value_, *this; }
  constexpr Quantity& operator*=(double factor) { return value_ *= factor, *this; }
  constexpr Quantity& operator/=(double divisor) { return value_ /= divisor, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, double b) { return Quantity(a.value_ * b); }
  friend constexpr Quantity operator*(double a, Quantity b) { return Quantity(a * b.value_); }
  friend constexpr Quantity operator/(Quantity a, double b) { return Quantity(a.value_ / b); }

 private:
  double value_ = 0;
};

template <int B1, int C1, int O1, int S1, int J1, int B2, int C2, int O2, int S2, int J2>
constexpr auto operator*(Quantity<B1, C1, O1, S1, J1> a, Quantity<B2, C2, O2, S2, J2> b) {
  return Quantity<B1 + B2, C1 + C2, O1 + O2, S1 + S2, J1 + J2>(a.value() * b.value());
}
template <int B1, int C1, int O1, int S1, int J1, int B2, int C2, int O2, int S2, int J2>
constexpr auto operator/(Quantity<B1, C1, O1, S1, J1> a, Quantity<B2, C2, O2, S2, J2> b) {
  return Quantity<B1 - B2, C1 - C2, O1 - O2, S1 - S2, J1 - J2>(a.value() / b.value());
}
template <int B, int C, int O, int S, int J>
requires(!Quantity<B, C, O, S, J>::kPlain) constexpr auto operator/(double a, Quantity<B, C, O, S, J> b) {
  return Quantity<-B, -C, -O, -S, -J>(a / b.value());
}

using Bytes = Quantity<1, 0, 0, 0, 0>;
using Cycles = Quantity<0, 1, 0, 0, 0>;
using Ops = Quantity<0, 0, 1, 0, 0>;  // arithmetic operations; a multiply-add is two
using Seconds = Quantity<0, 0, 0, 1, 0>;
using Joules = Quantity<0, 0, 0, 0, 1>;
using Hertz = Quantity<0, 1, 0, -1, 0>;  // cycles per second
using Watts = Quantity<0, 0, 0, -1, 1>;
using BytesPerSecond = Quantity<1, 0, 0, -1, 0>;
using BytesPerCycle = Quantity<1, -1, 0, 0, 0>;
using OpsPerSecond = Quantity<0, 0, 1, -1, 0>;
using OpsPerCycle = Quantity<0, -1, 1, 0, 0>;
using JoulesPerByte = Quantity<-1, 0, 0, 0, 1>;
using JoulesPerOp = Quantity<0, 0, -1, 0, 1>;
using JoulesPerCycle = Quantity<0, -1, 0, 0, 1>;

}  // namespace orrery
