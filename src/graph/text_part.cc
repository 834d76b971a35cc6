// The language model inside a config.json of several parts (vision, audio, speech): which object it is, which
// architecture it names or its model_type stands for, and what the fields mean that it leaves out.
#include <algorithm>

#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

// By the type of its part, where that names no architecture of its own.
constexpr std::pair<std::string_view, std::string_view> kTextModels[] = {
    {"gemma", "GemmaForCausalLM"},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3_text", "Gemma3ForCausalLM"},
    {"gemma4_text", "Gemma4ForCausalLM"},
    {"llama4_text", "Llama4ForCausalLM"},
    {"mistral", "MistralForCausalLM"},
    {"ministral3", "MistralForCausalLM"},
    {"llama", "LlamaForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM"},
    {"qwen2_vl_text", "Qwen2ForCausalLM"},
    {"qwen2_5_omni_text", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen3_vl_text", "Qwen3ForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"},
    {"qwen3_vl_moe_text", "Qwen3MoeForCausalLM"},
    {"qwen3_omni_moe_text", "Qwen3MoeForCausalLM"},
    {"qwen3_5_text", "Qwen3NextForCausalLM"},
    {"qwen3_5_moe_text", "Qwen3NextForCausalLM"},
    {"glm4", "Glm4ForCausalLM"},
    {"glm4v_text", "Glm4ForCausalLM"},
    {"glm4_moe", "Glm4MoeForCausalLM"},
    {"glm4v_moe_text", "Glm4MoeForCausalLM"},
    {"granite", "GraniteForCausalLM"},
    {"smollm3", "SmolLM3ForCausalLM"},
    {"lfm2", "Lfm2ForCausalLM"},
    {"cohere2", "Cohere2ForCausalLM"},
    {"gpt_oss", "GptOssForCausalLM"},
    {"minimax_m2", "MiniMaxM2ForCausalLM"},
    {"deepseek_v2", "DeepseekV2ForCausalLM"},
    {"deepseek_v3", "DeepseekV3ForCausalLM"},
    {"kimi_k2", "DeepseekV3ForCausalLM"},
    {"minimax_m3_vl_text", "MiniMaxM3ForCausalLM"},
    {"kimi_linear", "KimiLinearForCausalLM"},
    {"step3p5", "Step3p5ForCausalLM"},
};

// Fields that a part may leave out, and what its class takes for them (transformers); a null is not left out.
// Whole models name them all. What was taken is said.
struct Absent {
  std::string_view type, key;
  int value;
};
constexpr Absent kAbsent[] = {
    {"gemma3_text", "vocab_size", 262208},
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "head_dim", 256},
    {"llama", "vocab_size", 32000},
    {"llama", "hidden_size", 4096},
    {"llama", "intermediate_size", 11008},
    {"llama", "num_hidden_layers", 32},
    {"llama", "num_attention_heads", 32},
    {"mistral", "vocab_size", 32000},
    {"mistral", "hidden_size", 4096},
    {"mistral", "intermediate_size", 14336},
    {"mistral", "num_hidden_layers", 32},
    {"mistral", "num_attention_heads", 32},
    {"mistral", "num_key_value_heads", 8},
    {"mistral", "sliding_window", 4096},
};

std::string type_of(const Json& part) {
  return part.contains("model_type") && part["model_type"].is_string() ? part["model_type"].get<std::string>()
                                                                       : "";
}

std::string_view architecture_of_type(std::string_view type) {
  for (const auto& [known, architecture] : kTextModels)
    if (type == known) return architecture;
  return "";
}

const Json* part_of(const Json& json) {
  for (const char* key : {"text_config", "llm_config", "language_config"})
    if (json.contains(key) && json[key].is_object()) return &json[key];
  bool thinks = json.contains("thinker_config") &&
                json["thinker_config"].is_object();  // Qwen Omni: the part that reads and writes
  return thinks ? part_of(json["thinker_config"]) : nullptr;
}

// The architecture that a part names, when it is the class of a language model.
std::string own_architecture(const Json& part) {
  if (!part.contains("architectures") || !part["architectures"].is_array() || part["architectures"].empty() ||
      !part["architectures"][0].is_string())
    return "";
  std::string name = part["architectures"][0];
  return name.ends_with("ForCausalLM") ? name : "";
}

}  // namespace

void take_text_part(Json& json, std::string& name, const std::string& origin,
                    std::vector<std::string>& notes) {
  const Json* part = part_of(json);
  if (!part) {
    // A language model that was taken out keeps the whole's class.
    std::string_view known = architecture_of_type(type_of(json));
    if (name.ends_with("ForConditionalGeneration") && !known.empty()) name = known;
    return;
  }
  Json text = *part;
  std::string type = type_of(text), architecture = std::string(architecture_of_type(type));
  if (architecture.empty()) architecture = own_architecture(text);
  if (architecture.empty()) base::fail("{}: the text part '{}' of {} is unknown", origin, type, name);
  for (const char* key : {"quantization_config", "_name_or_path", "tie_word_embeddings"})
    if (json.contains(key) && !text.contains(key)) text[key] = json[key];
  std::string taken;
  for (const Absent& absent : kAbsent) {
    if (type != absent.type || text.contains(absent.key)) continue;
    text[std::string(absent.key)] = absent.value;
    taken += fmt::format("{}{} = {}", taken.empty() ? "" : ", ", absent.key, absent.value);
  }
  if (!taken.empty()) notes.push_back(fmt::format("its class's, for what its {} part leaves out: {}", type, taken));
  notes.push_back(
      fmt::format("the language model of {} alone: its other parts (vision, audio) are not counted", name));
  json = std::move(text);
  name = architecture;
}

}  // namespace orrery::graph
