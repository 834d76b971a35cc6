// The four models of arXiv 2205.05198 with their published memory and times.
#pragma once

#include "graph/train.h"

namespace orrery::graph {

struct MegatronRun {
  int layers, hidden, heads, tp, pp, interleave, micro, batch;
  double state, none, selective, full_seconds, selective_seconds;
};
inline constexpr MegatronRun kRuns[] = {
    {48, 6144, 64, 8, 1, 1, 4, 4, 45.5625, 59.25, 9.5625, 1.42, 1.10},
    {96, 12288, 96, 8, 8, 3, 1, 64, 45.5625, 66.84375, 12.3515625, 18.13, 13.75},
    {105, 20480, 128, 8, 35, 3, 1, 280, 31.640625, 114.0234375, 23.076171875, 49.05, 37.83},
    {128, 25600, 160, 8, 64, 1, 1, 512, 32.958984375, 131.25, 26.5625, 94.42, 71.49}};

inline Graph megatron_graph(const MegatronRun& r) {
  return build_transformer(megatron_gpt("gpt", r.layers, r.hidden, r.heads, 2048, 51200),
                           {true, true, true});
}
inline Plan megatron_plan(const MegatronRun& r) {
  Plan p;
  p.tp = r.tp, p.pp = r.pp, p.virtual_stages = r.interleave;
  if (r.interleave > 1) p.schedule = PipelineSchedule::kInterleaved;
  return p;
}

}  // namespace orrery::graph
