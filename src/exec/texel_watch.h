// exec/texel_watch.h: who wants to know which bytes the texture fetches and surface accesses of a thread use.
//
// Told before the bytes are used. Not here: what is made of it (observed.cc).
#pragma once
#include <cstdint>

namespace orrery::exec {

struct TexelWatch {
  int lane = 0;                    // that the instruction works for at the moment
  virtual void touch(uint64_t address, uint32_t bytes) = 0;

 protected:
  ~TexelWatch() = default;
};
/// Of the calling thread; null: nobody.
TexelWatch*& texel_watch();

}  // namespace orrery::exec
