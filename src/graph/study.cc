// Evaluation of study files.
#include "graph/study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/toml.h"
#include "graph/expression.h"
#include "graph/render.h"
#include "graph/serve.h"
#include "graph/train.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

// Settings of one side of a prediction: the study's own, then those of the side.
class Settings {
 public:
  Settings(const toml::table& common, const toml::table* side) : common_(common), side_(side) {}
  std::string text(const char* key, const std::string& absent = "") const {
    const toml::node* n = node(key);
    if (!n) {
      if (absent.empty()) base::fail("no '{}'", key);
      return absent;
    }
    auto value = n->value<std::string>();
    if (!value) base::fail("'{}' must be text", key);
    return *value;
  }
  double number(const char* key, double absent) const {
    const toml::node* n = node(key);
    if (!n) return absent;
    if (n->is_string()) return evaluate(*n->value<std::string>());
    auto value = n->value<double>();
    if (!value) base::fail("'{}' must be a number", key);
    return *value;
  }
  bool flag(const char* key) const {
    const toml::node* n = node(key);
    return n && n->value_or(false);
  }
  std::vector<std::string> list(const char* key) const {
    std::vector<std::string> out;
    const toml::node* n = node(key);
    if (!n) return out;
    if (!n->is_array()) base::fail("'{}' must be a list", key);
    for (auto&& item : *n->as_array()) out.push_back(item.value_or(std::string()));
    return out;
  }
  int whole(const char* key, int absent) const {
    double value = number(key, absent);
    if (!(value >= 0 && value <= kMostGpus && value == std::floor(value)))
      base::fail("'{}' must be a whole number from 0 to {}, not {:g}", key, kMostGpus, value);
    return static_cast<int>(value);
  }

 private:
  const toml::node* node(const char* key) const {
    if (side_)
      if (const toml::node* n = side_->get(key)) return n;
    return common_.get(key);
  }
  const toml::table& common_;
  const toml::table* side_;
};

struct Subject {
  Graph graph;
  Plan plan;
  Cluster cluster;
};

Subject subject(const Settings& s, bool training) {
  BuildOptions o;
  o.training = training;
  o.dropout = o.math_attention = training && s.flag("math_attention");
  TransformerSpec spec =
      s.text("model", "-") == "gpt"
          ? megatron_gpt("gpt", s.whole("layers", 0), s.whole("hidden", 0), s.whole("heads", 0),
                         s.whole("sequence", 2048), s.whole("vocab", 51200))
          : load_transformer(s.text("model"));
  Subject x{build_transformer(spec, o), {}, {}};
  x.plan.tp = s.whole("tp", 1), x.plan.pp = s.whole("pp", 1), x.plan.dp = s.whole("dp", 1);
  x.plan.cp = s.whole("cp", 1), x.plan.ep = s.whole("ep", 1);
  for (const std::string& verb : s.list("do")) apply_verb(verb, x.graph, x.plan);
  x.plan.compute = parse_dtype(s.text("precision", "bf16"));
  x.plan.offset_bits = s.whole("kernel_offsets", 64);
  x.cluster = parse_cluster(s.text("gpu"));
  x.cluster.gpus = std::max(x.cluster.gpus, x.plan.gpus());
  return x;
}

double serve_metric(const Settings& s, const std::string& metric) {
  Subject x = subject(s, false);
  ServeQuestion q;
  q.input = s.number("input", 1024), q.output = s.number("output", 256),
  q.concurrency = s.number("concurrency", 1);
  q.engine = find_engine(s.text("engine", "none"));
  if (metric == "max tokens/s")
    return serve_max_load(x.graph, x.plan, x.cluster, q.input, q.output, q.engine).total_tokens_s;
  ServeAnswer a = serve(x.graph, x.plan, x.cluster, q);
  if (metric == "tpot") return a.tpot;
  if (metric == "ttft") return a.ttft;
  if (metric == "prefill") return a.prefill_seconds;
  if (metric == "decode tokens/s") return 1 / a.tpot;
  if (metric == "tokens/s") return a.output_tokens_s;
  if (metric == "total tokens/s") return a.total_tokens_s;
  if (metric == "joules/token") return a.joules_per_token;
  base::fail("unknown serve metric '{}'", metric);
}

double fit_metric(const Settings& s, const std::string& metric) {
  Subject x = subject(s, false);
  FitAnswer a =
      fit(x.graph, x.plan, x.cluster, s.number("batch", 1), s.number("context", 4096), find_engine("none"));
  if (metric == "memory") return a.total;
  if (metric == "memory share") return a.total / a.capacity;
  if (metric == "sequences") return a.max_sequences;
  if (metric == "context") return a.max_context;
  double weights = 0, state = 0;
  for (const MemoryItem& item : a.items) {
    if (item.cls == TensorClass::kWeight) weights += item.bytes;
    if (item.cls == TensorClass::kState) state += item.bytes;
  }
  if (metric == "weights") return weights;
  if (metric == "kv") return state;
  if (metric == "parameters") return count_parameters(x.graph).total;
  base::fail("unknown fit metric '{}'", metric);
}

double train_metric(const Settings& s, const std::string& metric) {
  Subject x = subject(s, true);
  TrainQuestion q;
  q.sequence = s.number("sequence", 2048), q.micro_batch = s.number("micro_batch", 1);
  q.global_batch = s.number("batch", q.micro_batch * x.plan.dp);
  q.causal = !s.flag("not_causal");
  if (metric == "longest sequence") return longest_sequence(x.graph, x.plan, x.cluster, q);
  TrainAnswer a = train(x.graph, x.plan, x.cluster, q);
  if (metric == "seconds") return a.seconds;
  if (metric == "tflops") return a.tflops_per_gpu * 1e12;
  if (metric == "hardware tflops") return a.tflops_per_gpu * 1e12 * a.hardware_flops / a.model_flops;
  if (metric == "mfu") return a.mfu;
  if (metric == "memory") return a.total;
  if (metric == "trainable bytes") return a.trainable * 16;
  if (metric == "activations") return activation_bytes(x.graph, x.plan, q.sequence, q.micro_batch);
  if (metric == "tokens/s") return a.tokens_s_per_gpu * x.plan.gpus();
  if (metric == "joules") return a.joules;
  base::fail("unknown train metric '{}'", metric);
}

double render_metric(const Settings& s, const std::string& metric) {
  RenderQuestion q;
  q.shape.width = s.whole("width", 1024), q.shape.height = s.whole("height", 1024),
  q.shape.frames = s.whole("frames", 1);
  q.steps = s.whole("steps", 0), q.passes = s.whole("passes", 0), q.batch = s.number("batch", 1);
  q.encoder_on_host = s.flag("encoder_on_host"), q.stay = s.flag("stay"),
  q.layer_offload = s.flag("layer_offload");
  q.weights = parse_dtype(s.text("weights", "bf16"));
  DiffusionSpec spec = load_denoiser(s.text("model"));
  spec.space_stride = s.whole("space_stride", spec.space_stride);
  spec.patch = s.whole("patch", spec.patch);
  Plan plan;
  plan.cp = s.whole("cp", 1);
  Cluster cluster = parse_cluster(s.text("gpu"));
  cluster.gpus = std::max(cluster.gpus, plan.cp);
  RenderAnswer a = render(spec, plan, cluster, q);
  if (metric == "seconds") return a.seconds;
  if (metric == "denoise seconds") return a.denoise_seconds;
  if (metric == "memory") return a.peak_bytes;
  if (metric == "forward") return a.forward_seconds;
  if (metric == "frames/s") return q.shape.frames / a.denoise_seconds;
  if (metric == "joules") return a.joules;
  if (metric == "tokens") return a.tokens;
  if (metric == "parameters") return a.parameters;
  base::fail("unknown render metric '{}'", metric);
}

// A part priced by declared operations and bytes on a GPU, or on a machine declared by its peaks.
double roofline_metric(const Settings& s, const std::string& metric) {
  double peak = s.number("peak", 0), bandwidth = s.number("bandwidth", 0), watts = s.number("watts", 0);
  if (peak == 0) {
    Rates r = read_rates(parse_cluster(s.text("gpu")).gpu);
    peak = s.flag("vector") ? r.vector : r.tensor16;
    bandwidth = r.memory;
    watts = r.limit_watts;
  }
  double seconds =
      std::max(s.number("ops", 0) / (peak * s.number("efficiency", 1)), s.number("bytes", 0) / bandwidth) +
      s.number("fixed", 0);
  if (metric == "seconds") return seconds;
  if (metric == "per second") return 1 / seconds;
  if (metric == "joules") return seconds * watts;
  base::fail("unknown roofline metric '{}'", metric);
}

double metric_of(const std::string& kind, const Settings& s, const std::string& metric) {
  if (kind == "serve") return serve_metric(s, metric);
  if (kind == "fit") return fit_metric(s, metric);
  if (kind == "train") return train_metric(s, metric);
  if (kind == "render") return render_metric(s, metric);
  if (kind == "roofline") return roofline_metric(s, metric);
  if (kind == "formula") return evaluate(s.text("expression"));
  base::fail("unknown kind '{}'; known: serve, fit, train, render, roofline, formula", kind);
}

bool more_is_better(const std::string& metric) {
  return metric.find("/s") != std::string::npos || metric == "per second" || metric == "sequences" ||
         metric == "context" || metric == "mfu" || metric.find("tflops") != std::string::npos ||
         metric == "longest sequence";
}

Prediction predict(const toml::table& t) {
  Prediction p;
  p.name = t["name"].value_or(std::string("prediction"));
  std::string kind = t["kind"].value_or(std::string());
  p.metric = t["metric"].value_or(std::string("value"));
  const auto* before = t["baseline"].as_table();
  const auto* after = t["technique"].as_table();
  if (t.contains("claimed")) p.claimed = Settings(t, nullptr).number("claimed", 0);
  if (before || after) {
    p.before = metric_of(kind, Settings(t, before), p.metric);
    p.after = metric_of(kind, Settings(t, after), p.metric);
    p.value = more_is_better(p.metric) ? *p.after / *p.before : *p.before / *p.after;
    if (t["as"].value_or(std::string()) == "share") p.value = *p.after / *p.before;
  } else {
    p.value = metric_of(kind, Settings(t, nullptr), p.metric);
  }
  return p;
}

Judgement judge(const toml::table& t) {
  Judgement j;
  j.name = t["name"].value_or(std::string());
  j.expression = t["expression"].value_or(std::string());
  j.value = evaluate(j.expression);
  j.claimed = Settings(t, nullptr).number("claimed", 0);
  j.tolerance = Settings(t, nullptr).number("tolerance", 0.02);
  j.agrees = std::fabs(j.value - j.claimed) <= j.tolerance * std::fabs(j.claimed);
  return j;
}

std::vector<const toml::table*> tables(const toml::table& t, const char* key) {
  std::vector<const toml::table*> out;
  const toml::node* node = t.get(key);
  if (!node) return out;
  if (!node->is_array_of_tables()) base::fail("'{}' must be tables: [[{}]]", key, key);
  for (auto&& item : *node->as_array()) out.push_back(item.as_table());
  return out;
}

std::string readable(double v) {
  double m = std::fabs(v);
  if (m >= 1e15) return fmt::format("{:.4g} P", v / 1e15);
  if (m >= 1e12) return fmt::format("{:.4g} T", v / 1e12);
  if (m >= 1e9) return fmt::format("{:.4g} G", v / 1e9);
  if (m >= 1e6) return fmt::format("{:.4g} M", v / 1e6);
  return fmt::format("{:.4g}", v);
}

}  // namespace

Study run_study(const std::string& path) {
  Study study;
  study.file = path;
  const toml::table t = base::read_toml(path);
  try {
    for (auto&& [key, node] : t)
      if (key != "id" && key != "title" && key != "claim" && key != "expression" && key != "baseline" &&
          key != "unjudged" && key != "arithmetic" && key != "predict")
        base::fail("unknown key '{}'", std::string(key.str()));
    study.id = t["id"].value_or(std::string());
    study.title = t["title"].value_or(std::string());
    study.claim = t["claim"].value_or(std::string());
    study.baseline = t["baseline"].value_or(std::string());
    study.unjudged = t["unjudged"].value_or(std::string());
    study.expression = Settings(t, nullptr).list("expression");
    if (study.id != std::filesystem::path(path).stem())
      base::fail("id '{}' is not the file's name", study.id);
    for (const toml::table* item : tables(t, "arithmetic")) study.judgements.push_back(judge(*item));
    for (const toml::table* item : tables(t, "predict")) study.predictions.push_back(predict(*item));
    if (study.predictions.empty() && study.judgements.empty() && study.unjudged.empty())
      base::fail("predicts nothing and does not say why");
  } catch (const std::runtime_error& error) {
    base::fail("{}: {}", path, error.what());
  }
  return study;
}

std::vector<std::string> study_files(const std::string& folder) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(folder)) base::fail("no folder of studies at {}", folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::string study_text(const Study& s) {
  std::string out = fmt::format("{}: {}\n  claim       {}\n", s.id, s.title, s.claim);
  for (const std::string& verb : s.expression) out += "  verb        " + verb + "\n";
  if (!s.baseline.empty()) out += "  assumed     " + s.baseline + "\n";
  for (const Judgement& j : s.judgements)
    out += fmt::format("  arithmetic  {}: {} = {}, stated {}: {}\n", j.name, j.expression, readable(j.value),
                       readable(j.claimed),
                       j.agrees ? "agrees" : fmt::format("DOES NOT AGREE ({:.3g} x)", j.claimed / j.value));
  for (const Prediction& p : s.predictions) {
    std::string limit =
        p.metric == "max tokens/s" ? fmt::format(", at most {:.0f} sequences a rank", kMostSequences) : "";
    out += fmt::format("  predicted   {} [{}{}]: {}", p.name, p.metric, limit, readable(p.value));
    if (p.before) out += fmt::format(" ({} -> {})", readable(*p.before), readable(*p.after));
    if (p.claimed)
      out +=
          fmt::format(", claimed {}, claim / prediction {:.3g}", readable(*p.claimed), *p.claimed / p.value);
    out += "\n";
  }
  if (!s.unjudged.empty()) out += "  not judged  " + s.unjudged + "\n";
  return out;
}

}  // namespace orrery::graph
