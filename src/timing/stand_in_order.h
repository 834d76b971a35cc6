// timing/stand_in_order.h: the order in which the stand-in for ptxas issues a block's instructions.
//
// The longest chain of dependences first, loads early, as far as registers allow. Not here: what a PTX instruction becomes (pieces.cc), what
// becomes of neighbours (stand_in.cc).
#pragma once
#include <vector>

#include "timing/pressure.h"
#include "timing/stand_in.h"

namespace orrery::timing {

/// Must it stay where it stands among memory accesses and barriers?
enum class Place : uint8_t { free, load, store, fixed };

/// A PTX instruction, or what neighbours became.
struct Node {
  uint32_t pc = 0;
  std::vector<Class> pieces;
  std::vector<uint32_t> sources, results;  // registers
  std::vector<uint32_t> reads, writes;     // values (Pressure)
  std::vector<uint32_t> after;             // nodes that wait for it
  uint32_t waiting_for = 0;
  double height = 0, ready = 0;
  uint32_t wanted = 0;                     // the first place in the PTX that needs what it leads to
  Place place = Place::free;
  uint16_t width = 0;                      // bytes a lane of what neighbouring loads became together, 0: as in the PTX
  bool uniform = false;                    // atomic on an address that all lanes share
};

/// Cycles from issue to use, for scheduling; results of variable latency are waited for by barriers besides.
double latency_of(Class c);

/// Says what has to wait for what, and what leads to the longest chain.
void connect(std::vector<Node>& nodes);

/// List scheduling: of what is ready, what the longest chain waits for; the branch stays last. Where that would take more than `enough` registers, what
/// frees some, or what the PTX has first.
std::vector<uint32_t> order_of(std::vector<Node>& nodes, Pressure& pressure, uint32_t enough);

/// The order of the PTX with what only begins values as late as can be.
std::vector<uint32_t> latest_of(const std::vector<Node>& nodes);

}  // namespace orrery::timing
