// Parsing of verbs and their registry.
#include "graph/verbs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"

namespace orrery::graph {

VerbWords::VerbWords(std::string_view text, std::string_view grammar) : text_(text), grammar_(grammar) {
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;) words_.push_back(word);
}

void VerbWords::refuse(std::string_view why) const {
  base::fail("'{}': {}; grammar: {}", text_, why, grammar_);
}

std::string VerbWords::word(std::string_view what) {
  if (empty()) refuse("no " + std::string(what));
  return words_[next_++];
}

bool VerbWords::accept(std::string_view word) {
  if (empty() || words_[next_] != word) return false;
  ++next_;
  return true;
}

double VerbWords::number(std::string_view what) {
  std::string text = word(what);
  double value = 0;
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc() && !(std::fabs(value) < 1e18)) refuse(std::string(what) + " must be finite, not '" + text + "'");
  if (error == std::errc() && end != last && *end == '%' && end + 1 == last) return value / 100;
  if (error != std::errc() || end != last)
    refuse(std::string(what) + " must be a number, not '" + text + "'");
  return value;
}

int VerbWords::count(std::string_view what) {
  double value = number(what);
  if (value < 0 || value > 1e9 || value != std::floor(value)) refuse(std::string(what) + " must be a whole number");
  return static_cast<int>(value);
}

double VerbWords::pair(std::string_view key, double absent) { return accept(key) ? number(key) : absent; }

void VerbWords::end() const {
  if (!empty()) refuse("'" + words_[next_] + "' is left over");
}

std::span<const Verb> verbs() {
  static const std::vector<Verb> all = [] {
    std::vector<Verb> list;
    for (auto part :
         {precision_verbs(), state_verbs(), work_verbs(), structure_verbs(), layout_verbs(), time_verbs()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

void apply_verb(const std::string& text, Graph& graph, Plan& plan) {
  std::string name = text.substr(0, text.find(' '));
  for (const Verb& verb : verbs()) {
    if (verb.name != name) continue;
    VerbWords words(text, verb.grammar);
    words.word("verb");
    // A verb that refuses leaves both as they were.
    Graph changed = graph;
    Plan changed_plan = plan;
    verb.apply(words, changed, changed_plan);
    words.end();
    changed_plan.verbs.push_back(text);
    graph = std::move(changed), plan = std::move(changed_plan);
    return;
  }
  std::string names;
  for (const Verb& verb : verbs()) names += (names.empty() ? "" : ", ") + std::string(verb.name);
  base::fail("unknown verb '{}'; the verbs are {}", name, names);
}

bool matters(const std::string& text, Question question) {
  std::istringstream in(text);
  std::string name, what;
  in >> name >> what;
  auto among = [](const std::string& word, std::initializer_list<const char*> list) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  if (among(name, {"replace", "fuse", "repeat", "sparsify"}) || (name == "skip" && what == "layers"))
    return true;
  if (name == "requant")
    return what == "activation" ? question == Question::kTrain : what != "kv" || question != Question::kTrain;
  if (name == "shard") {
    if (among(what, {"zero", "sequence", "context", "ring", "ulysses"})) return question == Question::kTrain;
    return true;
  }
  if (name == "stage") return true;
  if (name == "place")
    return among(what, {"weight"}) ||
           (among(what, {"kv", "expert"}) ? question != Question::kTrain : question == Question::kTrain);
  if (among(name, {"shrink", "share"})) return question != Question::kTrain;
  if (name == "speculate" && question == Question::kFit) return text.find(" draft ") != text.npos;
  if (among(name, {"skip", "speculate"})) return question == Question::kServe;
  if (among(name, {"tile", "recompute", "adapt"})) return question == Question::kTrain;
  if (name == "prefetch") return question != Question::kFit;
  if (name == "overlap")
    return question == Question::kTrain || (question == Question::kServe && what == "tensor");
  if (name == "admit")
    return question == Question::kServe || (question == Question::kFit && among(what, {"chunk", "page"}));
  return true;
}

}  // namespace orrery::graph
