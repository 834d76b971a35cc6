// timing/predict.h: the time of one kernel launch: how much of it is run in detail, and what follows from that.
//
//   trace     some blocks are executed by the interpreter; when addresses move evenly from block to block (their slopes
//             are the same wherever looked at), these few stand for all blocks
//   simulate  some SMs in detail, until the rate of blocks is steady; the other SMs are ghosts (chip.h)
//   extend    to the whole grid by that rate; launch cost and the clock under power are added
//
// Not here: how the program gets here (device/, launch_timer.h).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "timing/chip.h"
#include "timing/host_cost.h"
#include "timing/moved_pages.h"
#include "timing/sm.h"

namespace orrery::timing {

struct PredictOptions {
  bool warm = false;               // caches as the same launch left them
  bool exact = false;              // no sampling of blocks
  bool record = false;             // keep what a report draws
  uint64_t recorded_most = 40'000'000;  // PTX warp instructions of a block that are looked at; the rest is taken to go on alike
  uint64_t slope_budget = 24'000'000;  // PTX warp instructions to execute of the blocks that say how addresses move
  uint64_t trace_budget = 12'000'000;  // of all blocks together, where they differ
  uint64_t detail_budget = 6'000'000;  // of those that simulated SMs run, where they differ
  uint64_t step_budget = 3'000'000;    // machine instructions to simulate
};

/// What one kind of event takes of a launch's energy.
struct EnergyPart {
  std::string what;
  double events = 0, joules = 0;
  bool memory = false;  // not of the chip, whose voltage goes with the clock
};

struct Prediction {
  std::string kernel;
  uint64_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster = 1;
  double microseconds = 0, low = 0, high = 0, cycles = 0, clock_mhz = 0;
  std::string bound;               // tensor, fp32, issue, shared, L1, L2, DRAM, latency, launch, power
  double fraction = 0;             // of that bound's rate
  double sampling_error = 0;       // share of the time that blocks which were not simulated may add or take
  uint32_t registers = 0, shared_bytes = 0, blocks_per_sm = 0;
  double occupancy = 0;
  std::string limiter;             // registers, shared, warps, blocks, grid
  double waves = 0;
  double instructions = 0, dram_read = 0, dram_write = 0, l2_sectors = 0, l2_tex_sectors = 0, fabric_sectors = 0, l1_hit_rate = 0;
  double joules = 0, watts = 0;    // of launches without end, one after the other, at the clock that the board's limit leaves them
  double sustained_mhz = 0;        // that clock
  std::vector<EnergyPart> energy;  // what joules are the sum of
  std::vector<double> clocks;      // by warp of the first block: cycles between its readings of the clock, added up pair by pair
  double clock_span = 0;           // from the first to the last of them
  std::string method;              // machine code, or PTX alone
  bool by_arguments = false;       // all but energy follows from the launch's arguments, whatever is in memory
  std::vector<std::string> notes;  // approximations and assumptions that were made
  MovedPages moved;                // of managed memory: not yet part of the time (with_moves)
  double host_seconds = 0;
  uint64_t simulated_steps = 0;
  HostCost host;
  std::string details;             // JSON of what a report draws, when it was asked for
};

/// Predicts one launch. Memory is changed by the traced blocks: call it in a forked process. `estimate` is told the
/// expected number of PTX warp instructions of the whole grid as soon as it is known.
Prediction predict(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const PredictOptions& options,
                   const std::function<void(double)>& estimate);

/// The same with what the launch waits for managed memory that it is the first on the GPU to touch: another launch alike does not.
Prediction with_moves(Prediction p, const Profile& profile);

/// One line of JSON.
std::string to_json(const Prediction& p);

}  // namespace orrery::timing
