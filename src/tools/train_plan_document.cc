// A search over training plans as a document.
#include <fmt/format.h>

#include <algorithm>

#include "tools/model_documents.h"
#include "tools/model_sections.h"

namespace orrery::tools {

using namespace graph;

namespace {

// The command that asks for a plan again.
std::string train_line(const TrainCandidate& best, const Cluster& cluster, const TrainSearchQuestion& q, const std::string& asked) {
  const Plan& p = best.plan;
  std::string line = fmt::format("orrery model train {} --gpu {}:{}", asked, cluster.gpu.id(), cluster.gpus);
  for (auto [name, ranks] : {std::pair{"tp", p.tp}, {"pp", p.pp}, {"cp", p.cp}, {"dp", p.dp}, {"ep", p.ep}})
    if (ranks > 1) line += fmt::format(" --{} {}", name, ranks);
  if (p.zero) line += fmt::format(" --zero {}", p.zero);
  if (p.sequence_parallel) line += " --sequence-parallel";
  if (p.chunks() > 1) line += fmt::format(" --interleave {}", p.chunks());
  if (p.recompute != RecomputePolicy::kNone) line += fmt::format(" --recompute {}", name_of(p.recompute));
  return line + fmt::format(" --seq {} --batch {} --micro-batch {}", q.sequence, q.global_batch, best.micro_batch);
}

// Why no plan is legal: the reasons that refuse most of them. One that refuses all belongs to the question, not to a
// division.
std::vector<std::string> refused(const TrainSearchResult& r) {
  constexpr std::size_t kMostReasons = 4;
  std::vector<std::pair<std::size_t, std::string>> reasons;
  for (const auto& [why, plans] : r.refusals) reasons.push_back({plans, why});
  std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (reasons.size() == 1) return {"no plan is legal: " + reasons.front().second};
  std::vector<std::string> lines = {"no plan is legal; what refuses them, and how many:"};
  for (const auto& [plans, why] : reasons) {
    if (lines.size() > kMostReasons) {
      lines.push_back(fmt::format("{} further reasons", reasons.size() - kMostReasons));
      break;
    }
    lines.push_back(fmt::format("{}: {}", why, plans));
  }
  return lines;
}

}  // namespace

Json train_plan_document(const Graph& graph, const Plan& base, const Cluster& cluster, const TrainSearchQuestion& q,
                         const TrainSearchResult& r, const std::string& asked) {
  Json doc = report::document(fmt::format("plan: training {} on {} x {}, {:.0f} sequences of {:.0f}, for {}", graph.name,
                                          cluster.gpus, cluster.gpu.id(), q.global_batch, q.sequence, q.goal));
  report::add_fact(doc, "plans tried", static_cast<double>(r.tried));
  report::add_fact(doc, "legal", static_cast<double>(r.legal));
  report::add_fact(doc, "fitting", static_cast<double>(r.fitting));
  Json& table = report::add_table(doc, "Pareto front",
                                  {{"tp", ""}, {"pp", ""}, {"cp", ""}, {"dp", ""}, {"ep", ""}, {"ZeRO", ""}, {"chunks", ""},
                                   {"micro-batch", ""}, {"recompute", ""}, {"iteration", "s"}, {"per GPU", "TFLOP/s"},
                                   {"MFU", "%"}, {"energy", "J/token"}, {"memory", "GiB"}});
  for (const TrainCandidate& c : r.front) {
    const Plan& p = c.plan;
    table["rows"].push_back({p.tp, p.pp, p.cp, p.dp, p.ep, p.zero, p.chunks(), c.micro_batch, std::string(name_of(p.recompute)),
                             c.seconds, c.tflops_per_gpu, c.mfu * 100, c.joules / (q.global_batch * q.sequence),
                             c.memory / kGiB});
  }
  if (!r.front.empty())
    report::add_notes(doc, "the first of them in full", {train_line(r.front.front(), cluster, q, asked)});
  else if (r.legal > 0)
    add_advice(doc, {fmt::format("no plan fits: the least takes {:.1f} GiB of a GPU's {:.1f}; more GPUs, a shorter sequence, or a "
                                 "technique such as --do 'place optimizer host', --do 'tile loss' or --do 'adapt 16'",
                                 r.least_memory / kGiB, cluster.gpu.memory_total().value() / kGiB)});
  else
    add_advice(doc, refused(r));
  add_assumptions(doc, graph, cluster, r.front.empty() ? base : r.front.front().plan, Question::kTrain);
  doc["assumptions"].push_back("all GPUs work; tensor-parallel ranks stay in a host and divide the sequence as well; micro-batches to 8 "
                               "and 4 chunks a stage are tried, ZeRO 2 and 3 without a pipeline, sequences from 16,384 tokens divided");
  return doc;
}

}  // namespace orrery::tools
