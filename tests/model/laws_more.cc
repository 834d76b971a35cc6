// Laws of section G that need more than one verb: every neutral verb, every pair of verbs, conservation,
// scaling, bounds; over random models, plans and questions from a fixed seed.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "random_models.h"

namespace orrery::graph {
namespace {

// G2: any two verbs give the same ledgers in either order, or one order is refused.
TEST(G2, AnyTwoVerbsCommuteOrAreRefused) {
  const char* const verbs[] = {"requant weight fp8",
                               "requant kv fp8",
                               "requant weight int4 g128",
                               "shard tensor 2",
                               "stage 2",
                               "place weight host",
                               "place kv host share 0.5",
                               "shrink kv 512",
                               "share kv 2 over 0.5",
                               "skip tokens 0.25",
                               "speculate 3 accept 0.5",
                               "overlap tensor 0.5",
                               "prefetch 0.5",
                               "recompute full",
                               "adapt 16",
                               "tile mlp",
                               "admit chunk 512",
                               "fuse maps",
                               "replace vocab 1024",
                               "skip layers 0.5",
                               "admit split 1",
                               "sparsify 2:4"};
  for_random_cases(20, [&](Random& r, const TransformerSpec& spec, const Plan&) {
    StepShape s = random_shape(r);
    Cluster c{load_profile("h100"), 8};
    auto both = [&](const char* a, const char* b, Ledger& ledger, StepTime& time) {
      Graph g = build_transformer(spec);
      Plan p;
      try {
        apply_verb(a, g, p), apply_verb(b, g, p);
        StepPredictor predictor(g, p, c);
        time = predictor.step(s);
        ledger = predictor.ledger();
        return true;
      } catch (const base::Error&) {
        return false;
      }
    };
    for (const char* a : verbs)
      for (const char* b : verbs) {
        // The last format given is the one that is stored: this order is the user's to say.
        bool one_target =
            std::string(a).starts_with("requant weight") && std::string(b).starts_with("requant weight");
        bool sparse = std::string(a).starts_with("sparsify") || std::string(b).starts_with("sparsify");
        if (a == b || one_target ||
            (sparse && (std::string(a) + b).find("requant weight") != std::string::npos))
          continue;
        Ledger ab, ba;
        StepTime tab, tba;
        bool first = both(a, b, ab, tab), second = both(b, a, ba, tba);
        EXPECT_EQ(first, second) << a << " | " << b;
        if (!first) continue;
        expect_same(ab, ba);
        EXPECT_EQ(tab.seconds, tba.seconds) << a << " | " << b;
        EXPECT_EQ(tab.joules, tba.joules) << a << " | " << b;
      }
  });
}

// G2: where order matters the tool refuses or says so.
TEST(G2, OrderThatMattersIsRefused) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  apply_verb("requant weight int4 g128", g, p);
  apply_verb("sparsify 2:4", g, p);  // 2:4 of a 4-bit weight: half of the values and positions
  Graph h = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan q;
  apply_verb("sparsify 2:4", h, q);
  EXPECT_THROW(apply_verb("requant weight int4 g128", h, q), base::Error);
}

// G3: what a collective or move takes in equals what it gives out, and ranks with replicas named sum to the
// whole.
TEST(G3, BytesAreConserved) {
  for_random_cases(60, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Program whole = compile(g, Plan{}), rank = compile(g, plan);
    StepShape s = random_shape(r);
    Binding b = bind(g, plan, s);
    for (const ProgramOp& op : rank.ops) {
      if (op.collective == Collective::kNone) continue;
      EXPECT_GT(op.group, 1);
      if (op.collective != Collective::kAllReduce) continue;
      // An all-reduce carries what the operator before it gave out, rows of the width of the stream.
      const Tensor& y = g.tensors[g.ops[op.op].out.front()];
      double rows = b.free[y.axes.front()];
      EXPECT_NEAR(op.link.at(b), rows * spec.hidden * 2, 1e-9 * rows * spec.hidden) << g.ops[op.op].name;
    }
    // State: kv heads over the ranks that divide them; further ranks hold replicas, counted.
    double ranks = std::min(plan.tp, spec.kv_heads) * plan.pp,
           replicas = std::max(1, plan.tp / spec.kv_heads);
    EXPECT_NEAR(rank.state_bytes.coefficient[kKeys] * ranks, whole.state_bytes.coefficient[kKeys],
                1e-9 * whole.state_bytes.coefficient[kKeys]);
    EXPECT_NEAR(rank.state_bytes.coefficient[kKeys] * plan.tp * plan.pp,
                whole.state_bytes.coefficient[kKeys] * replicas,
                1e-9 * whole.state_bytes.coefficient[kKeys] * replicas);
    // A move and its way back carry the same rows.
    if (plan.ep > 1 && plan.dp > 1) {
      std::vector<double> payload;
      for (const ProgramOp& op : rank.ops)
        if (op.collective == Collective::kAllToAll) payload.push_back(op.link.at(b));
      ASSERT_EQ(payload.size() % 2, 0u);
      for (std::size_t i = 0; i + 1 < payload.size(); i += 2) EXPECT_EQ(payload[i], payload[i + 1]);
    }
  });
}

// G3: every activation that is allocated is freed: a tensor lives from its first to its last use, and nothing
// outlives its block.
TEST(G3, EveryActivationIsFreed) {
  for_random_cases(60, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Program p = compile(g, plan);
    Binding b = bind(g, plan, random_shape(r));
    for (std::uint32_t i = 0; i < p.ops.size(); ++i) {
      double live = p.ops[i].live.at(b);
      // What is alive is made, taken or held at this operator or around it in its block: no more than the
      // block's own tensors.
      double all = 0;
      const Block& block = g.blocks[p.ops[i].block];
      std::set<TensorId> seen;
      for (std::uint32_t o = block.first_op; o < block.first_op + block.op_count; ++o)
        for (const auto* list : {&g.ops[o].in, &g.ops[o].out, &g.ops[o].held})
          for (TensorId t : *list) seen.insert(t);
      for (TensorId t : seen) {
        const Tensor& tensor = g.tensors[t];
        if (tensor.cls != TensorClass::kActivation) continue;
        double n = tensor.dtype.bytes();
        for (AxisId a : tensor.axes) n *= a < kFreeAxes ? b.free[a] : g.axes[a].extent;
        all += n;
      }
      EXPECT_LE(live, all * (1 + 1e-12)) << g.ops[p.ops[i].op].name;
    }
    // G12: the table of `fit` and the timeline of the same step.
    FitAnswer a = fit(g, plan, cluster_of(plan), 3, 700, find_engine("none"));
    double rest = 0, highest = 0;
    for (const MemoryItem& item : a.items) rest += item.cls == TensorClass::kActivation ? 0 : item.bytes;
    for (const auto& [op, bytes] : activation_timeline(p, fit_binding(g, plan, 3, 700)))
      highest = std::max(highest, rest + bytes);
    EXPECT_NEAR(a.total, highest, 1e-9 * highest);
  });
}

// G5: where things are and when they move changes no operation; recomputation adds, skipping and shrinking
// remove.
TEST(G5, PlacementKeepsOperations) {
  for_random_cases(60, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    StepShape s = random_shape(r);
    Graph g = build_transformer(spec);
    double before = ledger_of(g, plan, s).ops();
    for (const char* verb : {"place weight host", "place kv nvme share 0.3", "place weight remote share 0.5",
                             "prefetch 0.7", "overlap tensor 0.5", "recompute full", "admit chunk 1024",
                             "admit split 1", "tile mlp", "fuse maps"}) {
      Graph h = g;
      Plan p = plan;
      apply_verb(verb, h, p);
      EXPECT_EQ(ledger_of(h, p, s).ops(), before) << verb;
    }
    Graph fewer = g;
    Plan p = plan;
    p.pp = 1;  // what is left need not divide over the stages
    before = ledger_of(g, p, s).ops();
    apply_verb("skip layers 0.25", fewer, p);
    EXPECT_LT(ledger_of(fewer, p, s).ops(), before);
    // Fewer keys held: less memory, never more.
    Plan kept = plan;
    apply_verb("shrink kv 64", g, kept);
    EXPECT_LE(state_bytes(g, compile(g, kept), 4, 2000), state_bytes(g, compile(g, plan), 4, 2000));
  });
}

// G6: more layers, longer context and larger batch never shrink memory; more links, a faster network or host
// never slow.
TEST(G6, MoreNeverHurts) {
  for_random_cases(40, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Engine none = find_engine("none");
    TransformerSpec deeper = spec;
    deeper.layers *= 2;
    Graph deep = build_transformer(deeper);
    EXPECT_GE(fit(deep, plan, cluster_of(plan), 4, 1000, none).total,
              fit(g, plan, cluster_of(plan), 4, 1000, none).total);
    double last = 0;
    for (int context : {1, 17, 100, 1000, 1001, 5000}) {
      double total = fit(g, plan, cluster_of(plan), 4, context, none).total;
      EXPECT_GE(total, last) << context;
      last = total;
    }
    StepShape s = random_shape(r);
    Plan away = plan;
    away.place.weights = Tier::kHost;
    double before = StepPredictor(g, away, cluster_of(plan)).step(s).seconds;
    for (FieldId field : {FieldId::pcie_bandwidth, FieldId::power_limit, FieldId::nvlink_bandwidth,
                          FieldId::network_bandwidth}) {
      Cluster better = cluster_of(plan);
      better.gpu.set(field, better.gpu.at(field).number * 1.5, "what if");
      EXPECT_LE(StepPredictor(g, away, better).step(s).seconds, before * (1 + 1e-12))
          << field_spec(field).key;
    }
  });
}

// G7: with everything hidden a step takes at least its largest ledger over the peak; without, at most the sum
// and the fixed costs.
TEST(G7, TimeLiesBetweenTheLargestLedgerAndTheSum) {
  for_random_cases(60, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Plan flat = plan;
    flat.pp = 1;
    StepShape s = random_shape(r);
    StepPredictor p(g, flat, cluster_of(flat));
    StepTime t = p.step(s);
    double sum = t.power;
    for (const Line& line : p.ledger().lines) {
      LineTime l = time_of(p.program().ops[line.op], line, p.binding(), p.rates());
      EXPECT_GE(l.seconds * (1 + 1e-12), std::max({l.compute, l.memory, l.link}));
      EXPECT_LE(l.seconds, (l.compute + l.memory + l.link + l.fixed) * (1 + 1e-12) + 1e-15);
      sum += (l.compute + l.memory + l.link + l.fixed) * line.times;
    }
    EXPECT_LE(t.seconds, sum * (1 + 1e-9));
    Plan hidden = flat;
    hidden.overlap_tp = 1;
    StepTime h = StepPredictor(g, hidden, cluster_of(hidden)).step(s);
    const Rates& rates = p.rates();
    EXPECT_GE(h.seconds, t.ops / rates.peak8);
    EXPECT_GE(h.seconds, (p.ledger().weight() + p.ledger().state()) / rates.memory_peak);
    EXPECT_LE(h.seconds, t.seconds * (1 + 1e-12));
    EXPECT_GE(t.joules, t.seconds * rates.idle_watts);
    EXPECT_LE(t.joules, t.seconds * rates.limit_watts * (1 + 1e-9));
  });
}

// G8: halving every rate (and doubling every latency) doubles the time of every line; memory stays.
TEST(G8, HalvedRatesDoubleTheTime) {
  for_random_cases(60, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Program program = compile(g, plan);
    Binding b = bind(g, plan, random_shape(r));
    Ledger ledger;
    walk(program, b, ledger);
    Rates full = read_rates(load_profile("h100")), half = full;
    for (double Rates::*rate :
         {&Rates::memory, &Rates::read, &Rates::memory_peak, &Rates::experts16, &Rates::experts8,
          &Rates::experts4, &Rates::tensor16, &Rates::tensor8, &Rates::tensor4, &Rates::attention,
          &Rates::vector, &Rates::link, &Rates::network, &Rates::host, &Rates::limit_watts,
          &Rates::idle_watts})
      half.*rate /= 2;
    for (double Rates::*seconds :
         {&Rates::kernel, &Rates::ramp, &Rates::cycle, &Rates::link_latency, &Rates::network_latency})
      half.*seconds *= 2;
    half.collectives_scale = 2;
    StepTime one = schedule(program, ledger, b, full), two = schedule(program, ledger, b, half);
    EXPECT_NEAR(two.seconds / one.seconds, 2, 1e-9);
    EXPECT_NEAR(two.joules / one.joules, 1, 1e-9);  // half of the power, twice as long
  });
}

// Experts in a serving engine's kernels: balanced products as vLLM 0.19.0 and TensorRT-LLM 1.3.0rc10 ran them on an H200
// (ai-dynamo/aiconfigurator@095f58a5, systems/data/h200_sxm/moe), from sorting rows to their sum.
TEST(Experts, EnginesKernels) {
  struct Case {
    int hidden, ffn, chosen, experts;
    double tokens;
    const char* format;
    double measured;  // seconds
  };
  constexpr Case cases[] = {{4096, 14336, 2, 8, 16, "", 662e-6},    {4096, 3584, 2, 8, 64, "", 193e-6},
                            {2048, 768, 8, 128, 64, "", 308e-6},    {7168, 2048, 8, 256, 128, "", 5240e-6},
                            {4096, 14336, 2, 8, 64, "fp8", 406e-6}, {7168, 2048, 8, 256, 128, "fp8", 2916e-6},
                            {4096, 1536, 8, 128, 64, "fp8", 615e-6}, {2880, 2880, 4, 128, 128, "mxfp4", 716e-6}};
  for (const Case& c : cases) {
    TransformerSpec spec = load_transformer("Qwen3-30B-A3B");
    spec.layers = 1, spec.hidden = c.hidden, spec.expert_ffn = c.ffn, spec.experts = c.experts,
    spec.experts_per_token = c.chosen;
    Graph g = build_transformer(spec);
    Plan p = under(Plan{}, find_engine("vllm"));
    if (*c.format) apply_verb(fmt::format("requant weight {} experts-only", c.format), g, p);
    StepPredictor predictor(g, p, {load_profile("h200"), 1});
    StepShape shape;
    shape.decode_seqs = c.tokens, shape.decode_context = 1;
    predictor.step(shape);
    double seconds = 0;
    for (const Line& line : predictor.ledger().lines) {
      const ProgramOp& op = predictor.program().ops[line.op];
      const std::string& name = g.ops[op.op].name;
      if (op.part == Part::kExpert && name != "router" && name != "top_k")
        seconds += time_of(op, line, predictor.binding(), predictor.rates()).seconds;
    }
    EXPECT_NEAR(seconds / c.measured, 1, 0.15) << c.hidden << " x " << c.ffn << " " << c.format;
  }
}

// G10: the same description and plan give the same numbers whatever was asked before.
TEST(G10, AnswersDoNotDependOnHistory) {
  for_random_cases(20, [](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    StepShape a = random_shape(r), b = random_shape(r);
    StepPredictor p(g, plan, cluster_of(plan)), q(g, plan, cluster_of(plan));
    double first = p.step(a).seconds;
    p.step(b);
    EXPECT_EQ(p.step(a).seconds, first);
    q.step(b);
    EXPECT_EQ(q.step(a).seconds, first);
  });
}

// B and G for training: neutral techniques change nothing, memory falls with each ZeRO stage, recomputation
// trades memory for time.
TEST(Training, LawsOverRandomModels) {
  for_random_cases(30, [](Random& r, const TransformerSpec& spec, const Plan&) {
    BuildOptions o;
    o.training = true;
    Graph g = build_transformer(spec, o);
    Plan plan;
    plan.dp = r.pick({2, 4});
    Cluster c{load_profile("h100"), plan.dp};
    TrainQuestion q;
    q.sequence = r.pick({512, 2048}), q.global_batch = 4 * plan.dp;
    TrainAnswer last = train(g, plan, c, q);
    double sum = 0;
    for (const MemoryItem& item : last.items) sum += item.bytes;
    EXPECT_DOUBLE_EQ(sum, last.total);
    EXPECT_NEAR(last.joules_ops + last.joules_bytes + last.joules_link + last.joules_idle, last.joules,
                1e-9 * last.joules);
    for (int stage : {1, 2, 3}) {
      plan.zero = stage;
      TrainAnswer a = train(g, plan, c, q);
      double gathered = 0;  // of stage 3: embedding, head and two layers, which may be all of a small model; and the bucket
      for (const MemoryItem& item : a.items)
        if (item.what == "weights gathered" || item.what == "gradient bucket") gathered += item.bytes;
      EXPECT_LT(a.total - gathered, last.total) << stage;
      EXPECT_EQ(a.model_flops, last.model_flops);
      last = a;
    }
    plan.recompute = RecomputePolicy::kFull;
    TrainAnswer full = train(g, plan, c, q);
    EXPECT_GT(full.hardware_flops, last.hardware_flops);
    EXPECT_GE(full.seconds, last.seconds);
  });
}

}  // namespace
}  // namespace orrery::graph
