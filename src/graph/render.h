// Diffusion: the text encoder, the denoiser's steps, and the autoencoder, one after the other on one or more
// GPUs.
//
// The denoiser is a graph like any other; its tokens follow from pixels, frames, strides and patch. Peak
// memory is the largest of the stages' when components leave the GPU between them (Place), their sum when all
// stay.
#pragma once

#include "graph/serve.h"

namespace orrery::graph {

struct RenderQuestion {
  RenderShape shape;
  int steps = 0;   // 0: the model's own
  int passes = 0;  // denoiser passes per step (2 with classifier-free guidance); 0: the model's own
  bool encoder_on_host = false;  // the text encoder runs on the host CPU
  bool stay = false;             // all components stay on the GPU
  bool layer_offload = false;    // weights come from the host, each matrix when it is used; `prefetch`: the next one meanwhile
  bool compiled = false;         // a compiler joins the denoiser's element-wise steps
  double batch = 1;
  DType weights = kBf16;
  std::vector<std::string> verbs;  // techniques on the denoiser; one that rendering does not know is refused
};

// One of the three stages: text encoder, denoiser, autoencoder.
struct RenderStage {
  std::string name;
  double seconds = 0, joules = 0, parameters = 0;
  std::vector<MemoryItem> items;  // of one GPU while the stage runs
  double bytes() const;
};

struct RenderAnswer {
  double tokens = 0;  // latent tokens of one forward
  double parameters = 0, encoder_parameters = 0;
  double linear_flops = 0, attention_flops = 0;  // of one forward
  double forward_seconds = 0;
  double encoder_seconds = 0, denoise_seconds = 0, decode_seconds = 0, seconds = 0;
  double per_second = 0;  // results a second when they follow one another
  double forwards = 0;
  double first_forwards = 0;  // of which the first of two denoisers runs
  double switch_seconds = 0;  // one denoiser leaves the GPU and the other comes
  double peak_bytes = 0;
  std::vector<MemoryItem> items;  // of the stage with the peak
  bool decoder_stays = false;     // the autoencoder is on the GPU while the others run
  std::vector<RenderStage> stages;
  double joules = 0, mfu = 0;  // joules of all GPUs
  double capacity = 0;
  bool fits = false;
  std::vector<std::string> notes;  // what was assumed
  Plan plan;                       // with the verbs applied
  Graph graph;                     // of the denoiser
  Binding binding;                 // of one forward on one rank
};

// What the model makes when nobody asks for a size: of videos the width, height and frames of diffusers' pipeline, of
// images the size that the checkpoint was made for, and 1024 x 1024 where its source does not say.
RenderShape usual_shape(const DiffusionSpec& spec);
// A graph's program; products run in 16 bits whatever the weights are stored in.
Program render_program(const Graph& graph, const Plan& plan);
// Rates of reference pipelines: they call the mma.sync attention of their framework.
Rates render_rates(const Cluster& cluster);
RenderAnswer render(const DiffusionSpec& spec, const Plan& plan, const Cluster& cluster,
                    const RenderQuestion& question);

// What would make it fit, each change with its peak and time; nothing when it fits.
std::vector<std::string> render_advice(const DiffusionSpec& spec, const Plan& plan, const Cluster& cluster,
                                       const RenderQuestion& question, const RenderAnswer& answer);

}  // namespace orrery::graph
