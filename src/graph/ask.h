// One exact quantity per question: parameters, bytes, operations, and the arithmetic behind published claims.
#pragma once

#include <string>
#include <vector>

namespace orrery::graph {

struct Answer {
  std::string name;
  double value = 0;
  std::string unit;
};

// `quantity` with its arguments, for example ask("kv-bytes", {"gpt-oss-120b", "8192"}); "help" lists the
// quantities. Throws base::Error on an unknown quantity or a wrong argument.
std::vector<Answer> ask(const std::string& quantity, const std::vector<std::string>& arguments);
// All digits of a whole number, six significant ones otherwise.
std::string format_number(double value);

}  // namespace orrery::graph
