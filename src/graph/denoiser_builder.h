// What denoisers' layers are made of: linear layers with bias on rows of their own, attention, feed-forward parts, what
// comes in and what goes out. Layers of one stream are in build_denoiser.cc, of two in build_streams.cc, Wan's in
// build_wan.cc; element-wise steps in denoiser_steps.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/denoiser_steps.h"
#include "graph/spec.h"

namespace orrery::graph {

inline constexpr Part kDenoiserPart = Part::kDense;

class DenoiserParts {
 protected:
  explicit DenoiserParts(const DiffusionSpec& spec)
      : s_(spec), b_(spec.name), h_(b_.axis("hidden", spec.hidden > 0 ? spec.hidden : 1)), steps_(b_, h_, spec.compiled) {
    wide_ = spec.family == "wan" ? kFp32 : kBf16;
  }
  Graph finish() {
    Graph g = b_.finish();
    for (Tensor& t : g.tensors)
      if (t.cls == TensorClass::kWeight && s_.stored_bits == 32) t.dtype = kFp32;
    return g;
  }
  AxisId size(const char* name, double extent) { return b_.axis(name, extent); }
  // A linear layer with bias, on its own rows.
  TensorId dense(const char* name, TensorId x, std::vector<AxisId> in, std::vector<AxisId> out,
                 AxisId rows = kTokens) {
    TensorId y = b_.linear(kDenoiserPart, name, x, std::move(in), std::move(out), true, kNoAxis, rows);
    b_.last().saved = {x};
    return y;
  }
  TensorId stream(const char* name, AxisId rows, DType dtype) {
    return b_.tensor(name, {rows, h_}, TensorClass::kActivation, dtype);
  }
  TensorId map(const char* name, std::vector<TensorId> in, AxisId rows, DType dtype, double ops = 4) {
    TensorId y = b_.map(kDenoiserPart, name, std::move(in), {rows, h_}, ops);
    if (std::string_view(name).find("norm") != std::string_view::npos) b_.last().kind = OpKind::kReduce;
    b_.at(y).dtype = dtype;
    return y;
  }

  void embed(double in_values, double text_dim) {
    b_.begin("embed", 1, false);
    AxisId patch = size("patch.values", in_values);
    dense("patch", b_.act("latent", {kTokens, patch}), {patch}, {h_});
    AxisId time = size("time.values", 256);
    if (s_.timed_tokens) {
      token_times(time);
    } else {
      TensorId t = dense("time.in", b_.act("time", {kSeqs, time}), {time}, {h_}, kSeqs);
      dense("time.out", t, {h_}, {h_}, kSeqs);
    }
    if (text_dim > 0) text_in(text_dim, s_.family != "flux" && s_.family != "sd3");
  }
  // A noise level for every token: its embedding and modulation are products over all of them, in 32 bits.
  void token_times(AxisId time) {
    auto wide = [&](const char* name, TensorId x, AxisId in, AxisId out) {
      TensorId y = dense(name, x, {in}, {out}, kTokens);
      b_.at(y).dtype = kFp32;
      return y;
    };
    TensorId t = b_.tensor("time", {kTokens, time}, TensorClass::kActivation, kFp32);
    t = wide("time.out", wide("time.in", t, time, h_), h_, h_);
    wide("time.modulation", t, h_, size("modulation.6", 6.0 * s_.hidden));
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
    TensorId y = b_.linear(kDenoiserPart, name, x, {h_}, {heads, dim}, s_.qkv_bias, kNoAxis, rows);
    b_.last().saved = {x};
    return y;
  }
  TensorId merge(const char* name, TensorId y, AxisId rows) {
    return dense(name, y, {size("heads", s_.heads), size("head_dim", s_.head_dim)}, {h_}, rows);
  }

  TensorId feed_forward(const char* prefix, TensorId m, AxisId rows) {
    AxisId f = size("ffn", s_.ffn);
    std::string p(prefix);
    TensorId u = dense((p + "up").c_str(), m, {h_}, {f}, rows);
    TensorId g = b_.map(kDenoiserPart, p + "gelu", {u}, {rows, f}, 8);
    steps_.hold({m});  // the caller's argument
    return dense((p + "down").c_str(), g, {f}, {h_}, rows);
  }

  const DiffusionSpec& s_;
  GraphBuilder b_;
  AxisId h_;
  DenoiserSteps steps_;
  DType wide_;
};

// FLUX and SD3: text and image as two streams with joint attention.
Graph build_streams(const DiffusionSpec& spec);

}  // namespace orrery::graph
