// What a layer may have in the place of attention: state-space scans and linear recurrences.
//
// Each function adds the mixer's weights, state and operators to the block that is open and returns its
// output; `x` is the normalised input. The state of a sequence does not grow with its length. Heads and channels
// are divided over tensor-parallel ranks; groups fewer than ranks are held by each.
#pragma once

#include "graph/spec.h"

namespace orrery::graph {

// Mamba 2: in projection, depthwise convolution, scan over heads, gate, out projection.
TensorId mamba2_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);
// Mamba 1: the step size, B and C are projected from the convolved input; state per channel.
TensorId mamba1_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);
// Gated delta rule (Qwen3-Next): keys and values of a linear attention with a matrix state per head.
TensorId delta_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);
// Kimi's delta attention: the delta rule with a decay for each channel of a key.
TensorId kda_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);
// Linear attention with a fixed decay for each head (MiniMax), gated and normalised.
TensorId lightning_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);
// A convolution over a few tokens between two gates (LFM2).
TensorId short_convolution(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);
// RG-LRU (RecurrentGemma): two branches, block-diagonal gates, a diagonal recurrence.
TensorId recurrent_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x);

}  // namespace orrery::graph
