// timing/sm_texture.cc: fetches of texels, and loads from surfaces, by the texture unit of an SM. It reads through L1, as loads do; what stores to
// surfaces do is as what other stores do (sm_memory.cc).
#include "timing/sm_state.h"
#include "timing/trace_texels.h"

namespace orrery::timing {

namespace {

constexpr double kFetch = 8;          // cycles of the unit of a fetch of which nothing is known: four lanes at a time [texel_hits_2d]
constexpr double kFiltered = 7;       // cycles more that a fetch takes which filters [texel_chase_linear, texel_chase_2d]
constexpr double kDescribed = 370;    // cycles more than a load takes, until the unit knows the texture for its first fetch [texel_stream_1d_4x4/512, 2d_4x4/512, stream8_2d/1024]
constexpr double kUnderWay = 1050;    // cycles of the unit of fetches that have not come back [texel_stream8_2d/4096, texel_taps_x/4096]
constexpr double kSurfaceWaits = 200;  // cycles for which a store to a surface may be taken up by another
constexpr double kTexelMissMore = 54;   // cycles more from L2 than a load takes [texel_chase_1d/1048576, warm]

/// Until a warp has what L1 holds, with the cycles of the unit [texel_chase_1d/4096, surface_chase, texel_chase_2d].
double latency_of(FetchKind kind) {
  switch (kind) {
    case FetchKind::line: return 89;
    case FetchKind::surface: return 91;
    case FetchKind::filtered: return 113 + kFiltered;
    default: return 113;
  }
}

}  // namespace

/// Two rows share their sectors: of stores to a surface those that another warp makes right behind leave with the one before.
bool Sm::State::joins_surface(uint64_t line, uint32_t sectors, double at) {
  for (size_t back = 1; back <= std::min(surface_stores, kSurfaceLines); back++) {
    SurfaceLine& other = surface_lines[(surface_stores - back) % kSurfaceLines];
    if (other.line != line || sectors & ~other.sectors || at > other.issued + kSurfaceWaits) continue;
    if (back > kSurfaceLines / 2 && mix(line) >> 40 & 1) break;
    other = {};
    return true;
  }
  surface_lines[surface_stores++ % kSurfaceLines] = {line, sectors, at};
  return false;
}

void Sm::State::fetch_texels(WarpRun& w, const MachineInstruction& m, const Event* e, double start) {
  SubCore& p = sub[w.sub];
  const bool reads = e && e->what == What::global_load;
  const double cycles = reads ? e->extra : kFetch;
  if (described < 0) described = start + kDescribed + (kernel.first_load > 0 ? f.dram_latency : f.l2_latency);  // with cold caches from memory
  double at = std::max({texels, start + 2, described});
  for (; !fetches.empty() && (fetched_cycles + cycles > kUnderWay || fetches.front().done <= at); fetches.pop_front())
    at = std::max(at, fetches.front().done), fetched_cycles -= fetches.front().cycles;
  texels = at + cycles;
  if (texels - start > 64) p.queue = std::max(p.queue, texels - 40);
  const FetchKind kind = reads ? FetchKind(e->count) : FetchKind::point;
  const double usual = kind == FetchKind::line || kind == FetchKind::surface ? kFetch / 2 : kFetch;
  double done = at + latency_of(kind);
  if (reads && e->n_detail) {
    const Came came = global_read(w, *e, m, at);
    const double back = waited_for(w, *e, came.done);
    if (came.missed) done = std::max(done, back + kTexelMissMore);
    if (request - at > kOutstanding) p.queue = std::max(p.queue, request - kOutstanding);
  }
  done += cycles + std::max(0.0, cycles - usual);
  if (!fetches.empty()) done = std::max(done, fetches.back().done);  // they come back in order
  fetches.push_back({done, cycles}), fetched_cycles += cycles;
  w.loaded = std::max(w.loaded, done), w.arrives = done;
  set_barriers(w, m, done, at + 12);
}

}  // namespace orrery::timing
