// tools/main.cc: the program `orrery`: finds the subcommand and runs it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/command.h"

namespace orrery::tools {

namespace {
std::vector<Command>& table() {
  static std::vector<Command> commands;
  return commands;
}
}  // namespace

bool add_command(const Command& command) {
  table().push_back(command);
  return true;
}
const std::vector<Command>& commands() { return table(); }

namespace {

int usage(FILE* out) {
  fmt::print(out, "orrery: a working model of NVIDIA GPUs: run, check and time CUDA programs without one\n\nusage: orrery COMMAND [ARGUMENTS]\n\n");
  std::vector<Command> sorted = commands();
  std::sort(sorted.begin(), sorted.end(), [](const Command& a, const Command& b) { return std::strcmp(a.name, b.name) < 0; });
  for (const Command& c : sorted) fmt::print(out, "  {:<10} {}\n", c.name, c.summary);
  fmt::print(out, "\n'orrery COMMAND --help' explains a command. Exit status: 0 success, 1 findings or a missed goal, 2 wrong usage,\n"
                  "3 the program failed, 4 internal error.\n");
  return out == stdout ? 0 : 2;
}

int dispatch(int argc, char** argv) {
  if (argc < 2) return usage(stderr);
  const std::string name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") return usage(stdout);
  if (name == "--version") {
    fmt::print("orrery {}\n", ORRERY_VERSION);
    return 0;
  }
  for (const Command& c : commands())
    if (name == c.name) return c.run(std::vector<std::string>(argv + 2, argv + argc));
  fmt::print(stderr, "orrery: there is no command '{}'\n\n", name);
  return usage(stderr);
}

}  // namespace
}  // namespace orrery::tools

int main(int argc, char** argv) {
  try {
    return orrery::tools::dispatch(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "orrery: {}\n", e.what());
    return 4;
  }
}
