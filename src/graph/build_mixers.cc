// Shapes follow the published implementations of Mamba 1 and 2, Jamba, Zamba, Qwen3-Next and RecurrentGemma
// (transformers).
#include "graph/build_mixers.h"

namespace orrery::graph {
namespace {

struct Mixing {
  GraphBuilder& b;
  const TransformerSpec& s;
  AxisId inner, heads, groups, both;  // both: the two vectors of a group (B and C, or queries and keys)

  Mixing(GraphBuilder& builder, const TransformerSpec& spec)
      : b(builder),
        s(spec),
        inner(b.axis("ssm.inner", spec.ssm_inner)),
        heads(kNoAxis),
        groups(kNoAxis),
        both(kNoAxis) {
    if (s.ssm_heads) heads = b.axis("ssm.heads", s.ssm_heads);
    if (s.ssm_groups)
      groups = b.axis("ssm.groups", s.ssm_groups), both = b.axis("ssm.group_pair", 2.0 * s.ssm_state);
  }

  // Reads and writes the scan's state, once per sequence and step, and what steers it: queries, keys, decays.
  TensorId scan(TensorId x, double state, double ops, std::vector<TensorId> steered_by) {
    std::vector<AxisId> axes = {kSeqs, inner};
    if (state > 1) axes.push_back(b.axis("ssm.state", state));
    TensorId held = b.tensor("ssm_state", axes, TensorClass::kState, kFp32);
    TensorId y = b.act("ssm.scanned", {kTokens, inner});
    std::vector<TensorId> kept = {x};
    kept.insert(kept.end(), steered_by.begin(), steered_by.end());
    std::vector<TensorId> in = kept;
    in.push_back(held);
    Op& op = b.op(OpKind::kScan, Part::kAttention, "ssm.scan", std::move(in), {y, held});
    op.ops_per_element = ops;
    op.saved = std::move(kept);
    return y;
  }

  // The scan's output, normalised and gated, in a kernel of its own.
  TensorId gate_norm(TensorId y, TensorId gate) {
    TensorId out = b.act("ssm.gated", {kTokens, inner});
    b.op(OpKind::kReduce, Part::kAttention, "ssm.gate_norm", {y, gate}, {out}).ops_per_element = 6;
    return out;
  }

  TensorId project(const char* name, TensorId x, AxisId in, AxisId out, bool bias = false) {
    TensorId y = b.linear(Part::kAttention, name, x, {in}, {out}, bias);
    b.last().saved = {x};
    return y;
  }

  // A short convolution over each channel's last inputs, which a sequence keeps; over the groups' vectors,
  // too.
  struct Convolved {
    TensorId input;
    std::vector<TensorId> groups;  // none or one
  };
  Convolved convolution(TensorId x, std::vector<TensorId> vectors = {}) {
    AxisId held_inputs = b.axis("ssm.conv_held", s.ssm_conv - 1);
    std::vector<TensorId> in = {x}, out = {b.act("ssm.convolved", {kTokens, inner})};
    Convolved y{out.front(), {}};
    if (!vectors.empty()) y.groups = {b.act("ssm.convolved_groups", {kTokens, groups, both})};
    in.insert(in.end(), vectors.begin(), vectors.end()),
        out.insert(out.end(), y.groups.begin(), y.groups.end());
    std::vector<TensorId> held = {
        b.tensor("ssm_state.conv", {kSeqs, inner, held_inputs}, TensorClass::kState)};
    if (groups != kNoAxis)
      held.push_back(
          b.tensor("ssm_state.conv_groups", {kSeqs, groups, both, held_inputs}, TensorClass::kState));
    in.insert(in.end(), held.begin(), held.end()), out.insert(out.end(), held.begin(), held.end());
    b.op(OpKind::kMap, Part::kAttention, "ssm.conv", std::move(in), std::move(out)).ops_per_element =
        2.0 * s.ssm_conv + 4;
    AxisId kernel = b.axis("ssm.kernel", s.ssm_conv);
    b.weight("ssm.conv.weight", {inner, kernel});
    if (s.ssm_conv_bias) b.weight("ssm.conv.bias", {inner});
    if (groups == kNoAxis) return y;
    b.weight("ssm.conv_groups.weight", {groups, both, kernel});
    if (s.ssm_conv_bias) b.weight("ssm.conv_groups.bias", {groups, both});
    return y;
  }

  // One product makes the input, the gate and the vectors of the groups, with one number for each head; where
  // a head takes two numbers (the delta rule), they come from a product of their own; or none.
  struct Parts {
    TensorId input, gate;
    std::vector<TensorId> groups, heads;  // of each one tensor or none, of heads two
  };
  Parts in_projection(TensorId x, AxisId hidden, int per_head, bool gate = true) {
    std::vector<TensorId> in = {x}, out;
    auto part = [&](const char* name, std::vector<AxisId> axes) {
      std::vector<AxisId> w = {hidden}, y = {kTokens};
      w.insert(w.end(), axes.begin(), axes.end()), y.insert(y.end(), axes.begin(), axes.end());
      in.push_back(b.weight(std::string("ssm.in.") + name + ".weight", w, true));
      out.push_back(b.act(std::string("ssm.in.") + name, y));
    };
    auto product = [&](const char* name) {
      b.op(OpKind::kContract, Part::kAttention, name, in, out).saved = {x};
      in = {x}, out.clear();
    };
    part("x", {inner});
    if (gate) part("z", {inner});
    part("groups", {groups, both});
    Parts made{out[0], out[1], {out.back()}, {}};
    if (per_head != 1) product("ssm.in");
    if (per_head == 0) return made;
    for (const char* name : {"heads", "heads2"})
      if (static_cast<int>(made.heads.size()) < per_head)
        part(name, {heads}), made.heads.push_back(out.back());
    product(per_head == 2 ? "ssm.in_heads" : "ssm.in");
    return made;
  }

  // What steers a scan whose heads have numbers of their own.
  std::vector<TensorId> steering(const Convolved& u, const Parts& parts) const {
    std::vector<TensorId> all = u.groups;
    all.insert(all.end(), parts.heads.begin(), parts.heads.end());
    return all;
  }
};

}  // namespace

TensorId mamba2_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  Mixing m(b, s);
  auto parts = m.in_projection(x, hidden, 1);
  auto u = m.convolution(parts.input, parts.groups);
  for (const char* name : {"ssm.A", "ssm.D", "ssm.dt_bias"}) b.weight(name, {m.heads});
  if (s.ssm_gate_norm) b.weight("ssm.gate_norm", {m.inner});
  TensorId y = m.scan(u.input, s.ssm_state, 6.0 * s.ssm_state, m.steering(u, parts));
  if (s.ssm_gate_norm) y = m.gate_norm(y, parts.gate);
  return m.project("ssm.out", y, m.inner, hidden);
}

TensorId mamba1_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  Mixing m(b, s);
  AxisId rank = b.axis("ssm.rank", s.ssm_rank), state = b.axis("ssm.state", s.ssm_state);
  TensorId wx = b.weight("ssm.in.x.weight", {hidden, m.inner}, true),
           wz = b.weight("ssm.in.z.weight", {hidden, m.inner}, true);
  TensorId in = b.act("ssm.in.x", {kTokens, m.inner}), gate = b.act("ssm.in.z", {kTokens, m.inner});
  b.op(OpKind::kContract, Part::kAttention, "ssm.in", {x, wx, wz}, {in, gate}).saved = {x};
  TensorId u = m.convolution(in).input;

  TensorId vectors = m.project("ssm.x", u, m.inner, b.axis("ssm.rank_b_c", s.ssm_rank + 2.0 * s.ssm_state));
  TensorId r = b.act("ssm.dt_low", {kTokens, rank});
  TensorId dt = m.project("ssm.dt", r, rank, m.inner, true);

  b.weight("ssm.A", {m.inner, state});
  b.weight("ssm.D", {m.inner});
  if (s.ssm_inner_norms)
    b.weight("ssm.dt_norm", {rank}), b.weight("ssm.b_norm", {state}), b.weight("ssm.c_norm", {state});
  return m.project("ssm.out", m.scan(u, s.ssm_state, 9.0 * s.ssm_state, {vectors, dt}), m.inner, hidden);
}

TensorId delta_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  Mixing m(b, s);
  auto parts = m.in_projection(x, hidden, 2);
  auto u = m.convolution(parts.input, parts.groups);
  for (const char* name : {"ssm.A", "ssm.dt_bias"}) b.weight(name, {m.heads});
  b.weight("ssm.gate_norm", {b.axis("ssm.head_dim", static_cast<double>(s.ssm_inner) / s.ssm_heads)});
  TensorId y = m.scan(u.input, s.ssm_state, 8.0 * s.ssm_state, m.steering(u, parts));
  return m.project("ssm.out", m.gate_norm(y, parts.gate), m.inner, hidden);
}

TensorId kda_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  Mixing m(b, s);
  AxisId rank = b.axis("ssm.head_dim", s.ssm_state);
  auto parts = m.in_projection(x, hidden, 0, s.ssm_gate_rank == 0);
  auto u = m.convolution(parts.input, parts.groups);
  TensorId decay = m.project("ssm.decay.up", m.project("ssm.decay.down", x, hidden, rank), rank, m.inner);
  TensorId beta = m.project("ssm.beta", x, hidden, m.heads);
  b.weight("ssm.A", {m.heads}), b.weight("ssm.dt_bias", {m.inner}), b.weight("ssm.gate_norm", {rank});
  TensorId gate = parts.gate;
  if (s.ssm_gate_rank) {
    AxisId low = b.axis("ssm.gate_rank", s.ssm_gate_rank);
    gate = m.project("ssm.gate.up", m.project("ssm.gate.down", x, hidden, low), low, m.inner);
  }
  TensorId y = m.scan(u.input, s.ssm_state, 9.0 * s.ssm_state, {u.groups.front(), decay, beta});
  return m.project("ssm.out", m.gate_norm(y, gate), m.inner, hidden);
}

TensorId lightning_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  Mixing m(b, s);
  auto parts = m.in_projection(x, hidden, 0, true);
  b.weight("ssm.gate_norm", {m.inner});
  TensorId y = m.scan(parts.input, s.ssm_state, 5.0 * s.ssm_state, parts.groups);
  return m.project("ssm.out", m.gate_norm(y, parts.gate), m.inner, hidden);
}

TensorId short_convolution(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  AxisId inner = b.axis("ssm.inner", s.hidden), kernel = b.axis("ssm.kernel", s.ssm_conv);
  std::vector<TensorId> in = {x}, made;
  for (const char* name : {"ssm.in.x", "ssm.in.z", "ssm.in.gate"}) {
    in.push_back(b.weight(std::string(name) + ".weight", {hidden, inner}, true));
    made.push_back(b.act(name, {kTokens, inner}));
  }
  b.op(OpKind::kContract, Part::kAttention, "ssm.in", std::move(in), std::vector<TensorId>(made)).saved = {x};
  TensorId held = b.tensor("ssm_state.conv", {kSeqs, inner, b.axis("ssm.conv_held", s.ssm_conv - 1)}, TensorClass::kState);
  TensorId y = b.act("ssm.convolved", {kTokens, inner});
  made.push_back(held);
  Op& op = b.op(OpKind::kMap, Part::kAttention, "ssm.conv", std::vector<TensorId>(made), {y, held});
  op.ops_per_element = 2.0 * s.ssm_conv + 2;
  op.saved = {made[0], made[1], made[2]};
  b.weight("ssm.conv.weight", {inner, kernel});
  if (s.ssm_conv_bias) {
    b.weight("ssm.conv.bias", {inner}), b.weight("ssm.in.bias", {b.axis("ssm.in.three", 3), inner}), b.weight("ssm.out.bias", {hidden});
  }
  TensorId out = b.linear(Part::kAttention, "ssm.out", y, {inner}, {hidden});
  b.last().saved = {y};
  return out;
}

TensorId recurrent_mixer(GraphBuilder& b, const TransformerSpec& s, AxisId hidden, TensorId x) {
  Mixing m(b, s);
  double width = static_cast<double>(s.ssm_inner) / s.ssm_heads;
  AxisId block = b.axis("ssm.block", width), block_out = b.axis("ssm.block_out", width);
  TensorId gate = m.project("ssm.gate", x, hidden, m.inner, true);
  TensorId u = m.convolution(m.project("ssm.in", x, hidden, m.inner, true)).input;
  b.weight("ssm.A", {m.inner});
  TensorId v = b.map(Part::kAttention, "ssm.gates", {u, gate}, {kTokens, m.inner}, 4.0 * width + 12);
  TensorId decay = b.act("ssm.decay", {kTokens, m.inner});
  b.last().out.push_back(decay);
  for (const char* name : {"ssm.input_gate", "ssm.recurrent_gate"}) {
    b.weight(std::string(name) + ".weight", {m.heads, block, block_out});
    b.weight(std::string(name) + ".bias", {m.heads, block});
  }
  return m.project("ssm.out", m.scan(v, 1, 8, {decay}), m.inner, hidden, true);
}

}  // namespace orrery::graph
