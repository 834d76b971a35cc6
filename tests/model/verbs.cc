// Each of the eighteen verbs has a legality test and a page that says its grammar.
#include "../error_of.h"
#include "graph/verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "graph/render.h"

namespace orrery::graph {
namespace {

TEST(Verbs, EachHasItsPage) {
  EXPECT_EQ(verbs().size(), 18u);
  for (const Verb& verb : verbs()) {
    std::ifstream in(std::string(ORRERY_SOURCE_DIR "/docs/verbs/") + std::string(verb.name) + ".md");
    ASSERT_TRUE(in) << verb.name;
    std::ostringstream page;
    page << in.rdbuf();
    EXPECT_THAT(page.str(), ::testing::HasSubstr("    " + std::string(verb.grammar) + "\n")) << verb.name;
    for (const char* part : {"## What changes", "## Legality", "## Limits", "## Example"})
      EXPECT_THAT(page.str(), ::testing::HasSubstr(part)) << verb.name;
  }
}

std::string refusal(const char* model, const std::string& verb) {
  Graph g = build_transformer(load_transformer(model));
  Plan p;
  return error_of([&] {
    std::istringstream several(verb);
    for (std::string one; std::getline(several, one, ';');) apply_verb(one, g, p);
    check_plan(g, p);
  });
}

struct Illegal {
  const char *model, *verb, *says;
};
constexpr Illegal kIllegal[] = {
    {"Llama-3.1-8B", "requant weight fp7", "fp7"},
    {"BERT-large", "requant kv fp8", "no tensor of that kind"},
    {"Llama-3.1-8B", "sparsify 2:4;requant weight fp8", "sparse already"},
    {"Llama-3.1-8B", "sparsify 1:4", "2:4"},
    {"Llama-3.1-8B", "adapt many", "must be a number"},
    {"BERT-large", "shrink kv 100", "keeps no KV cache"},
    {"Llama-3.1-8B", "shrink kv -1", "must not be negative"},
    {"BERT-large", "share kv 2", "keeps no KV cache"},
    {"Llama-3.1-8B", "share kv 2 over 1.5", "0 to 1"},
    {"Llama-3.1-8B", "tile attention", "mlp or loss"},
    {"Llama-3.1-8B", "skip tokens 1", "less than 1"},
    {"Llama-3.1-8B", "repeat decoder 3", "no block 'decoder'"},
    {"Llama-3.1-8B", "speculate 4", "declare the acceptance rate"},
    {"Llama-3.1-8B", "speculate 4 accept 1.2", "0 to 1"},
    {"Llama-3.1-8B", "speculate 4 accept 0.7 cost 0.1 draft llama-3.2-1b", "a cost or a draft"},
    {"Llama-3.1-8B", "speculate 4 accept 0.7 draft bert-large", "makes no tokens"},
    {"Llama-3.1-8B", "speculate 4 accept 0.7 draft", "no model of the draft"},
    {"Llama-3.1-8B", "replace kv_heads 3", "no multiple"},
    {"Llama-3.1-8B", "replace tokens 5", "no axis 'tokens'"},
    {"Llama-3.1-8B", "fuse qkv", "only map and reduce"},
    {"Llama-3.1-8B", "fuse nothing", "no operator 'nothing'"},
    {"Llama-3.1-8B", "shard tensor 3", "32 heads cannot be divided over 3"},
    {"Llama-3.1-8B", "shard expert 2", "no experts"},
    {"Llama-3.1-8B", "shard tensor 4;shard attention 8", "do not divide the 4"},
    {"Llama-3.1-8B", "shard zero 4", "zero stage"},
    {"Mixtral-8x7B", "shard data 3;shard expert 3", "8 experts cannot be divided over 3"},
    {"Llama-3.1-8B", "stage 33", "32 layers cannot fill 33 stages"},
    {"Llama-3.1-8B", "place kv tape", "a tier is"},
    {"Llama-3.1-8B", "place logits host", "can be placed"},
    {"Llama-3.1-8B", "prefetch 1.5", "between 0 and 1"},
    {"Llama-3.1-8B", "recompute some", "none, selective or full"},
    {"Llama-3.1-8B", "overlap host 0.5", "tensor, data or pipeline"},
    {"Llama-3.1-8B", "admit chunk 0", "at least 1"},
    {"Llama-3.1-8B", "admit split -1", "whole number"},
};

TEST(Verbs, IllegalUsesAreRefusedByName) {
  std::set<std::string> tested;
  for (const Illegal& i : kIllegal) {
    EXPECT_THAT(refusal(i.model, i.verb), ::testing::HasSubstr(i.says)) << i.verb;
    std::string last = std::string(i.verb).substr(std::string(i.verb).rfind(';') + 1);
    tested.insert(last.substr(0, last.find(' ')));
  }
  for (const Verb& verb : verbs())
    EXPECT_TRUE(tested.contains(std::string(verb.name))) << "no legality test for " << verb.name;
}

TEST(Verbs, RenderingRefusesWhatItDoesNotUse) {
  DiffusionSpec spec = load_denoiser("flux-dev");
  Cluster c{load_profile("h100"), 8};
  for (const char* verb : {"shrink kv 10", "speculate 3 accept 0.5", "recompute full", "shard tensor 2",
                           "place kv host", "stage 4"}) {
    RenderQuestion q;
    q.verbs = {verb};
    EXPECT_THROW(render(spec, {}, c, q), base::Error) << verb;
  }
  RenderQuestion q;
  double one = render(spec, {}, c, q).seconds;
  q.verbs = {"shard ulysses 4"};
  RenderAnswer divided = render(spec, {}, c, q);
  EXPECT_LT(divided.denoise_seconds, one / 2);
  q.verbs = {"stage 4 denoising"};
  RenderAnswer staged = render(spec, {}, c, q);
  EXPECT_EQ(staged.seconds, one);
  EXPECT_GT(staged.per_second, 3.5 / one);
}

}  // namespace
}  // namespace orrery::graph
