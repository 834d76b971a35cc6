// tests/lit/lit.cc: runs text cases. A case is a PTX file with lines
//   // RUN: ARGUMENTS      one run: `orrery ptx FILE ARGUMENTS`; the expectations until the next RUN belong to it
//   // CHECK: TEXT         a line of standard output is TEXT (in this order)
//   // ERROR: TEXT         standard error contains TEXT, and the exit status is not 0
//   // NOTE: TEXT          standard error contains TEXT
// The mode `interpreter` adds --interpret to each run. Usage: lit ORRERY FOLDER MODE. Exit status 1 when a case fails.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

struct Run {
  std::string arguments;
  std::vector<std::string> checks, errors, notes;
};

std::vector<Run> read_case(const std::filesystem::path& path) {
  std::vector<Run> runs;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    auto take = [&](const char* key, auto use) {
      const size_t at = line.find(key);
      if (at != std::string::npos) use(line.substr(at + std::char_traits<char>::length(key)));
    };
    take("// RUN: ", [&](std::string s) { runs.push_back({s, {}, {}, {}}); });
    if (runs.empty()) continue;
    take("// CHECK: ", [&](std::string s) { runs.back().checks.push_back(s); });
    take("// NOTE: ", [&](std::string s) { runs.back().notes.push_back(s); });
    take("// ERROR: ", [&](std::string s) { runs.back().errors.push_back(s); });
  }
  return runs;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Empty when the run does what the case says.
std::string failure(const Run& run, const std::string& command) {
  const std::string err = std::filesystem::temp_directory_path() / fmt::format("orrery-lit-{}.err", getpid());
  FILE* pipe = popen((command + " 2>" + err).c_str(), "r");
  if (!pipe) return "cannot start";
  std::string out;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = WEXITSTATUS(pclose(pipe));
  const std::string errors = slurp(err);
  std::filesystem::remove(err);
  if (run.errors.empty() && status != 0) return fmt::format("exit status {}\n{}", status, errors);
  if (!run.errors.empty() && status == 0) return "exit status 0, an error was expected";
  for (const auto* list : {&run.errors, &run.notes})
    for (const std::string& e : *list)
      if (errors.find(e) == std::string::npos) return fmt::format("standard error lacks '{}':\n{}", e, errors);
  size_t at = 0;
  for (const std::string& c : run.checks) {
    const size_t found = ("\n" + out).find("\n" + c + "\n", at);
    if (found == std::string::npos) return fmt::format("standard output lacks the line\n  {}\nit is\n{}", c, out);
    at = found + 1;
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: lit ORRERY FOLDER interpreter|compiled\n");
    return 2;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2]))
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  int passed = 0, failed = 0;
  for (const auto& file : files) {
    const std::vector<Run> runs = read_case(file);
    if (runs.empty()) {
      fmt::print("{}: no RUN line\n", file.filename().string());
      failed++;
    }
    for (const Run& run : runs) {
      const std::string interpret = std::string(argv[3]) == "interpreter" ? " --interpret" : "";
      const std::string command = fmt::format("{} ptx {}{} {}", argv[1], file.string(), interpret, run.arguments);
      const std::string why = failure(run, command);
      if (why.empty()) {
        passed++;
        continue;
      }
      failed++;
      fmt::print("FAILED {}: {}\n", command, why);
    }
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed != 0 || passed == 0;
}
