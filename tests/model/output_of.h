// What a command prints.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace orrery::graph {

inline std::string output_of(const std::string& command) {
  std::string out;
  std::array<char, 65536> buffer;
  FILE* pipe = popen(command.c_str(), "r");
  while (std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), n);
  pclose(pipe);
  return out;
}

}  // namespace orrery::graph
