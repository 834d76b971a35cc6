// How a graph is laid over GPUs and time: everything that is not the model and not the question.
//
// A rank holds extent/split of each divided axis. `tp` divides heads and feed-forward widths, `ep` experts,
// `pp` layers, `cp` the sequence, `dp` the batch. In serving, `dp` is attention data parallelism: its ranks
// share one copy of the experts, over all tp x dp ranks. Illegal divisions are refused, never rounded
// (check_plan).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "profile/profile.h"

namespace orrery::graph {

enum class RecomputePolicy : std::uint8_t { kNone, kSelective, kFull };
enum class PipelineSchedule : std::uint8_t { kOneFOneB, kInterleaved, kZeroBubble, kDenoising };
enum class Tier : std::uint8_t { kDevice, kHost, kNvme, kRemote };

std::string_view name_of(RecomputePolicy policy);
std::string_view name_of(Tier tier);

struct Placement {
  Tier weights = Tier::kDevice, kv = Tier::kDevice, optimizer = Tier::kDevice, gradients = Tier::kDevice,
       checkpoints = Tier::kDevice, experts = Tier::kDevice;
  double weights_fraction = 1, kv_fraction = 1, experts_fraction = 1, optimizer_fraction = 1,
         gradients_fraction = 1, checkpoints_fraction = 1;  // share of the class that is placed there
  double experts_hit = -1;       // share of the accesses to experts that find them on the GPU; below 0: as many as are there
  bool compute_follows = false;  // the host computes with what it holds
};

// Larger clusters and plans are refused: products of ranks stay far from overflow.
inline constexpr int kMostGpus = 1 << 20;

// A serving engine's kernels for experts with many rows: the share of the library's rate that they reach by format, and
// how many multiplications in 16 bits an element of their output costs besides (start and end of a tile); with a scale
// for every block the sums of each block are added up outside the tensor cores.
struct ExpertKernels {
  struct Shares {
    double in16, in8, blocks, nvfp4, mxfp4, integers;  // blocks: fp8 with a scale for every block; the last two are widened
    double depth, block_depth;
  };
  Shares hopper, blackwell;
};

struct Plan {
  int tp = 1, pp = 1, dp = 1, cp = 1, ep = 1;
  // Tensor-parallel ranks of one class of operators, where they differ from tp (0: they do not): the others
  // repeat its work.
  int tp_attention = 0, tp_dense = 0;
  int attention_ranks() const { return tp_attention ? tp_attention : tp; }
  int dense_ranks() const { return tp_dense ? tp_dense : tp; }
  int zero = 0;
  bool sequence_parallel = false;
  bool ulysses = false;  // cp by all-to-all over heads instead of a ring
  PipelineSchedule schedule = PipelineSchedule::kOneFOneB;
  int virtual_stages = 1;  // chunks of layers a stage holds, where the schedule is interleaved
  int chunks() const { return schedule == PipelineSchedule::kInterleaved ? virtual_stages : 1; }
  RecomputePolicy recompute = RecomputePolicy::kNone;
  Placement place;
  DType compute = kBf16;  // arithmetic of matrix products in training: bf16, fp16, fp8
  bool grad_fp32 = true;  // gradients are accumulated in fp32 (Megatron with bf16)
  // A micro-batch's weight gradients are summed inside the products that make them (Megatron-LM since v3.0, Transformer
  // Engine), or in a pass of their own.
  bool joins_accumulation = true;
  // Overlap: share of the communication that may hide behind computation, by kind.
  double overlap_dp = 0, overlap_tp = 0, overlap_pp = 0, overlap_prefetch = 0;
  bool tile_mlp = false, tile_loss = false;  // Tile: long sequences pass in pieces
  // Bits of the offsets (one of them is the sign) by which a training framework's kernels of norms and attention address
  // a tensor: 32 in Liger's RMSNorm before 0.6.1 and in FlashAttention 2, so that neither the stream between layers
  // nor queries, keys, values and their result may have 2^31 elements. Others, the feed-forward's among them, are not limited.
  int offset_bits = 64;
  double adapter_rank = 0;                   // Adapt: low-rank adapters on every linear layer; base frozen
  // Admit
  int chunk_tokens = 8192;     // chunked prefill: tokens of a step
  double memory_share = 0.90;  // of the GPU's memory that the engine takes
  int block_tokens = 16;       // page size of the KV cache: the last page of a sequence is partly empty
  int prefill_replicas =
      0;  // replicas of tp x pp GPUs that only prefill; 0: prefill runs between decode steps
  // Shrink, Share, Skip, Speculate: laws declared by the caller
  double kv_keep_tokens = 0;  // after prefill at most so many keys are kept; 0: all
  double prefix_tokens = 0;   // that prompts have in common, held once
  double prefix_hit = 1;      // share of the requests that find them there
  double expert_load = 0;     // rows of the rank that gets most over the mean; 0: what a random choice gives
  double kv_share = 1;        // bytes of KV kept by sharing between layers
  double prefill_skip = 0;    // share of the layers' prefill work that is skipped
  int draft_tokens = 0;       // tokens proposed a step
  double acceptance = 0;      // probability that a proposed token is accepted
  double draft_cost = 0;      // time of one draft step over the target's, where no draft is named
  std::shared_ptr<const Graph> draft;  // the model that proposes: its bytes count, its time is predicted
  // What an engine's kernels join: narrowing of activations inside the norm or activation before a product,
  // and the norm that follows an all-reduce of few bytes inside that all-reduce.
  bool joins_narrowing = false, joins_reduce_norm = false;
  const ExpertKernels* engine_experts = nullptr;  // products of experts run in a serving engine's own kernels
  bool sparse24 = false;           // 2:4 sparsity of linear weights on the sparse tensor-core rate
  std::vector<std::string> verbs;  // as given, for the report

  // Never more than kMostGpus + 1.
  int gpus() const;
};

// Refuses what cannot be laid out: heads, experts, layers or widths that do not divide; names both numbers.
void check_plan(const Graph& graph, const Plan& plan);

// Stages that share the steps of a denoiser: for questions about anything else.
void refuse_denoising(const Plan& plan);

// GPUs of one kind and what joins them.
struct Cluster {
  Profile gpu;
  int gpus = 1;
};
// Parses "h200" or "h200:8".
Cluster parse_cluster(const std::string& text);

}  // namespace orrery::graph
