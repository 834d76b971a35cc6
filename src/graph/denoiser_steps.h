// The element-wise parts of a denoiser's layer as kernels.
//
// Step by step, as PyTorch runs diffusers' modules by itself: a norm, its scale and its shift are a kernel
// each, a gate is one beside its residual, and a rotation is eight. Compiled: a norm takes its modulation
// with it, a gate its residual, and rotations, norms of heads and joints run inside their neighbours. What a
// function was called with stays in memory until it returns: hold(). Source: huggingface/diffusers at
// 58eb52c0, models/normalization.py, models/embeddings.py, models/transformers/transformer_{flux,ltx}.py.
// PyTorch's own RMSNorm is one kernel.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace orrery::graph {

class DenoiserSteps {
 public:
  static constexpr TensorId kNone = 0xffff;

  DenoiserSteps(GraphBuilder& builder, AxisId hidden, bool compiled)
      : b_(builder), h_(hidden), compiled_(compiled) {}

  bool compiled() const { return compiled_; }
  // The norm of a stream, scaled and shifted; `written_out`: a root mean square in 32 bits, step by step.
  TensorId modulated(const std::string& name, TensorId x, AxisId rows, bool written_out = false);
  // The same norm's result scaled and shifted once more.
  TensorId rescaled(const std::string& name, TensorId x, AxisId rows);
  // x + gate * y
  TensorId gated(const std::string& name, TensorId x, TensorId y, AxisId rows);
  // The norm of queries or keys; its weights are the caller's.
  TensorId head_norm(const std::string& name, TensorId t);
  // Rotary positions; `table`: of every element (kNone: of a head, which hardly counts).
  struct Rotary {
    TensorId cosine = kNone, sine = kNone;
  };
  TensorId rotated(const std::string& name, TensorId t, const Rotary& table);
  // Two streams, or two widths, one behind the other.
  TensorId joined(const std::string& name, std::vector<TensorId> parts, std::vector<AxisId> axes);
  // These tensors live until the operator that was added last has run; a compiler frees them at their last use.
  void hold(const std::vector<TensorId>& tensors);

 private:
  TensorId pass(const std::string& name, std::vector<TensorId> in, DType out, OpKind kind = OpKind::kMap);

  GraphBuilder& b_;
  AxisId h_;
  bool compiled_;
};

}  // namespace orrery::graph
