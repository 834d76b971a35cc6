// tools/cc_device_code.cc: the text fixes of clang's PTX, and the fat-binary writer.
//
// Container, little-endian:
//   header 16 bytes   u32 magic 0xBA55ED50, u16 version 1, u16 header size 16, u64 bytes that follow
//   entry  64 bytes   u16 kind 1 (PTX), u16 0x101, u32 header size 64, u64 padded payload size, u32 0 (not compressed),
//                     u32 0 (no options), u16 minor, u16 major of the PTX version, u32 architecture, u32 0, u32 0 (no
//                     name), u64 flags, u64 0, u64 0 (uncompressed size: only for compressed payloads)
//   payload           NUL-terminated text, padded to 8 bytes
// Source: observed from the toolkit's output; docs/decisions/cc-clang.md.
#include "tools/cc_device_code.h"

#include <cctype>
#include <cstdint>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace orrery::tools {

namespace {

bool symbol_char(char c) { return std::isalnum((unsigned char)c) || c == '_' || c == '$'; }

// Calls f(position, length) for each symbol of `line`.
template <class F>
void each_symbol(const std::string& line, F f) {
  for (size_t i = 0; i < line.size();) {
    if (!symbol_char(line[i])) {
      i++;
      continue;
    }
    size_t end = i;
    while (end < line.size() && symbol_char(line[end])) end++;
    f(i, end - i);
    i = end;
  }
}

// Names that clang defines with a suffix but may reference without it: plain name -> defined name.
std::map<std::string, std::string> suffixed_names(const std::string& ptx) {
  std::map<std::string, std::string> names;
  for (const char* mark : {"__static__", "__intern__"})
    for (size_t at = ptx.find(mark); at != std::string::npos; at = ptx.find(mark, at + 1)) {
      size_t begin = at, end = at;
      while (begin > 0 && symbol_char(ptx[begin - 1])) begin--;
      while (end < ptx.size() && symbol_char(ptx[end])) end++;
      std::string whole = ptx.substr(begin, end - begin);
      if (whole.find("_param_") == std::string::npos) names[ptx.substr(begin, at - begin)] = whole;
    }
  return names;
}

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out.push_back(char(value >> (8 * i)));
}

}  // namespace

std::string tidy_ptx(const std::string& ptx) {
  const std::map<std::string, std::string> names = suffixed_names(ptx);
  std::istringstream in(ptx);
  std::string out, line;
  out.reserve(ptx.size());
  while (std::getline(in, line)) {
    if (line.find("__clang_gpu_used_external") != std::string::npos) continue;
    if (!names.empty() && line.rfind("\t//", 0) != 0) {
      bool drop = false;
      std::string fixed;
      size_t copied = 0;
      each_symbol(line, [&](size_t at, size_t length) {
        auto found = names.find(line.substr(at, length));
        if (found == names.end()) return;
        drop = drop || line.rfind(".extern", 0) == 0;
        fixed += line.substr(copied, at - copied) + found->second;
        copied = at + length;
      });
      if (drop) continue;
      line = fixed + line.substr(copied);
    }
    out += line;
    out += '\n';
  }
  return out;
}

std::string add_cluster_dims(const std::string& ptx, const std::string& llvm_ir) {
  // @.str = ... c"orrery.cluster_dims\00"; @.args.3 = ... { i32, i32, i32 } { i32 2, i32 1, i32 1 };
  // @llvm.global.annotations = ... { ptr @kernel, ptr @.str, ptr @.str.1, i32 7, ptr @.args.3 }, ...
  std::map<std::string, std::string> shapes;
  std::set<std::string> notes;
  static const std::regex note(R"re((@[\w.$]+) = [^\n]*c"orrery\.cluster_dims\\00")re");
  static const std::regex shape(R"re((@[\w.$]+) = [^\n]*\{ i32, i32, i32 \} \{ i32 (\d+), i32 (\d+), i32 (\d+) \})re");
  static const std::regex annotation(R"re(\{ ptr @([\w.$]+), ptr (@[\w.$]+), ptr @[\w.$]+, i32 \d+, ptr (@[\w.$]+) \})re");
  auto each = [&](const std::regex& pattern, auto f) {
    for (auto it = std::sregex_iterator(llvm_ir.begin(), llvm_ir.end(), pattern); it != std::sregex_iterator(); ++it) f(*it);
  };
  each(note, [&](const std::smatch& m) { notes.insert(m[1]); });
  each(shape, [&](const std::smatch& m) { shapes[m[1]] = m[2].str() + ", " + m[3].str() + ", " + m[4].str(); });
  std::string out = ptx;
  each(annotation, [&](const std::smatch& m) {
    if (!notes.count(m[2]) || !shapes.count(m[3])) return;
    size_t at = out.find(".entry " + m[1].str() + "(");
    size_t body = at == std::string::npos ? at : out.find("\n{", at);
    if (body != std::string::npos) out.insert(body, "\n.explicitcluster\n.reqnctapercluster " + shapes[m[3]]);
  });
  return out;
}

std::string make_fatbin(const std::string& ptx, const std::string& arch) {
  int number = 0, major = 0, minor = 0;
  for (char c : arch)
    if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
  size_t version = ptx.find(".version ");
  if (version != std::string::npos) sscanf(ptx.c_str() + version, ".version %d.%d", &major, &minor);
  uint64_t flags = 0x1 | 0x10 | (arch.back() == 'a' ? 0x100000 : 0);
  std::string payload = ptx;
  payload.push_back('\0');
  while (payload.size() % 8) payload.push_back('\0');

  std::string out;
  put(out, 0xBA55ED50u, 4);
  put(out, 1, 2);
  put(out, 16, 2);
  put(out, 64 + payload.size(), 8);
  put(out, 1, 2);
  put(out, 0x101, 2);
  put(out, 64, 4);
  put(out, payload.size(), 8);
  put(out, 0, 8);
  put(out, (uint64_t)minor, 2);
  put(out, (uint64_t)major, 2);
  put(out, (uint64_t)number, 4);
  put(out, 0, 8);
  put(out, flags, 8);
  put(out, 0, 16);
  return out + payload;
}

}  // namespace orrery::tools
