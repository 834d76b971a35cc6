// The autoencoders of diffusion models as graphs: the decoder itemised (convolutions as products over their
// window, norms, activations, changes of layout as PyTorch makes them), the encoder's weights in a block that
// runs nothing.
//
// The free axis `tokens` counts latent positions of one run; tensors at a higher resolution have an axis of
// points. One run is a batch of images, a whole video (LTX), or one latent frame and the four frames that
// come of it (Wan).
#pragma once

#include "graph/spec.h"
#include "graph/walk.h"

namespace orrery::graph {

// What a pipeline of the family decodes with: "kl" (FLUX, SD3, PixArt, DiT, SDXL), "dc" (SANA), "wan", "wan-2.2" (its 5B model),
// "ltx" (version of 0.9), "ltx-0.9.7", whose decoder is told the noise level; "ltx-0.9.7 untimed" is its network alone.
std::string autoencoder_of(const DiffusionSpec& spec);
Graph build_autoencoder(const std::string& kind);

// Latent positions of one run and how many runs decode the question; fractions for a first frame that yields
// one frame only.
struct DecodeRuns {
  Binding binding;
  double runs = 1;
};
DecodeRuns decode_runs(const std::string& kind, const RenderShape& shape, double batch);

}  // namespace orrery::graph
