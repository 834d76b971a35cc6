// Records of accesses: footprints, lines that become cells, and pages that the host may not touch.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "sanitize/async_shadow.h"
#include "sanitize/footprint.h"
#include "sanitize/host_watch.h"
#include "sanitize/race_shadow.h"

namespace orrery::sanitize {
namespace {

TEST(Footprint, KeepsBytesAndTheLastSites) {
  Footprint f;
  EXPECT_TRUE(f.empty());
  f.touch(4096 - 4, 8, true, 7);  // across pages
  f.touch(4096, 2, false, 9);
  ASSERT_TRUE(f.piece(63) && f.piece(64));
  EXPECT_EQ(f.piece(63)->written, uint64_t{0xF} << 60);
  EXPECT_EQ(f.piece(64)->written, 0xFu);
  EXPECT_EQ(f.piece(64)->read, 3u);
  EXPECT_EQ(f.piece(64)->writer, 7u);
  EXPECT_EQ(f.piece(64)->reader, 9u);
  EXPECT_EQ(f.piece(65), nullptr);
  int pieces = 0;
  f.any([&](uint64_t, const Piece&) { return pieces++, false; });
  EXPECT_EQ(pieces, 2);
}

TEST(AsyncShadow, GivesPartsOfSpans) {
  AsyncShadow s(1000, 2);  // three spans of 256 bytes and a shorter one
  struct Part {
    uint64_t first, last;
    bool whole;
    bool operator==(const Part&) const = default;
  };
  const auto words = [&](uint64_t offset, uint64_t bytes) {
    std::vector<Part> parts;
    s.for_spans<AsyncShadow::kWord>(offset, bytes, [&](AsyncShadow::Span&, uint64_t first, uint64_t last, bool whole) { parts.push_back({first, last, whole}); });
    return parts;
  };
  EXPECT_EQ(words(250, 20), (std::vector<Part>{{62, 64, false}, {64, 68, false}}));
  EXPECT_EQ(words(256, 260), (std::vector<Part>{{64, 128, true}, {128, 129, false}}));
  EXPECT_EQ(words(768, 232), (std::vector<Part>{{192, 250, true}}));
  EXPECT_EQ(words(996, 100), (std::vector<Part>{{249, 250, false}})) << "no further than the memory goes";
}

TEST(AsyncShadow, MixedSpansStartWithWhatTheyHadInCommon) {
  AsyncShadow s(512, 2);
  AsyncShadow::Span& span = s.span_of_word(70);
  span.writer = 5;
  s.mix_words(span);
  s.writer[70] = 6;
  s.stores[71] = {3, 9};
  s.mix_words(span);
  EXPECT_EQ(s.writer[69], 5u);
  EXPECT_EQ(s.writer[70], 6u) << "mixed already";
  EXPECT_EQ(s.stores[71].site, 3u);
  EXPECT_FALSE(s.span_of_word(63).words_mixed);
  s.load(span, 17, 1, 8, 4);
  EXPECT_EQ(s.load_clock(17, 1), 8u);
  EXPECT_EQ(s.load_clock(17, 0), 0u);
  span.loaded = span.words_mixed = false;  // a copy has written all of it
  s.load(span, 18, 0, 9, 4);
  EXPECT_EQ(s.load_clock(17, 1), 0u);
  s.mix_words(span);
  EXPECT_EQ(s.stores[71].site, 0u);
}

Stamp stamp(uint32_t site, uint16_t thread, uint8_t shift) {
  Stamp s;
  s.block = 3, s.clock = 1, s.site = site, s.thread = thread, s.bytes = uint8_t(0xF | shift << 4);
  return s;
}

TEST(LineHead, GivesEveryWordItsThread) {
  for (const uint8_t shift : {0, 1, 2, 5}) {
    LineHead head;
    head.state = LineState::row;
    head.write = stamp(1, 64, shift);
    Cell cells[kLineWords];
    give_cells(head, cells);
    EXPECT_EQ(head.state, LineState::cells);
    for (uint32_t w = 0; w < kLineWords; w++) {
      EXPECT_EQ(cells[w].write.thread, 64 + (w >> shift));
      EXPECT_EQ(cells[w].write.bytes, 0xF);
      EXPECT_EQ(cells[w].read[0].site, 0u) << "nobody has read";
    }
  }
}

TEST(SharedShadow, ForgetsThePreviousBlock) {
  SharedShadow shadow;
  shadow.start(1, 256);
  shadow.cell(40).write = stamp(1, 0, 0);
  EXPECT_EQ(shadow.cell(40).write.site, 1u);
  EXPECT_TRUE(shadow.cell(41).empty());
  shadow.start(2, 256);
  EXPECT_TRUE(shadow.cell(40).empty());
}

struct Pages {
  static constexpr uint64_t kBytes = 3 * 4096;
  void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ~Pages() { munmap(p, kBytes); }
  uint64_t at(uint64_t offset) const { return reinterpret_cast<uint64_t>(p) + offset; }
  volatile int& word(uint64_t offset) const { return *reinterpret_cast<volatile int*>(at(offset)); }
};

TEST(HostWatch, TellsOfTheFirstAccessToAPage) {
  Pages pages;
  pages.word(4096 + 8) = 5;
  std::vector<std::pair<uint64_t, bool>> seen;
  HostWatch watch([&](const Finding& about, uint64_t address, bool writes, const void* code) {
    EXPECT_EQ(about.kind, "host-race");
    EXPECT_NE(code, nullptr);
    seen.emplace_back(address, writes);
  });
  Finding about;
  about.kind = "host-race";
  const auto shared = std::make_shared<Finding>(about);
  watch.close(pages.at(0), pages.at(Pages::kBytes), true, shared);
  EXPECT_EQ(pages.word(4096 + 8), 5) << "the value is what it was";
  pages.word(4096 + 16) = 6;  // the page is open now
  pages.word(8192) = 7;
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], std::pair(pages.at(4096 + 8), false));
  EXPECT_EQ(seen[1], std::pair(pages.at(8192), true));
  watch.open_all();
  pages.word(0) = 1;
  EXPECT_EQ(seen.size(), 2u);
  watch.close(pages.at(0), pages.at(4096), false, shared);  // writes only
  EXPECT_EQ(pages.word(0), 1);
  EXPECT_EQ(seen.size(), 2u);
  pages.word(0) = 2;
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
}  // namespace orrery::sanitize
