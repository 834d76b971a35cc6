// timing/page_sample.cc: where an SM's requests stand for very many look-ups in L2, one page of memory stands for several.
//
// Of 2, 4, 8 or 16 neighbouring pages one is looked up (Chip::takes), whoever asks for it: what SMs share, find in L2 or open in memory
// they do in those pages as in the others. L2 is smaller and what a request takes is larger by as much. A line of another page that the
// detailed block asks for takes as long as what a ghost's block asked for in its place.
//
// The error is estimated from the run itself: by how much the requests to pages that were looked up miss their share of all, and
// by how much eight parts of those pages differ in what they cost memory. Where it is large all pages are looked up after all.
// All pages are looked up with --exact, and for kernels with many atomic operations, whose units go by the line.
#include <fmt/format.h>

#include <cmath>

#include "timing/predictor.h"

namespace orrery::timing {

namespace {
constexpr uint32_t kMostPages = 16;     // for which one stands
constexpr double kEach = 2, kEachApart = 0.5;  // look-ups for each instruction of a warp that need not be spared; where blocks differ
constexpr double kWorth = 1.25e5;          // look-ups of a kernel that are left, at least: of few pages each counts for too much
constexpr uint32_t kAskers = 2;         // SMs whose requests to a page that is looked up may stand for one to another page, on average
constexpr double kAtomics = 0.005;       // of the lines, on which atomic operations may work: they are all looked up, and each counts for several
constexpr double kMostError = 0.02;     // of what the run itself tells
constexpr double kStandIns = 0.015;     // what it does not tell: by how much times differ from those with all pages (docs/timing.md)
}  // namespace

/// For how many pages one is to stand in `blocks` blocks like this one.
uint32_t Predictor::pages_for_one(const BlockCode& code, size_t blocks) const {
  if (options_.exact) return 1;
  for (const MachineInstruction& m : join_->instructions())
    if (m.kind == Class::atomic && !regular_) return 1;
  const TracedBlock& b = *code.trace;
  LineSet read;
  double lines = 0, atomics = 0;  // lines that are written, or not found in L1
  for (const TracedWarp& w : b.warps)
    for (const Event& e : w.events)
      if (e.what == What::global_atomic || e.what == What::global_reduction) atomics += e.n_detail;
      else if (e.what == What::global_store || e.what == What::local_store) lines += e.n_detail;
      else if (e.what == What::global_load || e.what == What::local_load || e.what == What::copy_async)
        for (uint32_t i = 0; i < e.n_detail; i++) lines += read.insert(b.lines[e.detail + i] >> 4);
      else if (e.what == What::bulk_load || e.what == What::bulk_store)
        for (uint32_t i = 0; i < e.n_detail; i++) lines += double(b.runs[e.detail + i].rows) * std::ceil(b.runs[e.detail + i].bytes / 128.0);
  const double look_ups = lines * (kernel_.ghosts + 1);
  if (atomics > kAtomics * lines) return 1;
  const double each = regular_ ? kEach : kEachApart;
  uint32_t pages = 1;
  while (pages < kMostPages && kernel_.ghosts + 1 >= 2 * pages * kAskers && look_ups > each * pages * double(code.steps) &&
         look_ups * double(blocks) >= 2 * pages * kWorth)
    pages *= 2;
  return pages;
}

/// By which share the time may be off because not all pages were looked up.
double Predictor::page_error(const Chip& chip) const {
  if (chip.one_of() == 1 || sm_.requests == 0) return 0;
  const double share = double(sm_.looked_up) * chip.one_of() / double(sm_.requests) - 1;
  return std::hypot(share, chip.page_error());
}

double Predictor::simulate() {
  const Prediction before = p_;
  one_of_ = 0;
  double cycles = simulate_blocks();
  if (page_error_ > kMostError) {
    p_ = before;
    one_of_ = 1;
    cycles = simulate_blocks();
  }
  if (one_of_ > 1) {
    const double error = std::hypot(page_error_, kStandIns);
    p_.sampling_error = std::hypot(p_.sampling_error, error);
    p_.notes.push_back(fmt::format("one in {} pages of memory was looked up in L2 for all: sampling error {:.1f}%", one_of_, 100 * error));
  }
  return with_link(cycles);
}

}  // namespace orrery::timing
