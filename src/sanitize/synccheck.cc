// sanitize/synccheck.cc: see synccheck.h.
#include "sanitize/synccheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "exec/decode.h"
#include "exec/run_state.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Op;

namespace {

/// "lanes 0-15, 31".
std::string lanes_text(uint32_t mask) {
  std::string s;
  for (int l = 0; l < 32; l++) {
    if (!(mask >> l & 1)) continue;
    int end = l;
    while (end < 31 && (mask >> (end + 1) & 1)) end++;
    s += fmt::format("{}{}", s.empty() ? "" : ", ", l);
    if (end > l) s += fmt::format("-{}", end);
    l = end;
  }
  return (std::popcount(mask) == 1 ? "lane " : "lanes ") + s;
}

const isa::Form& form_of(const Where& w) { return w.code->code[w.pc].instr->form; }

}  // namespace

void Synccheck::report(const Where& where, int lane, const char* kind, std::string message, std::string remedy, const Where* other,
                       const char* what) {
  Finding f;
  f.check = "synccheck";
  f.kind = kind;
  f.place = place_of(where, lane);
  f.message = std::move(message);
  f.remedy = std::move(remedy);
  if (other) f.others.push_back({what, place_of(*other, -1), ""});
  collector_.add(std::move(f));
}

void Synccheck::block_begin(const CtaContext& cta) {
  BlockState& b = blocks_[&cta];
  b.run = cta.launch->run;
  for (auto& arrivals : b.barriers) arrivals.clear();
  b.warps.assign(cta.n_warps, {});
  b.of_warpgroup.clear();
}

/// All four warps of a warpgroup must have executed each setmaxnreg and wgmma equally often.
void Synccheck::block_end(const CtaContext& cta) {
  const auto it = blocks_.find(&cta);
  if (it == blocks_.end()) return;
  for (auto& [pc, seen] : it->second.of_warpgroup)
    for (const auto& [warp, times] : seen.times) {
      const uint32_t first = warp / 4 * 4;
      uint32_t other = first;
      while (other < std::min(first + 4, cta.n_warps) && seen.times.contains(other) && seen.times.at(other) == times) other++;
      if (other == std::min(first + 4, cta.n_warps)) continue;
      report(seen.where, -1, "divergent-warp",
             fmt::format("{} is executed by warp {} but not by warp {} of the same warpgroup; all warps of the warpgroup must execute it",
                         form_of(seen.where).op == Op::setmaxnreg ? "setmaxnreg" : "wgmma", warp, other),
             "make the condition around it the same for whole warpgroups");
      break;
    }
}

void Synccheck::launch_end(const RunState& run, const LaunchResult&) {
  std::erase_if(blocks_, [&](const auto& b) { return b.second.run == &run; });
}

// ---- barriers of the block ----

void Synccheck::barrier_arrive(const Where& where, uint32_t number, uint32_t expected, bool waits) {
  std::vector<Arrival>& arrivals = blocks_[where.warp->cta].barriers[number & 15];
  arrivals.push_back({where, expected, waits});
  const uint32_t threads = (where.warp->cta->n_threads + 31) / 32 * 32;
  // Who has arrived without waiting may arrive again, and counts twice.
  if (expected > threads && std::ranges::all_of(arrivals, &Arrival::waits))
    report(where, -1, "barrier-count", fmt::format("barrier {} waits for {} threads in a block of {}", number, expected, where.warp->cta->n_threads),
           "give the number of threads that come to this barrier, a multiple of 32");
}

/// Lanes of a warp whose others are at the barrier: they have either come too or left.
void Synccheck::check_exited(const std::vector<Arrival>& arrivals, uint32_t number) {
  for (const Arrival& a : arrivals) {
    const WarpContext& w = *a.where.warp;
    const isa::Form& f = form_of(a.where);
    uint32_t gone = w.lanes & ~w.live;
    for (const Arrival& other : arrivals)
      if (other.where.warp == &w) gone &= ~other.where.mask;
    if (!gone || !(f.op == Op::bar || f.has(isa::Mod::aligned))) continue;
    return report(a.where, -1, "exited-threads",
                  fmt::format("{} of warp {} have left the kernel, and the others of the warp come to barrier {}, which all of them must execute", lanes_text(gone), w.warp_id, number),
                  "let every thread of the block come to the barrier: put the work, not the barrier, into the condition");
  }
}

void Synccheck::barrier_complete(const CtaContext& cta, uint32_t number) {
  const auto it = blocks_.find(&cta);
  if (it == blocks_.end()) return;
  std::vector<Arrival>& arrivals = it->second.barriers[number];
  check_arrivals(arrivals, number, cta);
  if (options_.strict) check_exited(arrivals, number);
  arrivals.clear();
}

void Synccheck::check_arrivals(const std::vector<Arrival>& arrivals, uint32_t number, const CtaContext& cta) {
  std::vector<const Arrival*> first(cta.n_warps, nullptr);
  for (const Arrival& a : arrivals) {
    const Arrival& one = arrivals.front();
    if (a.expected != one.expected) {
      report(a.where, -1, "barrier-count",
             fmt::format("barrier {}: this arrival asks for {} threads, another of the same phase for {}", number,
                         a.expected ? std::to_string(a.expected) : "all", one.expected ? std::to_string(one.expected) : "all"),
             "give the same number of threads at every use of the barrier, or use different barriers", &one.where, "The other arrival");
      return;
    }
    const Arrival*& before = first[a.where.warp->warp_id];
    if (!before || (!before->waits && before->where.mask & a.where.mask)) {  // (after bar.arrive the same lanes may come again)
      before = &a;
    } else if (before->where.pc != a.where.pc || before->where.code != a.where.code) {
      report(a.where, -1, "divergent-barrier",
             fmt::format("{} of warp {} are at this barrier {} while {} of the same warp are at another one", lanes_text(a.where.mask),
                         a.where.warp->warp_id, number, lanes_text(before->where.mask)),
             "move the barrier out of the branch: all threads of the block must come to the same __syncthreads()", &before->where,
             "The other barrier");
      return;
    }
  }
}

// ---- warps ----

void Synccheck::warp_arrive(const Where& where, const uint32_t* members) {
  const WarpContext& w = *where.warp;
  const isa::Form& f = form_of(where);
  WarpState& state = blocks_[w.cta].warps[w.warp_id];
  const bool aligned = f.op == Op::mma || f.op == Op::mma_sp || f.op == Op::wmma_mma || f.op == Op::wmma_load || f.op == Op::wmma_store ||
                       f.op == Op::movmatrix || f.op == Op::wgmma_mma_async || f.op == Op::wgmma_mma_async_sp;
  if (aligned) {
    if (where.mask == w.live && (f.op == Op::wgmma_mma_async || f.op == Op::wgmma_mma_async_sp)) count(where);
    if (where.mask == w.live) return;
    uint32_t here = where.mask;  // lanes that wait for the others at this instruction
    for (uint32_t i = 0; i < w.n_groups; i++)
      if (w.groups[i].pc == where.pc && w.groups[i].frame == where.call) here |= w.groups[i].mask;
    if (here == w.live) return;
    return report(where, -1, "divergent-warp",
                  fmt::format("only {} of warp {} are at this instruction, which all lanes of the warp must execute together; {} are elsewhere",
                              lanes_text(where.mask), w.warp_id, lanes_text(w.live & ~here)),
                  "move the instruction out of the branch, or make the condition the same for the whole warp");
  }
  if (f.op == Op::shfl) note_sources(where, state);
  state.live_at.try_emplace(where.pc, w.live);
  for (uint32_t m = where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if (members[lane] >> lane & 1) continue;
    return report(where, lane, "warp-mask", fmt::format("lane {} executes this with the member mask {:#010x}, which does not name it", lane, members[lane]),
                  "name every lane that executes it: __ballot_sync of the condition before the branch, or __activemask() where any subset will do");
  }
}

/// Whose value a lane asks for, as the manual computes it from the operands.
void Synccheck::note_sources(const Where& where, WarpState& state) {
  const Decoded& d = where.code->code[where.pc];
  const isa::Form& f = d.instr->form;
  if (where.call || !where.warp->frame) return;
  const auto words = [&](int i) -> const uint32_t* {
    const Ref& r = where.code->refs[size_t(d.first_ref) + size_t(d.n_dst + i)];
    if (r.bits != 32 || r.negated) return nullptr;
    if (r.kind == RefKind::frame) return reinterpret_cast<const uint32_t*>(where.warp->frame + r.offset);
    return r.kind == RefKind::constant ? reinterpret_cast<const uint32_t*>(reinterpret_cast<const std::byte*>(where.code->pool.data()) + r.offset) : nullptr;
  };
  const uint32_t *b = words(1), *c = words(2);
  if (!b || !c) return;
  auto& asks = state.asks[where.pc];
  for (uint32_t m = where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m), step = int(b[lane] & 31), clamp = int(c[lane] & 31), segment = int(c[lane] >> 8 & 31);
    const int most = (lane & segment) | (clamp & ~segment);
    const int from = f.has(isa::Mod::up) ? lane - step : f.has(isa::Mod::down) ? lane + step : f.has(isa::Mod::bfly) ? lane ^ step : (lane & segment) | (step & ~segment);
    const bool inside = f.has(isa::Mod::up) ? from >= most : from <= most;
    asks[size_t(lane)] = uint8_t(inside ? from : lane);
  }
}

/// Lanes that ask for the value of one that does not take part get no defined value. Reductions by a part of a warp do so
/// in lanes whose result nobody uses, so it must be all of them.
void Synccheck::check_sources(const Where& where, WarpState& state) {
  const auto it = state.asks.find(where.pc);
  if (it == state.asks.end()) return;
  uint32_t in_vain = 0;
  for (uint32_t m = where.mask; m; m &= m - 1) in_vain |= uint32_t(!(where.mask >> it->second[size_t(std::countr_zero(m))] & 1)) << std::countr_zero(m);
  if (!in_vain || (in_vain != where.mask && !options_.strict)) return;
  const int lane = std::countr_zero(in_vain);
  report(where, lane, "inactive-lane",
         fmt::format("{} of warp {} ask for the value of a lane that does not take part in this shuffle (lane {} for that of lane {}; {} take part): what they get is undefined", lanes_text(in_vain),
                     where.warp->warp_id, lane, it->second[size_t(lane)], lanes_text(where.mask)),
         "take the value from a lane that executes the shuffle, or let the lane that has it take part (and name it in the mask)");
}

void Synccheck::warp_sync(const Where& where, uint32_t members) {
  WarpState& state = blocks_[where.warp->cta].warps[where.warp->warp_id];
  if (form_of(where).op == Op::shfl) check_sources(where, state);
  const auto it = state.live_at.find(where.pc);
  if (it == state.live_at.end()) return;
  const uint32_t missing = members & it->second & ~where.mask;
  state.live_at.erase(it);
  if (!missing) return;
  report(where, -1, "warp-mask",
         fmt::format("the member mask {:#010x} names {}, which never came here: {} executed it alone", members, lanes_text(missing), lanes_text(where.mask)),
         "compute the mask before the branch (__ballot_sync of its condition) so that it names only the lanes inside");
}

void Synccheck::count(const Where& where) {
  if (where.call) return;
  OfWarpgroup& seen = blocks_[where.warp->cta].of_warpgroup[where.pc];
  if (seen.times.empty()) seen.where = where;
  seen.times[where.warp->warp_id]++;
}

void Synccheck::instruction(const Where& where) {
  if (form_of(where).op != Op::setmaxnreg) return;
  count(where);
  if (where.mask == where.warp->live) return;
  report(where, -1, "divergent-warp", fmt::format("setmaxnreg is executed by {} only; all lanes of the warp must execute it", lanes_text(where.mask)),
         "make the condition around it the same for whole warpgroups");
}

// ---- clusters ----

void Synccheck::cluster_arrive(const Where& where, bool) {
  WarpState& state = blocks_[where.warp->cta].warps[where.warp->warp_id];
  if (const uint32_t twice = state.cluster_arrived & where.mask)
    report(where, std::countr_zero(twice), "cluster-barrier", fmt::format("{} arrive at the cluster barrier again without having waited", lanes_text(twice)),
           "put barrier.cluster.wait between two arrivals");
  state.cluster_arrived |= where.mask;
}

void Synccheck::cluster_wait(const Where& where) {
  WarpState& state = blocks_[where.warp->cta].warps[where.warp->warp_id];
  if (const uint32_t never = where.mask & ~state.cluster_arrived)
    report(where, std::countr_zero(never), "cluster-barrier", fmt::format("{} wait at the cluster barrier without having arrived", lanes_text(never)),
           "every barrier.cluster.wait needs a barrier.cluster.arrive before it");
  state.cluster_arrived &= ~where.mask;
}

void Synccheck::access(const Access& a) {
  const CtaContext& own = *a.where.warp->cta;
  if (!own.cluster || own.cluster->n < 2 || (a.space != isa::Space::shared_cluster && a.space != isa::Space::none)) return;
  for (uint32_t m = a.where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const Target t = find_target(a.where, a.space, a.address[lane], lane);
    if (t.region != Region::shared || t.cta == &own || t.cta->live_threads) continue;
    return report(a.where, lane, "exited-block",
                  fmt::format("access to the shared memory of block ({},{},{}) of the cluster, whose threads have all ended", t.cta->ctaid[0],
                              t.cta->ctaid[1], t.cta->ctaid[2]),
                  "end every block of the cluster with cluster.sync(), so that none ends while others use its shared memory");
  }
}

}  // namespace orrery::sanitize
