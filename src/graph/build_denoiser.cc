// From the facts of a diffusion model to the graph of one denoiser forward pass.
//
// Families: dit and pixart (self-attention over the latent, cross-attention to text), wan and ltx (the same
// over space and time), flux and sd3 (build_streams.cc), sana (linear attention), unet (not itemised: published
// parameters and operations). Sources of shapes: the models' own code as named in zoo.json.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/build_wan.h"
#include "graph/denoiser_builder.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

constexpr Part kPart = Part::kDense;

class DenoiserBuilder : DenoiserParts {
 public:
  explicit DenoiserBuilder(const DiffusionSpec& spec) : DenoiserParts(spec) {}

  Graph build() {
    if (s_.family == "wan" || s_.family == "ltx" || s_.family == "pixart" || s_.family == "sana")
      crossed();
    else if (s_.family == "dit")
      dit();
    else if (s_.family == "unet")
      unet();
    else
      base::fail("{}: unknown denoiser family '{}'", s_.name, s_.family);
    return finish();
  }

 private:
  TensorId self_attention(TensorId a, bool norms_all) {
    TensorId q = project("q", a, kTokens), k = project("k", a, kTokens), v = project("v", a, kTokens);
    if (norms_all) b_.weight("q.norm", {h_}), b_.weight("k.norm", {h_});
    if (s_.family == "sana") return linear_attention(q, k, v);
    if (norms_all) q = steps_.head_norm("q.normed", q), k = steps_.head_norm("k.normed", k);
    if (table_.cosine != DenoiserSteps::kNone) q = steps_.rotated("q.rotated", q, table_), k = steps_.rotated("k.rotated", k, table_);
    TensorId y = merge("o", heads_out(q, k, v, kTokens, kPairs, "attend"), kTokens);
    steps_.hold({a, q, k, v});
    return y;
  }
  // Keys and values meet first (dimension x dimension per head), then queries: linear in tokens.
  TensorId linear_attention(TensorId q, TensorId k, TensorId v) {
    AxisId heads = size("heads", s_.heads), dim = size("head_dim", s_.head_dim);
    TensorId y = b_.act("attend.out", {kTokens, heads, dim});
    Op& op = b_.op(OpKind::kScan, Part::kAttention, "attend.linear", {q, k, v}, {y});
    op.ops_per_element = 4.0 * s_.head_dim;
    return merge("o", y, kTokens);
  }
  // A linear layer on every token of the picture that conditions the result.
  TensorId of_picture(const char* name, TensorId x, AxisId in, AxisId out) {
    TensorId w = b_.weight(std::string(name) + ".weight", {in, out}, true);
    b_.weight(std::string(name) + ".bias", {out});
    TensorId y = b_.act(std::string(name) + ".out", {kSeqs, picture_, out});
    b_.op(OpKind::kContract, kPart, name, {x, w}, {y}).saved = {x};
    return y;
  }
  void picture_in() {
    AxisId d = size("picture.values", s_.image_dim), h = size("picture.hidden", s_.image_dim);
    picture_ = size("picture.tokens", s_.image_tokens);
    b_.graph().axes[picture_].points = true;
    b_.weight("picture.norm.in", {size("two", 2), d}), b_.weight("picture.norm.out", {size("two", 2), h_});
    TensorId x = of_picture("picture.in", b_.act("picture.features", {kSeqs, picture_, d}), d, h);
    of_picture("picture.out", x, h, h_);
  }
  TensorId cross_attention(TensorId a, bool norms_all) {
    TensorId text = stream("text", kText, kBf16);
    TensorId q = project("cross.q", a, kTokens), k = project("cross.k", text, kText),
             v = project("cross.v", text, kText);
    if (norms_all) {
      b_.weight("cross.q.norm", {h_}), b_.weight("cross.k.norm", {h_});
      q = steps_.head_norm("cross.q.normed", q), k = steps_.head_norm("cross.k.normed", k);
    }
    TensorId y = merge("cross.o", heads_out(q, k, v, kTokens, kPairsWindow, "cross.attend"), kTokens);
    steps_.hold({a, q});
    return y;
  }
  void crossed() {
    bool wan = s_.family == "wan", ltx = s_.family == "ltx", sana = s_.family == "sana",
         pixart = s_.family == "pixart";
    double in = s_.in_channels * s_.patch * s_.patch;
    embed(in, s_.text_dim);
    if (!s_.timed_tokens)
      dense("time.modulation", stream("time", kSeqs, kBf16), {h_}, {size("modulation.6", 6.0 * s_.hidden)}, kSeqs);
    if (pixart) sizes();
    if (s_.image_tokens > 0) picture_in();
    b_.end();
    if (wan)
      build_wan_layers(b_, s_, h_, picture_);
    else
      crossed_layers(ltx, sana);
    double out = s_.out_channels > 0 ? s_.out_channels * s_.patch * s_.patch : in;
    head((pixart ? 2 : 1) * out, false);
  }
  void crossed_layers(bool norms, bool convolutions) {
    b_.begin("layer", s_.layers, true);
    b_.weight("modulation", {size("six", 6), h_});
    bool ltx = s_.family == "ltx", rotates = ltx && !s_.compiled;
    // Cosines and sines of every element in 32 bits, made once and kept through all layers (LTX).
    if (rotates) table_ = {b_.tensor("rotary cosines", {kTokens, h_}, TensorClass::kActivation, kFp32),
                           b_.tensor("rotary sines", {kTokens, h_}, TensorClass::kActivation, kFp32)};
    TensorId given = stream("x", kTokens, kBf16);
    TensorId y = self_attention(steps_.modulated("norm.self", given, kTokens, ltx), norms);
    TensorId x = steps_.gated("residual.self", given, y, kTokens);
    TensorId c = cross_attention(x, norms);
    x = map("residual.cross", {x, c}, kTokens, kBf16, 1);
    TensorId m = steps_.modulated("norm.mlp", x, kTokens, ltx);
    TensorId z = convolutions ? glu_convolution(m) : feed_forward("", m, kTokens);
    steps_.gated("residual.mlp", x, z, kTokens);
    steps_.hold({given, c, m});
    if (rotates) steps_.hold({table_.cosine, table_.sine});
    b_.end();
  }
  // Image size and aspect ratio embeddings of the 1024 model.
  void sizes() {
    AxisId third = size("third", s_.hidden / 3), time = size("time.values", 256);
    for (const char* name : {"size", "aspect"}) {
      std::string n(name);
      TensorId t = dense((n + ".in").c_str(), b_.act(n, {kSeqs, time}), {time}, {third}, kSeqs);
      AxisId same = size("third.out", s_.hidden / 3);
      dense((n + ".out").c_str(), t, {third}, {same}, kSeqs);
    }
  }
  TensorId glu_convolution(TensorId m) {
    AxisId two = size("ffn.two", 2.0 * s_.ffn), f = size("ffn", s_.ffn);
    TensorId u = dense("inverted", m, {h_}, {two});
    b_.weight("depthwise.weight", {two, size("nine", 9)}), b_.weight("depthwise.bias", {two});
    TensorId d = b_.map(kPart, "depthwise", {u}, {kTokens, two}, 18);
    TensorId g = b_.map(kPart, "gate", {d}, {kTokens, f}, 5);
    return b_.linear(kPart, "pointwise", g, {f}, {h_});
  }

  void dit() {
    double in = s_.in_channels * s_.patch * s_.patch;
    embed(in, 0);
    b_.weight("labels", {size("classes", s_.classes + 1), h_});
    b_.weight("positions", {size("positions", 256), h_});
    b_.end();
    b_.begin("layer", s_.layers, true);
    dense("modulation", stream("time", kSeqs, kBf16), {h_}, {size("modulation.6", 6.0 * s_.hidden)}, kSeqs);
    TensorId x = stream("x", kTokens, kBf16);
    TensorId y = self_attention(steps_.modulated("norm.self", x, kTokens), false);
    x = steps_.gated("residual.self", x, y, kTokens);
    TensorId z = feed_forward("", steps_.modulated("norm.mlp", x, kTokens), kTokens);
    steps_.gated("residual.mlp", x, z, kTokens);
    b_.end();
    head(2 * in, true);
  }

  void unet() {
    b_.begin("unet", 1, true);
    AxisId all = size("weights", s_.published_params);
    TensorId w = b_.weight("weights", {all});
    b_.at(w).linear = true;
    // 16,384 latent elements at 1024 x 1024; attention's share grows faster than this and is not itemised.
    AxisId values = size("values", 320);
    TensorId x = b_.act("latent", {kTokens, values}), y = b_.act("out", {kTokens, values});
    Op& op = b_.op(OpKind::kKernel, kPart, "unet", {x, w}, {y});
    op.ops_per_element = s_.published_flops / 16384 / 320;
    op.reach = 0.52;  // mostly convolutions: conv2d.* of calib/raw/h200-companions-2026-11-21.jsonl
    b_.end();
  }

  AxisId picture_ = kNoAxis;
  DenoiserSteps::Rotary table_;  // of rotary positions
};

void divides(int value, int by, const char* what, const std::string& name) {
  if (value <= 0 || value % by)
    base::fail("{}: {} {} is no multiple of {}: {} is one", name, what, value, by, (std::max(value, 1) + by - 1) / by * by);
}

}  // namespace

double latent_tokens(const DiffusionSpec& s, const RenderShape& shape) {
  int step = s.space_stride * s.patch;
  divides(shape.width, step, "width", s.name);
  divides(shape.height, step, "height", s.name);
  if (shape.frames < 1) base::fail("{}: frames must be at least 1", s.name);
  if (shape.frames > 1 && !s.video) base::fail("{} makes single images, not {} frames", s.name, shape.frames);
  if (s.video && (shape.frames - 1) % s.time_stride)
    base::fail("{}: {} frames: it makes one more than a multiple of {}, such as {}", s.name, shape.frames, s.time_stride,
               (shape.frames - 1) / s.time_stride * s.time_stride + 1);
  double grid = static_cast<double>(shape.width / step) * (shape.height / step);
  return grid * ((shape.frames - 1) / s.time_stride + 1);
}

Graph build_denoiser(const DiffusionSpec& spec, const RenderShape& shape) {
  if (spec.compiled && (spec.family == "wan" || spec.family == "unet"))
    base::fail("{}: its layers are {}", spec.name,
               spec.family == "wan" ? "known as its own pipeline runs them, without a compiler" : "not known one by one: nothing to compile");
  if (spec.family == "flux" || spec.family == "sd3") return build_streams(spec);
  return DenoiserBuilder(spec).build();
}

DenoiserFlops denoiser_flops(const DiffusionSpec& spec, const RenderShape& shape) {
  Graph graph = build_denoiser(spec, shape);
  Program program = compile(graph, Plan{});
  Ledger ledger;
  walk(program, denoiser_binding(spec, shape, 1), ledger);
  DenoiserFlops flops;
  for (const Line& line : ledger.lines) {
    const ProgramOp& op = program.ops[line.op];
    if (op.kind == OpKind::kContract || op.kind == OpKind::kKernel) flops.linear += line.ops * line.times;
    if (op.kind == OpKind::kAttend) flops.attention += line.ops * line.times;
  }
  return flops;
}

Binding denoiser_binding(const DiffusionSpec& spec, const RenderShape& shape, double batch) {
  Binding b;
  double n = latent_tokens(spec, shape);
  double text = shape.text_tokens > 0 ? shape.text_tokens : spec.text_tokens;
  bool joint = spec.family == "flux" || spec.family == "sd3";
  double seen = joint ? n + text : n;
  b[kTokens] = batch * n;
  b[kText] = batch * text;
  b[kJoint] = batch * (n + text);
  b[kSeqs] = batch;
  b[kPairs] = batch * seen * seen;
  b[kPairsWindow] = batch * n * text;           // cross-attention
  b[kScores] = batch * n * (spec.dual_layers > 0 ? n : spec.image_tokens);  // of an image to itself alone, or to a picture
  return b;
}

}  // namespace orrery::graph
