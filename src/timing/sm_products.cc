// timing/sm_products.cc: the queue of wgmma before a sub-core's tensor core; see sm.h. Not here: when they are issued (sm.cc).
#include "timing/sm_state.h"

namespace orrery::timing {

void Sm::State::note_tensor(const WarpRun& w, double start, double interval) {
  counts.tensor_busy += interval;
  if (!record || record->tensor.size() >= Record::kSpans) return;
  auto& spans = record->tensor;
  if (!spans.empty() && spans.back().track == w.sub && start - spans.back().to < 2) spans.back().to = start + interval;
  else spans.push_back({start, start + interval, w.sub, Wait::tensor});
}

/// Cycles by which a product that begins at `start` is held up: it shares what shared memory gives or takes in a cycle (kCopyBytes) with copies
/// that arrive [ring_few/5: a step of 64 x 256 x 64 takes 641 cycles, in which 40 KB are read and 40 KB written]. A few of those wait on their way.
double Sm::State::held_up(SubCore& p, const MachineInstruction& m, double start) const {
  p.owed = std::max(0.0, p.owed + shared_written - p.seen_written - (start - p.tensor));
  p.seen_written = shared_written;
  const double left = std::max(0.0, p.owed - std::max(0.0, m.product_interval() - m.product_reads())), late = std::max(0.0, left - kCopiesWait);
  p.owed = left - late;
  return late;
}

/// The product that is next in the queue begins.
void Sm::State::begin_product(SubCore& p) {
  const SubCore::Product next = p.products_waiting.front();
  p.products_waiting.pop_front();
  WarpRun& w = warps[next.warp];
  const MachineInstruction& m = *next.m;
  const double start = std::max(p.tensor, next.issued), interval = m.product_interval() + held_up(p, m, start);
  // What keeps narrow products apart, their rows of A, does not make one longer [wgmma.m64n8k16.f32.f16.latency to m64n256k16: 74.7 to 76.2 beside half a cycle a column].
  const double apart = m.sparse ? 0 : std::max(0.0, m.product_interval() - m.n / 2.0), done = start + interval - apart + kProductDone;
  p.tensor = p.products = start + interval, p.takes_registers = m.a_in_registers;
  p.product_ends.push_back(p.tensor);
  note_tensor(w, start, interval);
  counts.tensor_columns += m.n, counts.changed_columns += m.n * double(m.change);
  if (!w.live || w.age != next.age) return;  // nobody waits for it
  if (m.closes_group) *std::find(w.product_groups.begin(), w.product_groups.end(), kNever) = done;
  fronts[next.warp].products_waiting--;
  const auto waits = [&](unsigned barrier) {  // another product that counts it is yet to begin
    return std::any_of(p.products_waiting.begin(), p.products_waiting.end(), [&](const SubCore::Product& q) {
      return q.warp == next.warp && (q.m->i.write_barrier == barrier || q.m->i.read_barrier == barrier);
    });
  };
  if (m.i.write_barrier < 6 && !waits(m.i.write_barrier)) w.barrier[m.i.write_barrier] = done;
  if (m.i.read_barrier < 6 && !waits(m.i.read_barrier)) w.barrier[m.i.read_barrier] = start + interval;
}

/// Begins what can begin of the products that a sub-core's warps have issued, in the order of issue [wgmma.beside_long: a short batch waits
/// for six products of another warp]. Returns when the next one may begin.
double Sm::State::begin_products(SubCore& p, double now) {
  while (!p.product_ends.empty() && p.product_ends.front() <= now) p.product_ends.pop_front();
  while (!p.products_waiting.empty() && std::floor(p.tensor) <= now) {
    const uint32_t warp = p.products_waiting.front().warp;
    begin_product(p);
    refresh(warps[warp]);
  }
  return p.products_waiting.empty() ? kNever : std::floor(p.tensor);
}

}  // namespace orrery::timing
