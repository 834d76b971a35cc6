// timing/assemble.cc: see assemble.h.
#include "timing/assemble.h"

#include <fmt/format.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace orrery::timing {

namespace fs = std::filesystem;

Layout::Layout(std::string_view text) {
  uint32_t out_line = 1, column = 1;
  first_ = {0, 1};
  breaks_.resize(2);
  bool comment = false, block_comment = false, quote = false;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    text_ += c;
    if (c == '\n') {
      comment = quote = false;
      out_line++, column = 1;
      first_.push_back(out_line);
      breaks_.emplace_back();
      continue;
    }
    if (!comment && !block_comment && c == '"') quote = !quote;
    if (!quote && !comment && !block_comment && c == '/' && next == '/') comment = true;
    if (!quote && !comment && c == '/' && next == '*') block_comment = true;
    if (block_comment && c == '*' && next == '/') block_comment = false;
    if (c == ';' && !quote && !comment && !block_comment && next != '\n') {
      text_ += '\n';
      out_line++;
      breaks_.back().push_back(column);
    }
    column++;
  }
}

uint32_t Layout::line_of(uint32_t line, uint32_t column) const {
  if (line == 0 || line >= first_.size()) return 0;
  uint32_t n = first_[line];
  for (uint32_t b : breaks_[line]) n += b < column;
  return n;
}

std::string find_ptxas() {
  if (const char* named = std::getenv("ORRERY_PTXAS")) return std::string(named) == "none" ? "" : named;
  if (const char* path = std::getenv("PATH")) {
    std::string all = path;
    for (size_t at = 0; at <= all.size();) {
      const size_t end = std::min(all.find(':', at), all.size());
      const fs::path p = fs::path(all.substr(at, end - at)) / "ptxas";
      if (access(p.c_str(), X_OK) == 0) return p;
      at = end + 1;
    }
  }
  const char* usual = "/usr/local/cuda/bin/ptxas";
  return access(usual, X_OK) == 0 ? usual : "";
}

namespace {

uint64_t hash_of(std::string_view text) {
  uint64_t h = 1469598103934665603ull;
  for (char c : text) h = (h ^ uint8_t(c)) * 1099511628211ull;
  return h;
}

fs::path cache_folder() {
  if (const char* named = std::getenv("ORRERY_CACHE_DIR")) return fs::path(named) / "cubin";
  if (const char* home = std::getenv("HOME")) return fs::path(home) / ".cache" / "orrery" / "cubin";
  return fs::temp_directory_path() / "orrery-cubin";
}

std::vector<std::byte> read_file(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

/// Runs a program without a shell, output to `log`; true when it ended with status 0.
bool run(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("LD_PRELOAD");
    const int to = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (to < 0 || dup2(to, 1) < 0 || dup2(to, 2) < 0) _exit(126);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// What tells one ptxas from another that is put in its place.
std::string version_of(const std::string& ptxas) {
  std::error_code none;
  return fmt::format("{} {} {}", ptxas, fs::file_size(ptxas, none), fs::last_write_time(ptxas, none).time_since_epoch().count());
}

/// Runs `words` on `text` and leaves the result as `key`.cubin in `folder`. False, and why, when ptxas refuses or nothing can be written.
bool make_cubin(std::vector<std::string> words, const std::string& text, const fs::path& folder, const std::string& key, std::string& why) {
  std::error_code failed, ignored;
  fs::create_directories(folder, ignored);
  const fs::path stem = folder / fmt::format("{}.{}", key, getpid()), ptx = stem.string() + ".ptx", made = stem.string() + ".out", log = stem.string() + ".log";
  std::ofstream(ptx) << text;
  for (const std::string& word : {std::string("-o"), made.string(), ptx.string()}) words.push_back(word);
  bool ok = run(words, log);
  if (!ok) words.insert(words.begin() + 1, "-c"), ok = run(words, log);  // calls what is linked later: the device runtime
  if (ok) {
    fs::rename(made, folder / (key + ".cubin"), failed);
    if (failed) why = fmt::format("{} cannot be written: {}", folder.string(), failed.message());
  } else {
    std::string line;
    std::ifstream in(log);
    std::getline(in, line);
    why = fmt::format("ptxas refuses the text: {}", line);
  }
  for (const fs::path& p : {ptx, made, log}) fs::remove(p, ignored);
  return ok && !failed;
}

/// The -arch to ask for: the text's own when it is architecture-specific or newer, else the GPU's.
std::string arch_for(const std::string& target, int capability) {
  const int own = target.size() > 3 ? std::atoi(target.c_str() + 3) : 0;
  if (target.ends_with("a") || target.ends_with("f") || own >= capability) return target;
  return fmt::format("sm_{}", capability);
}

}  // namespace

std::optional<std::vector<MachineCode>> assemble(const Layout& layout, const std::string& target, const std::string& entry, int capability, bool relocatable,
                                                 std::string& why) {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) return why = "there is no ptxas on this machine", std::nullopt;
  const std::string arch = arch_for(target, capability);
  const fs::path folder = cache_folder();
  const std::string key = fmt::format("{:016x}{:016x}", hash_of(layout.text()), hash_of(entry + arch + version_of(ptxas) + (relocatable ? "-c" : "")));
  const fs::path cubin = folder / (key + ".cubin");
  std::error_code ignored;
  std::vector<std::string> words{ptxas, "-arch=" + arch, "-lineinfo"};
  if (relocatable) words.push_back("-c");  // of all entries
  else words.insert(words.end(), {"--entry", entry});
  for (const bool kept : {fs::exists(cubin, ignored), false}) {
    if (!kept && !make_cubin(words, layout.text(), folder, key, why)) return std::nullopt;
    try {
      const std::vector<std::byte> bytes = read_file(cubin);
      return read_cubin(bytes);
    } catch (const base::Error& e) {
      why = e.what();
      fs::remove(cubin, ignored);  // what was kept may be damaged; what was just made is not tried again
      if (!kept) break;
    }
  }
  return std::nullopt;
}

}  // namespace orrery::timing
