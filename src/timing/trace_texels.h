// timing/trace_texels.h: what texture fetches and surface accesses of a warp touch: private to trace.cc and trace_texels.cc.
//
// Hardware keeps the texels of an array in tiles; here they lie in rows, and an event's lines are those of the tiles. A sector of 32 bytes has
// 16 bytes of two rows, 64 bytes have 16 of four rows, a line 32 of four, 512 bytes 64 of eight; slices and layers lie one after the other
// [texel_apart_x, y, xy, z: sectors that L2 is asked for, bytes that memory gives].
#pragma once
#include <vector>

#include "exec/texel_watch.h"
#include "timing/trace_look.h"

namespace orrery::timing {

/// What a fetch is for the texture unit (Event::count): its latency goes by it.
enum class FetchKind : uint32_t { point, filtered, line, surface };

/// While it lives, notes what the thread's texture fetches and surface accesses touch.
class TexelNotes final : public exec::TexelWatch {
 public:
  struct Note {
    uint64_t address = 0;            // where hardware has it
    uint64_t plane = 0;              // slice, layer or level: those that are filtered are looked up one after the other
    uint32_t x = 0, y = 0;           // bytes from the left, row; in linear memory x is the address
    uint8_t lane = 0, bytes = 0;
  };
  TexelNotes() { exec::texel_watch() = this; }
  ~TexelNotes() { exec::texel_watch() = nullptr; }
  TexelNotes(const TexelNotes&) = delete;
  void touch(uint64_t address, uint32_t bytes) override;
  const std::vector<Note>& notes() const { return notes_; }
  bool in_rows() const { return in_rows_; }          // of linear memory or of an array of one dimension: no tiles, no rows
  bool linear_memory() const { return linear_memory_; }
  bool deep() const { return deep_; }
  uint32_t component_bytes() const { return component_bytes_; }

 private:
  std::vector<Note> notes_;
  bool in_rows_ = true, linear_memory_ = false, deep_ = false;
  uint32_t component_bytes_ = 4;
};

bool touches_texels(isa::Op op);
/// Fills the event of an access that was made.
void record_texels(Recording& r, const TexelNotes& notes);

}  // namespace orrery::timing
