// Diffusion answers as documents.
#include <fmt/format.h>

#include "tools/model_documents.h"

namespace orrery::tools {

using namespace graph;

Json render_document(const DiffusionSpec& spec, const RenderQuestion& q, const Cluster& cluster,
                     const RenderAnswer& a) {
  constexpr double gib = 1073741824.0;
  Json doc = report::document(
      fmt::format("render: {} on {}, {} x {}{}", spec.name, cluster.gpu.id(), q.shape.width, q.shape.height,
                  q.shape.frames > 1 ? fmt::format(", {} frames", q.shape.frames) : ""));
  report::add_fact(doc, "fits", a.fits ? "yes" : "no");
  report::add_fact(doc, "peak memory", a.peak_bytes / gib, "GiB",
                   fmt::format("of {:.1f} GiB", a.capacity / gib));
  doc["facts"].back()["why"] = {{"table", "memory at the peak"}, {"column", "GiB"}};
  report::add_fact(doc, "time", a.seconds, "s",
                   fmt::format("{:.4g} to {:.4g} s: the error on published runs is up to 20%",
                               a.seconds * 0.8, a.seconds * 1.25));
  doc["facts"].back()["why"] = {{"table", "time"}, {"column", "seconds"}};
  report::add_fact(doc, "one forward", a.forward_seconds, "s", fmt::format("MFU {:.0f}%", 100 * a.mfu));
  report::add_fact(doc, "forwards", a.forwards);
  report::add_fact(doc, "latent tokens", a.tokens);
  report::add_fact(doc, "linear operations of a forward", a.linear_flops / 1e12, "TFLOP");
  report::add_fact(doc, "attention operations of a forward", a.attention_flops / 1e12, "TFLOP");
  report::add_fact(doc, "parameters", a.parameters);
  report::add_fact(doc, "energy", a.joules, "J");
  Json& time = report::add_table(doc, "time", {{"stage", ""}, {"seconds", "s"}});
  auto row = [&time](const char* stage, double seconds) {
    time["rows"].push_back(Json::array({stage, seconds}));
  };
  row("text encoder", a.encoder_seconds);
  row("denoiser", a.denoise_seconds);
  row("autoencoder", a.decode_seconds);
  Json& stages = report::add_table(doc, "peak of each stage", {{"stage", ""}, {"GiB", ""}});
  for (const RenderStage& s : a.stages) stages["rows"].push_back(Json::array({s.name, s.bytes() / gib}));
  Json& memory =
      report::add_table(doc, "memory at the peak", {{"what", ""}, {"class", ""}, {"GiB", ""}, {"how", ""}});
  for (const MemoryItem& item : a.items)
    memory["rows"].push_back({item.what, std::string(name_of(item.cls)), item.bytes / gib, item.how});
  for (FieldId field : cluster.gpu.assumed_fields_used()) {
    const FieldValue& v = cluster.gpu.at(field);
    doc["assumptions"].push_back(fmt::format("{}: {} = {} {} ({})", cluster.gpu.id(), field_spec(field).key,
                                             v.written, v.unit, v.cite));
  }
  return doc;
}

}  // namespace orrery::tools
