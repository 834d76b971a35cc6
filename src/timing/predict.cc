// timing/predict.cc: see predict.h.
#include "timing/l1_size.h"
#include "timing/predictor.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "profile/occupancy.h"

namespace orrery::timing {

namespace {

constexpr double kClusterInterval = 3.1, kInClusterInterval = 1.2;  // between clusters, of one block and of each of theirs, as blocks without clusters follow each other [clusters_empty_8192/1, 2, 4, 8: 4.8, 3.6, 5.9 and 10.7 cycles a cluster]
constexpr double kLoneInterval = 4.1;     // the same of clusters of one block
constexpr double kClusterStart = 120;    // cycles by which the next cluster takes longer to begin in a place than a block without clusters [calib/cluster_clocks.cu: 417 to 460 where others take 316]
constexpr uint32_t kOfClusters = 8;       // blocks of clusters that an SM holds at once [calib/cluster_clocks.cu: 12, 16 and 32 where others come alone]
constexpr double kEndsSms = 0.5;          // SMs whose barriers at the end keep each other waiting as long as those of all [small_chain_0/1 to 132: 288, 308, 319, 340, 317, 390, 446, 439 cycles more than nothing]
constexpr double kProductsClock = 0.87;  // of the tensor cores' clock: where large products usually end up
constexpr double kClockApart = 0.07;     // expected and found clock may differ by this much

Occupancy occupancy_of(const ChipFigures& f, uint32_t threads, uint32_t registers, uint32_t shared, bool in_clusters) {
  const BlocksOfSm fit = blocks_of_sm({f.warps, f.blocks, f.registers, f.shared_bytes, f.shared_reserved}, threads, registers, shared);
  const bool fewer = in_clusters && kOfClusters < fit.blocks;
  return {std::max(1u, fewer ? kOfClusters : fit.blocks), fewer ? "clusters" : fit.limiter};
}

}  // namespace

void Predictor::join_code() {
  const lower::Program& program = *launch_.kernel->entry->program;
  const ptx::Module& module = *program.module;
  const Layout layout(module.text);
  std::string why;
  auto code = assemble(layout, module.target, program.name, machine_.gpu.compute_capability, module.relocatable, why);
  if (code) {
    join_ = std::make_unique<Join>(*launch_.kernel, layout, std::move(*code));
    p_.method = "machine code";
    return;
  }
  join_ = std::make_unique<Join>(*launch_.kernel);
  p_.method = "PTX alone";
  p_.notes.push_back(why + ": a schedule of our own stands in for machine code, and the interval is wider");
}

uint64_t Predictor::first_block(uint64_t unit) const {
  const uint64_t n = launch_.cluster.count();
  if (n == 1) return unit;
  const uint64_t nx = launch_.grid.x / launch_.cluster.x, ny = launch_.grid.y / launch_.cluster.y;
  const uint64_t x = unit % nx * launch_.cluster.x, y = unit / nx % ny * launch_.cluster.y, z = unit / (nx * ny) * launch_.cluster.z;
  return x + launch_.grid.x * (y + launch_.grid.y * z);
}

/// What a kernel that times itself would find: differences of readings of the clock, pair by pair.
void Predictor::note_clocks(const SmCounts& counts) {
  p_.clocks.clear();
  if (counts.clock_reads.empty()) return;
  std::map<uint32_t, std::vector<double>> by_warp;
  double first = std::numeric_limits<double>::infinity(), last = 0;
  for (const auto& [warp, at] : counts.clock_reads) by_warp[warp].push_back(at), first = std::min(first, at), last = std::max(last, at);
  p_.clocks.assign(by_warp.rbegin()->first + 1, 0);
  for (const auto& [warp, times] : by_warp)
    for (size_t i = 1; i < times.size(); i += 2) p_.clocks[warp] += times[i] - times[i - 1];
  p_.clock_span = last - first;
}

/// Of the SMs among which one is simulated the place of the busiest: it ends last.
uint64_t Predictor::busiest(uint64_t stride, uint64_t apart) const {
  std::vector<uint64_t> work(stride, 0);
  for (const auto& [at, block] : traced_) work[at % stride] += block->work();
  return uint64_t(std::max_element(work.begin(), work.end()) - work.begin()) % apart;
}

/// The place of an SM that is like most. The first one's blocks lie, where blocks come after each other, in the part of the grid that others began before:
/// the rows and columns of matrices that they ask for have been read then, which those of most have not [product_32x32/1024: -10% for -13; a product of
/// public programs -1 and +5% for -17 and -22%]. Of grids whose blocks all begin at once none has been.
uint64_t Predictor::usual_place() const {
  const Extent& x = extent_;
  if (!regular_ || in_order_ || !ranges_.empty() || x.rows <= occupancy_.blocks) return 0;
  const uint64_t last_row = x.units - (x.rows - 1) * x.stride;  // the busiest SMs end last
  return (x.rows_run < x.rows ? x.apart : std::min(x.apart, last_row)) / 2;
}

/// What a block does, in units that only blocks of one kernel share: where each kind of block has its part of the grid machine instructions,
/// which are too many to find out where all blocks differ.
double Predictor::effort_of(uint64_t block) {
  const BlockCode& code = code_for(block);
  return ranges_.empty() ? double(code.trace->work()) : double(code.steps);
}

/// The same on average over the grid, whose blocks are all known, or which kinds there are.
double Predictor::mean_work() {
  double sum = 0;
  if (!kinds_.seen.empty()) {
    double of[2] = {0, 0}, n[2] = {0, 0};
    for (const auto& [at, block] : traced_) of[block->work() > kinds_.much] += double(block->work()), n[block->work() > kinds_.much]++;
    for (int kind = 0; kind < 2; kind++) sum += (kind ? kinds_.share() : 1 - kinds_.share()) * of[kind] / std::max(1.0, n[kind]);
    return sum;
  }
  if (ranges_.empty() && !all_traced_ && one_wave_differs()) {
    for (const uint64_t unit : spread_) sum += double(traced_.at(first_block(unit))->work());
    return sum / double(spread_.size());
  }
  if (ranges_.empty()) {
    for (const auto& [at, block] : traced_) sum += double(block->work());
    return sum / double(std::max<size_t>(1, traced_.size()));
  }
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    const uint64_t first = range->first, end = std::next(range) != ranges_.end() ? std::next(range)->first : extent_.units;
    double own = 0, n = 0;  // of blocks all over the part: the first one lies in a corner of the grid
    const auto look = [&](uint64_t unit) {
      if (unit >= first && unit < end && traced_.count(unit)) own += effort_of(unit), n++;
    };
    for (uint64_t i = 0; i < kOfEach; i++) look(place_in(first, end, i));
    for (uint64_t i = 0; i < kOfAll; i++) look(place_in(0, extent_.units, i));
    sum += double(end - first) * (n > 0 ? own / n : effort_of(first));
  }
  return sum / double(extent_.units);
}

/// Do the blocks that were traced do more or less than each other by more than a tenth?
bool Predictor::work_differs() const {
  double sum = 0, squares = 0;
  for (const auto& [at, block] : traced_) sum += double(block->work()), squares += double(block->work()) * double(block->work());
  const double n = double(traced_.size());
  return squares * n > sum * sum * 1.01;
}

/// Blocks of the sampled SMs in the order in which they are handed out, and those of the first one where it stands alone: when its first blocks do more.
std::vector<Predictor::Queued> Predictor::queue_of(uint64_t shift) {
  const auto& x = extent_;
  std::vector<uint64_t> lone;
  if (x.per == 1 && (all_traced_ || !ranges_.empty())) lone = blocks_of_lone(figures_, x.units, occupancy_.blocks);
  double work = 0, as_others = 0;
  for (uint64_t row = 0; row < lone.size(); row++) {
    work += double(code_for(lone[row]).trace->work());
    as_others += double(code_for(row * x.stride + shift).trace->work());
  }
  if (work < as_others * 1.05) lone.clear();
  // Where blocks do different work and not all are known, those taken must not be of one column of the grid; but those with which an SM begins, if they do
  // about as much as each other, are as far apart as there are SMs, and may ask for the same.
  constexpr double kGolden = 0.6180339887;
  const bool anywhere = x.per == 1 && x.rows > 1 && !regular_ && !in_order_ && !all_traced_;
  const uint64_t in_columns = anywhere && work_differs() ? 0 : occupancy_.blocks;
  std::vector<Queued> queue;
  for (uint64_t row = 0; row < x.rows_run; row++)
    for (uint32_t i = 0; i < x.simulated; i++) {
      const double turns = kGolden * double((row < in_columns ? 0 : row) * x.simulated + i);
      // Of the last row, which few SMs may have, the first one has a block: the busiest SMs end last.
      const uint64_t room = i == 0 ? std::min(x.apart, x.units - row * x.stride) : x.apart;
      const uint64_t first = row * x.stride + i * x.apart;
      uint64_t within = anywhere ? uint64_t((turns - std::floor(turns)) * double(room)) : shift;
      if (x.rows == 1 && first < x.units) within = std::min(within, x.units - 1 - first);  // the last of the places has fewer
      const uint64_t unit = first + within;
      if (i == 0 && row < lone.size()) queue.push_back({lone[row], 0});
      else if (unit < x.units) queue.push_back({unit, uint32_t(within)});
    }
  return queue;
}

/// Of the kinds of blocks the one that works longest.
const BlockCode& Predictor::longest_code() {
  uint64_t at = first_block(extent_.units / 2);
  for (const auto& [first, block] : ranges_)
    if (block->work() > code_for(at).trace->work()) at = first;
  return code_for(at);
}

/// Which lines of its machine code a block executes.
void Predictor::find_executed(const BlockCode& block) {
  for (const Steps& warp : block.warps)
    for (const Step& s : *warp) kernel_.executed[s.instruction / CodeFetch::kLine] = true;
}

/// How much of the grid is simulated: of how many SMs, and how many of their blocks.
void Predictor::find_extent() {
  Extent& x = extent_;
  x.per = launch_.cluster.count(), x.units = launch_.grid.count() / x.per, x.stride = std::max<uint64_t>(1, clusters_at_once(profile_, x.per));
  const BlockCode& middle = code_for(first_block(x.units / 2));
  kernel_.executed.assign(join_->instructions().size() / CodeFetch::kLine + 1, false);
  find_executed(middle), find_executed(longest_code());
  x.rows = (x.units + x.stride - 1) / x.stride;
  double most = 1;
  if (!regular_) most = std::clamp(double(options_.detail_budget) / std::max(1.0, double(model_->instructions)) / double(x.rows), 1.0, 8.0);
  if (x.units <= 8 || (most == 8 && x.units < 16 && !in_order_)) most = double(x.units);  // of a few blocks the slowest sets the time
  x.simulated = uint32_t(std::min<uint64_t>({uint64_t(most), x.stride, x.units}));
  // Simulated SMs stand apart; each one's ghosts are the SMs up to the next.
  // Of blocks that differ and do not fill the SMs those at the end must be among them, too.
  const uint64_t places = std::min<uint64_t>(x.stride, x.units);
  x.apart = x.units < x.stride && !regular_ && !in_order_ ? (places + x.simulated - 1) / x.simulated : places / x.simulated;
  kernel_.ghosts = uint32_t(std::max<uint64_t>(1, x.apart * x.per)) - 1;
  const double affordable = std::max(3.0 * occupancy_.blocks, double(options_.step_budget) / std::max(1.0, double(middle.steps)) / x.simulated);
  x.rows_run = options_.exact ? x.rows : std::min(x.rows, std::max<uint64_t>(uint64_t(affordable), 1));
}

/// By how much longer than another block the one takes that comes last, each alone on an SM when all others have ended at `now`.
double Predictor::last_longer(Chip& chip, double now) {
  if (!last_) return 0;
  Kernel alone = kernel_;
  alone.ghosts = 0;
  const auto takes = [&](const BlockCode& code) {
    Sm sm(figures_, alone, chip, 0, 1);
    const double start = std::ceil(now);
    const uint64_t block = ordinal(*code.trace);
    sm.start({&code, block, {int64_t(code.trace->ctaid[0]), int64_t(code.trace->ctaid[1]), int64_t(code.trace->ctaid[2])}, 0}, start);
    for (double next = start; next < std::numeric_limits<double>::infinity();) {
      const double at = next;
      next = std::max(sm.step(at), at + 1);
      for (const auto& [index, end] : sm.take_finished()) return now = end, end - start;
    }
    return 0.0;
  };
  const std::unique_ptr<BlockCode> last = code_of(*last_);
  takes(code_for(first_block(extent_.units / 2)));  // its code has been fetched then
  const double other = takes(code_for(first_block(extent_.units / 2)));
  return std::max(0.0, takes(*last) - other);
}

/// Runs the sampled SMs; returns the cycles of the whole grid.
double Predictor::simulate_blocks() {
  const Stopwatch watch(running_, host_.simulate);
  const auto [units, per, stride, rows, rows_run, apart, simulated] = extent_;
  const bool chains = kernel_.relay && relay_.apart > 1;  // the last of each ends last
  const uint64_t shift = per != 1 ? 0 : chains ? apart - 1 : all_traced_ || one_wave_differs() ? busiest(stride, apart) : usual_place();
  kernel_.behind = uint32_t(shift);
  const std::vector<Queued> queue = queue_of(shift);
  if (one_of_ == 0) one_of_ = pages_for_one(longest_code(), queue.size());
  Chip chip(figures_, launch_.cluster.count(), one_of_, launch_.in_clusters, launch_.grid.count());
  double time = 0, warm_offset = 0;
  for (int pass = 0; pass < (options_.warm ? 2 : 1); pass++) {
    warm_offset = time = std::ceil(time);
    chip.begin(time);
    relay_.restart(time);
    std::vector<std::unique_ptr<Sm>> sms;
    for (uint32_t i = 0; i < simulated; i++) sms.push_back(std::make_unique<Sm>(figures_, kernel_, chip, uint32_t((i * apart + shift) * per), occupancy_.blocks));
    if (options_.record) record_ = Record{}, sms[0]->note_in(&record_);
    std::vector<double> starts, took;   // when blocks began, in that order; how long those of later waves took
    std::unordered_map<uint64_t, double> began;
    std::vector<MemoryCounts> counted;  // what had been moved when each block began
    std::vector<double> next(simulated, warm_offset);
    size_t given = 0, done = 0;
    double now = warm_offset, end = warm_offset;
    const auto work_of = [&](const Queued& q) {
      const uint64_t block = first_block(q.unit);
      return BlockWork{&code_for(block), block, {int64_t(block % kernel_.grid.x), int64_t(block / kernel_.grid.x % kernel_.grid.y), int64_t(block / (kernel_.grid.x * kernel_.grid.y))}, q.within};
    };
    const double unit_interval = figures_.block_interval * (kernel_.cluster_launch ? (per == 1 ? kLoneInterval : std::max(kClusterInterval, kInClusterInterval * double(per))) : double(per));
    // Blocks are handed out one after the other, whichever SM has room: in the meantime those that are not simulated get theirs.
    double dispatcher = -std::numeric_limits<double>::infinity();
    const double apart_on_sm = double(stride) / simulated * unit_interval;
    const auto hand_out = [&](uint32_t i, double at) {
      while (given < queue.size() && sms[i]->free_slots()) {
        const BlockWork work = work_of(queue[given]);
        const double dispatched = warm_offset + double(queue[given].unit) * unit_interval;
        const double start = std::ceil(std::max({at, dispatched, dispatcher}));
        dispatcher = std::max(at, std::max(dispatched, dispatcher)) + apart_on_sm;
        sms[i]->start(work, start);
        next[i] = std::min(next[i], start);
        starts.push_back(start), counted.push_back(chip.counts()), began[work.index] = start;
        given++;
        if (simulated > 1 && given <= uint64_t{simulated} * occupancy_.blocks && given % simulated != i) break;
      }
    };
    for (uint32_t slot = 0; slot < occupancy_.blocks; slot++)
      for (uint32_t i = 0; i < simulated; i++)
        if (given < queue.size() && sms[i]->free_slots()) {
          const size_t before = given;
          const double start = std::ceil(warm_offset + double(queue[given].unit) * unit_interval);
          sms[i]->start(work_of(queue[given]), start);
          starts.push_back(start), counted.push_back(chip.counts());  // of the first wave: not in `began`
          given = before + 1;
        }
    while (done < queue.size()) {
      uint32_t i = 0;
      for (uint32_t k = 1; k < simulated; k++)
        if (next[k] < next[i]) i = k;
      if (next[i] == std::numeric_limits<double>::infinity()) {
        p_.notes.push_back("warps of the simulated blocks wait for each other for ever: the time is a lower bound");
        break;
      }
      now = std::max(now, next[i]);
      next[i] = std::max(sms[i]->step(now), now + 1);
      if (relay_.woke()) std::fill(next.begin(), next.end(), now + 1);
      for (const auto& [block, at] : sms[i]->take_finished()) {
        done++;
        end = std::max(end, at);
        if (const auto later = began.find(block); later != began.end()) took.push_back(at - later->second);
        hand_out(i, at + figures_.block_start + (kernel_.cluster_launch ? kClusterStart : 0));
      }
    }
    end = std::max(end, chip.atomics_free());
    if (chip.counts().l2_read_sectors + chip.counts().l2_write_sectors > 0)  // each SM's barrier in L2, behind all that was written
      end = std::max(end, chip.writes_done()) + figures_.end_touched + figures_.end_all_sms * on_sms(kEndsSms);
    time = end;
    memory_ = chip.counts();
    sm_ = SmCounts{}, slices_ = 0;
    for (auto& sm : sms) {
      const SmCounts& c = sm->counts();
      sm_.issued += c.issued, sm_.thread_instructions += c.thread_instructions;
      for (size_t k = 0; k < size_t(Class::count); k++) sm_.by_class[k] += c.by_class[k], sm_.lanes_by_class[k] += c.lanes_by_class[k], sm_.changed_lanes[k] += c.changed_lanes[k], sm_.changed_reads[k] += c.changed_reads[k];
      sm_.l1_sectors += c.l1_sectors, sm_.l1_hits += c.l1_hits, sm_.shared_wavefronts += c.shared_wavefronts, sm_.tensor_busy += c.tensor_busy, sm_.tensor_columns += c.tensor_columns, sm_.changed_columns += c.changed_columns, sm_.shared_words_read += c.shared_words_read, sm_.shared_words_written += c.shared_words_written, sm_.double_products += c.double_products, sm_.lines_asked += c.lines_asked, sm_.tma_bytes += c.tma_bytes;
      sm_.fence_sectors += c.fence_sectors, slices_ += double(c.slices) / simulated;
      sm_.requests += c.requests, sm_.looked_up += c.looked_up;
    }
    host_.issued += sm_.issued;
    note_clocks(sms[0]->counts());
    page_error_ = page_error(chip);
    dram_busy_ = chip.dram_busy(), l2_busy_ = chip.l2_busy();
    simulated_cycles_ = end - warm_offset;
    scale_ = double(units) * double(per) / std::max(1.0, double(queue.size()));
    if (knows_work()) {  // those that were simulated do more than others, or less
      const double work = std::accumulate(queue.begin(), queue.end(), 0.0, [&](double sum, const Queued& q) { return sum + effort_of(first_block(q.unit)); });
      if (work > 0) scale_ *= mean_work() * double(queue.size()) / work;
    }
    rows_share_ = double(rows_run) / double(rows);
    time += last_longer(chip, end);
    if (rows_run < rows) {  // go on at the rate at which blocks began
      const size_t skip = std::min(starts.size() / 2, size_t(occupancy_.blocks) * simulated * 2);
      // Blocks begin in waves: from one to the same place in a later wave.
      const size_t wave = size_t(occupancy_.blocks) * simulated, last = starts.size() - 1, waves = last >= 2 * wave ? (last - wave) / wave : last / wave;
      double rate = waves > 0 ? (starts[last] - starts[last - waves * wave]) / double(waves * wave) : (starts.back() - starts[skip]) / double(std::max<size_t>(1, last - skip));
      if (knows_work()) {  // what is left does more than the blocks of these waves, or less
        double work = 0, late = 0;
        for (size_t k = 0; k < queue.size(); k++) {
          const double own = effort_of(first_block(queue[k].unit));
          work += own, late += k >= queue.size() - std::min(queue.size(), wave) ? own : 0;
        }
        const double left = (mean_work() * double(rows) * simulated - work) / (double(rows - rows_run) * simulated);
        if (late > 0 && left > 0) rate *= left / (late / double(std::min(queue.size(), wave)));
      }
      time += double(rows - rows_run) * simulated * rate;
      // What is read for the first time is read once: bytes go on at the rate of the later waves, too.
      const size_t from = waves > 0 ? last - waves * wave : skip;
      memory_.extend(counted[from], counted[last], double(rows - rows_run) * simulated / double(std::max<size_t>(1, last - from)));
      // How far quarters of the simulated blocks differ from each other says how far the rest may be from them; of few, how far they themselves do.
      const size_t groups = took.size() >= 8 ? 4 : took.size();
      std::vector<double> parts;
      for (size_t g = 0; g < groups; g++) {
        const size_t first = g * took.size() / groups, past = (g + 1) * took.size() / groups;
        parts.push_back(std::accumulate(took.begin() + ptrdiff_t(first), took.begin() + ptrdiff_t(past), 0.0) / double(past - first));
      }
      const double n = double(parts.size()), mean = std::accumulate(parts.begin(), parts.end(), 0.0) / n;
      double squares = 0;
      for (const double part : parts) squares += (part - mean) * (part - mean) / n;
      const double spread = n > 1 && mean > 0 ? std::sqrt(squares / n) / mean : 1;
      p_.sampling_error = spread * double(rows - rows_run) / double(rows);
      p_.notes.push_back(fmt::format("{} of {} blocks an SM were simulated: sampling error {:.1f}%", rows_run, rows, 100 * p_.sampling_error));
    }
  }
  chip_scale_ = unrecorded_ * std::max(1.0, double(std::min(stride, units) * per) / double(simulated * (kernel_.ghosts + 1)));
  scale_ *= unrecorded_ * usual_share_ * (knows_work() ? 1 : lead_share_), chip_scale_ *= usual_share_;
  p_.sampling_error = std::hypot(p_.sampling_error, 1 - 1 / unrecorded_);
  return (time - warm_offset) * longer_ * usual_share_;
}

/// What the model leaves out, where the kernel's code shows that it may matter.
void Predictor::name_assumptions() {
  bool depends = false, launches = false;
  const auto look = [&](const exec::DecodedProgram& code) {
    for (const exec::Decoded& d : code.code) {
      const std::string_view op = isa::name_of(d.instr->form.op);
      depends |= op.starts_with("griddepcontrol");
    }
  };
  look(*launch_.kernel->entry);
  for (const auto& f : launch_.kernel->functions)
    if (f) look(*f);
  for (const ptx::Function& f : launch_.kernel->entry->program->module->functions)
    launches |= f.name.find("LaunchDevice") != std::string::npos || f.name.find("GetParameterBuffer") != std::string::npos;
  const bool waits = !contended_ && waits_for_blocks();
  if (waits && launch_.cooperative && launch_.grid.count() > 1) p_.notes.push_back("blocks that wait for the whole grid go on when all that are simulated have come");
  else if (waits) p_.notes.push_back("a loop waits for what other blocks write: blocks are traced in their order, and waits for what is not handed from one to the next find it written");
  if (depends) p_.notes.push_back("programmatic dependent launch: timed alone, as if the kernel ahead had ended and the next one waited");
  if (launches) p_.notes.push_back("kernels that this one may launch are not part of its time");
}

/// The clock before anything is known of power: tensor cores lower it, and wgmma on all SMs draws most.
double Predictor::expected_clock() const {
  bool mma = false, wgmma = false;
  for (const MachineInstruction& m : join_->instructions()) mma |= m.kind == Class::hmma || m.kind == Class::imma, wgmma |= m.kind == Class::wgmma;
  const double clock = at_full_clock_.clock;
  if (wgmma && launch_.grid.count() * 4 >= at_full_clock_.sms * 3) return std::min(clock, kProductsClock * at_full_clock_.tensor_clock);
  return mma || wgmma ? std::min(clock, at_full_clock_.tensor_clock) : clock;
}

/// L2 and memory have clocks of their own: when SMs run slower than expected, their cycles bring more. Simulates again then.
void Predictor::simulate_at_its_clock() {
  const Prediction before = p_;
  double clock = expected_clock();
  for (int round = 0; round < 2; round++) {
    figures_ = at_full_clock_.at_clock(clock);
    p_ = before;
    const double found = describe(simulate());
    const bool learnt = round == 0 && kernel_.relay && !relay_.meets;  // how long a block of a chain takes
    if (std::fabs(found / clock - 1) < kClockApart && !learnt) break;
    clock = found;
  }
}

Prediction Predictor::run() {
  const auto begin = std::chrono::steady_clock::now();
  const double cpu_begin = cpu_seconds();
  p_.kernel = launch_.kernel->entry->program->name;
  p_.grid[0] = launch_.grid.x, p_.grid[1] = launch_.grid.y, p_.grid[2] = launch_.grid.z;
  p_.block[0] = launch_.block.x, p_.block[1] = launch_.block.y, p_.block[2] = launch_.block.z;
  p_.cluster = launch_.cluster.count();
  kernel_.grid = {launch_.grid.x, launch_.grid.y, launch_.grid.z};
  kernel_.cluster_shape[0] = launch_.cluster.x, kernel_.cluster_shape[1] = launch_.cluster.y, kernel_.cluster_shape[2] = launch_.cluster.z;
  kernel_.cluster = launch_.cluster.count(), kernel_.cluster_launch = launch_.in_clusters || kernel_.cluster > 1;
  join_code();
  kernel_.join = join_.get();
  const double again = launch_.grid.count() * 2 >= figures_.sms ? figures_.fetch_line_together : figures_.fetch_line_again;
  kernel_.fetch = options_.warm ? FetchCosts{figures_.fetch_jump, figures_.fetch_line, figures_.fetch_far, again}
                                : FetchCosts{figures_.fetch_jump_cold, figures_.fetch_line_cold, figures_.fetch_far_cold, again};
  if (!options_.warm) kernel_.first_load = figures_.first_load_cold + figures_.first_load_all_sms * on_sms(1);
  const uint64_t warps = (launch_.block.count() + 31) / 32;  // the assembler would keep to what a block can have
  const uint32_t fits = uint32_t(figures_.registers / (warps * 32) / 8 * 8);
  p_.registers = launch_.registers ? launch_.registers : p_.method == "PTX alone" ? std::min(join_->registers(), fits) : join_->registers();
  p_.shared_bytes = launch_.kernel->entry->program->dynamic_shared_offset - lower::kSharedStart + launch_.dynamic_shared;
  occupancy_ = occupancy_of(figures_, uint32_t(launch_.block.count()), p_.registers, p_.shared_bytes, kernel_.cluster_launch);
  const uint64_t cluster = launch_.cluster.count(), at_once = std::max<uint64_t>(1, clusters_at_once(profile_, cluster)) * cluster;
  const uint64_t per_sm = (launch_.grid.count() + at_once - 1) / at_once;
  p_.blocks_per_sm = occupancy_.blocks, p_.limiter = per_sm < occupancy_.blocks ? "grid" : occupancy_.limiter;
  p_.occupancy = double(std::min<uint64_t>(per_sm, occupancy_.blocks)) * double((launch_.block.count() + 31) / 32) / figures_.warps;
  p_.waves = double(launch_.grid.count()) / double(cluster * std::max<uint64_t>(1, clusters_at_once(profile_, cluster, occupancy_.blocks)));
  const uint32_t threads = uint32_t(launch_.block.count());
  const auto fit = [&](uint32_t registers) { return occupancy_of(figures_, threads, registers, 0, false).blocks; };
  const uint32_t not_l1s = kNobodys + carved_for({occupancy_.blocks, fit(p_.registers), fit(0), threads, figures_.blocks}, p_.shared_bytes, figures_.shared_reserved,
                                                 figures_.shared_bytes);
  kernel_.l1_bytes = figures_.l1_bytes - std::min(figures_.l1_bytes, not_l1s);
  if (!figures_.borrowed_from.empty()) p_.notes.push_back("this GPU's profile has no timing figures of its own: latencies and rates a cycle are those measured on " + figures_.borrowed_from);
  sample();
  find_moves();
  name_assumptions();
  if (!regular_) p_.notes.push_back("blocks differ from each other: they were traced one by one as far as the budget goes");
  make_pools();
  make_copy_pools();
  find_extent();
  follow_copies();
  find_changes();
  simulate_at_its_clock();
  if (unrecorded_ > 1) p_.notes.push_back(fmt::format("a block executes so much that only {:.1f}% of it was looked at: the rest is taken to go on at the same rate", 100 / unrecorded_));
  if (statistics_.unmatched * 20 > statistics_.memory_steps) p_.notes.push_back(fmt::format("{} of {} memory instructions were not found in the trace", statistics_.unmatched, statistics_.memory_steps));
  if (statistics_.calls_lost) p_.notes.push_back("calls through pointers: what the functions execute is not found in the machine code and left out");
  if (statistics_.by_entries) p_.notes.push_back(fmt::format("{} of {} warps could not be led through the machine code: joined by blocks", statistics_.by_entries, statistics_.by_entries + statistics_.walked));
  p_.by_arguments = !tracer_->needs_memory();
  if (options_.record) p_.details = details();
  p_.simulated_steps = sm_.issued;
  host_.trace_aside += tracer_->aside_seconds();
  host_.all = cpu_seconds() - cpu_begin + host_.trace_aside;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  host_.peak_bytes = double(usage.ru_maxrss) * 1024;
  p_.host = host_;
  p_.host_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p_;
}

Prediction predict(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const PredictOptions& options,
                   const std::function<void(double)>& estimate) {
  return Predictor(machine, launch, profile, options, estimate).run();
}

}  // namespace orrery::timing
