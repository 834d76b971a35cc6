// Diffusion answers as documents.
#include <fmt/format.h>

#include "tools/model_documents.h"
#include "tools/model_ledgers.h"
#include "tools/model_sections.h"

namespace orrery::tools {

using namespace graph;

namespace {

// Memory of one GPU while the stages follow one another.
void timeline_of_stages(Json& doc, const RenderAnswer& a) {
  Json live = {{"name", "in use"}, {"x", Json::array()}, {"y", Json::array()}}, limit = live;
  limit["name"] = "capacity";
  double clock = 0;
  for (const RenderStage& s : a.stages)
    for (double x : {clock, clock + s.seconds}) {
      live["x"].push_back(x), live["y"].push_back(s.bytes() / kGiB);
      limit["x"].push_back(x), limit["y"].push_back(a.capacity / kGiB);
      if (x > clock) clock = x;
    }
  doc["sections"].push_back({{"title", "memory over the stages"},
                             {"chart", "lines"},
                             {"x", "seconds"},
                             {"y", "GiB"},
                             {"series", Json::array({live, limit})}});
}

void render_facts(Json& doc, const RenderAnswer& a) {
  add_fact_of(doc, "fits", a.fits, "memory at the peak");
  add_fact_of(doc, "peak memory", a.peak_bytes / kGiB, "GiB", "memory at the peak", "GiB",
              fmt::format("of {:.1f} GiB; {:.1f} to {:.1f}: published runs came out within 10%",
                          a.capacity / kGiB, a.peak_bytes * 0.9 / kGiB, a.peak_bytes * 1.1 / kGiB));
  add_fact_of(doc, "time", a.seconds, "s", "time", "seconds",
              fmt::format("{:.4g} to {:.4g} s: nine of ten published runs lie so far from their prediction",
                          a.seconds * 0.85, a.seconds * 1.35));
  bool pipeline = a.plan.schedule == PipelineSchedule::kDenoising;
  add_fact_of(
      doc, "results", a.per_second, "1/s", "time", "seconds",
      fmt::format("{:.4g} to {:.4g}; one after the other{}", a.per_second / 1.35, a.per_second / 0.85,
                  pipeline ? fmt::format(" through {} stages of denoising", a.plan.pp) : ""),
      pipeline ? "the batch, over the longest stage: the denoiser's share of the steps, or encoder and autoencoder"
               : "the batch, over the time");
  add_fact_of(doc, "one forward", a.forward_seconds, "s", "denoiser forward", "seconds",
              fmt::format("MFU {:.0f}%", 100 * a.mfu),
              "the operators, and what moves between ranks and tiers");
  bool two = a.first_forwards < a.forwards;
  report::add_fact(doc, "forwards", a.forwards, "",
                   two ? fmt::format("{:.0f} of the denoiser for high noise, then {:.0f} of the other", a.first_forwards, a.forwards - a.first_forwards) : "");
  if (a.switch_seconds > 0)
    report::add_fact(doc, "change of denoisers", a.switch_seconds, "s", "one goes to the host, the other comes");
  report::add_fact(doc, "latent tokens", a.tokens);
  report::add_fact(doc, "linear operations of a forward", a.linear_flops / 1e12, "TFLOP");
  report::add_fact(doc, "attention operations of a forward", a.attention_flops / 1e12, "TFLOP");
  report::add_fact(doc, "parameters", a.parameters, "", two ? "of both denoisers, one of which runs at a time" : "of the denoiser");
  add_fact_of(doc, "energy", a.joules, "J", "energy", "joules",
              fmt::format("{:.4g} to {:.4g}", a.joules * 0.8, a.joules * 1.25));
  if (a.plan.verbs.empty() && a.plan.gpus() == 1) return;
  std::string text = fmt::format("cp {} dp {}", a.plan.cp, a.plan.dp);
  for (const std::string& verb : a.plan.verbs) text += "; " + verb;
  report::add_fact(doc, "plan", text);
}

// Time, energy and memory of encoder, denoiser and autoencoder.
void stage_tables(Json& doc, const RenderAnswer& a) {
  Json& time = report::add_table(doc, "time", {{"stage", ""}, {"seconds", "s"}});
  for (auto [stage, seconds] : {std::pair{"text encoder", a.encoder_seconds},
                                {"denoiser", a.denoise_seconds},
                                {"autoencoder", a.decode_seconds}})
    time["rows"].push_back(Json::array({stage, seconds}));
  double ranks = a.plan.cp * a.plan.dp;
  Json& energy = report::add_table(doc, "energy", {{"stage", ""}, {"joules", "J"}});
  for (const RenderStage& s : a.stages) energy["rows"].push_back(Json::array({s.name, s.joules * ranks}));
  Json& stages = report::add_table(doc, "peak of each stage", {{"stage", ""}, {"GiB", ""}});
  for (const RenderStage& s : a.stages) stages["rows"].push_back(Json::array({s.name, s.bytes() / kGiB}));
  Json& memory =
      report::add_table(doc, "memory at the peak", {{"what", ""}, {"class", ""}, {"GiB", ""}, {"how", ""}});
  for (const MemoryItem& item : a.items)
    memory["rows"].push_back({item.what, std::string(name_of(item.cls)), item.bytes / kGiB, item.how});
}

// The operators of one forward.
void forward_ledgers(Json& doc, const Cluster& cluster, const RenderAnswer& a) {
  Plan one = a.plan;
  one.pp = 1;
  Program program = render_program(a.graph, one);
  Rates rates = render_rates(cluster);
  Ledger ledger;
  walk(program, a.binding, ledger);
  StepTime step = schedule(program, ledger, a.binding, rates);
  add_step_ledgers(doc, {program, ledger, a.binding, rates, step}, "denoiser forward", "one forward",
                   std::max(0.0, a.forward_seconds - step.seconds), 1);
}

}  // namespace

Json render_document(const DiffusionSpec& spec, const RenderQuestion& q, const Cluster& cluster,
                     const RenderAnswer& a, const std::vector<std::string>& advice) {
  Json doc = report::document(
      fmt::format("render: {} on {}, {} x {}{}", spec.name, cluster.gpu.id(), q.shape.width, q.shape.height,
                  q.shape.frames > 1 ? fmt::format(", {} frames", q.shape.frames) : ""));
  render_facts(doc, a);
  stage_tables(doc, a);
  forward_ledgers(doc, cluster, a);
  timeline_of_stages(doc, a);
  add_advice(doc, advice);
  for (const std::string& note : a.notes) doc["assumptions"].push_back(note);
  add_assumed_values(doc, cluster);
  return doc;
}

}  // namespace orrery::tools
