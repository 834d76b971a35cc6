// timing/chip_dram.cc: what leaves L2 for memory: lines that were written, whole or in part, when they are replaced or too many.
#include "timing/chip_dram.h"

#include <cmath>

namespace orrery::timing {

bool Chip::take_dram(uint64_t line, double bytes, bool write, double now) {
  double cost = bytes * (write ? f_.dram_write_cost : 1);
  const bool opens = open_page(line);
  if (opens) cost += f_.dram_page_cost;
  written_share_ += 1e-3 * times_ * ((write ? 1 : 0) - written_share_);
  if (write)
    cost += bytes * f_.dram_turn_cost *
            std::min(1.0, 2 * (1 - written_share_));  // when memory is read and written by turns
  use_dram(line, cost / f_.dram_bandwidth, now);
  return opens;
}

/// Bytes of time that a line takes longer to read or to write because so many sectors of it are not the whole [of lines that are read and written
/// partial_store_dram/32 and 16; of those that atomic operations changed, which were read before: update_add/512, update_alone_few/33].
double Chip::cost_of_parts(uint32_t sectors) const { return f_.partial_write_cost * (4 - sectors) / 4; }

/// Reads what lies around the parts of sectors that were written; true when that opened a page.
bool Chip::complete(uint64_t line, L2Lines::Line way, uint32_t parts, double now) {
  const uint32_t n = sectors_in(parts);
  tally_.dram_read += n, tally_.completed += n;
  way.set_sectors(way.valid() | parts, way.dirty());
  way.clear_written(parts);
  // Whole lines go at memory's rate [partial_store_dram/4 and 8: 226 bytes of time a line, all of which are read and written].
  return take_dram(line, std::max(64.0, 32.0 * n) + cost_of_parts(n), false, now);
}

/// Writes the dirty sectors of a line to memory; what was written only in part is read first.
void Chip::write_back(uint64_t line, L2Lines::Line way, double now, uint32_t sectors) {
  const uint32_t leaving = way.dirty() & sectors;
  if (!leaving) return;
  const double bytes = 32.0 * sectors_in(leaving);
  double again = 0;  // the page is opened to read and once more to write
  const bool lone = (leaving ^ leaving >> 1) & 5;  // a sector without the other of its 64 bytes
  const uint32_t partial = way.written().not_full(leaving & ~way.valid());
  if (partial && complete(line, way, partial, now)) again = f_.dram_page_cost;
  if (partial || lone) again += cost_of_parts(sectors_in(leaving));
  tally_.dram_write += sectors_in(leaving);
  take_dram(line, std::max(64.0, bytes) + again, true, now);
  way.set_sectors(way.valid() | leaving, way.dirty() & ~leaving);
  way.clear_written(leaving);
  dirty_bytes_ -= bytes;
}

/// Sectors written in part are few: the oldest are completed and leave, whole lines when there are many of those [random_write/1024,
/// partial_store_dram/32: as much is written as is read; partial_store_dram/2 to 8: 10 to 11 MB less].
void Chip::limit_partial(double now) {
  while (double(partial_order_.size()) > partial_limit_) {
    const uint64_t line = partial_order_.front() >> 2;
    const L2Lines::Line way = lines_.peek(line, home_place_of(line));
    uint32_t parts = 0;  // of the line that were written one after the other
    for (; !partial_order_.empty() && partial_order_.front() >> 2 == line; partial_order_.pop_front()) {
      const uint32_t sector = 1u << (partial_order_.front() & 3);
      if (way) parts |= way.written().not_full(sector & way.dirty() & ~way.valid());
    }
    if (parts != 15) {
      if (parts) write_back(line, way, now, parts);
      continue;
    }
    complete(line, way, parts, now);
    completed_order_.push_back(line);
  }
  limit_lines(completed_order_, completed_limit_, now);
}

/// The oldest of so many lines leave.
void Chip::limit_lines(Queue<uint64_t>& order, double limit, double now) {
  while (double(order.size()) > limit) {
    const uint64_t line = order.front();
    order.pop_front();
    if (const L2Lines::Line way = lines_.peek(line, home_place_of(line))) write_back(line, way, now);
  }
}

void Chip::limit_dirty(double now) {
  while (dirty_bytes_ > dirty_limit_ && !dirty_order_.empty()) {
    const uint64_t line = dirty_order_.front() >> 2;
    dirty_order_.pop_front();
    if (const L2Lines::Line way = lines_.peek(line, home_place_of(line))) write_back(line, way, now);
  }
}

/// Lines that were replaced, and so written back, stay in the order until they are the oldest: they are left out when it has become long.
void Chip::forget_clean() {
  for (size_t n = dirty_order_.size(); n > 0; n--) {
    if (n > kAhead) lines_.fetch_head(home_place_of(dirty_order_[kAhead] >> 2));
    const uint64_t written = dirty_order_.front();
    dirty_order_.pop_front();
    const L2Lines::Line way = lines_.peek(written >> 2, home_place_of(written >> 2));
    if (way && way.dirty()) dirty_order_.push_back(written);
  }
}

double Chip::page_error() const {
  double sum = 0, squares = 0;
  for (const double busy : part_busy_) sum += busy, squares += busy * busy;
  const double n = double(part_busy_.size()), mean = sum / n;
  return one_of_ == 1 || mean <= 0 ? 0 : std::sqrt(std::max(0.0, squares / n - mean * mean) / n) / mean;
}

}  // namespace orrery::timing
