// Options of a search over plans to its question.
#include "tools/plan_question.h"

#include <algorithm>

#include "base/error.h"

namespace orrery::tools {

using namespace graph;

bool lengths_given(const CLI::App& app) { return app.count("--input") + app.count("--output") > 0; }

void refuse_training_options(const CLI::App& app) {
  for (const char* training : {"--seq", "--batch", "--precision"})
    if (app.count(training) > 0) base::fail("{} belongs to plans of training: --train", training);
}

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

PlanQuestion::PlanQuestion(Asked& asked, bool lengths_given)
    : graph(asked.common.graph()), base(asked.common.plan()), cluster(parse_cluster(asked.common.gpu)) {
  SearchQuestion& q = asked.search;
  q.engine = find_engine(asked.engine);
  double longest = tokens_of(graph, q.input + q.output, lengths_given);
  if (!lengths_given) q.input = std::max(1.0, longest - q.output);
  asked.common.apply(graph, base);
  q.asked = asked.common.words() + (asked.engine == Asked{}.engine ? "" : " --engine " + asked.engine);
  q.asked_gpu = shell_word(asked.common.gpu.substr(0, asked.common.gpu.rfind(':')));
}

}  // namespace orrery::tools
