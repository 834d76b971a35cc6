// sanitize/finding.h: a mistake as data: what, where, who else, with which values, and what would make it right.
//
// A Finding is a plain value; it travels as one JSON object (docs/check.md has the schema), and text and SARIF are made
// from that. Two findings are one when check, kind and all places are equal: the first one's threads and values stand
// for all, and `count` says how often it happened.
// Not here: how mistakes are found (the checks), output (render.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/demangle.h"
#include "exec/observer.h"

namespace orrery::sanitize {

/// A thread at an instruction. Empty strings and zero lines where the program does not say.
struct Place {
  std::string kernel, function;      // as the source names them; function only when it is not the kernel
  std::string source_file;
  uint32_t source_line = 0, ptx_line = 0;
  std::string instruction;           // PTX text
  bool in_kernel = false;            // block and thread mean something
  uint32_t block[3] = {}, thread[3] = {};
  struct Call {
    std::string file;
    uint32_t line = 0;
  };
  std::vector<Call> called_from;     // calls around the line when it was inlined, innermost first
};

/// Another thread or call that takes part.
struct Party {
  std::string what;                  // "was written here", "allocated here", ...
  Place place;
  std::string value;
};

struct Finding {
  std::string check, kind;           // memcheck, out-of-bounds
  std::string message;               // one or two sentences with the values
  Place place;
  std::vector<Party> others;
  std::string remedy;                // what would make it right
  std::string severity = "error";    // or warning
  uint64_t address = 0;
  uint64_t count = 1;
  std::string waits;                 // hang: the wait-for graph, one JSON object
  std::string seed;                  // of the schedule that showed it, when not the plain one

  /// Equal for findings that are one.
  std::string key() const;
};

/// The place of a thread. Lane < 0: the first active one.
Place place_of(const exec::Where& where, int lane);
/// The place of an instruction without a thread.
Place place_of(const exec::DecodedProgram& code, const std::string& kernel, uint32_t pc);
std::string kernel_of(const exec::Where& where);

/// As one JSON object, and back. Throws std::exception for text that is none.
std::string to_json(const Finding& finding);
Finding finding_from_json(const std::string& text);

using base::demangled;

}  // namespace orrery::sanitize
