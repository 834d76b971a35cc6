// config.json of a denoiser to DiffusionSpec: diffusers' classes and Wan's own.
//
// What a denoiser's config does not hold is the autoencoder's stride, the length of the text, and the usual
// number of steps: these are facts of the family and stand in its reader. The size of an image is sample_size times
// the stride where the family's pipeline takes it from there, which diffusers' of DiT, PixArt, SD3 and SANA do.
#include <algorithm>
#include <cmath>

#include "graph/config_reader.h"
#include "graph/spec.h"

namespace orrery::graph {
namespace {

void heads(ConfigReader& r, DiffusionSpec& s) {
  s.heads = r.integer("num_attention_heads");
  s.head_dim = r.integer("attention_head_dim");
  s.hidden = r.product("num_attention_heads", s.heads, s.head_dim);
  s.layers = r.integer("num_layers");
  s.in_channels = r.integer("in_channels");
  r.ignore({"out_channels", "sample_size", "dropout", "norm_eps", "norm_elementwise_affine", "activation_fn",
            "norm_type", "upcast_attention", "_diffusers_version", "_class_name",
            "norm_num_groups", "num_embeds_ada_norm"});
}

// Latent elements of a side that the checkpoint was made for.
void own_size(ConfigReader& r, DiffusionSpec& s) {
  if (r.has("sample_size")) s.size = r.product("the size of an image", r.positive("sample_size"), s.space_stride);
}

void flux(ConfigReader& r, DiffusionSpec& s) {
  heads(r, s);
  s.single_layers = r.integer("num_single_layers");
  s.text_dim = r.integer("joint_attention_dim");
  s.vec_dim = r.integer("pooled_projection_dim");
  s.guidance_embed = r.flag_or("guidance_embeds", false);
  s.patch = r.integer_or("patch_size", 1);
  s.ffn = r.product("the width", 4, s.hidden);
  s.text_tokens = 512, s.space_stride = 16, s.cfg_passes = 1, s.steps = 28;
  s.size = 1024;  // its pipeline's own number, whatever the config says
  r.ignore({"axes_dims_rope"});
}

void sd3(ConfigReader& r, DiffusionSpec& s) {
  heads(r, s);
  s.text_dim = r.integer("joint_attention_dim");
  s.vec_dim = r.integer("pooled_projection_dim");
  s.patch = r.integer("patch_size");
  s.ffn = r.product("the width", 4, s.hidden);
  s.text_tokens = 333, s.space_stride = 8, s.cfg_passes = 2, s.steps = 28;
  own_size(r, s);
  if (r.has("dual_attention_layers"))
    for (const Json& layer : r.list("dual_attention_layers"))
      if (layer != s.dual_layers++)
        base::fail("{}: dual_attention_layers that are not the first ones are not known", r.origin());
  if (s.dual_layers >= s.layers) base::fail("{}: dual_attention_layers must leave the last layer out", r.origin());
  s.qk_norm = r.has("qk_norm");
  if (s.qk_norm) r.only("qk_norm", "rms_norm", "another norm of queries and keys");
  r.ignore({"caption_projection_dim", "pos_embed_max_size"});
}

void wan_family(DiffusionSpec& s) {
  if (s.in_channels != 16 && s.in_channels != 36 && s.in_channels != 48)
    base::fail("{}: {} channels: no autoencoder of such latents is known (Wan 2.1's have 16, and 20 more beside a "
               "picture, those of 2.2's 5B model 48)",
               s.name, s.in_channels);
  s.timed_tokens = s.in_channels == 48;
  s.patch = 2, s.text_tokens = 512, s.time_stride = 4, s.space_stride = s.in_channels == 48 ? 16 : 8, s.cfg_passes = 2, s.steps = 50;
  s.stored_bits = 32, s.video = 1;
}

void wan(ConfigReader& r, DiffusionSpec& s) {
  heads(r, s);
  s.ffn = r.integer("ffn_dim");
  s.text_dim = r.integer("text_dim");
  r.only("patch_size", Json::array({1, 2, 2}), "other patches");
  r.only("cross_attn_norm", true, "no norm before cross-attention");
  s.image_dim = r.integer_or("image_dim", 0);
  s.image_tokens = s.image_dim > 0 ? 257 : 0;  // of the ViT-H that all of them use
  s.out_channels = r.integer_or("out_channels", 0);
  if (r.integer_or("added_kv_proj_dim", 0) != (s.image_dim > 0 ? s.hidden : 0))
    base::fail("{}: added_kv_proj_dim does not go with image_dim", r.origin());
  r.only("qk_norm", "rms_norm_across_heads", "another norm of queries and keys");
  r.ignore({"eps", "freq_dim", "rope_max_seq_len", "pos_embed_seq_len"});
  wan_family(s);
}

void wan_original(ConfigReader& r, DiffusionSpec& s) {
  s.hidden = r.integer("dim");
  s.ffn = r.integer("ffn_dim");
  s.heads = r.integer("num_heads");
  if (s.heads == 0 || s.hidden % s.heads) base::fail("{}: dim is no multiple of num_heads", r.origin());
  s.head_dim = s.hidden / s.heads;
  s.layers = r.integer("num_layers");
  s.in_channels = r.integer("in_dim");
  std::string type = r.word("model_type");
  if (type != "t2v" && type != "i2v" && type != "ti2v")
    base::fail("{}: model_type '{}' is unknown; known: t2v, i2v, ti2v", r.origin(), type);
  if (type == "i2v") s.image_tokens = 257, s.image_dim = 1280;
  s.out_channels = r.integer_or("out_dim", 0);
  s.text_dim = 4096;
  r.ignore({"eps", "freq_dim", "text_len", "_class_name", "_diffusers_version"});
  wan_family(s);
}

void ltx(ConfigReader& r, DiffusionSpec& s) {
  s.qkv_bias = r.flag_or("attention_bias", true);
  heads(r, s);
  s.patch = r.integer_or("patch_size", 1);
  s.text_dim = r.integer("caption_channels");
  s.ffn = r.product("the width", 4, s.hidden);
  r.only("cross_attention_dim", s.hidden, "cross-attention of another width");
  r.only("patch_size_t", 1, "patches in time");
  r.ignore({"qk_norm", "attention_out_bias"});
  s.text_tokens = 128, s.time_stride = 8, s.space_stride = 32, s.cfg_passes = 2, s.steps = 40, s.video = 1;
}

void pixart(ConfigReader& r, DiffusionSpec& s) {
  s.qkv_bias = r.flag_or("attention_bias", true);
  heads(r, s);
  s.patch = r.integer("patch_size");
  s.text_dim = r.integer("caption_channels");
  s.ffn = r.product("the width", 4, s.hidden);
  s.text_tokens = 120, s.space_stride = 8, s.cfg_passes = 2, s.steps = 20;
  own_size(r, s);
  r.only("cross_attention_dim", s.hidden, "cross-attention of another width");
  r.ignore({"interpolation_scale", "use_additional_conditions", "double_self_attention", "num_vector_embeds",
            "only_cross_attention", "use_linear_projection", "attention_type"});
}

void sana(ConfigReader& r, DiffusionSpec& s) {
  s.qkv_bias = r.flag_or("attention_bias", false);
  heads(r, s);
  s.patch = r.integer("patch_size");
  s.text_dim = r.integer("caption_channels");
  const Json& ratio = r.required("mlp_ratio");
  if (!ratio.is_number()) base::fail("{}: mlp_ratio must be a number", r.origin());
  s.ffn = static_cast<int>(std::lround(ratio.get<double>() * s.hidden));
  s.text_tokens = 300, s.space_stride = 32, s.cfg_passes = 2, s.steps = 20;
  own_size(r, s);  // another size that is asked of the pipeline is made in this one, and scaled
  r.ignore({"num_cross_attention_heads", "cross_attention_head_dim", "cross_attention_dim",
            "interpolation_scale", "guidance_embeds", "guidance_embeds_scale", "qk_norm", "timestep_scale"});
}

void dit(ConfigReader& r, DiffusionSpec& s) {
  s.qkv_bias = r.flag_or("attention_bias", true);
  s.classes = r.integer("num_embeds_ada_norm");
  heads(r, s);
  s.patch = r.integer("patch_size");
  s.ffn = r.product("the width", 4, s.hidden);
  s.space_stride = 8, s.cfg_passes = 2, s.steps = 250;
  own_size(r, s);
  r.only("cross_attention_dim", nullptr, "cross-attention");
  r.ignore({"num_vector_embeds", "only_cross_attention", "use_linear_projection", "attention_type",
            "double_self_attention"});
}

// The class of the first checkpoints of DiT and PixArt says by its norm which of both it is.
std::string_view class_of(const Json& json, const std::string& origin) {
  std::string_view name = json["_class_name"].get_ref<const std::string&>();
  if (name != "Transformer2DModel") return name;
  Json norm = json.contains("norm_type") ? json["norm_type"] : Json();
  if (norm == "ada_norm_zero") return "DiTTransformer2DModel";
  if (norm == "ada_norm_single") return "PixArtTransformer2DModel";
  base::fail("{}: Transformer2DModel with norm_type {} is unknown; known: \"ada_norm_zero\" (DiT), \"ada_norm_single\" (PixArt)",
             origin, norm.dump());
}

struct DenoiserClass {
  std::string_view name, family;
  void (*read)(ConfigReader&, DiffusionSpec&);
};
constexpr DenoiserClass kClasses[] = {
    {"FluxTransformer2DModel", "flux", flux},   {"SD3Transformer2DModel", "sd3", sd3},
    {"WanTransformer3DModel", "wan", wan},      {"WanModel", "wan", wan_original},
    {"LTXVideoTransformer3DModel", "ltx", ltx}, {"PixArtTransformer2DModel", "pixart", pixart},
    {"SanaTransformer2DModel", "sana", sana},   {"DiTTransformer2DModel", "dit", dit},
};

}  // namespace

bool is_denoiser_config(std::string_view json_text) {
  Json json = Json::parse(json_text, nullptr, false);
  return json.is_object() && json.contains("_class_name");
}

DiffusionSpec read_denoiser_config(std::string_view json_text, const std::string& origin) {
  Json json = Json::parse(json_text, nullptr, false);
  if (!json.is_object() || !json.contains("_class_name") || !json["_class_name"].is_string())
    base::fail("{}: no field '_class_name': not the config of a denoiser", origin);
  std::string name(class_of(json, origin)), names;
  for (const DenoiserClass& c : kClasses) {
    names += (names.empty() ? "" : ", ") + std::string(c.name);
    if (c.name != name) continue;
    ConfigReader reader(json, origin);
    DiffusionSpec spec;
    spec.name = origin;
    spec.family = c.family;
    spec.source = origin;
    c.read(reader, spec);
    reader.finish();
    for (auto [what, value] : {std::pair{"layers", spec.layers},
                               {"heads", spec.heads},
                               {"head dimension", spec.head_dim},
                               {"channels", spec.in_channels},
                               {"patch", spec.patch},
                               {"feed-forward width", spec.ffn}})
      if (value < 1 || value > 1000000) base::fail("{}: {} {} cannot be", origin, what, value);
    if (std::max(spec.layers, spec.single_layers) > 100000)
      base::fail("{}: {} layers are more than any model has", origin, std::max(spec.layers, spec.single_layers));
    return spec;
  }
  base::fail("{}: unknown denoiser class '{}'; known: {}", origin, name, names);
}

}  // namespace orrery::graph
