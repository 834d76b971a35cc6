// Shapes follow the published implementations of Mamba 1 and 2, Jamba, Qwen3-Next and RecurrentGemma
// (transformers).
#include "graph/build_mixers.h"

namespace orrery::graph {
namespace {

// Reads and writes the scan's state and the last inputs of the convolution, once per sequence and step.
TensorId scan(GraphBuilder& b, const TransformerSpec& s, TensorId x, AxisId channels, AxisId conv,
              double state, double ops) {
  std::vector<AxisId> axes = {kSeqs, channels};
  if (state > 1) axes.push_back(b.axis("ssm.state", state));
  TensorId held = b.tensor("ssm_state", axes, TensorClass::kState, kFp32);
  TensorId recent =
      b.tensor("ssm_state.conv", {kSeqs, conv, b.axis("ssm.conv_held", s.ssm_conv - 1)}, TensorClass::kState);
  TensorId y = b.act("ssm.out", {kTokens, channels});
  Op& op = b.op(OpKind::kScan, Part::kAttention, "ssm.scan", {x, held, recent}, {y, held, recent});
  op.ops_per_element = ops;
  op.saved = {x};
  return y;
}

TensorId project(GraphBuilder& b, const char* name, TensorId x, AxisId in, AxisId out, bool bias = false) {
  TensorId y = b.linear(Part::kAttention, name, x, {in}, {out}, bias);
  b.last().saved = {x};
  return y;
}

void convolution(GraphBuilder& b, const TransformerSpec& s, AxisId channels) {
  b.weight("ssm.conv.weight", {channels, b.axis("ssm.kernel", s.ssm_conv)});
  if (s.ssm_conv_bias) b.weight("ssm.conv.bias", {channels});
}

}  // namespace

TensorId mamba2_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  double groups = 2.0 * s.ssm_groups * s.ssm_state;
  AxisId inner = b.axis("ssm.inner", s.ssm_inner), heads = b.axis("ssm.heads", s.ssm_heads);
  AxisId conv = b.axis("ssm.conv_channels", s.ssm_inner + groups);
  TensorId z = project(b, "ssm.in", x, hidden, b.axis("ssm.in", 2.0 * s.ssm_inner + groups + s.ssm_heads));
  convolution(b, s, conv);
  for (const char* name : {"ssm.A", "ssm.D", "ssm.dt_bias"}) b.weight(name, {heads});
  if (s.ssm_gate_norm) b.weight("ssm.gate_norm", {inner});
  TensorId y = scan(b, s, z, inner, conv, s.ssm_state, 6.0 * s.ssm_state);
  return project(b, "ssm.out", y, inner, hidden);
}

TensorId mamba1_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  AxisId inner = b.axis("ssm.inner", s.ssm_inner), rank = b.axis("ssm.rank", s.ssm_rank);
  AxisId state = b.axis("ssm.state", s.ssm_state);
  TensorId z = project(b, "ssm.in", x, hidden, b.axis("ssm.in", 2.0 * s.ssm_inner));
  convolution(b, s, inner);
  TensorId u = b.map(Part::kAttention, "ssm.conv", {z}, {kTokens, inner}, 2.0 * s.ssm_conv + 4);
  project(b, "ssm.x", u, inner, b.axis("ssm.rank_b_c", s.ssm_rank + 2.0 * s.ssm_state));
  TensorId r = b.act("ssm.dt_low", {kTokens, rank});
  project(b, "ssm.dt", r, rank, inner, true);
  b.weight("ssm.A", {inner, state});
  b.weight("ssm.D", {inner});
  if (s.ssm_inner_norms)
    b.weight("ssm.dt_norm", {rank}), b.weight("ssm.b_norm", {state}), b.weight("ssm.c_norm", {state});
  TensorId y = scan(b, s, u, inner, inner, s.ssm_state, 9.0 * s.ssm_state);
  return project(b, "ssm.out", y, inner, hidden);
}

TensorId delta_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  double keys = 1.0 * s.ssm_groups * s.ssm_state;
  AxisId inner = b.axis("ssm.inner", s.ssm_inner), heads = b.axis("ssm.heads", s.ssm_heads);
  AxisId conv = b.axis("ssm.conv_channels", s.ssm_inner + 2 * keys);
  TensorId z =
      project(b, "ssm.in", x, hidden, b.axis("ssm.in", 2.0 * s.ssm_inner + 2 * keys + 2.0 * s.ssm_heads));
  convolution(b, s, conv);
  for (const char* name : {"ssm.A", "ssm.dt_bias"}) b.weight(name, {heads});
  b.weight("ssm.gate_norm", {b.axis("ssm.head_dim", static_cast<double>(s.ssm_inner) / s.ssm_heads)});
  TensorId y = scan(b, s, z, inner, conv, s.ssm_state, 8.0 * s.ssm_state);
  return project(b, "ssm.out", y, inner, hidden);
}

TensorId recurrent_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  AxisId width = b.axis("ssm.inner", s.ssm_inner), heads = b.axis("ssm.heads", s.ssm_heads);
  AxisId block = b.axis("ssm.block", static_cast<double>(s.ssm_inner) / s.ssm_heads);
  TensorId gate = project(b, "ssm.gate", x, hidden, width, true);
  TensorId u = project(b, "ssm.in", x, hidden, width, true);
  convolution(b, s, width);
  b.weight("ssm.A", {width});
  TensorId v =
      b.map(Part::kAttention, "ssm.gates", {u, gate}, {kTokens, width}, 4.0 * s.ssm_inner / s.ssm_heads + 12);
  for (const char* name : {"ssm.input_gate", "ssm.recurrent_gate"}) {
    b.weight(std::string(name) + ".weight",
             {heads, block, b.axis("ssm.block_out", static_cast<double>(s.ssm_inner) / s.ssm_heads)});
    b.weight(std::string(name) + ".bias", {heads, block});
  }
  TensorId y = scan(b, s, v, width, width, 1, 8);
  return project(b, "ssm.out", y, width, hidden, true);
}

}  // namespace orrery::graph
