// Cases of pure instructions with results from the PTX manual, IEEE 754 or an H200; the bulk is in tests/vectors.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "isa/row.h"
#include "sem/mufu.h"
#include "sem/mufu_lanes.h"
#include "sem/pure.h"

namespace orrery::sem {
namespace {

struct Lanes {
  alignas(64) uint64_t words[64] = {};
  uint32_t* w() { return reinterpret_cast<uint32_t*>(words); }
};
uint32_t run(const char* name, std::vector<uint32_t> sources, uint32_t mask = ~0u, uint32_t before = 0) {
  const isa::Form form = isa::match_name(name).form;
  const PureFn pure = find_pure(form, 1, int(sources.size()));
  EXPECT_NE(pure, nullptr) << name;
  if (!pure) return 0;
  std::vector<Lanes> s(sources.size());
  std::vector<const void*> sp;
  for (size_t j = 0; j < s.size(); j++) {
    for (int i = 0; i < 32; i++) s[j].w()[i] = sources[j];
    sp.push_back(&s[j]);
  }
  Lanes d;
  for (int i = 0; i < 32; i++) d.w()[i] = before;
  void* dp[2] = {&d, nullptr};
  pure(form, dp, sp.data(), mask);
  for (int i = 0; i < 32; i++) EXPECT_EQ(d.w()[i], mask >> i & 1 ? d.w()[std::countr_zero(mask)] : before) << name << " lane " << i;
  return d.w()[std::countr_zero(mask)];
}

TEST(Pure, integers) {
  EXPECT_EQ(run("add.sat.s32", {0x7fffffff, 1}), 0x7fffffffu);
  EXPECT_EQ(run("mul.hi.s32", {0x80000000, 0x80000000}), 0x40000000u);
  EXPECT_EQ(run("div.u32", {7, 0}), 0xffffffffu);
  EXPECT_EQ(run("rem.s32", {0x80000000, 0xffffffff}), 0u);
  EXPECT_EQ(run("bfe.s32", {0xf0, 4, 4}), 0xffffffffu);
  EXPECT_EQ(run("lop3.b32", {0xf0f0f0f0, 0xcccccccc, 0xaaaaaaaa, 0xe8}), 0xe8e8e8e8u);
  EXPECT_EQ(run("prmt.b32", {0x33221180, 0x77665544, 0x8074}), 0xff807744u);
  EXPECT_EQ(run("dp4a.s32.u32", {0xff01ff01, 0x02020202, 10}), 10u);
}
TEST(Pure, masked_lanes_keep_their_values) { EXPECT_EQ(run("add.u32", {1, 2}, 0x00ff0010, 0xabcd), 3u); }
TEST(Pure, floats) {
  EXPECT_EQ(run("add.rn.f32", {0x3f800000, 0x33800000}), 0x3f800000u);   // a tie goes to even
  EXPECT_EQ(run("add.rp.f32", {0x3f800000, 0x33800000}), 0x3f800001u);
  EXPECT_EQ(run("mul.rn.ftz.f32", {0x3f7fffff, 0x00800000}), 0u);        // tiny after rounding
  EXPECT_EQ(run("mul.rn.f32", {0x3f7fffff, 0x00800000}), 0x00800000u);
  EXPECT_EQ(run("abs.f32", {0xffc00001}), 0x7fffffffu);
  EXPECT_EQ(run("max.f32", {0x80000000, 0}), 0u);
  EXPECT_EQ(run("rcp.approx.ftz.f32", {0x40000000}), 0x3f000000u);
  EXPECT_EQ(run("cvt.rzi.s32.f32", {0x7fc00000}), 0u);
  EXPECT_EQ(run("cvt.rn.f16.bf16", {0x3f81}), 0x3c08u);                  // exact
  EXPECT_EQ(run("cvt.rn.f16.bf16", {0x5015}), 0x7c00u);                  // 1e10 is past the largest half,
  EXPECT_EQ(run("cvt.rz.f16.bf16", {0x5015}), 0x7bffu);                  // where rounding to zero stays
  EXPECT_EQ(run("cvt.rp.f16.bf16", {0x0080}), 1u);                       // 2^-126, below the smallest half
  EXPECT_EQ(run("cvt.rn.satfinite.e4m3x2.f32", {0x7f800000, 0x3f800000}), 0x7e38u);
}
TEST(Pure, unknown_forms_have_no_function) {
  EXPECT_EQ(find_pure(isa::match_name("ld.global.u32").form), nullptr);
  EXPECT_EQ(find_pure(isa::match_name("cvt.rn.satfinite.e2m1x2.f32").form, 1, 2), nullptr);
}

// Lanes done by the vector have the result of the one-lane unit, whose recorded results from an H200 tests/vectors has.
struct Vectorised {
  const char* name;
  MufuLanes::Function lanes;
  mufu::Value (*unit)(float);
};
mufu::Value normal(float v) {
  const auto b = std::bit_cast<uint32_t>(v);
  return {(b & 0x7fffff) | 1u << 23, int(b >> 23 & 0xff) - 127, bool(b >> 31)};
}
uint32_t bits(const mufu::Value& v) {
  const uint32_t sign = uint32_t(v.negative) << 31;
  return v.significand ? sign | uint32_t(v.exponent + 127) << 23 | (v.significand & 0x7fffff) : sign;
}
template <bool Cosine>
mufu::Value sine_of(float a) {  // of the turns, a product cut toward zero
  const double exact = double(a) * double(std::bit_cast<float>(0x3e22f983));
  return mufu::sine(std::bit_cast<float>(uint32_t(std::bit_cast<uint64_t>(exact) >> 29 & 0x7fffff) |
                                         uint32_t((std::bit_cast<uint64_t>(exact) >> 52 & 0x7ff) - 896) << 23 | uint32_t(std::signbit(exact)) << 31),
                    Cosine);
}

mufu::Value tanh_of(float a) {  // its argument below 2^-8, 1 from 8 on
  if (std::fabs(a) >= 8) return {1u << 23, 0, std::signbit(a)};
  mufu::Value v = normal(a);
  if (v.exponent == -127) v.significand &= 0x7fffff;
  return v.exponent < mufu::TanhRows::kLeast ? v : mufu::tanh(v);
}

void expect_the_unit(const MufuLanes& v) {
  const Vectorised all[] = {
      {"rcp", v.rcp, [](float a) { return mufu::rcp(normal(a)); }},     {"sqrt", v.sqrt, [](float a) { return mufu::sqrt(normal(a)); }},
      {"rsqrt", v.rsqrt, [](float a) { return mufu::rsqrt(normal(a)); }}, {"ex2", v.ex2, [](float a) { return mufu::ex2(a); }},
      {"lg2", v.lg2, [](float a) { return mufu::lg2(normal(a)); }},     {"sin", v.sin, sine_of<false>},
      {"cos", v.cos, sine_of<true>}, {"tanh", v.tanh, tanh_of}};
  for (const Vectorised& t : all) {
    uint64_t done = 0;
    for (uint64_t first = 0; first < uint64_t{1} << 32; first += 32 * 997) {
      uint32_t in[32], out[32] = {};
      for (uint32_t i = 0; i < 32; i++) in[i] = uint32_t(first + 997 * i);
      const uint32_t mask = t.lanes(in, out, 0x7fffffff);
      for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        done++;
        ASSERT_EQ(out[i], bits(t.unit(std::bit_cast<float>(in[i])))) << t.name << " of " << std::hex << in[i];
      }
      ASSERT_EQ(out[31], 0u) << "a lane that was not asked for";
    }
    EXPECT_GT(done, uint64_t{1} << 20) << t.name;
  }
}

TEST(Pure, the_unit_by_the_vector_is_the_unit) { expect_the_unit(mufu_lanes_v3()); }
TEST(Pure, the_unit_by_wider_vectors_is_the_unit) {
  if (&mufu_lanes() == &mufu_lanes_v3()) GTEST_SKIP() << "no AVX-512";
  expect_the_unit(mufu_lanes());
}

// Hashes of all results of a binade, from 2^-8 to 2^2, by an H200 (driver 580.159.04, 2026-11-29), each of which stands for as many arguments as the
// unit does not tell apart.
TEST(Pure, tanh_is_that_of_an_h200_everywhere) {
  const uint64_t recorded[mufu::TanhRows::kBinades] = {0x526ef590798ed73d, 0xc70c5478e3385a9e, 0x66917f46087dc999, 0xe07c76e9b736550a, 0xab877dee0133f589, 0x50e209f002715559,
                                                       0xe1ac93813e6c8849, 0xbb6e0a500d767cd5, 0x92aa055d87f9ae0d, 0x4570065fa4cfe173, 0xb62a780df08da7b0};
  for (int binade = 0; binade < mufu::TanhRows::kBinades; binade++) {
    const uint32_t step = 1u << (6 - mufu::kTanhRows[binade].bits), base = uint32_t(127 + mufu::TanhRows::kLeast + binade) << 23;
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t first = 0; first < 1u << 23; first += 32 * step) {
      uint32_t in[32], out[32] = {};
      for (uint32_t i = 0; i < 32; i++) in[i] = base + first + i * step;
      ASSERT_EQ(mufu_lanes().tanh(in, out, ~0u), ~0u);
      for (uint32_t v : out) hash = (hash ^ v) * 0x100000001b3;
    }
    EXPECT_EQ(hash, recorded[binade]) << "2^" << binade + mufu::TanhRows::kLeast;
  }
}

}  // namespace
}  // namespace orrery::sem
