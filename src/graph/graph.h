// The vocabulary: tensors with named axes, operators on them, and blocks that repeat.
//
// Every size in a graph is a product of axis extents. An axis is either structural (heads, ffn: fixed by the
// model) or free (tokens, keys, pairs: bound by each question), so one graph answers prefill, decode and
// training. What is counted follows from the axes alone: a contract costs two operations per point of the
// union of its inputs' axes; an operator reads its inputs and writes its outputs once. Sharding divides an
// axis (plan.h), nothing else.
//
//   free axis   meaning (totals over the sequences that a rank works on)
//   tokens      new tokens
//   seqs        sequences
//   keys*       key positions held, full, inside a window or chosen   pairs*  (query, key) pairs scored
//   scores      points of the whole score matrix, for attention that stores it
//   text, joint text tokens of a diffusion model, and both kinds together
//   routed      tokens times experts per token                   outputs tokens whose logits are wanted
//
// Not here: what a plan does to a graph (verbs.h), counting (walk.h), time (schedule.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/dtype.h"

namespace orrery::graph {

enum class OpKind : std::uint8_t {
  kContract,
  kAttend,
  kScan,
  kMap,
  kReduce,
  kGather,
  kSelect,
  kMove,
  kCollect,
  kKernel
};
enum class TensorClass : std::uint8_t { kWeight, kState, kActivation, kGradient, kOptimizer, kIndex, kCode };
inline constexpr int kTensorClasses = 7;
// Which part of a network an operator belongs to: plans may treat each part differently.
enum class Part : std::uint8_t { kEmbed, kAttention, kDense, kExpert, kHead, kEncoder, kDecoder };

std::string_view name_of(OpKind kind);
std::string_view name_of(TensorClass cls);
std::string_view name_of(Part part);

using AxisId = std::uint16_t;
using TensorId = std::uint16_t;
inline constexpr AxisId kNoAxis = 0xffff;

struct Axis {
  std::string name;
  double extent = 0;    // 0: free
  bool points = false;  // counts positions: a product has so many rows for each unit of its free axis
};

// Free axes that every graph has, in this order.
enum FreeAxis : AxisId {
  kTokens,
  kSeqs,
  kKeys,
  kKeysWindow,
  kPairs,
  kPairsWindow,
  kScores,
  kRouted,
  kOutputs,
  kText,
  kJoint,
  kKeysChosen,
  kPairsChosen,
  kFreeAxes
};

struct Tensor {
  std::string name;
  std::vector<AxisId> axes;
  TensorClass cls = TensorClass::kActivation;
  DType dtype = kBf16;
  bool linear = false;      // a matrix of a linear layer: what "weights only" quantization changes
  bool replicated = false;  // never divided by tensor parallelism (MLA latent, router)
  double copies = 1;        // weights of which a block iteration holds several (experts are an axis instead)
  double stored = 1;        // share of an iteration's weights that it stores itself: iterations may share them; of a
                            // state that is read as a part of another: 0
};

struct Op {
  OpKind kind = OpKind::kMap;
  Part part = Part::kDense;
  std::string name;
  std::vector<TensorId> in, out;
  AxisId grouped = kNoAxis;        // contract: each row meets one index of this axis (experts)
  AxisId pairs = kNoAxis;          // attend: the axis that counts scored pairs
  double ops_per_element = 0;      // map, reduce, scan: operations per output element
  double lanes = 0;                // reduce: groups that can be worked on at once; 0: enough
  double reach = 1;                // share of the usual kernels' rate that this one's library reaches
  bool adds = false;               // sums what it takes: partial sums may pass through it
  bool fused = false;              // touches no device memory of its own: runs inside a neighbour
  double score_bytes = 0;          // attend: bytes of device memory moved per score, when scores are stored
  std::vector<TensorId> saved;     // activations that the backward pass needs
  std::vector<TensorId> held;      // further tensors that stay alive while it runs
  AxisId head_axis = kNoAxis;      // attend: query heads
  double head_qk = 0, head_v = 0;  // attend: dimension of scores and of values
  double absorbed_qk = 0,
         absorbed_v = 0;  // attend, latent form: the same when the up-projections are absorbed
  // Bound to kernels that the kernel scale has timed: seconds and joules of one execution; 0: priced here.
  double seconds = 0, joules = 0;
};

// The part of a request in which a block runs.
enum class Phase : std::uint8_t { kAlways, kPrefill, kDecode };

// No model repeats a block so often: larger numbers are refused (a report lists every repetition).
inline constexpr double kMostRepeats = 100000;

// A run of operators executed `repeat` times one after the other, each time with weights and states of its
// own (layers). A branch runs in a share of the iterations, and a phase only for the tokens of prefill or of
// decode; what they hold in memory is there all the time.
struct Block {
  std::string name;
  double repeat = 1;
  double share = 1;  // of the iterations in which it runs: a law, declared
  Phase phase = Phase::kAlways;
  std::uint32_t first_op = 0, op_count = 0;
  std::uint32_t first_tensor = 0, tensor_count = 0;
  bool layer = false;  // counts as a layer that pipeline stages may divide
};

struct Graph {
  std::string name;
  std::vector<Axis> axes;
  std::vector<Tensor> tensors;
  std::vector<Op> ops;
  std::vector<Block> blocks;
  double window = 0;             // positions that a windowed layer sees; 0: no such layer
  double chosen = 0;             // positions that a layer sees that chooses its keys; 0: no such layer
  double experts_per_token = 0;  // 0: no experts
  int trained_positions = 0;     // tokens of the longest text that its config allows; 0: unknown
  std::vector<std::string> notes;  // what its reader took from the config, left out or had to assume; printed

  AxisId find_axis(std::string_view name) const;  // kNoAxis when absent
};

// Elements of the parameters: all, and those in matrix products (each token's share for experts).
struct ParameterCount {
  double total = 0;
  double matmul_active = 0;
  double linear = 0;  // in linear layers, all experts
};
ParameterCount count_parameters(const Graph& graph);

// Builds a graph block by block; keeps ids private to this class and builders short.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);

  AxisId axis(std::string_view name, double extent);
  void begin(std::string_view block, double repeat, bool layer);
  void end();

  TensorId weight(std::string_view name, std::vector<AxisId> axes, bool linear = false);
  TensorId tensor(std::string_view name, std::vector<AxisId> axes, TensorClass cls, DType dtype = kBf16);
  TensorId act(std::string_view name, std::vector<AxisId> axes);
  Tensor& at(TensorId id) { return graph_.tensors[id]; }

  // y = x W (+ b): declares the weight [in..., out...] and the operator; returns y's id.
  TensorId linear(Part part, std::string_view name, TensorId x, std::vector<AxisId> in,
                  std::vector<AxisId> out, bool bias = false, AxisId grouped = kNoAxis,
                  AxisId rows = kTokens);
  TensorId map(Part part, std::string_view name, std::vector<TensorId> in, std::vector<AxisId> out,
               double ops = 1, bool fused = false);
  Op& op(OpKind kind, Part part, std::string_view name, std::vector<TensorId> in, std::vector<TensorId> out);
  Op& last() { return graph_.ops.back(); }
  Graph finish();
  Graph& graph() { return graph_; }

 private:
  Graph graph_;
};

}  // namespace orrery::graph
