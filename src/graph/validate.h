// Comparison with measured rows that lie in a folder of CSV files (none of them is part of this repository).
#pragma once

#include <map>
#include <string>
#include <vector>

namespace orrery::graph {

struct Compared {
  std::string group;     // model family, GPU, engine, format
  std::string question;  // what makes configurations comparable with one another
  double predicted = 0, measured = 0;
  bool below_bound = false;  // the measurement lies below the bandwidth bound
  bool capped = false;       // predicted at kMostSequences a rank, where memory holds more
};

struct Accuracy {
  std::size_t rows = 0, refused = 0, bound_violations = 0;
  double median = 0, p90 = 0;    // of |predicted / measured - 1|
  double order = 0, regret = 0;  // pairs in the right order; mean loss of picking the predicted best
  std::size_t pairs = 0;         // that the order was told from
  std::vector<Compared> compared;
  std::map<std::string, int> refusals;
  std::vector<std::map<std::string, std::string>> refused_rows;
};

// TPOT of every row of open.csv (path of the file).
Accuracy validate_tpot(const std::string& path);
// Output tokens/s of every row of throughput.csv.
Accuracy validate_throughput(const std::string& path);
// Seconds of an iteration of every row of megatron.csv that states its layout and a time or a rate.
Accuracy validate_training(const std::string& path);
struct RenderAccuracy {
  Accuracy time, memory;
};
// Whole pipelines of diffusion.csv whose model and layout are known.
RenderAccuracy validate_render(const std::string& path);
// All comparisons whose file is in `folder`, as text, and how many of their goals are missed (a source that contradicts itself
// is no miss; the text says so).
struct Validation {
  std::string text;
  int missed = 0;
};
Validation validate(const std::string& folder);

}  // namespace orrery::graph
