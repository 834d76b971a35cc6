// Studies: what a published system claims, what its own numbers say, and what the model predicts.
//
// A study is a TOML file (studies/ID.toml):
//
//   id = "swiftkv"   title = "..."   claim = "..."    expression = ["verb ...", ...]   baseline = "what had
//   to be assumed" unjudged = "why nothing can be predicted"                          (only then may there be
//   no [[predict]])
//   [[arithmetic]]  name, expression, claimed, tolerance               do the claim's numbers agree with one
//   another?
//   [[predict]]     name, kind, metric, model, gpu, ..., claimed       kind: serve, fit, train, render,
//   roofline, formula [predict.baseline] / [predict.technique]                           settings that
//   differ; then a ratio is predicted
//
// Not here: published text. A study states facts and arithmetic only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace orrery::graph {

struct Judgement {
  std::string name, expression;
  double value = 0, claimed = 0, tolerance = 0;
  bool agrees = false;
};

struct Prediction {
  std::string name, metric;
  double value = 0;
  std::optional<double> before, after;  // the two sides of a ratio
  std::optional<double> claimed;
};

struct Study {
  std::string id, title, claim, baseline, unjudged, file;
  std::vector<std::string> expression;
  std::vector<Judgement> judgements;
  std::vector<Prediction> predictions;
};

// Reads and evaluates one study; throws base::Error naming the file and what is wrong with it.
Study run_study(const std::string& path);
// The study files of a folder, sorted.
std::vector<std::string> study_files(const std::string& folder);
std::string study_text(const Study& study);

}  // namespace orrery::graph
