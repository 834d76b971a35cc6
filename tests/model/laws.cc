// Section G: laws for every model and plan, tried on random models, plans and GPUs from a fixed seed.
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "graph/search.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/verbs.h"
#include "random_models.h"

namespace orrery::graph {
namespace {

TEST(G1, NeutralVerbsChangeNothing) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    StepShape s = random_shape(r);
    Ledger before = ledger_of(g, plan, s);
    for (const char* verb :
         {"requant weight bf16", "requant kv bf16", "shrink kv 0", "share kv 1", "skip layers 0",
          "skip tokens 0", "speculate 0", "place weight device", "place kv device", "overlap tensor 0",
          "prefetch 0", "recompute none", "adapt 0"}) {
      Graph h = g;
      Plan p = plan;
      apply_verb(verb, h, p);
      expect_same(before, ledger_of(h, p, s));
    }
    Graph h = g;
    Plan p = plan;
    for (const Block& b : g.blocks)
      apply_verb("repeat " + b.name + " " + std::to_string(static_cast<int>(b.repeat)), h, p);
    apply_verb("shard tensor " + std::to_string(plan.tp), h, p);
    apply_verb("stage " + std::to_string(plan.pp), h, p);
    expect_same(before, ledger_of(h, p, s));
  });
}

TEST(G2, VerbsCommute) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    StepShape s = random_shape(r);
    std::string shard = "shard tensor " + std::to_string(plan.tp);
    auto both = [&](std::string a, std::string b) {
      Graph g = build_transformer(spec);
      Plan p;
      apply_verb(a, g, p);
      apply_verb(b, g, p);
      return ledger_of(g, p, s);
    };
    expect_same(both("requant weight fp8", shard), both(shard, "requant weight fp8"));
    expect_same(both("requant kv fp8", "place kv host"), both("place kv host", "requant kv fp8"));
  });
}

TEST(G3, ClassesSumToTheTotal) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    FitAnswer a = fit(g, plan, cluster_of(plan), 4, 1000, find_engine("vllm"));
    double sum = 0;
    for (const MemoryItem& item : a.items) sum += item.bytes;
    EXPECT_EQ(sum, a.total);
    // Weights that are read at most once a step are all that a rank has, less what is looked up row by row.
    Plan here = plan;
    here.pp = 1;
    StepShape s;
    s.prefill_seqs = 64, s.prefill_tokens = 64 * 4096;  // enough that every expert is chosen
    double held = 0, looked_up = 0;
    for (const auto& [id, bytes] : compile(g, here).weights) {
      const Tensor& t = g.tensors[id];
      bool read = t.axes.size() > 1 && !t.name.ends_with("bias");
      held += read ? bytes : 0;
      if (t.name == "embed.weight" && !spec.tied) looked_up = bytes;
    }
    EXPECT_NEAR(ledger_of(g, here, s).weight() / (held - looked_up), 1, 1e-6);
  });
}

TEST(G4, RanksSumToTheWhole) {
  for_random_cases([](Random&, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Program whole = compile(g, Plan{}), rank = compile(g, plan);
    std::map<TensorId, double> one(whole.weights.begin(), whole.weights.end());
    double expert_group =
        plan.ep > 1 ? plan.ep * std::max(1, std::min(plan.tp, plan.tp * plan.dp / plan.ep)) : plan.tp;
    for (auto [id, bytes] : rank.weights) {
      const Tensor& t = g.tensors[id];
      double ranks = 1;
      for (const Block& b : g.blocks)
        if (id >= b.first_tensor && id < b.first_tensor + b.tensor_count && b.layer) ranks = plan.pp;
      bool expert = t.name.starts_with("experts.");
      double divided = 1;
      for (AxisId axis : t.axes) {
        const std::string& name = g.axes[axis].name;
        if (!t.replicated && (name == "heads" || name == "ffn" || name == "vocab" || name == "shared_ffn"))
          divided = plan.tp;
        if (!t.replicated && name == "kv_heads") divided = std::min<double>(plan.tp, spec.kv_heads);
        if (expert && name == "experts") divided = expert_group;
      }
      // Biases of experts have no divided width when only the width is divided.
      if (expert && t.name.ends_with("down.bias")) continue;
      EXPECT_DOUBLE_EQ(bytes * divided * ranks, one[id])
          << t.name << " tp " << plan.tp << " ep " << plan.ep << " dp " << plan.dp;
    }
  });
}

TEST(G4, IllegalSplitsAreRefused) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  p.tp = 3;
  EXPECT_THROW(compile(g, p), base::Error);
  p.tp = 1, p.pp = 33;
  EXPECT_THROW(compile(g, p), base::Error);
  p.pp = 3;  // of 32 layers
  EXPECT_THROW(compile(g, p), base::Error);
  p.pp = 1, p.ep = 2;
  EXPECT_THROW(compile(g, p), base::Error);
  Graph moe = build_transformer(load_transformer("Mixtral-8x7B"));
  p.ep = 3, p.dp = 3;
  EXPECT_THROW(compile(moe, p), base::Error);
}

TEST(G5, DivisionKeepsOperations) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    if (plan.tp > spec.kv_heads || plan.ep > 1)
      return;  // replicas repeat their projections; routed rows are shared over dp
    StepShape s = random_shape(r);
    auto matrix_ops = [&](const Plan& p) {
      Program program = compile(g, p);
      Ledger l;
      walk(program, bind(g, p, s), l);
      double sum = 0;
      for (const Line& line : l.lines) {
        const ProgramOp& op = program.ops[line.op];
        bool everywhere = g.ops[op.op].name == "router";
        double ranks = (program.graph->blocks[op.block].layer ? p.pp : 1) * (everywhere ? 1 : p.tp);
        if (op.kind == OpKind::kContract || op.kind == OpKind::kAttend) sum += line.ops * line.times * ranks;
      }
      return sum;
    };
    Plan one;
    EXPECT_NEAR(matrix_ops(plan) / matrix_ops(one), 1, 1e-12);
    Plan placed = plan;
    placed.place.weights = Tier::kHost;
    placed.overlap_tp = 0.5;
    EXPECT_EQ(matrix_ops(placed), matrix_ops(plan));
  });
}

TEST(G5, RecomputeAddsAndSkipRemoves) {
  BuildOptions o;
  o.training = true;
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"), o);
  Plan p;
  Cluster c{load_profile("h100"), 1};
  TrainQuestion q;
  double none = train(g, p, c, q).hardware_flops;
  p.recompute = RecomputePolicy::kSelective;
  double selective = train(g, p, c, q).hardware_flops;
  p.recompute = RecomputePolicy::kFull;
  EXPECT_GT(selective, none);
  EXPECT_GT(train(g, p, c, q).hardware_flops, selective);
  EXPECT_EQ(train(g, p, c, q).model_flops, none);
  Graph fewer = g;
  apply_verb("skip layers 0.25", fewer, p);
  EXPECT_LT(train(fewer, p, c, q).model_flops, none);
}

TEST(G6, MoreHardwareNeverSlows) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    StepShape s = random_shape(r);
    Cluster c = cluster_of(plan);
    double before = StepPredictor(g, plan, c).step(s).seconds;
    for (FieldId field : {FieldId::memory_bandwidth, FieldId::tensor_fp16_best, FieldId::nvlink_bandwidth,
                          FieldId::network_bandwidth, FieldId::clock_max, FieldId::attention_prefill_best,
                          FieldId::memory_total}) {
      Cluster better = cluster_of(plan);
      better.gpu.set(field, better.gpu.at(field).number * 1.5, "what if");
      EXPECT_LE(StepPredictor(g, plan, better).step(s).seconds, before) << field_spec(field).key;
      EXPECT_GE(fit(g, plan, better, 1, 1000, find_engine("none")).fits,
                fit(g, plan, c, 1, 1000, find_engine("none")).fits);
    }
  });
}

TEST(G6, MoreWorkNeverShrinks) {
  for_random_cases([](Random&, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Cluster c = cluster_of(plan);
    StepPredictor p(g, plan, c);
    double last = 0, memory = 0;
    for (int batch : {1, 2, 3, 8, 33, 64, 65, 128, 129, 300}) {
      StepShape s;
      s.decode_seqs = batch, s.decode_context = 1000;
      double t = p.step(s).seconds;
      EXPECT_GE(t, last) << batch;
      last = t;
      double m = fit(g, plan, c, batch, 1000, find_engine("none")).total;
      EXPECT_GE(m, memory);
      memory = m;
    }
    last = 0;
    for (int context : {1, 100, 128, 1000, 1024, 5000, 100000}) {
      StepShape s;
      s.decode_seqs = 8, s.decode_context = context;
      EXPECT_GE(p.step(s).seconds, last) << context;
      last = p.step(s).seconds;
    }
    TransformerSpec deeper = spec;
    deeper.layers *= 2, deeper.window_layers *= 2;
    StepShape s;
    s.decode_seqs = 8, s.decode_context = 1000;
    EXPECT_GT(StepPredictor(build_transformer(deeper), plan, c).step(s).seconds, p.step(s).seconds);
  });
}

TEST(G7, TimeIsAtLeastEachLedgerOverItsPeak) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    Plan flat = plan;
    flat.pp = 1;
    StepPredictor p(g, flat, cluster_of(flat));
    StepTime t = p.step(random_shape(r));
    EXPECT_GE(t.seconds, t.ops / p.rates().peak8);
    double weight_and_state = p.ledger().weight() + p.ledger().state();
    EXPECT_GE(t.seconds, weight_and_state / p.rates().memory_peak);
    EXPECT_NEAR(t.seconds, t.compute + t.memory + t.link + t.latency + t.power, 1e-12 + 1e-9 * t.seconds);
    // With every collective hidden the links still take their time, and so do the operators.
    StepShape s = random_shape(r);
    Plan hidden = flat;
    hidden.overlap_tp = 1;
    StepTime open = p.step(s), h = StepPredictor(g, hidden, cluster_of(hidden)).step(s);
    double link = 0;
    for (const Line& line : p.ledger().lines)
      link += time_of(p.program().ops[line.op], line, p.binding(), p.rates()).link * line.times;
    EXPECT_GE(h.seconds * (1 + 1e-12), link);
    EXPECT_LE(h.seconds, open.seconds * (1 + 1e-12));
  });
}

TEST(G8, BatchOfIndependentRequestsCostsAtMostTheSum) {
  for_random_cases([](Random&, const TransformerSpec& spec, const Plan& plan) {
    Graph g = build_transformer(spec);
    StepPredictor p(g, plan, cluster_of(plan));
    StepShape s;
    s.decode_seqs = 1, s.decode_context = 3000;
    double one = p.step(s).seconds;
    for (int batch : {2, 7, 64, 200}) {
      s.decode_seqs = batch;
      EXPECT_LE(p.step(s).seconds, batch * one * (1 + 1e-12)) << batch;
    }
  });
}

TEST(G9, TimeIsTheSumOfItsLines) {
  for_random_cases([](Random& r, const TransformerSpec& spec, const Plan& plan) {
    Plan flat = plan;
    flat.pp = 1;
    StepPredictor p(build_transformer(spec), flat, cluster_of(flat));
    StepTime t = p.step(random_shape(r));
    double sum = t.power;
    for (const Line& line : p.ledger().lines)
      sum += time_of(p.program().ops[line.op], line, p.binding(), p.rates()).seconds * line.times;
    EXPECT_NEAR(sum, t.seconds, 1e-12 * t.seconds);
  });
}

TEST(G10, SearchDoesNotDependOnThreadsOrParts) {
  Graph g = build_transformer(load_transformer("Mixtral-8x7B"));
  Cluster c{load_profile("h200"), 8};
  SearchQuestion q;
  q.engine = find_engine("vllm");
  q.fine = true, q.threads = 1;
  std::string one = search_document(g, {}, c, q).dump();
  q.threads = 4;
  EXPECT_EQ(search_document(g, {}, c, q).dump(), one);
  SearchResult all;
  q.parts = 3;
  for (q.part = 0; q.part < 3; ++q.part) merge(all, search(g, {}, c, q), q.goal);
  EXPECT_EQ(search_document(all, g.name, c, q).dump(), one);
}

TEST(G10, SameQuestionSameAnswer) {
  Graph g = build_transformer(load_transformer("Mixtral-8x7B"));
  SearchQuestion q;
  q.engine = find_engine("vllm");
  Cluster c{load_profile("h200"), 4};
  EXPECT_EQ(search_document(g, {}, c, q).dump(), search_document(g, {}, c, q).dump());
}

TEST(G11, TheUnknownIsRefusedByName) {
  auto message = [](const std::string& config) {
    try {
      read_hf_config(config, "config.json");
    } catch (const base::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message(R"({"architectures":["NewForCausalLM"]})").find("NewForCausalLM"), std::string::npos);
  EXPECT_NE(
      message(
          R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096,"num_hidden_layers":2,"num_attention_heads":32,
    "vocab_size":100,"intermediate_size":11008,"surprise":7})")
          .find("surprise"),
      std::string::npos);
  EXPECT_NE(message(R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096})").find("num_hidden_layers"),
            std::string::npos);
  EXPECT_THROW(parse_dtype("fp7"), base::Error);
  EXPECT_THROW(load_transformer("no-such-model"), base::Error);
  EXPECT_THROW(parse_cluster("h200:x"), base::Error);
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  EXPECT_THROW(apply_verb("accelerate 2x", g, p), base::Error);
  EXPECT_THROW(apply_verb("requant weight fp7", g, p), base::Error);
  EXPECT_THROW(apply_verb("requant weight fp8 twice", g, p), base::Error);
}

TEST(G11, TwoTraps) {
  TransformerSpec falcon =
      read_hf_config(R"({"architectures":["FalconForCausalLM"],"hidden_size":4544,"num_hidden_layers":32,
    "num_attention_heads":71,"num_kv_heads":71,"multi_query":true,"parallel_attn":true,"bias":false,"alibi":false,"vocab_size":65024,
    "new_decoder_architecture":false})",
                     "falcon");
  EXPECT_EQ(falcon.kv_heads, 1);
  EXPECT_EQ(count_parameters(build_transformer(falcon)).total, 6921720704.0);
  EXPECT_THROW(
      read_hf_config(
          R"({"architectures":["BloomForCausalLM"],"_name_or_path":"bigscience/bloom","hidden_size":12288,
    "n_layer":96,"n_head":96,"vocab_size":250880})",
          "bloom"),
      base::Error);
  TransformerSpec bloom = read_hf_config(
      R"({"architectures":["BloomForCausalLM"],"_name_or_path":"bigscience/bloom","n_embed":14336,
    "n_layer":70,"num_attention_heads":112,"vocab_size":250880})",
      "bloom");
  EXPECT_EQ(count_parameters(build_transformer(bloom)).total, 176247271424.0);
}

TEST(Speed, StepPredictions) {
  Graph g = build_transformer(load_transformer("Llama-3.1-70B"));
  Plan plan;
  plan.tp = 4;
  StepPredictor p(g, plan, cluster_of(plan));
  StepShape s;
  s.decode_seqs = 8;
  std::clock_t start = std::clock();
  double sum = 0;
  for (int i = 0; i < 20000; ++i) {
    s.decode_context = i;
    sum += p.step(s).seconds;
  }
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("steps_per_second", std::to_string(20000 / seconds));
  EXPECT_GT(sum, 0);
  EXPECT_GT(20000 / seconds, 1e5);
  printf("%.0f step predictions a second of CPU\n", 20000 / seconds);
}

}  // namespace
}  // namespace orrery::graph
