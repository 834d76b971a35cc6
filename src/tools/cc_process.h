// tools/cc_process.h: running the compiler, and files that vanish when they are done with.
#pragma once
#include <string>
#include <vector>

namespace orrery::tools {

/// Runs a program found in PATH and waits; returns its exit status (128 + signal if it was killed), 127 if there is
/// no such program. With `output`, what it writes to standard output is stored there.
int run_program(const std::vector<std::string>& words, std::string* output = nullptr);

/// The path of `program` in PATH, or empty.
std::string find_program(const std::string& program);

/// The folder of the running executable.
std::string executable_folder();

/// Reads and writes whole files; both throw std::runtime_error that names the file.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

/// A folder under TMPDIR that is removed with everything in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace orrery::tools
