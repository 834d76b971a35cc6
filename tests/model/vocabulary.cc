// The vocabulary of graph files (graphs/all_kinds.toml): what one decode step of each operator counts, by hand.
#include <gtest/gtest.h>

#include <map>

#include "graph/graph_file.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

class Vocabulary : public testing::Test {
 protected:
  Vocabulary() : graph_(read_graph_file(ORRERY_SOURCE_DIR "/tests/model/graphs/all_kinds.toml")), program_(compile(graph_, Plan{})) {}
  std::map<std::string, Line> lines(const StepShape& shape) {
    walk(program_, bind(graph_, Plan{}, shape), ledger_);
    std::map<std::string, Line> named;
    for (const Line& line : ledger_.lines) named[graph_.ops[program_.ops[line.op].op].name] = line;
    return named;
  }
  Graph graph_;
  Program program_;
  Ledger ledger_;
};

// One sequence that holds 1,151 keys and adds one: 1,152 are scored. 1,024 numbers in a stream, 16 heads of 64.
TEST_F(Vocabulary, OneDecodeStep) {
  StepShape s;
  s.decode_seqs = 1, s.decode_context = 1151;
  std::map<std::string, Line> l = lines(s);
  ASSERT_EQ(l.size(), 11u);
  const double stream = 1024 * 2;
  EXPECT_EQ(l["embed"].activation, 2 * stream);  // a gather reads the row that it returns, not the table
  EXPECT_EQ(l["embed"].weight, 0);
  EXPECT_EQ(l["norm"].ops, 4 * 1024);
  EXPECT_EQ(l["q"].ops, 2 * 1024 * 1024);
  EXPECT_EQ(l["q"].weight, 2 * 1024 * 1024);
  EXPECT_EQ(l["attend"].ops, 2 * 16 * (64 + 64) * 1152);
  EXPECT_EQ(l["attend"].state, 2 * 1152 * 1024 * 2);
  EXPECT_EQ(l["scan"].ops, 6 * 1024);
  EXPECT_EQ(l["scan"].state, 2 * 1024 * 128 * 4);  // read and written
  EXPECT_EQ(l["top"].activation, stream + 2);
  for (const char* copy : {"move", "silu", "collect", "own"}) EXPECT_EQ(l[copy].activation, 2 * stream) << copy;
  EXPECT_EQ(l["own"].ops, 100 * 1024);
  EXPECT_EQ(l["extra"].times, 0.25);  // a branch of a quarter of the steps
  EXPECT_EQ(l["norm"].times, 8);
}

// The branch belongs to the tokens of decode: none in a step that only prefills, one of 101 in a mixed one.
TEST_F(Vocabulary, PhasesSeeTheirTokens) {
  StepShape s;
  s.prefill_seqs = 1, s.prefill_tokens = 100;
  EXPECT_EQ(lines(s)["extra"].times, 0);
  EXPECT_EQ(lines(s)["norm"].ops, 4 * 1024 * 100);
  s.decode_seqs = 1, s.decode_context = 10;
  EXPECT_EQ(lines(s)["extra"].ops, 2 * 1024);
  EXPECT_EQ(lines(s)["norm"].ops, 4 * 1024 * 101);
}

}  // namespace
}  // namespace orrery::graph
