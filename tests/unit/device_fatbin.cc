// The fat-binary reader: hand-made containers, packed and plain, and what damage does. The layout was found by
// experiment with nvcc 12 and 13; real containers are tested by tests/api/loading.sh.
#include "device/fatbin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <random>

#include "base/error.h"

namespace orrery::device {
namespace {

struct Spec {
  uint16_t kind = 1;
  uint32_t arch = 90;
  uint64_t flags = 0x11;
  std::string text = ".version 8.0\n.target sm_90\n";
  Packing packing = Packing::plain;
  uint32_t header = 64;
};

std::string pack(const Spec& spec, uint64_t* flags) {
  if (spec.packing == Packing::plain) return spec.text;
  std::string out(spec.text.size() * 2 + 256, '\0');
  size_t n = spec.packing == Packing::lz4 ? size_t(LZ4_compress_default(spec.text.data(), out.data(), int(spec.text.size()), int(out.size())))
                                          : ZSTD_compress(out.data(), out.size(), spec.text.data(), spec.text.size(), 3);
  *flags |= spec.packing == Packing::lz4 ? 0x2000 : 0x8000;
  out.resize(n);
  return out;
}

std::string entry_bytes(const Spec& spec) {
  uint64_t flags = spec.flags;
  std::string payload = pack(spec, &flags);
  uint32_t packed = spec.packing == Packing::plain ? 0 : uint32_t(payload.size());
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string bytes(spec.header, '\0');
  auto put = [&](size_t at, auto value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, spec.kind);
  put(2, uint16_t(0x101));
  put(4, spec.header);
  put(8, uint64_t(payload.size()));
  put(16, packed);
  put(24, uint16_t(0));
  put(26, uint16_t(9));
  put(28, spec.arch);
  put(40, flags);
  put(56, uint64_t(packed ? spec.text.size() : 0));
  return bytes + payload;
}

std::string container(const std::vector<Spec>& specs) {
  std::string body;
  for (const Spec& spec : specs) body += entry_bytes(spec);
  std::string bytes(16, '\0');
  const uint32_t magic = kFatbinMagic;
  const uint16_t version = 1, header = 16;
  const uint64_t size = body.size();
  std::memcpy(bytes.data(), &magic, 4);
  std::memcpy(bytes.data() + 4, &version, 2);
  std::memcpy(bytes.data() + 6, &header, 2);
  std::memcpy(bytes.data() + 8, &size, 8);
  return bytes + body;
}

std::span<const std::byte> view(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

TEST(Fatbin, ReadsEveryPacking) {
  const std::string text(5000, 'x');
  for (Packing packing : {Packing::plain, Packing::lz4, Packing::zstd}) {
    const std::string bytes = container({{.text = text, .packing = packing}});
    auto entries = read_fatbin(view(bytes));
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries[0].packing, packing);
    EXPECT_EQ(entries[0].arch, 90u);
    EXPECT_EQ(entries[0].version_major, 9u);
    EXPECT_EQ(unpack(entries[0]), text);
  }
}

TEST(Fatbin, TakesLongHeaders) {
  for (uint32_t header : {64u, 72u, 80u, 96u, 112u, 128u})
    EXPECT_EQ(unpack(read_fatbin(view(container({{.text = "abc", .header = header}})))[0]), "abc");
}

TEST(Fatbin, TextEndsAtItsZero) { EXPECT_EQ(unpack(read_fatbin(view(container({{.text = std::string("ab\0cd", 5)}})))[0]), "ab"); }

uint32_t chosen(const std::vector<Spec>& specs, uint32_t capability) {
  const std::string bytes = container(specs);
  auto entries = read_fatbin(view(bytes));
  const FatbinEntry* best = choose_ptx(entries, capability);
  return best ? uint32_t(best - entries.data()) : 99;
}

TEST(Fatbin, ChoosesTheClosest) {
  const Spec p75{.arch = 75}, p90{.arch = 90}, p90a{.arch = 90, .flags = 0x100011}, p100{.arch = 100}, p100f{.arch = 100, .flags = 0x200011};
  const Spec code{.kind = 2, .arch = 90};
  EXPECT_EQ(chosen({p75, p90, p100}, 90), 1u);
  EXPECT_EQ(chosen({p90, p90a}, 90), 1u);
  EXPECT_EQ(chosen({p90a, p90}, 90), 0u);
  EXPECT_EQ(chosen({p90a, p75}, 100), 1u);  // architecture-specific code runs nowhere else
  EXPECT_EQ(chosen({p100, p100f}, 103), 1u);
  EXPECT_EQ(chosen({p100f, p90}, 120), 1u);
  EXPECT_EQ(chosen({code}, 90), 99u);
  EXPECT_EQ(chosen({p100}, 90), 99u);
}

TEST(Fatbin, DamageIsAnError) {
  const std::string good = container({{.packing = Packing::zstd}, {.arch = 75}});
  EXPECT_THROW(read_fatbin(view(good.substr(0, 10))), base::Error);
  for (size_t cut = 16; cut < good.size(); cut++) EXPECT_THROW(read_fatbin(view(good.substr(0, cut))), base::Error) << cut;
  std::string huge = good;
  const uint64_t size = UINT64_MAX - 8;
  std::memcpy(huge.data() + 16 + 8, &size, 8);
  EXPECT_THROW(read_fatbin(view(huge)), base::Error);
}

TEST(Fatbin, NoBytesCrashIt) {
  const std::string good = container({{.packing = Packing::zstd}, {.packing = Packing::lz4}, {.kind = 2}});
  std::mt19937 random(7);
  for (int round = 0; round < 20000; round++) {
    std::string bytes = good;
    for (int i = 0; i < 4; i++) bytes[random() % bytes.size()] = char(random());
    try {
      for (const FatbinEntry& entry : read_fatbin(view(bytes)))
        if (entry.unpacked_size < 1 << 20) unpack(entry);
    } catch (const base::Error&) {
    }
  }
}

}  // namespace
}  // namespace orrery::device
