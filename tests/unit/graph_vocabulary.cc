// Formats, verbs, plans, graph files and denoiser configs: what is accepted and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "../error_of.h"
#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

using testing::HasSubstr;

TEST(DTypes, BitsIncludeScales) {
  EXPECT_EQ(parse_dtype("int4 g128").bits, 4.15625);  // 4 + 16/128 + 4/128
  EXPECT_EQ(parse_dtype("int4-g128").bits, 4.15625);
  EXPECT_EQ(parse_dtype("mxfp4").bits, 4.25);
  EXPECT_EQ(parse_dtype("nvfp4").bits, 4.5);
  EXPECT_NEAR(parse_dtype("nf4 dq").bits, 4.127, 0.001);
  EXPECT_EQ(parse_dtype("vq 256x4").bits, 2);
  for (const char* bad : {"", "fp5", "int4 g0", "int4 g-1", "fp8 g128", "vq 256", "int4 g128x"})
    EXPECT_THAT(error_of([&] { parse_dtype(bad); }), testing::Not("no error")) << bad;
}

TEST(Verbs, EachHasGrammarAndDescription) {
  EXPECT_EQ(verbs().size(), 18u);
  for (const Verb& verb : verbs()) {
    EXPECT_FALSE(verb.grammar.empty());
    EXPECT_GT(verb.description.size(), 20u);
  }
}

TEST(Verbs, RefusalsNameTheGrammar) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  EXPECT_THAT(error_of([&] { apply_verb("speed-up 2", g, p); }), HasSubstr("the verbs are requant"));
  EXPECT_THAT(error_of([&] { apply_verb("speculate 4", g, p); }), HasSubstr("declare the acceptance rate"));
  EXPECT_THAT(error_of([&] { apply_verb("shard tensor 3", g, p); }),
              HasSubstr("32 heads cannot be divided over 3"));
  EXPECT_THAT(error_of([&] { apply_verb("shard tensor", g, p); }), HasSubstr("grammar: shard"));
  EXPECT_THAT(error_of([&] { apply_verb("replace kv_heads 5", g, p); }), HasSubstr("multiple"));
  EXPECT_THAT(error_of([&] { apply_verb("fuse qkv", g, p); }), HasSubstr("only map and reduce"));
  EXPECT_THAT(error_of([&] { apply_verb("sparsify 1:4", g, p); }), HasSubstr("2:4"));
  EXPECT_THAT(error_of([&] { apply_verb("place kv tape", g, p); }), HasSubstr("device, host, nvme or remote"));
}

TEST(Verbs, FuseRemovesTrafficNotWork) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  StepShape s;
  s.decode_seqs = 4, s.decode_context = 100;
  Plan p;
  auto totals = [&](const Graph& graph) {
    Ledger l;
    walk(compile(graph, p), bind(graph, p, s), l);
    return std::pair(l.ops(), l.activation());
  };
  auto before = totals(g);
  apply_verb("fuse swiglu", g, p);
  auto after = totals(g);
  EXPECT_EQ(before.first, after.first);
  EXPECT_LT(after.second, before.second);
}

TEST(Place, BytesOnAnotherTierCrossTheHostLink) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Cluster h100{load_profile("h100"), 1};
  StepShape s;
  s.decode_seqs = 1, s.decode_context = 100;
  auto seconds = [&](std::initializer_list<const char*> list) {
    Graph copy = g;
    Plan p;
    for (const char* verb : list) apply_verb(verb, copy, p);
    return StepPredictor(copy, p, h100).step(s).seconds;
  };
  double here = seconds({}), away = seconds({"place weight host"}),
         hidden = seconds({"place weight host", "prefetch 1"});
  double link = 2 * 7504658432.0 / (63e9 * 0.85);  // 16-bit weights of a token over PCIe 5
  EXPECT_NEAR(away, here + link, 0.01 * link);
  EXPECT_NEAR(hidden, link, 0.01 * link);
  EXPECT_LT(seconds({"place weight host share 0.5"}), away);
  EXPECT_LT(seconds({"place weight host compute-follows"}), away);
  Plan p;
  Graph copy = g;
  apply_verb("place weight host share 0.75", copy, p);
  FitAnswer a = fit(copy, p, h100, 1, 1000, find_engine("none"));
  EXPECT_NEAR(a.items[0].bytes, 0.25 * 2 * 8030261248.0, 1);
}

TEST(Plans, CollectivesFollowFromDivision) {
  Graph g = build_transformer(load_transformer("Llama-3.1-8B"));
  Plan p;
  p.tp = 4;
  Program program = compile(g, p);
  int reduces = 0;
  for (const ProgramOp& op : program.ops)
    if (op.collective == Collective::kAllReduce && op.repeat > 1) ++reduces;
  EXPECT_EQ(reduces, 2);                                             // after o and after down, in every layer
  EXPECT_EQ(compile(g, Plan{}).ops.size() + 4, program.ops.size());  // and for the embedding, and the logits
}

TEST(Timeline, PeakIsItsMaximum) {
  Graph g = build_transformer(load_transformer("Mixtral-8x7B"));
  Plan p;
  Program program = compile(g, p);
  Binding b = fit_binding(g, p, 8, 2000);
  double peak = 0;
  for (const auto& [op, bytes] : activation_timeline(program, b)) peak = std::max(peak, bytes);
  EXPECT_EQ(peak, activation_peak(program, b));
  FitAnswer a = fit(g, p, {load_profile("h200"), 1}, 8, 2000, find_engine("none"));
  for (const MemoryItem& item : a.items)
    if (item.what == "activations") {
      EXPECT_EQ(item.bytes, peak);
    }
}

/// A file of this text, which is gone when the tests are over.
std::string temporary(const std::string& text) {
  static struct Files {
    std::vector<std::filesystem::path> all;
    ~Files() {
      std::error_code ignored;
      for (const auto& path : all) std::filesystem::remove(path, ignored);
    }
  } files;
  files.all.push_back(std::filesystem::temp_directory_path() / ("orrery-graph-" + std::to_string(getpid()) + "-" + std::to_string(files.all.size()) + ".toml"));
  std::ofstream(files.all.back()) << text;
  return files.all.back().string();
}

constexpr const char* kSmall = R"(name = "small"
[axes]
inner = 64
outer = 128
[[block]]
name = "mlp"
repeat = 3
layer = true
tensors = [ { name = "x", axes = ["tokens", "inner"] }, { name = "w", axes = ["inner", "outer"], class = "weight" },
            { name = "y", axes = ["tokens", "outer"] } ]
ops = [ { kind = "contract", name = "up", in = ["x", "w"], out = ["y"] } ]
)";

// Wan from a picture: 16.4 G parameters in both forms of its config.
TEST(Denoisers, WanFromAPicture) {
  for (const char* config :
       {R"({"_class_name":"WanModel","dim":5120,"eps":1e-06,"ffn_dim":13824,"freq_dim":256,"in_dim":36,
            "model_type":"i2v","num_heads":40,"num_layers":40,"out_dim":16,"text_len":512})",
        R"({"_class_name":"WanTransformer3DModel","added_kv_proj_dim":5120,"attention_head_dim":128,
            "cross_attn_norm":true,"eps":1e-06,"ffn_dim":13824,"freq_dim":256,"image_dim":1280,
            "in_channels":36,"num_attention_heads":40,"num_layers":40,"out_channels":16,"patch_size":[1,2,2],
            "qk_norm":"rms_norm_across_heads","rope_max_seq_len":1024,"text_dim":4096})"}) {
    RenderShape shape;
    Graph g = build_denoiser(read_denoiser_config(config, "i2v"), shape);
    EXPECT_NEAR(count_parameters(g).total, 16.4e9, 0.05e9);
  }
}

TEST(GraphFiles, CountLikeAnyGraph) {
  Graph g = read_graph_file(temporary(kSmall));
  EXPECT_EQ(count_parameters(g).total, 3 * 64 * 128);
  StepShape s;
  s.prefill_tokens = 10, s.prefill_seqs = 1;
  Ledger l;
  Plan p;
  walk(compile(g, p), bind(g, p, s), l);
  EXPECT_EQ(l.ops(), 3 * 2.0 * 10 * 64 * 128);
  EXPECT_EQ(l.weight(), 3 * 2.0 * 64 * 128);
  EXPECT_EQ(l.activation(), 3 * 2.0 * 10 * (64 + 128));
}

// A branch runs in its share of the iterations, a phase for its tokens; both hold all their weights.
TEST(GraphFiles, BranchesAndPhases) {
  auto with = [](const std::string& lines) {
    std::string text = kSmall;
    text.replace(text.find("layer = true"), 12, "layer = true\n" + lines);
    return read_graph_file(temporary(text));
  };
  double token = 3 * 2.0 * 64 * 128;
  auto operations = [](const Graph& g, double decode, double prefill) {
    StepShape s;
    s.decode_seqs = decode, s.decode_context = 5, s.prefill_tokens = prefill, s.prefill_seqs = prefill > 0;
    Plan p;
    Program program = compile(g, p);
    Ledger l;
    walk(program, bind(g, p, s), l);
    return l.ops();
  };
  Graph branch = with("share = 0.25"), prefill = with("phase = \"prefill\""),
        decode = with("phase = \"decode\"");
  EXPECT_EQ(count_parameters(branch).total, 3 * 64 * 128);
  EXPECT_EQ(operations(branch, 0, 10), 0.25 * 10 * token);
  EXPECT_EQ(operations(prefill, 4, 10), 10 * token);
  EXPECT_EQ(operations(prefill, 4, 0), 0);
  EXPECT_EQ(operations(decode, 4, 10), 4 * token);
  EXPECT_EQ(operations(decode, 0, 10), 0);
  EXPECT_THAT(error_of([&] { with("phase = \"training\""); }), HasSubstr("unknown phase 'training'"));
  EXPECT_THAT(error_of([&] { with("share = 1.5"); }), HasSubstr("share must not exceed 1"));
  EXPECT_THAT(error_of([&] { with("share = \"half\""); }), HasSubstr("must be a number"));
}

// The seam to the kernel scale: an operator takes as long as the kernels that it is bound to.
TEST(GraphFiles, OperatorsBoundToTimedKernels) {
  std::string records = temporary(
      R"([{"kernel": "up_kernel", "us": 12.5, "joules": 0.004}, {"kernel": "other", "us": 3.0, "joules": 0.001}])");
  auto with = [&](const std::string& fields) {
    std::string text = kSmall;
    text.replace(text.find("out = [\"y\"]"), 11, "out = [\"y\"], timed = \"" + records + "\"" + fields);
    return read_graph_file(temporary(text));
  };
  StepShape s;
  s.prefill_tokens = 10, s.prefill_seqs = 1;
  Graph g = with(", kernel = \"up\"");
  StepPredictor p(g, Plan{}, {load_profile("h200"), 1});
  EXPECT_NEAR(p.step(s).seconds, 3 * 12.5e-6, 1e-12);
  EXPECT_NEAR(p.step(s).joules, 3 * 0.004, 1e-9);
  EXPECT_NEAR(StepPredictor(with(""), Plan{}, {load_profile("h200"), 1}).step(s).seconds, 3 * 15.5e-6, 1e-12);
  EXPECT_THAT(error_of([&] { with(", kernel = \"down\""); }), HasSubstr("has no kernel 'down'"));
}

TEST(GraphFiles, RefusalsNameFileAndLine) {
  auto broken = [](std::string from, std::string to) {
    std::string text = kSmall;
    text.replace(text.find(from), from.size(), to);
    std::string path = temporary(text);
    return error_of([&] { read_graph_file(path); });
  };
  EXPECT_THAT(broken("\"contract\"", "\"convolve\""), HasSubstr("unknown operator kind 'convolve'"));
  EXPECT_THAT(broken("\"x\", \"w\"", "\"x\", \"v\""), HasSubstr("no tensor 'v' before this"));
  EXPECT_THAT(broken("repeat = 3", "repeat = -3"), HasSubstr("positive"));
  EXPECT_THAT(broken("inner = 64", "inner = 0"), HasSubstr("positive"));
  EXPECT_THAT(broken("class = \"weight\"", "kind = \"weight\""), HasSubstr("unknown key 'kind'"));
  EXPECT_THAT(broken("[\"inner\", \"outer\"]", "[\"inner\", \"width\"]"), HasSubstr("no axis 'width'"));
}

TEST(DenoiserConfigs, FluxAsPublished) {
  std::string text =
      R"({"_class_name":"FluxTransformer2DModel","patch_size":1,"in_channels":64,"num_layers":19,
    "num_single_layers":38,"attention_head_dim":128,"num_attention_heads":24,"joint_attention_dim":4096,
    "pooled_projection_dim":768,"guidance_embeds":true,"axes_dims_rope":[16,56,56]})";
  DiffusionSpec s = read_denoiser_config(text, "flux");
  EXPECT_EQ(count_parameters(build_denoiser(s, {})).total, 11901408320.0);
  EXPECT_THAT(error_of([] { read_denoiser_config(R"({"_class_name":"NewModel"})", "x"); }),
              HasSubstr("unknown denoiser class 'NewModel'"));
  EXPECT_THAT(
      error_of([&] { read_denoiser_config(R"({"_class_name":"WanTransformer3DModel","twist":1})", "x"); }),
      HasSubstr("num_attention_heads"));
}

TEST(HfConfigs, GptOssAsPublished) {
  std::string types;
  for (int i = 0; i < 36; ++i)
    types += std::string(i ? "," : "") + (i % 2 ? "\"full_attention\"" : "\"sliding_attention\"");
  TransformerSpec s = read_hf_config(
      R"({"architectures":["GptOssForCausalLM"],"attention_bias":true,"head_dim":64,"hidden_size":2880,
    "intermediate_size":2880,"num_attention_heads":64,"num_key_value_heads":8,"num_hidden_layers":36,"num_local_experts":128,
    "num_experts_per_tok":4,"experts_per_token":4,"sliding_window":128,"vocab_size":201088,"tie_word_embeddings":false,"layer_types":[)" +
          types + "]}",
      "gpt-oss");
  EXPECT_EQ(count_parameters(build_transformer(s)).total, 116829156672.0);
  EXPECT_EQ(s.window_layers, 18);
}

double parameters(const std::string& config) {
  return count_parameters(build_transformer(read_hf_config(config, "config.json"))).total;
}

// Totals are those of the published checkpoints (sum of tensor sizes).
TEST(HfConfigs, HybridsAsPublished) {
  EXPECT_EQ(
      parameters(
          R"({"architectures":["MambaForCausalLM"],"hidden_size":2560,"num_hidden_layers":64,"vocab_size":50280,
    "state_size":16,"conv_kernel":4,"expand":2,"intermediate_size":5120,"time_step_rank":160,"use_bias":false})"),
      2768345600.0);
  EXPECT_EQ(
      parameters(
          R"({"architectures":["JambaForCausalLM"],"hidden_size":4096,"num_hidden_layers":32,"vocab_size":65536,
    "num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"num_experts":16,"num_experts_per_tok":2,
    "attn_layer_period":8,"attn_layer_offset":4,"expert_layer_period":2,"expert_layer_offset":1,"mamba_d_state":16,
    "mamba_d_conv":4,"mamba_expand":2,"mamba_dt_rank":256,"mamba_conv_bias":true,"mamba_proj_bias":false})"),
      51570323328.0);
  EXPECT_EQ(
      parameters(R"({"architectures":["RecurrentGemmaForCausalLM"],"hidden_size":2560,"num_hidden_layers":26,
    "vocab_size":256000,"num_attention_heads":10,"num_key_value_heads":1,"head_dim":256,"intermediate_size":15360,
    "lru_width":2560,"conv1d_width":4,"attention_window_size":2048,"block_types":["recurrent","recurrent","attention"]})"),
      2682862080.0);
  EXPECT_EQ(
      parameters(
          R"({"architectures":["FalconH1ForCausalLM"],"hidden_size":1024,"num_hidden_layers":36,"vocab_size":32784,
    "num_attention_heads":8,"num_key_value_heads":2,"head_dim":64,"intermediate_size":2048,"mamba_d_ssm":1536,
    "mamba_n_heads":24,"mamba_d_head":64,"mamba_n_groups":1,"mamba_d_state":128,"mamba_d_conv":4,"mamba_rms_norm":false})"),
      521411104.0);
  EXPECT_EQ(
      parameters(
          R"({"architectures":["Qwen3NextForCausalLM"],"hidden_size":2048,"num_hidden_layers":48,"vocab_size":151936,
    "num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"num_experts":512,"num_experts_per_tok":10,
    "moe_intermediate_size":512,"shared_expert_intermediate_size":512,"linear_num_key_heads":16,"linear_num_value_heads":32,
    "linear_key_head_dim":128,"linear_value_head_dim":128,"linear_conv_kernel_dim":4,"full_attention_interval":4})"),
      79674391296.0);
}

TEST(HfConfigs, NemotronHLayersFollowThePattern) {
  const char* config =
      R"({"architectures":["NemotronHForCausalLM"],"hidden_size":4096,"num_hidden_layers":52,"vocab_size":131072,
    "num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":21504,"mamba_num_heads":128,
    "mamba_head_dim":64,"n_groups":8,"ssm_state_size":128,"conv_kernel":4,
    "hybrid_override_pattern":"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"})";
  EXPECT_NEAR(parameters(config), 8.10e9, 0.01e9);
  // Keys and values of four attention layers only.
  Graph g = build_transformer(read_hf_config(config, "config.json"));
  EXPECT_EQ(compile(g, Plan{}).state_bytes.coefficient[kKeys], 4 * 2 * 8 * 128 * 2);
  EXPECT_THAT(error_of([] { read_hf_config(R"({"architectures":["RwkvForCausalLM"]})", "rwkv"); }),
              HasSubstr("unknown architecture 'RwkvForCausalLM'"));
}

}  // namespace
}  // namespace orrery::graph
