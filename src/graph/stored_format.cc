// Methods: fp8 and fbgemm_fp8, mxfp4, gptq, awq, bitsandbytes, compressed-tensors, modelopt. Modules that a method leaves in
// 16 bits are kept_modules.cc; scales of 128 x 128 blocks (0.02%) are not counted.
#include "graph/stored_format.h"

namespace orrery::graph {
namespace {

struct Field {
  const Json& json;
  const std::string& origin;

  [[noreturn]] void refuse(const char* key, const Json& value) const {
    base::fail("{}: quantization_config.{} = {} is unknown", origin, key, value.dump().substr(0, 60));
  }
  int integer(const char* key, int absent) const {
    if (!json.contains(key) || json[key].is_null()) return absent;
    if (!json[key].is_number_integer()) refuse(key, json[key]);
    return json[key].get<int>();
  }
  bool flag(const char* key) const {
    return json.contains(key) && json[key].is_boolean() && json[key].get<bool>();
  }
  std::string text(const char* key, const char* absent) const {
    if (!json.contains(key) || json[key].is_null()) return absent;
    if (!json[key].is_string()) refuse(key, json[key]);
    return json[key].get<std::string>();
  }
};

std::string integers(int bits, int group) {
  return group > 0 ? fmt::format("int{} g{}", bits, group) : fmt::format("int{}", bits);
}

std::string kv_scheme(const Json& config, const std::string& origin) {
  if (!config.contains("kv_cache_scheme") || config["kv_cache_scheme"].is_null()) return "";
  if (config["kv_cache_scheme"] == "FP8") return "fp8";
  Field scheme{config["kv_cache_scheme"], origin};
  if (scheme.integer("num_bits", 0) == 8) return scheme.text("type", "float") == "float" ? "fp8" : "int8";
  scheme.refuse("kv_cache_scheme", scheme.json);
}

std::string scheme_of(const Json& weights, const std::string& origin) {
  Field w{weights, origin};
  int bits = w.integer("num_bits", 0), group = w.integer("group_size", 0);
  std::string type = w.text("type", "int");
  if (type == "float" && bits == 8) return "fp8";
  if (type == "float" && bits == 4) return group == 32 ? "mxfp4" : "nvfp4";
  if (type == "int" && (bits == 4 || bits == 3 || bits == 2)) return integers(bits, group);
  if (type == "int" && bits == 8) return "int8";
  w.refuse("weights", weights);
}

void compressed_tensors(const Json& q, const std::string& origin, StoredFormat& f) {
  if (!q.contains("config_groups") || !q["config_groups"].is_object() || q["config_groups"].empty())
    base::fail("{}: quantization_config has no config_groups", origin);
  for (const auto& [name, group] : q["config_groups"].items()) {
    if (!group.contains("weights") || !group["weights"].is_object())
      base::fail("{}: config_groups.{} has no weights", origin, name);
    std::string format = scheme_of(group["weights"], origin);
    if (!f.weights.empty() && f.weights != format)
      base::fail("{}: quantization_config stores some layers in {} and some in {}: give --weights", origin,
                 f.weights, format);
    f.weights = format;
  }
  f.kv = kv_scheme(q, origin);
}

void modelopt(const Json& q, const TransformerSpec& spec, const std::string& origin, StoredFormat& f) {
  const Json& inner = q.contains("quantization") ? q["quantization"] : q;
  Field m{inner, origin};
  std::string algo = m.text("quant_algo", ""), kv = m.text("kv_cache_quant_algo", "");
  if (algo.empty() && !kv.empty())
    f.weights.clear();  // keys and values alone
  else if (algo == "FP8" || algo == "FP8_PB_WO")
    f.weights = "fp8";
  else if (algo == "NVFP4")
    f.weights = "nvfp4";
  else if (algo == "W4A16_AWQ" || algo == "W4A8_AWQ")
    f.weights = integers(4, m.integer("group_size", 128));
  else if (algo == "MIXED_PRECISION" && inner.contains("quantized_layers"))
    formats_by_module(inner["quantized_layers"], spec, origin, f);
  else
    base::fail("{}: quantization_config.quant_algo '{}' is unknown; known: FP8, NVFP4, W4A16_AWQ, W4A8_AWQ, and "
               "MIXED_PRECISION with quantized_layers",
               origin, algo);
  if (kv == "FP8")
    f.kv = "fp8";
  else if (!kv.empty())
    base::fail("{}: quantization_config.kv_cache_quant_algo '{}' is unknown; known: FP8", origin, kv);
  else
    f.kv = kv_scheme(q, origin);
}

}  // namespace

StoredFormat read_stored_format(const Json& config, const TransformerSpec& spec, const std::string& origin) {
  StoredFormat f;
  if (!config.contains("quantization_config") || config["quantization_config"].is_null()) return f;
  const Json& q = config["quantization_config"];
  if (!q.is_object()) base::fail("{}: quantization_config is no object", origin);
  Field field{q, origin};
  f.method = field.text("quant_method", "");
  if (f.method.empty() && q.contains("producer") && q["producer"].is_object())
    f.method = Field{q["producer"], origin}.text("name", "");  // written without a method by the tool that it names
  if (f.method == "fp8" || f.method == "fbgemm_fp8") {
    f.weights = q.contains("weight_block_size") && !q["weight_block_size"].is_null() ? "fp8 block" : "fp8";
  } else if (f.method == "mxfp4") {
    f.weights = "mxfp4", f.experts_only = true;
  } else if (f.method == "gptq") {
    f.weights = integers(field.integer("bits", 4), std::max(0, field.integer("group_size", 0)));
  } else if (f.method == "awq") {
    f.weights = integers(field.integer("bits", field.integer("w_bit", 4)),
                         field.integer("group_size", field.integer("q_group_size", 128)));
  } else if (f.method == "bitsandbytes") {
    if (field.flag("load_in_4bit"))
      f.weights = field.flag("bnb_4bit_use_double_quant") ? "nf4 dq" : "nf4";
    else if (field.flag("load_in_8bit"))
      f.weights = "int8";
    else
      base::fail("{}: quantization_config of bitsandbytes loads neither in 4 nor in 8 bits", origin);
  } else if (f.method == "compressed-tensors") {
    compressed_tensors(q, origin, f);
  } else if (f.method == "modelopt" || f.method == "modelopt_fp4") {
    modelopt(q, spec, origin, f);
  } else {
    base::fail(
        "{}: quantization method '{}' is unknown; known: fp8, fbgemm_fp8, mxfp4, gptq, awq, bitsandbytes, "
        "compressed-tensors, modelopt",
        origin, f.method);
  }
  if (f.kept.empty() && !f.weights.empty()) f.kept = kept_modules(q, spec, origin);
  if (f.method == "fp8" && config.contains("expert_dtype") && config["expert_dtype"] == "fp4") f.kept.push_back("experts mxfp4");
  return f;
}

}  // namespace orrery::graph
