// From the facts of a diffusion model to the graph of one denoiser forward pass.
//
// Families: dit and pixart (self-attention over the latent, cross-attention to text), wan and ltx (the same
// over space and time), flux and sd3 (text and image as two streams with joint attention; flux then one joint
// stream), sana (linear attention), unet (not itemised: published parameters and operations). Sources of
// shapes: the models' own code as named in zoo.json.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/build_wan.h"
#include "graph/denoiser_steps.h"
#include "graph/spec.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

constexpr Part kPart = Part::kDense;

class DenoiserBuilder {
 public:
  explicit DenoiserBuilder(const DiffusionSpec& spec)
      : s_(spec), b_(spec.name), h_(b_.axis("hidden", spec.hidden > 0 ? spec.hidden : 1)), steps_(b_, h_, spec.compiled) {
    wide_ = spec.family == "wan" ? kFp32 : kBf16;
  }

  Graph build() {
    if (s_.compiled && (s_.family == "wan" || s_.family == "unet"))
      base::fail("{}: its layers are {}", s_.name,
                 s_.family == "wan" ? "known as its own pipeline runs them, without a compiler" : "not known one by one: nothing to compile");
    if (s_.family == "flux")
      flux();
    else if (s_.family == "sd3")
      sd3();
    else if (s_.family == "wan" || s_.family == "ltx" || s_.family == "pixart" || s_.family == "sana")
      crossed();
    else if (s_.family == "dit")
      dit();
    else if (s_.family == "unet")
      unet();
    else
      base::fail("{}: unknown denoiser family '{}'", s_.name, s_.family);
    Graph g = b_.finish();
    for (Tensor& t : g.tensors)
      if (t.cls == TensorClass::kWeight && s_.stored_bits == 32) t.dtype = kFp32;
    return g;
  }

 private:
  AxisId size(const char* name, double extent) { return b_.axis(name, extent); }
  // A linear layer with bias, on its own rows.
  TensorId dense(const char* name, TensorId x, std::vector<AxisId> in, std::vector<AxisId> out,
                 AxisId rows = kTokens) {
    TensorId y = b_.linear(kPart, name, x, std::move(in), std::move(out), true, kNoAxis, rows);
    b_.last().saved = {x};
    return y;
  }
  TensorId stream(const char* name, AxisId rows, DType dtype) {
    return b_.tensor(name, {rows, h_}, TensorClass::kActivation, dtype);
  }
  TensorId map(const char* name, std::vector<TensorId> in, AxisId rows, DType dtype, double ops = 4) {
    TensorId y = b_.map(kPart, name, std::move(in), {rows, h_}, ops);
    if (std::string_view(name).find("norm") != std::string_view::npos) b_.last().kind = OpKind::kReduce;
    b_.at(y).dtype = dtype;
    return y;
  }

  void embed(double in_values, double text_dim) {
    b_.begin("embed", 1, false);
    AxisId patch = size("patch.values", in_values);
    dense("patch", b_.act("latent", {kTokens, patch}), {patch}, {h_});
    AxisId time = size("time.values", 256);
    TensorId t = dense("time.in", b_.act("time", {kSeqs, time}), {time}, {h_}, kSeqs);
    dense("time.out", t, {h_}, {h_}, kSeqs);
    if (text_dim > 0) text_in(text_dim, s_.family != "flux" && s_.family != "sd3");
  }
  void text_in(double text_dim, bool two) {
    AxisId dim = size("text.values", text_dim);
    TensorId t = dense("text.in", b_.act("text", {kText, dim}), {dim}, {h_}, kText);
    if (two) dense("text.out", t, {h_}, {h_}, kText);
  }
  void head(double out_values, bool modulated) {
    b_.begin("head", 1, false);
    TensorId x = stream("head.in", kTokens, wide_);
    if (modulated)
      dense("head.modulation", stream("time", kSeqs, kBf16), {h_}, {size("modulation.2", 2.0 * s_.hidden)},
            kSeqs);
    else
      b_.weight("head.modulation", {size("two", 2), h_});
    x = map("head.norm", {x}, kTokens, kBf16);
    dense("head", x, {h_}, {size("patch.out", out_values)});
    b_.end();
  }

  TensorId heads_out(TensorId q, TensorId k, TensorId v, AxisId rows, AxisId pairs, const char* name) {
    AxisId heads = size("heads", s_.heads), dim = size("head_dim", s_.head_dim);
    TensorId y = b_.act(std::string(name) + ".out", {rows, heads, dim});
    Op& op = b_.op(OpKind::kAttend, Part::kAttention, name, {q, k, v}, {y});
    op.pairs = pairs;
    op.head_axis = heads;
    op.head_qk = op.head_v = s_.head_dim;
    op.saved = {q, k, v};
    return y;
  }
  TensorId project(const char* name, TensorId x, AxisId rows) {
    AxisId heads = size("heads", s_.heads), dim = size("head_dim", s_.head_dim);
    TensorId y = b_.linear(kPart, name, x, {h_}, {heads, dim}, s_.qkv_bias, kNoAxis, rows);
    b_.last().saved = {x};
    return y;
  }
  TensorId merge(const char* name, TensorId y, AxisId rows) {
    return dense(name, y, {size("heads", s_.heads), size("head_dim", s_.head_dim)}, {h_}, rows);
  }

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
  TensorId feed_forward(const char* prefix, TensorId m, AxisId rows) {
    AxisId f = size("ffn", s_.ffn);
    std::string p(prefix);
    TensorId u = dense((p + "up").c_str(), m, {h_}, {f}, rows);
    TensorId g = b_.map(kPart, p + "gelu", {u}, {rows, f}, 8);
    steps_.hold({m});  // the caller's argument
    return dense((p + "down").c_str(), g, {f}, {h_}, rows);
  }

  void crossed() {
    bool wan = s_.family == "wan", ltx = s_.family == "ltx", sana = s_.family == "sana",
         pixart = s_.family == "pixart";
    double in = s_.in_channels * s_.patch * s_.patch;
    embed(in, s_.text_dim);
    dense("time.modulation", stream("time", kSeqs, kBf16), {h_}, {size("modulation.6", 6.0 * s_.hidden)},
          kSeqs);
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

  // One stream of a two-stream block: its modulation and norm, then its queries, keys and values.
  struct Stream {
    std::string name;
    AxisId rows;
    TensorId x = 0, normed = 0, q = 0, k = 0, v = 0;
  };
  void stream_norm(Stream& s) {
    dense((s.name + "modulation").c_str(), stream("time", kSeqs, kBf16), {h_}, {size("modulation.6", 6.0 * s_.hidden)}, kSeqs);
    s.x = stream((s.name + "x").c_str(), s.rows, kBf16);
    s.normed = steps_.modulated(s.name + "norm", s.x, s.rows);
  }
  void stream_qkv(Stream& s) {
    AxisId dim = size("head_dim", s_.head_dim);
    b_.weight(s.name + "q.norm", {dim}), b_.weight(s.name + "k.norm", {dim});
    s.q = project((s.name + "q").c_str(), s.normed, s.rows), s.k = project((s.name + "k").c_str(), s.normed, s.rows);
    s.v = project((s.name + "v").c_str(), s.normed, s.rows);
    s.q = steps_.head_norm(s.name + "q.normed", s.q), s.k = steps_.head_norm(s.name + "k.normed", s.k);
  }
  void stream_rest(const Stream& s, TensorId o) {
    TensorId x = steps_.gated(s.name + "residual", s.x, o, s.rows);
    TensorId m = steps_.modulated(s.name + "norm.mlp", x, s.rows);
    steps_.gated(s.name + "residual.mlp", x, feed_forward(s.name.c_str(), m, s.rows), s.rows);
    steps_.hold({s.x, o, m});
  }
  void double_blocks() {
    b_.begin("double", s_.layers, true);
    Stream image{"image.", kTokens}, text{"text.", kText};
    stream_norm(image), stream_norm(text);
    stream_qkv(image), stream_qkv(text);
    std::vector<AxisId> axes = {kJoint, size("heads", s_.heads), size("head_dim", s_.head_dim)};
    TensorId q = steps_.joined("q", {text.q, image.q}, axes), k = steps_.joined("k", {text.k, image.k}, axes),
             v = steps_.joined("v", {text.v, image.v}, axes);
    TensorId y = joint_attention(q, k, v);
    steps_.hold({image.normed, text.normed, image.q, image.k, image.v});
    TensorId of_image = b_.act("image.attended", {kTokens, axes[1], axes[2]}),
             of_text = b_.act("text.attended", {kText, axes[1], axes[2]});
    of_image = merge("image.o", of_image, kTokens), of_text = merge("text.o", of_text, kText);
    steps_.hold({y});
    stream_rest(image, of_image), stream_rest(text, of_text);
    b_.end();
  }
  // FLUX rotates queries and keys.
  TensorId joint_attention(TensorId q, TensorId k, TensorId v) {
    if (s_.family == "flux")
      q = steps_.rotated("q.rotated", q, {}), k = steps_.rotated("k.rotated", k, {});
    return heads_out(q, k, v, kJoint, kPairs, "attend");
  }
  void vector_in() {
    AxisId dim = size("vector.values", s_.vec_dim);
    TensorId t = dense("vector.in", b_.act("vector", {kSeqs, dim}), {dim}, {h_}, kSeqs);
    dense("vector.out", t, {h_}, {h_}, kSeqs);
  }

  void flux() {
    embed(s_.in_channels, s_.text_dim);
    vector_in();
    if (s_.guidance_embed) {
      AxisId time = size("time.values", 256);
      TensorId t = dense("guidance.in", b_.act("guidance", {kSeqs, time}), {time}, {h_}, kSeqs);
      dense("guidance.out", t, {h_}, {h_}, kSeqs);
    }
    b_.end();
    double_blocks();
    b_.begin("single", s_.single_layers, true);
    single_block();
    b_.end();
    head(s_.in_channels, true);
  }
  void single_block() {
    dense("modulation", stream("time", kSeqs, kBf16), {h_}, {size("modulation.3", 3.0 * s_.hidden)}, kSeqs);
    TensorId given = stream("given", kJoint, kBf16), x = steps_.joined("x", {given}, {kJoint, h_});
    TensorId a = steps_.modulated("norm", x, kJoint);
    AxisId ffn = size("ffn", s_.ffn), both = size("attn.mlp", 1.0 * s_.hidden + s_.ffn), dim = size("head_dim", s_.head_dim);
    b_.weight("q.norm", {dim}), b_.weight("k.norm", {dim});
    TensorId u = dense("mlp", a, {h_}, {ffn}, kJoint);
    TensorId g = s_.compiled ? u : b_.map(kPart, "gelu", {u}, {kJoint, ffn}, 8);
    TensorId q = steps_.head_norm("q.normed", project("q", a, kJoint)), k = steps_.head_norm("k.normed", project("k", a, kJoint));
    TensorId y = joint_attention(q, k, project("v", a, kJoint));
    TensorId c = s_.compiled ? b_.map(kPart, "gelu", {u, y}, {kJoint, both}, 8) : steps_.joined("joined", {y, g}, {kJoint, both});
    TensorId o = dense("out", c, {both}, {h_}, kJoint);
    steps_.gated("residual", x, o, kJoint);
    steps_.hold({given, a, y, g, c});
  }
  void sd3() {
    double in = s_.in_channels * s_.patch * s_.patch;
    embed(in, s_.text_dim);
    vector_in();
    b_.end();
    double_blocks();
    head(in, true);
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

  const DiffusionSpec& s_;
  GraphBuilder b_;
  AxisId h_, picture_ = kNoAxis;
  DenoiserSteps steps_;
  DenoiserSteps::Rotary table_;  // of rotary positions
  DType wide_;
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
  b[kScores] = batch * n * spec.image_tokens;  // to a picture
  return b;
}

}  // namespace orrery::graph
