// Rates of a GPU, of its links and of the tiers behind them. What a profile does not hold comes from the
// calibrating microbenchmarks of calib/raw/h200-model-2026-11-21.jsonl, from published ones of kernels, or is
// assumed, and says so here.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/schedule.h"

namespace orrery::graph {

namespace {

// A read streams faster than a copy: 4.5 TB/s (gemm.square8192.m8 less the above, bulk-copy reads of
// calib/raw/h200-2026-11-21.jsonl) against 4.24.
constexpr double kReadOverCopy = 1.065;
// Share of the peak that products of few rows reach elsewhere than on Hopper: straight lines through 1,050 to
// 3,584 products each in bf16 with up to 16 rows (ai-dynamo/aiconfigurator@095f58a5, systems/data/*/gemm:
// A100 0.75 and 0.78, L40S 0.82 and 0.85, B200 0.74 and 0.80, GB200 0.82, B300 0.79; vLLM, SGLang and
// TensorRT-LLM).
constexpr double kAmpereProducts = 0.76, kAdaProducts = 0.83, kBlackwellProducts = 0.79;
// Shares of the peak at which serving engines' kernels stream the weights of experts, by the same source:
// straight lines through some 500 balanced products each (systems/data/*/moe; vLLM, SGLang, TensorRT-LLM:
// 0.85 to 0.89 in bf16 and 0.76 to 0.84 in fp8 on H100 and H200, 0.75 to 0.85 and 0.59 to 0.80 on B200; NVFP4
// in FlashInfer's kernels 0.84 on B200 and 0.87 on GB200).
struct ExpertShares {
  double in16, in8, in4;
};
constexpr ExpertShares kExperts{0.87, 0.82, 0.82}, kExpertsBlackwell{0.79, 0.68, 0.85};
// Sustained bandwidths of the other tiers. The host link is in the GPU profile; these are assumed for a usual
// server.
constexpr double kHostMemory = 200e9;  // bytes/s that the host computes over
constexpr double kNvme = 6e9;          // bytes/s of one drive

// 2:4 sparse products on random data gain this much on Hopper (arXiv 2501.12084, table of sparse wgmma).
constexpr double kSparseGain = 1.8;

double optional(const Profile& gpu, FieldId field, double absent) {
  return gpu.has(field) ? gpu.at(field).number : absent;
}

double read_rate(const Profile& gpu, const Rates& r) {
  auto major = gpu.compute_major(), minor = gpu.compute_minor();
  if (major == 9) return std::min(r.memory * kReadOverCopy, 0.97 * r.memory_peak);
  double share = major > 9 ? kBlackwellProducts : major == 8 && minor == 9 ? kAdaProducts : kAmpereProducts;
  return std::min(r.memory, share * r.memory_peak);
}

// What joins GPUs with one another and with their host.
void read_links(const Profile& gpu, Rates& r) {
  r.per_host = static_cast<int>(optional(gpu, FieldId::gpus_per_host, 8));
  r.host = gpu.pcie_bandwidth().value() * gpu.pcie_efficiency();
  r.nvlink = gpu.has(FieldId::nvlink_bandwidth);
  r.link = r.nvlink
               ? gpu.nvlink_bandwidth().value() * optional(gpu, FieldId::nvlink_efficiency, 0.8)
               : r.host;
  r.link_latency = optional(gpu, FieldId::nvlink_latency, 15e-6);
  r.network = gpu.has(FieldId::network_bandwidth)
                  ? gpu.network_bandwidth().value() * optional(gpu, FieldId::network_efficiency, 0.85)
                  : 0.5 * r.host;
  r.network_latency = optional(gpu, FieldId::network_latency, 20e-6);
}

// Refuses a profile with which no answer is a number: times are divided by these.
void check(const Profile& gpu, const Rates& r) {
  for (auto [what, value] : {std::pair{"memory bandwidth", r.memory},
                             {"memory bandwidth of reads", r.read},
                             {"rate of matrix products", r.tensor16},
                             {"rate of matrix products in 8 bits", r.tensor8},
                             {"rate of matrix products in 4 bits", r.tensor4},
                             {"peak of matrix products", std::min({r.peak16, r.peak8, r.peak4})},
                             {"rate of attention", r.attention},
                             {"rate of single instructions", r.vector},
                             {"bandwidth between GPUs", r.link},
                             {"bandwidth to the host", r.host},
                             {"bandwidth between hosts", r.network},
                             {"number of GPUs of a host", static_cast<double>(r.per_host)},
                             {"number of SMs", r.sms}})
    if (!(value >= 1)) base::fail("{}: its {} is {:g}: it must be at least 1", gpu.id(), what, value);
  if (!(r.limit_watts > r.idle_watts))
    base::fail("{}: its power limit of {:g} W is not above what it takes idle", gpu.id(), r.limit_watts);
}

}  // namespace

Rates read_rates(const Profile& gpu) {
  Rates r;
  r.memory_peak = gpu.memory_bandwidth().value();
  r.memory = r.memory_peak * gpu.memory_efficiency();
  r.read = read_rate(gpu, r);
  const ExpertShares& experts = gpu.compute_major() >= 10 ? kExpertsBlackwell : kExperts;
  r.experts16 = std::min(experts.in16 * r.memory_peak, r.memory * kReadOverCopy);
  r.experts8 = std::min(experts.in8 * r.memory_peak, r.memory * kReadOverCopy);
  r.experts4 = std::min(experts.in4 * r.memory_peak, r.memory * kReadOverCopy);
  r.cycle = 1 / gpu.clock_max().value();
  r.peak16 = gpu.tensor_fp16().value();
  r.tensor16 = gpu.has(FieldId::tensor_fp16_best) ? gpu.tensor_fp16_best().value() : 0.8 * r.peak16;
  r.has_fp8 = gpu.has(FieldId::tensor_fp8);
  r.peak8 = optional(gpu, FieldId::tensor_fp8, r.peak16);
  r.tensor8 = optional(gpu, FieldId::tensor_fp8_best, r.has_fp8 ? 0.75 * r.peak8 : r.tensor16);
  r.has_fp4 = gpu.has(FieldId::tensor_fp4);
  r.peak4 = optional(gpu, FieldId::tensor_fp4, r.peak8);
  r.tensor4 = r.has_fp4 ? 0.75 * r.peak4 : r.tensor8;
  r.attention = optional(gpu, FieldId::attention_prefill_best, 0.6 * r.tensor16);
  r.vector = 2 * gpu.rate_fp32().value() * gpu.sm_count() * gpu.clock_max().value();
  r.kernel = gpu.launch_graph().value();
  r.ramp = kRamp;
  r.sms = static_cast<double>(gpu.sm_count());
  read_links(gpu, r);
  r.idle_watts = gpu.power_idle().value();
  r.limit_watts = gpu.power_limit().value();
  r.joules_byte = optional(gpu, FieldId::energy_dram, 150e-12);
  r.joules_op16 = optional(gpu, FieldId::energy_tensor_fp16, 1e-12);
  r.joules_op8 = optional(gpu, FieldId::energy_tensor_fp8, 0.53 * r.joules_op16);
  r.joules_op32 = optional(gpu, FieldId::energy_fp32, 5.8e-12);
  r.joules_link = optional(gpu, FieldId::energy_link, 40e-12);
  check(gpu, r);
  return r;
}

double tensor_rate(Format format, const Rates& r) {
  switch (format) {
    case Format::kFp8:
    case Format::kInt8: return r.has_fp8 ? r.tensor8 : r.tensor16;
    case Format::kNvfp4: return r.has_fp4 ? r.tensor4 : r.tensor16;
    case Format::kTf32: return r.tensor16 / 2;
    case Format::kFp32: return r.vector;
    default: return r.tensor16;  // narrower weights are widened to 16 bits as they are loaded
  }
}

double tensor_peak(Format format, const Rates& r) {
  if (format == Format::kFp8 || format == Format::kInt8) return r.peak8;
  if (format == Format::kNvfp4) return r.peak4;
  return r.peak16;
}

double tier_rate(Tier tier, bool computes_there, const Rates& rates) {
  if (tier == Tier::kNvme) return std::min(kNvme, rates.host);
  if (tier == Tier::kRemote) return std::min(rates.network, rates.host);
  return computes_there ? kHostMemory : rates.host;
}

namespace {

// Rates that a profile does not hold and every plan leans on.
void assumed_of_the_board(const Profile& gpu, const Rates& r, std::vector<std::string>& notes) {
  auto lacks = [&](FieldId field) { return !gpu.has(field); };
  if (lacks(FieldId::tensor_fp16_best)) notes.push_back("products reach 0.8 of the datasheet's peak");
  if (r.has_fp8 && lacks(FieldId::tensor_fp8_best)) notes.push_back("products in 8 bits reach 0.75 of the datasheet's peak");
  if (lacks(FieldId::attention_prefill_best)) notes.push_back("attention runs at 0.6 of the rate of products");
  if (lacks(FieldId::energy_dram)) notes.push_back(fmt::format("a byte of memory takes {:.0f} pJ", r.joules_byte * 1e12));
  if (lacks(FieldId::energy_tensor_fp16))
    notes.push_back(fmt::format("an operation of the tensor cores takes {:.2g} pJ", r.joules_op16 * 1e12));
}

// What lies between hosts.
void assumed_of_the_network(const Profile& gpu, const Rates& r, std::vector<std::string>& notes) {
  if (!gpu.has(FieldId::network_bandwidth))
    notes.push_back(fmt::format("a GPU's share of the network is half of its host link: {:.0f} GB/s", r.network / 1e9));
  else if (!gpu.has(FieldId::network_efficiency))
    notes.push_back(fmt::format("a network card reaches 0.85 of its rate: {:.0f} GB/s", r.network / 1e9));
}

}  // namespace

std::vector<std::string> assumed_rates(const Plan& plan, const Profile& gpu) {
  Rates rates = read_rates(gpu);
  const Placement& p = plan.place;
  std::vector<std::string> notes;
  assumed_of_the_board(gpu, rates, notes);
  bool drive = false, host = plan.gpus() > 1 && !rates.nvlink, network = plan.gpus() > rates.per_host;
  for (Tier tier : {p.weights, p.kv, p.optimizer, p.gradients, p.checkpoints, p.experts}) {
    drive |= tier == Tier::kNvme, network |= tier == Tier::kRemote;
    host |= tier != Tier::kDevice && (p.compute_follows || p.optimizer != Tier::kDevice);
  }
  if (host) notes.push_back(fmt::format("a host's memory moves {:.0f} GB/s", kHostMemory / 1e9));
  if (network) assumed_of_the_network(gpu, rates, notes);
  if (drive) notes.push_back(fmt::format("a drive moves {:.0f} GB/s", kNvme / 1e9));
  if (plan.sparse24)
    notes.push_back(fmt::format("2:4 sparse products run {} times as fast (arXiv 2501.12084)", kSparseGain));
  return notes;
}

Rates under_plan(const Plan& plan, const Rates& given) {
  Rates rates = given;
  if (plan.sparse24) rates.tensor16 *= kSparseGain, rates.tensor8 *= kSparseGain;
  return rates;
}

}  // namespace orrery::graph
