// tools/start_program.cc: see start_program.h.
#include "tools/start_program.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace orrery::tools {

namespace fs = std::filesystem;

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

namespace {

// A list such as LD_LIBRARY_PATH with `first` put before what is there.
void prepend(const char* name, const std::string& first) {
  const char* old = std::getenv(name);
  set(name, old && *old ? first + ":" + old : first);
}

/// Where the libraries are: next to the program in a build tree or an installation.
fs::path library_folder() {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  for (const char* folder : {"../lib", "../lib/orrery"})
    if (fs::path found = program.parent_path() / folder; fs::exists(found / "liborrery_cuda.so")) return fs::weakly_canonical(found);
  return {};
}

}  // namespace

bool use_own_libraries() {
  const fs::path folder = library_folder();
  if (folder.empty()) return false;
  prepend("LD_LIBRARY_PATH", folder.string());
  prepend("LD_PRELOAD", (folder / "liborrery_preload.so").string());
  return true;
}

void become(const std::vector<std::string>& program) {
  std::vector<char*> arguments;
  for (const std::string& word : program) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
}

namespace {

std::atomic<pid_t> waited_for = 0;

void pass_on(int signal) {
  if (const pid_t program = waited_for.load(); program > 0) kill(program, signal);
}

}  // namespace

// Handlers, not SIG_IGN, which the program would inherit; what is ignored already stays so.
Patience::Patience() {
  const auto handle = [](int signal, void (*handler)(int), struct sigaction& before) {
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) return;
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(signal, &action, nullptr);
  };
  handle(SIGINT, [](int) {}, interrupt_);
  handle(SIGTERM, pass_on, terminate_);
}

Patience::~Patience() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

int run_and_wait(const std::vector<std::string>& program) {
  const pid_t self = getpid(), child = fork();
  if (child < 0) return 127;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // who would be told what it did is gone
    if (getppid() != self) _exit(127);
    use_own_libraries();
    become(program);
    _exit(127);
  }
  waited_for = child;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  waited_for = 0;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::pair<std::vector<std::string>, std::vector<std::string>> split_at_program(std::vector<std::string> words,
                                                                               const std::vector<std::string>& flags) {
  size_t first = 0;
  while (first < words.size() && words[first] != "--" && words[first].starts_with("-")) {
    const bool alone = std::ranges::find(flags, words[first]) != flags.end() || words[first].find('=') != std::string::npos;
    first += alone ? 1 : 2;
  }
  if (first < words.size() && words[first] == "--") words.erase(words.begin() + long(first));
  first = std::min(first, words.size());
  return {{words.begin(), words.begin() + long(first)}, {words.begin() + long(first), words.end()}};
}

}  // namespace orrery::tools
