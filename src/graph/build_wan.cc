// Wan's layers as its own pipeline runs them: PyTorch without a compiler, so each step of a norm, a
// modulation or a rotation is a kernel that reads and writes device memory, and what a function was called
// with stays alive until it returns.
//
// The stream is in 32 bits; autocast narrows what enters a product. Queries and keys come out of their norm
// in 32 bits (the norm's weights are), are rotated as 64-bit complex numbers one after the other, joined
// twice (torch.cat and torch.stack copy) and narrowed. Source: github.com/Wan-Video/Wan2.1,
// wan/modules/model.py and attention.py at 9737cba9.
#include "graph/build_wan.h"

#include <string>

namespace orrery::graph {
namespace {

constexpr DType kWide{Format::kFp32, 64};
constexpr Part kPart = Part::kDense;

class WanLayer {
 public:
  WanLayer(GraphBuilder& b, const DiffusionSpec& s, AxisId hidden, AxisId picture)
      : b_(b),
        s_(s),
        h_(hidden),
        picture_(picture),
        heads_(b.axis("heads", s.heads)),
        dim_(b.axis("head_dim", s.head_dim)) {}

  void build() {
    b_.begin("layer", s_.layers, true);
    b_.weight("modulation", {b_.axis("six", 6), h_});
    if (s_.timed_tokens) token_modulation();
    TensorId x = stream("x", kTokens, kFp32);
    TensorId a = modulated("self", x);
    TensorId y = self_attention(a);
    x = gated("residual.self", x, y);
    b_.weight("norm.cross.weight", {h_}), b_.weight("norm.cross.bias", {h_});
    y = cross_attention(normalised("norm.cross", x), x);
    x = pass("residual.cross", {x, y}, kFp32);
    TensorId m = modulated("mlp", x);
    gated("residual.mlp", x, feed_forward(m));
    b_.last().held = modulation_;
    b_.end();
  }

 private:
  // Where each token has a noise level (2.2's 5B model), six vectors for each of them come in, and the layer's own are
  // added; both stay until the layer ends. Source: github.com/Wan-Video/Wan2.2, wan/modules/model.py.
  void token_modulation() {
    TensorId given = b_.tensor("modulation.given", {kTokens, b_.axis("modulation.6", 6.0 * s_.hidden)}, TensorClass::kActivation, kFp32);
    for (int i = 0; i < 6; ++i) modulation_.push_back(stream("modulation." + std::to_string(i), kTokens, kFp32));
    b_.op(OpKind::kMap, kPart, "modulation.add", {given}, modulation_).ops_per_element = 6;
    modulation_.push_back(given);
  }
  // What a pass reads beside `x`: vector `k` of each token, where they differ.
  std::vector<TensorId> with(TensorId x, int k) const {
    return modulation_.empty() ? std::vector<TensorId>{x} : std::vector<TensorId>{x, modulation_[k]};
  }
  TensorId stream(const std::string& name, AxisId rows, DType dtype) {
    return b_.tensor(name, {rows, h_}, TensorClass::kActivation, dtype);
  }
  // One kernel over the stream.
  TensorId pass(const std::string& name, std::vector<TensorId> in, DType out, std::vector<TensorId> held = {},
                AxisId rows = kTokens) {
    TensorId y = stream(name, rows, out);
    Op& op = b_.op(OpKind::kMap, kPart, name, std::move(in), {y});
    op.ops_per_element = 1;
    op.held = std::move(held);
    return y;
  }
  TensorId normalised(const std::string& name, TensorId x) {
    TensorId y = pass(name, {x}, kFp32);
    b_.last().kind = OpKind::kReduce;
    b_.last().ops_per_element = 4;
    return y;
  }
  TensorId modulated(const std::string& what, TensorId x) {
    TensorId normed = normalised("norm." + what, x);
    int k = what == "self" ? 0 : 3;  // shift, scale, gate
    std::vector<TensorId> in = {normed};
    if (!modulation_.empty()) in.push_back(pass("one." + what, {modulation_[k + 1]}, kFp32));
    return pass("shift." + what, with(pass("scale." + what, in, kFp32), k), kFp32);
  }
  TensorId gated(const std::string& name, TensorId x, TensorId y) {
    return pass(name, {x, pass(name + ".gate", with(y, name == "residual.self" ? 2 : 5), kFp32)}, kFp32);
  }
  // A linear layer under autocast.
  TensorId linear(const std::string& name, TensorId x, std::vector<AxisId> in, std::vector<AxisId> out,
                  AxisId rows) {
    TensorId narrow = x;
    if (b_.at(x).dtype == kFp32) {
      narrow = b_.tensor(name + ".in", b_.at(x).axes, TensorClass::kActivation, kBf16);
      b_.op(OpKind::kMap, kPart, name + ".narrow", {x}, {narrow});
    }
    TensorId y = b_.linear(kPart, name, narrow, std::move(in), std::move(out), true, kNoAxis, rows);
    b_.last().saved = {narrow};
    b_.last().held = {x};
    return y;
  }
  TensorId project(const std::string& name, TensorId x, AxisId rows) {
    return linear(name, x, {h_}, {heads_, dim_}, rows);
  }

  // The root mean square over all heads, step by step.
  TensorId rms_norm(const std::string& name, TensorId x, AxisId rows, const std::vector<TensorId>& held) {
    b_.weight(name + ".norm", {h_});
    TensorId wide = pass(name + ".widen", {x}, kFp32, held, rows);
    TensorId square = pass(name + ".square", {wide}, kFp32, {x}, rows);
    TensorId mean = b_.tensor(name + ".mean", {rows}, TensorClass::kActivation, kFp32);
    b_.op(OpKind::kReduce, kPart, name + ".mean", {square}, {mean}).held = {x};
    TensorId scaled = pass(name + ".scale", {wide, mean}, kFp32, {x}, rows);
    TensorId narrow = pass(name + ".narrowed", {scaled}, kBf16, {x}, rows);
    return pass(name + ".weighted", {narrow}, kFp32, held, rows);
  }
  TensorId rotated(const std::string& name, TensorId x, const std::vector<TensorId>& held) {
    TensorId wide = pass(name + ".complex", {x}, kWide, held);
    TensorId turned = pass(name + ".rotate", {wide}, kWide, held);
    b_.last().ops_per_element = 6;
    TensorId joined = pass(name + ".cat", {turned}, kWide, held);
    TensorId stacked = pass(name + ".stack", {joined}, kWide, held);
    std::vector<TensorId> with = held;
    with.push_back(joined);
    return pass(name + ".narrow", {stacked}, kFp32, with);
  }
  TensorId attend(const std::string& name, TensorId q, TensorId k, TensorId v, AxisId pairs,
                  std::vector<TensorId> held) {
    TensorId y = b_.act(name + ".out", {kTokens, heads_, dim_});
    Op& op = b_.op(OpKind::kAttend, Part::kAttention, name, {q, k, v}, {y});
    op.pairs = pairs, op.head_axis = heads_;
    op.head_qk = op.head_v = s_.head_dim;
    op.saved = {q, k, v};
    op.held = held;
    return pass(name + ".widen", {y}, kFp32, std::move(held));  // the type that the queries came in
  }
  TensorId merge(const std::string& name, TensorId y) {
    return linear(name, y, {heads_, dim_}, {h_}, kTokens);
  }

  TensorId self_attention(TensorId a) {
    TensorId q = rms_norm("q", project("q", a, kTokens), kTokens, {a});
    TensorId k = rms_norm("k", project("k", a, kTokens), kTokens, {a});
    TensorId v = project("v", a, kTokens);
    std::vector<TensorId> held = {a, q, k, v};
    TensorId qr = rotated("rope.q", q, held), kr = rotated("rope.k", k, held);
    TensorId qn = pass("q.narrow", {qr}, kBf16, held);
    TensorId kn = pass("k.narrow", {pass("k.cat", {kr}, kFp32, held)}, kBf16, held);
    TensorId vn = pass("v.cat", {v}, kBf16, held);
    held.push_back(qr), held.push_back(kr);
    return merge("o", reshaped(attend("attend", qn, kn, vn, kPairs, held)));
  }
  // The products that follow attention take its heads; a stream is the same numbers.
  TensorId reshaped(TensorId y) {
    b_.at(y).axes = {kTokens, heads_, dim_};
    return y;
  }
  TensorId of_picture(const std::string& name, TensorId x) {
    TensorId w = b_.weight(name + ".weight", {h_, h_}, true);
    b_.weight(name + ".bias", {h_});
    TensorId y = b_.act(name + ".out", {kSeqs, picture_, h_});
    b_.op(OpKind::kContract, kPart, name, {x, w}, {y}).saved = {x};
    return y;
  }
  TensorId cross_attention(TensorId c, TensorId x) {
    TensorId text = stream("text", kText, kBf16);
    TensorId q = rms_norm("cross.q", project("cross.q", c, kTokens), kTokens, {c, x});
    TensorId k = rms_norm("cross.k", project("cross.k", text, kText), kText, {c, x, q});
    TensorId v = project("cross.v", text, kText);
    std::vector<TensorId> held = {c, x, q};
    TensorId qn = pass("cross.q.narrow", {q}, kBf16, held),
             kn = pass("cross.k.narrow", {k}, kBf16, held, kText);
    TensorId y = attend("cross.attend", qn, kn, v, kPairsWindow, held);
    if (s_.image_tokens > 0) {
      TensorId picture = b_.act("picture", {kSeqs, picture_, h_});
      TensorId pk = of_picture("cross.image.k", picture), pv = of_picture("cross.image.v", picture);
      b_.weight("cross.image.k.norm", {h_});
      TensorId pn = pass("cross.image.q.narrow", {q}, kBf16, held);
      held.push_back(y);
      y = pass("cross.add", {y, attend("cross.image.attend", pn, pk, pv, kScores, held)}, kFp32, held);
    }
    return merge("cross.o", reshaped(y));
  }
  TensorId feed_forward(TensorId m) {
    AxisId f = b_.axis("ffn", s_.ffn);
    TensorId u = linear("up", m, {h_}, {f}, kTokens);
    TensorId g = b_.map(kPart, "gelu", {u}, {kTokens, f}, 8);
    b_.last().held = {m};
    return linear("down", g, {f}, {h_}, kTokens);
  }

  GraphBuilder& b_;
  const DiffusionSpec& s_;
  AxisId h_, picture_, heads_, dim_;
  std::vector<TensorId> modulation_;  // of each token: six vectors, and what they were made of
};

}  // namespace

void build_wan_layers(GraphBuilder& builder, const DiffusionSpec& spec, AxisId hidden, AxisId picture) {
  WanLayer(builder, spec, hidden, picture).build();
}

}  // namespace orrery::graph
