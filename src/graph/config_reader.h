// Reading of a config.json that refuses what it does not know: shared by the readers of language models and
// denoisers.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.h"

namespace orrery::graph {

using Json = nlohmann::json;

class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string origin) : json_(json), origin_(std::move(origin)) {}

  int integer(const char* key) { return whole(required(key), key); }
  // The same of a value inside of `key`.
  int whole(const Json& value, const char* key) const {
    if (!value.is_number_integer() || value.get<long long>() < 0 || value.get<long long>() > 2000000000)
      base::fail("{}: {} must be a whole number, not {}", origin_, key, value.dump());
    return value.get<int>();
  }
  // A whole number of at least 1.
  int positive(const char* key) {
    int n = integer(key);
    if (n < 1) base::fail("{}: {} must be at least 1", origin_, key);
    return n;
  }
  // a x b, refused where no model can be so large.
  int product(const char* what, int a, int b) const {
    long long n = static_cast<long long>(a) * b;
    if (n > 2000000000) base::fail("{}: {} of {} x {} is more than any model has", origin_, what, a, b);
    return static_cast<int>(n);
  }
  int integer_or(const char* key, int absent) {
    return has(key) ? integer(key) : (known_.insert(key), absent);
  }
  int positive_or(const char* key, int absent) {
    return has(key) ? positive(key) : (known_.insert(key), absent);
  }
  bool flag_or(const char* key, bool absent) {
    if (!has(key)) return known_.insert(key), absent;
    const Json& value = required(key);
    if (!value.is_boolean()) base::fail("{}: {} must be true or false, not {}", origin_, key, value.dump());
    return value.get<bool>();
  }
  bool has(const char* key) { return json_.contains(key) && !json_[key].is_null(); }
  bool names(const char* key) const { return json_.contains(key); }  // null, too
  const Json& required(const char* key) {
    known_.insert(key);
    if (!json_.contains(key) || json_[key].is_null()) base::fail("{}: no field '{}'", origin_, key);
    return json_[key];
  }
  // A list of `count` entries (any number when negative).
  const Json& list(const char* key, int count = -1) {
    const Json& value = required(key);
    if (!value.is_array()) base::fail("{}: {} must be a list, not {}", origin_, key, value.dump());
    if (count >= 0 && value.size() != static_cast<std::size_t>(count))
      base::fail("{}: {} has {} entries for {} layers", origin_, key, value.size(), count);
    return value;
  }
  // An object inside: whoever reads it finishes it.
  ConfigReader part(const char* key) { return inside(required(key), key); }
  ConfigReader inside(const Json& value, const std::string& where) const {
    if (!value.is_object()) base::fail("{}: {} must be an object, not {}", origin_, where, value.dump().substr(0, 60));
    return ConfigReader(value, origin_ + ": " + where);
  }
  // Numbers of layers, of which there are `layers` from `first` on.
  std::set<int> places(const char* key, int layers, int first = 0) {
    std::set<int> out;
    for (const Json& layer : list(key)) out.insert(place(whole(layer, key), key, layers, first));
    return out;
  }
  int place(int layer, const char* key, int layers, int first = 0) const {
    if (layer < first || layer >= first + layers)
      base::fail("{}: {} names layer {} of {}", origin_, key, layer, layers);
    return layer;
  }
  std::string word(const char* key) {
    const Json& value = required(key);
    if (!value.is_string()) base::fail("{}: {} must be text, not {}", origin_, key, value.dump());
    return value.get<std::string>();
  }
  void ignore(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }
  // Refuses a field that is set to anything but `harmless`.
  void only(const char* key, const Json& harmless, const char* why) {
    known_.insert(key);
    if (has(key) && json_[key] != harmless)
      base::fail("{}: {} = {} is not supported: {}", origin_, key, json_[key].dump(), why);
  }
  void finish() const {
    for (const auto& [key, value] : json_.items())
      if (!known_.contains(key) && !harmless(key) && !value.is_null() && !switched_off(key, value))
        base::fail("{}: field '{}' = {} is unknown to the reader of this architecture", origin_, key,
                   value.dump().substr(0, 60));
  }
  const std::string& origin() const { return origin_; }

 private:
  // Parts that a dump of every default names although the model does not have them.
  static bool switched_off(const std::string& key, const Json& value) {
    static const std::set<std::string> names = {"add_cross_attention", "is_encoder_decoder", "tie_encoder_decoder"};
    if (key == "pruned_heads") return value.is_object() && value.empty();
    return value == false && names.contains(key);
  }
  static bool harmless(const std::string& key) {
    static const std::set<std::string> names = {"architectures",
                                                "model_type",
                                                "_name_or_path",
                                                "transformers_version",
                                                "torch_dtype",
                                                "dtype",
                                                "use_cache",
                                                "bos_token_id",
                                                "eos_token_id",
                                                "pad_token_id",
                                                "unk_token_id",
                                                "initializer_range",
                                                "rms_norm_eps",
                                                "norm_epsilon",
                                                "layer_norm_eps",
                                                "layer_norm_epsilon",
                                                "rope_theta",
                                                "rope_scaling",
                                                "rope_parameters",
                                                "max_position_embeddings",
                                                "hidden_act",
                                                "activation_function",
                                                "hidden_activation",
                                                "attention_dropout",
                                                "hidden_dropout",
                                                "hidden_dropout_prob",
                                                "attention_probs_dropout_prob",
                                                "dropout",
                                                "layerdrop",
                                                "pretraining_tp",
                                                "slow_but_exact",
                                                "auto_map",
                                                "router_aux_loss_coef",
                                                "output_router_logits",
                                                "router_jitter_noise",
                                                "transformers.js_config",
                                                "embd_pdrop",
                                                "resid_pdrop",
                                                "original_max_position_embeddings",
                                                "max_window_layers",
                                                "id2label",
                                                "label2id",
                                                "gradient_checkpointing",
                                                "init_std",
                                                "prefix",
                                                "bias_dropout_fusion",
                                                "attn_pdrop",
                                                "activation_dropout",
                                                "summary_activation",
                                                "summary_first_dropout",
                                                "summary_proj_to_labels",
                                                "summary_type",
                                                "summary_use_proj",
                                                "task_specific_params",
                                                "masked_softmax_fusion",
                                                "apply_residual_connection_post_layernorm",
                                                "swiglu_limit",
                                                "initial_context_length",
                                                "cache_implementation",
                                                "query_pre_attn_scalar",
                                                "attn_logit_softcapping",
                                                "final_logit_softcapping",
                                                "_attn_implementation",
                                                "attn_implementation",
                                                "model_max_length",
                                                "_attn_implementation_autoset",
                                                "output_attentions",
                                                "output_hidden_states",
                                                "return_dict",
                                                "sep_token_id",
                                                "tokenizer_class",
                                                "is_decoder",
                                                "chunk_size_feed_forward",
                                                "problem_type",
                                                "finetuning_task",
                                                "torchscript",
                                                "unsloth_version",
                                                "unsloth_fixed",
                                                "use_bfloat16",
                                                "cls_token_id",
                                                "classifier_dropout",
                                                "directionality",
                                                "position_embedding_type",
                                                "partial_rotary_factor",
                                                "_sliding_window_pattern",
                                                "sliding_window_pattern",
                                                "rope_local_base_freq",
                                                "ep_size",
                                                "seq_aux",
                                                "aux_loss_alpha",
                                                "scoring_func",
                                                "topk_method",
                                                "topk_group",
                                                "n_group",
                                                "norm_topk_prob",
                                                "routed_scaling_factor",
                                                "rope_interleave",
                                                "quantization_config",
                                                "encoder_stride",
                                                // How text is generated, which a dump of every default names.
                                                "begin_suppress_tokens",
                                                "decoder_start_token_id",
                                                "diversity_penalty",
                                                "do_sample",
                                                "early_stopping",
                                                "encoder_no_repeat_ngram_size",
                                                "length_penalty",
                                                "max_length",
                                                "min_length",
                                                "no_repeat_ngram_size",
                                                "num_beam_groups",
                                                "num_beams",
                                                "num_return_sequences",
                                                "output_scores",
                                                "remove_invalid_values",
                                                "repetition_penalty",
                                                "return_dict_in_generate",
                                                "temperature",
                                                "tf_legacy_loss",
                                                "top_k",
                                                "top_p",
                                                "typical_p"};
    return names.contains(key);
  }

  const Json& json_;
  std::string origin_;
  std::set<std::string> known_;
};

}  // namespace orrery::graph
