// Fuzz target of the PTX parser: any text is parsed, and what is accepted is printed, parsed again and linked with
// itself. With ORRERY_FUZZ_REPLAY it is a program that runs the files and folders named on its command line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ptx/module.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace orrery::ptx;
  std::vector<Diagnostic> d;
  Module m = parse({reinterpret_cast<const char*>(data), size}, d);
  if (!d.empty()) return 0;
  Module again = parse(to_string(m), d);
  if (!d.empty() || again.functions.size() != m.functions.size() || again.vars.size() != m.vars.size()) std::abort();
  link({std::move(m), std::move(again)}, d);
  return 0;
}

#ifdef ORRERY_FUZZ_REPLAY
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

static int replay(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    int n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path)) n += replay(entry.path());
    return n;
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::string s = text.str();
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  return 1;
}

int main(int argc, char** argv) {
  int n = 0;
  for (int i = 1; i < argc; ++i) n += replay(argv[i]);
  std::printf("%d inputs\n", n);
}
#endif
