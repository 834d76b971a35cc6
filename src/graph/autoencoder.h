// Time of the image decoder that FLUX, SD3 and the older latent-diffusion models share, itemised:
// convolutions as products over their window, group norms, activations. Its shape is 512, 512, 256, 128
// channels with three residual blocks a level. As PyTorch runs it: channels first, so that each convolution
// changes the layout before and after, and a group norm whose sums run on one block of threads for each of 32
// groups.
#pragma once

#include "graph/schedule.h"

namespace orrery::graph {

struct DecoderCost {
  double seconds = 0, convolution = 0, norm = 0, rest = 0;
  double ops = 0, bytes = 0;
};
// Decodes one image of width x height pixels (latents are an eighth of that).
DecoderCost image_decoder(double width, double height, const Rates& rates);

}  // namespace orrery::graph
