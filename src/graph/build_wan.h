// A layer of Wan's denoiser (build_wan.cc).
#pragma once

#include "graph/spec.h"

namespace orrery::graph {

// Declares the layers' block; `picture` is the axis of a conditioning picture's tokens, or kNoAxis.
void build_wan_layers(GraphBuilder& builder, const DiffusionSpec& spec, AxisId hidden, AxisId picture);

}  // namespace orrery::graph
