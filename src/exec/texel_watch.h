// exec/texel_watch.h: who wants to know which bytes the texture fetches and surface accesses of a thread use.
//
// Told before the bytes are used. Not here: what is made of it (observed.cc).
#pragma once
#include <cstdint>

namespace orrery::exec {

struct TextureObject;

struct TexelWatch {
  int lane = 0;                    // that the instruction works for at the moment
  const TextureObject* object = nullptr;  // that it touches now: of a mipmap the level's; of a gather a copy, which lives as long as touch() takes
  virtual void touch(uint64_t address, uint32_t bytes) = 0;

 protected:
  ~TexelWatch() = default;
};
/// Of the calling thread; null: nobody.
TexelWatch*& texel_watch();

}  // namespace orrery::exec
