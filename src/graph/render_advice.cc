// What would make a rendering fit: each change is asked anew and its peak and time stand in the advice.
#include <fmt/format.h>

#include "base/error.h"
#include "graph/render.h"

namespace orrery::graph {

std::vector<std::string> render_advice(const DiffusionSpec& spec, const Plan& plan, const Cluster& cluster,
                                       const RenderQuestion& asked, const RenderAnswer& answer) {
  std::vector<std::string> advice;
  if (answer.fits) return advice;
  const RenderStage* fullest = &answer.stages.front();
  for (const RenderStage& s : answer.stages)
    if (s.bytes() > fullest->bytes()) fullest = &s;
  advice.push_back(fmt::format("{:.1f} GiB too much while the {} runs",
                               (answer.peak_bytes - answer.capacity) / kGiB, fullest->name));
  auto attempt = [&](const std::string& what, auto change) {
    RenderQuestion q = asked;
    change(q);
    try {
      RenderAnswer a = render(spec, plan, cluster, q);
      if (a.peak_bytes > 0.99 * answer.peak_bytes) return false;
      advice.push_back(fmt::format("{}: {:.1f} GiB, {}, in {:.2g} times the time", what, a.peak_bytes / kGiB,
                                   a.fits ? "fits" : "still too much", a.seconds / answer.seconds));
      return a.fits;
    } catch (const base::Error&) {  // not for this model
      return false;
    }
  };
  bool done = asked.stay && attempt("without --stay", [](RenderQuestion& q) { q.stay = false; });
  bool given = asked.weights != kBf16;
  for (const std::string& verb : asked.verbs) given |= verb.starts_with("requant");
  auto weights = [&](const std::string& format) {
    return attempt("--weights " + format, [&](RenderQuestion& q) { q.verbs.insert(q.verbs.begin(), "requant weight " + format); });
  };
  if (!given && spec.stored_bits > 16) given = done |= weights("bf16");
  if (!given) done |= weights("fp8");
  done |= !asked.encoder_on_host &&
          attempt("--encoder-on-host", [](RenderQuestion& q) { q.encoder_on_host = true; });
  auto leaves = [](RenderQuestion& q) { q.layer_offload = true, q.verbs.push_back("prefetch 1"); };
  done |= !asked.layer_offload && attempt("--layer-offload --do 'prefetch 1'", leaves);
  // All at once, where that is more than one of them alone.
  std::vector<std::string> all;
  if (asked.stay) all.push_back("without --stay");
  if (!asked.encoder_on_host) all.push_back("--encoder-on-host");
  if (!asked.layer_offload) all.push_back("--layer-offload --do 'prefetch 1'");
  if (!done && all.size() > 1)
    attempt(fmt::format("{}", fmt::join(all, " ")), [&](RenderQuestion& q) {
      q.stay = false, q.encoder_on_host = true;
      if (!asked.layer_offload) leaves(q);
    });
  return advice;
}

}  // namespace orrery::graph
