#include "graph/autoencoder.h"

namespace orrery::graph {
namespace {

class Decoder {
 public:
  explicit Decoder(const Rates& rates) : r_(rates) {}

  void convolution(double pixels, double in, double out, double window = 9) {
    ProgramOp op;
    op.kind = OpKind::kContract;
    op.k_width = in * window, op.n_width = out, op.rows = kTokens;
    Line line;
    line.ops = 2 * pixels * in * window * out;
    line.weight = in * window * out * 2, line.activation = pixels * (in + out) * 2;
    cost.convolution += run(op, line, pixels);
    map(pixels * in, 4), map(pixels * out, 4);  // layout before and after
  }
  void norm(double pixels, double channels) {
    ProgramOp op;
    op.kind = OpKind::kReduce;
    op.lanes = 32;
    Line line;
    line.ops = 8 * pixels * channels, line.activation = 4 * pixels * channels;
    cost.norm += run(op, line, pixels);
    map(pixels * channels, 4);  // silu
  }
  void map(double elements, double bytes_each) {
    ProgramOp op;
    op.kind = OpKind::kMap;
    Line line;
    line.ops = elements, line.activation = elements * bytes_each;
    cost.rest += run(op, line, elements);
  }
  void attention(double pixels, double channels) {
    for (int i = 0; i < 4; ++i) convolution(pixels, channels, channels, 1);
    ProgramOp op;
    op.kind = OpKind::kAttend;
    op.head_dim = channels;
    Line line;
    line.ops = 4 * channels * pixels * pixels, line.activation = 8 * pixels * channels;
    cost.rest += run(op, line, pixels);
  }
  void block(double pixels, double in, double out) {
    norm(pixels, in), convolution(pixels, in, out);
    norm(pixels, out), convolution(pixels, out, out);
    if (in != out) convolution(pixels, in, out, 1);
    map(pixels * out, 6);  // residual
  }

  DecoderCost cost;

 private:
  double run(const ProgramOp& op, const Line& line, double rows) {
    Binding b;
    b[kTokens] = rows;
    b.causal = false;
    double seconds = time_of(op, line, b, r_).seconds;
    cost.seconds += seconds;
    cost.ops += line.ops, cost.bytes += line.activation + line.weight;
    return seconds;
  }
  const Rates& r_;
};

}  // namespace

DecoderCost image_decoder(double width, double height, const Rates& rates) {
  Decoder d(rates);
  double pixels = width * height / 64, channels = 512;
  d.convolution(pixels, 16, channels);
  d.block(pixels, channels, channels), d.norm(pixels, channels);
  d.attention(pixels, channels), d.block(pixels, channels, channels);
  for (double out : {512.0, 512.0, 256.0, 128.0}) {
    for (int i = 0; i < 3; ++i) d.block(pixels, i == 0 ? channels : out, out);
    channels = out;
    if (out == 128) break;
    pixels *= 4;
    d.map(pixels * out, 2.5), d.convolution(pixels, out, out);  // upsampled, then convolved
  }
  d.norm(pixels, channels), d.convolution(pixels, channels, 3);
  return d.cost;
}

}  // namespace orrery::graph
