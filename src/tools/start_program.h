// tools/start_program.h: starting a CUDA program with Orrery's libraries in place of NVIDIA's; used by run and check.
#pragma once
#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace orrery::tools {

/// Sets a variable of this process's environment, which the program inherits.
void set(const char* name, const std::string& value);

/// Puts Orrery's libraries first on the search path. False when they are not beside this program.
bool use_own_libraries();

/// Replaces this process by the program; returns only on failure, with errno set.
void become(const std::vector<std::string>& program);

/// Runs the program and waits. Its exit status, 128 plus the number of the signal that ended it, or 127 when it could
/// not be started.
int run_and_wait(const std::vector<std::string>& program);

/// As long as one lives, this process outlasts the program that it waits for: SIGINT, which a terminal sends to both, is left to the
/// program, SIGTERM is passed on to it; so what was found until then can still be told. One at a time, and one program.
class Patience {
 public:
  Patience();
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  struct sigaction interrupt_, terminate_;
};

/// Splits a command's words into its own options and the program with its arguments; what follows the program's name is
/// the program's. `flags`: options that take no value.
std::pair<std::vector<std::string>, std::vector<std::string>> split_at_program(std::vector<std::string> words,
                                                                               const std::vector<std::string>& flags);

}  // namespace orrery::tools
