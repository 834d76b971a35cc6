// Two denoisers that share the steps: found by the folders of a published pipeline.
//
// The boundary is not in a denoiser's config. diffusers writes it into the pipeline's model_index.json, and
// the shift of noise levels into the scheduler's config; Wan's own checkpoints leave both to its code
// (Wan-Video/Wan2.2, wan/configs: from text 0.875 and 12, from a picture 0.9 and 5). By itself that code takes 40 steps,
// diffusers' pipeline 50.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/spec.h"

namespace orrery::graph {
namespace {

namespace fs = std::filesystem;

double number_in(const fs::path& path, const char* key) {
  std::ifstream in(path);
  nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || !json.contains(key) || !json[key].is_number())
    base::fail("{}: no number '{}': two denoisers share the steps by it", path.string(), key);
  return json[key].get<double>();
}

void check(const std::string& origin, const DiffusionSpec& spec) {
  if (!(spec.boundary > 0 && spec.boundary < 1 && spec.shift > 0 && spec.shift < 1000))
    base::fail("{}: a boundary of {} and a shift of {} share no steps between two denoisers", origin,
               spec.boundary, spec.shift);
}

}  // namespace

double first_steps(const DiffusionSpec& s, double steps) {
  if (s.denoisers == 1) return steps;
  // A level x becomes shift x / (1 + (shift - 1) x), no less than the boundary.
  double least = s.boundary / (s.shift - (s.shift - 1) * s.boundary);
  return std::clamp(std::floor(steps * (1 - least) + 1e-9) + 1, 0.0, steps);
}

void pair_denoisers(const std::string& config_path, DiffusionSpec& spec) {
  // Links are left as they are: a cache's files lie elsewhere than their names.
  fs::path own = fs::absolute(config_path).lexically_normal().parent_path(), pipeline = own.parent_path();
  std::string name = own.filename().string();
  bool diffusers = name == "transformer" || name == "transformer_2",
       wan = name == "high_noise_model" || name == "low_noise_model";
  if (diffusers && fs::exists(pipeline / "transformer" / "config.json") &&
      fs::exists(pipeline / "transformer_2" / "config.json")) {
    spec.denoisers = 2;
    spec.boundary = number_in(pipeline / "model_index.json", "boundary_ratio");
    spec.shift = number_in(pipeline / "scheduler" / "scheduler_config.json", "flow_shift");
    check(config_path, spec);
  } else if (wan && fs::exists(pipeline / "high_noise_model" / "config.json") &&
             fs::exists(pipeline / "low_noise_model" / "config.json")) {
    bool picture = spec.in_channels > 16;
    spec.denoisers = 2, spec.steps = 40;
    spec.boundary = picture ? 0.9 : 0.875, spec.shift = picture ? 5 : 12;
    spec.image_tokens = spec.image_dim = 0;  // no encoder of pictures beside the autoencoder
  }
}

}  // namespace orrery::graph
