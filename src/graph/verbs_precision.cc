// Requant, Sparsify, Adapt: what weights and states are stored as.
#include <cmath>

#include "graph/layout.h"
#include "graph/verbs.h"

namespace orrery::graph {
namespace {

DType dtype_of(VerbWords& w) {
  std::string name = w.word("dtype");
  if (!w.empty() && (w.peek()[0] == 'g' || w.peek() == "dq" || w.peek() == "block" || name == "vq"))
    name += " " + w.word("group");
  return parse_dtype(name);
}

void requant(VerbWords& w, Graph& g, Plan& p) {
  std::string target = w.word("target");
  if (p.sparse24 && target.ends_with("weight")) w.refuse("the weights are 2:4 sparse already: give their format before sparsify");
  DType dtype = dtype_of(w);
  bool experts = w.accept("experts-only");
  bool matched = false;
  for (Tensor& t : g.tensors) {
    bool hit = target == "weight"
                   ? t.cls == TensorClass::kWeight && t.linear && (!experts || t.name.starts_with("experts"))
               : target == "all-weight" ? t.cls == TensorClass::kWeight
               : target == "kv"         ? is_cache(t) && t.name != "index_cache"
               : target == "activation"
                   ? t.cls == TensorClass::kActivation
                   : (w.refuse("target must be weight, all-weight, kv or activation"), false);
    if (!hit) continue;
    t.dtype = dtype;
    matched = true;
  }
  if (target == "activation") p.compute = dtype;
  if (!matched) w.refuse("the graph has no tensor of that kind");
}

void sparsify(VerbWords& w, Graph& g, Plan& p) {
  if (!w.accept("2:4")) w.refuse("only the 2:4 pattern has a rate in hardware");
  if (p.sparse24) w.refuse("the weights are 2:4 sparse already");
  p.sparse24 = true;
  // Half of the values, and two bits of position for each of them.
  for (Tensor& t : g.tensors)
    if (t.cls == TensorClass::kWeight && t.linear) t.dtype.bits = t.dtype.bits / 2 + 1;
}

void adapt(VerbWords& w, Graph& g, Plan& p) {
  double rank = w.number("rank");
  if (rank < 0 || rank != std::floor(rank)) w.refuse("the rank must be a whole number that is not negative");
  if (rank == 0) return;
  bool linear = false;
  for (const Tensor& t : g.tensors) linear |= t.linear;
  if (!linear) w.refuse("the graph has no linear layer");
  p.adapter_rank = rank;
}

constexpr Verb kVerbs[] = {
    {"requant", "requant weight|all-weight|kv|activation DTYPE [gN|dq|block] [experts-only]",
     "Stores tensors in another number format. 'weight' means the matrices of linear layers; embeddings, "
     "head, norms "
     "and biases keep theirs. Scales and zero points are counted. Products run at the rate of the format "
     "where the GPU "
     "has it and are widened to 16 bits where it has not.",
     requant},
    {"sparsify", "sparsify 2:4",
     "Keeps two of every four weights of linear layers, with two bits of position each; products may use the "
     "sparse "
     "tensor-core rate.",
     sparsify},
    {"adapt", "adapt RANK",
     "Freezes the weights and trains low-rank adapters of the given rank on every linear layer: gradients "
     "and optimizer "
     "states exist for the adapters only.",
     adapt},
};

}  // namespace

std::span<const Verb> precision_verbs() { return kVerbs; }

}  // namespace orrery::graph
