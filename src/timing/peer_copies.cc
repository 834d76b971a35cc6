// timing/peer_copies.cc: see peer_copies.h.
#include "timing/peer_copies.h"

#include <map>

namespace orrery::timing {

namespace {

using Key = std::pair<uint64_t, uint32_t>;  // instruction and warp, and how many of it the warp made before

constexpr uint32_t kObject = 0xFFFFFF;  // of an mbarrier's name: its place in shared memory

bool expects(const Event& e) { return (e.what == What::mbarrier_expect || e.what == What::mbarrier_arrive) && e.count > 0; }

void find_in_cluster(std::span<TracedBlock> cluster) {
  std::map<Key, uint32_t> ranks;
  const auto for_copies = [&](uint32_t rank, auto f) {
    std::vector<TracedWarp>& warps = cluster[rank].warps;
    for (uint32_t w = 0; w < warps.size(); w++)
      for (Event& e : warps[w].events)
        if (e.what == What::bulk_load) f(e, Key{uint64_t{w} << 32 | e.pc, e.ordinal}, w);
  };
  for (uint32_t r = 0; r < cluster.size(); r++) for_copies(r, [&](Event&, const Key& key, uint32_t) { ranks[key] |= 1u << r; });
  for (uint32_t r = 0; r < cluster.size(); r++) for_copies(r, [&](Event& e, const Key& key, uint32_t) { e.mask = ranks[key]; });
  for (uint32_t r = 0; r < cluster.size(); r++) {
    std::map<uint32_t, std::vector<PeerCopy>> coming;  // by barrier
    for (uint32_t from = 0; from < cluster.size(); from++)
      if (from != r)
        for_copies(from, [&](const Event& e, const Key&, uint32_t w) {
          if (e.lanes_bytes != kMulticast || e.mask >> r & 1 || !(e.extra >> r & 1)) return;
          PeerCopy c{e, w, from};
          c.copy.detail = uint32_t(cluster[r].runs.size());
          const auto first = cluster[from].runs.begin() + e.detail;
          const std::vector<Run> runs(first, first + e.n_detail);
          cluster[r].runs.insert(cluster[r].runs.end(), runs.begin(), runs.end());
          coming[e.object & kObject].push_back(c);
        });
    if (coming.empty()) continue;
    std::map<uint32_t, std::vector<Event*>> waited_for;
    for (TracedWarp& w : cluster[r].warps)
      for (Event& e : w.events)
        if (expects(e)) waited_for[e.object & kObject].push_back(&e);
    for (const auto& [object, copies] : coming) {
      const auto found = waited_for.find(object);
      if (found == waited_for.end()) continue;
      // Phases are alike: each expects as many copies as the next.
      const std::vector<Event*>& at = found->second;
      for (size_t i = 0; i < copies.size(); i++) {
        Event& e = *at[i * at.size() / copies.size()];
        std::vector<std::vector<PeerCopy>>& all = cluster[r].from_peers;
        if (!e.ordinal) all.emplace_back(), e.ordinal = uint32_t(all.size());
        all[e.ordinal - 1].push_back(copies[i]);
      }
    }
  }
}

}  // namespace

void find_peer_copies(std::span<TracedBlock> blocks, uint64_t size) {
  if (size < 2) return;
  for (size_t first = 0; first + size <= blocks.size(); first += size) find_in_cluster(blocks.subspan(first, size));
}

}  // namespace orrery::timing
