// Modules that a quantization leaves in 16 bits, by the patterns of its config: names with dots, globs, or
// regular expressions behind "re:". A pattern is taken apart into its words; what they name must be a kind of
// matrix in every layer, or something that is no matrix of a linear layer here (head, embedding, norms,
// router) or is not counted (vision). Anything else is refused: it would be a layer of another size than the
// report says.
#include <algorithm>
#include <map>
#include <optional>
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
      {"ffn", {"dense", "shared", "experts"}},
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
  return std::any_of(spec.groups.begin(), spec.groups.end(),
                     [](const LayerGroup& g) { return g.feed == Feed::kBoth; });
}

// Matrices of one pattern: of projections where it names them, otherwise of the parts that it names; of a
// layer alone, all of it.
Names matrices(const Pattern& p, const std::string& text, const TransformerSpec& spec,
               const std::string& origin) {
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

std::vector<std::string> kept_modules(const Json& quantization, const TransformerSpec& spec,
                                      const std::string& origin) {
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
        base::fail(
            "{}: quantization_config leaves '{}' in 16 bits, which is one of several places: give --weights",
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

namespace {

// The kind of matrix that a module's name stands for.
std::string kind_of(const std::string& module, const std::string& origin) {
  auto in = [&](const char* part) { return module.find(part) != std::string::npos; };
  if (in("lm_head")) return "head";
  if (in("shared_expert")) return "shared";
  if (in(".experts")) return "experts";
  bool feed = module.ends_with(".up_proj") || module.ends_with(".down_proj");  // Nemotron calls every part a mixer
  if (in("self_attn") || in("linear_attn") || (in(".mixer.") && !feed)) return "attention";
  if (in(".mlp.") || in(".mixer.")) return "dense";
  base::fail(
      "{}: quantization_config stores '{}' in a format of its own, which is not known here: give --weights",
      origin, module);
}

// Layers that have matrices of a kind.
int layers_with(const TransformerSpec& spec, const std::string& kind) {
  if (kind == "head") return 1;
  if (kind == "shared" && spec.shared_experts == 0) return 0;
  int n = 0;
  for (const LayerGroup& g : spec.groups)
    if (kind == "attention" ? g.mixer != Mixer::kNone
        : kind == "dense"   ? g.feed == Feed::kDense || g.feed == Feed::kBoth
                            : g.feed == Feed::kExperts || g.feed == Feed::kBoth)
      n += g.count;
  if (!spec.groups.empty()) return n;
  if (!spec.moe() && (kind == "experts" || kind == "shared")) return 0;
  if (spec.moe() && spec.dense_layers == 0 && kind == "dense") return 0;
  for (int layer = 0; layer < spec.layers; ++layer) n += has(spec, layer, kind);
  return n;
}

// Matrices of a layer that a module holds: most names say it (words()), the others have one of their own.
Names matrices_of(const std::string& leaf, const std::string& module, const std::string& origin) {
  static const std::map<std::string, Names, std::less<>> more = {
      {"w1", {"gate"}},
      {"w2", {"down"}},
      {"w3", {"up"}},
      {"experts", {"gate", "up", "down"}},
      {"in_proj", {"in"}},
      {"x_proj", {"x"}},
      {"dt_proj", {"dt"}},
      {"out_proj", {"out"}},
      {"in_proj_qkvz", {"in_qkv", "in_z"}},
      {"in_proj_qkv", {"in_qkv"}},
      {"in_proj_z", {"in_z"}},
      {"in_proj_ba", {}},
      {"in_proj_a", {}},
      {"in_proj_b", {}}};
  if (auto found = more.find(leaf); found != more.end()) return found->second;
  if (auto found = words().find(leaf); found != words().end() && (leaf.ends_with("proj") || leaf.ends_with("mqa")))
    return found->second;
  base::fail(
      "{}: quantization_config stores '{}' in a format of its own, which is not known here: give --weights",
      origin, module);
}

// What a layer's part must list to be stored in one format: for attention, one of these sets.
std::vector<std::set<std::string>> whole_parts(const TransformerSpec& spec, const std::string& kind) {
  if (kind != "attention")
    return {spec.gated ? std::set<std::string>{"gate", "up", "down"} : std::set<std::string>{"up", "down"}};
  std::vector<LayerGroup> groups = spec.groups;
  if (groups.empty()) groups.resize(1);
  if (spec.ssm_layers > 0) groups.push_back({1, Mixer::kMamba2, Feed::kNone});
  std::vector<std::set<std::string>> out;
  for (const LayerGroup& g : groups) {
    if (g.mixer == Mixer::kMamba2 || g.mixer == Mixer::kShortConv)
      out.push_back({"in", "out"});
    else if (g.mixer == Mixer::kMamba1)
      out.push_back({"in", "x", "dt", "out"});
    else if (g.mixer == Mixer::kCompressed)
      out.push_back({"q_a", "q_b", "kv", "o_a", "o_b"});
    else if (g.mixer == Mixer::kDelta)
      out.push_back({"in_qkv", "in_z", "out"});
    else if ((g.mixer == Mixer::kAttention || g.mixer == Mixer::kWindow) && spec.mla())
      out.push_back(spec.q_lora ? std::set<std::string>{"q_a", "q_b", "kv_a", "kv_b", "o"}
                                : std::set<std::string>{"q", "kv_a", "kv_b", "o"});
    else if (g.mixer == Mixer::kAttention || g.mixer == Mixer::kWindow)
      out.push_back(g.keys_are_values ? std::set<std::string>{"q", "k", "o"} : std::set<std::string>{"q", "k", "v", "o"});
  }
  return out;
}

// What the list names of one layer's part: how often each matrix (experts may be named one by one).
struct Listed {
  std::map<std::string, int> times;
  bool one_by_one = false;
};

void check_whole(const Listed& listed, int layer, const std::string& kind, const TransformerSpec& spec,
                 const std::string& origin) {
  if (kind == "head") return;
  int times = listed.one_by_one ? spec.experts : 1;
  auto all_listed = [&](const std::set<std::string>& part) {
    return std::all_of(part.begin(), part.end(), [&](const std::string& name) {
      auto found = listed.times.find(name);
      return found != listed.times.end() && found->second == times;
    });
  };
  auto parts = whole_parts(spec, kind);
  if (std::any_of(parts.begin(), parts.end(), all_listed)) return;
  std::string names;
  for (const auto& [name, n] : listed.times)
    names += (names.empty() ? "" : ", ") + name + (listed.one_by_one ? fmt::format(" of {} experts", n) : "");
  base::fail("{}: quantization_config.quantized_layers lists of {} in layer {} only {}: give --weights", origin, kind, layer,
             names);
}

std::string format_named(const Json& module, const std::string& name, const std::string& origin) {
  Json algo = module.is_object() && module.contains("quant_algo") ? module["quant_algo"] : Json();
  if (algo == "FP8" || algo == "FP8_PB_WO") return "fp8";
  if (algo == "NVFP4" || algo == "W4A16_NVFP4") return "nvfp4";
  base::fail("{}: quantization_config.quantized_layers: {} has quant_algo {}, which is unknown; known: FP8, NVFP4, "
             "W4A16_NVFP4",
             origin, name, algo.dump());
}

}  // namespace

void formats_by_module(const Json& modules, const TransformerSpec& spec, const std::string& origin,
                       StoredFormat& f) {
  if (!modules.is_object() || modules.empty())
    base::fail("{}: quantization_config.quantized_layers names no module", origin);
  std::map<std::string, std::string> formats;
  std::map<std::string, std::map<int, Listed>> places;
  for (const auto& [name, module] : modules.items()) {
    Pattern p = take_apart(name);
    if (p.layer >= spec.layers) continue;  // layers that predict further tokens are not counted
    std::string kind = kind_of(name, origin), format = format_named(module, name, origin);
    std::string leaf = name.substr(name.rfind('.') + 1);
    bool head = kind == "head";
    if (!head && not_counted(leaf)) continue;
    if (!head && p.layer < 0)
      base::fail("{}: quantization_config.quantized_layers: {} names no layer: give --weights", origin, name);
    std::string& known = formats.try_emplace(kind, format).first->second;
    if (known != format)
      base::fail("{}: quantization_config stores some matrices of {} in {} and some in {}: give --weights",
                 origin, kind, known, format);
    Listed& listed = places[kind][head ? 0 : p.layer];
    if (head) continue;
    listed.one_by_one |= kind == "experts" && p.numbered;
    for (const std::string& matrix : matrices_of(leaf, name, origin)) ++listed.times[matrix];
  }
  for (const auto& [kind, layers] : places)
    for (const auto& [layer, listed] : layers) check_whole(listed, layer, kind, spec, origin);
  for (const auto& [kind, format] : formats)
    if (int all = layers_with(spec, kind); static_cast<int>(places[kind].size()) != all)
      base::fail("{}: quantization_config stores {} in {} in {} of {} layers, which differ then: give --weights",
                 origin, kind, format, places[kind].size(), all);
  for (const char* kind : {"experts", "dense", "attention", "shared", "head"})  // the largest that there is
    if (f.weights.empty() && formats.contains(kind)) f.weights = formats[kind];
  for (const char* kind : {"attention", "dense", "shared", "experts", "head"}) {
    auto found = formats.find(kind);
    if (found == formats.end() && std::string(kind) != "head" && layers_with(spec, kind) > 0)
      f.kept.push_back(kind);
    if (found != formats.end() && (found->second != f.weights || found->first == "head"))
      f.kept.push_back(std::string(kind) + " " + found->second);
  }
}

void keep_wide(Graph& graph, const std::vector<std::string>& kept) {
  AxisId shared = graph.find_axis("shared_ffn");
  // The format that the list gives to a matrix.
  auto named = [&](const std::string& what) -> std::optional<DType> {
    for (const std::string& entry : kept) {
      auto space = entry.find(' ');
      if (entry.substr(0, space) == what)
        return space == std::string::npos ? kBf16 : parse_dtype(entry.substr(space + 1));
    }
    return std::nullopt;
  };
  for (const Op& op : graph.ops)
    for (TensorId id : op.in) {
      Tensor& t = graph.tensors[id];
      if (t.cls != TensorClass::kWeight) continue;
      if (op.part == Part::kHead && op.kind == OpKind::kContract) t.dtype = named("head").value_or(t.dtype);
      if (!t.linear) continue;
      bool expert = t.name.starts_with("experts.");
      bool of_shared = shared != kNoAxis && std::find(t.axes.begin(), t.axes.end(), shared) != t.axes.end();
      const char* part = op.part == Part::kAttention ? "attention"
                         : expert                    ? "experts"
                         : of_shared                 ? "shared"
                                                     : "dense";
      std::string stem = t.name.substr(0, t.name.find(".weight"));
      std::optional<DType> own = named(part);
      if (!own && !expert) own = named(stem);
      t.dtype = own.value_or(t.dtype);
    }
}

}  // namespace orrery::graph
