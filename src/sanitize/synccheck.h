// sanitize/synccheck.h: barriers and warp-wide instructions that are used against their rules.
//
//   divergent-barrier     lanes of one warp meet at bar.sync from different instructions
//   barrier-count         arrivals of one phase ask for different numbers of threads, or for more than can come
//   exited-threads        (strict) threads have left while others of their warp come to an aligned barrier
//   warp-mask             a lane executes a .sync instruction whose member mask lacks it, or names live lanes that never come
//   inactive-lane        a shfl of which all lanes (strict: some lanes) ask for the value of a lane that does not take part
//   divergent-warp        mma, wgmma, ldmatrix, setmaxnreg while lanes of the warp are elsewhere; setmaxnreg, wgmma by a part of a warpgroup
//   cluster-barrier       barrier.cluster arrive and wait that do not alternate
//   exited-block          use of the shared memory of a block that has ended
//
// Judged when a barrier completes or an instruction is executed, so that the order in which lanes came does not matter.
// exited-threads: the PTX manual leaves a barrier with .aligned (bar is one) undefined unless all threads of the warp
// execute it; the CUDA programming guide lets threads that have exited be, from Volta on, and every GPU since does.
// Not here: barriers that never complete (hangs); which threads meet at a barrier (racecheck.h).
// Source: PTX ISA manual, bar/barrier, barrier.cluster, bar.warp.sync, wgmma, setmaxnreg.
#pragma once
#include <array>
#include <map>
#include <unordered_map>

#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

class Synccheck : public exec::Observer {
 public:
  Synccheck(const Options& options, Collector& collector) : options_(options), collector_(collector) {}
  bool serial() const override { return false; }

  void block_begin(const exec::CtaContext&) override;
  void block_end(const exec::CtaContext&) override;
  void launch_end(const exec::RunState&, const exec::LaunchResult&) override;
  void access(const exec::Access&) override;
  void warp_arrive(const exec::Where&, const uint32_t* members) override;
  void warp_sync(const exec::Where&, uint32_t members) override;
  void barrier_arrive(const exec::Where&, uint32_t number, uint32_t expected, bool waits) override;
  void barrier_complete(const exec::CtaContext&, uint32_t number) override;
  void cluster_arrive(const exec::Where&, bool relaxed) override;
  void cluster_wait(const exec::Where&) override;
  void instruction(const exec::Where&) override;

 private:
  /// Lanes of a warp that arrived at a barrier from one instruction.
  struct Arrival {
    exec::Where where;
    uint32_t expected = 0;
    bool waits = true;
  };
  struct WarpState {
    uint32_t cluster_arrived = 0;               // lanes with an arrival that they have not waited for
    std::unordered_map<uint32_t, uint32_t> live_at;  // instruction -> lanes alive when the first lane came
    std::unordered_map<uint32_t, std::array<uint8_t, 32>> asks;  // shfl -> whose value each lane asks for
  };
  /// An instruction that all warps of a warpgroup must execute.
  struct OfWarpgroup {
    exec::Where where;                               // of the first warp
    std::map<uint32_t, uint32_t> times;              // warp -> executions
  };
  struct BlockState {
    const exec::RunState* run = nullptr;
    std::vector<Arrival> barriers[16];
    std::vector<WarpState> warps;
    std::map<uint32_t, OfWarpgroup> of_warpgroup;  // by instruction
  };
  void report(const exec::Where& where, int lane, const char* kind, std::string message, std::string remedy,
              const exec::Where* other = nullptr, const char* what = "");
  void check_arrivals(const std::vector<Arrival>& arrivals, uint32_t number, const exec::CtaContext& cta);

  void count(const exec::Where& where);
  void note_sources(const exec::Where& where, WarpState& state);
  void check_sources(const exec::Where& where, WarpState& state);
  void check_exited(const std::vector<Arrival>& arrivals, uint32_t number);

  const Options& options_;
  Collector& collector_;
  std::unordered_map<const exec::CtaContext*, BlockState> blocks_;
};

}  // namespace orrery::sanitize
