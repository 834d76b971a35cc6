// tools/cc_source_view.cc: respells `__shared__ alignas(16) T x` as `alignas(16) __shared__ T x`.
//
// In C++ an alignas comes first or after the name; nvcc's front end takes it anywhere among the specifiers, and much
// CUDA code has it after __shared__. clang refuses that. The compiler is given the respelled text under the file's own
// name (a virtual file system overlay), so that messages, __FILE__ and relative includes stay as they are.
#include "tools/cc_source_view.h"

#include <cctype>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace orrery::tools {

namespace fs = std::filesystem;

namespace {

bool word_char(char c) { return std::isalnum((unsigned char)c) || c == '_'; }

bool is_word(const std::string& text, size_t at, const std::string& word) {
  if (text.compare(at, word.size(), word) != 0) return false;
  if (at > 0 && word_char(text[at - 1])) return false;
  return at + word.size() >= text.size() || !word_char(text[at + word.size()]);
}

size_t skip_space(const std::string& text, size_t at) {
  while (at < text.size() && std::isspace((unsigned char)text[at])) at++;
  return at;
}

// The position behind the parenthesis that closes the one at `open`, or npos.
size_t behind_parenthesis(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); i++) {
    if (text[i] == '(') depth++;
    if (text[i] == ')' && --depth == 0) return i + 1;
  }
  return std::string::npos;
}

// The start of the storage classes that stand directly before `at`.
size_t before_storage_class(const std::string& text, size_t at) {
  for (;;) {
    size_t end = at;
    while (end > 0 && std::isspace((unsigned char)text[end - 1])) end--;
    size_t begin = end;
    while (begin > 0 && word_char(text[begin - 1])) begin--;
    std::string word = text.substr(begin, end - begin);
    if (word != "extern" && word != "static" && word != "inline") return at;
    at = begin;
  }
}

std::vector<std::string> included_names(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t at = skip_space(line, 0);
    if (at >= line.size() || line[at] != '#') continue;
    at = skip_space(line, at + 1);
    if (!is_word(line, at, "include")) continue;
    size_t open = line.find_first_of("\"<", at);
    size_t close = open == std::string::npos ? open : line.find_first_of("\">", open + 1);
    if (close != std::string::npos) names.push_back(line.substr(open + 1, close - open - 1));
  }
  return names;
}

}  // namespace

std::string respell_alignment(const std::string& text) {
  std::string out = text;
  for (const char* qualifier : {"__shared__", "__constant__", "__device__"})
    for (size_t at = out.find(qualifier); at != std::string::npos; at = out.find(qualifier, at + 1)) {
      if (!is_word(out, at, qualifier)) continue;
      size_t alignment = skip_space(out, at + std::string(qualifier).size());
      if (!is_word(out, alignment, "alignas")) continue;
      size_t end = behind_parenthesis(out, skip_space(out, alignment + 7));
      if (end == std::string::npos) continue;
      size_t begin = before_storage_class(out, at);
      std::string before = out.substr(begin, alignment - begin), moved = out.substr(alignment, end - alignment);
      while (!before.empty() && std::isspace((unsigned char)before.back())) before.pop_back();
      std::string space = out.substr(begin + before.size(), alignment - begin - before.size());
      out.replace(begin, end - begin, moved + space + before);
    }
  return out;
}

SourceView view_source(const std::string& source, const std::vector<std::string>& folders) {
  SourceView view;
  std::set<std::string> seen;
  std::deque<std::string> queue = {source};
  while (!queue.empty()) {
    std::string path = queue.front();
    queue.pop_front();
    std::error_code ignored;
    std::string absolute = fs::absolute(path, ignored).lexically_normal().string();
    if (!seen.insert(absolute).second || fs::is_directory(path, ignored)) continue;
    std::ifstream in(path, std::ios::binary);
    if (!in) continue;
    std::ostringstream bytes;
    bytes << in.rdbuf();
    const std::string text = bytes.str();
    view.has_cluster_dims = view.has_cluster_dims || text.find("__cluster_dims__") != std::string::npos;
    std::string respelled = respell_alignment(text);
    if (respelled != text) view.rewritten.push_back({absolute, std::move(respelled)});
    for (const std::string& name : included_names(text)) {
      fs::path beside = fs::path(path).parent_path() / name;
      if (fs::exists(beside, ignored)) queue.push_back(beside.string());
      for (const std::string& folder : folders)
        if (fs::exists(fs::path(folder) / name, ignored)) queue.push_back((fs::path(folder) / name).string());
    }
  }
  return view;
}

}  // namespace orrery::tools
