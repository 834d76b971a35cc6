// Each kind of measurement becomes one ledger line (or one step of a built-in model) and is timed like any
// other.
#include "graph/truth.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/autoencoder.h"
#include "graph/train.h"

namespace orrery::graph {
namespace {

using Json = nlohmann::json;

double number(const Json& row, const char* key) {
  if (!row.contains(key) || !row[key].is_number())
    base::fail("{}: no number '{}'", row.value("id", "?"), key);
  return row[key].get<double>();
}

struct Bench {
  ProgramOp op;
  Line line;
  Binding binding;
  double seconds(const Rates& rates) const { return time_of(op, line, binding, rates).seconds; }
};

Format format_of(const Json& row) { return parse_dtype(row.value("dtype", "bf16")).format; }

Bench product(const Json& row) {
  double m = number(row, "m"), n = number(row, "n"), k = number(row, "k");
  Bench b;
  b.op.kind = OpKind::kContract;
  b.op.format = format_of(row);
  double width = parse_dtype(row.value("dtype", "bf16")).bytes();
  b.op.k_width = k, b.op.n_width = n, b.op.rows = kTokens;
  b.line.ops = 2 * m * n * k, b.line.weight = n * k * width, b.line.activation = m * k * width + m * n * 2;
  b.binding[kTokens] = m;
  return b;
}

Bench grouped(const Json& row) {
  double experts = number(row, "experts"), local = number(row, "local"), chosen = number(row, "chosen");
  double n = number(row, "n"), k = number(row, "k"), tokens = number(row, "tokens");
  double width = parse_dtype(row.value("dtype", "bf16")).bytes(), rows = tokens * chosen * local / experts;
  Bench b;
  b.op.kind = OpKind::kContract;
  b.op.format = format_of(row);
  b.op.grouped_extent = local, b.op.grouped_total = experts;
  b.op.k_width = k, b.op.n_width = n, b.op.rows = kRouted;
  b.binding[kRouted] = rows;
  b.line.ops = 2 * rows * n * k;
  b.op.weight_bytes = local * n * k * width;
  b.line.weight = b.op.weight_bytes * (1 - std::pow(1 - chosen / experts, tokens));
  b.line.activation = rows * k * width + rows * n * 2;
  return b;
}

Bench attention(const Json& row) {
  double batch = number(row, "batch"), heads = number(row, "heads"), kv = number(row, "kv_heads");
  double dim = number(row, "dim"), fresh = number(row, "new"), keys = number(row, "keys");
  Bench b;
  b.op.kind = OpKind::kAttend;
  b.op.head_dim = dim;
  b.binding.causal = row.value("causal", false);
  b.binding[kTokens] = batch * fresh, b.binding[kSeqs] = batch, b.binding[kKeys] = batch * keys;
  double pairs = batch * fresh * keys * (b.binding.causal ? 0.5 : 1);
  b.line.ops = 4 * heads * dim * pairs;
  b.line.state = batch * keys * kv * dim * 2 * 2;
  b.line.activation = 2 * batch * fresh * heads * dim * 2;
  return b;
}

Bench norm(const Json& row) {
  double n = number(row, "rows") * number(row, "width");
  Bench b;
  b.op.kind = OpKind::kReduce;
  b.line.ops = 4 * n, b.line.activation = 4 * n;
  return b;
}

// A convolution is a product over its window.
Bench convolution(const Json& row) {
  double in = number(row, "channels"), out = number(row, "out"), side = number(row, "side"),
         size = number(row, "kernel");
  Bench b;
  b.op.kind = OpKind::kContract;
  b.op.k_width = in * size * size, b.op.n_width = out, b.op.rows = kTokens;
  b.binding[kTokens] = side * side;
  b.line.ops = 2 * side * side * in * size * size * out;
  b.line.weight = in * size * size * out * 2, b.line.activation = side * side * (in + out) * 2;
  return b;
}

Collective collective_named(const std::string& name) {
  for (Collective c :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll})
    if (name == name_of(c)) return c;
  base::fail("unknown collective '{}'", name);
}

double copy_seconds(const Json& row, const Rates& rates) {
  if (row.value("memory", "") != "pinned")
    base::fail("copies from pageable memory (the driver's staging is not modelled)");
  return rates.host_latency + number(row, "bytes") / rates.host;
}

Measured step(const Json& row, const Cluster& one) {
  Measured m;
  std::string model = row.value("model", "");
  if (row.value("how", "").starts_with("transformers"))
    base::fail("steps of an unfused framework (each element-wise part is several kernels)");
  if (row.value("how", "").find("flash attention") != std::string::npos && number(row, "new") == 1 &&
      number(row, "tp") == 1)
    base::fail(
        "decode steps with the framework's older attention kernel (the same steps with the faster one are "
        "compared)");
  Graph graph = build_transformer(load_transformer(model));
  Plan plan;
  plan.tp = static_cast<int>(number(row, "tp"));
  Cluster cluster{one.gpu, plan.tp};
  StepPredictor predictor(graph, plan, cluster);
  StepShape s;
  double batch = number(row, "batch"), fresh = number(row, "new"), keys = number(row, "keys");
  if (fresh == 1)
    s.decode_seqs = batch, s.decode_context = keys - 1;
  else
    s.prefill_seqs = batch, s.prefill_tokens = batch * fresh, s.prefill_context = keys - fresh;
  predictor.use_nccl_collectives();
  StepTime t = predictor.step(s);
  m.predicted = t.seconds;
  if (row.contains("joules") && row["joules"].is_number()) {
    m.joules_measured = number(row, "joules");
    m.joules_predicted = t.joules;
    m.measured = number(row, "joules_seconds");  // of the steady loop, under the board's limit
  }
  return m;
}

// A group norm of 32 groups and the activation behind it, channels first.
double group_norm(const Json& row, const Rates& rates) {
  double n = number(row, "channels") * number(row, "side") * number(row, "side");
  Bench norm, silu;
  norm.op.kind = OpKind::kReduce, silu.op.kind = OpKind::kMap;
  norm.op.lanes = 32;
  norm.line.ops = 8 * n, silu.line.ops = n;
  norm.line.activation = silu.line.activation = 4 * n;
  return norm.seconds(rates) + silu.seconds(rates);
}

// One run of a decoder. What it allocated is compared with its weights and the largest sum of live
// activations.
Measured autoencoder(const Json& row, const Rates& rates) {
  static const std::map<std::string, std::string> kinds = {
      {"flux", "kl"}, {"sana", "dc"}, {"wan", "wan"}, {"ltx", "ltx-0.9.7 untimed"}};
  std::string kind = kinds.at(row.value("family", "flux"));
  RenderShape shape;
  shape.width = static_cast<int>(row.contains("side") ? number(row, "side") : number(row, "width"));
  shape.height = static_cast<int>(row.contains("side") ? number(row, "side") : number(row, "height"));
  shape.frames = row.contains("frames") ? static_cast<int>(number(row, "frames")) : 1;
  Graph graph = build_autoencoder(kind);
  bool wide = row.value("dtype", "bf16") == "fp32";
  for (Tensor& t : graph.tensors)
    if (!wide && t.dtype.format == Format::kTf32) t.dtype = kBf16;
  Program program = compile(graph, Plan{});
  DecodeRuns d = decode_runs(kind, shape, 1);
  Ledger ledger;
  walk(program, d.binding, ledger);
  StepTime t = schedule(program, ledger, d.binding, rates);
  Measured m;
  m.predicted = t.seconds;
  m.joules_measured = number(row, "joules"), m.joules_predicted = t.joules;
  m.bytes_measured = number(row, "peak_bytes");
  double idle = 0;
  for (const auto& [tensor, bytes] : program.weights)
    if (graph.tensors[tensor].name == "encoder.weights") idle = bytes;
  m.bytes_predicted = program.weight_bytes - idle + activation_peak(program, d.binding);
  return m;
}

// Memory of a text encoder; its time is that of an unfused framework.
Measured encoder(const Json& row) {
  static const std::map<std::string, std::string> models = {
      {"t5-xxl", "T5-XXL encoder"}, {"clip-l", "CLIP-L text encoder"}, {"gemma-2-2b", "Gemma-2-2B"}};
  Graph graph = build_transformer(load_transformer(models.at(row.value("model", ""))));
  Program program = compile(graph, Plan{});
  StepShape s;
  s.prefill_seqs = number(row, "batch"), s.prefill_tokens = number(row, "tokens"), s.causal = false;
  Binding b = bind(graph, Plan{}, s);
  b[kOutputs] = 0;
  Measured m;
  m.bytes_measured = number(row, "peak_bytes");
  m.bytes_predicted = program.weight_bytes + activation_peak(program, b);
  return m;
}

// The experts' part of one layer, forward and backward, on one rank of as many as hold all experts: what is
// not sent. The measured layers have no biases.
double expert_layer(const Json& row, const Cluster& one) {
  BuildOptions options;
  options.training = true;
  Graph graph = build_transformer(load_transformer(row.value("model", "")), options);
  Plan plan;
  plan.dp = plan.ep = static_cast<int>(number(row, "experts") / number(row, "local"));
  TrainQuestion q;
  q.sequence = number(row, "tokens"), q.global_batch = plan.dp;
  TrainAnswer a = train(graph, plan, {one.gpu, plan.dp}, q);
  double seconds = 0, joules = 0, layers = 0;
  for (const TrainLine& l : a.lines) {
    const ProgramOp& op = a.program.ops[l.line.op];
    if (op.part != Part::kExpert || op.collective != Collective::kNone || op.pass == kBiasPass || op.pass == kClampPass) continue;
    seconds += l.time.seconds * l.line.times, joules += l.joules.total() * l.line.times;
    if (graph.ops[op.op].name == "router" && l.pass == Pass::kForward) layers += l.line.times;
  }
  return std::max(seconds, joules / (a.rates.limit_watts - a.rates.idle_watts)) / layers;
}

Measured predict(const Json& row, const Cluster& gpu, const Rates& rates) {
  Measured m;
  std::string kind = row.value("kind", "");
  if (kind == "step")
    m = step(row, gpu);
  else if (kind == "gemm")
    m.predicted = product(row).seconds(rates);
  else if (kind == "grouped" && row.value("hit", 0) == 0)
    base::fail("grouped products that no row reached");
  else if (kind == "grouped")
    m.predicted = grouped(row).seconds(rates);
  else if (kind == "attention")
    m.predicted = attention(row).seconds(rates);
  else if (kind == "norm")
    m.predicted = norm(row).seconds(rates);
  else if (kind == "conv")
    m.predicted = convolution(row).seconds(rates);
  else if (kind == "copy")
    m.predicted = copy_seconds(row, rates);
  else if (kind == "groupnorm")
    m.predicted = group_norm(row, rates);
  else if (kind == "expert layer")
    m.predicted = expert_layer(row, gpu);
  else if (kind == "launched layer")
    base::fail("layers that the host launches more slowly than the device works");
  else if (kind == "train")
    base::fail("training steps of an unfused framework (states in 16 bits)");
  else if (kind == "autoencoder")
    m = autoencoder(row, rates);
  else if (kind == "encoder")
    m = encoder(row);
  else if (kind == "collective")
    m.predicted = collective_time(collective_named(row.value("collective", "")),
                                  static_cast<int>(number(row, "ranks")), number(row, "bytes"), rates);
  else
    base::fail("measurements of kind '{}'", kind);
  m.id = row.value("id", "");
  m.kind = kind == "step"        ? "step, " + row.value("phase", "")
           : kind == "attention" ? (number(row, "new") == 1 ? "attention, decode" : "attention, prefill")
                                 : kind;
  if (m.measured == 0 && m.predicted > 0) m.measured = number(row, "seconds");
  return m;
}

std::string profile_of(const std::string& name) {
  for (const std::string& id : list_profiles()) {
    Profile p = load_profile(id);
    if (p.has(FieldId::name) && p.at(FieldId::name).text == name) return id;
  }
  base::fail("no profile is named '{}'", name);
}

}  // namespace

Truth compare_with_truth(const std::string& path) {
  std::ifstream in(path);
  if (!in) base::fail("cannot read {}", path);
  Truth truth;
  Cluster cluster;
  Rates rates;
  for (std::string text; std::getline(in, text);) {
    Json row = Json::parse(text, nullptr, false);
    if (!row.is_object()) base::fail("{}: a line is not a JSON object", path);
    if (row.contains("gpu")) {
      truth.gpu = row["gpu"].get<std::string>();
      truth.source = fmt::format("driver {}, {}, {}", row.value("driver", "?"), row.value("date", "?"),
                                 row.value("command", "?"));
      cluster = {load_profile(profile_of(truth.gpu)), 1};
      rates = read_rates(cluster.gpu);
      rates.nccl_collectives = true;
      continue;
    }
    if (truth.gpu.empty()) base::fail("{}: the first line does not name the GPU", path);
    try {
      truth.rows.push_back(predict(row, cluster, rates));
    } catch (const base::Error& error) {
      ++truth.not_predicted[error.what()];
    }
  }
  return truth;
}

namespace {

std::string line_of(const std::string& name, std::vector<double> ratios) {
  std::vector<double> errors;
  for (double r : ratios) errors.push_back(std::fabs(r - 1));
  std::sort(errors.begin(), errors.end()), std::sort(ratios.begin(), ratios.end());
  auto at = [](const std::vector<double>& v, double share) {
    return v[std::min(v.size() - 1, static_cast<std::size_t>(share * v.size()))];
  };
  auto median = [](const std::vector<double>& v) { return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2; };
  return fmt::format(
      "  {:<25} {:>4} rows, median error {:>5.1f}%, 90th percentile {:>5.1f}%, bias {:>+6.1f}%\n", name,
      errors.size(), 100 * median(errors), 100 * at(errors, 0.9), 100 * (median(ratios) - 1));
}

}  // namespace

std::string truth_text(const Truth& truth) {
  std::string out = fmt::format("{} ({}): {} measurements\n", truth.gpu, truth.source, truth.rows.size());
  std::map<std::string, std::vector<double>> time, energy;
  const Measured* worst = nullptr;
  auto error = [](const Measured& m) { return std::fabs(std::log(m.predicted / m.measured)); };
  for (const Measured& m : truth.rows) {
    if (m.bytes_measured > 0)
      energy["peak memory, " + m.kind].push_back(m.bytes_predicted / m.bytes_measured);
    if (m.measured == 0) continue;
    time[m.kind].push_back(m.predicted / m.measured);
    time["all"].push_back(m.predicted / m.measured);
    if (m.joules_measured > 0)
      for (const std::string& kind : {m.kind, std::string("all")})
        energy["joules, " + kind].push_back(m.joules_predicted / m.joules_measured);
    if (!worst || error(m) > error(*worst)) worst = &m;
  }
  for (const auto& [kind, ratios] : time) out += line_of(kind, ratios);
  for (const auto& [kind, ratios] : energy) out += line_of(kind, ratios);
  if (worst)
    out += fmt::format("  worst: {} predicted {:.3g} us, measured {:.3g} us\n", worst->id,
                       worst->predicted * 1e6, worst->measured * 1e6);
  for (const auto& [why, count] : truth.not_predicted)
    out += fmt::format("  not predicted, {} rows: {}\n", count, why);
  return out;
}

}  // namespace orrery::graph
