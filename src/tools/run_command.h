// tools/run_command.h: `orrery run`: runs a CUDA program with Orrery's libraries in place of NVIDIA's.
//
// The program is started, unchanged, with the libraries on its search path; options travel in the environment, where
// device/ reads them. Exit status: the program's own; 2 for wrong usage, 127 when it cannot be started.
#pragma once
#include <string>
#include <vector>

namespace orrery::tools {

int run_command(const std::vector<std::string>& args);

}  // namespace orrery::tools
