// Denoisers step by step and compiled, and weights that come one matrix at a time. Counted by hand from
// diffusers' modules; memory and shapes of its published benchmark.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "graph/autoencoder.h"
#include "graph/render.h"
#include "graph/validate.h"
#include "graph/verbs.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("orrery_pairs_" + std::to_string(::getpid()))) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Bytes that the element-wise operators of a block move in one iteration; those whose names begin so.
double element_bytes(const DiffusionSpec& spec, const RenderShape& shape, const std::string& block,
                     const std::string& begin = "") {
  Graph graph = build_denoiser(spec, shape);
  Program program = compile(graph, Plan{});
  Ledger ledger;
  walk(program, denoiser_binding(spec, shape, 1), ledger);
  double sum = 0;
  for (const Line& line : ledger.lines) {
    const ProgramOp& op = program.ops[line.op];
    bool product = op.kind == OpKind::kContract || op.kind == OpKind::kAttend;
    if (!product && !op.fused && graph.blocks[op.block].name == block &&
        graph.ops[op.op].name.starts_with(begin))
      sum += line.activation;
  }
  return sum;
}

// What is rendered when nobody asks for a size: DiT-XL/2's name says 256 pixels.
TEST(RenderSizes, ThoseThatACheckpointWasMadeFor) {
  for (auto [name, width, height, frames] : {std::tuple{"DiT-XL/2 (256)", 256, 256, 1},
                                             {"PixArt-XL/2 (alpha, 1024)", 1024, 1024, 1},
                                             {"flux-dev", 1024, 1024, 1},
                                             {"wan14b", 832, 480, 81},
                                             {"LTX-Video-2B", 704, 512, 161}}) {
    RenderShape shape = usual_shape(load_denoiser(name));
    EXPECT_EQ(std::tuple(shape.width, shape.height, shape.frames), std::tuple(width, height, frames)) << name;
  }
}

// A stream of 4,608 tokens of 3,072 in 16 bits is the unit. Joined 2, norm, scale and shift 6, gelu four
// times as wide 8, norms of queries and keys 4; each rotated: half negated 1.5, stacked 2.5, widened twice 6,
// times cosine and sine in 32 bits 8, added 6, narrowed 3; joined at five times the width 10, gate 2,
// residual 3.
TEST(RenderSteps, FluxSingleBlock) {
  DiffusionSpec flux = load_denoiser("flux-dev");
  double unit = 4608.0 * 3072 * 2;
  EXPECT_NEAR(element_bytes(flux, {}, "single") / unit, 2 + 6 + 8 + 4 + 2 * 27 + 10 + 2 + 3, 0.01);
  flux.compiled = true;  // norm 2; gelu and attention's result read, 4 + 1, and written, 5; residual 3
  EXPECT_NEAR(element_bytes(flux, {}, "single") / unit, 2 + 4 + 1 + 5 + 3, 0.01);
}

// LTX rotates whole streams by tables of its own: 27 times 2 bytes an element, as FLUX, and 4 of a cosine
// where the one product takes it, 4 of a sine where the other does.
TEST(RenderSteps, RotaryTablesOfLtx) {
  DiffusionSpec ltx = load_denoiser("LTX-Video-13B");
  RenderShape shape;
  shape.width = 704, shape.height = 512, shape.frames = 161;
  double elements = latent_tokens(ltx, shape) * ltx.hidden;
  EXPECT_NEAR(element_bytes(ltx, shape, "layer", "q.rotated") / elements, 27 * 2 + 4 + 4, 0.01);
}

double denoiser_gib(const RenderAnswer& a, const Cluster& c) {
  for (const RenderStage& s : a.stages)
    if (s.name == "denoiser") return (s.bytes() - c.gpu.context_bytes().value()) / kGiB;
  return 0;
}

// diffusers' benchmark: what the framework allocated at its peak, with the next matrix on its way.
TEST(RenderLeaves, MemoryOfTheBenchmark) {
  Cluster l40s{load_profile("l40s"), 1};
  RenderQuestion q;
  q.steps = q.passes = 1, q.layer_offload = true, q.verbs = {"prefetch 1"};
  EXPECT_NEAR(denoiser_gib(render(load_denoiser("flux-dev"), {}, l40s, q), l40s) / 0.55, 1, 0.05);
  q.shape.width = 704, q.shape.height = 512, q.shape.frames = 161;
  EXPECT_NEAR(denoiser_gib(render(load_denoiser("LTX-Video-13B"), {}, l40s, q), l40s) / 1.04, 1, 0.05);
}

TEST(RenderLeaves, CopiesHideBehindTheMatrixBefore) {
  Cluster l40s{load_profile("l40s"), 1};
  DiffusionSpec flux = load_denoiser("flux-dev");
  RenderQuestion q;
  q.steps = q.passes = 1;
  double stays = render(flux, {}, l40s, q).forward_seconds;
  q.layer_offload = true;
  double waits = render(flux, {}, l40s, q).forward_seconds, copy = waits - stays;
  EXPECT_NEAR(copy * render_rates(l40s).host, 11901408320.0 * 2, 1e6);
  q.verbs = {"prefetch 1"};
  double hides = render(flux, {}, l40s, q).forward_seconds;
  EXPECT_GT(hides, std::max(copy, stays));
  EXPECT_LT(hides, waits);
  // A picture of few pixels hides less: the copies are the same, the operators shorter.
  q.shape.width = q.shape.height = 256;
  EXPECT_NEAR(render(flux, {}, l40s, q).forward_seconds / copy, 1, 0.15);
}

// A denoiser whose weights are stored in 32 bits multiplies in 16, beside the copies too: few frames hide
// what their operators take, and what the link carries takes as long as alone.
TEST(RenderLeaves, CopiesOf32BitWeightsTakeTheLinksTime) {
  Cluster h100{load_profile("h100"), 1};
  DiffusionSpec wan = load_denoiser("wan14b");
  for (int frames : {1, 5, 21}) {
    RenderQuestion q;
    q.steps = q.passes = 1;
    q.shape.width = 832, q.shape.height = 480, q.shape.frames = frames;
    double stays = render(wan, {}, h100, q).forward_seconds;
    q.layer_offload = true;
    double waits = render(wan, {}, h100, q).forward_seconds;
    q.verbs = {"prefetch 1"};
    double hides = render(wan, {}, h100, q).forward_seconds;
    EXPECT_GE(hides, std::max(waits - stays, stays) * (1 - 1e-9)) << frames;
    EXPECT_LT(hides, waits) << frames;
  }
}

// A row of a forward is predicted for the GPU that it names.
TEST(RenderRows, ForwardsOfOtherGpus) {
  Folder folder;
  const std::string head = "model,scope,gpu,gpus,resolution,variant,seconds,peak_gb\n",
                    row = ",1,benchmark default,bf16,1,30\n", of = "FLUX.1-dev,one denoiser forward,";
  folder.write("rows.csv", head + of + "L40 (CI; stated)" + row + of + "H100-80GB" + row);
  RenderAccuracy r = validate_render(folder.path() + "/rows.csv");
  ASSERT_EQ(r.time.compared.size(), 2u);
  EXPECT_GT(r.time.compared[0].predicted, 1.5 * r.time.compared[1].predicted);
}

TEST(RenderSteps, WhatCannotBeCompiledIsRefusedByName) {
  RenderQuestion q;
  q.compiled = true, q.shape.width = 832, q.shape.height = 480, q.shape.frames = 81;
  EXPECT_THROW(render(load_denoiser("wan14b"), {}, {load_profile("h100"), 1}, q), base::Error);
}

// 40 levels from 1 to 1/40: those of x >= 0.875 / (12 - 11 * 0.875) = 0.368 are shifted to 0.875 or more, 26
// of them; of x >= 0.9 / (5 - 4 * 0.9) = 0.643, 15.
TEST(RenderPairs, StepsByNoiseLevel) {
  DiffusionSpec text = load_denoiser("Wan2.2-T2V-A14B"), picture = load_denoiser("Wan2.2-I2V-A14B");
  EXPECT_EQ(first_steps(text, 40), 26);
  EXPECT_EQ(first_steps(picture, 40), 15);
  EXPECT_EQ(first_steps(load_denoiser("wan14b"), 50), 50);
}

TEST(RenderPairs, OneIsOnTheGpuOrBoth) {
  Cluster h100{load_profile("h100"), 1};
  RenderQuestion q;
  q.shape.width = 832, q.shape.height = 480, q.shape.frames = 81, q.steps = 40;
  RenderAnswer one = render(load_denoiser("wan14b"), {}, h100, q),
               two = render(load_denoiser("Wan2.2-T2V-A14B"), {}, h100, q);
  EXPECT_EQ(two.peak_bytes, one.peak_bytes);
  EXPECT_EQ(two.parameters, 2 * one.parameters);
  double bytes = one.parameters * 4;
  EXPECT_NEAR(two.denoise_seconds - one.denoise_seconds, 2 * bytes / render_rates(h100).host, 1e-6);
  q.stay = true;
  EXPECT_NEAR(render(load_denoiser("Wan2.2-T2V-A14B"), {}, h100, q).peak_bytes -
                  render(load_denoiser("wan14b"), {}, h100, q).peak_bytes,
              bytes, 1);
}

// One GPU divides nothing: ZeRO 3 on it leaves one denoiser at a time there; on two GPUs both stay.
TEST(RenderPairs, BothStayWhereRanksDivideThem) {
  RenderQuestion q;
  q.shape.width = 832, q.shape.height = 480, q.shape.frames = 81, q.steps = 40;
  Cluster two{load_profile("h100"), 2};
  DiffusionSpec wan = load_denoiser("Wan2.2-T2V-A14B");
  Plan plan;
  double one_at_a_time = render(wan, plan, two, q).switch_seconds;
  EXPECT_GT(one_at_a_time, 0);
  plan.zero = 3;
  EXPECT_EQ(render(wan, plan, two, q).switch_seconds, one_at_a_time);
  plan.cp = 2;
  EXPECT_EQ(render(wan, plan, two, q).switch_seconds, 0);
}

// A compiler frees at its last use what PyTorch's functions hold until they return.
TEST(RenderSteps, CompiledHoldsNothing) {
  DiffusionSpec flux = load_denoiser("flux-dev");
  flux.compiled = true;
  for (const Op& op : build_denoiser(flux, {}).ops) EXPECT_TRUE(op.held.empty()) << op.name;
}

// What is asked for already is not advised again; what the last advice takes away stands in it.
TEST(RenderAdvice, SaysAllThatItChanges) {
  RenderQuestion q;
  q.shape.width = 1280, q.shape.height = 720, q.shape.frames = 161, q.stay = q.layer_offload = true;
  Cluster small{load_profile("rtx4090"), 1};
  DiffusionSpec wan = load_denoiser("Wan2.2-T2V-A14B");
  std::vector<std::string> advice = render_advice(wan, {}, small, q, render(wan, {}, small, q));
  ASSERT_GT(advice.size(), 1u);
  for (const std::string& a : advice) {
    EXPECT_EQ(a.find("--layer-offload"), std::string::npos) << a;
    EXPECT_EQ(std::count(advice.begin(), advice.end(), a), 1) << a;
  }
  EXPECT_TRUE(advice.back().starts_with("without --stay --encoder-on-host: ") ||
              advice.back().find(", fits, ") != std::string::npos)
      << advice.back();
}

TEST(RenderAdvice, WhatMakesItFit) {
  RenderQuestion q;
  q.shape.width = 832, q.shape.height = 480, q.shape.frames = 81;
  Cluster small{load_profile("rtx4090"), 1};
  DiffusionSpec wan = load_denoiser("Wan2.2-T2V-A14B");
  std::vector<std::string> advice = render_advice(wan, {}, small, q, render(wan, {}, small, q));
  ASSERT_FALSE(advice.empty());
  EXPECT_NE(advice.front().find("while the denoiser runs"), std::string::npos);
  auto leaves = std::find_if(advice.begin(), advice.end(),
                             [](const std::string& a) { return a.starts_with("--layer-offload"); });
  ASSERT_NE(leaves, advice.end());
  EXPECT_NE(leaves->find("GiB, fits, in"), std::string::npos);
  Cluster large{load_profile("h200"), 1};
  EXPECT_TRUE(render_advice(wan, {}, large, q, render(wan, {}, large, q)).empty());
}

TEST(RenderPairs, WansOwnFoldersAreTwo) {
  const std::string config =
      R"({"_class_name": "WanModel", "model_type": "t2v", "dim": 5120, "num_heads": 40, "num_layers": 40, "in_dim": 16,
          "out_dim": 16, "ffn_dim": 13824, "freq_dim": 256, "text_len": 512, "eps": 1e-6})";
  Folder folder;
  folder.write("high_noise_model/config.json", config);
  EXPECT_EQ(load_denoiser(folder.path() + "/high_noise_model").denoisers, 1) << "the other one is not there";
  folder.write("low_noise_model/config.json", config);
  EXPECT_EQ(load_denoiser(folder.path() + "/high_noise_model").denoisers, 2);
}

TEST(RenderPairs, FoundByTheFoldersOfAPipeline) {
  const std::string config =
      R"({"_class_name": "WanTransformer3DModel", "num_attention_heads": 40, "attention_head_dim": 128, "num_layers": 40,
          "in_channels": 16, "out_channels": 16, "ffn_dim": 13824, "text_dim": 4096, "patch_size": [1, 2, 2],
          "cross_attn_norm": true, "qk_norm": "rms_norm_across_heads", "freq_dim": 256, "eps": 1e-6})";
  Folder folder;
  folder.write("transformer/config.json", config);
  EXPECT_EQ(load_denoiser(folder.path()).denoisers, 1);
  folder.write("transformer_2/config.json", config);
  EXPECT_THROW(load_denoiser(folder.path()), base::Error) << "the boundary is nowhere";
  folder.write("model_index.json", R"({"boundary_ratio": 0.875})");
  folder.write("scheduler/scheduler_config.json", R"({"flow_shift": 12.0})");
  DiffusionSpec pair = load_denoiser(folder.path() + "/transformer_2");
  EXPECT_EQ(pair.denoisers, 2);
  EXPECT_EQ(first_steps(pair, 40), 26);
  // From inside the folder its name is still the pipeline's.
  std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path() + "/transformer");
  EXPECT_EQ(load_denoiser("config.json").denoisers, 2);
  EXPECT_EQ(load_denoiser(".").denoisers, 2);
  std::filesystem::current_path(before);
  // Latents of an autoencoder that is not known.
  std::string wide = config;
  wide.replace(wide.find("16, \"out"), 2, "24");
  folder.write("transformer/config.json", wide);
  EXPECT_THROW(load_denoiser(folder.path()), base::Error);
}

// Elements of the published checkpoints: 2,028,328,000 and 8,056,627,520 of SD3, 2,243,171,520 of 3.5 medium (13 layers
// with a second attention), 4,999,787,712 of Wan 2.2's 5B model; its autoencoder's file of 2.82 GB has 4 bytes each.
TEST(RenderConfigs, StableDiffusion3AndTheSmallWan) {
  auto sd3 = [](const std::string& more) {
    return read_denoiser_config(R"({"_class_name":"SD3Transformer2DModel","attention_head_dim":64,"caption_projection_dim":1536,
      "in_channels":16,"joint_attention_dim":4096,"num_attention_heads":24,"num_layers":24,"out_channels":16,"patch_size":2,
      "pooled_projection_dim":2048,"pos_embed_max_size":192,"sample_size":128)" + more + "}", "config.json");
  };
  auto parameters = [](const DiffusionSpec& s) { return count_parameters(build_denoiser(s, {})).total; };
  EXPECT_EQ(parameters(sd3("")), 2028328000);
  EXPECT_EQ(parameters(sd3(R"(,"qk_norm":null,"dual_attention_layers":[])")), 2028328000);
  const char* const medium = R"(,"qk_norm":"rms_norm","dual_attention_layers":[0,1,2,3,4,5,6,7,8,9,10,11,12])";
  EXPECT_EQ(parameters(sd3(medium)), 2243171520);
  EXPECT_EQ(parameters(load_denoiser("sd3.5-medium")), 2243171520);
  EXPECT_EQ(parameters(load_denoiser("sd3.5-large")), 8056627520);
  EXPECT_THAT(error_of([&] { sd3(R"(,"dual_attention_layers":[1,2])"); }), ::testing::HasSubstr("first ones"));
  EXPECT_THAT(error_of([&] { sd3(R"(,"dual_attention_layers":7)"); }), ::testing::HasSubstr("dual_attention_layers"));
  EXPECT_THAT(error_of([&] { sd3(R"(,"qk_norm":"layer_norm")"); }), ::testing::HasSubstr("layer_norm"));

  DiffusionSpec own = read_denoiser_config(R"({"_class_name":"WanModel","dim":3072,"eps":1e-06,"ffn_dim":14336,"freq_dim":256,
      "in_dim":48,"model_type":"ti2v","num_heads":24,"num_layers":30,"out_dim":48,"text_len":512})", "config.json");
  EXPECT_EQ(parameters(own), 4999787712);
  DiffusionSpec diffusers = read_denoiser_config(R"({"_class_name":"WanTransformer3DModel","patch_size":[1,2,2],"in_channels":48,
      "out_channels":48,"num_attention_heads":24,"attention_head_dim":128,"text_dim":4096,"freq_dim":256,"ffn_dim":14336,
      "num_layers":30,"cross_attn_norm":true,"qk_norm":"rms_norm_across_heads","eps":1e-06,"rope_max_seq_len":1024})", "config.json");
  EXPECT_EQ(parameters(diffusers), 4999787712);
  EXPECT_EQ(latent_tokens(own, usual_shape(own)), 31 * (704 / 32) * (1280 / 32));  // of 121 frames
  EXPECT_NEAR(4 * count_parameters(build_autoencoder(autoencoder_of(own))).total / 2.82e9, 1, 0.002);
}

// A second attention of the image to itself, of 4,096 tokens in 13 layers: 4 x 4096^2 x 1536 operations each, and four
// products of its own; the text's last layer is read and no more.
TEST(RenderConfigs, TheSecondAttentionIsCounted) {
  DiffusionSpec medium = load_denoiser("sd3.5-medium"), plain = medium;
  plain.dual_layers = 0;
  DenoiserFlops a = denoiser_flops(medium, {}), b = denoiser_flops(plain, {});
  EXPECT_NEAR(a.attention - b.attention, 13 * 4.0 * 4096 * 4096 * 1536, 1);
  EXPECT_NEAR(a.linear - b.linear, 13 * (4 * 2.0 * 4096 * 1536 * 1536 + 2.0 * 3 * 1536 * 1536), 1);
  double text = 333, joint = 4096 + text;
  EXPECT_NEAR(b.attention, 24 * 4 * joint * joint * 1536, 1);
}

// Each token of the small Wan has a noise level of its own: its modulation is a product in 32 bits, as its code says.
TEST(RenderConfigs, ModulationOfEveryTokenTakes32Bits) {
  DiffusionSpec s = load_denoiser("wan2.2-ti2v-5b");
  Program p = render_program(build_denoiser(s, {}), Plan{});
  int wide = 0;
  for (const ProgramOp& op : p.ops)
    if (op.kind == OpKind::kContract && op.format == Format::kFp32) ++wide;
  EXPECT_EQ(wide, 3);
  // Autocast to 32 bits multiplies in them what is stored in 16, too: its code asserts that the modulation has 32.
  Graph narrow = build_denoiser(s, {});
  Plan plan;
  apply_verb("requant weight bf16", narrow, plan);
  for (const ProgramOp& op : render_program(narrow, plan).ops)
    if (op.kind == OpKind::kContract) wide -= op.format == Format::kFp32;
  EXPECT_EQ(wide, 0);
  Graph older = build_denoiser(load_denoiser("wan14b"), {});
  for (const ProgramOp& op : render_program(older, Plan{}).ops) EXPECT_NE(op.format, Format::kFp32);
}

}  // namespace
}  // namespace orrery::graph
