// timing/stand_in_order.cc: see stand_in_order.h.
#include "timing/stand_in_order.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

namespace orrery::timing {

namespace {
constexpr uint32_t kInFlight = 16; // loads that are issued before the first of them is used
}  // namespace

double latency_of(Class c) {
  switch (c) {
    case Class::load: case Class::atomic: case Class::texture: case Class::local_load: return 400;
    case Class::shared_load: case Class::shared_atomic: case Class::matrix_load: case Class::constant: return 28;
    case Class::shuffle: case Class::xu: case Class::redux: case Class::special_register: return 22;
    case Class::hmma: case Class::imma: case Class::dmma: return 33;
    case Class::fp64: return 8;
    case Class::half: case Class::half_mma: case Class::imad_wide: return 5;
    case Class::uniform: return 7;
    default: return 4;
  }
}

void connect(std::vector<Node>& nodes) {
  std::unordered_map<uint32_t, uint32_t> maker;
  std::vector<uint32_t> loads, stores;
  int64_t fixed = -1;
  const auto edge = [&](uint32_t from, uint32_t to) { nodes[from].after.push_back(to), nodes[to].waiting_for++; };
  for (uint32_t i = 0; i < nodes.size(); i++) {
    for (uint32_t s : nodes[i].sources)
      if (const auto at = maker.find(s); at != maker.end()) edge(at->second, i);
    for (uint32_t r : nodes[i].results) maker[r] = i;
    const Place place = nodes[i].place;
    if (place == Place::free) continue;
    if (fixed >= 0) edge(uint32_t(fixed), i);
    if (place != Place::load)
      for (uint32_t l : loads) edge(l, i);
    for (uint32_t s : stores) edge(s, i);
    if (place == Place::load) loads.push_back(i);
    if (place == Place::store) stores = {i}, loads.clear();
    if (place == Place::fixed) fixed = i, loads.clear(), stores.clear();
  }
  for (uint32_t i = uint32_t(nodes.size()); i-- > 0;) {
    double own = 0, next = 0;
    for (Class c : nodes[i].pieces) own += c == nodes[i].pieces.back() ? latency_of(c) : 4;
    const bool can_wait = nodes[i].sources.size() <= 1 && !nodes[i].after.empty();  // nothing is freed by it
    nodes[i].wanted = can_wait ? UINT32_MAX : i;
    for (uint32_t a : nodes[i].after) {
      next = std::max(next, nodes[a].height);
      if (can_wait) nodes[i].wanted = std::min(nodes[i].wanted, nodes[a].wanted);
    }
    nodes[i].height = own + next;
  }
}

std::vector<uint32_t> order_of(std::vector<Node>& nodes, Pressure& pressure, uint32_t enough) {
  std::vector<uint32_t> order;
  std::vector<std::vector<uint32_t>> makers(nodes.size());
  for (uint32_t i = 0; i < nodes.size(); i++)
    for (uint32_t a : nodes[i].after) makers[a].push_back(i);
  std::set<std::pair<double, uint32_t>> ready;  // by height, then by place
  for (uint32_t i = 0; i < nodes.size(); i++)
    if (nodes[i].waiting_for == 0) ready.insert({-nodes[i].height, i});
  double now = 0;
  uint32_t in_flight = 0;  // loads that nothing has used yet
  std::set<uint32_t> waited_for;
  while (!ready.empty()) {
    auto best = ready.begin();
    if (in_flight >= kInFlight)
      for (auto at = ready.begin(); at != ready.end() && nodes[best->second].place == Place::load; ++at)
        if (nodes[at->second].place != Place::load && at->second + 1 != nodes.size()) best = at;
    if (nodes[best->second].place == Place::load || in_flight < kInFlight)
      for (auto at = ready.begin(); at != ready.end() && nodes[best->second].ready > now; ++at)
        if (nodes[at->second].ready < nodes[best->second].ready) best = at;
    if (best->second + 1 == nodes.size() && ready.size() > 1) best = std::next(ready.begin(), best == ready.begin() ? 1 : 0);
    const auto more = [&](uint32_t n) { return pressure.change(nodes[n].reads, nodes[n].writes, nodes[n].pieces.empty()); };
    const auto sooner = [&](uint32_t a, uint32_t b) { return std::pair{nodes[a].wanted, a} < std::pair{nodes[b].wanted, b}; };
    if (const int change = more(best->second); change > 0 && int(pressure.now()) + change > int(enough)) {
      auto frees = ready.end(), first = best;
      for (auto at = ready.begin(); at != ready.end(); ++at) {
        if (at->second + 1 == nodes.size()) continue;
        if (sooner(at->second, first->second)) first = at;
        if (more(at->second) > 0) continue;
        const auto waits = [&](uint32_t n) { return std::max(nodes[n].ready, now); };
        if (frees == ready.end() || waits(at->second) < waits(frees->second) || (waits(at->second) == waits(frees->second) && sooner(at->second, frees->second))) frees = at;
      }
      best = frees == ready.end() ? first : frees;
    }
    const uint32_t i = best->second;
    ready.erase(best);
    pressure.issue(nodes[i].reads, nodes[i].writes, nodes[i].pieces.empty());
    order.push_back(i);
    if (nodes[i].place == Place::load && !nodes[i].pieces.empty()) in_flight++, waited_for.insert(i);
    for (uint32_t from : makers[i])
      if (waited_for.erase(from)) in_flight--;
    now = std::max(now, nodes[i].ready) + double(nodes[i].pieces.size());
    const double done = now + (nodes[i].pieces.empty() ? 0 : std::min(60.0, latency_of(nodes[i].pieces.back())));
    for (uint32_t a : nodes[i].after) {
      nodes[a].ready = std::max(nodes[a].ready, done);
      if (--nodes[a].waiting_for == 0) ready.insert({-nodes[a].height, a});
    }
  }
  return order;
}

std::vector<uint32_t> latest_of(const std::vector<Node>& nodes) {
  std::vector<uint32_t> late(nodes.size());
  std::iota(late.begin(), late.end(), 0);
  std::sort(late.begin(), late.end(), [&](uint32_t a, uint32_t c) { return std::pair{nodes[a].wanted, a} < std::pair{nodes[c].wanted, c}; });
  return late;
}

}  // namespace orrery::timing
