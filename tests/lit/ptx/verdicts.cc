// verdicts FRAME < LIST: the parser's verdict on each line "TARGET INSTRUCTION", as "ok ..." or "no ...  // message".
#include <fstream>
#include <iostream>
#include <sstream>

#include "ptx/module.h"

/// {f0..f3} -> {f0, f1, f2, f3}
static std::string expanded(std::string text) {
  for (size_t dots; (dots = text.find("..")) != std::string::npos;) {
    size_t open = text.rfind('{', dots), close = text.find('}', dots);
    std::string prefix = text.substr(open + 1, 1), all = "{";
    int last = std::stoi(text.substr(dots + 3, close - dots - 3));
    for (int i = 0; i <= last; ++i) all += (i ? ", " : "") + prefix + std::to_string(i);
    text.replace(open, close - open, all);
  }
  return text;
}

int main(int argc, char** argv) {
  std::ifstream file(argc > 1 ? argv[1] : "frame.ptx");
  std::stringstream frame;
  frame << file.rdbuf();
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string text = frame.str();
    size_t space = line.find(' ');
    auto put = [&](std::string_view mark, std::string_view with) { text.replace(text.find(mark), mark.size(), with); };
    put("TARGET", "sm_90a");
    put("INSTRUCTION", expanded(line.substr(space + 1)));
    std::vector<orrery::ptx::Diagnostic> d;
    orrery::ptx::parse(text, d);
    std::cout << (d.empty() ? "ok " : "no ") << line;
    if (!d.empty()) std::cout << "  // " << d[0].message;
    std::cout << '\n';
  }
}
