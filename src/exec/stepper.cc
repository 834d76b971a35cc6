// exec/stepper.cc: operands of one instruction, address translation, and what a fault says.
#include "exec/stepper.h"

#include <fmt/format.h>
#include <time.h>

#include "exec/fault.h"

namespace orrery::exec {

using isa::Space;
using ptx::Sreg;

namespace {

uint64_t nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

uint64_t clock_of(Stepper& s) {
  // Deterministic: it grows with what the warp has executed and with every reading, never with host time. A warp alone that waits for it makes a turn of four
  // instructions in 39 cycles on an H200 [spin_one of calib/steps/members.cu].
  constexpr uint64_t kReading = 23, kInstruction = 4;
  s.cta.clock += kReading;
  return s.cta.clock + kInstruction * s.w.instructions;
}

uint64_t cluster_sreg(const Stepper& s, Sreg r) {
  const LaunchContext& l = *s.cta.launch;
  auto axis = [&](Sreg first) { return int(r) - int(first); };
  if (r >= Sreg::clusterid_x && r <= Sreg::clusterid_z) return s.cta.ctaid[axis(Sreg::clusterid_x)] / l.cluster[axis(Sreg::clusterid_x)];
  if (r >= Sreg::nclusterid_x && r <= Sreg::nclusterid_z) return l.grid[axis(Sreg::nclusterid_x)] / l.cluster[axis(Sreg::nclusterid_x)];
  if (r >= Sreg::cluster_ctaid_x && r <= Sreg::cluster_ctaid_z)
    return s.cta.ctaid[axis(Sreg::cluster_ctaid_x)] % l.cluster[axis(Sreg::cluster_ctaid_x)];
  if (r >= Sreg::cluster_nctaid_x && r <= Sreg::cluster_nctaid_z) return l.cluster[axis(Sreg::cluster_nctaid_x)];
  if (r == Sreg::cluster_ctarank) return s.cta.cluster_rank;
  if (r == Sreg::cluster_nctarank) return l.cluster[0] * l.cluster[1] * l.cluster[2];
  return s.run.launch.cluster.count() > 1;  // is_explicit_cluster
}

uint64_t shared_sreg(const Stepper& s, Sreg r) {
  switch (r) {
    case Sreg::reserved_smem_offset_begin: case Sreg::reserved_smem_offset_0: return 0;
    case Sreg::reserved_smem_offset_1: case Sreg::reserved_smem_offset_end: case Sreg::reserved_smem_offset_cap:
      return lower::kSharedStart;
    case Sreg::dynamic_smem_size: return s.run.launch.dynamic_shared;
    default: return s.cta.shared_bytes - lower::kSharedStart;
  }
}

uint64_t uniform_sreg(Stepper& s, Sreg r, int64_t number) {
  const LaunchContext& l = *s.cta.launch;
  auto axis = [&](Sreg first) { return int(r) - int(first); };
  if (r >= Sreg::ntid_x && r <= Sreg::ntid_z) return l.block[axis(Sreg::ntid_x)];
  if (r >= Sreg::ctaid_x && r <= Sreg::ctaid_z) return s.cta.ctaid[axis(Sreg::ctaid_x)];
  if (r >= Sreg::nctaid_x && r <= Sreg::nctaid_z) return l.grid[axis(Sreg::nctaid_x)];
  if (r >= Sreg::is_explicit_cluster && r <= Sreg::cluster_nctarank) return cluster_sreg(s, r);
  if (r >= Sreg::reserved_smem_offset_begin && r <= Sreg::dynamic_smem_size) return shared_sreg(s, r);
  switch (r) {
    case Sreg::warpid: return s.w.warp_id;
    case Sreg::nwarpid: return s.run.machine.gpu.max_warps_per_sm;
    case Sreg::smid: return s.cta.smid;
    case Sreg::nsmid: return s.run.machine.gpu.sm_count;
    case Sreg::gridid: return s.run.launch.grid_id;
    case Sreg::clock: return clock_of(s) & 0xFFFFFFFF;
    case Sreg::clock_hi: return clock_of(s) >> 32;
    case Sreg::clock64: return clock_of(s);
    case Sreg::globaltimer: return nanoseconds();
    case Sreg::globaltimer_lo: return nanoseconds() & 0xFFFFFFFF;
    case Sreg::globaltimer_hi: return nanoseconds() >> 32;
    case Sreg::envreg: return number == 1 ? s.run.launch.workspace >> 32 : number == 2 ? s.run.launch.workspace & 0xFFFFFFFF : 0;
    case Sreg::current_graph_exec: return s.run.launch.graph;
    default: return 0;  // pm counters: zero outside a profiler
  }
}

}  // namespace

namespace {
uint32_t lane_sreg(const WarpContext& w, Sreg r, int lane) {
  const uint32_t bit = uint32_t{1} << lane;
  switch (r) {
    case Sreg::tid_x: return w.tid_x[lane];
    case Sreg::tid_y: return w.tid_y[lane];
    case Sreg::tid_z: return w.tid_z[lane];
    case Sreg::laneid: return uint32_t(lane);
    case Sreg::lanemask_eq: return bit;
    case Sreg::lanemask_lt: return bit - 1;
    case Sreg::lanemask_le: return bit | (bit - 1);
    case Sreg::lanemask_gt: return ~(bit | (bit - 1));
    default: return ~(bit - 1);  // lanemask_ge
  }
}
bool per_lane(Sreg r) {
  return (r >= Sreg::tid_x && r <= Sreg::tid_z) || r == Sreg::laneid || (r >= Sreg::lanemask_eq && r <= Sreg::lanemask_gt);
}
}  // namespace

const void* Stepper::source(const Ref& r, int slot) {
  const void* place = nullptr;
  if (r.kind == RefKind::frame) place = frame + r.offset;
  else if (r.kind == RefKind::constant) place = reinterpret_cast<const std::byte*>(code->pool.data()) + r.offset;
  uint64_t* out = scratch[slot & 7];
  if (place && r.want == r.bits && !r.negated) return place;
  auto store = [&](int lane, uint64_t v) {
    if (r.want == 64) out[lane] = v;
    else reinterpret_cast<uint32_t*>(out)[lane] = uint32_t(v);
  };
  if (r.kind == RefKind::sreg) {
    const Sreg sreg = Sreg(r.offset);
    const uint64_t same = per_lane(sreg) ? 0 : uniform_sreg(*this, sreg, r.value);
    for (int l = 0; l < 32; l++) store(l, per_lane(sreg) ? lane_sreg(w, sreg, l) : same);
  } else if (r.kind == RefKind::local_address) {
    for (int l = 0; l < 32; l++) store(l, uint64_t(r.value) + local_base());
  } else if (r.bits == 1) {
    *reinterpret_cast<uint32_t*>(out) = r.negated ? ~*static_cast<const uint32_t*>(place) : *static_cast<const uint32_t*>(place);
  } else {
    for (int l = 0; l < 32; l++) {
      uint64_t v = r.bits >= 64 ? static_cast<const uint64_t*>(place)[l] : static_cast<const uint32_t*>(place)[l];
      store(l, r.negated ? ~v + 1 : v);
    }
  }
  return out;
}

uint64_t Stepper::value(const Ref& r, int slot, int lane) {
  const void* p = source(r, slot);
  if (r.want == 1) return static_cast<const uint32_t*>(p)[0] >> lane & 1;
  return r.want == 64 ? static_cast<const uint64_t*>(p)[lane] : static_cast<const uint32_t*>(p)[lane];
}

uint64_t Stepper::address(const AddressRef& a, int lane) {
  uint64_t v = uint64_t(a.value) + (a.local_frame ? local_base() : 0);
  if (a.base.kind == RefKind::frame) {
    const std::byte* p = frame + a.base.offset;
    v += a.base.bits == 64 ? reinterpret_cast<const uint64_t*>(p)[lane] : reinterpret_cast<const uint32_t*>(p)[lane];
  }
  return v;
}

Next Stepper::fault(FaultKind kind, int lane, uint64_t address, std::string what) {
  run.record(make_fault(run, w, *code, pc, kind, lane, address, std::move(what)));
  return Next::fault;
}

namespace {

std::byte* shared_pointer(Stepper& s, Space space, uint64_t address, uint32_t bytes, int lane) {
  CtaContext* cta = &s.cta;
  uint64_t offset = uint32_t(address);
  if (space == Space::shared_cluster || (space == Space::shared && offset >> 24 && s.cta.cluster)) {
    const uint32_t rank = uint32_t(offset >> 24);
    if (rank && s.cta.cluster) {
      if (rank > s.cta.cluster->n) {
        s.fault(FaultKind::illegal_address, lane, address, fmt::format("shared::cluster address {:#x} names CTA {} of a cluster of {}", address, rank - 1, s.cta.cluster->n));
        return nullptr;
      }
      cta = s.cta.cluster->ctas[rank - 1];
      offset &= 0xFFFFFF;
    }
  }
  if (offset + bytes > cta->shared_bytes) {
    s.fault(FaultKind::illegal_address, lane, address,
            fmt::format("shared address {:#x} is outside the block's {} bytes of shared memory", address,
                        cta->shared_bytes - lower::kSharedStart));
    return nullptr;
  }
  return cta->shared + offset;
}

std::byte* global_pointer(Stepper& s, uint64_t address, uint32_t bytes, int lane, bool write) {
  const DeviceMemory& memory = *s.run.machine.memory;
  if (may_touch(memory, address, bytes)) {
    set_fault_lane(lane);
    return reinterpret_cast<std::byte*>(address);
  }
  s.fault(FaultKind::illegal_address, lane, address,
          describe_address(memory, address, fmt::format("{} of {} bytes", write ? "write" : "read", bytes)));
  return nullptr;
}

}  // namespace

std::byte* translate(Stepper& s, Space space, uint64_t address, uint32_t bytes, uint32_t align, int lane, bool write) {
  if (address & (align - 1)) {
    s.fault(FaultKind::misaligned_address, lane, address,
            fmt::format("address {:#x} is not a multiple of {}, the size of the access", address, align));
    return nullptr;
  }
  switch (space) {
    case Space::shared: case Space::shared_cta: case Space::shared_cluster:
      return shared_pointer(s, space, address, bytes, lane);
    case Space::local:
      if (bytes > s.w.local_stride || address > s.w.local_stride - bytes) {
        s.fault(FaultKind::illegal_address, lane, address,
                fmt::format("local address {:#x} is outside the thread's {} bytes of local memory", address, s.w.local_stride));
        return nullptr;
      }
      return s.w.local + uint64_t(lane) * s.w.local_stride + address;
    case Space::param: case Space::param_entry:
      if (bytes <= s.run.launch.params.size() && address <= s.run.launch.params.size() - bytes) return const_cast<std::byte*>(s.cta.params) + address;
      s.fault(FaultKind::illegal_address, lane, address, fmt::format("parameter offset {} is outside the {} bytes of kernel parameters", address, s.run.launch.params.size()));
      return nullptr;
    default:
      return global_pointer(s, address, bytes, lane, write);
  }
}

}  // namespace orrery::exec
