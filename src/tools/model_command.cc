// orrery model ...: memory, time and energy of whole models. Each subcommand reads its options, calls the
// library once and prints the document.
#include <CLI/CLI.hpp>
#include <algorithm>
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
  Graph graph() const {
    BuildOptions options;
    options.stored = weights.empty();  // --weights answers for what a config does not say clearly
    return load_graph(model, options);
  }
  // The count of GPUs, when not given with the name, is what the plan needs.
  Cluster cluster(const Plan& plan) const {
    Cluster c = parse_cluster(gpu);
    if (gpu.find(':') == std::string::npos) c.gpus = plan.gpus();
    return c;
  }
};

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

// An image has as many tokens as the model has positions; a text no more than that, and more are refused where
// somebody asked for them.
double tokens_of(const Graph& graph, double tokens, bool asked) {
  AxisId positions = graph.find_axis("positions");
  if (positions == kNoAxis) return tokens;
  double most = graph.axes[positions].extent;
  bool image = graph.find_axis("patch.pixels") != kNoAxis;
  if (asked && (image ? tokens != most : tokens > most))
    base::fail("{} has {:.0f} positions: {} of {:.0f} tokens cannot be asked for", graph.name, most,
               image ? "an image" : "a text", tokens);
  return image ? most : std::min(tokens, most);
}

int fit_command(const Common& common, double batch, double context, const std::string& engine, bool context_given) {
  Graph graph = common.graph();
  context = tokens_of(graph, context, context_given);
  Plan plan = common.plan();
  common.apply(graph, plan);
  Cluster cluster = common.cluster(plan);
  Engine served = find_engine(engine);
  FitQuestion question{graph, plan, cluster, batch, context, served};
  FitAnswer answer = fit(graph, plan, cluster, batch, context, served);
  print(common, fit_document(question, answer));
  return answer.fits ? 0 : 1;
}

int serve_command(const Common& common, ServeQuestion question, const std::string& engine, bool rate_given,
                  bool input_given) {
  if (rate_given && !(question.rate > 0 && question.rate < 1e9))
    base::fail("--rate must be positive and finite");
  Graph graph = common.graph();
  Plan plan = common.plan();
  common.apply(graph, plan);
  Cluster cluster = common.cluster(plan);
  question.engine = find_engine(engine);
  bool states = std::any_of(graph.tensors.begin(), graph.tensors.end(),
                            [](const Tensor& t) { return t.cls == TensorClass::kState; });
  if (!states) {  // nothing is kept from token to token: an encoder
    if (rate_given) base::fail("{} makes no tokens: ask for a batch (--concurrency), not a rate", graph.name);
    double tokens = tokens_of(graph, question.input, input_given);
    EncodeAnswer answer = encode(graph, plan, cluster, question.concurrency, tokens);
    print(common, encode_document(graph, plan, cluster, question.concurrency, tokens, answer));
    return answer.fits ? 0 : 1;
  }
  double longest = tokens_of(graph, question.input + question.output, input_given);
  question.input = std::max(1.0, longest - question.output);
  if (rate_given) question.concurrency = concurrency_at_rate(graph, plan, cluster, question);
  ServeAnswer answer = serve(graph, plan, cluster, question);
  FitAnswer memory =
      fit(graph, plan, cluster, answer.batch * plan.dp, {question.input, question.output}, question.engine);
  print(common, serve_document(graph, plan, cluster, question, answer, memory));
  return memory.fits ? 0 : 1;
}

struct TrainOptions {
  TrainQuestion question;
  int zero = 0, interleave = 1, offset_bits = 64;
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

int train_command(const Common& common, TrainOptions o, bool dp_given, bool seq_given) {
  BuildOptions build;
  build.training = true;
  build.math_attention = o.math_attention;
  build.dropout = o.dropout;
  Graph graph = load_graph(common.model, build);
  o.question.sequence = tokens_of(graph, o.question.sequence, seq_given);
  Plan plan = common.plan();
  plan.zero = o.zero;
  plan.sequence_parallel = o.sequence_parallel;
  plan.offset_bits = o.offset_bits;
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
  std::vector<std::string> advice = render_advice(spec, plan, cluster, question, answer);
  print(common, render_document(spec, question, cluster, answer, advice));
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

// What the subcommands ask for, each with the options that it has.
struct Asked {
  Common common;
  double batch = 1, context = 4096;
  std::string engine = "vllm", size, number, file = "last", quantity, data = "../shared/data/model";
  std::vector<std::string> arguments;
  ServeQuestion serve;
  TrainOptions train;
  RenderQuestion render;
  SearchQuestion search;

  void engine_option(CLI::App& app) {
    app.add_option("--engine", engine, "vllm, trtllm, sglang or none")->capture_default_str();
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
    app.add_option("--batch", train.question.global_batch, "sequences of an iteration")
        ->capture_default_str();
    app.add_option("--micro-batch", train.question.micro_batch, "sequences of a micro-batch")
        ->capture_default_str();
    app.add_option("--zero", train.zero, "ZeRO stage 0 to 3");
    app.add_option("--interleave", train.interleave, "model chunks a pipeline stage");
    app.add_flag("--sequence-parallel", train.sequence_parallel, "divide the rest of the activations too");
    app.add_option("--recompute", train.recompute, "none, selective or full (none when not given)");
    app.add_option("--precision", train.precision, "bf16, fp16 or fp8")->capture_default_str();
    app.add_flag("--math-attention", train.math_attention, "score matrices are stored (no flash attention)");
    app.add_option("--kernel-offsets", train.offset_bits,
                   "bits of the offsets in the framework's kernels of norms and attention, 32 or 64: with 32 none of their tensors has 2^31 elements")
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
    app.add_flag("--layer-offload", render.layer_offload, "weights come from the host, each when it is used; --do 'prefetch 1' brings the next one meanwhile");
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
    app.add_option("--threads", search.threads, "threads; 0: one for each core")->capture_default_str();
    engine_option(app);
  }
};

int plan_command(Asked& q) {
  q.search.engine = find_engine(q.engine);
  Graph graph = q.common.graph();
  Plan plan = q.common.plan();
  q.common.apply(graph, plan);
  q.search.asked = q.common.model;
  if (q.engine != Asked{}.engine) q.search.asked += " --engine " + q.engine;
  for (const std::string& verb : q.common.verbs) q.search.asked += " --do '" + verb + "'";
  if (!q.common.weights.empty()) q.search.asked += " --weights '" + q.common.weights + "'";
  if (!q.common.kv.empty()) q.search.asked += " --kv '" + q.common.kv + "'";
  Json doc = search_document(graph, plan, parse_cluster(q.common.gpu), q.search);
  print(q.common, doc);
  return doc["sections"][0]["rows"].empty() ? 1 : 0;
}

int ask_command(const Asked& q) {
  for (const Answer& a : ask(q.quantity, q.arguments))
    fmt::print("{} {} {}\n", a.name, format_number(a.value), a.unit);
  return 0;
}

int validate_command(const Asked& q) {
  Validation v = validate(q.data);
  fmt::print("{}", v.text);
  return v.missed == 0 ? 0 : 1;
}

// A subcommand: how it is asked, and what answers it once its options are read.
struct Subcommand {
  const char *name, *description;
  void (*options)(CLI::App&, Asked&);
  int (*answer)(CLI::App&, Asked&);
};
constexpr Subcommand kSubcommands[] = {
    {"fit", "does it fit, what takes the bytes, what to change",
     [](CLI::App& app, Asked& q) { q.fit_options(app); },
     [](CLI::App& app, Asked& q) { return fit_command(q.common, q.batch, q.context, q.engine, app.count("--context") > 0); }},
    {"serve", "time to first token, time per token, throughput, energy",
     [](CLI::App& app, Asked& q) { q.serve_options(app); },
     [](CLI::App& app, Asked& q) {
       return serve_command(q.common, q.serve, q.engine, app.count("--rate") > 0,
                            app.count("--input") + app.count("--output") > 0);
     }},
    {"train", "memory and time of a training iteration",
     [](CLI::App& app, Asked& q) { q.train_options(app); },
     [](CLI::App& app, Asked& q) {
       return train_command(q.common, q.train, app.count("--dp") > 0, app.count("--seq") > 0);
     }},
    {"render", "images and video: text encoder, denoiser, autoencoder",
     [](CLI::App& app, Asked& q) { q.render_options(app); },
     [](CLI::App&, Asked& q) { return render_command(q.common, q.render, q.size); }},
    {"plan", "search over plans; the Pareto front", [](CLI::App& app, Asked& q) { q.plan_options(app); },
     [](CLI::App&, Asked& q) { return plan_command(q); }},
    {"why", "the ledger lines behind a number of a report",
     [](CLI::App& app, Asked& q) {
       app.add_option("report", q.file, "a report's JSON file, or last")->required();
       app.add_option("number", q.number, "name of the number")->required();
     },
     [](CLI::App&, Asked& q) {
       std::cout << why_in(q.file, q.number);
       return 0;
     }},
    {"ask", "one exact quantity; 'ask help' lists them",
     [](CLI::App& app, Asked& q) {
       app.add_option("quantity", q.quantity, "what to compute")->required();
       app.add_option("arguments", q.arguments, "the model and the values that the quantity needs");
     },
     [](CLI::App&, Asked& q) { return ask_command(q); }},
    {"validate", "compare with measured rows in a folder of CSV files; status 1 when a goal is missed",
     [](CLI::App& app, Asked& q) {
       app.add_option("folder", q.data, "folder with open.csv, megatron.csv, ...")->capture_default_str();
     },
     [](CLI::App&, Asked& q) { return validate_command(q); }},
    {"verbs", "the techniques and their grammar", [](CLI::App&, Asked&) {},
     [](CLI::App&, Asked&) { return list_verbs(); }},
    {"models", "the built-in models", [](CLI::App&, Asked&) {},
     [](CLI::App&, Asked&) { return list_models(); }},
};

int model_command(const std::vector<std::string>& args) {
  CLI::App app("Memory, time and energy of whole models.", "orrery model");
  app.require_subcommand(1);
  Asked asked;
  for (const Subcommand& s : kSubcommands) s.options(*app.add_subcommand(s.name, s.description), asked);
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    for (const Subcommand& s : kSubcommands)
      if (CLI::App* chosen = app.get_subcommand(s.name); *chosen) return s.answer(*chosen, asked);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "orrery model: {}\n", error.what());
  }
  return 2;
}

ORRERY_COMMAND(model, "memory, time and energy of whole models: fit, serve, train, render, plan, why",
               model_command);

}  // namespace
}  // namespace orrery::tools
