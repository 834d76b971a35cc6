// The verdicts of tests/lit/ptx/samples.txt, and the text cases of tests/lit/ptx/*.ptx whose comments say which errors
// they expect: `// error: TEXT` on the line of the error. Verdicts come from ptxas (samples.py).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "isa/row.h"
#include "ptx/module.h"

namespace orrery::ptx {
namespace {

const std::string kFolder = ORRERY_SOURCE_DIR "/tests/lit/ptx/";

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream s;
  s << file.rdbuf();
  return s.str();
}

/// {f0..f3} -> {f0, f1, f2, f3}
std::string expanded(std::string text) {
  for (size_t dots; (dots = text.find("..")) != std::string::npos;) {
    size_t open = text.rfind('{', dots), close = text.find('}', dots);
    std::string all = "{";
    int last = std::stoi(text.substr(dots + 3, close - dots - 3));
    for (int i = 0; i <= last; ++i) all += (i ? ", " : "") + text.substr(open + 1, 1) + std::to_string(i);
    text.replace(open, close - open, all);
  }
  return text;
}

struct Sample {
  std::string verdict, target, text;
};
std::vector<Sample> samples() {
  std::ifstream file(kFolder + "samples.txt");
  std::vector<Sample> out;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::stringstream s(line);
    Sample x;
    s >> x.verdict >> x.target;
    std::getline(s >> std::ws, x.text);
    x.text = expanded(x.text);
    out.push_back(x);
  }
  return out;
}

TEST(Samples, VerdictsAreThoseOfPtxas) {
  std::string frame = read(kFolder + "frame.ptx");
  frame.replace(frame.find("TARGET"), 6, "sm_90a");
  size_t at = frame.find("INSTRUCTION"), wrong = 0, n = 0;
  for (const Sample& s : samples()) {
    std::string text = frame;
    text.replace(at, 11, s.text);
    std::vector<Diagnostic> d;
    Module m = parse(text, d);
    bool want = s.verdict == "ok" || s.verdict == "lax";
    ++n;
    if (d.empty() != want && ++wrong < 20)
      ADD_FAILURE() << s.verdict << ": " << s.text << "\n  " << (d.empty() ? "accepted" : d[0].message);
    if (!d.empty() || !want) continue;
    // and the printed instruction says the same
    const Function& f = m.functions.back();
    std::string again = frame;
    again.replace(at, 11, to_string(m, f, f.body.back()));
    Module m2 = parse(again, d);
    if (d.empty() && m2.functions.back().body.back().form == f.body.back().form &&
        m2.functions.back().body.back().ops == f.body.back().ops)
      continue;
    if (++wrong < 20) ADD_FAILURE() << s.text << " is printed as " << to_string(m, f, f.body.back());
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(n, 7000u);
}

TEST(Samples, EveryRowHasAnAcceptedSample) {
  std::map<uint16_t, bool> seen;
  for (const Sample& s : samples())
    if (s.verdict == "ok")
      for (uint16_t r : isa::match_name(s.text.substr(0, s.text.find_first_of(" ;"))).rows) seen[r] = true;
  for (uint16_t r = 0; r < isa::rows().size(); ++r) {
    const isa::Row& row = isa::row(r);
    if (row.is_call || row.any_operands) continue;                       // other text than a sample line
    if (row.pattern.starts_with("shfl.(") || row.pattern.starts_with("vote.(") || row.pattern.starts_with("vote.ballot"))
      continue;                                                          // only for .version below 6.4
    EXPECT_TRUE(seen[r]) << row.pattern;
  }
}

TEST(TextCases, ErrorsStandWhereTheCommentsSay) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".ptx" || entry.path().stem() == "frame") continue;
    ++files;
    std::string text = read(entry.path());
    std::vector<Diagnostic> d;
    parse(text, d);
    std::map<uint32_t, std::vector<std::string>> found;
    for (auto& e : d) found[e.loc.line].push_back(e.message);
    std::stringstream lines(text);
    uint32_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      size_t at = line.find("// error: ");
      if (at == std::string::npos) {
        EXPECT_TRUE(found[number].empty()) << entry.path() << ":" << number << ": " << found[number][0];
        continue;
      }
      ASSERT_EQ(found[number].size(), 1u) << entry.path() << ":" << number;
      EXPECT_THAT(found[number][0], testing::HasSubstr(line.substr(at + 10))) << entry.path() << ":" << number;
    }
  }
  EXPECT_GT(files, 3u);
}

}  // namespace
}  // namespace orrery::ptx
