// jit/streams.h: stores that may pass the host's caches.
//
// What a thread stores once, outside of loops, and its kernel never reads is not wanted in a cache when the whole grid
// stores more than the caches keep: past them the line need not be read before it is written, which is a quarter of what a
// vector addition moves. Where the grid is small the next kernel finds its input in a cache, so the launch decides
// (LaunchContext::streaming_threads); compiled code holds both ways (emit_store.cc).
//
// Such stores are not ordered with others of the same thread. Fences, atomics and stores that release are locked or fencing
// instructions of the host, in compiled code and in exec/, and order them; a worker settles the rest before it gives a
// launch back. Needs AVX-512, with which a store is a whole line.
#pragma once
#include <vector>

#include "jit/steps.h"

namespace orrery::jit {

struct Streams {
  /// Of a launch, stored past the caches; less is left to them.
  static constexpr uint64_t kLeast = uint64_t{32} << 20;

  std::vector<uint8_t> may;  // by instruction
  uint32_t bytes = 0;        // of a thread
  /// Threads from which on a launch stores enough.
  uint64_t least_threads() const { return (kLeast + bytes - 1) / bytes; }
};

/// `computed`: by register: of thread and block numbers, parameters and constants.
Streams find_streams(const lower::Program& program, const std::vector<Loop>& loops, const std::vector<uint8_t>& computed);

}  // namespace orrery::jit
