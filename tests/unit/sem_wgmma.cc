// A chain of wgmma instructions by four warps against the same instructions one by one, whose results were compared with
// an H200 (tests/vectors): every bit, whatever the path.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "sem/tensor.h"

namespace orrery::sem {
namespace {

using isa::Type;

struct Registers {
  std::vector<std::array<uint32_t, 32>> words;
  std::vector<void*> places;
  explicit Registers(size_t n) : words(n) {
    for (auto& w : words) places.push_back(w.data());
  }
};

isa::Form form_of(Type d, Type a, Type b, int n, int k) {
  isa::Form f;
  f.op = isa::Op::wgmma_mma_async;
  f.shape.m = 64, f.shape.n = uint16_t(n), f.shape.k = uint16_t(k);
  f.types[0] = d, f.types[1] = a, f.types[2] = b;
  f.n_types = 3;
  return f;
}

void compare(const isa::Form& f, size_t registers, bool fast, bool transposed, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> shared(1 << 17);
  for (size_t i = 0; i < shared.size(); i += 2) {
    const uint16_t v = uint16_t(0x3c00 + (random() & 0x83ff));  // ordinary numbers in every type
    std::memcpy(&shared[i], &v, 2);
  }
  const Numerics numerics{TensorCore::hopper, fast};
  std::vector<Registers> one, chain;
  for (int w = 0; w < 4; w++) {
    one.emplace_back(registers);
    for (auto& r : one.back().words)
      for (uint32_t& x : r) x = f.type(0) == Type::f16 ? 0x3c003c00 + (random() & 0x01ff01ff) : 0x3f800000 + (random() & 0x807fffff);
    chain.emplace_back(registers);
    chain.back().words = one.back().words;
  }
  std::vector<WgmmaOperands> operands;
  constexpr int kSteps = 20;  // more than one chain takes
  for (int step = 0; step < kSteps; step++)
    for (int w = 0; w < 4; w++) {
      WgmmaOperands o;
      o.warp = w;
      o.a_desc = uint64_t(64) << 32 | uint64_t(1) << 62 | uint64_t(2 * (step % 4) + 64 * (step / 4));
      o.b_desc = uint64_t(64) << 32 | uint64_t(1) << 62 | uint64_t(2048 + 2 * (step % 4) + 64 * (step / 4));
      o.keep = step != 0 && step != 7;
      o.scale_b = step > 12 ? -1 : 1;
      o.trans_b = transposed && step > 3;
      o.shared = shared.data(), o.shared_bytes = uint32_t(shared.size());
      operands.push_back(o);
    }
  for (size_t i = 0; i < operands.size(); i++) ASSERT_TRUE(run_wgmma(f, one[i % 4].places.data(), operands[i], numerics));
  void* const* d[4];
  for (size_t w = 0; w < 4; w++) d[w] = chain[w].places.data();
  ASSERT_TRUE(run_wgmma_chain(f, d, 4, operands, numerics));
  for (size_t w = 0; w < 4; w++) EXPECT_EQ(one[w].words, chain[w].words) << "warp " << w << (fast ? " fast" : " exact") << " n " << f.shape.n;
}

TEST(WgmmaChain, EqualsOneByOne) {
  for (const bool fast : {false, true})
    for (const int n : {8, 24, 128, 256}) {
      compare(form_of(Type::f32, Type::bf16, Type::bf16, n, 16), size_t(n) / 2, fast, true, uint32_t(n));
      compare(form_of(Type::f32, Type::f16, Type::f16, n, 16), size_t(n) / 2, fast, true, uint32_t(n));
      compare(form_of(Type::f16, Type::f16, Type::f16, n, 16), size_t(n) / 4, fast, true, uint32_t(n));
      compare(form_of(Type::f32, Type::tf32, Type::tf32, n, 8), size_t(n) / 2, fast, false, uint32_t(n));
      compare(form_of(Type::f32, Type::e4m3, Type::e5m2, n, 32), size_t(n) / 2, fast, false, uint32_t(n));
      compare(form_of(Type::s32, Type::s8, Type::s8, n, 32), size_t(n) / 2, fast, false, uint32_t(n));
    }
}

TEST(WgmmaChain, SaysWhenADescriptorLeavesSharedMemory) {
  const isa::Form f = form_of(Type::f32, Type::bf16, Type::bf16, 8, 16);
  std::vector<uint8_t> shared(4096);
  Registers r(4);
  WgmmaOperands o;
  o.shared = shared.data(), o.shared_bytes = uint32_t(shared.size());
  o.a_desc = o.b_desc = 0x3fff;
  void* const* d = r.places.data();
  EXPECT_FALSE(run_wgmma_chain(f, &d, 1, {&o, 1}, Numerics{}));
}

}  // namespace
}  // namespace orrery::sem
