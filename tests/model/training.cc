// Operations and bytes of a training iteration, counted by hand from Llama-3.1-8B's shape.
#include <gtest/gtest.h>

#include "config_cases.h"
#include "graph/train.h"
#include "graph/train_parts.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

Graph llama() {
  BuildOptions training;
  training.training = true;
  return build_transformer(load_transformer("Llama-3.1-8B"), training);
}

TEST(Training, LowRankAdaptersHaveNoProductForFrozenWeights) {
  Plan p;
  p.adapter_rank = 16;
  TrainQuestion q;
  q.sequence = 2048;
  double products = 2 * 7504658432.0, attention = 2 * 2 * 32 * 4096 * 1024.0;  // of a token, forward
  EXPECT_NEAR(
      train(llama(), p, {load_profile("h100"), 1}, q).model_flops / (2048 * (2 * products + 3 * attention)),
      1, 1e-9);
}

// Each input forward and each output's gradient backward: read for its largest value, read again, written
// twice in a byte. Not the head, which stays in 16 bits.
TEST(Training, ProductsInEightBitsNarrowWhatTheyTake) {
  Graph g = llama();
  Plan p;
  p.compute = kFp8;
  TrainQuestion q;
  q.sequence = 2048, q.global_batch = 3;
  auto narrowed = [&] {
    TrainAnswer a = train(g, p, {load_profile("h100"), 1}, q);
    double sum = 0;
    for (const TrainLine& l : a.lines)
      if (a.program.ops[l.line.op].narrows == Format::kFp8) sum += l.line.activation * l.line.times;
    return sum;
  };
  double tokens = 3 * 2048 * 32.0, in = 4096 + 4096 + 4096 + 14336, out = 6144 + 4096 + 2 * 14336 + 4096;
  EXPECT_DOUBLE_EQ(narrowed(), tokens * (in + out) * 6);
  p.recompute = RecomputePolicy::kFull;  // the inputs once more
  EXPECT_DOUBLE_EQ(narrowed(), tokens * (2 * in + out) * 6);
  p.compute = kBf16;
  EXPECT_EQ(narrowed(), 0);
}

// gpt-oss cuts off what its experts' activation takes before the fused kernel: each element is read and written by the
// clamps and by the join, 8 bytes; backward masked by its input (6) and joined (4).
TEST(Training, AnActivationThatIsCutOffPassesOverItsInput) {
  BuildOptions training;
  training.training = true;
  Graph g = build_transformer(load_transformer("gpt-oss-20b"), training);
  TrainQuestion q;
  q.sequence = 1024;
  TrainAnswer a = train(g, Plan(), {load_profile("h200"), 1}, q);
  double forward = 0, backward = 0;
  for (const TrainLine& l : a.lines)
    if (a.program.ops[l.line.op].pass == kClampPass) (l.pass == Pass::kForward ? forward : backward) += l.line.activation * l.line.times;
  double elements = 24.0 * 1024 * 4 * 2 * 2880;  // layers, tokens, experts a token, both halves
  EXPECT_DOUBLE_EQ(forward, elements * 8);
  EXPECT_DOUBLE_EQ(backward, elements * 10);
}

// Adam on one rank: fp32 gradient read for the norm, read and written by clipping, read and set to zero; master and
// moments read and written, 16-bit weight written.
TEST(Training, OptimizerMovesItsStates) {
  Plan p;
  TrainQuestion q;
  Cluster c{load_profile("h100"), 1};
  double memory = read_rates(c.gpu).memory;
  EXPECT_DOUBLE_EQ(train(llama(), p, c, q).optimizer * memory, 8030261248.0 * (3 * 4 + 4 + 12 + 12 + 2 + 4));
  p.grad_fp32 = false;
  EXPECT_DOUBLE_EQ(train(llama(), p, c, q).optimizer * memory, 8030261248.0 * (3 * 2 + 2 + 12 + 12 + 2 + 2));
}

// Passes over logits and weights that no product contains: PyTorch's cross-entropy moves 40 bytes a logit, in one kernel
// 10; a sum of 16-bit gradients in 32 bits reads 2 and 4 bytes a weight and writes 4, in each micro-batch.
// Of 4,096 tokens of 4,096 in 32 layers: checkpoints that stay are also the input of the layer that is computed again, and
// from the host one comes back. The head keeps what it and the last norm take, besides 14 bytes for each of 128,256 logits.
// Of 8.03e9 gradients 5e8 are on their way where ranks divide them, nowhere else.
TEST(Training, MemoryCountsNothingTwice) {
  Plan p;
  p.dp = 2, p.recompute = RecomputePolicy::kFull, p.tile_loss = true;
  TrainQuestion q;
  q.sequence = 4096, q.global_batch = 2;
  auto item = [&](const char* what) {
    for (const MemoryItem& i : train(llama(), p, {load_profile("h100"), 2}, q).items)
      if (i.what == what) return i.bytes;
    return 0.0;
  };
  double stream = 4096.0 * 4096 * 2, here = item("working memory of a layer");
  EXPECT_DOUBLE_EQ(item("activations"), 32 * stream);
  EXPECT_EQ(item("gradient bucket"), 0);
  p.place.checkpoints = Tier::kHost, p.zero = 2;
  EXPECT_DOUBLE_EQ(item("working memory of a layer") - here, stream);
  EXPECT_DOUBLE_EQ(item("gradient bucket"), 1e9);
  p.tile_loss = false;
  EXPECT_DOUBLE_EQ(item("logits and loss"), 4096 * 128256.0 * 14 + 2 * stream);
  p.recompute = RecomputePolicy::kNone, p.place.checkpoints = Tier::kDevice, p.tile_loss = true;
  EXPECT_DOUBLE_EQ(item("logits and loss"), 2 * stream) << "the loss in pieces: what the head keeps";
  p.dp = 1, p.zero = 2;
  EXPECT_EQ(item("gradient bucket"), 0) << "one rank keeps all gradients";
}

// Kimi K3 keeps the stream between its 93 layers, not the sum of earlier layers that each begins with. Neither
// it nor the shared blocks of Zamba, the widest layers of both, save the stream for an operator: nothing that
// they work with is there already.
TEST(Training, CheckpointsAreTheStreamBetweenLayers) {
  BuildOptions training;
  training.training = true;
  Plan p;
  p.recompute = RecomputePolicy::kFull;
  for (const char* name : {"kimi-k3", "zamba2-2.7b"}) {
    Graph g = build_transformer(read_hf_config(config_case(name).json, name), training);
    Layout at(g, p);
    ActivationCounter counter(at, p, 8192, 1);
    double layers = name[0] == 'k' ? 93 : 54, hidden = name[0] == 'k' ? 7168 : 2560;
    EXPECT_EQ(counter.kept(), layers * 8192 * hidden * 2) << name;
    EXPECT_EQ(counter.working(true), counter.working(false)) << name;
  }
  // Four streams of 7,168 between the 61 layers of DeepSeek V4 Pro.
  Graph streams = build_transformer(read_hf_config(config_case("deepseek-v4-pro").json, "c"), training);
  Layout at(streams, p);
  EXPECT_EQ(ActivationCounter(at, p, 8192, 1).kept(), 61 * 8192.0 * 4 * 7168 * 2);
}

TEST(Training, PassesBesideTheProducts) {
  Graph g = llama();
  Plan p;
  TrainQuestion q;
  q.sequence = 2048, q.global_batch = 3;
  auto moved = [&](std::string_view pass) {
    TrainAnswer a = train(g, p, {load_profile("h100"), 1}, q);
    double bytes = 0;
    for (const TrainLine& line : a.lines) {
      const ProgramOp& op = a.program.ops[line.line.op];
      if (op.pass && op.pass == pass) bytes += line.line.activation * line.line.times;
    }
    return bytes;
  };
  EXPECT_DOUBLE_EQ(moved("cross-entropy"), 3 * 2048 * 128256.0 * 40);
  EXPECT_EQ(moved("sum of gradients"), 0);
  p.tile_loss = true, p.joins_accumulation = false;
  EXPECT_DOUBLE_EQ(moved("cross-entropy"), 3 * 2048 * 128256.0 * 10);
  double products = 8030261248.0 - 128256 * 4096.0 - 65 * 4096;  // without embedding and norms
  EXPECT_DOUBLE_EQ(moved("sum of gradients"), 3 * products * 10);
}

// What remains of the communication when its bytes take no time is little, through the host's memory, too.
TEST(Training, TheFixedPartOfCommunicationHasNoBytes) {
  for (const char* gpu : {"h100", "rtx4090"}) {
    Plan p;
    p.dp = 2;
    TrainQuestion q;
    q.sequence = 2048, q.global_batch = 2;
    TrainAnswer a = train(llama(), p, {load_profile(gpu), 2}, q);
    EXPECT_GT(a.between_fixed, 0) << gpu;
    EXPECT_LT(a.between_fixed, 0.05 * a.data_comm) << gpu;
  }
}

// Without sequence parallelism a rank sends its part of a micro-batch's activations to the next stage, where the parts
// are gathered.
TEST(Training, PartsOfAMessageAreGathered) {
  Graph g = llama();
  Plan p;
  p.tp = 2, p.pp = 2;
  TrainQuestion q;
  q.sequence = 2048, q.global_batch = 4;
  Cluster c{load_profile("h100"), 4};
  Rates r = read_rates(c.gpu);
  double hops = 2 * (4 + 1), whole = 2048 * 4096 * 2.0;
  double send = hops * collective_time(Collective::kSendReceive, 2, whole / 2, r);
  EXPECT_DOUBLE_EQ(train(g, p, c, q).pipeline_comm, send + hops * collective_time(Collective::kAllGather, 2, whole, r));
  p.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(train(g, p, c, q).pipeline_comm, send);
}

}  // namespace
}  // namespace orrery::graph
