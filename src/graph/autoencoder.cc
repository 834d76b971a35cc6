// Shapes: diffusers' AutoencoderKL (FLUX: 16 latent channels), AutoencoderDC (SANA, f32c32), AutoencoderKLWan
// (the same as Wan's own), AutoencoderKLLTXVideo; the counts of their parameters are tested. The shares below
// are those of PyTorch's kernels in calib/raw/h200-companions-2026-11-21.jsonl (named by id), channels first.
#include "graph/autoencoder.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace orrery::graph {
namespace {

constexpr Part kPart = Part::kDecoder;
// Implicit products of cuDNN against plain ones: conv2d.320, .160, conv3d.160, .320, .640 reach 0.42 to 0.66.
constexpr double kConvolution = 0.52;
constexpr double kNarrowChannels =
    128;  // below so many channels in proportion (conv2d.64, conv3d.64: 0.2 to 0.33)
constexpr double kChannelNorm = 0.265;  // normalize.256, .512: against one read and one write
constexpr double kUpsample = 0.25;      // upsample.256, .512
constexpr double kDepthwise = 0.10;     // depthwise.256, .512: 3 x 3; wider windows in proportion

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
    Op& op = b_.op(OpKind::kMap, kPart, name, {x.id}, {y.id});
    op.ops_per_element = ops, op.reach = reach;
    y.last = x.last;
    return y;
  }
  // The sum lies as its first operand does. Where the second has its channels elsewhere, neighbouring threads
  // read it from different sectors of 32 bytes, one for each element.
  Feature add(const Feature& x, const Feature& y) {
    Feature z = like("residual", x);
    z.last = x.last;
    Op& op = b_.op(OpKind::kMap, kPart, "residual", {x.id, y.id}, {z.id});
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
    Op& op = b_.op(OpKind::kContract, kPart, name, {taken.id, w}, {y.id});
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
    b_.op(OpKind::kMove, kPart, "frames.join", in, result);
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
    Op& op = b_.op(OpKind::kReduce, kPart, "norm", {x.id}, {y.id});
    op.lanes = 32, op.ops_per_element = 8;
    return y;
  }
  // Root mean square over channels, written with the framework's normalize: three maps follow it.
  Feature channel_norm(const Feature& x, bool weight) {
    if (weight) vector("norm.gamma", x.channels);
    Feature y = like("norm", x);
    Op& op = b_.op(OpKind::kReduce, kPart, "norm", {x.id}, {y.id});
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
    b_.op(OpKind::kReduce, kPart, "norm", {y.id}, {z.id}).ops_per_element = 4;
    z.last = true;
    return z;
  }
  void vector(std::string_view name, int n) { b_.tensor(name, {channels(n)}, TensorClass::kWeight, dtype_); }
  Feature upsample(const Feature& x, DType dtype) {
    Feature y = feature("upsample", x.channels, x.points * 4, x.frames, dtype);
    b_.op(OpKind::kMove, kPart, "upsample", {x.id}, {y.id}).reach = kUpsample;
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
  Feature wan_up(Feature x, bool time);
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
    TensorId t = b_.linear(kPart, "time.in", b_.act("time", {kSeqs, in}), {in}, {out}, true, kNoAxis, kSeqs);
    b_.linear(kPart, "time.out", t, {out}, {same}, true, kNoAxis, kSeqs);
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

Graph DecoderBuilder::kl() {
  idle("encoder", 83819683 - 49545475);  // AutoencoderKL of FLUX less its decoder
  decoder();
  Feature x = convolution("start", feature("latent", 16, 1, 1), 512, 9);
  x = kl_block(x, 512);
  x = attention(x, group_norm(x));
  x = kl_block(x, 512);
  for (int out : {512, 512, 256, 128}) {
    for (int i = 0; i < 3; ++i) x = kl_block(x, out);
    if (out != 128) x = convolution("up", upsample(x, dtype_), out, 9);
  }
  convolution("end", map("silu", group_norm(x)), 3, 9);
  return finish();
}

DecoderBuilder::Feature DecoderBuilder::wan_up(Feature x, bool time) {
  if (time) {
    Feature y = causal("time", x, 2 * x.channels, 3);
    Feature spread = feature("frames.spread", x.channels, x.points * 2, x.frames * 2);
    b_.op(OpKind::kMove, kPart, "frames.spread", {y.id}, {spread.id});
    x = spread;
  }
  int half = x.channels / 2;
  Feature wide = feature("widen", x.channels, x.points, x.frames, kFp32);
  b_.op(OpKind::kMap, kPart, "widen", {x.id}, {wide.id});
  Feature up = upsample(wide, kFp32);
  Feature narrow = feature("narrow", up.channels, up.points, up.frames);
  b_.op(OpKind::kMap, kPart, "narrow", {up.id}, {narrow.id});
  return convolution("up", narrow, half, 9);
}

Graph DecoderBuilder::wan() {
  caches_ = true;
  idle("encoder", 126892531 - 73295331);
  decoder();
  Feature x = causal("start", feature("latent", 16, 1, 1), 384, 27);
  x = wan_block(x, 384);
  x = attention(x, channel_norm(x, true));
  x = wan_block(x, 384);
  for (int i = 0; i < 4; ++i) {
    int out = i < 2 ? 384 : i == 2 ? 192 : 96;
    for (int j = 0; j < 3; ++j) x = wan_block(x, out);
    if (i < 3) x = wan_up(x, i < 2);
  }
  causal("end", map("silu", channel_norm(x, true)), 3, 27);
  return finish();
}

DecoderBuilder::Feature DecoderBuilder::dc_vit(const Feature& x) {
  int c = x.channels;
  Feature qkv = convolution("qkv", map("layout.qkv", x), 3 * c, 1, false);
  Feature scales = depthwise("scales.depthwise", qkv, 25, false);
  // Groups of 32 channels are mixed among themselves.
  b_.tensor("scales.mix.weight", {channels(3 * c), b_.axis("group", 32)}, TensorClass::kWeight, dtype_);
  scales = map("scales.mix", scales, kDepthwise, 64);
  Feature both = feature("scales.joined", 6 * c, x.points, x.frames);
  b_.op(OpKind::kMove, kPart, "scales.join", {qkv.id, scales.id}, {both.id});
  both = map("heads.apart", both);
  auto third = [&](const char* what, const Feature& from, DType dtype) {  // of queries, keys and values
    Feature part = feature(what, 2 * c, x.points, x.frames, dtype);
    b_.op(OpKind::kMap, kPart, what, {from.id}, {part.id}).ops_per_element = 1;
    return part;
  };
  Feature q = third("queries.relu", feature("queries", 2 * c, x.points, x.frames), dtype_);
  Feature k = third("keys.relu", feature("keys", 2 * c, x.points, x.frames), dtype_);
  Feature v = third("values.pad", feature("values", 2 * c, x.points, x.frames), dtype_);
  Feature wide = third("queries.widen", q, kFp32),
          sums = feature("attended", 2 * c, x.points, x.frames, kFp32);
  Op& op = b_.op(OpKind::kScan, Part::kAttention, "attend.linear", {k.id, v.id, wide.id}, {sums.id});
  op.ops_per_element = 4 * 32;
  op.held = {both.id, q.id};
  Feature y = third("attended.narrow", third("attended.divide", sums, kFp32), dtype_);
  Feature z = add(x, moved_norm(convolution("o", map("layout.o", y), c, 1, false), true));
  Feature up = map("silu", convolution("inverted", z, 8 * c, 1));
  Feature d = depthwise("depthwise", up, 9, true);
  Feature gated = feature("gate", 4 * c, x.points, x.frames);
  b_.op(OpKind::kMap, kPart, "gate", {d.id}, {gated.id}).ops_per_element = 6;
  return add(z, moved_norm(convolution("pointwise", gated, c, 1, false), true));
}

Graph DecoderBuilder::dc() {
  idle("encoder", 312250275 - 159204995);
  decoder();
  Feature latent = feature("latent", 32, 1, 1), wide = feature("latent.repeat", 1024, 1, 1);
  b_.op(OpKind::kMove, kPart, "latent.repeat", {latent.id}, {wide.id});
  Feature x = add(convolution("start", latent, 1024, 9), wide);
  int level = 0;
  for (int out : {1024, 1024, 512, 512, 256, 128}) {
    if (level > 0) {
      Feature up = convolution("up", upsample(x, dtype_), out, 9);
      Feature repeated = feature("shortcut.repeat", 4 * out, x.points, x.frames),
              shuffled = like("shortcut", up);
      b_.op(OpKind::kMove, kPart, "shortcut.repeat", {x.id}, {repeated.id});
      b_.op(OpKind::kMove, kPart, "shortcut", {repeated.id}, {shuffled.id});
      x = add(up, shuffled);
    }
    for (int i = 0; i < 3; ++i) x = level < 3 ? dc_vit(x) : dc_block(x);
    ++level;
  }
  convolution("end", map("relu", moved_norm(x, true)), 3, 9);
  return finish();
}

// Doubles width, height and time; `narrower` divides the channels.
DecoderBuilder::Feature DecoderBuilder::ltx_up(const Feature& x, int narrower) {
  int out = x.channels / narrower;
  Feature y = causal("up", x, 8 * out, 27);
  Feature spread = feature("spread", out, x.points * 8, x.frames * 2);
  b_.op(OpKind::kMove, kPart, "spread", {y.id}, {spread.id});
  if (narrower == 1) return spread;
  Feature shortcut = like("shortcut", spread);
  b_.op(OpKind::kMove, kPart, "shortcut", {x.id}, {shortcut.id});
  return add(shortcut, spread);
}

Graph DecoderBuilder::ltx(bool wide, bool timed) {
  timed_ = timed;
  idle("encoder", wide ? 694e6 : 181e6);  // sums over the encoders' published widths, to a million
  decoder();
  // The frames of a whole video are taken at once: what is joined in front of them hardly counts.
  int width = wide ? 1024 : 512;
  Feature x = causal("start", feature("latent", 128, 1, 16), width, 27);
  ltx_time(width, 4);
  for (int i = 0; i < (wide ? 5 : 4); ++i) x = ltx_block(x);
  if (wide) {
    for (int level = 0; level < 3; ++level) {
      ltx_time(x.channels / 2, 4);
      x = ltx_up(x, 2);
      for (int i = 0; i < 5; ++i) x = ltx_block(x);
    }
  } else {
    for (int i = 0; i < 3; ++i) x = ltx_block(x);
    for (int out : {512, 256, 128}) {
      if (x.channels != out) {
        Feature h = causal("conv1", map("silu", moved(x)), out, 27);
        x = add(convolution("shortcut", x, out, 1), causal("conv2", map("silu", moved(h)), out, 27));
      }
      x = ltx_up(x, 1);
      for (int i = 0; i < 3; ++i) x = ltx_block(x);
    }
  }
  ltx_time(x.channels, 2);
  if (timed_) b_.tensor("modulation.out", {b_.axis("two", 2), channels(x.channels)}, TensorClass::kWeight, dtype_);
  causal("end", map("silu", ltx_norm(x)), 48, 27);
  return finish();
}

}  // namespace

std::string autoencoder_of(const DiffusionSpec& spec) {
  if (spec.family == "sana") return "dc";
  if (spec.family == "wan") return "wan";
  if (spec.family == "ltx") return spec.hidden >= 4096 ? "ltx-0.9.7" : "ltx";
  for (const char* family : {"flux", "sd3", "pixart", "dit", "unet"})
    if (spec.family == family) return "kl";
  base::fail("no autoencoder is known for the family '{}'", spec.family);
}

Graph build_autoencoder(const std::string& kind) {
  DecoderBuilder builder("autoencoder " + kind, kind == "wan" ? DType{Format::kTf32, 32, false} : kBf16);
  if (kind == "kl") return builder.kl();
  if (kind == "dc") return builder.dc();
  if (kind == "wan") return builder.wan();
  if (kind == "ltx") return builder.ltx(false, false);
  if (kind == "ltx-0.9.7" || kind == "ltx-0.9.7 untimed") return builder.ltx(true, kind == "ltx-0.9.7");
  base::fail("unknown autoencoder '{}'; known: kl, dc, wan, ltx, ltx-0.9.7, ltx-0.9.7 untimed", kind);
}

DecodeRuns decode_runs(const std::string& kind, const RenderShape& shape, double batch) {
  double stride = kind == "kl" || kind == "wan" ? 8 : 32;
  double grid = std::ceil(shape.width / stride) * std::ceil(shape.height / stride);
  DecodeRuns d;
  double tokens = grid * batch;
  if (kind == "wan") d.runs = (shape.frames - 1) / 4.0 + 0.25;
  if (kind.starts_with("ltx")) tokens *= (shape.frames - 1) / 8 + 1;
  d.binding[kTokens] = tokens;
  d.binding[kSeqs] = batch;
  d.binding[kPairs] = d.binding[kScores] = batch * grid * grid;
  d.binding.causal = false;
  return d;
}

}  // namespace orrery::graph
