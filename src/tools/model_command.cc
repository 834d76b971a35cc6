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
#include "tools/model_options.h"
#include "tools/plan_question.h"

namespace orrery::tools {
namespace {

using namespace graph;

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
  if (!input_given) question.input = std::max(1.0, longest - question.output);
  if (rate_given) question.concurrency = concurrency_at_rate(graph, plan, cluster, question);
  ServeAnswer answer = serve(graph, plan, cluster, question);
  FitAnswer memory =
      fit(graph, plan, cluster, answer.batch * plan.dp, {question.input, question.output}, question.engine);
  print(common, serve_document(graph, plan, cluster, question, answer, memory));
  return memory.fits ? 0 : 1;
}

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

int train_command(const Common& common, TrainOptions o, bool dp_given, bool seq_given, bool batch_given) {
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
  if (!batch_given) o.question.global_batch = o.question.micro_batch * plan.dp * plan.pp;
  cluster.gpus = std::max(cluster.gpus, common.gpu.find(':') == std::string::npos ? plan.gpus() : 0);
  TrainAnswer answer = train(graph, plan, cluster, o.question);
  print(common, train_document(graph, plan, cluster, o.question, answer));
  return answer.fits ? 0 : 1;
}

int render_command(const Common& common, RenderQuestion question, const std::string& size,
                   bool frames_given) {
  DiffusionSpec spec = load_denoiser(common.model);
  RenderShape usual = usual_shape(spec);
  if (!frames_given) question.shape.frames = usual.frames;
  if (size.empty()) question.shape.width = usual.width, question.shape.height = usual.height;
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
  if (size.empty() || (!frames_given && usual.frames > 1))
    answer.notes.push_back(
        fmt::format("{} x {} pixels{}: what was not asked for is {}", question.shape.width, question.shape.height,
                    usual.frames > 1 ? fmt::format(", {} frames", question.shape.frames) : "",
                    spec.video      ? "as diffusers' pipeline of the family does by itself"
                    : spec.size > 0 ? "the size that the checkpoint was made for"
                                    : "assumed: its config does not say a size"));
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

int plan_command(Asked& q, bool lengths_given) {
  PlanQuestion asked(q, lengths_given);
  Json doc = search_document(asked.graph, asked.base, asked.cluster, q.search);
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
     [](CLI::App& app, Asked& q) {
       return fit_command(q.common, q.batch, q.context, q.engine, app.count("--context") > 0);
     }},
    {"serve", "time to first token, time per token, throughput, energy",
     [](CLI::App& app, Asked& q) { q.serve_options(app); },
     [](CLI::App& app, Asked& q) {
       return serve_command(q.common, q.serve, q.engine, app.count("--rate") > 0,
                            lengths_given(app));
     }},
    {"train", "memory and time of a training iteration",
     [](CLI::App& app, Asked& q) { q.train_options(app); },
     [](CLI::App& app, Asked& q) {
       return train_command(q.common, q.train, app.count("--dp") > 0, app.count("--seq") > 0, app.count("--batch") > 0);
     }},
    {"render", "images and video: text encoder, denoiser, autoencoder",
     [](CLI::App& app, Asked& q) { q.render_options(app); },
     [](CLI::App& app, Asked& q) {
       return render_command(q.common, q.render, q.size, app.count("--frames") > 0);
     }},
    {"plan", "search over plans; the Pareto front", [](CLI::App& app, Asked& q) { q.plan_options(app); },
     [](CLI::App& app, Asked& q) { return plan_command(q, lengths_given(app)); }},
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
