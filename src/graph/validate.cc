// Reads measured rows and compares.
#include "graph/validate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "graph/measured_rows.h"
#include "graph/serve.h"
#include "graph/truth.h"
#include "graph/validate_goals.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

void requantize(Graph& g, const TransformerSpec& spec, std::string format, bool blocks) {
  Plan none;
  std::transform(format.begin(), format.end(), format.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (format == "fp8")
    apply_verb(blocks ? "requant weight fp8 block" : "requant weight fp8", g, none);
  else if (format == "fp4")
    apply_verb(spec.family == "gpt-oss" ? "requant weight mxfp4 experts-only" : "requant weight nvfp4", g,
               none);
  else if (format != "bf16" && !format.empty())
    base::fail("unknown precision '{}'", format);
}

Compared tpot_row(const Row& row) {
  TransformerSpec spec = load_transformer(row.at("model"));
  Graph g = build_transformer(spec);
  requantize(g, spec, row.at("precision"), row.contains("gemm_quant") && row.at("gemm_quant") == "fp8_block");
  Plan plan;
  // FP8 checkpoints made for TensorRT-LLM (NVIDIA's Model Optimizer) keep fp8 keys and values, which it takes over
  // (kv_cache_quant_algo of their hf_quant_config.json).
  if (row.at("engine") == "trtllm" && row.at("precision") == "fp8") apply_verb("requant kv fp8", g, plan);
  plan.tp = whole(row, "tp"), plan.dp = whole(row, "attention_dp"), plan.pp = whole(row, "pp"),
  plan.ep = whole(row, "ep");
  Cluster cluster{profile_named(row.at("gpu")), whole(row, "gpus")};
  ServeQuestion q;
  q.input = number(row, "isl", 0), q.output = number(row, "osl", 0),
  q.concurrency = number(row, "concurrency", 1);
  q.engine = find_engine(row.at("engine"));
  ServeAnswer a = serve(g, plan, cluster, q);
  Compared c;
  c.group = row.at("family") + " " + cluster.gpu.id() + " " + row.at("engine") + " " + row.at("precision");
  c.question =
      row.at("model") + row.at("engine") + row.at("isl") + "/" + row.at("osl") + " c" + row.at("concurrency");
  c.predicted = a.tpot;
  c.measured = number(row, "tpot_ms", 0) / 1e3;
  c.below_bound = c.measured < a.tpot_bound;
  return c;
}

Compared throughput_row(const Row& row) {
  TransformerSpec spec = load_transformer(row.at("model"));
  Graph g = build_transformer(spec);
  requantize(g, spec, row.at("precision"), false);
  Plan none;
  apply_verb("requant kv fp8", g, none);  // the FP8 checkpoints of this source keep fp8 keys and values
  Plan plan;
  int gpus = whole(row, "gpus");
  if (spec.moe())
    plan.dp = plan.ep = gpus;
  else
    plan.tp = gpus;
  Cluster cluster{profile_named(row.at("gpu")), gpus};
  ServeAnswer a =
      serve_max_load(g, plan, cluster, number(row, "isl", 0), number(row, "osl", 0), find_engine("trtllm"));
  Compared c;
  c.group = row.at("model") + " " + cluster.gpu.id();
  c.question = row.at("model") + row.at("isl") + "/" + row.at("osl");
  c.predicted = a.output_tokens_s;
  c.measured = number(row, "output_tok_s", 0);
  c.capped = a.capped;
  return c;
}

}  // namespace

Accuracy validate_tpot(const std::string& path) { return compare_rows(path, true, tpot_row); }
Accuracy validate_throughput(const std::string& path) { return compare_rows(path, false, throughput_row); }

Validation validate(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) base::fail("{} is not a folder", folder);
  Validation v;
  std::vector<Goal> goals;
  auto reach = [&](std::vector<Goal> more) { goals.insert(goals.end(), more.begin(), more.end()); };
  auto compared = [&](const char* name, auto compare) {
    std::string file = (std::filesystem::path(folder) / name).string();
    if (std::filesystem::exists(file)) compare(file);
  };
  compared("open.csv", [&](const std::string& file) {
    Accuracy a = validate_tpot(file);
    v.text += accuracy_text("TPOT", a, true), reach(tpot_goals(a));
  });
  compared("throughput.csv", [&](const std::string& file) {
    Accuracy a = validate_throughput(file);
    v.text += accuracy_text("maximum throughput", a, true), reach(throughput_goals(a));
  });
  compared("megatron.csv", [&](const std::string& file) {
    Accuracy a = validate_training(file);
    v.text += accuracy_text("training iterations", a, true), reach(training_goals(a)), reach(activation_goals(file));
  });
  compared("mlperf_training.csv", [&](const std::string& file) { reach(mlperf_goals(file)); });
  compared("long_sequence.csv", [&](const std::string& file) { reach(long_sequence_goals(file)); });
  compared("diffusion.csv", [&](const std::string& file) {
    RenderAccuracy r = validate_render(file);
    v.text += accuracy_text("rendering, seconds", r.time, true);
    v.text += accuracy_text("rendering, peak memory", r.memory, true);
    reach(rendering_goals(r));
  });
  std::vector<std::string> truths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jsonl") truths.push_back(entry.path().string());
  std::sort(truths.begin(), truths.end());
  std::vector<Truth> measured;
  for (const std::string& path : truths) {
    measured.push_back(compare_with_truth(path));
    v.text += truth_text(measured.back());
  }
  reach(energy_goals(measured));
  if (v.text.empty() && goals.empty())
    base::fail("{} holds none of open.csv, throughput.csv, megatron.csv, mlperf_training.csv, long_sequence.csv, diffusion.csv, *.jsonl",
               folder);
  if (!goals.empty()) v.text += goals_text(goals);
  for (const Goal& g : goals) v.missed += g.verdict() == Verdict::kMissed;
  return v;
}

}  // namespace orrery::graph
