// timing/trace_copies.cc: what bulk and tensor copies are going to move: runs of rows in global memory. See trace_look.h.
#include <bit>

#include "exec/async.h"
#include "exec/fault.h"
#include "exec/tma.h"
#include "timing/trace_look.h"

namespace orrery::timing {

using exec::Stepper;
using isa::Mod;
using isa::Op;
using isa::Space;

namespace {

void add_run(Recording& r, uint64_t address, uint32_t bytes, uint32_t rows, uint64_t stride) {
  if (r.e.n_detail == 0) r.e.address = address;
  r.block.runs.push_back({address, bytes, rows, stride, 0});
  r.e.n_detail++;
}

/// Adds what a copy moves to the last run when it is the next row of it.
void add_piece(void* recording, uint64_t address, uint64_t bytes) {
  Recording& r = *static_cast<Recording*>(recording);
  if (r.e.n_detail > 0) {
    Run& last = r.block.runs.back();
    const uint64_t stride = last.rows == 1 ? address - last.address : last.stride;
    if (last.bytes == bytes && address == last.address + last.rows * stride) {
      last.stride = stride, last.rows++;
      return;
    }
  }
  add_run(r, address, uint32_t(bytes), 1, 0);
}

int rank_of(const isa::Form& f) {
  static constexpr Mod kRanks[] = {Mod::g1d, Mod::g2d, Mod::g3d, Mod::g4d, Mod::g5d};
  for (int i = 0; i < 5; i++)
    if (f.has(kRanks[i])) return i + 1;
  return 0;
}

/// The tensor map at `address`; null when there is none.
const exec::TensorMap* map_at(Recording& r, uint64_t address, int lane) {
  if (r.s.run.machine.memory->contains(address)) return reinterpret_cast<const exec::TensorMap*>(address);
  return reinterpret_cast<const exec::TensorMap*>(exec::translate(r.s, Space::none, address, sizeof(exec::TensorMap), 64, lane, false));
}

/// The box that one lane copies. Nothing is looked at that the execution would refuse: its own handler says so.
void record_box(Recording& r, const exec::TensorMap& map, bool store, int lane) {
  constexpr uint64_t kMostBytes = 1 << 20;  // more than shared memory holds
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const int rank = rank_of(f);
  const bool im2col = f.has(Mod::im2col) || f.has(Mod::im2col_no_offs);
  exec::BoxOrigin origin;
  int ref = 0;
  for (int i = 0; i < rank; i++) origin.at[i] = int32_t(exec::scalar(s, s.ref(r.d, ref++), lane));
  if (f.has(Mod::im2col)) {
    origin.has_offset = true;
    for (int i = 0; i + 2 < rank; i++) origin.offset[i] = uint16_t(exec::scalar(s, s.ref(r.d, ref++), lane));
  }
  if (exec::check_box(map, rank, im2col, store, origin) != exec::BoxError::none || exec::box_bytes(map) > kMostBytes) return;
  const size_t first = r.block.runs.size();
  if (!r.keep) r.e.detail = uint32_t(first);
  r.keep = true;
  r.e.count += uint32_t(exec::box_bytes(map));  // what the mbarrier counts, inside the tensor or not
  exec::for_box_pieces(map, origin, store, add_piece, &r);
  if (r.block.runs.size() > first) {
    uint64_t space = exec::unit_bytes(map);
    for (int i = 0; i < rank; i++) space *= map.size(i);
    r.block.runs[first].space = space;
    constexpr uint8_t kPromoted128 = 2, kPromoted256 = 3;
    const FetchSize fetch = map.l2_promotion == kPromoted256 ? FetchSize::pair : map.l2_promotion == kPromoted128 ? FetchSize::line : FetchSize::half;
    for (size_t i = first; i < r.block.runs.size(); i++) r.block.runs[i].fetch = fetch;
  }
  if (f.has(Mod::multicast_cluster)) r.e.extra = uint16_t(exec::scalar(s, s.ref(r.d, ref), lane)), r.e.lanes_bytes = kMulticast;
}

}  // namespace

void record_tensor(Recording& r) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const bool store = f.has(Mod::bulk_group), prefetch = f.op == Op::cp_async_bulk_prefetch_tensor;
  r.e.what = store ? What::bulk_store : prefetch ? What::bulk_prefetch : What::bulk_load;
  r.e.extra = 1;
  if (f.op == Op::cp_reduce_async_bulk_tensor) r.e.lanes_bytes = kReduces;
  exec::for_lanes(s.mask, [&](int lane) {
    const uint64_t at = s.address(s.code->addresses[size_t(r.d.address) + (store || prefetch ? 0 : 1)], lane);
    if (const exec::TensorMap* map = map_at(r, at, lane)) record_box(r, *map, store, lane);
  });
  if (r.keep && !store && !prefetch) r.e.object = object_of(s, f.space(0), s.address(s.code->addresses[size_t(r.d.address) + 2], std::countr_zero(s.mask)));
}

void record_bulk(Recording& r) {
  Stepper& s = r.s;
  const isa::Form& f = r.d.instr->form;
  const int lane = std::countr_zero(s.mask);
  constexpr uint32_t kUnit = 16;  // sizes are cut to it (ops_bulk.cc)
  const bool prefetch = f.op == Op::cp_async_bulk_prefetch, to_global = f.has(Mod::bulk_group);
  r.keep = true;
  r.e.what = prefetch ? What::bulk_prefetch : to_global ? What::bulk_store : What::bulk_load;
  r.e.detail = uint32_t(r.block.runs.size());
  const bool global_source = prefetch || (!to_global && f.space(1) == Space::global);
  exec::for_lanes(s.mask, [&](int l) {
    const uint32_t bytes = uint32_t(exec::scalar(s, s.ref(r.d, 0), l)) / kUnit * kUnit;
    r.e.count += bytes;
    if (bytes == 0) return;
    if (global_source) add_run(r, s.address(s.code->addresses[size_t(r.d.address) + (prefetch ? 0 : 1)], l), bytes, 1, 0);
    else if (to_global) add_run(r, s.address(s.code->addresses[size_t(r.d.address)], l), bytes, 1, 0);
  });
  if (to_global && f.op == Op::cp_reduce_async_bulk) r.e.lanes_bytes = kReduces;
  if (prefetch || to_global) return;
  r.e.object = object_of(s, f.space(0), s.address(s.code->addresses[size_t(r.d.address) + 2], lane));
  r.e.extra = 1;
  if (!global_source) r.e.lanes_bytes = kFromShared;
  if (f.has(Mod::multicast_cluster)) r.e.extra = uint16_t(exec::scalar(s, s.ref(r.d, 1), lane)), r.e.lanes_bytes = kMulticast;
}

}  // namespace orrery::timing
