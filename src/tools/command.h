// tools/command.h: how a subcommand of `orrery` is added: one file, one ORRERY_COMMAND line, nothing else.
#pragma once
#include <string>
#include <vector>

namespace orrery::tools {

/// Runs a subcommand; `args` are the words after its name. Returns the exit status: 0 success, 1 the answer is no
/// (a check found something, a goal is missed), 2 wrong usage, 3 the program or kernel failed, 4 internal error.
using CommandFn = int (*)(const std::vector<std::string>& args);

struct Command {
  const char* name;
  const char* summary;  // one line for --help
  CommandFn run;
};

/// Adds a command to the table; returns something so that a static can hold it.
bool add_command(const Command& command);
const std::vector<Command>& commands();

}  // namespace orrery::tools

#define ORRERY_COMMAND(NAME, SUMMARY, FUNCTION) \
  static const bool orrery_command_##NAME = ::orrery::tools::add_command({#NAME, SUMMARY, FUNCTION})
