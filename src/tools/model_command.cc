// orrery model ...: memory, time and energy of whole models. Each subcommand reads its options, calls the
// library once and prints the document.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/error.h"
#include "graph/ask.h"
#include "graph/graph_file.h"
#include "graph/search.h"
#include "graph/validate.h"
#include "graph/verbs.h"
#include "tools/command.h"
#include "tools/model_documents.h"

namespace orrery::tools {
namespace {

using namespace graph;

// Options that every subcommand about a model shares.
struct Common {
  std::string model, gpu = "h200", weights, kv, html, trace;
  int tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  std::vector<std::string> verbs;
  bool json = false;

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
    app.add_flag("--json", json, "print the document itself");
    app.add_option("--html", html, "write the report to this file");
    app.add_option("--trace", trace, "write the timeline for Perfetto to this file");
  }

  Plan plan() const {
    Plan p;
    p.tp = tp, p.pp = pp, p.dp = dp, p.cp = cp, p.ep = ep;
    return p;
  }
  void apply(Graph& graph, Plan& plan) const {
    if (!weights.empty()) apply_verb("requant weight " + weights, graph, plan);
    if (!kv.empty()) apply_verb("requant kv " + kv, graph, plan);
    for (const std::string& verb : verbs) apply_verb(verb, graph, plan);
  }
  // The count of GPUs, when not given with the name, is what the plan needs.
  Cluster cluster(const Plan& plan) const {
    Cluster c = parse_cluster(gpu);
    if (gpu.find(':') == std::string::npos) c.gpus = plan.gpus();
    return c;
  }
};

std::filesystem::path last_report() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path base =
      cache && *cache ? cache : std::filesystem::path(home ? home : "/tmp") / ".cache";
  return base / "orrery" / "last.json";
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out) base::fail("cannot write {}", path);
}

void print(const Common& common, const Json& document) {
  if (!common.html.empty()) write_file(common.html, report::to_html(document));
  if (!common.trace.empty()) write_file(common.trace, report::to_trace(document));
  std::cout << (common.json ? document.dump(1) + "\n" : report::to_text(document));
  std::error_code ignored;  // `why` is a convenience: a read-only home must not fail the answer
  std::filesystem::create_directories(last_report().parent_path(), ignored);
  std::ofstream(last_report()) << document.dump();
}

int fit_command(const Common& common, double batch, double context, const std::string& engine) {
  Graph graph = load_graph(common.model);
  Plan plan = common.plan();
  common.apply(graph, plan);
  Cluster cluster = common.cluster(plan);
  FitAnswer answer = fit(graph, plan, cluster, batch, context, find_engine(engine));
  print(common, fit_document(graph, plan, cluster, answer, batch, context));
  return answer.fits ? 0 : 1;
}

// An image has as many tokens as the model has positions; a text no more than that.
double encoder_tokens(const Graph& graph, double asked) {
  AxisId positions = graph.find_axis("positions");
  if (positions == kNoAxis) return asked;
  bool image = graph.find_axis("patch.pixels") != kNoAxis;
  return image ? graph.axes[positions].extent : std::min(asked, graph.axes[positions].extent);
}

int serve_command(const Common& common, ServeQuestion question, const std::string& engine, bool rate_given) {
  if (rate_given && !(question.rate > 0 && question.rate < 1e9))
    base::fail("--rate must be positive and finite");
  Graph graph = load_graph(common.model);
  Plan plan = common.plan();
  common.apply(graph, plan);
  Cluster cluster = common.cluster(plan);
  question.engine = find_engine(engine);
  bool states = std::any_of(graph.tensors.begin(), graph.tensors.end(),
                            [](const Tensor& t) { return t.cls == TensorClass::kState; });
  if (!states) {  // nothing is kept from token to token: an encoder
    if (rate_given)
      base::fail("{} makes no tokens: ask for a batch (--concurrency), not a rate", graph.name);
    double tokens = encoder_tokens(graph, question.input);
    EncodeAnswer answer = encode(graph, plan, cluster, question.concurrency, tokens);
    print(common, encode_document(graph, plan, cluster, question.concurrency, tokens, answer));
    return answer.fits ? 0 : 1;
  }
  if (rate_given) question.concurrency = concurrency_at_rate(graph, plan, cluster, question);
  ServeAnswer answer = serve(graph, plan, cluster, question);
  FitAnswer memory =
      fit(graph, plan, cluster, answer.batch * plan.dp, {question.input, question.output}, question.engine);
  print(common, serve_document(graph, plan, cluster, question, answer, memory));
  return memory.fits ? 0 : 1;
}

struct TrainOptions {
  TrainQuestion question;
  int zero = 0, interleave = 1;
  bool sequence_parallel = false, math_attention = false, dropout = false;
  std::string recompute, precision = "bf16";  // no recompute: what --do says, or none
};

// The arithmetic of a training run; weights are trained in 16 bits.
DType precision_of(const std::string& name) {
  for (DType known : {kBf16, kFp16, kFp8})
    if (name == format_name(known.format)) return known;
  base::fail("--precision must be bf16, fp16 or fp8, not '{}'", name);
}

// Data-parallel ranks that nobody gave: as many as the other divisions leave GPUs for.
void fill_data_ranks(const Common& common, bool dp_given, const Cluster& cluster, Plan& plan) {
  for (const std::string& verb : common.verbs) dp_given |= verb.starts_with("shard data");
  for (int ranks : {plan.tp, plan.pp, plan.cp})
    if (ranks < 1) base::fail("tp, pp and cp must be at least 1");
  if (!dp_given) plan.dp = std::max(1, cluster.gpus / plan.tp / plan.pp / plan.cp);
}

int train_command(const Common& common, TrainOptions o, bool dp_given) {
  BuildOptions build;
  build.training = true;
  build.math_attention = o.math_attention;
  build.dropout = o.dropout;
  Graph graph = load_graph(common.model, build);
  Plan plan = common.plan();
  plan.zero = o.zero;
  plan.sequence_parallel = o.sequence_parallel;
  plan.virtual_stages = o.interleave;
  if (o.interleave > 1) plan.schedule = PipelineSchedule::kInterleaved;
  plan.compute = precision_of(o.precision);
  common.apply(graph, plan);
  if (!o.recompute.empty()) apply_verb("recompute " + o.recompute, graph, plan);
  Cluster cluster = parse_cluster(common.gpu);
  fill_data_ranks(common, dp_given, cluster, plan);
  cluster.gpus = std::max(cluster.gpus, common.gpu.find(':') == std::string::npos ? plan.gpus() : 0);
  TrainAnswer answer = train(graph, plan, cluster, o.question);
  print(common, train_document(graph, plan, cluster, o.question, answer));
  return answer.fits ? 0 : 1;
}

int render_command(const Common& common, RenderQuestion question, const std::string& size) {
  DiffusionSpec spec = load_denoiser(common.model);
  if (!size.empty()) {
    char times = 'x';
    std::istringstream in(size);
    if (!(in >> question.shape.width)) base::fail("--size must be N or WxH, not '{}'", size);
    question.shape.height = question.shape.width;
    if (in >> times && !(times == 'x' && in >> question.shape.height))
      base::fail("--size must be N or WxH, not '{}'", size);
  }
  Plan plan = common.plan();
  if (!common.weights.empty()) question.weights = parse_dtype(common.weights);
  if (!common.kv.empty())
    base::fail("a diffusion model keeps no keys and values: --kv has nothing to change");
  question.verbs = common.verbs;
  for (const std::string& verb :
       common.verbs)  // the count of GPUs that is not given follows from the verbs, too
    if (verb.starts_with("shard") || verb.starts_with("stage")) {
      Graph scratch = build_denoiser(spec, question.shape);
      apply_verb(verb, scratch, plan);
    }
  Cluster cluster = common.cluster(plan);
  plan.verbs.clear();
  if (question.steps < 0 || question.passes < 0) base::fail("--steps and --passes must not be negative");
  RenderAnswer answer = render(spec, plan, cluster, question);
  print(common, render_document(spec, question, cluster, answer));
  return answer.fits ? 0 : 1;
}

int list_verbs() {
  for (const Verb& verb : verbs()) fmt::print("{}\n    {}\n", verb.grammar, verb.description);
  return 0;
}

int list_models() {
  for (const auto& spec : zoo().transformers)
    fmt::print("{:<32} {:<12} {}\n", spec.name, spec.kind, spec.source);
  for (const auto& spec : zoo().denoisers)
    fmt::print("{:<32} {:<12} {}\n", spec.name, "diffusion", spec.source);
  return 0;
}

int why_command(const std::string& file, const std::string& what) {
  std::string path = file == "last" ? last_report().string() : file;
  std::ifstream in(path);
  if (!in) base::fail("no report at {}: run a question first", path);
  Json document = Json::parse(in, nullptr, false);
  if (document.is_discarded() || !document.contains("facts")) base::fail("{} is not a report", path);
  std::cout << why(document, what);
  return 0;
}

int model_command(const std::vector<std::string>& args) {
  CLI::App app("Memory, time and energy of whole models.", "orrery model");
  app.require_subcommand(1);
  Common common;
  double batch = 1, context = 4096;
  std::string engine = "vllm", size, what, file = "last", quantity, data = "../shared/data/model";
  std::vector<std::string> rest;
  ServeQuestion serve_q;
  TrainOptions train_o;
  RenderQuestion render_q;
  SearchQuestion search_q;

  auto* fit_app = app.add_subcommand("fit", "does it fit, what takes the bytes, what to change");
  common.add_to(*fit_app);
  fit_app->add_option("--batch", batch, "sequences")->capture_default_str();
  fit_app->add_option("--context", context, "tokens of each")->capture_default_str();
  fit_app->add_option("--engine", engine, "vllm, trtllm, sglang or none")->capture_default_str();

  auto* serve_app = app.add_subcommand("serve", "time to first token, time per token, throughput, energy");
  common.add_to(*serve_app);
  serve_app->add_option("--input", serve_q.input, "tokens of a request")->capture_default_str();
  serve_app->add_option("--output", serve_q.output, "tokens of an answer")->capture_default_str();
  serve_app->add_option("--concurrency", serve_q.concurrency, "requests in flight")->capture_default_str();
  serve_app->add_option("--rate", serve_q.rate, "requests a second, instead of a fixed number in flight");
  serve_app->add_option("--engine", engine, "vllm, trtllm, sglang or none")->capture_default_str();

  auto* train_app = app.add_subcommand("train", "memory and time of a training iteration");
  common.add_to(*train_app);
  train_app->add_option("--seq", train_o.question.sequence, "tokens of a sequence")->capture_default_str();
  train_app->add_option("--batch", train_o.question.global_batch, "sequences of an iteration")
      ->capture_default_str();
  train_app->add_option("--micro-batch", train_o.question.micro_batch, "sequences of a micro-batch")
      ->capture_default_str();
  train_app->add_option("--zero", train_o.zero, "ZeRO stage 0 to 3");
  train_app->add_option("--interleave", train_o.interleave, "model chunks a pipeline stage");
  train_app->add_flag("--sequence-parallel", train_o.sequence_parallel,
                      "divide the rest of the activations too");
  train_app->add_option("--recompute", train_o.recompute, "none, selective or full (none when not given)");
  train_app->add_option("--precision", train_o.precision, "bf16, fp16 or fp8")->capture_default_str();
  train_app->add_flag("--math-attention", train_o.math_attention,
                      "score matrices are stored (no flash attention)");
  train_app->add_flag("--dropout", train_o.dropout, "dropout masks are kept");

  auto* render_app = app.add_subcommand("render", "images and video: text encoder, denoiser, autoencoder");
  common.add_to(*render_app);
  render_app->add_option("--size", size, "pixels, N or WxH");
  render_app->add_option("--frames", render_q.shape.frames, "frames of a video");
  render_app->add_option("--steps", render_q.steps, "denoising steps");
  render_app->add_option("--passes", render_q.passes, "denoiser passes a step (2 with guidance)");
  render_app->add_option("--batch", render_q.batch, "images at once");
  render_app->add_flag("--encoder-on-host", render_q.encoder_on_host, "the text encoder runs on the CPU");
  render_app->add_flag("--stay", render_q.stay, "all components stay on the GPU");
  render_app->add_flag("--layer-offload", render_q.layer_offload,
                       "weights come from the host layer by layer");

  auto* plan_app = app.add_subcommand("plan", "search over plans; the Pareto front");
  common.add_to(*plan_app);
  plan_app->add_option("--input", search_q.input, "tokens of a request")->capture_default_str();
  plan_app->add_option("--output", search_q.output, "tokens of an answer")->capture_default_str();
  plan_app->add_option("--goal", search_q.goal, "tokens/s, tokens/s/gpu, tpot, ttft or joules")
      ->capture_default_str();
  plan_app->add_option("--slo", search_q.limits, "a limit, for example tpot=30ms (repeat for more)");
  plan_app->add_option("--formats", search_q.formats, "weight formats to try")->capture_default_str();
  plan_app->add_flag("--fine", search_q.fine, "six chunk sizes, batches that grow by a quarter");
  plan_app->add_option("--threads", search_q.threads, "threads; 0: one for each core")->capture_default_str();
  plan_app->add_option("--engine", engine, "vllm, trtllm, sglang or none")->capture_default_str();

  auto* why_app = app.add_subcommand("why", "the ledger lines behind a number of a report");
  why_app->add_option("report", file, "a report's JSON file, or last")->required();
  why_app->add_option("number", what, "name of the number")->required();

  auto* ask_app = app.add_subcommand("ask", "one exact quantity; 'ask help' lists them");
  ask_app->add_option("quantity", quantity, "what to compute")->required();
  ask_app->add_option("arguments", rest, "the model and the values that the quantity needs");

  auto* validate_app = app.add_subcommand("validate", "compare with measured rows in a folder of CSV files");
  validate_app->add_option("folder", data, "folder with open.csv, megatron.csv, ...")->capture_default_str();
  auto* verbs_app = app.add_subcommand("verbs", "the techniques and their grammar");
  auto* models_app = app.add_subcommand("models", "the built-in models");

  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (*fit_app) return fit_command(common, batch, context, engine);
    if (*serve_app) return serve_command(common, serve_q, engine, serve_app->count("--rate") > 0);
    if (*train_app) return train_command(common, train_o, train_app->count("--dp") > 0);
    if (*render_app) return render_command(common, render_q, size);
    if (*plan_app) {
      search_q.engine = find_engine(engine);
      Graph graph = load_graph(common.model);
      Plan plan = common.plan();
      common.apply(graph, plan);
      Json doc = search_document(graph, plan, parse_cluster(common.gpu), search_q);
      print(common, doc);
      return doc["sections"][0]["rows"].empty() ? 1 : 0;
    }
    if (*why_app) return why_command(file, what);
    if (*ask_app) {
      for (const Answer& a : ask(quantity, rest))
        fmt::print("{} {} {}\n", a.name, format_number(a.value), a.unit);
      return 0;
    }
    if (*validate_app) {
      fmt::print("{}", validate_text(data));
      return 0;
    }
    if (*verbs_app) return list_verbs();
    if (*models_app) return list_models();
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "orrery model: {}\n", error.what());
    return 2;
  }
  return 2;
}

ORRERY_COMMAND(model, "memory, time and energy of whole models: fit, serve, train, render, plan, why",
               model_command);

}  // namespace
}  // namespace orrery::tools
