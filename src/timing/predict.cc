// timing/predict.cc: see predict.h.
#include "timing/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace orrery::timing {

namespace {

struct Occupancy {
  uint32_t blocks = 1;
  std::string limiter;
};

Occupancy occupancy_of(const ChipFigures& f, uint32_t threads, uint32_t registers, uint32_t shared) {
  const uint32_t warps = (threads + 31) / 32;
  Occupancy o{f.warps / std::max(1u, warps), "warps"};
  const auto limit = [&](uint32_t blocks, const char* why) {
    if (blocks < o.blocks) o = {blocks, why};
  };
  limit(f.blocks, "blocks");
  if (registers) {
    const uint32_t per_warp = (registers * 32 + 255) / 256 * 256;
    // Each sub-core has a quarter of the registers, and a block's warps are spread over all four.
    limit(f.registers / 4 / per_warp * 4 / warps, "registers");
  }
  limit(f.shared_bytes / ((shared + 1024 + 127) / 128 * 128), "shared");
  o.blocks = std::max(1u, o.blocks);
  return o;
}

uint32_t l1_size(const ChipFigures& f, uint64_t shared) {
  for (uint32_t kib : {0u, 8u, 16u, 32u, 64u, 100u, 132u, 164u, 196u, 228u})
    if (shared <= uint64_t{kib} << 10) return f.l1_bytes - (kib << 10);
  return f.l1_bytes - f.shared_bytes;
}

/// All that one prediction works on.
class Predictor {
 public:
  Predictor(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const PredictOptions& options,
            const std::function<void(double)>& estimate)
      : machine_(machine), launch_(launch), options_(options), estimate_(estimate), figures_(figures_of(profile)), profile_(profile) {}
  Prediction run();

 private:
  void join_code();
  void sample();
  void trace(uint64_t unit);
  void fit_slopes(const std::vector<const TracedBlock*>& same);
  void make_pools();
  void make_copy_pools();
  const BlockCode& code_for(uint64_t block);
  double simulate();
  void describe(double cycles);
  double dynamic_energy() const;
  uint64_t ordinal(const TracedBlock& b) const { return b.ctaid[0] + kernel_.grid.x * (b.ctaid[1] + kernel_.grid.y * uint64_t{b.ctaid[2]}); }
  uint64_t first_block(uint64_t unit) const;

  exec::Machine& machine_;
  const exec::Launch& launch_;
  const PredictOptions& options_;
  const std::function<void(double)>& estimate_;
  const ChipFigures figures_;
  const Profile& profile_;
  Prediction p_;
  Kernel kernel_;
  std::unique_ptr<Join> join_;
  std::unique_ptr<Tracer> tracer_;
  std::map<uint64_t, std::unique_ptr<TracedBlock>> traced_;   // by block number
  std::map<uint64_t, std::unique_ptr<BlockCode>> code_;
  const TracedBlock* model_ = nullptr;                        // regular kernels: the block that stands for all
  bool regular_ = false;
  uint64_t trace_instructions_ = 0;
  Occupancy occupancy_;
  JoinStatistics statistics_;
  MemoryCounts memory_;
  SmCounts sm_;
  uint32_t simulated_ = 1;       // SMs in detail
  double scale_ = 1;             // whole grid over what was simulated
  double dram_busy_ = 0, l2_busy_ = 0, simulated_cycles_ = 0;
  uint32_t model_jumps_ = 0;     // into code that was not fetched yet
  size_t model_steps_ = 0;       // machine instructions of the longest warp of a block
};

void Predictor::join_code() {
  const lower::Program& program = *launch_.kernel->entry->program;
  const ptx::Module& module = *program.module;
  const Layout layout(module.text);
  std::string why;
  auto code = assemble(layout, module.target, program.name, machine_.gpu.compute_capability, why);
  if (!code) base::fail("{}", why);
  join_ = std::make_unique<Join>(*launch_.kernel, layout, std::move(*code));
  p_.method = "machine code";
}

uint64_t Predictor::first_block(uint64_t unit) const {
  const uint64_t n = launch_.cluster.count();
  if (n == 1) return unit;
  const uint64_t nx = launch_.grid.x / launch_.cluster.x, ny = launch_.grid.y / launch_.cluster.y;
  const uint64_t x = unit % nx * launch_.cluster.x, y = unit / nx % ny * launch_.cluster.y, z = unit / (nx * ny) * launch_.cluster.z;
  return x + launch_.grid.x * (y + launch_.grid.y * z);
}

void Predictor::trace(uint64_t unit) {
  if (traced_.count(first_block(unit))) return;
  for (TracedBlock& b : tracer_->trace(unit)) {
    trace_instructions_ += b.instructions;
    const uint64_t at = ordinal(b);
    traced_[at] = std::make_unique<TracedBlock>(std::move(b));
  }
}

/// Slopes from blocks of one shape: every event of an instruction must move by the same bytes.
void Predictor::fit_slopes(const std::vector<const TracedBlock*>& same) {
  model_ = same[same.size() / 2];
  struct Difference {
    int64_t d[3];
    int64_t bytes;
  };
  std::map<uint32_t, std::vector<Difference>> seen;
  std::set<uint32_t> uneven;
  for (const TracedBlock* b : same) {
    if (b == model_) continue;
    Difference d{};
    for (int i = 0; i < 3; i++) d.d[i] = int64_t(b->ctaid[i]) - int64_t(model_->ctaid[i]);
    std::map<uint32_t, int64_t> first;
    for (size_t w = 0; w < b->warps.size(); w++)
      for (size_t i = 0; i < b->warps[w].events.size(); i++) {
        const Event &e = b->warps[w].events[i], &m = model_->warps[w].events[i];
        if (e.address == 0) continue;
        const int64_t bytes = int64_t(e.address - m.address);
        const auto [at, fresh] = first.try_emplace(e.pc, bytes);
        if (!fresh && at->second != bytes) uneven.insert(e.pc);
      }
    for (const auto& [pc, bytes] : first) d.bytes = bytes, seen[pc].push_back(d);
  }
  for (const auto& [pc, list] : seen) {
    Slope s;
    s.regular = !uneven.count(pc);
    int64_t* slope[3] = {&s.x, &s.y, &s.z};
    bool known[3] = {};
    for (int round = 0; round < 3 && s.regular; round++)
      for (const Difference& d : list) {
        int64_t rest = d.bytes;
        int unknown = -1, n = 0;
        for (int i = 0; i < 3; i++) {
          if (d.d[i] == 0) continue;
          if (known[i]) rest -= *slope[i] * d.d[i];
          else unknown = i, n++;
        }
        if (n == 1 && rest % d.d[unknown] == 0) *slope[unknown] = rest / d.d[unknown], known[unknown] = true;
        else if (n == 1) s.regular = false;
      }
    for (const Difference& d : list) {
      int64_t sum = 0;
      for (int i = 0; i < 3; i++) sum += *slope[i] * d.d[i];
      if (sum != d.bytes) s.regular = false;
    }
    kernel_.slopes[pc] = s;
  }
}

void Predictor::make_pools() {
  std::map<uint32_t, std::map<uint64_t, uint64_t>> owner;
  for (const auto& [at, b] : traced_)
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events) {
        if (e.n_detail == 0 || e.what == What::bulk_load || e.what == What::bulk_store || e.what == What::bulk_prefetch) continue;
        const auto slope = kernel_.slopes.find(e.pc);
        if (slope != kernel_.slopes.end() && slope->second.regular) continue;
        LinePool& pool = kernel_.pools[e.pc];
        auto& owners = owner[e.pc];
        for (uint32_t i = 0; i < e.n_detail && pool.lines.size() < 200000; i++) {
          const uint64_t packed = b->lines[e.detail + i];
          const auto [found, fresh] = owners.try_emplace(packed >> 4, at);
          pool.lines.push_back(packed);
          pool.shared.push_back(!fresh && found->second != at);
          pool.low = std::min(pool.low, packed >> 4), pool.high = std::max(pool.high, packed >> 4);
        }
      }
  for (auto& [pc, pool] : kernel_.pools) {  // a line seen once is shared when another block came to it later
    std::map<uint64_t, int> times;
    for (size_t i = 0; i < pool.lines.size(); i++) times[pool.lines[i] >> 4] += pool.shared[i];
    for (size_t i = 0; i < pool.lines.size(); i++) pool.shared[i] = times[pool.lines[i] >> 4] > 0;
  }
}

/// Irregular bulk copies: the blocks that copy from places of their own, and how many there may be. Of T blocks that draw from
/// N places, N (1 - (1 - 1/N)^T) differ.
void Predictor::make_copy_pools() {
  std::map<uint32_t, std::map<uint64_t, std::vector<uint64_t>>> found;  // by instruction and first address
  std::map<uint32_t, uint32_t> traced;
  for (const auto& [at, b] : traced_) {
    std::map<uint32_t, std::vector<uint64_t>> starts;
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events)
        if ((e.what == What::bulk_load || e.what == What::bulk_store) && e.n_detail) starts[e.pc].push_back(e.address);
    for (auto& [pc, list] : starts) {
      const auto slope = kernel_.slopes.find(pc);
      if (slope != kernel_.slopes.end() && slope->second.regular) continue;
      traced[pc]++;
      found[pc].try_emplace(list[0], std::move(list));
    }
  }
  for (auto& [pc, by_start] : found) {
    CopyPool& pool = kernel_.copies[pc];
    for (auto& [start, list] : by_start) pool.starts.push_back(std::move(list));
    const double distinct = double(pool.starts.size()), drawn = traced[pc], most = double(launch_.grid.count());
    double n = distinct;
    while (n < most && n * (1 - std::pow(1 - 1 / n, drawn)) < distinct - 0.01) n += 1;
    pool.population = uint32_t(n);
  }
}

void Predictor::sample() {
  TraceOptions t;
  tracer_ = std::make_unique<Tracer>(machine_, launch_, t);
  const uint64_t units = launch_.grid.count() / launch_.cluster.count(), nx = launch_.grid.x / launch_.cluster.x;
  const uint64_t ny = launch_.grid.y / launch_.cluster.y, nz = launch_.grid.z / launch_.cluster.z;
  const uint64_t mx = nx / 2, my = ny / 2, mz = nz / 2;
  const auto unit = [&](uint64_t x, uint64_t y, uint64_t z) { return std::min(x, nx - 1) + nx * (std::min(y, ny - 1) + ny * std::min(z, nz - 1)); };
  trace(unit(mx, my, mz));
  const double first = double(trace_instructions_) / double(launch_.cluster.count());
  estimate_(first * double(launch_.grid.count()));
  const std::set<uint64_t> wanted = {unit(mx + 1, my, mz), unit(mx, my + 1, mz), unit(mx, my, mz + 1), unit(mx + 3, my + 2, mz), unit(nx / 3, ny / 3, nz / 3),
                                     unit(nx / 5, ny * 2 / 3, mz), unit(1, 1, 0), 0, unit(nx * 3 / 4, ny / 4, mz)};
  for (uint64_t u : wanted)
    if (trace_instructions_ < options_.trace_budget * 4 || traced_.size() < 3) trace(u);
  std::map<uint64_t, std::vector<const TracedBlock*>> shapes;
  for (const auto& [at, b] : traced_)
    if (b->rank == 0) shapes[b->shape].push_back(b.get());
  const auto most = std::max_element(shapes.begin(), shapes.end(), [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
  size_t rank0 = 0;
  for (const auto& [shape, list] : shapes) rank0 += list.size();
  fit_slopes(most->second);
  size_t even = 0;
  for (const auto& [pc, s] : kernel_.slopes) even += s.regular;
  regular_ = most->second.size() * 10 >= rank0 * 7 && even == kernel_.slopes.size() && most->second.size() > 1 && !options_.exact;
  if (units == 1) regular_ = false;
}

const BlockCode& Predictor::code_for(uint64_t block) {
  const TracedBlock* b = model_;
  if (!regular_) {
    auto found = traced_.find(block);
    if (found == traced_.end() && trace_instructions_ < options_.trace_budget) {
      const exec::Dim3 c = launch_.cluster;
      const uint64_t x = block % kernel_.grid.x / c.x, y = block / kernel_.grid.x % kernel_.grid.y / c.y, z = block / (kernel_.grid.x * kernel_.grid.y) / c.z;
      trace(x + launch_.grid.x / c.x * (y + launch_.grid.y / c.y * z));
      found = traced_.find(block);
    }
    if (found == traced_.end()) {  // the budget is spent: another block stands for it
      auto other = traced_.begin();
      std::advance(other, long(block * 2654435761u % traced_.size()));
      found = other;
    }
    b = found->second.get();
  }
  std::unique_ptr<BlockCode>& code = code_[ordinal(*b)];
  if (!code) {
    code = std::make_unique<BlockCode>();
    code->trace = b;
    for (const TracedWarp& w : b->warps) {
      code->warps.push_back(join_->steps(w, statistics_));
      code->steps += code->warps.back().size();
    }
  }
  return *code;
}

/// Runs the sampled SMs; returns the cycles of the whole grid.
double Predictor::simulate() {
  const uint64_t per = launch_.cluster.count(), units = launch_.grid.count() / per, stride = std::max<uint64_t>(1, figures_.sms / per);
  const BlockCode& middle = code_for(first_block(units / 2));
  const double per_block = double(middle.steps);
  for (const auto& w : middle.warps) {
    model_steps_ = std::max(model_steps_, w.size());
    std::set<uint32_t> fetched;  // pieces of 2 KiB
    uint32_t last = 0, jumps = 0;
    for (const Step& s : w) {
      const uint32_t piece = s.instruction / 128;
      if (fetched.insert(piece).second) jumps += s.instruction > last + 1;
      last = s.instruction;
    }
    model_jumps_ = std::max(model_jumps_, jumps);
  }
  const uint64_t rows = (units + stride - 1) / stride;   // blocks of the busiest SM
  simulated_ = 1;
  if (!regular_) {
    const double affordable = double(options_.trace_budget) / std::max(1.0, double(model_->instructions)) / double(rows);
    simulated_ = uint32_t(std::clamp(affordable, 1.0, 8.0));
  }
  simulated_ = uint32_t(std::min<uint64_t>({simulated_, stride, units}));
  // Simulated SMs stand apart; each one's ghosts are the SMs up to the next.
  const uint64_t apart = std::min<uint64_t>(stride, units) / simulated_;
  kernel_.ghosts = uint32_t(std::max<uint64_t>(1, apart * per)) - 1;
  const uint64_t affordable = uint64_t(std::max(3.0 * occupancy_.blocks, double(options_.step_budget) / std::max(1.0, per_block) / simulated_));
  const uint64_t rows_run = options_.exact ? rows : std::min(rows, std::max<uint64_t>(affordable, 1));
  // Blocks in the order in which they are handed out.
  std::vector<uint64_t> queue;
  for (uint64_t row = 0; row < rows_run; row++)
    for (uint32_t i = 0; i < simulated_; i++)
      if (row * stride + i * apart < units) queue.push_back(row * stride + i * apart);
  Chip chip(figures_);
  double time = 0, warm_offset = 0;
  for (int pass = 0; pass < (options_.warm ? 2 : 1); pass++) {
    warm_offset = time = std::ceil(time);
    std::vector<std::unique_ptr<Sm>> sms;
    for (uint32_t i = 0; i < simulated_; i++) sms.push_back(std::make_unique<Sm>(figures_, kernel_, chip, uint32_t(i * apart), occupancy_.blocks));
    std::vector<double> starts;
    std::vector<double> next(simulated_, warm_offset), fill(simulated_, warm_offset);
    size_t given = 0, done = 0;
    double now = warm_offset, end = warm_offset;
    const auto hand_out = [&](uint32_t i, double at) {
      while (given < queue.size() && sms[i]->free_slots()) {
        const uint64_t block = first_block(queue[given]);
        const BlockCode& code = code_for(block);
        BlockWork work{&code, block, {int64_t(block % kernel_.grid.x), int64_t(block / kernel_.grid.x % kernel_.grid.y), int64_t(block / (kernel_.grid.x * kernel_.grid.y))}};
        const double dispatched = warm_offset + double(queue[given] * per) * figures_.block_interval;
        const double start = std::ceil(std::max(at, dispatched));
        sms[i]->start(work, start);
        next[i] = std::min(next[i], start);
        starts.push_back(start);
        given++;
        if (simulated_ > 1 && given <= uint64_t{simulated_} * occupancy_.blocks && given % simulated_ != i) break;
      }
    };
    for (uint32_t slot = 0; slot < occupancy_.blocks; slot++)
      for (uint32_t i = 0; i < simulated_; i++)
        if (given < queue.size() && sms[i]->free_slots()) {
          const size_t before = given;
          const uint64_t block = first_block(queue[given]);
          const BlockCode& code = code_for(block);
          BlockWork work{&code, block, {int64_t(block % kernel_.grid.x), int64_t(block / kernel_.grid.x % kernel_.grid.y), int64_t(block / (kernel_.grid.x * kernel_.grid.y))}};
          const double start = std::ceil(warm_offset + double(queue[given] * per) * figures_.block_interval);
          sms[i]->start(work, start);
          starts.push_back(start);
          given = before + 1;
        }
    while (done < queue.size()) {
      uint32_t i = 0;
      for (uint32_t k = 1; k < simulated_; k++)
        if (next[k] < next[i]) i = k;
      if (next[i] == std::numeric_limits<double>::infinity()) {
        p_.notes.push_back("warps of the simulated blocks wait for each other for ever: the time is a lower bound");
        break;
      }
      now = std::max(now, next[i]);
      next[i] = std::max(sms[i]->step(now), now + 1);
      for (const auto& [block, at] : sms[i]->take_finished()) {
        done++;
        end = std::max(end, at);
        hand_out(i, at + figures_.block_start);
      }
    }
    end = std::max(end, chip.atomics_free());
    if (chip.counts().l2_write_sectors > 0) end = std::max(end, chip.write_free() + figures_.store_done);  // stores are acknowledged
    time = end;
    memory_ = chip.counts();
    sm_ = SmCounts{};
    for (auto& sm : sms) {
      const SmCounts& c = sm->counts();
      sm_.issued += c.issued, sm_.thread_instructions += c.thread_instructions;
      for (size_t k = 0; k < size_t(Class::count); k++) sm_.by_class[k] += c.by_class[k], sm_.lanes_by_class[k] += c.lanes_by_class[k];
      sm_.l1_sectors += c.l1_sectors, sm_.l1_hits += c.l1_hits, sm_.shared_wavefronts += c.shared_wavefronts, sm_.tensor_busy += c.tensor_busy, sm_.tensor_columns += c.tensor_columns;
    }
    dram_busy_ = chip.dram_busy(), l2_busy_ = chip.l2_busy();
    simulated_cycles_ = end - warm_offset;
    scale_ = double(units) * double(per) / std::max(1.0, double(queue.size()));
    if (rows_run < rows) {  // go on at the rate at which blocks began
      const size_t skip = std::min(starts.size() / 2, size_t(occupancy_.blocks) * simulated_ * 2);
      const double rate = (starts.back() - starts[skip]) / double(std::max<size_t>(1, starts.size() - 1 - skip));
      time += double(rows - rows_run) * simulated_ * rate;
      p_.notes.push_back(fmt::format("{} of {} blocks an SM were simulated", rows_run, rows));
    }
  }
  // Memory must at least move its bytes.
  return time - warm_offset;
}

/// Joules of the whole grid without idle power: energy per event (calib/steps energy, calib/raw power.*).
double Predictor::dynamic_energy() const {
  const auto lanes = [&](Class c) { return double(sm_.lanes_by_class[size_t(c)]); };
  const auto warps = [&](Class c) { return double(sm_.by_class[size_t(c)]); };
  double pj = 7.6 * lanes(Class::fma) + 10.8 * (lanes(Class::imad) + 2 * lanes(Class::imad_wide)) + 5.7 * lanes(Class::alu) + 8 * lanes(Class::xu) +
              7.3 * lanes(Class::half) + 23 * lanes(Class::fp64) + 15 * lanes(Class::shuffle) + 30 * (warps(Class::branch) + warps(Class::uniform)) +
              128 * 6 * sm_.shared_wavefronts + 32 * 11 * sm_.l1_sectors;
  pj += 2650 * warps(Class::hmma) + 2650 * warps(Class::imma) + 335 * sm_.tensor_columns;
  const double memory = (95 - 22) * (memory_.dram_read + memory_.dram_write) + 32 * 22 * (memory_.l2_read_sectors + memory_.l2_write_sectors);
  return 1e-12 * (pj * scale_ + memory * std::max(1.0, scale_ / double(kernel_.ghosts + 1)));
}

void Predictor::describe(double cycles) {
  const double filled = std::min(1.0, double(launch_.grid.count() - 1) / double(figures_.sms - 1)), wide = std::min(1.0, double(launch_.block.count() / 32) / 8);
  const double launch = figures_.launch_cycles + figures_.launch_all_sms * filled + (launch_.block.count() > 32 ? figures_.launch_wide * wide : 0) +
                        double(model_jumps_) * (options_.warm ? figures_.fetch_jump : figures_.fetch_jump_cold);
  const double total = cycles + launch + (options_.warm ? 0 : figures_.cold_cycles);
  p_.cycles = total;
  const double joules = dynamic_energy();
  const bool tensor = sm_.by_class[size_t(Class::hmma)] + sm_.by_class[size_t(Class::imma)] + sm_.by_class[size_t(Class::wgmma)] > 0;
  double clock = tensor ? std::min(figures_.clock, figures_.tensor_clock) : figures_.clock;
  const double watts = joules / (total / clock);
  bool capped = false;
  const double limit = tensor ? figures_.dynamic_watts : figures_.dynamic_watts + 36;
  if (watts > limit) clock *= std::cbrt(limit / watts), capped = true;
  p_.joules = joules + figures_.idle_watts * total / clock;
  p_.watts = p_.joules / (total / clock);
  p_.instructions = double(sm_.issued) * scale_ ;
  p_.l2_sectors = 0;
  const double grow = scale_;
  (void)grow;
  const double chip_scale = scale_ * 1.0 / double(kernel_.ghosts + 1);
  p_.dram_read = memory_.dram_read * std::max(1.0, chip_scale), p_.dram_write = memory_.dram_write * std::max(1.0, chip_scale);
  // The profiler counts an access that crosses to the other partition twice [read16/2048: 1.51, write16/1024: 1.56].
  p_.l2_sectors = 1.53 * (memory_.l2_read_sectors + memory_.l2_write_sectors) * std::max(1.0, chip_scale);
  p_.l1_hit_rate = sm_.l1_sectors > 0 ? sm_.l1_hits / sm_.l1_sectors : 0;
  p_.clock_mhz = clock / 1e6;
  p_.microseconds = total / clock * 1e6;
  p_.low = p_.microseconds * 0.85, p_.high = p_.microseconds * 1.15;
  const double sm_cycles = std::max(1.0, simulated_cycles_ * simulated_);
  struct Candidate {
    const char* name;
    double share;
  };
  const auto lanes = [&](Class c) { return double(sm_.by_class[size_t(c)]); };
  const Candidate all[] = {{"DRAM", dram_busy_ / std::max(1.0, simulated_cycles_)},
                           {"L2", l2_busy_ / std::max(1.0, simulated_cycles_)},
                           {"issue", double(sm_.issued) / (4 * sm_cycles)},
                           {"fp32", (lanes(Class::fma) + 2 * lanes(Class::imad)) / (4 * sm_cycles)},
                           {"integer", 2 * lanes(Class::alu) / (4 * sm_cycles)},
                           {"fp64", 2 * lanes(Class::fp64) / (4 * sm_cycles)},
                           {"special functions", 8 * lanes(Class::xu) / (4 * sm_cycles)},
                           {"shared", sm_.shared_wavefronts / sm_cycles},
                           {"tensor", sm_.tensor_busy / (4 * sm_cycles)}};
  const Candidate* best = std::max_element(std::begin(all), std::end(all), [](auto& a, auto& b) { return a.share < b.share; });
  if (capped) p_.notes.push_back("the clock is lowered by power");
  p_.bound = best->share > 0.6 ? best->name : figures_.launch_cycles > cycles ? "launch" : "latency";
  p_.fraction = best->share;
}

Prediction Predictor::run() {
  const auto begin = std::chrono::steady_clock::now();
  p_.kernel = launch_.kernel->entry->program->name;
  p_.grid[0] = launch_.grid.x, p_.grid[1] = launch_.grid.y, p_.grid[2] = launch_.grid.z;
  p_.block[0] = launch_.block.x, p_.block[1] = launch_.block.y, p_.block[2] = launch_.block.z;
  p_.cluster = launch_.cluster.count();
  kernel_.grid = {launch_.grid.x, launch_.grid.y, launch_.grid.z};
  kernel_.cluster = uint32_t(p_.cluster);
  join_code();
  kernel_.join = join_.get();
  kernel_.first_access = options_.warm ? figures_.first_access : figures_.first_access_cold;
  p_.registers = join_->registers();
  p_.shared_bytes = launch_.kernel->entry->program->dynamic_shared_offset - lower::kSharedStart + launch_.dynamic_shared;
  occupancy_ = occupancy_of(figures_, uint32_t(launch_.block.count()), p_.registers, p_.shared_bytes);
  const uint64_t per_sm = (launch_.grid.count() + figures_.sms - 1) / figures_.sms;
  p_.blocks_per_sm = occupancy_.blocks, p_.limiter = per_sm < occupancy_.blocks ? "grid" : occupancy_.limiter;
  p_.occupancy = double(std::min<uint64_t>(per_sm, occupancy_.blocks)) * double((launch_.block.count() + 31) / 32) / figures_.warps;
  p_.waves = double(launch_.grid.count()) / (double(figures_.sms) * occupancy_.blocks);
  kernel_.l1_bytes = l1_size(figures_, uint64_t(std::min<uint64_t>(per_sm, occupancy_.blocks)) * (p_.shared_bytes + 1024));
  sample();
  if (!regular_) p_.notes.push_back("blocks differ from each other: they were traced one by one as far as the budget goes");
  make_pools();
  make_copy_pools();
  const double cycles = simulate();
  describe(cycles);
  if (statistics_.unmatched * 20 > statistics_.memory_steps) p_.notes.push_back(fmt::format("{} of {} memory instructions were not found in the trace", statistics_.unmatched, statistics_.memory_steps));
  if (statistics_.by_entries) p_.notes.push_back(fmt::format("{} of {} warps could not be led through the machine code: joined by blocks", statistics_.by_entries, statistics_.by_entries + statistics_.walked));
  p_.simulated_steps = sm_.issued;
  p_.host_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return p_;
}

}  // namespace

Prediction predict(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const PredictOptions& options,
                   const std::function<void(double)>& estimate) {
  return Predictor(machine, launch, profile, options, estimate).run();
}

std::string to_json(const Prediction& p) {
  nlohmann::ordered_json j;
  j["kernel"] = p.kernel, j["grid"] = p.grid, j["block"] = p.block, j["cluster"] = p.cluster;
  j["us"] = p.microseconds, j["low_us"] = p.low, j["high_us"] = p.high, j["cycles"] = p.cycles, j["clock_mhz"] = p.clock_mhz;
  j["bound"] = p.bound, j["fraction"] = p.fraction, j["registers"] = p.registers, j["shared_bytes"] = p.shared_bytes;
  j["blocks_per_sm"] = p.blocks_per_sm, j["occupancy"] = p.occupancy, j["limiter"] = p.limiter, j["waves"] = p.waves;
  j["instructions"] = p.instructions, j["dram_read"] = p.dram_read, j["dram_write"] = p.dram_write, j["l2_sectors"] = p.l2_sectors;
  j["l1_hit_rate"] = p.l1_hit_rate, j["joules"] = p.joules, j["watts"] = p.watts, j["method"] = p.method, j["notes"] = p.notes;
  j["host_seconds"] = p.host_seconds, j["simulated_steps"] = p.simulated_steps;
  return j.dump();
}

}  // namespace orrery::timing
