// The options of `orrery model`: what its subcommands ask for. What answers them is in model_questions.cc.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "graph/graph_file.h"
#include "graph/render.h"
#include "graph/search.h"
#include "graph/train.h"
#include "graph/verbs.h"

namespace orrery::tools {

// A word of a command line: quoted where a shell would take it apart.
inline std::string shell_word(const std::string& text) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./:,=@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return text;
  std::string word = "'";
  for (char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

// Options that every subcommand about a model shares.
struct Common {
  std::string model, gpu = "h200", weights, kv, html, trace;
  int tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  std::vector<std::string> verbs;
  std::string plan_file;
  std::set<std::string> of_file;  // what the plan file says and the command line does not
  bool json = false;

  // Whether somebody said it, on the command line or in the plan file.
  bool given(const CLI::App& app, const std::string& name) const {
    return app.count("--" + name) > 0 || of_file.contains(name);
  }
  void add_to(CLI::App& app) {
    app.add_option(
           "model", model,
           "config.json of a Hugging Face model, its folder, a graph file (.toml), or a built-in name")
        ->required();
    app.add_option("--gpu", gpu, "GPU and count, for example h200:8")->capture_default_str();
    app.add_option("--weights", weights, "format of linear layers: fp8, int8, 'int4 g128', mxfp4, ...");
    app.add_option("--kv", kv, "format of keys and values");
    app.add_option("--tp", tp, "tensor-parallel ranks");
    app.add_option("--pp", pp, "pipeline stages");
    app.add_option("--dp", dp, "data-parallel ranks (serving: attention data parallelism)");
    app.add_option("--cp", cp, "context-parallel ranks");
    app.add_option("--ep", ep, "expert-parallel ranks");
    app.add_option("--do", verbs,
                   "a technique, for example 'requant weight int4 g128' (repeat for more; see verbs)");
    app.add_option("--plan", plan_file,
                   "a plan file (.toml): tp, pp, dp, cp, ep, gpu, weights, kv, do; what the command line says "
                   "holds, its techniques follow the file's");
    app.add_flag("--json", json, "print the document itself");
    app.add_option("--html", html, "write the report to this file");
    app.add_option("--trace", trace, "write the timeline for Perfetto to this file");
  }

  // The model and what changes it, as a shell takes them.
  std::string words() const {
    std::string text = shell_word(model);
    if (!weights.empty()) text += " --weights " + shell_word(weights);
    if (!kv.empty()) text += " --kv " + shell_word(kv);
    for (const std::string& verb : verbs) text += " --do " + shell_word(verb);
    return text;
  }
  graph::Plan plan() const {
    graph::Plan p;
    p.tp = tp, p.pp = pp, p.dp = dp, p.cp = cp, p.ep = ep;
    return p;
  }
  void apply(graph::Graph& graph, graph::Plan& plan) const {
    if (!weights.empty()) graph::apply_verb("requant weight " + weights, graph, plan);
    if (!kv.empty()) graph::apply_verb("requant kv " + kv, graph, plan);
    for (const std::string& verb : verbs) graph::apply_verb(verb, graph, plan);
  }
  graph::Graph graph() const {
    graph::BuildOptions options;
    options.stored = weights.empty();  // --weights answers for what a config does not say clearly
    return graph::load_graph(model, options);
  }
  // The count of GPUs, when not given with the name, is what the plan needs.
  graph::Cluster cluster(const graph::Plan& plan) const {
    graph::Cluster c = graph::parse_cluster(gpu);
    if (gpu.find(':') == std::string::npos) c.gpus = plan.gpus();
    return c;
  }
};

// Reads the plan file of a question, if it has one, into what its command line leaves open.
void read_plan_file(const CLI::App& app, Common& common);

struct TrainOptions {
  graph::TrainQuestion question;
  int zero = 0, interleave = 1, offset_bits = 64;
  bool sequence_parallel = false, math_attention = false, dropout = false;
  std::string recompute, precision = "bf16";  // no recompute: what --do says, or none
};

// What the subcommands ask for, each with the options that it has.
struct Asked {
  Common common;
  double batch = 1, context = 4096;
  std::string engine = "vllm", size, number, file = "last", quantity, data;
  std::vector<std::string> arguments;
  graph::ServeQuestion serve;
  TrainOptions train;
  graph::RenderQuestion render;
  graph::SearchQuestion search;
  bool plan_training = false;

  void engine_option(CLI::App& app) {
    app.add_option("--engine", engine, "vllm, vllm-async (0.14 and later), trtllm, sglang or none")->capture_default_str();
  }
  void fit_options(CLI::App& app) {
    common.add_to(app);
    app.add_option("--batch", batch, "sequences")->capture_default_str();
    app.add_option("--context", context, "tokens of each")->capture_default_str();
    engine_option(app);
  }
  void serve_options(CLI::App& app) {
    common.add_to(app);
    app.add_option("--input", serve.input, "tokens of a request")->capture_default_str();
    app.add_option("--output", serve.output, "tokens of an answer")->capture_default_str();
    app.add_option("--concurrency", serve.concurrency, "requests in flight")->capture_default_str();
    app.add_option("--rate", serve.rate, "requests a second, instead of a fixed number in flight");
    engine_option(app);
  }
  void train_options(CLI::App& app) {
    common.add_to(app);
    app.add_option("--seq", train.question.sequence, "tokens of a sequence")->capture_default_str();
    app.add_option("--batch", train.question.global_batch,
                   "sequences of an iteration (not given: a micro-batch for each data-parallel rank and stage)");
    app.add_option("--micro-batch", train.question.micro_batch, "sequences of a micro-batch")
        ->capture_default_str();
    app.add_option("--zero", train.zero, "ZeRO stage 0 to 3");
    app.add_option("--interleave", train.interleave, "model chunks a pipeline stage");
    app.add_flag("--sequence-parallel", train.sequence_parallel, "divide the rest of the activations too");
    app.add_option("--recompute", train.recompute, "none, selective or full (none when not given)");
    app.add_option("--precision", train.precision, "bf16, fp16 or fp8")->capture_default_str();
    app.add_flag("--math-attention", train.math_attention, "score matrices are stored (no flash attention)");
    app.add_option("--kernel-offsets", train.offset_bits,
                   "bits of the offsets in the framework's kernels of norms and attention, 32 or 64: with 32 "
                   "none of their tensors has 2^31 elements")
        ->capture_default_str();
    app.add_flag("--dropout", train.dropout, "dropout masks are kept");
  }
  void render_options(CLI::App& app) {
    common.add_to(app);
    app.add_option("--size", size, "pixels, N or WxH");
    app.add_option("--frames", render.shape.frames, "frames of a video");
    app.add_option("--steps", render.steps, "denoising steps");
    app.add_option("--passes", render.passes, "denoiser passes a step (2 with guidance)");
    app.add_option("--batch", render.batch, "images at once");
    app.add_flag("--encoder-on-host", render.encoder_on_host, "the text encoder runs on the CPU");
    app.add_flag("--stay", render.stay, "all components stay on the GPU");
    app.add_flag(
        "--layer-offload", render.layer_offload,
        "weights come from the host, each when it is used; --do 'prefetch 1' brings the next one meanwhile");
    app.add_flag("--compiled", render.compiled, "a compiler joins the denoiser's element-wise steps");
  }
  void plan_options(CLI::App& app) {
    common.add_to(app);
    app.add_option("--input", search.input, "tokens of a request")->capture_default_str();
    app.add_option("--output", search.output, "tokens of an answer")->capture_default_str();
    app.add_option("--goal", search.goal, "tokens/s, tokens/s/gpu, tpot, ttft or joules")
        ->capture_default_str();
    app.add_option("--slo", search.limits, "a limit, for example tpot=30ms (repeat for more)");
    app.add_option("--formats", search.formats,
                   "weight formats to try beside the given one (fp8 where that has 16 bits)");
    app.add_flag("--fine", search.fine, "six chunk sizes, batches that grow by a quarter");
    app.add_flag("--train", plan_training, "plans of a training iteration on all the GPUs; --goal tokens/s, memory or joules");
    app.add_option("--seq", train.question.sequence, "training: tokens of a sequence")->capture_default_str();
    app.add_option("--batch", train.question.global_batch,
                   "training: sequences of an iteration (not given: as many as GPUs)");
    app.add_option("--precision", train.precision, "training: bf16, fp16 or fp8")->capture_default_str();
    app.add_option("--threads", search.threads, "threads; 0: one for each core")->capture_default_str();
    engine_option(app);
  }
};

}  // namespace orrery::tools
