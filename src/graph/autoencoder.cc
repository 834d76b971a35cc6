// Decoders of images, and which pipeline decodes with what. Shapes: diffusers' AutoencoderKL (FLUX: 16 latent
// channels) and AutoencoderDC (SANA, f32c32); the counts of their parameters are tested.
#include "graph/autoencoder.h"

#include "base/error.h"
#include "graph/decoder_builder.h"

namespace orrery::graph {

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

DecoderBuilder::Feature DecoderBuilder::dc_vit(const Feature& x) {
  int c = x.channels;
  Feature qkv = convolution("qkv", map("layout.qkv", x), 3 * c, 1, false);
  Feature scales = depthwise("scales.depthwise", qkv, 25, false);
  // Groups of 32 channels are mixed among themselves.
  b_.tensor("scales.mix.weight", {channels(3 * c), b_.axis("group", 32)}, TensorClass::kWeight, dtype_);
  scales = map("scales.mix", scales, kDepthwise, 64);
  Feature both = feature("scales.joined", 6 * c, x.points, x.frames);
  b_.op(OpKind::kMove, kDecoderPart, "scales.join", {qkv.id, scales.id}, {both.id});
  both = map("heads.apart", both);
  auto third = [&](const char* what, const Feature& from, DType dtype) {  // of queries, keys and values
    Feature part = feature(what, 2 * c, x.points, x.frames, dtype);
    b_.op(OpKind::kMap, kDecoderPart, what, {from.id}, {part.id}).ops_per_element = 1;
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
  b_.op(OpKind::kMap, kDecoderPart, "gate", {d.id}, {gated.id}).ops_per_element = 6;
  return add(z, moved_norm(convolution("pointwise", gated, c, 1, false), true));
}

Graph DecoderBuilder::dc() {
  idle("encoder", 312250275 - 159204995);
  decoder();
  Feature latent = feature("latent", 32, 1, 1), wide = feature("latent.repeat", 1024, 1, 1);
  b_.op(OpKind::kMove, kDecoderPart, "latent.repeat", {latent.id}, {wide.id});
  Feature x = add(convolution("start", latent, 1024, 9), wide);
  int level = 0;
  for (int out : {1024, 1024, 512, 512, 256, 128}) {
    if (level > 0) {
      Feature up = convolution("up", upsample(x, dtype_), out, 9);
      Feature repeated = feature("shortcut.repeat", 4 * out, x.points, x.frames),
              shuffled = like("shortcut", up);
      b_.op(OpKind::kMove, kDecoderPart, "shortcut.repeat", {x.id}, {repeated.id});
      b_.op(OpKind::kMove, kDecoderPart, "shortcut", {repeated.id}, {shuffled.id});
      x = add(up, shuffled);
    }
    for (int i = 0; i < 3; ++i) x = level < 3 ? dc_vit(x) : dc_block(x);
    ++level;
  }
  convolution("end", map("relu", moved_norm(x, true)), 3, 9);
  return finish();
}

std::string autoencoder_of(const DiffusionSpec& spec) {
  if (spec.family == "sana") return "dc";
  if (spec.family == "wan") return spec.space_stride == 16 ? "wan-2.2" : "wan";
  if (spec.family == "ltx") return spec.hidden >= 4096 ? "ltx-0.9.7" : "ltx";
  for (const char* family : {"flux", "sd3", "pixart", "dit", "unet"})
    if (spec.family == family) return "kl";
  base::fail("no autoencoder is known for the family '{}'", spec.family);
}

Graph build_autoencoder(const std::string& kind) {
  DecoderBuilder builder("autoencoder " + kind, kind.starts_with("wan") ? DType{Format::kTf32, 32, false} : kBf16);
  if (kind == "kl") return builder.kl();
  if (kind == "dc") return builder.dc();
  if (kind == "wan") return builder.wan();
  if (kind == "wan-2.2") return builder.wan22();
  if (kind == "ltx") return builder.ltx(false, false);
  if (kind == "ltx-0.9.7" || kind == "ltx-0.9.7 untimed") return builder.ltx(true, kind == "ltx-0.9.7");
  base::fail("unknown autoencoder '{}'; known: kl, dc, wan, wan-2.2, ltx, ltx-0.9.7, ltx-0.9.7 untimed", kind);
}

DecodeRuns decode_runs(const std::string& kind, const RenderShape& shape, double batch) {
  double stride = kind == "kl" || kind == "wan" ? 8 : kind == "wan-2.2" ? 16 : 32;
  double grid = std::ceil(shape.width / stride) * std::ceil(shape.height / stride);
  DecodeRuns d;
  double tokens = grid * batch;
  if (kind.starts_with("wan")) d.runs = (shape.frames - 1) / 4.0 + 0.25;
  if (kind.starts_with("ltx")) tokens *= (shape.frames - 1) / 8 + 1;
  d.binding[kTokens] = tokens;
  d.binding[kSeqs] = batch;
  d.binding[kPairs] = d.binding[kScores] = batch * grid * grid;
  d.binding.causal = false;
  return d;
}

}  // namespace orrery::graph
