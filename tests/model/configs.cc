// Configs as their publishers write them (facts of the shape; fields without effect are left out) and the
// size of the checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/walk.h"

namespace orrery::graph {
namespace {

struct Case {
  const char* name;
  double parameters, tolerance;  // 0: the checkpoint's own count
  const char* json;
};

constexpr Case kCases[] = {
    {"qwen1.5-moe", 14315784192.0, 0,
     R"({"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","hidden_size":2048,
"intermediate_size":5632,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,
"num_attention_heads":16,"num_key_value_heads":16,"num_hidden_layers":24,"num_experts":60,
"num_experts_per_tok":4,"decoder_sparse_step":1,"norm_topk_prob":false,"sliding_window":32768,
"use_sliding_window":false,"max_position_embeddings":8192,"tie_word_embeddings":false,
"vocab_size":151936})"},
    {"phi-2", 2779683840.0, 0,
     R"({"architectures":["PhiForCausalLM"],"model_type":"phi","embd_pdrop":0.0,"hidden_size":2560,
"intermediate_size":10240,"max_position_embeddings":2048,"num_attention_heads":32,
"num_hidden_layers":32,"num_key_value_heads":32,"partial_rotary_factor":0.4,
"qk_layernorm":false,"resid_pdrop":0.1,"tie_word_embeddings":false,"vocab_size":51200})"},
    {"phi-3.5-moe", 41873153344.0, 0,
     R"({"architectures":["PhiMoEForCausalLM"],"model_type":"phimoe","attention_bias":true,
"hidden_dropout":0.0,"hidden_size":4096,"input_jitter_noise":0.01,"intermediate_size":6400,
"lm_head_bias":true,"max_position_embeddings":131072,"num_attention_heads":32,
"num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,"num_local_experts":16,
"original_max_position_embeddings":4096,"sliding_window":131072,"tie_word_embeddings":false,
"vocab_size":32064})"},
    {"glm-4.5-air", 106852251264.0, 0,
     R"({"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","attention_bias":true,
"head_dim":128,"hidden_size":4096,"partial_rotary_factor":0.5,"intermediate_size":10944,
"max_position_embeddings":131072,"moe_intermediate_size":1408,"n_group":1,"topk_group":1,
"n_routed_experts":128,"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":96,
"num_experts_per_tok":8,"first_k_dense_replace":1,"num_hidden_layers":46,
"num_key_value_heads":8,"num_nextn_predict_layers":1,"tie_word_embeddings":false,
"use_qk_norm":false,"vocab_size":151552,"routed_scaling_factor":1.0})"},
    {"nemotron-3-nano-30b-a3b", 31.6e9, 0.005,
     R"({"architectures":["NemotronHForCausalLM"],"attention_bias":false,"chunk_size":128,"conv_kernel":4,
"expand":2,"head_dim":128,"hidden_size":2688,
"hybrid_override_pattern":"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
"intermediate_size":1856,"mamba_head_dim":64,"mamba_hidden_act":"silu","mamba_num_heads":64,
"mamba_proj_bias":false,"mamba_ssm_cache_dtype":"float32","max_position_embeddings":262144,
"mlp_bias":false,"mlp_hidden_act":"relu2","model_type":"nemotron_h","moe_intermediate_size":1856,
"moe_shared_expert_intermediate_size":3712,"n_group":1,"n_groups":8,"n_routed_experts":128,
"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":32,"num_experts_per_tok":6,
"num_hidden_layers":52,"num_key_value_heads":2,"partial_rotary_factor":1.0,
"routed_scaling_factor":2.5,"ssm_state_size":128,"tie_word_embeddings":false,"topk_group":1,
"use_bias":false,"use_conv_bias":true,"vocab_size":131072})"},
    {"nemotron-3-super-120b-a12b", 120.6e9, 0.01,
     R"({"architectures":["NemotronHForCausalLM"],"attention_bias":false,"chunk_size":128,"conv_kernel":4,
"expand":2,"head_dim":128,"hidden_size":4096,
"hybrid_override_pattern":"MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
"intermediate_size":2688,"mamba_head_dim":64,"mamba_hidden_act":"silu","mamba_num_heads":128,
"mamba_proj_bias":false,"mamba_ssm_cache_dtype":"float32","max_position_embeddings":262144,
"mlp_bias":false,"mlp_hidden_act":"relu2","model_type":"nemotron_h","moe_intermediate_size":2688,
"moe_latent_size":1024,"moe_shared_expert_intermediate_size":5376,"moe_shared_expert_overlap":false,
"mtp_hybrid_override_pattern":"*E","n_group":1,"n_groups":8,"n_routed_experts":512,
"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":32,"num_experts_per_tok":22,
"num_hidden_layers":88,"num_key_value_heads":2,"num_nextn_predict_layers":1,
"partial_rotary_factor":1.0,"routed_scaling_factor":5.0,"ssm_state_size":128,
"tie_word_embeddings":false,"time_step_limit":[0.0,Infinity],"topk_group":1,"use_bias":false,
"use_conv_bias":true,"vocab_size":131072})"},
    {"nemotron-3-ultra-550b-a55b", 550e9, 0.02,
     R"({"architectures":["NemotronHForCausalLM"],"attention_bias":false,"chunk_size":128,"conv_kernel":4,
"expand":2,"head_dim":128,"hidden_size":8192,"intermediate_size":5120,"layers_block_type":["mamba",
"moe","mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe","mamba","moe","mamba",
"attention","moe","mamba","moe","mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe",
"mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe","mamba","moe","mamba",
"attention","moe","mamba","moe","mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe",
"mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe","mamba","moe","mamba",
"attention","moe","mamba","moe","mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe",
"mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe","mamba","moe","mamba",
"attention","moe","mamba","moe","mamba","moe","mamba","moe","mamba","attention","moe","mamba","moe",
"mamba","moe","mamba","moe","mamba","moe"],"mamba_head_dim":64,"mamba_hidden_act":"silu",
"mamba_num_heads":256,"mamba_proj_bias":false,"mamba_ssm_cache_dtype":"float32",
"max_position_embeddings":262144,"mlp_bias":false,"mlp_hidden_act":"relu2",
"model_type":"nemotron_h","moe_intermediate_size":5120,"moe_latent_size":2048,
"moe_shared_expert_intermediate_size":10240,"moe_shared_expert_overlap":false,
"mtp_layers_block_type":["attention","moe"],"n_group":1,"n_groups":8,"n_routed_experts":512,
"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":64,"num_experts_per_tok":22,
"num_key_value_heads":2,"num_nextn_predict_layers":1,"partial_rotary_factor":1.0,
"routed_scaling_factor":5.0,"ssm_state_size":128,"tie_word_embeddings":false,"time_step_limit":[0.0,
1e+308],"topk_group":1,"use_bias":false,"use_conv_bias":true,"vocab_size":131072})"},
    {"nemotron-h-56b", 56e9, 0.02,
     R"({"architectures":["NemotronHForCausalLM"],"attention_bias":false,"attention_head_dim":128,
"chunk_size":128,"conv_kernel":4,"expand":2,"hidden_size":8192,
"hybrid_override_pattern":"M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
"intermediate_size":32768,"mamba_head_dim":64,"mamba_hidden_act":"silu","mamba_num_heads":256,
"mamba_proj_bias":false,"max_position_embeddings":8192,"mlp_bias":false,"mlp_hidden_act":"relu2",
"model_type":"nemotron_h","n_groups":8,"num_attention_heads":64,"num_hidden_layers":118,
"num_key_value_heads":8,"ssm_state_size":256,"tie_word_embeddings":false,"time_step_limit":[0.0,
Infinity],"time_step_rank":512,"use_bias":false,"use_conv_bias":true,"vocab_size":131072})"},
    // Its card says 7.83 billion with the layer that predicts further tokens, which is 0.21 of them.
    {"mimo-7b", 7.62e9, 0.005,
     R"({"architectures":["MiMoForCausalLM"],"model_type":"mimo","num_hidden_layers":36,"hidden_size":4096,
"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"intermediate_size":11008,
"vocab_size":151680,"max_position_embeddings":32768,"hidden_act":"silu","attention_bias":true,
"max_window_layers":32,"use_sliding_window":false,"use_mrope":false,"num_nextn_predict_layers":1,
"tie_word_embeddings":false})"},
    {"gemma-2b", 2506172416.0, 0,
     R"({"architectures":["GemmaForCausalLM"],"model_type":"gemma","attention_bias":false,
"head_dim":256,"hidden_activation":null,"hidden_size":2048,"intermediate_size":16384,
"max_position_embeddings":8192,"num_attention_heads":8,"num_hidden_layers":18,
"num_key_value_heads":1,"vocab_size":256000})"},
    {"gemma-3-1b", 999885952.0, 0,
     R"({"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","attention_bias":false,
"attn_logit_softcapping":null,"cache_implementation":"hybrid","final_logit_softcapping":null,
"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,
"intermediate_size":6912,"max_position_embeddings":32768,"num_attention_heads":4,
"num_hidden_layers":26,"num_key_value_heads":1,"query_pre_attn_scalar":256,
"rope_local_base_freq":10000,"sliding_window":512,"sliding_window_pattern":6,
"vocab_size":262144})"},
    {"gemma-3-4b", 3880263168.0, 0,
     R"({"architectures":["Gemma3ForConditionalGeneration"],"model_type":"gemma3",
"boi_token_index":255999,"mm_tokens_per_image":256,"image_token_index":262144,
"text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text",
"num_hidden_layers":34,"sliding_window":1024},"vision_config":{"hidden_size":1152}})"},
    {"gpt-neox-20b", 20554567680.0, 0,
     R"({"architectures":["GPTNeoXForCausalLM"],"model_type":"gpt_neox",
"attention_probs_dropout_prob":0,"hidden_dropout_prob":0,"hidden_size":6144,
"intermediate_size":24576,"max_position_embeddings":2048,"num_attention_heads":64,
"num_hidden_layers":44,"rotary_emb_base":10000,"rotary_pct":0.25,"tie_word_embeddings":false,
"vocab_size":50432,"use_parallel_residual":true})"},
    {"pythia-6.9b", 6857302016.0, 0,
     R"({"architectures":["GPTNeoXForCausalLM"],"model_type":"gpt_neox","hidden_size":4096,
"intermediate_size":16384,"max_position_embeddings":2048,"num_attention_heads":32,
"num_hidden_layers":32,"rotary_emb_base":10000,"rotary_pct":0.25,"tie_word_embeddings":false,
"use_parallel_residual":true,"vocab_size":50432})"},
    {"olmo2-7b", 7298617344.0, 0,
     R"({"architectures":["Olmo2ForCausalLM"],"model_type":"olmo2","attention_bias":false,
"hidden_size":4096,"intermediate_size":11008,"max_position_embeddings":4096,
"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":32,
"tie_word_embeddings":false,"vocab_size":100352})"},
    {"granite-3-8b", 8170848256.0, 0,
     R"({"architectures":["GraniteForCausalLM"],"model_type":"granite","attention_bias":false,
"attention_multiplier":0.0078125,"embedding_multiplier":12.0,"hidden_size":4096,
"intermediate_size":12800,"logits_scaling":16.0,"max_position_embeddings":4096,"mlp_bias":false,
"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,
"residual_multiplier":0.22,"tie_word_embeddings":true,"vocab_size":49155})"},
    {"starcoder2-7b", 7173923840.0, 0,
     R"({"architectures":["Starcoder2ForCausalLM"],"model_type":"starcoder2","residual_dropout":0.1,
"embedding_dropout":0.1,"hidden_size":4608,"intermediate_size":18432,
"max_position_embeddings":16384,"mlp_type":"default","norm_epsilon":1e-05,
"norm_type":"layer_norm","num_attention_heads":36,"num_hidden_layers":32,
"num_key_value_heads":4,"sliding_window":4096,"use_bias":true,"vocab_size":49152})"},
    // With the head that predicts words: 24 layers and the embeddings, a product and a norm of 1,024, a bias a word.
    {"roberta-large", 355412057.0, 0,
     R"({"architectures":["RobertaForMaskedLM"],"model_type":"roberta",
"attention_probs_dropout_prob":0.1,"hidden_dropout_prob":0.1,"hidden_size":1024,
"intermediate_size":4096,"max_position_embeddings":514,"num_attention_heads":16,
"num_hidden_layers":24,"type_vocab_size":1,"vocab_size":50265})"},
    {"llama-3.1-8b-awq", 8030261248.0, 0,
     R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","attention_bias":false,
"hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":131072,"mlp_bias":false,
"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":8,
"quantization_config":{"bits":4,"group_size":128,"modules_to_not_convert":null,
"quant_method":"awq","version":"gemm","zero_point":true},"tie_word_embeddings":false,
"vocab_size":128256,"head_dim":128})"},
    {"qwen2-57b", 57410000000.0, 0.002,
     R"({"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","hidden_size":3584,
"intermediate_size":18944,"moe_intermediate_size":2560,"shared_expert_intermediate_size":20480,
"num_attention_heads":28,"num_key_value_heads":4,"num_hidden_layers":28,"num_experts":64,
"num_experts_per_tok":8,"decoder_sparse_step":1,"norm_topk_prob":false,"sliding_window":65536,
"use_sliding_window":false,"max_position_embeddings":131072,"tie_word_embeddings":false,
"vocab_size":151936,"mlp_only_layers":[]})"},
    {"qwen2.5-vl-7b", 7620000000.0, 0.002,
     R"({"architectures":["Qwen2_5_VLForConditionalGeneration"],"vision_start_token_id":151652,
"hidden_size":3584,"intermediate_size":18944,"max_position_embeddings":128000,
"model_type":"qwen2_5_vl","num_attention_heads":28,"num_hidden_layers":28,
"num_key_value_heads":4,"sliding_window":32768,"tie_word_embeddings":false,
"use_sliding_window":false,"vision_config":{},"vocab_size":152064})"},
    {"llama-4-scout", 107800000000.0, 0.002,
     R"({"architectures":["Llama4ForConditionalGeneration"],"model_type":"llama4",
"boi_token_index":200080,"image_token_index":200092,
"text_config":{"_attn_implementation_autoset":true,"attention_bias":false,
"attention_chunk_size":8192,"for_llm_compressor":false,"head_dim":128,"hidden_size":5120,
"interleave_moe_layer_step":1,"intermediate_size":8192,"intermediate_size_mlp":16384,
"max_position_embeddings":10485760,"model_type":"llama4_text","no_rope_layers":[],
"num_attention_heads":40,"num_experts_per_tok":1,"num_hidden_layers":48,"num_key_value_heads":8,
"num_local_experts":16,"use_qk_norm":true,"vocab_size":202048},"vision_config":{},
"tie_word_embeddings":false})"},
    {"llama-4-maverick", 400700000000.0, 0.002,
     R"({"architectures":["Llama4ForConditionalGeneration"],"model_type":"llama4",
"text_config":{"attention_bias":false,"attention_chunk_size":8192,"head_dim":128,
"hidden_size":5120,"interleave_moe_layer_step":2,"intermediate_size":8192,
"intermediate_size_mlp":16384,"max_position_embeddings":1048576,"model_type":"llama4_text",
"num_attention_heads":40,"num_experts_per_tok":1,"num_hidden_layers":48,"num_key_value_heads":8,
"num_local_experts":128,"use_qk_norm":false,"vocab_size":202048},"vision_config":{}})"},
    {"mistral-small-3.1", 23570000000.0, 0.002,
     R"({"architectures":["Mistral3ForConditionalGeneration"],"model_type":"mistral3",
"image_token_index":10,"multimodal_projector_bias":false,"projector_hidden_act":"gelu",
"spatial_merge_size":2,"text_config":{"head_dim":128,"hidden_size":5120,
"intermediate_size":32768,"max_position_embeddings":131072,"model_type":"mistral",
"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,"sliding_window":null,
"vocab_size":131072},"vision_config":{},"vision_feature_layer":-1})"},
    {"minimax-m2", 228700000000.0, 0.002,
     R"({"architectures":["MiniMaxM2ForCausalLM"],"model_type":"minimax_m2","attn_type_list":[1,1,1,1,1,
1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
1,1,1,1,1,1,1,1,1],"head_dim":128,"hidden_size":3072,"intermediate_size":1536,
"max_position_embeddings":196608,"mtp_transformer_layers":1,"num_attention_heads":48,
"num_experts_per_tok":8,"num_hidden_layers":62,"num_key_value_heads":8,"num_local_experts":256,
"num_mtp_modules":3,"qk_norm_type":"per_layer",
"quantization_config":{"activation_scheme":"dynamic","fmt":"float8_e4m3fn","quant_method":"fp8",
"weight_block_size":[128,128],"modules_to_not_convert":["gate"]},"rotary_dim":64,
"scoring_func":"sigmoid","shared_intermediate_size":0,"tie_word_embeddings":false,
"use_mtp":true,"use_qk_norm":true,"use_routing_bias":true,"vocab_size":200064})"},
    {"zamba2-2.7b", 2660000000.0, 0.002,
     R"({"architectures":["Zamba2ForCausalLM"],"model_type":"zamba2","adapter_rank":128,
"add_bias_linear":false,"attention_head_dim":160,"attention_hidden_size":5120,"chunk_size":256,
"ffn_hidden_size":10240,"hidden_size":2560,"hybrid_layer_ids":[6,12,18,24,30,36,42,47,51],
"intermediate_size":10240,"kv_channels":80,"layers_block_type":["mamba","mamba","mamba","mamba",
"mamba","mamba","hybrid","mamba","mamba","mamba","mamba","mamba","hybrid","mamba","mamba",
"mamba","mamba","mamba","hybrid","mamba","mamba","mamba","mamba","mamba","hybrid","mamba",
"mamba","mamba","mamba","mamba","hybrid","mamba","mamba","mamba","mamba","mamba","hybrid",
"mamba","mamba","mamba","mamba","mamba","hybrid","mamba","mamba","mamba","mamba","hybrid",
"mamba","mamba","mamba","hybrid","mamba","mamba"],"mamba_d_conv":4,"mamba_d_state":64,
"mamba_expand":2,"mamba_headdim":64,"mamba_ngroups":1,"max_position_embeddings":4096,
"n_mamba_heads":80,"num_attention_heads":32,"num_hidden_layers":54,"num_key_value_heads":32,
"num_logits_to_keep":1,"num_mem_blocks":2,"num_query_groups":32,"use_conv_bias":true,
"use_long_context":false,"use_mem_eff_path":true,"use_mem_rope":false,
"use_shared_attention_adapter":false,"use_shared_mlp_adapter":true,"vocab_size":32000})"},
    {"t5-v1_1-xxl", 4760000000.0, 0.002,
     R"({"architectures":["T5ForConditionalGeneration"],"d_ff":10240,"d_kv":64,"d_model":4096,
"decoder_start_token_id":0,"dropout_rate":0.1,"feed_forward_proj":"gated-gelu",
"initializer_factor":1.0,"is_encoder_decoder":true,"layer_norm_epsilon":1e-06,"model_type":"t5",
"num_decoder_layers":24,"num_heads":64,"num_layers":24,"output_past":true,
"relative_attention_num_buckets":32,"tie_word_embeddings":false,"vocab_size":32128})"},
    {"gpt-oss-120b", 116830000000.0, 0.002,
     R"({"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","attention_bias":true,
"experts_per_token":4,"head_dim":64,"hidden_size":2880,"initial_context_length":4096,
"intermediate_size":2880,"layer_types":["sliding_attention","full_attention",
"sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention",
"full_attention","sliding_attention","full_attention","sliding_attention","full_attention",
"sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention",
"full_attention","sliding_attention","full_attention","sliding_attention","full_attention",
"sliding_attention","full_attention","sliding_attention","full_attention","sliding_attention",
"full_attention","sliding_attention","full_attention","sliding_attention","full_attention",
"sliding_attention","full_attention","sliding_attention","full_attention"],
"max_position_embeddings":131072,"num_attention_heads":64,"num_experts_per_tok":4,
"num_hidden_layers":36,"num_key_value_heads":8,"num_local_experts":128,
"quantization_config":{"modules_to_not_convert":["model.layers.*.self_attn"],
"quant_method":"mxfp4"},"sliding_window":128,"swiglu_limit":7.0,"tie_word_embeddings":false,
"vocab_size":201088})"},
    {"deepseek-v3", 671030000000.0, 0.002,
     R"({"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","attention_bias":false,
"aux_loss_alpha":0.001,"ep_size":1,"first_k_dense_replace":3,"hidden_size":7168,
"intermediate_size":18432,"kv_lora_rank":512,"max_position_embeddings":163840,
"moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,"n_routed_experts":256,
"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,
"num_hidden_layers":61,"num_key_value_heads":128,"num_nextn_predict_layers":1,
"pretraining_tp":1,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
"quantization_config":{"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8",
"weight_block_size":[128,128]},"routed_scaling_factor":2.5,"scoring_func":"sigmoid",
"tie_word_embeddings":false,"topk_group":4,"topk_method":"noaux_tc","v_head_dim":128,
"vocab_size":129280})"},
    {"glm-4-9b-0414", 9400000000.0, 0.002,
     R"({"architectures":["Glm4ForCausalLM"],"model_type":"glm4","attention_bias":false,"head_dim":128,
"hidden_size":4096,"intermediate_size":13696,"max_position_embeddings":32768,
"num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":2,
"partial_rotary_factor":0.5,"tie_word_embeddings":false,"vocab_size":151552})"},
};

double parameters(const TransformerSpec& spec) { return count_parameters(build_transformer(spec)).total; }

TEST(Configs, HaveThePublishedSize) {
  for (const Case& c : kCases) {
    TransformerSpec spec = read_hf_config(c.json, c.name);
    EXPECT_NEAR(parameters(spec), c.parameters, c.tolerance * c.parameters) << c.name;
  }
}

// Each divides over two ranks and serves: experts, shared blocks and state-space mixers included.
TEST(Configs, ServeOnTwoGpus) {
  for (const Case& c : kCases) {
    TransformerSpec spec = read_hf_config(c.json, c.name);
    if (spec.kind == "encoder") continue;
    Graph g = build_transformer(spec);
    Plan plan;
    plan.tp = 2;
    StepPredictor p(g, plan, {load_profile("h200"), 2});
    StepShape s;
    s.decode_seqs = 4, s.decode_context = 1000;
    double two = p.step(s).seconds;
    EXPECT_GT(two, 0) << c.name;
    EXPECT_LT(p.program().weight_bytes, 0.62 * compile(g, Plan{}).weight_bytes) << c.name;
  }
}

// The language models of Qwen3.5 under their published names, which round to a hundredth.
TEST(Configs, LanguageModelsOfQwen35) {
  auto count = [](const std::string& architecture, const std::string& type, const std::string& fields) {
    std::string json = R"({"architectures":[")" + architecture + R"("],"text_config":{"model_type":")" + type +
                       R"(","attn_output_gate":true,"full_attention_interval":4,"head_dim":256,"hidden_act":"silu",
      "linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_num_key_heads":16,"linear_value_head_dim":128,
      "mlp_only_layers":[],"mtp_num_hidden_layers":1,"mtp_use_dedicated_embeddings":false,"mamba_ssm_dtype":"float32",
      "attention_bias":false,"vocab_size":248320,)" + fields + R"(},"tie_word_embeddings":false})";
    return count_parameters(build_transformer(read_hf_config(json, "config.json"))).total;
  };
  EXPECT_NEAR(count("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text",
                    R"("hidden_size":2048,"linear_num_value_heads":32,"moe_intermediate_size":512,"num_attention_heads":16,
      "num_experts":256,"num_experts_per_tok":8,"num_hidden_layers":40,"num_key_value_heads":2,
      "shared_expert_intermediate_size":512)"),
              35e9, 0.01 * 35e9);
  EXPECT_NEAR(count("Qwen3_5ForConditionalGeneration", "qwen3_5_text",
                    R"("hidden_size":5120,"intermediate_size":17408,"linear_num_value_heads":48,"num_attention_heads":24,
      "num_hidden_layers":64,"num_key_value_heads":4)"),
              27e9, 0.01 * 27e9);
}

// Names of fine-tunes, releases and formats that share the shape of a built-in model.
TEST(Configs, NamesOfTheSameShape) {
  for (auto [name, same] : {std::pair{"deepseek-ai/DeepSeek-R1-0528", "DeepSeek-V3"},
                            {"nvidia/DeepSeek-V3.1-NVFP4", "DeepSeek-V3"},
                            {"moonshotai/Kimi-K2-Instruct-0905", "Kimi-K2"},
                            {"Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen3-235B-A22B"},
                            {"mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"},
                            {"meta-llama/Meta-Llama-3.1-405B", "Llama-3.1-405B"},
                            {"meta-llama/Llama-4-Scout-17B-16E-Instruct", "Llama-4-Scout"},
                            {"meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"},
                            {"zai-org/GLM-5-FP8", "GLM-5"}}) {
    ASSERT_TRUE(find_transformer(name)) << name;
    EXPECT_EQ(find_transformer(name), find_transformer(same)) << name;
  }
  for (const char* other : {"Mistral-7B-v0.3", "Qwen3-Coder-480B", "Llama-4-Maverick-17B-128E", "GLM-4.5"})
    EXPECT_FALSE(find_transformer(other)) << other;
}

std::string refusal_of(const std::string& json) {
  return error_of([&] { read_hf_config(json, "config.json"); });
}

std::string llama(const std::string& quantization) {
  return R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
    "num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":128256,"quantization_config":)" +
         quantization + "}";
}

TEST(Configs, DefaultsThatADumpNames) {
  auto read = [](const std::string& more) { return error_of([&] { read_hf_config(llama("null," + more), "config.json"); }); };
  EXPECT_EQ(read(R"("add_cross_attention":false,"num_beams":1,"pruned_heads":{})"), "no error");
  EXPECT_THAT(read(R"("add_cross_attention":true)"), ::testing::HasSubstr("add_cross_attention"));
  EXPECT_THAT(read(R"("pruned_heads":{"0":[1,2]})"), ::testing::HasSubstr("pruned_heads"));
}

TEST(Configs, StoredFormats) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {R"({"quant_method":"fp8","weight_block_size":[128,128]})", "fp8 block", ""},
      {R"({"quant_method":"gptq","bits":4,"group_size":128})", "int4 g128", ""},
      {R"({"quant_method":"awq","bits":4,"group_size":64})", "int4 g64", ""},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_use_double_quant":true})", "nf4 dq",
       ""},
      {R"({"quant_method":"bitsandbytes","load_in_8bit":true})", "int8", ""},
      {R"({"quant_method":"mxfp4"})", "mxfp4 experts-only", ""},
      {R"({"quant_method":"modelopt","quant_algo":"NVFP4","kv_cache_quant_algo":"FP8"})", "nvfp4", "fp8"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}},
          "kv_cache_scheme":{"num_bits":8,"type":"float"}})",
       "fp8", "fp8"},
      {R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int","group_size":128}}}})",
       "int4 g128", ""}};
  for (const auto& [quantization, weights, kv] : cases) {
    TransformerSpec spec = read_hf_config(llama(quantization), "config.json");
    EXPECT_EQ(spec.stored_weights, weights) << quantization;
    EXPECT_EQ(spec.stored_kv, kv) << quantization;
    EXPECT_FALSE(spec.stored_note.empty());
  }
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"aqlm"})")), ::testing::HasSubstr("aqlm"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"modelopt","quant_algo":"W1A1"})")),
              ::testing::HasSubstr("W1A1"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"compressed-tensors","config_groups":{
      "a":{"weights":{"num_bits":8,"type":"float"}},"b":{"weights":{"num_bits":4,"type":"int","group_size":128}}}})")),
              ::testing::HasSubstr("--weights"));
}

// Modules that a quantization leaves in 16 bits: bytes counted by hand for Llama-3.1-8B's shape.
TEST(Configs, ModulesThatKeepSixteenBits) {
  double attention = 32 * (2 * 4096.0 * 4096 + 2 * 4096 * 1024), mlp = 32 * 3 * 4096.0 * 14336;
  double rest = 2 * (2 * 128256 * 4096.0 + 65 * 4096);
  auto folder = std::filesystem::temp_directory_path() / "orrery-kept";
  std::filesystem::create_directories(folder);
  auto bytes = [&](const std::string& list) {
    auto path = (folder / "model.json").string();
    std::ofstream(path) << llama(R"({"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":
        {"num_bits":8,"type":"float"}}},"ignore":)" + list + "}");
    return compile(load_graph(path), Plan{}).weight_bytes;
  };
  EXPECT_EQ(bytes(R"(["lm_head"])"), attention + mlp + rest);
  EXPECT_EQ(bytes(R"(["lm_head","re:.*self_attn.*"])"), 2 * attention + mlp + rest);
  EXPECT_EQ(bytes(R"(["re:.*\\.mlp\\..*"])"), attention + 2 * mlp + rest);
  EXPECT_EQ(bytes(R"(["model.layers.*.self_attn.o_proj"])"), attention + 32 * 4096.0 * 4096 + mlp + rest);
  std::string every = "[";
  for (int i = 0; i < 32; ++i) every += fmt::format("{}\"model.layers.{}.mlp.down_proj\"", i ? "," : "", i);
  EXPECT_EQ(bytes(every + "]"), attention + mlp + 32 * 4096.0 * 14336 + rest);
  std::filesystem::remove_all(folder);
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"fp8","modules_to_not_convert":["model.layers.3.mlp"]})")),
              ::testing::HasSubstr("1 of 32 layers"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"fp8","modules_to_not_convert":["re:.*layers\\.[0-9]+\\.mlp"]})")),
              ::testing::HasSubstr("one of several places"));
  EXPECT_THAT(refusal_of(llama(R"({"quant_method":"fp8","modules_to_not_convert":["model.novel_part"]})")),
              ::testing::HasSubstr("model.novel_part"));
}

// A mixture that this reader does not take apart is refused, unless the formats are given.
TEST(Configs, FormatsThatAreGivenStandForThoseThatAreNotUnderstood) {
  std::string mixed = llama(R"({"quant_method":"fp8","modules_to_not_convert":["model.layers.3.mlp"]})");
  EXPECT_THROW(read_hf_config(mixed, "config.json"), base::Error);
  TransformerSpec spec = read_hf_config(mixed, "config.json", false);
  EXPECT_TRUE(spec.stored_weights.empty());
  ASSERT_FALSE(spec.notes.empty());
  EXPECT_THAT(spec.notes.back(), ::testing::HasSubstr("1 of 32 layers"));
}

// The question of a user with a config.json: what the checkpoint stores is what has to fit.
TEST(Configs, FitCountsWhatTheCheckpointStores) {
  auto folder = std::filesystem::temp_directory_path() / "orrery-configs";
  std::filesystem::create_directories(folder);
  auto path = (folder / "gpt-oss-120b.json").string();
  for (const Case& c : kCases)
    if (std::string(c.name) == "gpt-oss-120b") std::ofstream(path) << c.json;
  Graph g = load_graph(path);
  EXPECT_NEAR(compile(g, Plan{}).weight_bytes, 65.25e9, 0.01 * 65.25e9);  // fits one 80 GB GPU (its README)
  EXPECT_TRUE(fit(g, {}, {load_profile("h100"), 1}, 8, 8192, find_engine("vllm")).fits);
  std::filesystem::remove_all(folder);
}

TEST(Configs, PartsThatAreNotCountedAreSaid) {
  for (const Case& c : kCases) {
    if (std::string(c.json).find("vision_config") == std::string::npos) continue;
    TransformerSpec spec = read_hf_config(c.json, c.name);
    bool said = false;
    for (const std::string& note : spec.notes) said |= note.find("not counted") != std::string::npos;
    EXPECT_TRUE(said) << c.name;
  }
  EXPECT_THAT(
      refusal_of(
          R"({"architectures":["NewForConditionalGeneration"],"text_config":{"model_type":"new_text"}})"),
      ::testing::HasSubstr("new_text"));
}

// A config with a published model's own name must have its shape; of one that is named after it a difference is said.
TEST(Configs, NamedAfterAPublishedModel) {
  auto config = [](const std::string& name) {
    return R"({"architectures":["LlamaForCausalLM"],"hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,
"num_hidden_layers":16,"num_key_value_heads":8,"vocab_size":128256,"_name_or_path":")" + name + "\"}";
  };
  EXPECT_THROW(read_hf_config(config("meta-llama/Llama-3.1-8B"), "here"), base::Error);
  TransformerSpec other = read_hf_config(config("someone/Llama-3.1-8B-base"), "here");
  ASSERT_FALSE(other.notes.empty());
  EXPECT_NE(other.notes.back().find("layers = 16"), std::string::npos);
}

// Formats in a file beside the config, as NVIDIA's Model Optimizer writes them, count as the config's own.
TEST(Configs, FormatsBesideTheConfig) {
  auto folder = std::filesystem::temp_directory_path() / "orrery_formats_beside";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << R"({"architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":128,
"num_attention_heads":4,"num_hidden_layers":2,"num_key_value_heads":4,"vocab_size":100})";
  EXPECT_TRUE(load_transformer(folder.string()).stored_note.empty());
  std::ofstream(folder / "hf_quant_config.json")
      << R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8","exclude_modules":
["lm_head","model.layers.0.self_attn*","model.layers.1.self_attn*"]}})";
  TransformerSpec spec = load_transformer(folder.string());
  EXPECT_EQ(spec.stored_weights, "nvfp4");
  EXPECT_EQ(spec.stored_kv, "fp8");
  EXPECT_THAT(spec.stored_kept, ::testing::ElementsAre("attention"));
  std::ofstream(folder / "hf_quant_config.json") << "{}";
  EXPECT_THAT(error_of([&] { load_transformer(folder.string()); }), ::testing::HasSubstr("no object 'quantization'"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace orrery::graph
