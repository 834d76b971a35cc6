// Techniques as verbs: each changes a graph or a plan, never a time.
//
// A verb is a small unit: a name, its grammar, a legality test, and what it does to graph and plan. A neutral
// argument (requant to the same type, shard over 1, shrink by 0) changes nothing. What a verb cannot know
// (acceptance rates, hit rates, how much of the KV a policy keeps) is an argument: a declared law, printed in
// the report.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.h"

namespace orrery::graph {

// Words of one verb, in order, with typed reading; errors name the verb, the word and the grammar.
class VerbWords {
 public:
  VerbWords(std::string_view text, std::string_view grammar);
  bool empty() const { return next_ >= words_.size(); }
  std::string word(std::string_view what);  // the next word; refuses when there is none
  std::string peek() const { return empty() ? std::string() : words_[next_]; }
  bool accept(std::string_view word);  // takes the next word when it is this one
  double number(std::string_view what);
  int count(std::string_view what);
  // Takes "key value" pairs: the value of `key`, or `absent`.
  double pair(std::string_view key, double absent);
  void end() const;  // refuses what is left over
  [[noreturn]] void refuse(std::string_view why) const;

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::string text_, grammar_;
};

struct Verb {
  std::string_view name;
  std::string_view grammar;
  std::string_view description;
  void (*apply)(VerbWords&, Graph&, Plan&);
};

// The eighteen verbs.
std::span<const Verb> verbs();
// Applies "requant weight int4 g128" and the like; throws base::Error when it is not legal or not understood.
void apply_verb(const std::string& text, Graph& graph, Plan& plan);

// Whether a verb (as it was given) changes anything that a question looks at: `recompute full` changes no serving.
enum class Question : std::uint8_t { kFit, kServe, kTrain };
bool matters(const std::string& text, Question question);

// One table per file of verbs.
std::span<const Verb> precision_verbs();  // requant, sparsify, adapt
std::span<const Verb> state_verbs();      // shrink, share, tile
std::span<const Verb> work_verbs();       // skip, repeat, speculate
std::span<const Verb> structure_verbs();  // replace, fuse
std::span<const Verb> layout_verbs();     // shard, stage, place
std::span<const Verb> time_verbs();       // prefetch, recompute, overlap, admit

}  // namespace orrery::graph
