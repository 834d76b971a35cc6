// What memory admits when techniques meet it, and what windows, sharing and formats leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/search.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "random_models.h"

namespace orrery::graph {
namespace {

double pairs_per_query(const Graph& g, double fresh, double context) {
  StepShape s;
  s.prefill_tokens = fresh, s.prefill_seqs = 1, s.prefill_context = context;
  return bind(g, {}, s)[kPairsWindow] / fresh;
}

TEST(Windows, PrefillSeesTheMeanOfTheWindowNotTheWindowOfTheMean) {
  Graph g = build_transformer(read_hf_config(
      R"({"architectures":["MistralForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
    "num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":32000,"sliding_window":4096})",
      "config.json"));
  EXPECT_DOUBLE_EQ(pairs_per_query(g, 8192, 0), 3072);  // 4096 - 4096^2 / (2 x 8192)
  for (auto [fresh, context] : {std::pair{100, 0}, {8192, 0}, {512, 4000}, {512, 100}, {64, 9000}}) {
    double sum = 0;  // the convention: a causal query sees half of its own position
    for (int i = 0; i < fresh; ++i) sum += std::min(context + i + 0.5, 4096.0);
    EXPECT_NEAR(pairs_per_query(g, fresh, context), sum / fresh, 1e-9) << fresh << " " << context;
  }
}

TEST(Admission, KeptKeysDoNotCountGeneratedOnes) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  apply_verb("shrink kv 1024", g, p);
  Program program = compile(g, p);
  EXPECT_EQ(state_bytes(g, program, 1, {8192, 256}), 131072.0 * (1024 + 256));
  EXPECT_EQ(state_bytes(g, program, 1, {512, 256}), 131072.0 * (512 + 256));
}

TEST(Admission, KeysOnTheHostAdmitMoreSequences) {
  Graph g = build_transformer(load_transformer("Llama-3.1-70B"));
  Cluster c{load_profile("h200"), 2};
  Engine none = find_engine("none");
  Plan p;
  p.tp = 2;
  double here = fit(g, p, c, 0, 8192, none).max_sequences;
  apply_verb("place kv host share 0.75", g, p);
  FitAnswer a = fit(g, p, c, 0, 8192, none);
  EXPECT_DOUBLE_EQ(a.kv_bytes_on_device * 4, a.kv_bytes_per_sequence);
  EXPECT_NEAR(a.max_sequences, 4 * here, 4);
  EXPECT_GT(resident_sequences(g, p, c, 8192, 256, none), 3 * here);
  apply_verb("place kv host", g, p);
  EXPECT_EQ(fit(g, p, c, 64, 8192, none).max_sequences, kAnyContext);
  Plan drafted = p;  // its keys stay on the device: 16 layers of 8 heads of 64, in 16 bits
  apply_verb("speculate 4 accept 0.7 draft llama-3.2-1b", g, drafted);
  FitAnswer with = fit(g, drafted, c, 0, 8192, none);
  double keys = 8192.0 * 16 * 2 * 8 * 64 * 2 / 2;  // over two ranks
  EXPECT_LE(with.max_sequences, 141 * kGiB / keys);
  EXPECT_GT(with.max_sequences, 0);
  EXPECT_FALSE(fit(g, drafted, c, with.max_sequences * 1.1, 8192, none).fits);
  ServeQuestion q;
  q.input = 8192, q.concurrency = 4 * here, q.engine = none;
  EXPECT_EQ(serve(g, p, c, q).waiting, 0);
}

TEST(Admission, ARoomWithoutSequencesHoldsAChunk) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  EXPECT_EQ(fit_binding(g, p, 0, 4096)[kTokens], p.chunk_tokens);
  EXPECT_EQ(fit_binding(g, p, 1, 4096)[kTokens], 4096);
}

TEST(Sharing, LeavesTheStateThatDoesNotGrow) {
  Graph g = build_transformer(read_hf_config(
      R"({"architectures":["BambaForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
    "num_hidden_layers":4,"num_key_value_heads":8,"vocab_size":128256,"attn_layer_indices":[1],"mamba_n_heads":128,
    "mamba_d_head":64,"mamba_d_state":128,"mamba_d_conv":4,"mamba_n_groups":1})",
      "config.json"));
  Plan none, shared;
  apply_verb("share kv 2", g, shared);
  Program before = compile(g, none), after = compile(g, shared);
  EXPECT_EQ(after.state_bytes.coefficient[kSeqs], before.state_bytes.coefficient[kSeqs]);
  EXPECT_EQ(after.state_bytes.coefficient[kKeys], before.state_bytes.coefficient[kKeys] / 2);
}

// Llama-3.2-1B on two ranks: half of its 1,235,814,400 parameters but for the norms, which each rank has (16 layers of two
// and a last one, 2,048 wide); 16 layers of keys and values of 8 heads of 64 in 16 bits, half of them.
TEST(Draft, ItsBytesAndStepsCount) {
  auto asked = [](const std::string& draft) {
    Graph g = build_transformer(load_transformer("Llama-3.1-70B"));
    Plan p;
    p.tp = 2;
    apply_verb("speculate 4 accept 0.7 " + draft, g, p);
    return std::pair{g, p};
  };
  auto [g, none] = asked("");
  auto [same, one] = asked("draft llama-3.2-1b");
  Cluster two{load_profile("h200"), 2};
  Engine engine = find_engine("none");
  double norms = (16 * 2 + 1) * 2048.0, weights = (1235814400 - norms + 2 * norms) * 2 / 2;
  double keys = 16 * 2 * 8 * 64 * 2 / 2.0 * 4096 * 8;
  FitAnswer without = fit(g, none, two, 8, 4096.0, engine), with = fit(g, one, two, 8, 4096.0, engine);
  EXPECT_DOUBLE_EQ(with.total - without.total, weights + keys);
  EXPECT_LT(with.max_sequences, without.max_sequences);
  EXPECT_LT(with.max_context, without.max_context);
  // Four steps of the draft, each as it takes by itself.
  ServeQuestion q;
  q.input = 4096, q.output = 128, q.concurrency = 8, q.engine = engine;
  Plan alone;
  alone.tp = 2;
  StepShape step;
  step.decode_seqs = 8, step.decode_context = 4096 + 64;
  StepPredictor draft(build_transformer(load_transformer("Llama-3.2-1B")), alone, two);
  ServeAnswer served = serve(g, one, two, q);
  EXPECT_DOUBLE_EQ(served.draft_seconds, 4 * draft.step(step).seconds);
  EXPECT_GT(served.draft_joules, 0);
  EXPECT_GT(served.prefill_seconds, serve(g, none, two, q).prefill_seconds);
}

TEST(Search, NamesTheFormatThatAPlanHas) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  apply_verb("requant weight fp8", g, p);
  apply_verb("requant kv fp8", g, p);
  SearchQuestion q;
  q.engine = find_engine("none");
  Cluster c{load_profile("h200"), 1};
  Graph wide = build_transformer(load_transformer("Llama-3.1-8B"));
  auto heaviest = [&](const Graph& graph, const char* weights, const char* kv) {
    double most = 0;
    for (const Candidate& found : search(graph, {}, c, q).front)
      if (found.weights == weights && found.kv == kv && found.concurrency == 1)
        most = std::max(most, found.memory);
    return most;
  };
  for (const char* weights : {"bf16", "fp8"})
    for (const char* kv : {"bf16", "fp8"})
      EXPECT_EQ(heaviest(g, weights, kv), heaviest(wide, weights, kv)) << weights << " " << kv;
  EXPECT_GT(heaviest(g, "fp8", "fp8"), 0) << "the plan of least bytes is on every front";
}

TEST(Search, CarriesErrorsOutOfItsThreads) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Cluster c{load_profile("h200"), 8};
  SearchQuestion q;
  q.engine = find_engine("vllm"), q.threads = 4;
  q.input = 0;
  EXPECT_THROW(search(g, {}, c, q), base::Error);
  q.input = 1024;
  Plan p;
  p.cp = 2;
  EXPECT_THROW(search(g, p, c, q), base::Error);
  p.cp = 1, p.prefill_replicas = 1;
  EXPECT_THROW(search(g, p, c, q), base::Error);
}

}  // namespace
}  // namespace orrery::graph
