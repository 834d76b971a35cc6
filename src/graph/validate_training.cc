// Comparison with published training iterations and renderings.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/measured_rows.h"
#include "graph/render.h"
#include "graph/train.h"
#include "profile/what_if.h"

namespace orrery::graph {
namespace {

// What the sources state beside their rows. Megatron 2021 and the runs of arXiv 2205.05198 had no flash
// attention: scores are stored, the mask is not exploited. Megatron-Bridge shards the optimizer and the
// activations between tensor-parallel ranks; what it hides and joins is in its recipes (bridge_recipe).
struct Source {
  bool gpt;  // the row gives the shape; otherwise it names a model
  bool counts_recomputation;
};

Source source_of(const std::string& set) {
  if (set == "megatron2021") return {true, true};
  if (set == "seqsel2022-tab5") return {true, false};
  if (set == "bloom-prequel") return {true, true};
  if (set.starts_with("megatron-bridge")) return {false, false};
  base::fail("rows of '{}': no time of an iteration that a layout explains", set);
}

Graph graph_of(const Row& row, const Source& source) {
  if (source.gpt) {
    for (const char* key : {"layers", "hidden", "heads"})
      if (number(row, key, 0) == 0) base::fail("rows of '{}' without {}", row.at("set"), key);
    TransformerSpec shape = megatron_gpt("gpt", whole(row, "layers"), whole(row, "hidden"), whole(row, "heads"),
                                         whole(row, "seq"), whole(row, "vocab"));
    Graph g = build_transformer(shape, {true, true, true});
    double stated = number(row, "params_b", 0) * 1e9, has = count_parameters(g).total;
    if (row.at("set") == "bloom-prequel" && std::fabs(has - stated) > 1e9)
      base::fail("rows of '{}' whose parameters are not those of their shape", row.at("set"));
    return g;
  }
  std::string name = row.at("model");
  if (name == "LLAMA3_8B") name = "Llama-3.1-8B";
  if (name == "LLAMA3_70B") name = "Llama-3.1-70B";
  if (!find_transformer(name))
    base::fail("{}: not a built-in model, or one whose run is not described", name);
  BuildOptions o;
  o.training = true;
  return build_transformer(load_transformer(name), o);
}

// What Megatron-Bridge's performance recipes join and hide (NVIDIA-NeMo/Megatron-Bridge at 067f987d, where the
// rows are from: training/comm_overlap.py, perf_recipes/): cross-entropy is one kernel of Transformer Engine;
// gradients are reduced in 16 bits and, with the weights' gather, behind the operators; sends between stages where
// a stage has several chunks; collectives of Llama 70B and 405B in as many pieces as there are ranks, of which the
// last one shows; rows to experts of Qwen3-235B behind another micro-batch.
void bridge_recipe(const Row& row, Plan& p) {
  const std::string& model = row.at("model");
  p.grad_fp32 = false;
  p.tile_loss = true;
  p.overlap_dp = 1;
  if (p.chunks() > 1) p.overlap_pp = 1;
  if (model == "LLAMA3_70B" || model == "LLAMA3.1_405B") p.overlap_tp = (p.tp - 1.0) / p.tp;
  if (model == "Qwen3_235B_a22B") p.overlap_tp = 1;
}

// Micro-batch and layers of a chunk of Megatron's runs of 2021: its script for that table
// (NVIDIA/Megatron-LM@cf547dea, examples/sc21/run_table_1.sh).
struct RunOf2021 {
  std::string_view model;
  double micro_batch;
  int chunk_layers;  // 0: the pipeline is not interleaved
};
constexpr RunOf2021 kMegatron2021[] = {
    {"GPT 1.7B", 16, 0}, {"GPT 3.6B", 16, 0}, {"GPT 7.5B", 16, 0}, {"GPT 18B", 8, 0},  {"GPT 39B", 4, 0},
    {"GPT 76B", 2, 5},   {"GPT 145B", 2, 5},  {"GPT 310B", 1, 3},  {"GPT 530B", 1, 1}, {"GPT 1T", 1, 0},
};
const RunOf2021* run_of_2021(const Row& row) {
  if (row.at("set") != "megatron2021") return nullptr;
  for (const RunOf2021& run : kMegatron2021)
    if (run.model == row.at("model")) return &run;
  base::fail("{}: its run is not described", row.at("model"));
}

Plan plan_of(const Row& row, const Source& source) {
  Plan p;
  p.tp = whole(row, "tp"), p.pp = whole(row, "pp"), p.cp = whole(row, "cp"), p.ep = whole(row, "ep");
  p.virtual_stages = whole(row, "vp");
  if (const RunOf2021* run = run_of_2021(row)) {
    p.joins_accumulation = false;  // its fused kernel came in December 2021
    if (run->chunk_layers > 0) p.virtual_stages = whole(row, "layers") / p.pp / run->chunk_layers;
  }
  if (p.virtual_stages > 1) p.schedule = PipelineSchedule::kInterleaved;
  p.dp = std::max(1, whole(row, "gpus") / (p.tp * p.pp * p.cp));
  const std::string& recompute = row.at("recompute");
  if (recompute == "full") p.recompute = RecomputePolicy::kFull;
  if (recompute == "selective") p.recompute = RecomputePolicy::kSelective;
  p.sequence_parallel = row.at("seq_parallel") == "yes" || !source.gpt;
  if (!source.gpt) p.zero = row.at("zero").starts_with("FSDP") ? 3 : 1;
  if (!source.gpt) bridge_recipe(row, p);
  const std::string& precision = row.at("precision");
  if (precision == "fp16")
    p.grad_fp32 = false;  // Megatron sums fp16 gradients in fp16 (its README, bytes of fp16/fp16)
  if (precision.starts_with("FP8") || precision.starts_with("fp8")) p.compute = kFp8;
  return p;
}

// BigScience's runs were on Jean Zay: four Omni-Path links of 100 Gb/s for the eight A100 of a host (arXiv 2211.05100).
Cluster cluster_of(const Row& row, const Plan& plan) {
  Cluster cluster{profile_named(row.at("gpu")), plan.gpus()};
  if (row.at("set") == "bloom-prequel") set_from_text(cluster.gpu, "link.network=6.25GB/s");
  return cluster;
}

Compared iteration(const Row& row) {
  Source source = source_of(row.at("set"));
  Graph g = graph_of(row, source);
  Plan plan = plan_of(row, source);
  TrainQuestion q;
  q.sequence = number(row, "seq", 0), q.global_batch = number(row, "gbs", 0);
  const RunOf2021* run = run_of_2021(row);
  q.micro_batch = run ? run->micro_batch : number(row, "mbs", 1), q.causal = !source.gpt;
  TrainAnswer a = train(g, plan, cluster_of(row, plan), q);
  double operations = source.counts_recomputation ? a.hardware_flops : a.model_flops;
  Compared c;
  c.group = row.at("set").substr(0, row.at("set").find("-2")) + " " + row.at("model");
  c.predicted = a.seconds;
  c.measured = number(row, "sec_per_iter", 0);
  if (double rate = number(row, "tok_s_per_gpu", 0); c.measured == 0 && rate > 0)
    c.measured = q.sequence * q.global_batch / rate / plan.gpus();
  if (double rate = number(row, "tflops_per_gpu", 0); c.measured == 0 && rate > 0)
    c.measured = operations / (rate * 1e12) / plan.gpus();
  if (c.measured == 0) base::fail("rows of '{}' without a time", row.at("set"));
  return c;
}

// Wan's own pipeline: 4-byte weights; on several GPUs weights and sequence are divided and all parts stay.
RenderAnswer rendering(const Row& row) {
  const std::string& name = row.at("model");
  if (!name.starts_with("Wan2.1-")) base::fail("{}: its pipeline's settings are not stated", name);
  Plan plan;
  plan.cp = whole(row, "gpus");
  bool small = name.ends_with("1.3B");
  if (plan.cp > 1) plan.zero = 3, plan.ulysses = !small;
  RenderQuestion q;
  q.shape.width = small ? 832 : 1280, q.shape.height = small ? 480 : 720, q.shape.frames = 81;
  q.stay = plan.cp > 1, q.encoder_on_host = small && plan.cp == 1;
  return render(load_denoiser(name), plan, {profile_named(row.at("gpu")), plan.cp}, q);
}

// One forward of a denoiser at the settings of diffusers' benchmark script, whose memory is what the framework allocated.
// Its README says L40, its workflow runs on aws-g6e-4xlarge, which has an L40S (huggingface/diffusers at 58eb52c0,
// .github/workflows/benchmark.yml); FLUX's compiled forward takes 74.4 TFLOP in 0.373 s, more than an L40's peak of 181.
struct Forward {
  double seconds = 0, bytes = 0;
};
Forward forward_of(const Row& row) {
  struct Setting {
    std::string_view name;
    int width, height, frames;
  };
  constexpr Setting kSettings[] = {{"FLUX.1-dev", 1024, 1024, 1}, {"LTX-Video-0.9.7-dev", 704, 512, 161}, {"SDXL-base UNet", 1024, 1024, 1}};
  const std::string &name = row.at("model"), &variant = row.at("variant");
  RenderQuestion q;
  q.steps = q.passes = 1;
  if (variant == "bnb-nf4")
    q.weights = parse_dtype("nf4");
  else if (variant == "group offload leaf")
    q.layer_offload = true, q.verbs = {"prefetch 1"};  // the script asks for a stream
  else if (variant == "bf16 torch.compile")
    q.compiled = true;
  else if (variant != "bf16")
    base::fail("forwards with '{}': what it changes is not described", variant);
  for (const Setting& s : kSettings) {
    if (s.name != name) continue;
    q.shape.width = s.width, q.shape.height = s.height, q.shape.frames = s.frames;
    const std::string& gpu = row.at("gpu");
    Cluster one{gpu.starts_with("L40 (CI") ? load_profile("l40s") : profile_named(gpu), 1};
    RenderAnswer a = render(load_denoiser(name.starts_with("LTX") ? "LTX-Video-13B" : name), {}, one, q);
    for (const RenderStage& stage : a.stages)
      if (stage.name == "denoiser") return {a.forward_seconds, stage.bytes() - one.gpu.context_bytes().value()};
  }
  base::fail("{}: its forward is not described", name);
}

std::string group_of(const Row& row) {
  bool forward = row.at("scope") == "one denoiser forward";
  return forward ? row.at("model") + " forward, " + row.at("variant") : row.at("model") + " on " + row.at("gpus");
}

}  // namespace

Accuracy validate_training(const std::string& path) { return compare_rows(path, true, iteration); }

RenderAccuracy validate_render(const std::string& path) {
  RenderAccuracy r;
  auto forward = [](const Row& row) { return row.at("scope") == "one denoiser forward"; };
  r.time = compare_rows(path, true, [&](const Row& row) {
    Compared c;
    c.predicted = forward(row) ? forward_of(row).seconds : rendering(row).seconds, c.measured = number(row, "seconds", 0);
    c.group = group_of(row), c.question = row.at("model") + row.at("scope") + row.at("variant");
    return c;
  });
  // The tables' GB are 2^30 bytes: from 2 to 8 GPUs Wan's falls by what the divided weights weigh so, and FLUX's weights
  // alone are 22.17 of them.
  r.memory = compare_rows(path, true, [&](const Row& row) {
    Compared c;
    c.predicted = (forward(row) ? forward_of(row).bytes : rendering(row).peak_bytes) / kGiB;
    c.measured = number(row, "peak_gb", 0);
    c.group = group_of(row), c.question = row.at("model") + row.at("scope") + row.at("variant");
    return c;
  });
  return r;
}

}  // namespace orrery::graph
