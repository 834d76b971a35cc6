// timing/energy.cc: what each kind of event takes of a launch's joules.
//
// From calib/raw/h200-2026-11-27-joules.jsonl (calib/steps/joules.cu: one kind of instruction or access at a time, operands random or zero) and the rows
// power_ of calib/raw/h200-2026-11-26-energy.jsonl: least squares of relative errors, all figures at once and none below zero; 79 rows, within 4% on average.
// All at 1,980 MHz: what was measured below is divided by the square of the share of the clock.
#include "timing/energy.h"

#include "base/error.h"
#include "timing/data_change.h"
#include "timing/predictor.h"

namespace orrery::timing {

namespace {

/// Picojoules of an instruction of a warp, of each of its lanes and of each word that a lane reads from registers, when data change as random ones do.
struct InstructionCost {
  Class kind;
  double warp, lane, word;
};
constexpr double kIssued = 160;     // any instruction [joules_fma/0, joules_outer/0, joules_lanes/1 and 16: 250, 360 and 490 W]
constexpr double kTransfer = 1105;  // what goes through L1's pipe [joules_l1_4, joules_l1_16, power_l1]
constexpr InstructionCost kInstructions[] = {
    {Class::fma, 0, 1.7, 2.9},           // [joules_fma, joules_add, joules_outer, power_ffma]
    {Class::alu, 31, 4.1, 1.6},          // [joules_iadd, joules_logic, joules_shift, joules_select]
    {Class::imad, 31, 7.5, 1.1},         // [joules_imad, power_imad]
    {Class::imad_wide, 31, 7.5, 1.1},    // [joules_wide]
    {Class::half, 107, 1.2, 4.3},        // [joules_half, power_hfma]
    {Class::half_mma, 107, 1.2, 4.3},
    {Class::fp64, 314, 0, 5.3},          // [joules_dfma, power_dfma]
    {Class::xu, 400, 0, 0},              // [power_mufu]
    {Class::shuffle, 122, 14.9, 0},      // [joules_shuffle]
    {Class::hmma, 646, 3580 / 32.0, 0},  // 16 x 8 x 16 [joules_mma, joules_mma_sms]
    {Class::imma, 646, 3580 / 32.0, 0},
    {Class::load, kTransfer, 0, 0},
    {Class::store, kTransfer, 0, 0},
    {Class::atomic, kTransfer, 0, 0},
    {Class::copy_async, kTransfer, 0, 0},
};

}  // namespace

/// Runs one block for what its data are; what is not seen (address arithmetic of the assembler's own) changes as all does. Last of what is traced, since
/// the block's stores stay, and one that was hardly traced: what others stored may never have been computed (slice.h).
void Predictor::find_changes() {
  constexpr uint64_t kLookedAt = 200'000;  // instructions
  const Stopwatch watch(running_, host_.trace);
  DataChange changes;
  TraceOptions t;
  t.changes = &changes, t.most_instructions = kLookedAt;
  try {
    Tracer(machine_, launch_, t).trace(extent_.units * 5 / 8);
  } catch (const base::Error&) {  // it is longer, or waits for other blocks: what was seen stands
  }
  const auto known = [](double change, double otherwise) { return change < 0 ? otherwise : change; };
  data_change_ = known(changes.of_moved(), 1);
  const double all = known(changes.of_all(), 1);
  join_->set_changes([&](const MachineInstruction& m) { return known(changes.of(m.pc), m.kind == Class::wgmma || m.kind == Class::hmma || m.kind == Class::imma ? data_change_ : all); });
}

/// Joules of the whole grid by kind of event, idle power left out, at the full clock; what of them is device memory's.
std::vector<EnergyPart> Predictor::dynamic_energy(double seconds, Spent& spent) const {
  std::vector<EnergyPart> parts;
  const auto add = [&](std::string what, double events, double joules, double& whose) {
    if (events <= 0) return;
    parts.push_back({std::move(what), events, joules, &whose == &spent.memory}), whose += joules;
  };
  const auto chip = [&](const char* what, double events, double picojoules) { add(what, events, 1e-12 * events * picojoules, spent.chip); };
  const auto memory = [&](const char* what, double events, double picojoules) { add(what, events, 1e-12 * events * picojoules, spent.memory); };
  for (size_t k = 0; k < size_t(Class::count); k++) {
    InstructionCost cost{Class(k), 0, 0, 0};
    for (const InstructionCost& c : kInstructions)
      if (c.kind == Class(k)) cost = c;
    const double warps = double(sm_.by_class[k]) * scale_;
    add(std::string(name_of(Class(k))), warps, 1e-12 * (warps * (kIssued + cost.warp) + scale_ * (sm_.changed_lanes[k] * cost.lane + sm_.changed_reads[k] * cost.word)), spent.chip);
  }
  const double still = 1 - data_change_;
  chip("columns of wgmma", sm_.tensor_columns * scale_, 80);                                               // of zeros, 64 x 16 each, a quarter by each warp [wgmma_two_zero/0]
  chip("columns of wgmma that change", sm_.changed_columns * scale_, 380);                                 // [joules_wgmma_sms, joules_wgmma_sleeps]
  chip("products of doubles", sm_.double_products * scale_, 14.9);                                         // [power_dmma/4, 16]
  chip("wavefronts of shared memory", sm_.shared_wavefronts * scale_, 53);                                 // [joules_load4_conflict]
  chip("words read from shared memory", sm_.shared_words_read * scale_, 11);                               // [joules_load4, joules_matrix]
  chip("words written to shared memory", sm_.shared_words_written * scale_, 18.8);                         // [joules_store4, joules_store16]
  chip("sectors of L1", sm_.l1_sectors * scale_, 21 * data_change_);                                       // [joules_l1_4, joules_l1_16]
  chip("lines asked of L2", sm_.lines_asked * scale_, 753);                                                // [power_sectors_past, power_random_read/8]
  chip("sectors read from L2", memory_.l2_read_sectors * chip_scale_, 997 - 666 * still);                  // [joules_l2_16, power_bulk_l2/33 and 132]
  chip("sectors read with another SM", memory_.merged_sectors * chip_scale_, 618);                         // [power_bulk_l2/1]
  chip("sectors written to L2", memory_.l2_write_sectors * chip_scale_, 1681 - 797 * still);               // [joules_l2_store, power_write/1024]
  memory("sectors filled from memory", memory_.dram_read / 32 * chip_scale_, 688);                         // [joules_memory_16, power_read/1024]
  memory("bytes of memory", (memory_.dram_read + memory_.dram_write) * chip_scale_, 56.5 - 21.2 * still);  // [joules_memory_16, joules_memory_store]
  memory("pages of memory", memory_.dram_pages * chip_scale_, 2976);                                       // [power_random_read/1024]
  const double awake = seconds * std::min(1.0, double(launch_.grid.count()) / figures_.sms);
  add("seconds that all SMs hold warps", awake, 11 * awake, spent.chip);             // [power_wait]
  return parts;
}

}  // namespace orrery::timing
