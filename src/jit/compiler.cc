// jit/compiler.cc: see compiler.h.
#include "jit/compiler.h"

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "exec/observed.h"
#include "isa/row.h"
#include "jit/cache.h"
#include "jit/emitter.h"
#include "jit/linker.h"
#include "jit/park.h"
#include "jit/plan.h"
#include "jit/target.h"
#include "lower/flow.h"

namespace orrery::jit {

namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

size_t flat_count(const ptx::Operand& o) {
  if (o.kind != ptx::OperandKind::vec && o.kind != ptx::OperandKind::pair) return 1;
  size_t n = 0;
  for (const auto& p : o.parts) n += flat_count(p);
  return n;
}

/// The meanings that emitted code may call, by instruction.
std::map<uint32_t, Meaning> find_meanings(const lower::Program& p) {
  std::map<uint32_t, Meaning> out;
  for (uint32_t i = 0; i < p.code.size(); i++) {
    const ptx::Instr& in = p.code[i];
    if ((isa::row(in.form.row).effects & 0xffff) != 0) continue;
    size_t dst = 0, src = 0;
    for (size_t k = 0; k < in.ops.size(); k++) (int(k) < lower::destinations(in) ? dst : src) += flat_count(in.ops[k]);
    if (auto fn = sem::find_pure(in.form, int(dst), int(src))) out[i] = {in.form, fn};
  }
  return out;
}

/// Thrown where nobody waits for the code any more.
struct Abandoned : std::exception {
  const char* what() const noexcept override { return "abandoned"; }
};

std::vector<char> make_object(const Plan& plan, Tier tier, const std::atomic<bool>& stopping, std::atomic<bool>& in_llvm, Compiler::Timing& timing) {
  const double start = now_ms();
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  auto machine = make_target_machine(tier);
  module.setTargetTriple(machine->getTargetTriple().str());
  module.setDataLayout(machine->createDataLayout());
  Emitter emitter(plan, module, HostTraits::get());
  for (uint32_t r = 0; r < plan.entries.size(); r++) {
    if (stopping) throw Abandoned();
    emitter.emit_region(r);
  }
  const char* dump = std::getenv("ORRERY_JIT_DUMP");
  if (dump && std::string_view(dump) == "ir") module.print(llvm::errs(), nullptr);
  std::string problem;
  llvm::raw_string_ostream problems(problem);
  if (llvm::verifyModule(module, &problems)) base::fail("generated code is malformed: {}", problems.str());
  const double emitted = now_ms();
  llvm::SmallVector<char, 0> object;
  if (stopping) throw Abandoned();
  {
    const Compiling may_be_parked(in_llvm);
    compile_module(module, *machine, tier, object);
  }
  if (dump && std::string_view(dump) == "opt") module.print(llvm::errs(), nullptr);
  timing.emit = emitted - start;
  timing.compile = now_ms() - emitted;
  timing.object_bytes = object.size();
  return {object.begin(), object.end()};
}

/// What LLVM takes grows faster than a function: a kernel of 8,000 instructions takes it 10 s, quickly 2 s.
Tier tier_for(const Plan& plan) {
  constexpr size_t kLarge = 4000;  // instructions
  const char* wish = std::getenv("ORRERY_JIT_TIER");  // to test both with any kernel
  if (wish && *wish) return std::string_view(wish) == "quick" ? Tier::quick : Tier::full;
  return plan.program.code.size() > kLarge ? Tier::quick : Tier::full;
}

struct Key {
  uint64_t program;
  uint32_t x, y, z;  // of the block
  bool resumable;
  auto operator<=>(const Key&) const = default;
};

}  // namespace

Mode mode_from_environment(Mode otherwise) {
  const char* v = std::getenv("ORRERY_JIT");
  if (!v) return otherwise;
  const std::string_view s(v);
  if (s == "off") return Mode::off;
  if (s == "sync") return Mode::synchronous;
  if (s == "async") return Mode::background;
  return otherwise;
}

struct Compiler::State {
  Mode mode;
  unsigned observe = 0;
  std::mutex mutex;
  std::condition_variable changed;
  struct Made { std::shared_ptr<const exec::NativeCode> code; bool done = false; };  // done without code: it cannot be made
  std::map<Key, Made> made;
  struct Job { std::shared_ptr<const lower::Program> program; lower::BlockSize block; Key key; };
  std::deque<Job> jobs;
  std::atomic<bool> stopping{false};
  bool busy = false;
  std::thread thread;
  struct Working {  // a thread that compiles: this one, or one that launches and waits
    pthread_t thread = pthread_self();
    std::atomic<bool> in_llvm{false};
    bool parked = false;  // it stands in LLVM for ever, and what it uses stays
  };
  std::list<Working> working;
  Timing timing;
  Cache cache;

  /// Has the calling thread among those that work.
  class AtWork {
   public:
    explicit AtWork(State& s) : state_(s) {
      std::lock_guard lock(state_.mutex);
      me_ = state_.working.emplace(state_.working.end());
    }
    ~AtWork() {
      std::lock_guard lock(state_.mutex);
      state_.working.erase(me_);
      state_.changed.notify_all();
    }
    std::atomic<bool>& in_llvm() { return me_->in_llvm; }

   private:
    State& state_;
    std::list<Working>::iterator me_;
  };

  std::shared_ptr<const exec::NativeCode> make(const lower::Program& p, lower::BlockSize block, bool resumable) {
    AtWork at_work(*this);
    Timing t;
    const Plan plan(p, block, observe, resumable);
    const Tier tier = tier_for(plan);
    const auto meanings = find_meanings(p);
    const void* ranges = observe & (exec::kObserveOutside | exec::kObserveQuick) ? exec::site_ranges(p) : nullptr;
    const double start = now_ms();
    const std::string name = cache.name_of(p.hash + (observe + (resumable ? 1u << 31 : 0) + (tier == Tier::quick ? 1u << 30 : 0)) * 0x9E3779B97F4A7C15ull, block.x, block.y, block.z);
    std::vector<char> object;
    std::string error;
    std::shared_ptr<LoadedCode> code;
    if (cache.load(name, object)) code = link_object(object, uint32_t(plan.entries.size()), meanings, ranges, error), t.from_cache = code != nullptr;
    if (!code) {
      object = make_object(plan, tier, stopping, at_work.in_llvm(), t);
      cache.store(name, object);
      const double linking = now_ms();
      code = link_object(object, uint32_t(plan.entries.size()), meanings, ranges, error);
      t.link = now_ms() - linking;
    } else {
      t.link = now_ms() - start;
    }
    if (!code) base::fail("linking compiled code: {}", error);
    code->entry_pc = plan.entries;
    code->entry_of = plan.entry_of;
    code->width = 32;
    std::lock_guard lock(mutex);
    timing = t;
    return code;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stopping || !jobs.empty(); });
      if (stopping) return;
      const auto smallest = std::ranges::min_element(jobs, {}, [](const Job& j) { return j.program->code.size(); });
      const Job job = std::move(*smallest);
      jobs.erase(smallest);
      busy = true;
      lock.unlock();
      auto code = attempt(job);
      lock.lock();
      made[job.key] = {std::move(code), true};
      busy = false;
      changed.notify_all();
    }
  }

  /// Null when it cannot be made: then the interpreter runs the kernel.
  std::shared_ptr<const exec::NativeCode> attempt(const Job& job) {
    try {
      return make(*job.program, job.block, job.key.resumable);
    } catch (const std::exception& e) {
      if (std::getenv("ORRERY_JIT_DUMP")) llvm::errs() << "jit: " << e.what() << "\n";
      return nullptr;
    }
  }
};

Compiler::Compiler(Mode mode, unsigned observe) : state_(std::make_unique<State>()) {
  state_->mode = mode;
  state_->observe = observe;
}

Compiler::~Compiler() {
  bool parked;
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    parked = std::ranges::any_of(state_->working, &State::Working::parked);
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) parked ? state_->thread.detach() : state_->thread.join();
  if (parked) (void)state_.release();
}

void Compiler::abandon() {
  using namespace std::chrono_literals;
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->jobs.clear();
  state_->changed.notify_all();
  const auto still = [&] { return std::ranges::all_of(state_->working, &State::Working::parked); };
  // What is not in LLVM sees soon that nobody waits, and ends. (Whoever ends needs the lock for it, so threads live here.)
  while (!state_->changed.wait_for(lock, 20ms, still))
    for (State::Working& w : state_->working) w.parked = w.parked || park(w.thread, w.in_llvm);
}

std::shared_ptr<const exec::NativeCode> Compiler::code_for(const lower::Program& p, exec::Dim3 block) { return code_of(p, block, false); }
std::shared_ptr<const exec::NativeCode> Compiler::resumable_code_for(const lower::Program& p, exec::Dim3 block) { return code_of(p, block, true); }

std::shared_ptr<const exec::NativeCode> Compiler::code_of(const lower::Program& p, exec::Dim3 block, bool resumable) {
  if (state_->mode == Mode::off) return nullptr;
  const Key key{p.hash, block.x, block.y, block.z, resumable};
  {
    std::lock_guard lock(state_->mutex);
    if (auto at = state_->made.find(key); at != state_->made.end()) return at->second.code;
    if (state_->stopping) return nullptr;
    if (state_->mode == Mode::background) {
      state_->made[key] = {};
      state_->jobs.push_back({std::make_shared<lower::Program>(p), {block.x, block.y, block.z}, key});
      if (!state_->thread.joinable()) state_->thread = std::thread([s = state_.get()] { s->work(); });
      state_->changed.notify_all();
      return nullptr;
    }
  }
  std::shared_ptr<const exec::NativeCode> code;
  try {
    code = state_->make(p, {block.x, block.y, block.z}, resumable);
  } catch (const Abandoned&) {
    return nullptr;
  } catch (const std::exception&) {
    if (!resumable) throw;  // whoever asks for the other is in the middle of a kernel, and the interpreter can go on
  }
  std::lock_guard lock(state_->mutex);
  state_->made[key] = {code, true};
  return code;
}

std::shared_ptr<const exec::NativeCode> Compiler::wait_for_code(const lower::Program& p, exec::Dim3 block) {
  if (auto code = code_for(p, block); code || state_->mode != Mode::background) return code;
  const Key key{p.hash, block.x, block.y, block.z, false};
  std::unique_lock lock(state_->mutex);
  const auto waiting = std::ranges::find(state_->jobs, key, &State::Job::key);
  if (waiting != state_->jobs.end()) {
    const State::Job job = std::move(*waiting);
    state_->jobs.erase(waiting);
    lock.unlock();
    auto code = state_->attempt(job);
    lock.lock();
    state_->made[key] = {std::move(code), true};
    state_->changed.notify_all();
  }
  state_->changed.wait(lock, [&] { return state_->made[key].done || state_->stopping; });
  return state_->made[key].code;
}

void Compiler::finish() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->jobs.empty() && !state_->busy; });
}

Compiler::Timing Compiler::last_timing() const {
  std::lock_guard lock(state_->mutex);
  return state_->timing;
}

}  // namespace orrery::jit
