// Hugging Face config.json to TransformerSpec, one reader per architecture.
//
// Each reader names every field that it takes. A field that it neither takes nor knows to be without effect
// on shape (token ids, dropout, rope settings, ...) stops the read with its name: a new field may change the
// shape, and a wrong shape is worse than no answer. Fields whose absence the architecture itself defines
// (head_dim, tied embeddings) follow that definition; a language model inside of several parts may leave out
// more, which text_part.cc fills in from its class and says. Nothing else is filled in.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "graph/config_reader.h"
#include "graph/hf_readers.h"
#include "graph/spec.h"
#include "graph/stored_format.h"

namespace orrery::graph {

void read_shape(ConfigReader& r, TransformerSpec& s, const ShapeNames& names) {
  s.kind = "dense";
  bool listed = !r.has(names.layers) && r.has("layers_block_type");
  s.layers = listed ? static_cast<int>(r.list("layers_block_type").size()) : r.positive(names.layers);
  if (s.layers > 100000) base::fail("{}: {} layers are more than any model has", r.origin(), s.layers);
  s.hidden = r.positive(names.hidden);
  if (!names.heads) return;
  s.heads = s.kv_heads = r.integer(names.heads);
  s.head_dim = s.heads ? s.hidden / s.heads : 0;
  if (s.heads && s.hidden % s.heads && !r.has("head_dim") && !r.has("kv_channels") && !r.has("attention_head_dim") &&
      !r.has("qk_nope_head_dim"))
    base::fail("{}: {} = {} is no multiple of {} heads, and no width of a head is given", r.origin(), names.hidden, s.hidden,
               s.heads);
}

void read_common_fields(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {});
  s.kv_heads = r.integer_or("num_key_value_heads", s.heads);
  s.head_dim = r.integer_or("head_dim", s.head_dim);
  r.product("num_attention_heads", s.heads, s.head_dim);
  s.vocab = r.integer("vocab_size");
  s.gated = true;
}

void read_gated_fields(ConfigReader& r, TransformerSpec& s, bool tied) {
  read_common_fields(r, s);
  s.ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", tied);
}

int leading_dense(ConfigReader& r, const TransformerSpec& s, const char* key) {
  int dense = r.integer(key);
  if (dense > s.layers) base::fail("{}: {} = {} of {} layers", r.origin(), key, dense, s.layers);
  return dense;
}

void read_shared_experts(ConfigReader& r, TransformerSpec& s, int count, int each) {
  s.shared_experts = each ? count : 0;
  s.shared_ffn = r.product("shared experts", count, each);
}

void note_further_tokens(ConfigReader& r, TransformerSpec& s, const char* key) {
  if (r.integer_or(key, 0) > 0)
    s.notes.push_back(fmt::format("the layers that predict further tokens ({}) are not counted", key));
}

int listed_windows(ConfigReader& r, const TransformerSpec& s) {
  int n = 0;
  for (const Json& type : r.list("layer_types", s.layers)) {
    if (type != "sliding_attention" && type != "full_attention")
      base::fail("{}: layer type {} is unknown", r.origin(), type.dump());
    n += type == "sliding_attention";
  }
  return n;
}

namespace {

void llama(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.mlp_bias = r.flag_or("mlp_bias", false);
}

void window(ConfigReader& r, TransformerSpec& s, int period) {
  if (!r.has("sliding_window")) return r.ignore({"sliding_window", "layer_types"});
  s.window = r.integer("sliding_window");
  if (r.has("layer_types")) {
    s.window_layers = listed_windows(r, s);
  } else if (period == 1) {
    s.window_layers = s.layers;
  } else {
    s.window_layers = s.layers - s.layers / period;
  }
}

}  // namespace

void window_if_shorter(ConfigReader& r, TransformerSpec& s) {
  if (r.has("sliding_window") && r.has("max_position_embeddings") &&
      r.integer("sliding_window") < r.integer("max_position_embeddings"))
    s.window = r.integer("sliding_window"), s.window_layers = s.layers;
  r.ignore({"sliding_window"});
}

namespace {

// A config without the key `sliding_window` has that of its class; one whose key is null has none.
void mistral(ConfigReader& r, TransformerSpec& s) {
  llama(r, s);
  bool own_class = !r.has("model_type") || r.word("model_type") == "mistral";
  if (own_class && !r.names("sliding_window")) {
    s.window = 4096, s.window_layers = s.layers;
    s.notes.push_back(
        "a window of 4096 tokens, the default of its class: the config does not name sliding_window");
  }
  window(r, s, 1);
}

void mixtral(ConfigReader& r, TransformerSpec& s) {
  llama(r, s);
  window(r, s, 1);
  s.kind = "moe";
  s.experts = r.integer("num_local_experts");
  s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = s.ffn;
  s.ffn = 0;
}

void qwen2(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  s.qkv_bias = true;
  r.only("use_sliding_window", false, "which layers are windowed is not recorded here");
  r.only("use_mrope", false, "multimodal rotary embedding");
  r.ignore({"sliding_window", "layer_types"});
}

void mimo(ConfigReader& r, TransformerSpec& s) {
  qwen2(r, s);
  r.only("attention_bias", true, "queries, keys and values without biases");
  note_further_tokens(r, s);
}

void qwen3(ConfigReader& r, TransformerSpec& s) {
  qwen2(r, s);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", false);
  s.qk_norm = QkNorm::kHead;
}

void qwen3_moe(ConfigReader& r, TransformerSpec& s) {
  qwen3(r, s);
  s.kind = "moe";
  s.ffn = 0;
  s.experts = r.integer("num_experts");
  s.experts_per_token = r.integer("num_experts_per_tok");
  s.expert_ffn = r.integer("moe_intermediate_size");
  r.only("qkv_bias", false, "biases of queries, keys and values");
  r.only("use_qk_norm", true, "queries and keys that are not normalised");
  r.only("shared_expert_intermediate_size", 0, "a shared expert");
  r.only("decoder_sparse_step", 1, "expert layers that alternate with dense ones");
  r.only("mlp_only_layers", Json::array(), "dense layers at given places");
}

void gpt_oss(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.experts = r.has("num_local_experts") ? r.integer("num_local_experts") : r.integer("num_experts");
  s.experts_per_token =
      r.has("num_experts_per_tok") ? r.integer("num_experts_per_tok") : r.integer("experts_per_token");
  r.ignore({"experts_per_token", "num_experts"});
  s.expert_ffn = r.integer("intermediate_size");
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.qkv_bias = s.o_bias = r.flag_or("attention_bias", true);
  s.mlp_bias = s.router_bias = s.sinks = true;
  window(r, s, 2);
}

void gemma2(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.norms_per_layer = 4;
  r.only("attention_bias", false, "biases in attention");
  window(r, s, 2);
  if (r.has("sliding_window_size") && r.integer("sliding_window_size") != s.window)
    base::fail("{}: sliding_window and sliding_window_size differ", r.origin());
  r.ignore({"num_image_tokens"});
}

void gemma3(ConfigReader& r, TransformerSpec& s) {
  gemma2(r, s);
  s.qk_norm = QkNorm::kHead;
  int pattern = r.integer_or("sliding_window_pattern", 6);  // every sixth layer is global
  if (pattern < 1) base::fail("{}: sliding_window_pattern must be positive", r.origin());
  if (!r.has("layer_types")) s.window_layers = s.layers - s.layers / pattern;
}

void phi3(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, false);
  r.only("attention_bias", false, "biases in attention");
  r.only("mlp_bias", false, "biases in the feed-forward part");
  r.only("lm_head_bias", false, "a bias of the head");
  window_if_shorter(r, s);
  r.ignore({"full_attn_mod", "interpolate_factor"});
}

// With a vision tower, an audio tower and adapters for both.
void phi3_with_towers(ConfigReader& r, TransformerSpec& s) {
  phi3(r, s);
  s.notes.push_back("the language model alone: its other parts (vision, audio, adapters) are not counted");
  r.ignore({"img_processor", "audio_processor", "embd_layer", "vision_lora", "speech_lora"});
}

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", llama},
    {"MistralForCausalLM", "mistral", mistral},
    {"MixtralForCausalLM", "mixtral", mixtral},
    {"Qwen2ForCausalLM", "qwen2", qwen2},
    {"MiMoForCausalLM", "mimo", mimo},
    {"Qwen3ForCausalLM", "qwen3", qwen3},
    {"Qwen3MoeForCausalLM", "qwen3-moe", qwen3_moe},
    {"GptOssForCausalLM", "gpt-oss", gpt_oss},
    {"Gemma2ForCausalLM", "gemma-2", gemma2},
    {"Gemma3ForCausalLM", "gemma-3", gemma3},
    {"Phi3ForCausalLM", "phi", phi3},
    {"Phi3VForCausalLM", "phi", phi3_with_towers},
    {"Phi4MMForCausalLM", "phi", phi3_with_towers},
};

// A config that names a published model must have its shape: secondary copies of configs are known to be
// wrong. Of one that is named after a model ("NAME-base") it is only said.
void agree_with_published(TransformerSpec& s, const std::string& origin) {
  const TransformerSpec* known = find_transformer(s.name);
  if (!known) return;
  auto same = [&](const char* what, int here, int there) {
    if (here == there) return;
    std::string difference = fmt::format("names {} but has {} = {} where the published model has {}", known->name, what,
                                         here, there);
    if (names_whole(s.name, *known)) base::fail("{}: {}", origin, difference);
    s.notes.push_back("its config " + difference);
  };
  same("layers", s.layers, known->layers);
  same("hidden size", s.hidden, known->hidden);
  same("heads", s.heads, known->heads);
  same("key-value heads", s.kv_heads, known->kv_heads);
}

}  // namespace

namespace {

// A word that this reader does not know may stand for another width or another shape.
void check_word(const Json& json, const std::string& origin, const char* key,
                std::initializer_list<const char*> known) {
  if (!json.contains(key) || json[key].is_null()) return;
  std::string names;
  for (const char* name : known) {
    if (json[key] == name) return;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  base::fail("{}: {} = {} is unknown; known: {}", origin, key, json[key].dump().substr(0, 60), names);
}
void check_words(const Json& json, const std::string& origin) {
  for (const char* key : {"torch_dtype", "dtype"})
    check_word(json, origin, key, {"bfloat16", "float16", "float32", "auto"});
  for (const char* key : {"hidden_act", "activation_function", "hidden_activation"})
    check_word(json, origin, key,
               {"silu", "swish", "gelu", "gegelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh",
                "gelu_accurate", "quick_gelu", "relu", "relu2", "tanh", "mish", "swigluoai", "xielu", "situ"});
}

void note_stored_format(const Json& json, const std::string& origin, TransformerSpec& spec) {
  StoredFormat f = read_stored_format(json, spec, origin);
  spec.stored_kept = f.kept;
  if (!f.weights.empty()) {
    spec.stored_weights = f.weights + (f.experts_only ? " experts-only" : "");
    spec.stored_note = fmt::format(
        "weights in {} and keys and values in {} as the checkpoint stores them (quantization_config: {})",
        spec.stored_weights, f.kv.empty() ? "16 bits" : f.kv, f.method);
    std::string kept, other;
    for (const std::string& name : f.kept) {
      std::string& list = name.find(' ') == std::string::npos ? kept : other;
      list += (list.empty() ? "" : ", ") + name;
    }
    if (!other.empty()) spec.stored_note += "; besides: " + other;
    if (!kept.empty()) spec.stored_note += "; in 16 bits: " + kept;
  }
  spec.stored_kv = f.kv;
  for (const char* key : {"torch_dtype", "dtype"})
    if (json.contains(key) && json[key] == "float32" && f.weights.empty())
      spec.notes.push_back("the checkpoint is in 32 bits; 16 are counted, as engines load it");
}

// Python writes infinite numbers as words, which JSON has not; where configs have them (time_step_limit) they
// mean no limit. Inside of texts the words stay.
Json parsed(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  std::string plain;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    constexpr std::string_view kWord = "Infinity";
    bool word = !quoted && text.substr(i, kWord.size()) == kWord;
    plain += word ? "1e308" : std::string(1, text[i]);
    if (word) i += kWord.size() - 1;
  }
  return Json::parse(plain, nullptr, false);
}

// A config without a name is called after its file, or its folder when the file is a config.json.
std::string short_name(const std::string& origin) {
  std::filesystem::path path(origin);
  std::string folder = path.parent_path().filename().string();
  return path.stem() == "config" && !folder.empty() ? folder : path.stem().string();
}

// Mamba's own checkpoints name no architecture.
std::string architecture_of(const Json& json, const std::string& origin) {
  if (!json.contains("architectures") && json.contains("ssm_cfg")) return "MambaLMHeadModel";
  if (!json.contains("architectures") || !json["architectures"].is_array() || json["architectures"].empty() ||
      !json["architectures"][0].is_string())
    base::fail("{}: no field 'architectures': the config.json of a Hugging Face model names its class there", origin);
  return json["architectures"][0].get<std::string>();
}

// Known architectures whose names begin as an unknown one does.
std::string like_named(std::span<const Architecture> all, std::string_view name) {
  std::string names;
  for (const Architecture& architecture : all) {
    auto same = std::mismatch(name.begin(), name.end(), architecture.name.begin(), architecture.name.end());
    if (same.first - name.begin() < 4) continue;
    names += (names.empty() ? "known are " : ", ") + std::string(architecture.name);
  }
  return names.empty() ? names : names + "; otherwise ";
}

// The longest text once rotations are stretched, as engines count it: YaRN multiplies the length before it, linear and
// dynamic scaling the one that the config states. Other kinds, and Gemma 3's, are in that length already.
int scaled_positions(const Json& json, int stated) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(key) || !json[key].is_object()) continue;
    const Json& rope = json[key];
    Json kind = rope.value("rope_type", rope.value("type", Json())), factor = rope.value("factor", Json());
    if (!factor.is_number() || json.value("model_type", Json()).dump().starts_with("\"gemma3")) continue;
    Json before = rope.value("original_max_position_embeddings", Json());
    double length = kind == "yarn" || kind == "deepseek_yarn" ? (before.is_number() ? before.get<double>() : stated)
                    : kind == "linear" || kind == "dynamic"    ? stated
                                                               : 0;
    length *= factor.get<double>();
    if (length > stated && length < 1e9) return static_cast<int>(length);
  }
  return stated;
}

}  // namespace

TransformerSpec read_hf_config(std::string_view json_text, const std::string& origin, bool stored) {
  Json json = parsed(json_text);
  if (json.is_discarded() || !json.is_object()) base::fail("{}: not a JSON object", origin);
  std::string name = architecture_of(json, origin);
  TransformerSpec spec;
  take_text_part(json, name, origin, spec.notes);
  std::vector<Architecture> all(std::begin(kArchitectures), std::end(kArchitectures));
  for (auto part : {older_architectures(), family_architectures(), more_architectures(), recent_architectures(), latent_architectures(), linear_architectures(), compressed_architectures(),
                    mixed_architectures(), encoder_architectures(), hybrid_architectures()})
    all.insert(all.end(), part.begin(), part.end());
  for (const Architecture& architecture : all) {
    if (architecture.name != name) continue;
    ConfigReader reader(json, origin);
    spec.family = architecture.family;
    spec.source = origin;
    spec.name = json.contains("_name_or_path") && json["_name_or_path"].is_string() &&
                        !json["_name_or_path"].get_ref<const std::string&>().empty()
                    ? json["_name_or_path"].get<std::string>()
                    : name;
    architecture.read(reader, spec);
    if (reader.has("max_position_embeddings"))
      spec.trained_positions = scaled_positions(json, reader.integer("max_position_embeddings"));
    reader.finish();
    check_words(json, origin);
    try {
      note_stored_format(json, origin, spec);
    } catch (const base::Error& error) {
      if (stored) throw;
      spec.notes.push_back(std::string("the checkpoint's formats are not used: ") + error.what());
    }
    agree_with_published(spec, origin);
    if (spec.name == name) spec.name = short_name(origin);
    return spec;
  }
  base::fail("{}: unknown architecture '{}': {}describe it in a graph file (docs/model.md, which lists the known ones)", origin, name,
             like_named(all, name));
}

}  // namespace orrery::graph
