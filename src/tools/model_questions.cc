// The questions of `orrery model` that have a document as their answer: options to one call of the library to the
// document. The program prints them (model_command.cc), the C interface hands them over (model_api.cc).
#include "tools/model_questions.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/search.h"
#include "graph/serve_limits.h"
#include "graph/verbs.h"
#include "tools/plan_question.h"

namespace orrery::tools {
namespace {

using namespace graph;

Reply fit_question(const Common& common, double batch, double context, const std::string& engine, bool context_given) {
  Graph graph = common.graph();
  context = tokens_of(graph, context, context_given);
  Plan plan = common.plan();
  common.apply(graph, plan);
  Cluster cluster = common.cluster(plan);
  Engine served = find_engine(engine);
  FitQuestion question{graph, plan, cluster, batch, context, served};
  FitAnswer answer = fit(graph, plan, cluster, batch, context, served);
  return {fit_document(question, answer), answer.fits ? 0 : 1};
}

Reply serve_question(const Common& common, ServeQuestion question, const std::string& engine, bool rate_given,
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
    return {encode_document(graph, plan, cluster, question.concurrency, tokens, answer), answer.fits ? 0 : 1};
  }
  double longest = tokens_of(graph, question.input + question.output, input_given);
  if (!input_given) question.input = std::max(1.0, longest - question.output);
  if (rate_given) {
    double most = highest_rate(graph, plan, cluster, question);
    if (question.rate > most) return {overload_document(graph, plan, cluster, question, most), 1};
    question.concurrency = concurrency_at_rate(graph, plan, cluster, question);
  }
  ServeAnswer answer = serve(graph, plan, cluster, question);
  FitAnswer memory =
      fit(graph, plan, cluster, answer.batch * plan.dp, {question.input, question.output}, question.engine);
  return {serve_document(graph, plan, cluster, question, answer, memory), memory.fits ? 0 : 1};
}

// The arithmetic of a training run; weights are trained in 16 bits.
DType precision_of(const std::string& name) {
  for (DType known : {kBf16, kFp16, kFp8})
    if (name == format_name(known.format)) return known;
  base::fail("--precision must be bf16, fp16 or fp8, not '{}'", name);
}

// Data-parallel ranks that nobody gave: as many as the other divisions, by option or verb, leave GPUs for. They are
// counted before the verbs are applied, because experts are divided over them.
void fill_data_ranks(const Common& common, bool dp_given, const Cluster& cluster, const Graph& graph, Plan& plan) {
  Graph scratch = graph;
  Plan divided = plan;
  for (const std::string& verb : common.verbs) {
    dp_given |= verb.starts_with("shard data");
    if (verb.starts_with("stage") || (verb.starts_with("shard") && !verb.starts_with("shard expert")))
      apply_verb(verb, scratch, divided);
  }
  for (int ranks : {divided.tp, divided.pp, divided.cp})
    if (ranks < 1) base::fail("tp, pp and cp must be at least 1");
  if (!dp_given) plan.dp = std::max(1, cluster.gpus / divided.tp / divided.pp / divided.cp);
}

Reply train_question(const Common& common, TrainOptions o, bool dp_given, bool seq_given, bool batch_given) {
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
  Cluster cluster = parse_cluster(common.gpu);
  fill_data_ranks(common, dp_given, cluster, graph, plan);
  common.apply(graph, plan);
  if (!o.recompute.empty()) apply_verb("recompute " + o.recompute, graph, plan);
  if (!batch_given) o.question.global_batch = o.question.micro_batch * plan.dp * plan.pp;
  cluster.gpus = std::max(cluster.gpus, common.gpu.find(':') == std::string::npos ? plan.gpus() : 0);
  TrainAnswer answer = train(graph, plan, cluster, o.question);
  return {train_document(graph, plan, cluster, o.question, answer), answer.fits ? 0 : 1};
}

Reply render_question(const Common& common, RenderQuestion question, const std::string& size,
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
  if (!common.kv.empty())
    base::fail("a diffusion model keeps no keys and values: --kv has nothing to change");
  question.verbs = common.verbs;
  if (!common.weights.empty()) question.verbs.insert(question.verbs.begin(), "requant weight " + common.weights);
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
                    spec.timed_tokens ? "what its own code takes by itself"
                    : spec.video    ? "as diffusers' pipeline of the family does by itself"
                    : spec.size > 0 ? "the size that the checkpoint was made for"
                                    : "assumed: its config does not say a size"));
  return {render_document(spec, question, cluster, answer, advice), answer.fits ? 0 : 1};
}

// Plans of a training iteration.
Reply plan_training_question(const CLI::App& app, const Asked& q) {
  for (const char* serving : {"--input", "--output", "--slo", "--formats", "--fine", "--engine"})
    if (app.count(serving) > 0) base::fail("{} belongs to plans of serving, not of training", serving);
  BuildOptions build;
  build.training = true;
  Graph graph = load_graph(q.common.model, build);
  Plan plan = q.common.plan();
  plan.compute = precision_of(q.train.precision);
  q.common.apply(graph, plan);
  Cluster cluster = parse_cluster(q.common.gpu);
  TrainSearchQuestion search;
  search.sequence = tokens_of(graph, q.train.question.sequence, app.count("--seq") > 0);
  search.global_batch = app.count("--batch") > 0 ? q.train.question.global_batch : cluster.gpus;
  search.goal = q.search.goal, search.threads = q.search.threads;
  TrainSearchResult result = search_training(graph, plan, cluster, search);
  std::string asked = q.common.words();
  if (q.train.precision != TrainOptions().precision) asked += " --precision " + q.train.precision;
  return {train_plan_document(graph, plan, cluster, search, result, asked), result.front.empty() ? 1 : 0};
}

Reply plan_question(const CLI::App& app, Asked& q) {
  refuse_training_options(app);
  PlanQuestion asked(q, lengths_given(app));
  Json doc = search_document(asked.graph, asked.base, asked.cluster, q.search);
  int status = doc["sections"][0]["rows"].empty() ? 1 : 0;
  return {std::move(doc), status};
}

constexpr ModelQuestion kQuestions[] = {
    {"fit", "does it fit, what takes the bytes, what to change",
     [](CLI::App& app, Asked& q) { q.fit_options(app); },
     [](CLI::App& app, Asked& q) {
       return fit_question(q.common, q.batch, q.context, q.engine, app.count("--context") > 0);
     }},
    {"serve", "time to first token, time per token, throughput, energy",
     [](CLI::App& app, Asked& q) { q.serve_options(app); },
     [](CLI::App& app, Asked& q) {
       return serve_question(q.common, q.serve, q.engine, app.count("--rate") > 0, lengths_given(app));
     }},
    {"train", "memory and time of a training iteration",
     [](CLI::App& app, Asked& q) { q.train_options(app); },
     [](CLI::App& app, Asked& q) {
       return train_question(q.common, q.train, q.common.given(app, "dp"), app.count("--seq") > 0,
                             app.count("--batch") > 0);
     }},
    {"render", "images and video: text encoder, denoiser, autoencoder",
     [](CLI::App& app, Asked& q) { q.render_options(app); },
     [](CLI::App& app, Asked& q) {
       return render_question(q.common, q.render, q.size, app.count("--frames") > 0);
     }},
    {"plan", "search over plans; the Pareto front", [](CLI::App& app, Asked& q) { q.plan_options(app); },
     [](CLI::App& app, Asked& q) {
       return q.plan_training ? plan_training_question(app, q) : plan_question(app, q);
     }},
};

}  // namespace

std::span<const ModelQuestion> model_questions() { return kQuestions; }

Reply answer(const ModelQuestion& question, CLI::App& app, Asked& asked) {
  read_plan_file(app, asked.common);
  return question.answer(app, asked);
}

Reply answer(const std::vector<std::string>& words) {
  CLI::App app("a question of orrery model");
  app.require_subcommand(1);
  Asked asked;
  for (const ModelQuestion& q : kQuestions) q.options(*app.add_subcommand(q.name, q.description), asked);
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::Success&) {  // --help
    base::fail("help is no question: `orrery model` prints it");
  } catch (const CLI::ParseError& error) {
    base::fail("{}", error.what());
  }
  if (!asked.common.html.empty() || !asked.common.trace.empty())
    base::fail("the document is returned: --html and --trace have nothing to write");
  for (const ModelQuestion& q : kQuestions)
    if (CLI::App* chosen = app.get_subcommand(q.name); *chosen) return answer(q, *chosen, asked);
  base::fail("no question");
}

}  // namespace orrery::tools
