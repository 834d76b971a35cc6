// timing/chip.h: the part of the chip that SMs share: L2 and memory.
//
// Shared resources are reserved in the order in which requests come: a request is told at once when its data
// arrive.
//
//   L2      two partitions, lines of 128 bytes with four sectors, least recently used; an SM looks in the
//           near one, then in the far one (which leaves a copy in the near one), then in memory. At most half
//           of L2 is dirty: the line that has been dirty longest is written back first. A slice serves one
//           request a cycle. What up to four SMs of a GPC ask for within 80 cycles takes the time of one request
//           (the profiler's lrc counters; calib/steps/sharing.cu: share_near, share_far, share_apart); whether it
//           is one for the counters depends on how far the SMs are apart (sm_apart.cc) and on how long the first
//           waits (calib/steps/together.cu). Each line belongs to one partition: what a GPC beside the other one
//           reads of it crosses once;
//           which blocks share a TPC and a GPC the counters go by is known (places.h); for times neighbouring blocks are in one GPC, and clusters
//           go to GPCs in turn. Data on their way are there when
//           they are there, for whoever asks next. Sectors written in part are few: the oldest is completed
//           from memory and written back.
//   memory  64 bytes at least, more where the request says so; a page that was not used lately costs extra; a sector that was written in part
//           is read before it is written back. How long a load takes is drawn from the measured spread (banks,
//           refresh, turns between reads and writes), which grows with utilisation: the slowest of many loads
//           sets the pace of a warp
//
// Only some SMs are simulated in detail; the others are ghosts, which access L2 with the addresses that their
// blocks have, at the same time as the detailed one. Most requests are theirs: they come many at a time, and
// what each will touch is fetched into the host's caches while those before it are served. Where they are very
// many, one of so many pages of memory stands for all: L2 and what memory keeps in mind are smaller by as much,
// and what a request takes of L2 and memory is as many times larger (page_sample.cc). Not here: the figures
// (figures.h), which lines are in L2 (l2_lines.h).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "timing/fetch_size.h"
#include "timing/figures.h"
#include "timing/l2_lines.h"
#include "timing/places.h"
#include "timing/queue.h"

namespace orrery::timing {

struct MemoryCounts {
  double l2_read_sectors = 0, l2_write_sectors = 0, l2_hits = 0, dram_read = 0, dram_write = 0,
         dram_pages = 0;      // whole chip
  double merged_sectors = 0;  // read by an SM along with another
  double fabric_sectors = 0;  // that cross from one partition to the other
  double completed_sectors = 0;  // written in part, read from memory before they leave
  /// Adds `times` what was counted between `from` and `to`.
  void extend(const MemoryCounts& from, const MemoryCounts& to, double times);
};

/// What an SM asks L2 for, and when; then when it is there.
struct Request {
  uint64_t line = 0;  // address / 128
  uint32_t sectors = 0, sm = 0;
  double when = 0;
  FetchSize fetch = FetchSize::half;
  bool copied = false;    // by the copy engine
  float waits = 0;        // cycles for which others and memory kept it waiting
  float apart = 0;        // cycles by which what it waits for others is less, since SMs do not ask at once
  float late = 0;         // cycles by which this SM's block is behind where it would be if all went on alike
  bool for_many = false;  // by the copy engine for several blocks of a cluster
  bool past_l1 = false;   // a load or copy that L1 does not keep
  bool parted = false;    // one of several requests of an instruction for one line; written: of sectors that are not filled
  uint8_t lanes = 1;      // atomic operations: the most on one word
  double memory = 0;      // when memory has answered; 0: it was not asked
  double taken = 0;       // of atomic operations: when the unit has done it, which its answer does not tell the SM
};

inline constexpr double kMoreSectors = 0.48;  // of an atomic's time, for each sector of a line after the first [add_at_end/32 to 256, box_add_same/1]
inline constexpr double kLoadWindow = 60, kCopyWindow = 12;  // cycles in which requests of a GPC become one for data that L2 has
inline constexpr uint32_t kMergeMost = 4;                    // so many do [feed_alone, share_near]

/// What the units of L2 do for an atomic operation.
struct AtomicWork {
  bool floating = false;
  double weight = 1;   // the first sector takes its unit so many times atomic_interval
  double passes = 1;   // over a sector: sums of doubles take more
  double turn = 1;     // of a sum on the word of the one before it, in times of one
  double answer = 0;   // answers of all units go out together, each sector so many times as slowly as all units work; 0: there are none
  double more = kMoreSectors;  // of an atomic's time, for each sector of its line after the first
};

/// Spreads addresses over what they are kept in.
constexpr uint64_t mix(uint64_t v) {
  v *= 0x9E3779B97F4A7C15ull;
  return v ^ v >> 29;
}

/// Which pages of memory are looked up in L2: of 2^`bits` neighbouring ones one.
struct PageChoice {
  static constexpr uint32_t kPageBits = 4;  // of a line, which say where in its page it lies
  uint32_t bits = 0;
  bool takes(uint64_t line) const {
    const uint64_t page = line >> kPageBits;
    return ((page ^ (page >> bits) * 0xD1B54A32D192ED03ull >> 45) & ((uint64_t{1} << bits) - 1)) == 0;  // by other bits than mix()
  }
  /// Pages that are looked up follow each other, so that they spread over sets and slices as all pages do.
  uint64_t among_taken(uint64_t line) const {
    return line >> kPageBits >> bits << kPageBits | (line & ((uint64_t{1} << kPageBits) - 1));
  }
};

class Chip {
 public:
  /// `cluster`: blocks of a cluster of the kernel that runs; `in_turn`: clusters were asked for, if only of one
  /// block. `one_of` (a power of two): of so many pages only one may
  /// be asked for, those of takes(), whose lines have the numbers of among_taken() for all that follows. `blocks`: of the grid.
  explicit Chip(const ChipFigures& figures, uint64_t cluster = 1, uint32_t one_of = 1, bool in_turn = false, uint64_t blocks = ~uint64_t{0});
  /// Where the block of that number runs; SMs are numbered by their first blocks.
  const SmPlace& place(uint32_t sm) const { return places_[sm < places_.size() ? sm : sm % places_.size()]; }
  /// Is the line in a page that stands for others? Of `one_of` neighbouring pages one is.
  bool takes(uint64_t line) const { return pages_taken_.takes(line); }
  uint64_t among_taken(uint64_t line) const { return pages_taken_.among_taken(line); }
  PageChoice pages_taken() const { return pages_taken_; }
  uint32_t one_of() const { return one_of_; }
  /// By which share the work of memory may be off because other pages were not looked up: what eight parts of those that were differ by.
  double page_error() const;
  /// Reads the sectors `mask` of line `line` (address / 128) for SM number `sm` at `now`; returns when the
  /// data are there.
  double read(uint64_t line, uint32_t mask, uint32_t sm, double now);
  /// The same for many requests, one after the other: `when` of each becomes the time at which its data are there.
  void read_all(std::span<Request> requests);
  /// `bytes` of each sector are written; returns when the slice has taken them.
  double write(uint64_t line, uint32_t mask, double now, uint32_t bytes);
  /// When a write to a page that is not looked up would be taken.
  double would_write(uint64_t line, uint32_t mask, double now, uint32_t bytes) const;
  /// The same for several SMs, one after the other.
  void write_all(std::span<const Request> requests, uint32_t bytes);
  /// `bytes` more of each sector come along with a write that was taken before.
  void write_more(uint64_t line, uint32_t mask, uint32_t bytes);
  /// Atomic operations of several SMs, one after the other: a sector of a line at a time.
  /// `when` of each becomes the time at which the SM knows that it is done.
  void atomic_all(std::span<Request> requests, const AtomicWork& work);
  MemoryCounts counts() const;
  /// Counts from here on; what is in L2 stays.
  void begin(double now) { begun_ = now, in_step_ = 1, tally_ = Tally{}, dram_busy_ = l2_busy_ = l2_write_busy_ = 0, part_busy_ = {}; }
  double dram_free() const { return dram_free_; }
  double dram_busy() const { return dram_busy_; }
  double l2_busy() const { return l2_busy_ > l2_write_busy_ ? l2_busy_ : l2_write_busy_; }
  /// When the last atomic operation taken so far is done.
  double atomics_free() const { return atomics_free_; }
  double write_free() const { return l2_write_free_; }
  /// When the last write taken so far is done.
  double writes_done() const { return l2_write_free_ > slices_free_ ? l2_write_free_ : slices_free_; }

 private:
  struct alignas(32) Merge {  // a line that a GPC has lately asked for
    uint64_t line = ~uint64_t{0};
    double when = 0, took = 0;             // when it was looked up, and for how long
    double memory = 0;                     // when memory has answered it; 0: it was not asked
    float waits = 0;                       // of that time what it waited for others
    uint8_t mask = 0, asked = 0;           // how many have asked
  };
  struct alignas(32) Counted {  // the latest look-up of a line that SMs of a GPC make where they are apart
    uint64_t line = ~uint64_t{0};
    double first = 0;                      // when the first SM asked
    float waits = 0;
    uint16_t tpc = 0;
    uint8_t mask = 0, asked = 0;
  };
  struct First {  // of SMs that are apart and ask for a line at about the same time
    uint64_t line = ~uint64_t{0};
    double when = 0, apart = 0;  // when the detailed one asked, and when the first did
  };
  /// An SM as those see it whom it asks.
  struct Asker {
    uint32_t merges = 0, counted = 0;  // where those of its GPC begin
    uint16_t tpc = 0;
    uint8_t odd_gpc = 0;
  };
  struct Page {
    uint64_t page = ~uint64_t{0};
    uint64_t opened = 0;  // how many pages had been opened when it was last used
  };
  struct Tally {  // sectors; of what crosses between partitions half sectors
    uint64_t l2_read = 0, l2_write = 0, l2_hits = 0, dram_read = 0, dram_write = 0, pages = 0, merged = 0,
             half_crossing = 0, completed = 0;
    double first_written = 0;  // sectors, of those written while L2 had room
  };
  static constexpr double kCrossing = 1.0 / 30;   // cycles that a request takes which crosses to the other partition [update_read_store/32, update_read_add/4 and 32 warm: 31 to 33 a cycle; random_read/1024: 29]
  static constexpr double kWriteCrosses = 0.75, kAtomicCrosses = 0.5;  // of requests that change a sector [update_store/4, update_add/4]
  static constexpr uint32_t kInPart = 16;   // bytes of a sector that a bulk store does not fill
  static constexpr uint32_t kChanged = 33;  // bytes of a sector: all of them, made of what they were
  enum class Found { near, far, missing };
  static constexpr uint32_t kPageBits = PageChoice::kPageBits;
  static constexpr uint32_t kPages = 32768, kOpenPages = 6144, kSlices = 96, kMerges = 1024, kFirsts = 8192;
  static constexpr double kOneFetch = 1000;  // cycles in which what SMs ask for is the same data from memory
  static constexpr double kMergeWindow =
      80;  // cycles in which requests of a GPC for the same sectors take the time of one [share_apart]
  static constexpr double kFirstWritten = 0.065;  // of sectors that fill L2 crosses once more [write16/8 to 32]
  static constexpr uint32_t kPromoted = 2;        // sectors looked up for a line that comes along [feed_alone/1: 163,841, 131,073 from L2]
  static constexpr double kWindow = 1024;               // cycles over which utilisation is taken
  static constexpr size_t kLongOrder = size_t{1} << 20;  // written lines from which on clean ones are forgotten
  static constexpr size_t kAhead = 32, kWayAhead = 16, kFarAhead = 8;  // requests by which what they touch is fetched ahead: sets, ways, and what the other partition has
  struct Coming;
  L2Lines::Line find(uint64_t line, L2Lines::Place at, double now);
  L2Lines::Place place_of(uint64_t line, uint32_t side) const { return lines_.place_of(line, mix(line), side); }
  L2Lines::Place home_place_of(uint64_t line) const {
    const uint64_t hash = mix(line);
    return lines_.place_of(line, hash, home_of(hash));
  }
  /// Lines that are written live in one partition, whoever writes them.
  static uint32_t home_of(uint64_t hash) { return uint32_t(hash >> 20 & 1); }
  void coming(const Request& r, Coming& c);
  size_t page_of(uint64_t line) const { return (mix(line >> kPageBits) >> 40 & (kPages - 1)) >> one_bits_; }
  double read_at(Request& r, const Coming& at);
  Found look_up(uint64_t line, uint32_t mask, FetchSize fetch, L2Lines::Place near, L2Lines::Place far, double now,
                L2Lines::Line& way, uint32_t& missing);
  double read_from_l2(Request& r, const Coming& at);
  void bring_other(uint64_t line, L2Lines::Place near, L2Lines::Place far, bool crosses, double now, double arrives);
  uint32_t gpc_of(uint32_t sm) const;
  Asker asker_of(uint32_t sm) const;
  bool comes_in_time(const Request& r, const Counted& counted, uint16_t tpc) const;
  First& first_of(uint64_t line) { return firsts_[(mix(line) >> 32) % firsts_.size()]; }
  void note_first(const Request& r);
  void count(const Request& r, Counted& counted, uint16_t tpc, const Merge& merge);
  double write_at(const Request& r, uint32_t bytes, L2Lines::Place home);
  bool open_page(uint64_t line);  // true: it was not open
  void read_dram(uint64_t line, uint32_t sectors, double now);
  bool take_dram(uint64_t line, double bytes, bool write, double now);  // true: a page was opened
  void use_dram(uint64_t line, double of_one, double now);
  double dram_latency(uint64_t line, uint32_t sm, double now, bool copied = false) const;
  double cross(double requests, double now);
  double take_l2(uint32_t sectors, bool first, double now);
  void take_l2_write(double sectors, double now);
  double atomic_at(Request& r, const AtomicWork& work, uint32_t side, L2Lines::Place home);
  uint32_t look_up_to_change(const Request& r, L2Lines::Place home, L2Lines::Place across, bool crosses);
  void mark_written(uint64_t line, uint32_t mask, double now, uint32_t bytes, L2Lines::Place home);
  void take_back(L2Lines::Line home, L2Lines::Line other, uint32_t mask);
  double cost_of_parts(uint32_t sectors) const;
  bool complete(uint64_t line, L2Lines::Line way, uint32_t parts, double now);
  void write_back(uint64_t line, L2Lines::Line way, double now, uint32_t sectors = 15);
  void limit_dirty(double now);
  void limit_partial(double now);
  void limit_lines(Queue<uint64_t>& order, double limit, double now);
  void forget_clean();
  void fetch_oldest(const Queue<uint64_t>& order) const;

  const ChipFigures& f_;
  const bool in_turn_;
  const uint32_t cluster_, one_of_, one_bits_, slices_;
  const PageChoice pages_taken_;
  const double times_;                          // what a request takes stands for
  const double dirty_limit_, partial_limit_, completed_limit_;  // bytes, sectors, lines
  L2Lines lines_;
  Queue<uint64_t> dirty_order_, partial_order_;  // line << 2 | sector of what was written, the oldest first
  Queue<uint64_t> completed_order_;              // lines that were written in part and are whole now
  Queue<uint64_t> changed_order_;                // lines that atomic operations changed
  double dirty_bytes_ = 0;
  std::vector<Merge> merges_;          // by GPC
  std::vector<Counted> counted_;       // the same
  std::vector<First> firsts_;          // of the chip
  std::vector<SmPlace> places_;        // of each SM
  std::vector<Asker> askers_;          // the same
  std::vector<Page> pages_;
  std::array<double, 5> near_cycles_{}, far_cycles_{}, slice_cycles_{};  // of L2 and of a slice, by number of sectors
  std::array<double, 256> spread_{};  // of latencies: slices and banks are near or far
  std::array<std::array<double, 5>, 2>
      read_cycles_{};  // of memory, by whether a page is opened and by number of sectors
  uint64_t openings_ = 0;
  std::array<double, kSlices> slice_{};
  std::array<uint64_t, kSlices> slice_line_{};
  std::array<double, kSlices> read_slice_{}, write_slice_{};
  double slices_free_ = 0;                                       // of writing
  double written_share_ = 0;                                     // of the last accesses to memory
  double window_start_ = 0, window_busy_ = 0, utilisation_ = 0;  // of memory, lately
  double queue_wait_ = 0;  // more of it for loads, by how busy memory is
  double read_wait_ =
      0;  // mean of what a load from memory takes beyond the quickest, without what writes add
  double in_step_ = 1, begun_ = 0;  // how much of each other's requests SMs wait for; when the launch began
  double atomics_free_ = 0, answers_free_ = 0, crossing_free_ = 0, dram_free_ = 0, l2_free_ = 0, l2_write_free_ = 0, l2_write_busy_ = 0,
         dram_busy_ = 0, l2_busy_ = 0;
  std::array<double, 8> part_busy_{};  // of memory, by parts of the pages that are looked up
  Tally tally_;
};

}  // namespace orrery::timing
