// timing/assemble.h: lets ptxas, where there is one, assemble a kernel with a line table.
//
// The PTX text is laid out so that every statement has a line of its own (inline assembly often shares one), because
// the line is what joins machine code with executed PTX. Results are kept in a cache on disk.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "timing/cubin.h"

namespace orrery::timing {

/// PTX text with one statement a line, and where the statements of the original went.
class Layout {
 public:
  explicit Layout(std::string_view text);
  const std::string& text() const { return text_; }
  /// Line (from 1) in text() of what stood at `line`, `column` (both from 1) of the original.
  uint32_t line_of(uint32_t line, uint32_t column) const;

 private:
  std::string text_;
  std::vector<uint32_t> first_;                 // by original line: its first line here
  std::vector<std::vector<uint32_t>> breaks_;   // by original line: columns after which a line was begun
};

/// Path of ptxas: $ORRERY_PTXAS ("none" for none), on PATH, or in the usual place; empty when there is none.
std::string find_ptxas();

/// Machine code of `entry` and the functions that it calls; nothing when ptxas is missing or refuses the text.
/// `why` then says why. `capability` is 10 * major + minor of the GPU. `relocatable`: as it is compiled to be linked, with other code and registers.
std::optional<std::vector<MachineCode>> assemble(const Layout& layout, const std::string& target, const std::string& entry, int capability, bool relocatable,
                                                 std::string& why);

}  // namespace orrery::timing
