// Decoders of videos: AutoencoderKLWan of Wan 2.1 and of 2.2's 5B model (the same as Wan's own), AutoencoderKLLTXVideo;
// the counts of their parameters are tested.
#include "graph/decoder_builder.h"

namespace orrery::graph {

DecoderBuilder::Feature DecoderBuilder::wan_up(Feature x, bool time, int out) {
  if (time) {
    Feature y = causal("time", x, 2 * x.channels, 3);
    Feature spread = feature("frames.spread", x.channels, x.points * 2, x.frames * 2);
    b_.op(OpKind::kMove, kDecoderPart, "frames.spread", {y.id}, {spread.id});
    x = spread;
  }
  Feature wide = feature("widen", x.channels, x.points, x.frames, kFp32);
  b_.op(OpKind::kMap, kDecoderPart, "widen", {x.id}, {wide.id});
  Feature up = upsample(wide, kFp32);
  Feature narrow = feature("narrow", up.channels, up.points, up.frames);
  b_.op(OpKind::kMap, kDecoderPart, "narrow", {up.id}, {narrow.id});
  return convolution("up", narrow, out, 9);
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
    if (i < 3) x = wan_up(x, i < 2, x.channels / 2);
  }
  causal("end", map("silu", channel_norm(x, true)), 3, 27);
  return finish();
}

// What a level takes, repeated to the channels, frames and pixels that it makes: one kernel repeats, one puts in order.
DecoderBuilder::Feature DecoderBuilder::wan_shortcut(const Feature& x, const Feature& wanted) {
  Feature repeated = feature("shortcut.repeat", static_cast<int>(wanted.channels * wanted.points / x.points), x.points, x.frames);
  b_.op(OpKind::kMove, kDecoderPart, "shortcut.repeat", {x.id}, {repeated.id});
  Feature ordered = like("shortcut", wanted);
  b_.op(OpKind::kMove, kDecoderPart, "shortcut", {repeated.id}, {ordered.id});
  return ordered;
}

Graph DecoderBuilder::wan22() {
  caches_ = true;
  idle("encoder", 149637088);  // 160 to 640 channels, sum over its layers
  decoder();
  Feature x = causal("start", convolution("latent.mix", feature("latent", 48, 1, 1), 48, 1), 1024, 27);
  x = wan_block(x, 1024);
  x = attention(x, channel_norm(x, true));
  x = wan_block(x, 1024);
  int level = 0;
  for (int out : {1024, 1024, 512, 256}) {
    Feature given = x;
    for (int j = 0; j < 3; ++j) x = wan_block(x, out);
    if (level < 3) {
      x = wan_up(x, level < 2, out);
      Feature shortcut = wan_shortcut(given, x);
      x = add(x, shortcut);
      b_.last().held.push_back(given.id);
    }
    ++level;
  }
  Feature patches = causal("end", map("silu", channel_norm(x, true)), 12, 27);
  Feature pixels = feature("pixels", 3, patches.points * 4, patches.frames);
  b_.op(OpKind::kMove, kDecoderPart, "pixels", {patches.id}, {pixels.id});
  return finish();
}

// Doubles width, height and time; `narrower` divides the channels.
DecoderBuilder::Feature DecoderBuilder::ltx_up(const Feature& x, int narrower) {
  int out = x.channels / narrower;
  Feature y = causal("up", x, 8 * out, 27);
  Feature spread = feature("spread", out, x.points * 8, x.frames * 2);
  b_.op(OpKind::kMove, kDecoderPart, "spread", {y.id}, {spread.id});
  if (narrower == 1) return spread;
  Feature shortcut = like("shortcut", spread);
  b_.op(OpKind::kMove, kDecoderPart, "shortcut", {x.id}, {shortcut.id});
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

}  // namespace orrery::graph
