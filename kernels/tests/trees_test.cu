// tree_histograms and tree_split: sums exactly as integers and within half a unit a sample of float64's, splits against float64, ties by construction.
//
// Bound of gains: 1e-13 of what the node's samples are worth before and after, whose difference a gain is.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  int64_t samples, features, bin_count, outputs, nodes;
  double scale;
  int64_t least_count;
  bool few_levels;  // bins far apart, so that many splits are the same
};

double worth(TreeScore score, double l2, const double* left, const double* right, double left_count, double right_count, int64_t outputs) {
  double along = 0, size = 0;
  for (const auto& [sums, count] : {std::pair{left, left_count}, {right, right_count}}) {
    if (count <= 0) continue;
    double square = 0;
    for (int64_t o = 0; o < outputs; o++) square += sums[o] * sums[o];
    along += square / (count + l2), size += square * count / ((count + l2) * (count + l2));
  }
  return score == TreeScore::kL2 ? along : size > 0 ? along / std::sqrt(size) : 0;
}

void run(const Case& c) {
  check::Random random(c.samples + c.bin_count + c.outputs);
  const int64_t pitch = (c.features + 3) / 4 * 4 + 4;
  std::vector<uint8_t> bins(c.samples * pitch);
  std::vector<float> gradients(c.samples * c.outputs);
  for (int64_t i = 0; i < c.samples; i++)
    for (int64_t f = 0; f < pitch; f++) {
      const int64_t b = c.few_levels ? random.below(3) * (c.bin_count / 3) : random.below(c.bin_count);
      bins[i * pitch + f] = uint8_t(c.bin_count < 256 && random.below(60) == 0 ? c.bin_count : b);  // now and then one that is left out
      if (f == 2) bins[i * pitch + f] = bins[i * pitch + 1];                                           // two features alike
    }
  for (int64_t i = 0; i < c.samples; i++)
    for (int64_t o = 0; o < c.outputs; o++) gradients[i * c.outputs + o] = float(random.symmetric() + (bins[i * pitch + 1] * 2 > c.bin_count ? 0.3 : -0.1));
  // Nodes of very different sizes, some empty; some samples of no node, some places that name no sample.
  std::vector<int32_t> order(c.samples), begin(c.nodes + 1);
  for (int64_t i = 0; i < c.samples; i++) order[i] = int32_t(i);
  for (int64_t i = c.samples - 1; i > 0; i--) std::swap(order[i], order[random.below(i + 1)]);
  if (c.samples > 100) order[50] = -1, order[c.samples - 3] = int32_t(c.samples);
  for (int64_t k = 0; k <= c.nodes; k++) begin[k] = int32_t(c.nodes == 1 ? k * c.samples : c.samples * std::pow(double(k) / double(c.nodes + 1), 2.0) + (c.samples > 100));
  if (c.nodes > 4) begin[3] = begin[2];

  const int64_t cells = c.features * c.bin_count;
  std::vector<int64_t> sums(c.nodes * cells * c.outputs);
  std::vector<double> real(sums.size());
  std::vector<uint32_t> counts(c.nodes * cells);
  for (int64_t k = 0; k < c.nodes; k++)
    for (int64_t i = begin[k]; i < begin[k + 1]; i++) {
      const int64_t s = order[i];
      if (s < 0 || s >= c.samples) continue;
      for (int64_t f = 0; f < c.features; f++) {
        const int64_t b = bins[s * pitch + f];
        if (b >= c.bin_count) continue;
        counts[(k * c.features + f) * c.bin_count + b]++;
        for (int64_t o = 0; o < c.outputs; o++) {
          const int64_t at = ((k * c.features + f) * c.outputs + o) * c.bin_count + b;
          sums[at] += int64_t(std::clamp(std::nearbyint(double(gradients[s * c.outputs + o] * float(c.scale))), -0x1p31, 0x1p31 - 1));
          real[at] += gradients[s * c.outputs + o];
        }
      }
    }

  const Buffer dbins(bins, 4), dgradients(gradients, 4), dorder(order, 4), dbegin(begin, 4);
  Buffer dsums(std::vector<int64_t>(sums.size(), 0), 8), dcounts(std::vector<uint32_t>(counts.size(), 0), 4);
  TreeHistogramArgs h;
  h.sums = dsums.as<int64_t>(), h.counts = dcounts.as<uint32_t>(), h.bins = dbins.as<uint8_t>(), h.gradients = dgradients.as<float>(), h.order = dorder.as<int32_t>(), h.begin = dbegin.as<int32_t>();
  h.samples = c.samples, h.features = c.features, h.pitch = pitch, h.bin_count = c.bin_count, h.outputs = c.outputs, h.nodes = c.nodes, h.scale = float(c.scale);
  STATUS_OK(tree_histograms(h, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  if (dcounts.host<uint32_t>() != counts) check::fail("tree counts of %lld samples, %lld nodes", (long long)c.samples, (long long)c.nodes);
  if (dsums.host<int64_t>() != sums) check::fail("tree sums of %lld samples, %lld nodes, %lld outputs", (long long)c.samples, (long long)c.nodes, (long long)c.outputs);
  if (c.scale < 0x1p30)  // else some saturate
    for (size_t i = 0; i < sums.size(); i++) check::expect_near(double(sums[i]) / c.scale, real[i], (0.5 / c.scale + 1e-15) * counts[i / (c.bin_count * c.outputs) * c.bin_count + i % c.bin_count] + 1e-15, "tree sums", int64_t(i), 0);
  dsums.check_guards("tree sums"), dcounts.check_guards("tree counts");

  for (TreeScore score : {TreeScore::kL2, TreeScore::kCosine}) {
    Buffer split(c.nodes * 8, 4), gain(c.nodes * 8, 8), workspace(tree_split_workspace(c.nodes, c.features), 8);
    TreeSplitArgs a;
    a.split = split.as<int32_t>(), a.gain = gain.as<double>(), a.sums = h.sums, a.counts = h.counts, a.workspace = workspace.data();
    a.features = c.features, a.bin_count = c.bin_count, a.outputs = c.outputs, a.nodes = c.nodes, a.scale = h.scale, a.l2 = 0.5, a.least_count = c.least_count, a.score = score;
    STATUS_OK(tree_split(a, nullptr));
    CUDA_OK(cudaDeviceSynchronize());
    const auto got = split.host<int32_t>();
    const auto got_gain = gain.host<double>();
    for (int64_t k = 0; k < c.nodes; k++) {
      std::vector<double> gains(cells, 0.);
      double best = 0, tolerance = 0;
      for (int64_t f = 0; f < c.features; f++) {
        std::vector<double> left(c.outputs), right(c.outputs), whole(c.outputs);
        int64_t left_count = 0, count = 0;
        const auto sum = [&](int64_t o, int64_t b) { return double(sums[((k * c.features + f) * c.outputs + o) * c.bin_count + b]) / double(h.scale); };
        const auto counted = [&](int64_t b) { return counts[(k * c.features + f) * c.bin_count + b]; };
        for (int64_t b = 0; b < c.bin_count; b++) {
          count += counted(b);
          for (int64_t o = 0; o < c.outputs; o++) whole[o] += sum(o, b);
        }
        const double before = worth(score, a.l2, whole.data(), right.data(), double(count), 0, c.outputs);
        for (int64_t b = 0; b + 1 < c.bin_count; b++) {
          left_count += counted(b);
          for (int64_t o = 0; o < c.outputs; o++) left[o] += sum(o, b), right[o] = whole[o] - left[o];
          if (left_count < c.least_count || count - left_count < c.least_count) continue;
          const double after = worth(score, a.l2, left.data(), right.data(), double(left_count), double(count - left_count), c.outputs);
          gains[f * c.bin_count + b] = after - before, best = std::max(best, after - before), tolerance = std::max(tolerance, 1e-13 * (before + after));
        }
      }
      const int64_t f = got[k * 2], b = got[k * 2 + 1];
      check::expect_near(got_gain[k], best, tolerance, "gain", k, int64_t(score));
      if (f < 0 || b < 0) {
        if (f != -1 || b != -1 || got_gain[k] != 0) check::fail("no split of node %lld is (%lld, %lld)", (long long)k, (long long)f, (long long)b);
        continue;
      }
      if (f >= c.features || b >= c.bin_count - 1) check::fail("split of node %lld is (%lld, %lld)", (long long)k, (long long)f, (long long)b);
      check::expect_near(gains[f * c.bin_count + b], best, tolerance, "gain of the split", f, b);
      if (f == 2) check::fail("split of node %lld by the second of two features alike", (long long)k);
      if (b > 0 && counts[(k * c.features + f) * c.bin_count + b] == 0) check::fail("split of node %lld after an empty bin: one before it is the same", (long long)k);
    }
    char what[120];
    std::snprintf(what, sizeof what, "splits samples %lld features %lld bins %lld outputs %lld nodes %lld score %d", (long long)c.samples, (long long)c.features, (long long)c.bin_count, (long long)c.outputs,
                  (long long)c.nodes, int(score));
    auto all = split.host<unsigned char>();
    for (unsigned char byte : gain.host<unsigned char>()) all.push_back(byte);
    check::Results::all().add(what, all);
    split.check_guards("split"), gain.check_guards("gain"), workspace.check_guards("split's workspace");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  std::vector<Case> cases = {{1, 1, 2, 1, 1, 1024, 1, false},     {900, 5, 17, 3, 1, 0x1p20, 1, false}, {1300, 3, 256, 2, 7, 0x1p29, 5, false}, {5003, 9, 64, 1, 3, 0x1p31, 20, false},
                             {700, 4, 255, 16, 2, 0x1p24, 1, true}, {400, 6, 12, 5, 40, 1000, 2, true},   {4600, 3, 33, 2, 1, 0x1p30, 1, false}};
  if (!small)
    for (int64_t outputs : {1, 8})
      for (int64_t nodes : {1, 16, 300})
        for (bool few : {false, true}) cases.push_back({300007, 27, 256, outputs, nodes, 0x1p29, 10, few}), cases.push_back({70001, 130, 100, outputs, nodes, 0x1p26, 1, few});
  for (const Case& c : cases) run(c);
  std::printf("PASS trees: %zu cases\n", cases.size());
}
