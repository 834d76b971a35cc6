// Denoisers with two streams, text and image, that attend to one another: FLUX (then one joint stream) and SD3. Sources
// of shapes: the models' own code as named in zoo.json; of SD3 diffusers' SD3Transformer2DModel and
// JointTransformerBlock (the second attention and the text's last layer).
#include "graph/denoiser_builder.h"

namespace orrery::graph {
namespace {

class StreamBuilder : DenoiserParts {
 public:
  explicit StreamBuilder(const DiffusionSpec& spec) : DenoiserParts(spec) {}
  Graph build() {
    s_.family == "flux" ? flux() : sd3();
    return finish();
  }

 private:
  // One stream of a two-stream block: its modulation and norm, then its queries, keys and values.
  struct Stream {
    std::string name;
    AxisId rows;
    TensorId x = 0, normed = 0, q = 0, k = 0, v = 0;
  };
  void stream_norm(Stream& s, double parts, std::string_view axis) {
    dense((s.name + "modulation").c_str(), stream("time", kSeqs, kBf16), {h_}, {size(std::string(axis).c_str(), parts * s_.hidden)}, kSeqs);
    s.x = stream((s.name + "x").c_str(), s.rows, kBf16);
    s.normed = steps_.modulated(s.name + "norm", s.x, s.rows);
  }
  void normed_heads(const std::string& name, TensorId& q, TensorId& k) {
    if (!s_.qk_norm) return;
    AxisId dim = size("head_dim", s_.head_dim);
    b_.weight(name + "q.norm", {dim}), b_.weight(name + "k.norm", {dim});
    q = steps_.head_norm(name + "q.normed", q), k = steps_.head_norm(name + "k.normed", k);
  }
  void stream_qkv(Stream& s) {
    s.q = project((s.name + "q").c_str(), s.normed, s.rows), s.k = project((s.name + "k").c_str(), s.normed, s.rows);
    s.v = project((s.name + "v").c_str(), s.normed, s.rows);
    normed_heads(s.name, s.q, s.k);
  }
  // `x` is the stream with what attention added to it.
  void stream_feed(const Stream& s, TensorId o, TensorId x) {
    TensorId m = steps_.modulated(s.name + "norm.mlp", x, s.rows);
    steps_.gated(s.name + "residual.mlp", x, feed_forward(s.name.c_str(), m, s.rows), s.rows);
    steps_.hold({s.x, o, m});
  }
  // Layers of both streams: in `dual` ones the image also attends to itself alone (SD3.5 medium); behind the `last` one
  // nothing takes the text (SD3), which is therefore only read.
  void double_blocks(const char* name, int layers, bool dual, bool last) {
    if (layers <= 0) return;
    b_.begin(name, layers, true);
    Stream image{"image.", kTokens}, text{"text.", kText};
    stream_norm(image, dual ? 9 : 6, dual ? "modulation.9" : "modulation.6");
    stream_norm(text, last ? 2 : 6, last ? "modulation.2" : "modulation.6");
    stream_qkv(image), stream_qkv(text);
    std::vector<AxisId> axes = {kJoint, size("heads", s_.heads), size("head_dim", s_.head_dim)};
    TensorId q = steps_.joined("q", {text.q, image.q}, axes), k = steps_.joined("k", {text.k, image.k}, axes),
             v = steps_.joined("v", {text.v, image.v}, axes);
    TensorId y = joint_attention(q, k, v);
    steps_.hold({image.normed, text.normed, image.q, image.k, image.v});
    TensorId of_image = b_.act("image.attended", {kTokens, axes[1], axes[2]}),
             of_text = b_.act("text.attended", {kText, axes[1], axes[2]});
    of_image = merge("image.o", of_image, kTokens);
    if (!last) of_text = merge("text.o", of_text, kText);
    steps_.hold({y});
    TensorId x = steps_.gated("image.residual", image.x, of_image, kTokens);
    if (dual) x = second_attention(image, x);
    stream_feed(image, of_image, x);
    if (!last) stream_feed(text, of_text, steps_.gated("text.residual", text.x, of_text, kText));
    b_.end();
  }
  // Its norm is the first attention's, scaled and shifted anew.
  TensorId second_attention(const Stream& image, TensorId x) {
    TensorId a = steps_.rescaled("image.norm.2", image.x, kTokens);
    TensorId q = project("image.2.q", a, kTokens), k = project("image.2.k", a, kTokens), v = project("image.2.v", a, kTokens);
    normed_heads("image.2.", q, k);
    TensorId y = merge("image.2.o", heads_out(q, k, v, kTokens, kScores, "image.2.attend"), kTokens);
    return steps_.gated("image.2.residual", x, y, kTokens);
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
    double_blocks("double", s_.layers, false, false);
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
    TensorId g = s_.compiled ? u : b_.map(kDenoiserPart, "gelu", {u}, {kJoint, ffn}, 8);
    TensorId q = steps_.head_norm("q.normed", project("q", a, kJoint)), k = steps_.head_norm("k.normed", project("k", a, kJoint));
    TensorId y = joint_attention(q, k, project("v", a, kJoint));
    TensorId c = s_.compiled ? b_.map(kDenoiserPart, "gelu", {u, y}, {kJoint, both}, 8) : steps_.joined("joined", {y, g}, {kJoint, both});
    TensorId o = dense("out", c, {both}, {h_}, kJoint);
    steps_.gated("residual", x, o, kJoint);
    steps_.hold({given, a, y, g, c});
  }
  void sd3() {
    double in = s_.in_channels * s_.patch * s_.patch;
    embed(in, s_.text_dim);
    vector_in();
    b_.end();
    double_blocks("dual", s_.dual_layers, true, false);
    double_blocks("double", s_.layers - s_.dual_layers - 1, false, false);
    double_blocks("last", 1, false, true);
    head(in, true);
  }
};

}  // namespace

Graph build_streams(const DiffusionSpec& spec) { return StreamBuilder(spec).build(); }

}  // namespace orrery::graph
