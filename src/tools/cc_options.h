// tools/cc_options.h: the command line of `orrery cc`, in nvcc's words, as plain data.
#pragma once
#include <string>
#include <vector>

namespace orrery::tools {

enum class CcOutput { kLink, kObject, kPtx, kFatbin, kPreprocessed };

struct CcOptions {
  CcOutput output = CcOutput::kLink;
  std::string out;                     // -o; empty: named after the input, or a.out
  std::vector<std::string> sources;    // .cu, .cpp, .cc, .cxx, .c
  std::vector<std::string> link_words; // objects, libraries, -L, -l, -Wl, in order; "@N" stands for source N
  std::vector<std::string> common;     // for both passes: -D, -I, -std, -O, warnings
  std::vector<std::string> host;       // for the host pass only
  std::vector<std::string> device;     // for the device pass only
  std::string arch = "sm_90a";
  std::string language;                // -x; empty: by the file's name
  bool relocatable = false;            // -rdc=true: device symbols are linked across files
  bool shared = false;
  bool keep = false;                   // leave the intermediate files beside the output
  bool verbose = false;                // print the commands
  bool dry_run = false;                // print them and run nothing
  bool help = false;
  bool version = false;
};

/// The options of `args`; throws std::runtime_error that names the word it cannot take and why.
CcOptions parse_cc_options(const std::vector<std::string>& args);

/// What `orrery cc --help` prints.
extern const char* const kCcHelp;

}  // namespace orrery::tools
