// The built-in models: facts of published checkpoints (zoo.json, embedded), each with its source.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "graph/embedded_zoo.h"
#include "graph/spec.h"

namespace orrery::graph {
namespace {

using Json = nlohmann::json;

// Sets fields of a spec from a JSON object; a key without a field is refused.
template <class Spec>
class FieldReader {
 public:
  void bind(const char* key, int Spec::*field) { ints_[key] = field; }
  void bind(const char* key, bool Spec::*field) { bools_[key] = field; }
  void bind(const char* key, double Spec::*field) { doubles_[key] = field; }
  void bind(const char* key, std::string Spec::*field) { strings_[key] = field; }

  Spec read(const Json& object, const std::string& where) const {
    Spec spec;
    for (const auto& [key, value] : object.items()) {
      if (auto i = ints_.find(key); i != ints_.end())
        spec.*(i->second) = value.template get<int>();
      else if (auto b = bools_.find(key); b != bools_.end())
        spec.*(b->second) = value.template get<bool>();
      else if (auto d = doubles_.find(key); d != doubles_.end())
        spec.*(d->second) = value.template get<double>();
      else if (auto s = strings_.find(key); s != strings_.end())
        spec.*(s->second) = value.template get<std::string>();
      else if (key != "qk_norm")
        base::fail("{}: unknown field '{}'", where, key);
    }
    return spec;
  }

 private:
  std::map<std::string, int Spec::*> ints_;
  std::map<std::string, bool Spec::*> bools_;
  std::map<std::string, double Spec::*> doubles_;
  std::map<std::string, std::string Spec::*> strings_;
};

#define BIND(name) reader.bind(#name, &Spec::name)

FieldReader<TransformerSpec> transformer_reader() {
  using Spec = TransformerSpec;
  FieldReader<Spec> reader;
  BIND(name), BIND(family), BIND(kind), BIND(source), BIND(stored_weights);
  BIND(layers), BIND(hidden), BIND(heads), BIND(kv_heads), BIND(head_dim), BIND(ffn), BIND(vocab);
  BIND(gated), BIND(tied), BIND(qkv_bias), BIND(o_bias), BIND(mlp_bias), BIND(head_bias), BIND(norm_bias);
  BIND(norms_per_layer), BIND(learned_positions), BIND(segments);
  BIND(embedding_norm), BIND(final_norm), BIND(pooler);
  BIND(window), BIND(window_layers);
  BIND(experts), BIND(experts_per_token), BIND(expert_ffn), BIND(shared_experts), BIND(shared_ffn);
  BIND(dense_layers), BIND(dense_ffn), BIND(router_bias), BIND(sinks);
  BIND(q_lora), BIND(kv_lora), BIND(nope), BIND(rope), BIND(v_dim);
  BIND(ssm_mlp), BIND(attn_gate), BIND(ssm_layers), BIND(ssm_inner), BIND(ssm_state), BIND(ssm_heads),
      BIND(ssm_groups), BIND(ssm_conv);
  BIND(patch), BIND(image_tokens), BIND(classes);
  return reader;
}

FieldReader<DiffusionSpec> diffusion_reader() {
  using Spec = DiffusionSpec;
  FieldReader<Spec> reader;
  BIND(name), BIND(family), BIND(source);
  BIND(layers), BIND(single_layers), BIND(hidden), BIND(heads), BIND(head_dim), BIND(ffn);
  BIND(in_channels), BIND(out_channels), BIND(patch), BIND(text_tokens), BIND(text_dim), BIND(vec_dim);
  BIND(image_tokens), BIND(image_dim);
  BIND(time_stride), BIND(space_stride), BIND(size), BIND(guidance_embed), BIND(classes);
  BIND(qk_norm), BIND(dual_layers), BIND(timed_tokens);
  BIND(denoisers), BIND(boundary), BIND(shift);
  BIND(stored_bits), BIND(video), BIND(cfg_passes), BIND(steps), BIND(published_params),
      BIND(published_flops);
  return reader;
}
#undef BIND

TransformerSpec read_transformer(const Json& object, const FieldReader<TransformerSpec>& reader) {
  TransformerSpec spec = reader.read(object, "zoo entry");
  if (!spec.stored_weights.empty())
    spec.stored_note = fmt::format("weights in {} as the published checkpoint stores them; --weights bf16 counts 16 bits",
                                   spec.stored_weights);
  if (object.contains("qk_norm")) spec.qk_norm = object["qk_norm"] == "head" ? QkNorm::kHead : QkNorm::kAll;
  return spec;
}

// Case, spaces, dots and dashes do not matter: "llama-3.1-70b" is "Llama-3.1-70B"; a vendor prefix is
// dropped.
std::string plain(std::string_view name) {
  if (auto slash = name.rfind('/'); slash != std::string_view::npos && slash + 2 < name.size() &&
                                    std::isalpha(static_cast<unsigned char>(name[slash + 1])))
    name = name.substr(slash + 1);
  std::string key;
  for (char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (key.starts_with("metallama")) key.erase(0, 4);
  return key;
}

// Fine-tunes and number formats share the shape of their base: words at a name's end that say no more are
// cut.
std::string_view without_tails(std::string_view name) {
  for (;;) {
    auto start = name.find_last_of("-_ .");
    if (start == std::string_view::npos || start < 3) return name;
    std::string word = plain(name.substr(start + 1));
    static constexpr std::string_view kTails[] = {
        "fp8", "nvfp4", "fp4",  "bf16", "instruct", "transformer", "it",   "awq",
        "hf",  "chat",  "base", "thinking", "2507", "0528",        "0324", "0905"};
    if (std::find(std::begin(kTails), std::end(kTails), word) == std::end(kTails)) return name;
    name = name.substr(0, start);
  }
}
std::string fold(std::string_view name) { return plain(without_tails(name)); }

constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"bloom", "bloom176b"},
    {"llama370b", "llama3170b"},
    {"llama3370b", "llama3170b"},
    {"llama38b", "llama318b"},
    {"qwen272b", "qwen2572b"},
    {"deepseekv3", "deepseekv3r1mainmodel"},
    {"deepseekr1", "deepseekv3r1mainmodel"},
    {"deepseekv31", "deepseekv3r1mainmodel"},
    {"mixtral8x7bv01", "mixtral8x7b"},
    {"mixtral8x22bv01", "mixtral8x22b"},
    {"mixtral8x7binstructv01", "mixtral8x7b"},
    {"mixtral8x22binstructv01", "mixtral8x22b"},
    {"llama4scout17b16e", "llama4scout"},
    {"minimaxm2", "minimaxm25"},
    {"minimaxm27", "minimaxm25"},
    {"gemma327b", "gemma327btext"},
    {"flux", "flux1dev"},
    {"fluxdev", "flux1dev"},
    {"wan14b", "wan21t2v14b"},
    {"wan13b", "wan21t2v13b"},
    {"ltxvideo13b", "ltxvideo13b097"},
    {"sdxl", "sdxlbaseunet"},
    {"mistral7b", "mistral7bv01"},
    {"pixart", "pixartxl2alpha1024"},
    {"pixartalpha", "pixartxl2alpha1024"},
    {"pixartxl2", "pixartxl2alpha1024"},
    {"ltxvideo", "ltxvideo2b"},
    {"sana", "sana16b"},
    {"sd35", "sd35largemmdit"},
    {"sd3", "sd3medium"},
    {"wan5b", "wan22ti2v5b"},
    {"wan225b", "wan22ti2v5b"},
    {"ditxl2", "ditxl2256"},
    {"sd35large", "sd35largemmdit"},
    {"vitl16", "vitl162241000classes"},
    {"gptoss", "gptoss120b"},
};

std::string canonical(std::string key) {
  for (auto [alias, target] : kAliases)
    if (key == alias) return fold(target);
  return key;
}

template <class Spec>
const Spec* find_in(const std::vector<Spec>& list, std::string_view name) {
  std::string key = canonical(fold(name));
  for (const Spec& spec : list)
    if (fold(spec.name) == key) return &spec;
  return nullptr;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) base::fail("cannot read {}", path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::filesystem::path config_path(const std::string& model) {
  std::filesystem::path path(model);
  if (std::filesystem::is_directory(path)) {
    for (const char* part : {"config.json", "transformer/config.json", "high_noise_model/config.json",
                             "unet/config.json"})  // of a pipeline
      if (std::filesystem::exists(path / part)) return path / part;
    return path / "config.json";
  }
  if (std::filesystem::is_regular_file(path)) return path;
  return {};
}

[[noreturn]] void unknown_model(const std::string& model) {
  if (model.find('/') != std::string::npos && (model.ends_with(".json") || model.starts_with("/") || model.starts_with(".")))
    base::fail("no file {}", model);
  std::string near, all;
  std::string stem = fold(model).substr(0, 4);
  auto look = [&](const std::string& name) {
    if (fold(name).starts_with(stem)) near += (near.empty() ? "" : ", ") + name;
    all += (all.empty() ? "" : ", ") + name;
  };
  for (const auto& spec : zoo().transformers) look(spec.name);
  for (const auto& spec : zoo().denoisers) look(spec.name);
  base::fail("unknown model '{}': neither a config.json nor a built-in model ({}: {})", model,
             near.empty() ? "known" : "near", near.empty() ? all : near);
}

}  // namespace

const Zoo& zoo() {
  static const Zoo* loaded = [] {
    auto* z = new Zoo;
    Json root = Json::parse(kZooText);
    auto transformers = transformer_reader();
    auto denoisers = diffusion_reader();
    for (const Json& entry : root["transformers"])
      z->transformers.push_back(read_transformer(entry, transformers));
    for (const Json& entry : root["denoisers"]) z->denoisers.push_back(denoisers.read(entry, "zoo entry"));
    return z;
  }();
  return *loaded;
}

bool names_whole(std::string_view name, const TransformerSpec& spec) {
  std::string key = canonical(plain(name));
  return key == fold(spec.name) || key == plain(spec.name);
}
const TransformerSpec* find_transformer(std::string_view name) { return find_in(zoo().transformers, name); }
const DiffusionSpec* find_denoiser(std::string_view name) { return find_in(zoo().denoisers, name); }

bool is_denoiser(const std::string& model) {
  if (auto path = config_path(model); !path.empty()) return is_denoiser_config(read_text(path));
  return !find_transformer(model) && find_denoiser(model);
}

// The config's text; formats that NVIDIA's Model Optimizer wrote into a file beside it become its own.
std::string with_formats_beside(const std::filesystem::path& path) {
  std::string text = read_text(path);
  std::filesystem::path beside = path.parent_path() / "hf_quant_config.json";
  if (!std::filesystem::exists(beside)) return text;
  Json config = Json::parse(text, nullptr, false), formats = Json::parse(read_text(beside), nullptr, false);
  if (!config.is_object() || (config.contains("quantization_config") && !config["quantization_config"].is_null())) return text;
  if (!formats.is_object() || !formats.contains("quantization") || !formats["quantization"].is_object())
    base::fail("{}: no object 'quantization'", beside.string());
  config["quantization_config"] = formats["quantization"];
  config["quantization_config"]["quant_method"] = "modelopt";
  return config.dump();
}

TransformerSpec load_transformer(const std::string& model, bool stored) {
  if (auto path = config_path(model); !path.empty()) return read_hf_config(with_formats_beside(path), path.string(), stored);
  if (const auto* known = find_transformer(model)) return *known;
  if (find_denoiser(model)) base::fail("{} is a diffusion model: ask `render`", model);
  unknown_model(model);
}

DiffusionSpec load_denoiser(const std::string& model) {
  if (auto path = config_path(model); !path.empty()) {
    DiffusionSpec spec = read_denoiser_config(read_text(path), path.string());
    pair_denoisers(path.string(), spec);
    return spec;
  }
  if (const auto* spec = find_denoiser(model)) return *spec;
  if (find_transformer(model))
    base::fail("{} is a language or vision model: ask `fit`, `serve` or `train`", model);
  unknown_model(model);
}

}  // namespace orrery::graph
