// Tests of the timing layer's parts that have answers of their own: where statements go when PTX is laid out, what
// shared resources grant. Figures come from calib/raw (H200), never from the model.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "timing/assemble.h"
#include "timing/chip.h"
#include "timing/cubin.h"

namespace orrery::timing {
namespace {

TEST(Layout, EveryStatementGetsALineOfItsOwn) {
  const Layout l("a;\n{ b; c; // d; e;\n}\n\"f;g\"; h;\n");
  EXPECT_EQ(l.text(), "a;\n{ b;\n c;\n // d; e;\n}\n\"f;g\";\n h;\n");
  EXPECT_EQ(l.line_of(1, 1), 1u);
  EXPECT_EQ(l.line_of(2, 3), 2u);   // b
  EXPECT_EQ(l.line_of(2, 6), 3u);   // c
  EXPECT_EQ(l.line_of(3, 1), 5u);   // }
  EXPECT_EQ(l.line_of(4, 8), 7u);   // h
  EXPECT_EQ(l.line_of(99, 1), 0u);
}

TEST(Cubin, WhatIsNoElfFileIsRefused) {
  const std::vector<std::byte> nothing, noise(200, std::byte{7});
  EXPECT_THROW(read_cubin(nothing), base::Error);
  EXPECT_THROW(read_cubin(noise), base::Error);
  std::vector<std::byte> header(64, std::byte{0xFF});  // an ELF magic and offsets that leave the file
  header[0] = std::byte{0x7F}, header[1] = std::byte{'E'}, header[2] = std::byte{'L'}, header[3] = std::byte{'F'};
  EXPECT_THROW(read_cubin(header), base::Error);
}

/// An ELF file of these sections (name and content), whose symbols would be in section 100.
std::vector<std::byte> elf_of(const std::vector<std::pair<std::string, std::string>>& sections) {
  std::string file(64, '\0'), names, table;
  const auto put = [](std::string& to, size_t at, uint64_t value, size_t bytes) { std::memcpy(to.data() + at, &value, bytes); };
  const auto add = [&](const std::string& name, const std::string& content) {
    const size_t at = table.size();
    table.resize(at + 64);
    put(table, at, names.size(), 4), put(table, at + 24, file.size(), 8), put(table, at + 32, content.size(), 8), put(table, at + 40, 100, 4);
    names += name + '\0', file += content;
  };
  for (const auto& [name, content] : sections) add(name, content);
  add("", names + '\0');
  put(file, 0, 0x464C457F, 4), put(file, 40, file.size(), 8);
  put(file, 58, 64, 2), put(file, 60, sections.size() + 1, 2), put(file, 62, sections.size(), 2);
  file += table;
  const auto* bytes = reinterpret_cast<const std::byte*>(file.data());
  return {bytes, bytes + file.size()};
}

TEST(Cubin, TablesThatAreNoneAreRefused) {
  const auto lines = [](char range, const std::string& program) {  // a unit of DWARF 2 with three opcodes of its own
    const std::string head{'\0', '\0', 8, 0, 0, 0, 1, 1, 0, range, 4, 0, 1, 1};
    std::string unit(4, '\0');
    unit[0] = char(head.size() + program.size());
    return elf_of({{".nv_debug_line_sass", unit + head + program}});
  };
  EXPECT_TRUE(read_cubin(lines(2, "\x05\x05")).empty());
  EXPECT_THROW(read_cubin(lines(0, "\x05\x05")), base::Error) << "an opcode of address and line, of which there are none";
  EXPECT_THROW(read_cubin(lines(2, std::string("\0\xFC\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x01", 12))), base::Error) << "goes back in the table";
  EXPECT_THROW(read_cubin(lines(2, std::string("\0\xFC\xFF\x01\x01", 5))), base::Error) << "leaves the table";
  const auto file = elf_of({{".nv.info", std::string("\x04\x2F\x08\0\x01\0\0\0\x20\0\0\0", 12)}});
  EXPECT_THROW(read_registers(file), base::Error) << "registers of a symbol in no section";
}

TEST(Chip, SecondReadHitsL2) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  const double first = chip.read(1000, 0xF, 0, 0), second = chip.read(1000, 0xF, 0, 100000);
  EXPECT_GE(first, f.dram_latency - f.dram_wait);
  EXPECT_LE(first, f.dram_latency + 6 * f.dram_wait);
  EXPECT_NEAR(second - 100000, f.l2_latency, f.l2_spread + 2);
  EXPECT_EQ(chip.counts().dram_read, 128);
}

TEST(Chip, OtherPartitionIsFurther) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  chip.read(1000, 0xF, 0, 0);
  EXPECT_NEAR(chip.read(1000, 0xF, 1, 100000) - 100000, f.l2_far_latency, f.l2_spread + 2);
  EXPECT_NEAR(chip.read(1000, 0xF, 1, 200000) - 200000, f.l2_latency, f.l2_spread + 2);
}

TEST(Chip, MemoryGivesSixtyFourBytes) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  chip.read(1000, 1, 0, 0);
  EXPECT_EQ(chip.counts().dram_read, 64);
}

TEST(Chip, StreamingReadsReachTheMeasuredBandwidth) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  const uint64_t lines = 1 << 18;
  double end = 0;
  for (uint64_t l = 0; l < lines; l++) end = std::max(end, chip.read(l, 0xF, uint32_t(l), 0));
  EXPECT_GT(end, chip.dram_free());
  EXPECT_NEAR(double(lines) * 128 / chip.dram_free(), 2336, 100);  // read16/2048: 1 GiB in 460 thousand cycles
}

TEST(Chip, DirtyLinesAreLimited) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  const uint64_t lines = (64u << 20) / 128;
  for (uint64_t l = 0; l < lines; l++) chip.write(l, 0xF, 0, 32);
  EXPECT_NEAR(chip.counts().dram_write, 37.7e6, 1e6);  // write16/64: 64 MiB written, 37.7 MB reach memory
}

}  // namespace
}  // namespace orrery::timing
