// timing/sm_execute.cc: what an instruction that a warp issues occupies, and when its result is there: by its class.
//
// Not here: which warp issues (sm.cc), memory (sm_memory.cc, sm_stores.cc), copies (sm_copies.cc), products (sm_products.cc), what waits for other warps
// (sm_sync.cc, sm_fences.cc).
#include "timing/sm_state.h"

namespace orrery::timing {

namespace {

/// S2R of a thread's place in its block, or its block's in the grid.
bool is_place(const MachineInstruction& m) { return (m.i.hi >> 8 & 255) >= 0x21 && (m.i.hi >> 8 & 255) <= 0x27; }

Wait waits_as(Class c) {
  switch (c) {
    case Class::load: case Class::store: case Class::atomic: case Class::local_load: case Class::local_store: case Class::texture: case Class::constant: return Wait::global;
    case Class::shared_load: case Class::shared_store: case Class::shared_atomic: case Class::matrix_load: case Class::shuffle: return Wait::shared;
    case Class::copy_async: case Class::tensor_copy: case Class::bulk_copy: return Wait::copies;
    case Class::mbarrier: return Wait::mbarrier;
    case Class::hmma: case Class::imma: case Class::dmma: case Class::wgmma: return Wait::tensor;
    default: return Wait::math;
  }
}

}  // namespace

void Sm::State::set_barriers(WarpRun& w, const MachineInstruction& m, double result, double operands) {
  if (m.i.read_barrier < 6) w.set_by[m.i.read_barrier] = waits_as(m.kind), w.results &= uint8_t(~(1u << m.i.read_barrier));
  if (m.i.write_barrier < 6) {
    const uint32_t bit = 1u << m.i.write_barrier;
    w.set_by[m.i.write_barrier] = waits_as(m.kind);
    w.results = uint8_t(m.kind == Class::constant ? w.results & ~bit : w.results | bit);  // whether constants count was not measured
    w.barrier[m.i.write_barrier] = std::max(w.barrier[m.i.write_barrier], result);
  }
  if (m.i.read_barrier < 6) w.barrier[m.i.read_barrier] = std::max(w.barrier[m.i.read_barrier], operands);
}

void Sm::State::execute(WarpRun& w, const MachineInstruction& m, const Step& s, double now) {
  SubCore& p = sub[w.sub];
  const Event* e = s.event == UINT32_MAX ? nullptr : &w.trace->events[s.event];
  const auto hold = [&](double& unit, double cycles) {
    const double start = std::max(unit, now);
    unit = start + cycles;
    return start;
  };
  const bool beside = p.products > now;  // wgmma reads and writes its sums
  const auto held_up = [&](double cycles) {  // by wgmma, and with it what the sub-core would issue next
    if (!beside) return 0.0;
    p.held_up += cycles;
    const double whole = std::floor(p.held_up);
    p.held_up -= whole, p.issue = std::max(p.issue, now + 1 + whole), w.ready += whole;
    return cycles;
  };
  if (m.reads_uniform) hold(p.uniform, 1);  // [uF, uc, uFF: 3.0, 3.2 and 4.4 cycles]
  switch (m.kind) {
    case Class::alu: case Class::vote: hold(p.alu, 2 + held_up(p.takes_registers ? kHeldUpRegisters : kHeldUp)); break;
    case Class::fma:
      hold(p.fma_lite <= p.fma_heavy ? p.fma_lite : p.fma_heavy, 2), p.write = std::max(p.write, now) + 1;
      if (beside) p.tensor += kFmaDelays, p.products += kFmaDelays;
      break;
    case Class::imad: hold(p.fma_heavy, 2 + held_up(kProductHeldUp)), p.write = std::max(p.write, now) + 1; break;
    case Class::imad_wide: hold(p.fma_heavy, 4 + held_up(kProductHeldUp)), hold(p.alu, kWideArithmetic);
      if (m.source[2] != 255) hold(p.bank[0], kWideSum), hold(p.bank[1], kWideSum);
      break;
    case Class::half: {  // both pipes of floats [form.half_to_float: 1.98 a cycle]
      const double cycles = 2 + held_up(kProductHeldUp);
      hold(p.fma_heavy, cycles), hold(p.fma_lite, cycles);
      break;
    }
    case Class::half_mma: hold(p.half, 2 + held_up(kProductHeldUp)); break;  // with the ones above by turns, as ptxas deals them [form.add_f16x2: 3.63]
    case Class::fp64: hold(p.fp64, 2); break;
    case Class::uniform: case Class::uniform_move: hold(p.uniform, 2); break;
    case Class::xu: {
      const double start = hold(p.xu, 8 + held_up(kSpecialHeldUp));
      p.issue = std::max(p.issue, now + 2);  // half a warp at a time goes out [mufu_mix16: 18.5 cycles for 17 instructions]
      set_barriers(w, m, start + 17, start + 8);
      break;
    }
    case Class::redux: {
      const double start = hold(match, kRedux);
      set_barriers(w, m, start + 40, start + 8);
      break;
    }
    case Class::matrix_move: {
      const double start = hold(p.mover, kMatrixMove);
      set_barriers(w, m, start + 18, start + kMatrixMove);
      break;
    }
    case Class::match: {
      const double values = e ? e->extra : m.members == Members::compared ? 1 : 32, start = hold(match, kMatchValue * values);
      set_barriers(w, m, start + kMatch + kMatchWait * values, start + kMatchValue * values);
      break;
    }
    case Class::sleep: {  // until the next turn of a clock that counts in powers of two
      const double start = hold(sleeper, kSleep), over = start + std::max(kSleepLeast, double(std::bit_ceil(e ? std::max(1u, e->count) : 1u)) * 1e-9 * f.clock);
      set_barriers(w, m, over, over);
      w.ready = std::max(w.ready, over);
      break;
    }
    case Class::special_register: {
      const double start = m.i.opcode == kS2r || m.i.opcode == kS2ur ? hold(pipe, is_place(m) ? kSpecialPlace : kSpecial) : now;
      set_barriers(w, m, start + (m.i.opcode == kS2ur ? kUniformRegister : 23), start + 10);
      break;
    }
    case Class::constant: {
      const double words = e ? e->extra : 1, start = hold(constants, kConstantWord * words);
      double there = start;
      for (uint32_t i = 0; e && i < e->count; i++) there = std::max(there, constant_cache.read(e->object + i, start));
      set_barriers(w, m, there + f.constant_latency + kConstantWord * (words - 1), start + 12);
      break;
    }
    case Class::hmma: case Class::imma: {
      const double start = hold(p.tensor, m.interval);
      note_tensor(w, start, m.interval);
      set_barriers(w, m, start + 34, start + 12);
      break;
    }
    case Class::dmma: {
      const double start = hold(p.tensor, m.interval);
      note_tensor(w, start, m.interval);
      counts.double_products += m.n;
      set_barriers(w, m, start + m.interval + 18, start + 12);  // [mma.m16n8k4_f64.latency to m16n8k16_f64]
      break;
    }
    case Class::wgmma:
      p.products_waiting.push_back({number_of(w), w.age, &m, now});
      fronts[number_of(w)].products_waiting++;
      if (m.closes_group) w.product_groups.push_back(kNever);
      set_barriers(w, m, kNever, kNever);
      break;
    case Class::warpgroup:
      if (m.op == isa::Op::wgmma_fence) w.ready = std::max(w.ready, now + 4);
      break;
    case Class::fence:
      if (m.i.opcode == kMembar || m.i.opcode == 0) part_stores(w);
      if (m.i.opcode == kFenceView) {  // behind the stores before it
        const double at = std::max(pipe, hold(p.queue, 4) + 2);
        pipe = at + (stored_shared ? kFenceDrains : kFencePipe);
        const double over = at + (stored_shared ? kFenceOfStores : kFenceWaits);
        stored_shared = false;
        set_barriers(w, m, over, over);
        w.ready = std::max(w.ready, over);
        break;
      }
      if (m.i.opcode == kMembar && m.n == kBlockFence && &m != &code.back() && (&m)[1].i.opcode == kFenceView) break;  // of a fence of the async proxy: the next one waits for both
      // Who acquires what the GPU wrote, and be it one thread, empties L1 for all [read_fenced].
      if (m.i.opcode == kCacheControl ? m.op != isa::Op::prefetch && m.op != isa::Op::discard && m.op != isa::Op::applypriority : m.i.opcode == 0 && m.n != kBlockFence) l1.forget();
      if (m.n != kBlockFence && (m.i.opcode == kMembar || m.i.opcode == 0)) {  // 0: the stand-in for ptxas
        const double sectors = slices.fence(f, now);
        counts.fence_sectors += sectors;
        w.ready = std::max(w.ready, fenced(w, now, m.n == kSystemFence ? f.fence_system : f.fence_gpu, f.barrier_sectors > 0 ? sectors / f.barrier_sectors * TouchedSlices::kSlices : 0));
      } else if (m.i.opcode == kMembar || m.i.opcode == 0) {
        w.ready = std::max(w.ready, hold(block_fences, kFenceOfBlock) + (w.stored || m.op == isa::Op::fence ? kFenceOfBlockOrders : kFenceOfBlockWaits));
      }
      break;
    case Class::async_group:
      if (m.i.opcode == kCloseBulkGroup) w.ready = std::max(w.ready, now + kBulkGroup);
      if (m.op == isa::Op::cp_async_commit_group) w.copy_groups.push_back(w.copies_done);
      else w.bulk_groups.push_back(std::max(w.group_done, now));
      break;
    case Class::control:
      if (m.members != Members::none) wait_for_members(w, m, e, now);
      [[fallthrough]];
    case Class::branch: case Class::exit: case Class::nop: case Class::depbar:
      set_barriers(w, m, now + 10, now + 10);
      if (m.kind == Class::depbar && m.op == isa::Op::cp_async_bulk_wait_group) w.ready = std::max(w.ready, now + kBulkGroup);
      break;
    default: {
      const double start = hold(p.queue, s.off ? kOff : 4);
      if (s.off) {  // no lane executes it: a wavefront all the same
        pipe = std::max(pipe, start + 2) + 1;
        set_barriers(w, m, start + 8, start + 8);
        break;
      }
      turn = s.turn;
      memory(w, m, e, start);
    }
  }
}

}  // namespace orrery::timing
