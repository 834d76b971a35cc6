// Kernels that papers describe, each in turns with the straightforward way to do the same where there is one.
//
//   papers_bench [NAME]      only cases whose names begin so; networks: those of papers_networks.cc, which are left out where nothing is named, as
//                          is that of papers_moe.cc, moe
//
// One CSV row a case: name,size,ours_us,rival,rival_us,rate. The rate, in words, is ours. Operands are the same in every replay, and what fits in L2 is
// there. Results are compared with the rival's; a row that was not right is preceded by a line that says so, which bench/report refuses. Energy is what
// NVML counts on the whole board over a second and a half of replays.
#include <numeric>
#include <random>
#include <string>

#include "papers.h"
#include "papers_peers.h"

using namespace orrery::kernels;
using bench::Bench;
using bench::Launch;
using bench::farthest;

namespace {

void log_bessel(Bench& b) {
  constexpr int64_t kCount = int64_t(1) << 22;
  struct Region { const char* name; bool second; double v_low, v_high, x_low, x_high; bool by_powers; };  // by_powers: their logarithms spread evenly
  for (const Region& r : {Region{"log_bessel_i order 0", false, 0, 0, 0.01, 700, false}, {"log_bessel_i series", false, 0, 20, 0, 20, false}, {"log_bessel_i expansion", false, 20, 1e6, 20, 1e6, true},
                          {"log_bessel_i everything", false, 1e-3, 1e6, 1e-3, 1e6, true}, {"log_bessel_k integral", true, 0, 20, 0.5, 20, false}, {"log_bessel_k Temme", true, 0, 20, 1e-6, 0.5, false},
                          {"log_bessel_k expansion", true, 20, 1e6, 20, 1e6, true}, {"log_bessel_k everything", true, 1e-3, 1e6, 1e-3, 1e6, true}}) {
    if (!b.wants(r.name)) continue;
    std::mt19937_64 random(5);
    const auto draw = [&](double low, double high) {
      std::uniform_real_distribution<double> u(r.by_powers ? std::log(low) : low, r.by_powers ? std::log(high) : high);
      std::vector<double> all(kCount);
      for (double& d : all) d = r.by_powers ? std::exp(u(random)) : u(random);
      return b.memory(all);
    };
    double *const v = draw(r.v_low, r.v_high == r.v_low ? r.v_low + 1e-300 : r.v_high), *const x = draw(r.x_low, r.x_high), *const out = b.memory<double>(kCount), *const theirs = b.memory<double>(kCount);
    const bool zero = r.v_high == 0;
    if (zero) BENCH_OK(cudaMemset(v, 0, kCount * 8));
    const auto ours = [&] { b.did((r.second ? log_bessel_k : log_bessel_i)(out, v, !zero, x, kCount, b.stream())); };
    Launch rival;
    const char* name = "";
    if (zero) rival = [&] { bench::log_i0(theirs, x, kCount, b.stream()); }, name = "log of cyl_bessel_i0";
    if (r.second && r.x_low == 0.5) rival = [&] { bench::log_k_integral(theirs, v, x, kCount, b.stream()); }, name = "128 trapezoids";
    if (rival) {
      ours(), rival();
      b.wrong(r.name, farthest(b.host(out, kCount), b.host(theirs, kCount)), 1e-12);
    }
    b.race(r.name, std::to_string(kCount), ours, name, rival, kCount * 1e-3, "G/s");
    for (double* p : {v, x, out, theirs}) BENCH_OK(cudaFree(p));
  }
}

void spin_glasses(Bench& b) {
  for (int64_t size : {256, 1024, 4096}) {
    if (!b.wants("spin_glass_sweep")) continue;
    const int64_t sites = size * size;
    std::mt19937_64 random(3);
    const auto words = [&] {
      std::vector<uint64_t> w(sites);
      for (auto& x : w) x = random();
      return b.memory(w);
    };
    uint64_t *const spins = words(), *const right = words(), *const down = words();
    const auto bytes = [&](uint64_t* from) {  // any signs: the rival's glasses are others
      std::vector<int8_t> s(sites * 64);
      const auto w = b.host(from, sites);
      for (int64_t i = 0; i < sites * 64; i++) s[i] = w[i / 64] >> (i % 64) & 1 ? -1 : 1;
      return b.memory(s);
    };
    int8_t *const spins8 = bytes(spins), *const right8 = bytes(right), *const down8 = bytes(down);
    SpinGlassArgs a;
    a.spins = spins, a.right = right, a.down = down, a.size = size, a.beta = 0.8;
    a.sweeps = 20;
    b.did(spin_glass_sweep(a, b.stream()));  // to where spins mostly are at this temperature, both
    for (int i = 0; i < 20; i++) bench::spin_sweep(spins8, right8, down8, int(size), 64, 0.8f, 1, uint32_t(i), b.stream());
    a.sweeps = 1;
    uint32_t sweep = 20;
    b.race("spin_glass_sweep", std::to_string(size) + " x " + std::to_string(size) + " x 64", [&] { a.first_sweep = sweep++, b.did(spin_glass_sweep(a, b.stream())); }, "a thread a spin",
           [&] { bench::spin_sweep(spins8, right8, down8, int(size), 64, 0.8f, 1, sweep++, b.stream()); }, double(sites) * 64 * 1e-3, "updates/ns", size >= 1024 ? double(sites) * 64 : 0);
    for (void* p : {static_cast<void*>(spins), static_cast<void*>(right), static_cast<void*>(down), static_cast<void*>(spins8), static_cast<void*>(right8), static_cast<void*>(down8)}) BENCH_OK(cudaFree(p));
  }
}

void trees(Bench& b) {
  constexpr int64_t kSamples = 1 << 20, kFeatures = 64, kBins = 256, kOutputs = 8;
  if (!b.wants("tree_histograms") && !b.wants("tree_split")) return;
  std::mt19937_64 random(4);
  std::vector<uint8_t> bins(kSamples * kFeatures);
  for (auto& x : bins) x = uint8_t(random());
  std::vector<float> gradients(kSamples * kOutputs);
  for (auto& g : gradients) g = float(std::normal_distribution<double>()(random));
  TreeHistogramArgs h;
  h.bins = b.memory(bins), h.gradients = b.memory(gradients), h.samples = kSamples, h.features = h.pitch = kFeatures, h.bin_count = kBins, h.outputs = kOutputs, h.scale = 0x1p26f;
  for (int64_t nodes : {1, 64}) {
    std::vector<int32_t> node(kSamples), order(kSamples), begin(nodes + 1);
    for (auto& k : node) k = int32_t(random() % uint64_t(nodes)), begin[k + 1]++;
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) { return node[i] < node[j]; });
    const size_t cells = size_t(nodes * kFeatures * kBins);
    const int32_t* const of = b.memory(node);
    h.order = b.memory(order), h.begin = b.memory(begin), h.nodes = nodes, h.sums = b.memory<int64_t>(cells * kOutputs), h.counts = b.memory<uint32_t>(cells);
    float* const sums = b.memory<float>(cells * kOutputs);
    uint32_t* const counts = b.memory<uint32_t>(cells);
    const auto ours = [&] { b.did(tree_histograms(h, b.stream())); };
    const auto theirs = [&] { bench::histograms_in_memory(sums, counts, h.bins, h.gradients, of, kSamples, kFeatures, kFeatures, kBins, kOutputs, b.stream()); };
    ours(), theirs();
    std::vector<double> got, want;
    for (int64_t s : b.host(h.sums, cells * kOutputs)) got.push_back(double(s) / h.scale);
    for (float s : b.host(sums, cells * kOutputs)) want.push_back(s);
    b.wrong("tree_histograms", farthest(got, want), 1e-3);
    const std::string size = std::to_string(nodes) + (nodes > 1 ? " nodes" : " node") + " 2^20 samples x 64 x 8";
    TreeSplitArgs s;
    s.split = b.memory<int32_t>(nodes * 2), s.gain = b.memory<double>(nodes), s.sums = h.sums, s.counts = h.counts, s.features = kFeatures, s.bin_count = kBins, s.outputs = kOutputs, s.nodes = nodes;
    s.scale = h.scale, s.l2 = 1, s.workspace = b.memory<char>(tree_split_workspace(nodes, kFeatures));
    double* const gain = b.memory<double>(nodes * kFeatures);
    int32_t* const bin = b.memory<int32_t>(nodes * kFeatures);
    const auto split = [&] { b.did(tree_split(s, b.stream())); };
    const auto theirs_split = [&] { bench::splits_by_threads(gain, bin, sums, counts, int(nodes), kFeatures, kBins, kOutputs, 1, b.stream()); };
    split(), theirs_split();
    const auto all = b.host(gain, nodes * kFeatures);
    want.clear();
    for (int64_t k = 0; k < nodes; k++) want.push_back(*std::max_element(all.begin() + k * kFeatures, all.begin() + (k + 1) * kFeatures));
    b.wrong("tree_split", farthest(b.host(s.gain, nodes), want), 1e-2);
    if (b.wants("tree_split")) b.race("tree_split", std::to_string(nodes) + " x 64 x 8 x 256", split, "a thread a feature", theirs_split, double(cells) * kOutputs * 1e-3, "G sums/s");
    if (b.wants("tree_histograms")) b.race("tree_histograms", size, ours, "additions to memory", theirs, double(kSamples) * kFeatures * (kOutputs + 1) * 1e-3, "G additions/s");
  }
}

/// Some two million points; a stage reads `base` as well, which has no rival.
void spectral_differences(Bench& b) {
  struct Size { int order; int64_t nx, ny, nz; };
  for (const Size& s : {Size{3, 44, 42, 42}, {4, 32, 32, 32}, {5, 24, 26, 26}, {5, 24, 22, 30}}) {
    if (!b.wants("mhd_residual")) continue;
    const int64_t cube = int64_t(s.order) * s.order * s.order, elements = s.nx * s.ny * s.nz, points = elements * cube;
    std::mt19937_64 random(8);
    std::uniform_real_distribution<double> noise(-0.05, 0.05);
    std::vector<double> host(points * 8);
    const double state[8] = {1, 0.3, -0.2, 0.4, 2.3, 0.6, -0.5, 0.7};
    for (int64_t i = 0; i < points * 8; i++) host[i] = state[i / cube % 8] + noise(random);
    MhdArgs a;
    double* const theirs = b.memory<double>(points * 8);
    const size_t at_flux_points = size_t(elements * cube / s.order * (s.order + 1) * 8);
    double *const values = b.memory<double>(at_flux_points), *const fluxes = b.memory<double>(at_flux_points), *const base = b.memory(host);
    a.out = b.memory<double>(points * 8), a.u = b.memory(host), a.nx = s.nx, a.ny = s.ny, a.nz = s.nz, a.order = s.order, a.size_x = a.size_y = a.size_z = 0.1;
    const auto ours = [&] { b.did(mhd_residual(a, b.stream())); };
    const auto steps = [&] { bench::spectral_difference_by_steps(theirs, a.u, values, fluxes, s.order, int(s.nx), int(s.ny), int(s.nz), a.size_x, a.gamma, b.stream()); };
    ours(), steps();
    b.wrong("mhd_residual", farthest(b.host(a.out, points * 8), b.host(theirs, points * 8)), 1e-12);
    const std::string size = "order " + std::to_string(s.order) + " " + std::to_string(s.nx) + "x" + std::to_string(s.ny) + "x" + std::to_string(s.nz);
    const auto rate = [&](int arrays) { return "points/ns at " + std::to_string(points * 64 * arrays / 1000000) + " MB"; };
    b.race("mhd_residual", size, ours, "a kernel a step", steps, double(points) * 1e-3, rate(2).c_str(), double(points));
    a.base = base, a.base_weight = 0.75, a.u_weight = 0.25, a.rate_weight = 1e-3;
    b.race("mhd_residual as a stage", size, ours, "", nullptr, double(points) * 1e-3, rate(3).c_str());
    for (const double* p : {static_cast<const double*>(a.out), a.u, static_cast<const double*>(theirs), static_cast<const double*>(values), static_cast<const double*>(fluxes), static_cast<const double*>(base)})
      BENCH_OK(cudaFree(const_cast<double*>(p)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Bench b;
  const bool networks = argc > 1 && !std::strcmp(argv[1], "networks");
  if (argc > 1 && !networks) b.only = argv[1];
  cudaDeviceProp prop;
  BENCH_OK(cudaGetDeviceProperties(&prop, 0));
  std::printf("# %s; columns: name,size,ours_us,rival,rival_us,rate\n", prop.name);
  if (!networks) log_bessel(b), spin_glasses(b), trees(b), spectral_differences(b);
  if (argc > 1) bench::papers_networks(b);
  if (argc > 1 && !networks) bench::papers_moe(b);
}
