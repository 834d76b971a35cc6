// What autoencoders' decoders are made of: convolutions, norms, residual blocks, each as the kernels that PyTorch runs.
//
// A Feature is a tensor at some resolution. Where its channels lie (first, or last as a norm over channels leaves it)
// decides which copies a convolution needs. The shares below are those of PyTorch's kernels in
// calib/raw/h200-companions-2026-11-21.jsonl (named by id), channels first. The networks themselves are in
// autoencoder.cc (images) and autoencoder_video.cc.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace orrery::graph {

inline constexpr Part kDecoderPart = Part::kDecoder;
// Implicit products of cuDNN against plain ones: conv2d.320, .160, conv3d.160, .320, .640 reach 0.42 to 0.66.
inline constexpr double kConvolution = 0.52;
inline constexpr double kNarrowChannels =
    128;  // below so many channels in proportion (conv2d.64, conv3d.64: 0.2 to 0.33)
inline constexpr double kChannelNorm = 0.265;  // normalize.256, .512: against one read and one write
inline constexpr double kUpsample = 0.25;      // upsample.256, .512
inline constexpr double kDepthwise = 0.10;     // depthwise.256, .512: 3 x 3; wider windows in proportion

class DecoderBuilder {
 public:
  DecoderBuilder(std::string name, DType dtype) : b_(std::move(name)), dtype_(dtype) {}

  // A tensor at some resolution: its channels, and points for each latent position.
  struct Feature {
    TensorId id;
    int channels;
    double points, frames;
    bool last = false;  // channels last in memory: as a norm over channels leaves it
  };

  Graph kl();
  Graph dc();
  Graph wan();
  Graph wan22();
  Graph ltx(bool wide, bool timed);

 private:
  AxisId channels(int n) { return b_.axis("channels." + std::to_string(n), n); }
  AxisId points(double n) {
    AxisId id = b_.axis(fmt::format("points.{:g}", n), n);
    b_.graph().axes[id].points = true;
    return id;
  }
  Feature feature(std::string_view name, int c, double p, double frames, DType dtype) {
    TensorId id = b_.tensor(name, {kTokens, points(p), channels(c)}, TensorClass::kActivation, dtype);
    return {id, c, p, frames};
  }
  Feature feature(std::string_view name, int c, double p, double frames) {
    return feature(name, c, p, frames, dtype_);
  }
  Feature like(std::string_view name, const Feature& x) {
    return feature(name, x.channels, x.points, x.frames);
  }

  Feature map(std::string_view name, const Feature& x, double reach = 1, double ops = 1) {
    Feature y = like(name, x);
    Op& op = b_.op(OpKind::kMap, kDecoderPart, name, {x.id}, {y.id});
    op.ops_per_element = ops, op.reach = reach;
    y.last = x.last;
    return y;
  }
  // The sum lies as its first operand does. Where the second has its channels elsewhere, neighbouring threads
  // read it from different sectors of 32 bytes, one for each element.
  Feature add(const Feature& x, const Feature& y) {
    Feature z = like("residual", x);
    z.last = x.last;
    Op& op = b_.op(OpKind::kMap, kDecoderPart, "residual", {x.id, y.id}, {z.id});
    op.ops_per_element = 1;
    if (x.last != y.last) op.reach = 3 * dtype_.bytes() / (2 * dtype_.bytes() + 32);
    return z;
  }
  TensorId matrix(std::string_view name, int in, int window, int out, bool bias) {
    std::vector<AxisId> axes = {channels(in)};
    if (window > 1) axes.push_back(b_.axis("window." + std::to_string(window), window));
    axes.push_back(channels(out));
    TensorId w = b_.tensor(std::string(name) + ".weight", axes, TensorClass::kWeight, dtype_);
    b_.at(w).linear = true;
    if (bias) b_.tensor(std::string(name) + ".bias", {channels(out)}, TensorClass::kWeight, dtype_);
    return w;
  }
  // A convolution. Windows wider than a point need channels last: tensors that are not are copied before and
  // after, and the caller's tensor, its copy, the product and the result are in memory together (the copies
  // are cuDNN's workspace).
  Feature convolution(std::string_view name, const Feature& x, int out, int window, bool bias = true) {
    return convolution(name, x, x, out, window, bias);
  }
  // The same where the tensor that it takes is made of x and more.
  Feature convolution(std::string_view name, const Feature& x, const Feature& made, int out, int window,
                      bool bias) {
    TensorId w = matrix(name, x.channels, window, out, bias);
    bool copied = window > 1 && !made.last;
    Feature taken = copied ? map("layout.in", made) : made;
    Feature y = feature(name, out, x.points, x.frames);
    std::size_t product = b_.graph().ops.size();
    Op& op = b_.op(OpKind::kContract, kDecoderPart, name, {taken.id, w}, {y.id});
    if (window == 1) return y;
    op.reach = kConvolution * std::min(1.0, std::min(x.channels, out) / kNarrowChannels);
    if (copied) y = map("layout.out", y);
    y.last = made.last;
    b_.graph().ops[product].held = {x.id, made.id, y.id};
    return y;
  }
  // The same over time as well: two earlier frames are joined in front, from a cache where frames come one
  // after another.
  Feature causal(std::string_view name, const Feature& x, int out, int window) {
    if (window % 3 != 0) return convolution(name, x, out, window);
    double past = x.points * 2 / x.frames;
    Feature joined = feature("frames.joined", x.channels, x.points + past, x.frames);
    std::vector<TensorId> in = {x.id}, result = {joined.id};
    if (caches_) {
      TensorId cache = b_.tensor("frames.cached", {kTokens, points(past), channels(x.channels)},
                                 TensorClass::kState, dtype_);
      in.push_back(cache), result.push_back(cache);
    }
    joined.last = x.last;
    b_.op(OpKind::kMove, kDecoderPart, "frames.join", in, result);
    return convolution(name, x, joined, out, window, true);
  }
  Feature depthwise(std::string_view name, const Feature& x, int window, bool bias) {
    AxisId c = channels(x.channels), n = b_.axis("window." + std::to_string(window), window);
    b_.tensor(std::string(name) + ".weight", {c, n}, TensorClass::kWeight, dtype_);
    if (bias) b_.tensor(std::string(name) + ".bias", {c}, TensorClass::kWeight, dtype_);
    return map(name, x, kDepthwise * 9 / window, 2.0 * window);
  }
  Feature group_norm(const Feature& x) {
    vector("norm.weight", x.channels), vector("norm.bias", x.channels);
    Feature y = like("norm", x);
    Op& op = b_.op(OpKind::kReduce, kDecoderPart, "norm", {x.id}, {y.id});
    op.lanes = 32, op.ops_per_element = 8;
    return y;
  }
  // Root mean square over channels, written with the framework's normalize: three maps follow it.
  Feature channel_norm(const Feature& x, bool weight) {
    if (weight) vector("norm.gamma", x.channels);
    Feature y = like("norm", x);
    Op& op = b_.op(OpKind::kReduce, kDecoderPart, "norm", {x.id}, {y.id});
    op.reach = kChannelNorm, op.ops_per_element = 4;
    return weight ? map("norm.gamma", map("norm.scale", y)) : y;
  }
  // The same over channels that lie last; a tensor whose channels do not is copied first.
  Feature moved_norm(const Feature& x, bool bias) {
    vector("norm.weight", x.channels);
    if (bias) vector("norm.bias", x.channels);
    return moved(x);
  }
  Feature moved(const Feature& x) {
    Feature y = x.last ? x : map("layout.norm", x), z = like("norm", x);
    b_.op(OpKind::kReduce, kDecoderPart, "norm", {y.id}, {z.id}).ops_per_element = 4;
    z.last = true;
    return z;
  }
  void vector(std::string_view name, int n) { b_.tensor(name, {channels(n)}, TensorClass::kWeight, dtype_); }
  Feature upsample(const Feature& x, DType dtype) {
    Feature y = feature("upsample", x.channels, x.points * 4, x.frames, dtype);
    b_.op(OpKind::kMove, kDecoderPart, "upsample", {x.id}, {y.id}).reach = kUpsample;
    return y;
  }
  // Attention of one head over the points of each frame.
  Feature attention(const Feature& x, const Feature& normed) {
    Feature qkv = convolution("qkv", normed, 3 * x.channels, 1);
    Feature y = like("attended", x);
    Op& op = b_.op(OpKind::kAttend, Part::kAttention, "attend", {qkv.id}, {y.id});
    op.pairs = kPairs, op.head_axis = b_.axis("one", 1);
    op.head_qk = op.head_v = x.channels;
    op.score_bytes = 8;  // heads wider than 256 have no streaming kernel: scores are stored
    TensorId scores = b_.tensor("scores", {kScores}, TensorClass::kActivation, dtype_);
    b_.graph().ops.back().held = {scores,
                                  b_.tensor("probabilities", {kScores}, TensorClass::kActivation, dtype_)};
    return add(x, convolution("o", y, x.channels, 1));
  }

  Feature kl_block(Feature x, int out) {
    Feature h = convolution("conv1", map("silu", group_norm(x)), out, 9);
    h = convolution("conv2", map("silu", group_norm(h)), out, 9);
    return add(x.channels == out ? x : convolution("shortcut", x, out, 1), h);
  }
  Feature wan_block(Feature x, int out) {
    Feature h = causal("conv1", map("silu", channel_norm(x, true)), out, 27);
    h = causal("conv2", map("silu", channel_norm(h, true)), out, 27);
    return add(x.channels == out ? x : convolution("shortcut", x, out, 1), h);
  }
  // Doubles width and height, and time where `time`; the convolution behind it makes `out` channels.
  Feature wan_up(Feature x, bool time, int out);
  Feature wan_shortcut(const Feature& x, const Feature& like);
  Feature dc_block(const Feature& x) {
    Feature h =
        convolution("conv2", map("silu", convolution("conv1", x, x.channels, 9)), x.channels, 9, false);
    return add(x, moved_norm(h, true));
  }
  Feature dc_vit(const Feature& x);
  // A norm, where the decoder is told the noise level scaled and shifted by what an embedding of it says.
  Feature ltx_norm(const Feature& x) {
    Feature y = moved(x);
    return timed_ ? map("norm.shift", map("norm.scale", y)) : y;
  }
  Feature ltx_block(const Feature& x) {
    if (timed_) b_.tensor("modulation", {b_.axis("four", 4), channels(x.channels)}, TensorClass::kWeight, dtype_);
    Feature h = causal("conv1", map("silu", ltx_norm(x)), x.channels, 27);
    return add(x, causal("conv2", map("silu", ltx_norm(h)), x.channels, 27));
  }
  // The embedding of the noise level for `vectors` of so many channels: two layers, 256 values in.
  void ltx_time(int channel_count, int vectors) {
    if (!timed_) return;
    AxisId in = b_.axis("time.values", 256), out = b_.axis(fmt::format("time.{}", vectors * channel_count), vectors * channel_count),
           same = b_.axis(fmt::format("time.{}.out", vectors * channel_count), vectors * channel_count);
    TensorId t = b_.linear(kDecoderPart, "time.in", b_.act("time", {kSeqs, in}), {in}, {out}, true, kNoAxis, kSeqs);
    b_.linear(kDecoderPart, "time.out", t, {out}, {same}, true, kNoAxis, kSeqs);
  }
  Feature ltx_up(const Feature& x, int narrower);

  void decoder() { b_.begin("decoder", 1, true); }
  // Weights that stay in memory while only the decoder runs.
  void idle(std::string_view name, double parameters) {
    b_.begin(name, 1, false);
    b_.tensor(std::string(name) + ".weights", {b_.axis(std::string(name) + ".parameters", parameters)},
              TensorClass::kWeight, dtype_);
    b_.end();
  }
  Graph finish() {
    b_.end();
    return b_.finish();
  }

  GraphBuilder b_;
  DType dtype_;
  bool caches_ = false;  // frames come one after another
  bool timed_ = false;   // the decoder is told the noise level (LTX)
};

}  // namespace orrery::graph
