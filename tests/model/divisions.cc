// Divisions that meet: experts, ZeRO, context, pipeline and data-parallel ranks, placement and overlap
// together, over random models and plans. Expected values are counted here from the shapes, not taken from
// the library.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "graph/layout.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "random_models.h"

namespace orrery::graph {
namespace {

struct Case {
  TransformerSpec spec;
  Plan plan;
};

// Plans that divide everything at once; only legal ones.
template <class Body>
void for_random_divisions(int cases, Body body) {
  Random r(20261122);
  int tried = 0;
  for (int done = 0; done < cases && tried < 100 * cases; ++tried) {
    Case c;
    c.spec = random_spec(r);
    c.plan.tp = r.pick({1, 2, 4}), c.plan.pp = r.pick({1, 2, 4}), c.plan.dp = r.pick({1, 2, 4, 8});
    c.plan.cp = r.pick({1, 1, 2}), c.plan.zero = r.below(4), c.plan.sequence_parallel = r.coin();
    if (c.spec.moe()) c.plan.ep = r.pick({1, 2, 4, 8});
    BuildOptions training;
    training.training = true;
    Graph g = build_transformer(c.spec, training);
    try {
      check_plan(g, c.plan);
    } catch (const base::Error&) {
      continue;
    }
    ++done;
    body(r, c, g);
  }
}

// Ranks that hold the same part of a tensor of the spec, counted from what divides it.
double copies(const Graph& g, const Tensor& t, const Plan& p, const TransformerSpec& spec) {
  int ranks = p.tp * p.dp * p.cp, parts = 1;
  int etp = p.ep > 1 ? std::gcd(p.tp, ranks / p.ep) : p.tp;
  for (AxisId axis : t.axes) {
    const std::string& name = g.axes[axis].name;
    if (t.replicated) continue;
    if (name == "heads" || name == "ffn" || name == "vocab" || name == "shared_ffn") parts *= p.tp;
    if (name == "kv_heads") parts *= std::min(p.tp, spec.kv_heads);
    if (name == "experts") parts *= p.ep;
    if (name == "expert_ffn") parts *= etp;
  }
  return static_cast<double>(ranks) / parts;
}

double bytes_of(const std::vector<MemoryItem>& items, const char* what) {
  double sum = 0;
  for (const MemoryItem& item : items)
    if (item.what == what) sum += item.bytes;
  return sum;
}

TEST(Divisions, ExpertsKeepTheirStatesUnderZero) {
  BuildOptions training;
  training.training = true;
  Graph g = build_transformer(load_transformer("Mixtral-8x7B"), training);
  Plan plan;
  plan.dp = plan.ep = 8, plan.zero = 1;
  TrainQuestion q;
  q.global_batch = 8;
  TrainAnswer a = train(g, plan, {load_profile("h100"), 8}, q);
  // A rank has one expert of 8 in 32 layers, and an eighth of the states of what all ranks share.
  double experts = 32.0 * 3 * 4096 * 14336;
  double layer = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 2 * 4096 + 4096 * 8;
  double dense = 32 * layer + 2.0 * 32000 * 4096 + 4096;
  EXPECT_DOUBLE_EQ(bytes_of(a.items, "optimizer"), 12 * (experts + dense / 8));
  EXPECT_DOUBLE_EQ(bytes_of(a.items, "weights"), 2 * (experts + dense));
  // Gradients of 4 bytes are summed, weights of 2 gathered, between ranks that share them: not the experts'.
  EXPECT_DOUBLE_EQ(a.data_bytes, 6 * dense);
}

TEST(Divisions, StatesOfAllRanksSumToTheWhole) {
  for_random_divisions(150, [](Random&, const Case& c, const Graph& g) {
    Plan p = c.plan;
    p.pp = 1;  // embedding and head are on stages of their own
    TrainQuestion q;
    q.sequence = 512, q.global_batch = p.dp;
    TrainAnswer a = train(g, p, {load_profile("h200"), p.gpus()}, q);
    double whole = 0, repeated = 0;
    for (const Block& b : g.blocks)
      for (std::uint32_t t = b.first_tensor; t < b.first_tensor + b.tensor_count; ++t) {
        const Tensor& tensor = g.tensors[t];
        if (tensor.cls != TensorClass::kWeight) continue;
        double n = b.repeat;
        for (AxisId axis : tensor.axes) n *= g.axes[axis].extent;
        double held = copies(g, tensor, p, c.spec);
        // What ranks hold in common because the batch or the sequence divides them, ZeRO divides.
        bool expert = p.ep > 1 && tensor.name.starts_with("experts.");
        int etp = p.ep > 1 ? std::gcd(p.tp, p.tp * p.dp * p.cp / p.ep) : p.tp;
        double data = expert ? p.tp * p.dp * p.cp / p.ep / etp : p.dp * p.cp;
        whole += n * held, repeated += n * held / data;
      }
    double gpus = p.gpus();
    auto expect = [&](const char* what, double each, int stage) {
      double want = each * (p.zero >= stage ? repeated : whole);
      EXPECT_NEAR(bytes_of(a.items, what) * gpus, want, 1e-9 * want)
          << what << " tp " << p.tp << " dp " << p.dp << " cp " << p.cp << " ep " << p.ep << " zero "
          << p.zero;
    };
    expect("optimizer", 12, 1), expect("gradients", 4, 2), expect("weights", 2, 3);
  });
}

// The work of all ranks is the work of the whole batch, wherever experts, heads and layers are.
TEST(Divisions, OperationsOfAllRanksSumToTheWhole) {
  for_random_divisions(150, [](Random&, const Case& c, const Graph&) {
    Graph g = build_transformer(c.spec);
    Plan p = c.plan;
    p.cp = 1;
    if (p.tp > c.spec.kv_heads) return;  // replicas repeat their projections
    try {
      check_plan(g, p);
    } catch (const base::Error&) {
      return;
    }
    StepShape s;
    s.decode_seqs = 48, s.decode_context = 700;
    auto work = [&](const Plan& plan, bool experts) {
      Program program = compile(g, plan);
      Ledger l;
      walk(program, bind(g, plan, s), l);
      double sum = 0;
      for (const Line& line : l.lines) {
        const ProgramOp& op = program.ops[line.op];
        bool grouped = g.ops[op.op].grouped != kNoAxis;
        bool everywhere = g.ops[op.op].name == "router";  // every tensor-parallel rank works it out
        double ranks = plan.dp * op.stages * (everywhere ? 1 : plan.tp);
        if (op.kind == OpKind::kContract && grouped == experts) sum += line.ops * line.times * ranks;
      }
      return sum;
    };
    for (bool experts : {false, true}) {
      double one = work(Plan{}, experts) * p.dp;  // every data-parallel rank brings as many tokens
      EXPECT_NEAR(work(p, experts), one, 1e-9 * one)
          << experts << " tp " << p.tp << " dp " << p.dp << " ep " << p.ep;
    }
  });
}

TEST(Divisions, SavedTensorsAreDividedAsTheirOperatorsAre) {
  BuildOptions training;
  training.training = true;
  TransformerSpec spec = load_transformer("Mixtral-8x7B");
  Graph g = build_transformer(spec, training);
  auto kept = [&](int tp) {
    Plan p;
    p.tp = tp;
    return activation_bytes(g, p, 4096, 1);
  };
  // With tp 8 a rank has an eighth of q, k, v, the attention's output and statistics, and of the experts'
  // inner tensors; the rows of experts, norms' and products' inputs are whole.
  double tokens = 4096, divided = 2 * (2 * 4096.0 + 2 * 1024) + 4 * 32 + 2 * 2 * 3 * 14336.0;
  EXPECT_NEAR(kept(1) - kept(8), 32 * tokens * divided * 7 / 8, 1e-6 * kept(1));
}

TEST(Divisions, MicroBatchesThatDoNotExistKeepNothing) {
  BuildOptions training;
  training.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"), training);
  Plan p;
  p.pp = 8, p.recompute = RecomputePolicy::kFull;
  double layer_input = 4096.0 * 2048 * 2;
  for (int m : {1, 3, 8, 64})
    EXPECT_DOUBLE_EQ(activation_bytes(g, p, 2048, 1, m), 4 * layer_input * std::min(m, 8)) << m;
  p.schedule = PipelineSchedule::kInterleaved, p.virtual_stages = 2;
  // 2 (p - 1) + (v - 1) p + 1 = 23 chunks of two layers, but no more than there are.
  EXPECT_DOUBLE_EQ(activation_bytes(g, p, 2048, 1, 64), 23 * 2 * layer_input);
  EXPECT_DOUBLE_EQ(activation_bytes(g, p, 2048, 1, 2), 4 * 2 * layer_input);
  // A schedule that is given again is what counts.
  apply_verb("stage 8 1f1b", g, p);
  EXPECT_DOUBLE_EQ(activation_bytes(g, p, 2048, 1, 64), 8 * 4 * layer_input);
}

TEST(Divisions, WeightsGatheredByZeroThreeTakeRoom) {
  BuildOptions training;
  training.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-70B"), training);
  Plan p;
  p.dp = 64, p.zero = 3;
  TrainQuestion q;
  q.global_batch = 64;
  TrainAnswer a = train(g, p, {load_profile("h100"), 64}, q);
  double layer = 2 * 8192.0 * 8192 + 2 * 8192.0 * 1024 + 3 * 8192.0 * 28672 + 2 * 8192;
  EXPECT_DOUBLE_EQ(bytes_of(a.items, "weights gathered"), 2 * (2 * 128256 * 8192.0 + 8192 + 2 * layer));
}

// The peak in the table is the maximum of the steps walked one by one, whatever is placed, staged or
// recomputed.
TEST(Divisions, PeakOfTrainingIsTheMaximumOfItsTimeline) {
  for_random_divisions(150, [](Random& r, const Case& c, const Graph& g) {
    Plan p = c.plan;
    p.recompute = static_cast<RecomputePolicy>(r.below(3));
    if (p.recompute == RecomputePolicy::kFull && r.coin()) p.place.checkpoints = Tier::kHost;
    if (r.coin()) p.place.optimizer = Tier::kHost;
    if (p.pp > 1 && r.coin() && c.spec.layers % (2 * p.pp) == 0)
      p.schedule = PipelineSchedule::kInterleaved, p.virtual_stages = 2;
    TrainQuestion q;
    q.sequence = 1024, q.micro_batch = r.pick({1, 2}),
    q.global_batch = q.micro_batch * p.dp * r.pick({1, 2, 7, 40});
    TrainAnswer a = train(g, p, {load_profile("h200"), p.gpus()}, q);
    double peak = 0, sum = 0;
    for (const auto& [when, bytes] : a.timeline) peak = std::max(peak, bytes);
    for (const MemoryItem& item : a.items) sum += item.bytes;
    EXPECT_NEAR(peak, a.total, 1e-9 * a.total);
    EXPECT_NEAR(sum, a.total, 1e-9 * a.total);
    // What is there at the start is there at the end.
    EXPECT_NEAR(a.timeline.front().second, a.timeline.back().second, 1e-9 * a.total);
  });
}

// Hidden communication still takes its links' time, and placed bytes cross the host link.
TEST(Divisions, NothingIsFree) {
  for_random_divisions(100, [](Random& r, const Case& c, const Graph& g) {
    Cluster cluster{load_profile("h100"), c.plan.gpus()};
    TrainQuestion q;
    q.sequence = 1024, q.global_batch = c.plan.dp * r.pick({1, 4, 16});
    TrainAnswer open = train(g, c.plan, cluster, q);
    Plan hidden = c.plan;
    hidden.overlap_dp = hidden.overlap_pp = hidden.overlap_tp = hidden.overlap_prefetch = 1;
    TrainAnswer h = train(g, hidden, cluster, q);
    EXPECT_LE(h.seconds, open.seconds * (1 + 1e-12));
    double work = open.compute - open.tensor_comm;
    EXPECT_GE(h.seconds, work * (1 - 1e-12));
    // Data-parallel and pipeline transfers share the network (or the host's links) with nobody faster than
    // it.
    EXPECT_GE(h.seconds * (1 + 1e-12), open.data_comm);
    EXPECT_GE(h.seconds * (1 + 1e-12), open.pipeline_comm);
    double micro_batches = q.global_batch / c.plan.dp, link = 63e9 * 0.85;
    for (const char* verb : {"place weight host", "place gradient host", "place optimizer host"}) {
      Graph copy = g;
      Plan p = hidden;
      apply_verb(verb, copy, p);
      TrainAnswer a = train(copy, p, cluster, q);
      double away = a.away.weights * 2 * micro_batches / link;
      EXPECT_GE(a.seconds * (1 + 1e-12), h.seconds) << verb;
      EXPECT_GE(a.seconds * (1 + 1e-12), away) << verb;
      p.overlap_prefetch = 0;
      EXPECT_GT(train(copy, p, cluster, q).offload, 0) << verb;
    }
  });
}

TEST(Divisions, CheckpointsOnTheHostCrossItsLinkTwice) {
  BuildOptions training;
  training.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"), training);
  Plan p;
  p.recompute = RecomputePolicy::kFull;
  Cluster c{load_profile("h100"), 1};
  TrainQuestion q;
  q.sequence = 8192, q.global_batch = 4;
  EXPECT_EQ(train(g, p, c, q).offload, 0);
  double inputs = 2.0 * 32 * 8192 * 4096;
  for (double share : {1.0, 0.25}) {
    p.place.checkpoints = Tier::kHost, p.place.checkpoints_fraction = share;
    TrainAnswer a = train(g, p, c, q);
    EXPECT_NEAR(a.offload, share * 4 * 2 * inputs / (63e9 * 0.85), 1e-9);
    EXPECT_NEAR(bytes_of(a.items, "activations"), (1 - share) * inputs, 1);
    EXPECT_NEAR(a.host_bytes, share * inputs, 1);
  }
  p.recompute = RecomputePolicy::kSelective;
  EXPECT_THROW(train(g, p, c, q), base::Error);  // there are none
}

// Offloaded, divided gradients are on the host, not nowhere.
TEST(Divisions, GradientsFollowTheOptimizer) {
  BuildOptions training;
  training.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"), training);
  Plan p;
  p.dp = 4, p.zero = 2, p.place.optimizer = Tier::kHost;
  TrainQuestion q;
  q.global_batch = 4;
  TrainAnswer a = train(g, p, {load_profile("h100"), 4}, q);
  EXPECT_DOUBLE_EQ(a.host_bytes, (12 + 4) * 8030261248.0 / 4);
  EXPECT_EQ(bytes_of(a.items, "gradients"), 0);
  // Sums of a quarter leave with each micro-batch, new weights of it come back once, and the host moves 34
  // bytes for each of its parameters, at 200 GB/s.
  double quarter = 8030261248.0 / 4, link = 63e9 * 0.85;
  for (int micro_batches : {1, 3}) {
    q.global_batch = 4 * micro_batches;
    EXPECT_NEAR(train(g, p, {load_profile("h100"), 4}, q).offload,
                quarter * (2 * micro_batches + 2) / link + quarter * 34 / 200e9, 1e-9)
        << micro_batches;
  }
}

// One order of ranks: tensor, sequence, batch, stages. 2 x 4 x 4 on hosts of 8: the batch stays in the host.
TEST(Divisions, RanksAreNumberedInOneOrder) {
  Plan p;
  p.tp = 2, p.pp = 4, p.dp = 4;
  EXPECT_EQ(data_group(p).span, 8);
  EXPECT_EQ(far_hops(p, 8), 3);
  p.dp = 1;  // two ranks a stage: four stages on one host
  EXPECT_EQ(far_hops(p, 8), 0);
  p.pp = 8;  // 16 ranks on two hosts: one of seven hops crosses
  EXPECT_EQ(far_hops(p, 8), 1);
}

// Eight boards without NVLink write and read 200 GB/s of host memory: 12.5 each; two have their own links to themselves.
TEST(Divisions, BoardsWithoutNvlinkShareTheHostsMemory) {
  Rates r = read_rates(load_profile("rtx4090"));
  EXPECT_DOUBLE_EQ(transfer_seconds(Collective::kAllGather, 8, 8, 1e9, r), 7.0 / 8 * 1e9 / 12.5e9);
  EXPECT_DOUBLE_EQ(transfer_seconds(Collective::kAllGather, 2, 2, 1e9, r), 0.5e9 / (31.5e9 * 0.85));
}

// A step of a pipeline reads every weight once: layers from all stages, the head from the last.
TEST(Divisions, PipelineServingReadsEveryWeightOnce) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  p.pp = 8;
  Cluster c{load_profile("h200"), 8};
  ServeQuestion q;
  q.engine = find_engine("none");
  ServeAnswer a = serve(g, p, c, q);
  double weights = 2.0 * (8030261248.0 - 128256.0 * 4096), keys = 131072.0 * (1024 + 128 + 1);
  EXPECT_NEAR(a.tpot_bound * 4.8e12, weights + keys, 1e-3 * weights);
  EXPECT_NEAR(a.mbu, a.tpot_bound / a.decode.seconds, 1e-9);
  double products = 2 * 7504658432.0 + 4 * 32 * 4096 * 1153.0;
  EXPECT_NEAR(a.mfu, products / a.decode.seconds / 989.4e12, 0.01 * a.mfu);
  // Eight boards draw idle power for the whole step.
  EXPECT_GE(a.joules_per_token, 8 * a.tpot * read_rates(c.gpu).idle_watts);
}

TEST(Divisions, StagesAndRanksDoTheSameWork) {
  for_random_divisions(60, [](Random& r, const Case& c, const Graph&) {
    Graph g = build_transformer(c.spec);
    Plan p = c.plan, flat;
    p.cp = 1, p.zero = 0;
    flat = p, flat.pp = 1;
    try {
      check_plan(g, p), check_plan(g, flat);
    } catch (const base::Error&) {
      return;
    }
    Cluster cluster{load_profile("h100"), 1024};
    StepShape s = random_shape(r);
    StepTime one = StepPredictor(g, flat, cluster).step(s), all = StepPredictor(g, p, cluster).step(s);
    EXPECT_NEAR(all.ops, one.ops, 1e-9 * one.ops);
    EXPECT_NEAR(all.bytes, one.bytes, 1e-9 * one.bytes);
    EXPECT_NEAR(all.seconds - all.hops, one.seconds, 1e-9 * one.seconds);
    double idle = read_rates(cluster.gpu).idle_watts;
    EXPECT_NEAR(all.joules - p.pp * idle * all.seconds, one.joules - idle * one.seconds, 1e-6 * one.joules);
    EXPECT_LE(p.pp > 1 ? all.hops : 0, all.seconds);
  });
}

}  // namespace
}  // namespace orrery::graph
