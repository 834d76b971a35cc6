// Modules that a quantization leaves in 16 bits, by the patterns of its config: names with dots, globs, or
// regular expressions behind "re:". A pattern is taken apart into its words; what they name must be a kind of
// matrix in every layer, or something that is no matrix of a linear layer here (head, embedding, norms,
// router) or is not counted (vision). Anything else is refused: it would be a layer of another size than the
// report says.
#include <algorithm>
#include <map>
#include <set>

#include "graph/stored_format.h"

namespace orrery::graph {
namespace {

using Names = std::vector<std::string>;

// Words of module names and the matrices that they stand for (stored_format.h); none: nothing that is counted
// as a linear layer.
const std::map<std::string, Names, std::less<>>& words() {
  static const std::map<std::string, Names, std::less<>> table = {
      {"self_attn", {"attention"}},
      {"attn", {"attention"}},
      {"attention", {"attention"}},
      {"self_attention", {"attention"}},
      {"linear_attn", {"attention"}},
      {"mixer", {"attention"}},
      {"mlp", {"dense", "shared", "experts"}},
      {"feed_forward", {"dense", "shared", "experts"}},
      {"block_sparse_moe", {"shared", "experts"}},
      {"experts", {"experts"}},
      {"shared_experts", {"shared"}},
      {"shared_expert", {"shared"}},
      {"q_proj", {"q"}},
      {"k_proj", {"k"}},
      {"v_proj", {"v"}},
      {"qkv_proj", {"q", "k", "v"}},
      {"o_proj", {"o"}},
      {"q_a_proj", {"q_a"}},
      {"q_b_proj", {"q_b"}},
      {"kv_b_proj", {"kv_b"}},
      {"kv_a_proj_with_mqa", {"kv_a"}},
      {"fused_qkv_a_proj", {"q_a", "kv_a"}},
      {"fused_qkv_a_proj_with_mqa", {"q_a", "kv_a"}},
      {"gate_proj", {"gate"}},
      {"up_proj", {"up"}},
      {"down_proj", {"down"}},
      {"gate_up_proj", {"gate", "up"}}};
  return table;
}

bool not_counted(const std::string& word) {
  static const std::set<std::string, std::less<>> names = {"lm_head",
                                                           "head",
                                                           "embed",
                                                           "embed_tokens",
                                                           "wte",
                                                           "norm",
                                                           "router",
                                                           "gate",
                                                           "shared_expert_gate",
                                                           "vision",
                                                           "vision_model",
                                                           "vision_tower",
                                                           "visual",
                                                           "audio_tower",
                                                           "multi_modal_projector",
                                                           "mm_projector",
                                                           "mtp",
                                                           "eh_proj",
                                                           "conv1d",
                                                           "embed_vision",
                                                           "embed_audio",
                                                           "indexer",
                                                           "indexers_proj",
                                                           "layernorm",
                                                           "e_score_correction_bias"};
  return names.contains(word) || word.ends_with("norm") || word.ends_with("layernorm");
}

bool only_leads_there(const std::string& word) {
  static const std::set<std::string, std::less<>> names = {
      "re", "model", "language_model", "layers", "transformer", "backbone", "decoder",
      "h",  "d",     "weight",         "blocks"};
  return names.contains(word);
}

struct Pattern {
  Names words;
  int layer = -1;         // the first number of the pattern
  bool numbered = false;  // has another number: an expert, or alternatives of a regular expression
};

Pattern take_apart(const std::string& text) {
  Pattern p;
  std::string word;
  auto end = [&] {
    bool number =
        !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (number && p.layer >= 0)
      p.numbered = true;
    else if (number && word.size() < 6)
      p.layer = std::stoi(word);
    else if (!word.empty() && !only_leads_there(word))
      p.words.push_back(word);
    word.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool escaped = c == '\\' && i + 1 < text.size();  // \. or \d
    if (escaped) ++i;
    if (!escaped && (std::isalnum(static_cast<unsigned char>(c)) || c == '_'))
      word += c;
    else
      end();
  }
  end();
  return p;
}

// Whether a layer of the model has such a matrix: leading layers are dense, and the others have experts.
bool has(const TransformerSpec& spec, int layer, const std::string& matrix) {
  if (!spec.moe() || spec.dense_layers == 0) return true;
  if (matrix == "dense") return layer < spec.dense_layers;
  return (matrix != "experts" && matrix != "shared") || layer >= spec.dense_layers;
}

// Whether layers have a dense part and experts side by side; "mlp" is then the first alone.
bool side_by_side(const TransformerSpec& spec) {
  return std::any_of(spec.groups.begin(), spec.groups.end(), [](const LayerGroup& g) { return g.feed == Feed::kBoth; });
}

// Matrices of one pattern: of projections where it names them, otherwise of the parts that it names; of a layer alone, all
// of it.
Names matrices(const Pattern& p, const std::string& text, const TransformerSpec& spec, const std::string& origin) {
  Names parts, projections;
  if (p.words.empty() && p.layer >= 0) return {"attention", "dense", "shared", "experts"};
  bool harmless = p.words.empty() ? false : std::any_of(p.words.begin(), p.words.end(), not_counted);
  if (harmless) return {};
  for (const std::string& word : p.words) {
    auto found = words().find(word);
    if (found == words().end()) {
      parts.clear(), projections.clear();
      break;
    }
    if (word == "mlp" && side_by_side(spec)) {
      parts.push_back("dense");
      continue;
    }
    Names& into = word.ends_with("proj") || word.ends_with("mqa") ? projections : parts;
    if (word.starts_with("shared") || word == "experts") into.clear();  // a part of the part before it
    into.insert(into.end(), found->second.begin(), found->second.end());
  }
  bool expert = std::find(parts.begin(), parts.end(), "experts") != parts.end() && parts.size() == 1;
  if (expert && !projections.empty())
    parts.clear(), projections.clear();  // some matrices of the experts only
  if (parts.empty() && projections.empty())
    base::fail("{}: quantization_config leaves '{}' in 16 bits, which is not known here: give --weights",
               origin, text);
  return projections.empty() ? parts : projections;
}

}  // namespace

std::vector<std::string> kept_modules(const Json& quantization, const TransformerSpec& spec, const std::string& origin) {
  int layers = spec.layers;
  std::set<std::string> whole;
  std::map<std::string, std::set<int>> some;
  for (const char* key :
       {"modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules", "llm_int8_skip_modules"}) {
    if (!quantization.contains(key) || quantization[key].is_null()) continue;
    if (!quantization[key].is_array()) base::fail("{}: quantization_config.{} must be a list", origin, key);
    for (const Json& entry : quantization[key]) {
      if (!entry.is_string()) base::fail("{}: quantization_config.{} must list names", origin, key);
      std::string text = entry.get<std::string>();
      Pattern p = take_apart(text);
      if (p.layer >= layers) continue;  // layers that predict further tokens are not counted
      Names names = matrices(p, text, spec, origin);
      if (p.numbered && !names.empty())
        base::fail("{}: quantization_config leaves '{}' in 16 bits, which is one of several places: give --weights",
                   origin, text);
      for (const std::string& name : names) {
        if (p.layer < 0)
          whole.insert(name);
        else if (has(spec, p.layer, name))
          some[name].insert(p.layer);
      }
    }
  }
  for (const auto& [name, places] : some) {
    if (whole.contains(name)) continue;
    int all = 0;
    for (int layer = 0; layer < layers; ++layer) all += has(spec, layer, name);
    if (static_cast<int>(places.size()) < all)
      base::fail(
          "{}: quantization_config leaves {} in 16 bits in {} of {} layers, which differ then: give "
          "--weights",
          origin, name, places.size(), all);
    whole.insert(name);
  }
  return {whole.begin(), whole.end()};
}

void keep_wide(Graph& graph, const std::vector<std::string>& kept) {
  AxisId shared = graph.find_axis("shared_ffn");
  auto names = [&](const std::string& what) {
    return std::find(kept.begin(), kept.end(), what) != kept.end();
  };
  for (const Op& op : graph.ops)
    for (TensorId id : op.in) {
      Tensor& t = graph.tensors[id];
      if (t.cls != TensorClass::kWeight || !t.linear) continue;
      bool expert = t.name.starts_with("experts.");
      bool of_shared = shared != kNoAxis && std::find(t.axes.begin(), t.axes.end(), shared) != t.axes.end();
      const char* part = op.part == Part::kAttention ? "attention"
                         : expert                    ? "experts"
                         : of_shared                 ? "shared"
                                                     : "dense";
      std::string stem = t.name.substr(0, t.name.find(".weight"));
      if (names(part) || (!expert && names(stem))) t.dtype = kBf16;
    }
}

}  // namespace orrery::graph
