// Further configs as their publishers write them, and what their models must weigh, keep and refuse. Sizes are the
// checkpoints' own counts, or, with a tolerance, the round ones of their cards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../error_of.h"
#include "base/error.h"
#include "graph/config_reader.h"
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
    {"internlm2-7b", 7737708544.0, 0,
     R"({"architectures":["InternLM2ForCausalLM"],"attn_implementation":"eager","bias":false,"hidden_size":4096,
"intermediate_size":14336,"max_position_embeddings":32768,"model_type":"internlm2","num_attention_heads":32,
"num_hidden_layers":32,"num_key_value_heads":8,"tie_word_embeddings":false,"vocab_size":92544})"},
    {"baichuan2-13b", 13896668160.0, 0,
     R"({"architectures":["BaichuanForCausalLM"],"gradient_checkpointing":false,"hidden_size":5120,
"intermediate_size":13696,"model_max_length":4096,"model_type":"baichuan","num_attention_heads":40,
"num_hidden_layers":40,"tie_word_embeddings":false,"vocab_size":125696,"z_loss_weight":0})"},
    {"command-r", 34980831232.0, 0,
     R"({"architectures":["CohereForCausalLM"],"attention_bias":false,"hidden_size":8192,"intermediate_size":22528,
"logit_scale":0.0625,"max_position_embeddings":8192,"model_max_length":131072,"model_type":"cohere",
"num_attention_heads":64,"num_hidden_layers":40,"num_key_value_heads":64,"use_qk_norm":false,
"vocab_size":256000})"},
    {"dbrx", 131596523520.0, 0,
     R"({"architectures":["DbrxForCausalLM"],"attn_config":{"clip_qkv":8,"kv_n_heads":8,"model_type":"",
"rope_theta":500000},"d_model":6144,"emb_pdrop":0.0,"ffn_config":{"ffn_hidden_size":10752,"model_type":"",
"moe_jitter_eps":0.01,"moe_loss_weight":0.05,"moe_num_experts":16,"moe_top_k":4},"max_seq_len":32768,
"model_type":"dbrx","n_heads":48,"n_layers":40,"tie_word_embeddings":false,"vocab_size":100352})"},
    {"olmo-7b", 6888095744.0, 0,
     R"({"architectures":["OlmoForCausalLM"],"attention_bias":false,"clip_qkv":null,"hidden_size":4096,
"intermediate_size":11008,"max_position_embeddings":2048,"model_type":"olmo","num_attention_heads":32,
"num_hidden_layers":32,"num_key_value_heads":32,"tie_word_embeddings":false,"vocab_size":50304})"},
    {"olmoe-1b-7b", 6919161856.0, 0,
     R"({"architectures":["OlmoeForCausalLM"],"attention_bias":false,"clip_qkv":null,"hidden_size":2048,
"intermediate_size":1024,"max_position_embeddings":4096,"model_type":"olmoe","num_attention_heads":16,
"num_experts":64,"num_experts_per_tok":8,"num_hidden_layers":16,"num_key_value_heads":16,
"tie_word_embeddings":false,"vocab_size":50304})"},
    {"stablelm-3b-4e1t", 2795443200.0, 0,
     R"({"architectures":["StableLmForCausalLM"],"hidden_size":2560,"intermediate_size":6912,
"max_position_embeddings":4096,"model_type":"stablelm","num_attention_heads":32,"num_hidden_layers":32,
"num_key_value_heads":32,"tie_word_embeddings":false,"use_qkv_bias":false,"vocab_size":50304})"},
    {"smollm3-3b", 3075098624.0, 0,
     R"({"architectures":["SmolLM3ForCausalLM"],"attention_bias":false,"hidden_size":2048,"intermediate_size":11008,
"layer_types":["full_attention","full_attention","full_attention","full_attention","full_attention",
"full_attention","full_attention","full_attention","full_attention","full_attention","full_attention",
"full_attention","full_attention","full_attention","full_attention","full_attention","full_attention",
"full_attention","full_attention","full_attention","full_attention","full_attention","full_attention",
"full_attention","full_attention","full_attention","full_attention","full_attention","full_attention",
"full_attention","full_attention","full_attention","full_attention","full_attention","full_attention",
"full_attention"],"max_position_embeddings":65536,"max_window_layers":28,"mlp_bias":false,
"model_type":"smollm3","no_rope_layer_interval":4,"no_rope_layers":[1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,
1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0],"num_attention_heads":16,"num_hidden_layers":36,"num_key_value_heads":4,
"sliding_window":null,"use_sliding_window":false,"vocab_size":128256})"},
    {"seed-oss-36b", 36151104512.0, 0,
     R"({"architectures":["SeedOssForCausalLM"],"attention_bias":true,"attention_out_bias":false,"head_dim":128,
"hidden_size":5120,"intermediate_size":27648,"max_position_embeddings":524288,"mlp_bias":false,
"model_type":"seed_oss","num_attention_heads":80,"num_hidden_layers":64,"num_key_value_heads":8,
"residual_dropout":0.1,"tie_word_embeddings":false,"vocab_size":155136})"},
    {"gpt-j-6b", 6050882784.0, 0,
     R"({"architectures":["GPTJForCausalLM"],"gradient_checkpointing":false,"model_type":"gptj","n_embd":4096,
"n_head":16,"n_inner":null,"n_layer":28,"n_positions":2048,"rotary":true,"rotary_dim":64,
"scale_attn_weights":true,"tie_word_embeddings":false,"vocab_size":50400})"},
    {"starcoder", 15517456384.0, 0,
     R"({"architectures":["GPTBigCodeForCausalLM"],"attention_softmax_in_fp32":true,"inference_runner":0,
"max_batch_size":null,"max_sequence_length":null,"model_type":"gpt_bigcode","multi_query":true,
"n_embd":6144,"n_head":48,"n_inner":24576,"n_layer":40,"n_positions":8192,"pad_key_length":true,
"pre_allocate_kv_cache":false,"scale_attention_softmax_in_fp32":true,"scale_attn_weights":true,
"validate_runner_input":true,"vocab_size":49152})"},
    {"mpt-7b", 6649286656.0, 0,
     R"({"architectures":["MPTForCausalLM"],"attn_config":{"alibi":true,"alibi_bias_max":8,"attn_impl":"torch",
"attn_pdrop":0,"attn_type":"multihead_attention","attn_uses_sequence_id":false,"clip_qkv":null,
"prefix_lm":false,"qk_ln":false,"softmax_scale":null},"d_model":4096,"emb_pdrop":0,"embedding_fraction":1.0,
"expansion_ratio":4,"init_config":{},"init_device":"cpu","learned_pos_emb":true,"logit_scale":null,
"max_seq_len":2048,"model_type":"mpt","n_heads":32,"n_layers":32,"no_bias":true,
"norm_type":"low_precision_layernorm","tokenizer_name":"EleutherAI/gpt-neox-20b","verbose":0,
"vocab_size":50432})"},
    {"qwen-7b", 7721324544.0, 0,
     R"({"architectures":["QWenLMHeadModel"],"attn_dropout_prob":0.0,"bf16":false,"emb_dropout_prob":0.0,
"fp16":false,"fp32":false,"hidden_size":4096,"intermediate_size":22016,"kv_channels":128,
"max_position_embeddings":32768,"model_type":"qwen","no_bias":true,"num_attention_heads":32,
"num_hidden_layers":32,"onnx_safe":null,"rotary_emb_base":10000,"rotary_pct":1.0,"scale_attn_weights":true,
"seq_length":8192,"tie_word_embeddings":false,"use_dynamic_ntk":true,"use_flash_attn":"auto",
"use_logn_attn":true,"vocab_size":151936})"},
    {"phi-3-small", 7392272384.0, 0,
     R"({"architectures":["Phi3SmallForCausalLM"],"attention_bias":false,"attention_dropout_prob":0.0,
"blocksparse_block_size":64,"blocksparse_homo_head_pattern":false,"blocksparse_num_local_blocks":16,
"blocksparse_triton_kernel_block_size":64,"blocksparse_vert_stride":8,"dense_attention_every_n_layers":2,
"dummy_token_indices":[],"embedding_dropout_prob":0.1,"ff_dim_multiplier":null,"ff_intermediate_size":14336,
"ffn_dropout_prob":0.1,"gegelu_limit":20.0,"gegelu_pad_to_256":true,"hidden_size":4096,
"max_position_embeddings":8192,"model_type":"phi3small","mup_attn_multiplier":1.0,
"mup_embedding_multiplier":10.0,"mup_use_scaling":true,"mup_width_multiplier":8.0,"num_attention_heads":32,
"num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":100352,"tie_word_embeddings":true})"},
    {"phi-4-mini", 3836021760.0, 0,
     R"({"architectures":["Phi3ForCausalLM"],"attention_bias":false,"full_attn_mod":1,"hidden_size":3072,
"intermediate_size":8192,"interpolate_factor":1,"lm_head_bias":false,"max_position_embeddings":131072,
"mlp_bias":false,"model_type":"phi3","num_attention_heads":24,"num_hidden_layers":32,
"num_key_value_heads":8,"original_max_position_embeddings":4096,"sliding_window":262144,
"tie_word_embeddings":true,"vocab_size":200064})"},
    {"glm-4-9b-chat", 9399951360.0, 0,
     R"({"model_type":"chatglm","architectures":["ChatGLMModel"],"add_bias_linear":false,"add_qkv_bias":true,
"apply_query_key_layer_scaling":true,"apply_residual_connection_post_layernorm":false,
"attention_softmax_in_fp32":true,"attn_implementation":"sdpa","bias_dropout_fusion":true,
"ffn_hidden_size":13696,"fp32_residual_connection":false,"hidden_dropout":0.0,"hidden_size":4096,
"kv_channels":128,"multi_query_attention":true,"multi_query_group_num":2,"num_attention_heads":32,
"num_hidden_layers":40,"num_layers":40,"rope_ratio":500,"original_rope":true,"padded_vocab_size":151552,
"post_layer_norm":true,"rmsnorm":true,"seq_length":131072,"tie_word_embeddings":false})"},
    {"falcon-mamba-7b", 7272665088.0, 0,
     R"({"architectures":["FalconMambaForCausalLM"],"conv_kernel":4,"expand":16,"hidden_size":4096,
"intermediate_size":8192,"mixer_rms_eps":1e-06,"model_type":"falcon_mamba","num_hidden_layers":64,
"rescale_prenorm_residual":false,"residual_in_fp32":true,"state_size":16,"tie_word_embeddings":false,
"time_step_floor":0.0001,"time_step_init_scheme":"random","time_step_max":0.1,"time_step_min":0.001,
"time_step_rank":256,"time_step_scale":1.0,"use_bias":false,"use_conv_bias":true,"use_mambapy":false,
"vocab_size":65024})"},
    {"mamba-2.8b", 2768345600.0, 0,
     R"({"d_model":2560,"n_layer":64,"vocab_size":50277,"ssm_cfg":{},"rms_norm":true,"residual_in_fp32":true,
"fused_add_norm":true,"pad_vocab_size_multiple":8})"},
    {"opt-350m", 331196416.0, 0,
     R"({"_remove_final_layer_norm":false,"activation_dropout":0.0,"architectures":["OPTForCausalLM"],
"do_layer_norm_before":false,"dropout":0.1,"ffn_dim":4096,"hidden_size":1024,"init_std":0.02,
"layerdrop":0.0,"max_position_embeddings":2048,"model_type":"opt","num_attention_heads":16,
"num_hidden_layers":24,"vocab_size":50272,"word_embed_proj_dim":512})"},
    {"distilbert-base", 66985530.0, 0,
     R"({"activation":"gelu","architectures":["DistilBertForMaskedLM"],"dim":768,"dropout":0.1,"hidden_dim":3072,
"max_position_embeddings":512,"model_type":"distilbert","n_heads":12,"n_layers":6,"qa_dropout":0.1,
"seq_classif_dropout":0.2,"sinusoidal_pos_embds":false,"tie_weights_":true,"vocab_size":30522})"},
    {"ernie-4.5-21b-a3b", 21830000000.0, 0.001,
     R"({"architectures":["Ernie4_5_MoeForCausalLM"],"hidden_size":2560,"intermediate_size":12288,
"max_position_embeddings":131072,"model_type":"ernie4_5_moe","moe_capacity":[64,64,64],
"moe_intermediate_size":1536,"moe_k":6,"moe_layer_end_index":27,"moe_layer_interval":1,
"moe_layer_start_index":1,"moe_num_experts":64,"moe_num_shared_experts":2,"moe_use_aux_free":true,
"num_attention_heads":20,"num_hidden_layers":28,"num_key_value_heads":4,"tie_word_embeddings":true,
"use_bias":false,"vocab_size":103424,"num_nextn_predict_layers":1})"},
    {"exaone-4.0-32b", 32000000000.0, 0.001,
     R"({"architectures":["Exaone4ForCausalLM"],"head_dim":128,"hidden_size":5120,"intermediate_size":27392,
"layer_types":["sliding_attention","sliding_attention","sliding_attention","full_attention",
"sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention",
"sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention",
"sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention",
"full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention",
"sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention",
"sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention",
"sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention",
"full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention",
"sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention",
"sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention",
"sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention",
"full_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"],
"max_position_embeddings":131072,"model_type":"exaone4","num_attention_heads":40,"num_hidden_layers":64,
"num_key_value_heads":8,"sliding_window":4096,"sliding_window_pattern":"LLLG","tie_word_embeddings":false,
"vocab_size":102400})"},
    {"granite-3.0-3b-a800m", 3300000000.0, 0.002,
     R"({"architectures":["GraniteMoeForCausalLM"],"attention_bias":false,"attention_multiplier":0.015625,
"embedding_multiplier":12.0,"hidden_size":1536,"intermediate_size":512,"logits_scaling":6.0,
"max_position_embeddings":4096,"model_type":"granitemoe","num_attention_heads":24,"num_experts_per_tok":8,
"num_hidden_layers":32,"num_key_value_heads":8,"num_local_experts":40,"residual_multiplier":0.22,
"tie_word_embeddings":true,"vocab_size":49155})"},
    {"nemotron-super-49b", 49867145216.0, 0,
     R"({"architectures":["DeciLMForCausalLM"],"attention_bias":false,
"block_configs":[{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":2.625,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":2.625,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":2.625,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":3.28125,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":2.625,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":2.625,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":2.625,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.3125,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":0.5,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":0.5,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":0.5,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":0.5,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":1.0,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":0.5,"no_op":false}},
{"attention":{"n_heads_in_group":null,"no_op":true},"ffn":{"ffn_mult":0.5,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}},
{"attention":{"n_heads_in_group":8,"no_op":false},"ffn":{"ffn_mult":5.25,"no_op":false}}],
"hidden_size":8192,"intermediate_size":null,"max_position_embeddings":131072,"mlp_bias":false,
"model_type":"nemotron-nas","num_attention_heads":64,"num_hidden_layers":80,"num_key_value_heads":null,
"tie_word_embeddings":false,"vocab_size":128256})"},
    // An index of its checkpoint (bryce-hoehn/Qwen3.5-25B-REAP-A3B-Coding) says 25,091,371,648.
    {"qwen3.5-moe with 180 experts", 25091371648.0, 0,
     R"({"architectures":["Qwen3_5MoeForConditionalGeneration"],"attention_bias":false,"attn_output_gate":true,
"full_attention_interval":4,"head_dim":256,"hidden_size":2048,"layer_types":["linear_attention",
"linear_attention","linear_attention","full_attention","linear_attention","linear_attention",
"linear_attention","full_attention","linear_attention","linear_attention","linear_attention",
"full_attention","linear_attention","linear_attention","linear_attention","full_attention",
"linear_attention","linear_attention","linear_attention","full_attention","linear_attention",
"linear_attention","linear_attention","full_attention","linear_attention","linear_attention",
"linear_attention","full_attention","linear_attention","linear_attention","linear_attention",
"full_attention","linear_attention","linear_attention","linear_attention","full_attention",
"linear_attention","linear_attention","linear_attention","full_attention"],"linear_conv_kernel_dim":4,
"linear_key_head_dim":128,"linear_num_key_heads":16,"linear_num_value_heads":32,"linear_value_head_dim":128,
"mamba_ssm_dtype":"float32","max_position_embeddings":262144,"mlp_only_layers":[],
"model_type":"qwen3_5_moe_text","moe_intermediate_size":512,"mtp_num_hidden_layers":1,
"mtp_use_dedicated_embeddings":false,"num_attention_heads":16,"num_experts":180,"num_experts_per_tok":8,
"num_hidden_layers":40,"num_key_value_heads":2,"shared_expert_intermediate_size":512,
"tie_word_embeddings":false,"vocab_size":248320})"},
    // V3 and the indexers of 61 layers: 64 heads of 128 from the latent query, a key of 128 with its norm, 64 weights.
    {"deepseek-v3.2", 671877944064.0, 0,
     R"({"architectures":["DeepseekV32ForCausalLM"],"attention_bias":false,"first_k_dense_replace":3,
"hidden_size":7168,"index_head_dim":128,"index_n_heads":64,"index_topk":2048,"intermediate_size":18432,
"kv_lora_rank":512,"max_position_embeddings":163840,"model_type":"deepseek_v32",
"moe_intermediate_size":2048,"moe_layer_freq":1,"n_routed_experts":256,"n_shared_experts":1,
"num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":61,"num_key_value_heads":128,
"num_nextn_predict_layers":1,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,
"tie_word_embeddings":false,"v_head_dim":128,"vocab_size":129280})"},
    {"glm-5", 744000000000.0, 0.001,
     R"({"architectures":["GlmMoeDsaForCausalLM"],"attention_bias":false,"first_k_dense_replace":3,"head_dim":64,
"hidden_size":6144,"index_head_dim":128,"index_n_heads":32,"index_topk":2048,"indexer_rope_interleave":true,
"intermediate_size":12288,"kv_lora_rank":512,"max_position_embeddings":202752,"moe_intermediate_size":2048,
"moe_layer_freq":1,"model_type":"glm_moe_dsa","n_routed_experts":256,"n_shared_experts":1,
"num_attention_heads":64,"num_experts_per_tok":8,"num_hidden_layers":78,"num_key_value_heads":64,
"num_nextn_predict_layers":1,"q_lora_rank":2048,"qk_head_dim":256,"qk_nope_head_dim":192,
"qk_rope_head_dim":64,"rope_interleave":true,"tie_word_embeddings":false,"v_head_dim":256,
"vocab_size":154880})"},
    {"gemma-4-26b-a4b", 25200000000.0, 0.002,
     R"({"architectures":["Gemma4ForConditionalGeneration"],"audio_token_id":258881,"model_type":"gemma4",
"text_config":{"attention_bias":false,"attention_k_eq_v":true,"enable_moe_block":true,
"final_logit_softcapping":30.0,"global_head_dim":512,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh",
"hidden_size":2816,"hidden_size_per_layer_input":0,"intermediate_size":2112,
"layer_types":["sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention",
"sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"full_attention"],"max_position_embeddings":262144,"model_type":"gemma4_text","moe_intermediate_size":704,
"num_attention_heads":16,"num_experts":128,"num_global_key_value_heads":2,"num_hidden_layers":30,
"num_key_value_heads":8,"num_kv_shared_layers":0,"sliding_window":1024,"tie_word_embeddings":true,
"top_k_experts":8,"use_bidirectional_attention":"vision","use_double_wide_mlp":false,"vocab_size":262144,
"vocab_size_per_layer_input":262144},"tie_word_embeddings":true})"},
    {"gemma-4-31b", 30700000000.0, 0.001,
     R"({"architectures":["Gemma4ForConditionalGeneration"],"audio_token_id":258881,"model_type":"gemma4",
"text_config":{"attention_bias":false,"attention_k_eq_v":true,"enable_moe_block":false,
"expert_intermediate_size":null,"final_logit_softcapping":30.0,"global_head_dim":512,"head_dim":256,
"hidden_activation":"gelu_pytorch_tanh","hidden_size":5376,"hidden_size_per_layer_input":0,
"intermediate_size":21504,"layer_types":["sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention",
"sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"full_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","full_attention","sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","full_attention","sliding_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention","full_attention","sliding_attention",
"sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention",
"sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"full_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention",
"sliding_attention","full_attention"],"max_position_embeddings":262144,"model_type":"gemma4_text",
"num_attention_heads":32,"num_experts":null,"num_global_key_value_heads":4,"num_hidden_layers":60,
"num_key_value_heads":16,"num_kv_shared_layers":0,"sliding_window":1024,"tie_word_embeddings":true,
"top_k_experts":null,"use_bidirectional_attention":"vision","use_double_wide_mlp":false,"vocab_size":262144,
"vocab_size_per_layer_input":262144},"tie_word_embeddings":true})"},
    {"mimo-v2-flash", 309000000000.0, 0.001,
     R"({"architectures":["MiMoV2FlashForCausalLM"],"model_type":"mimo_v2_flash","num_hidden_layers":48,
"hidden_size":4096,"num_attention_heads":64,"num_key_value_heads":4,"head_dim":192,"v_head_dim":128,
"intermediate_size":16384,"vocab_size":152576,"max_position_embeddings":262144,"swa_rope_theta":10000,
"sliding_window":128,"sliding_window_size":128,"attention_chunk_size":128,"swa_num_attention_heads":64,
"swa_num_key_value_heads":8,"swa_head_dim":192,"swa_v_head_dim":128,"hybrid_layer_pattern":[0,1,1,1,1,0,1,1,
1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0],"moe_layer_freq":[0,1,1,1,
1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],
"moe_intermediate_size":2048,"n_routed_experts":256,"n_shared_experts":null,"num_experts_per_tok":8,
"attention_bias":false,"attention_value_scale":0.707,"add_swa_attention_sink_bias":true,
"add_full_attention_sink_bias":false,"tie_word_embeddings":false})"},

};

const Case& named(std::string_view name) {
  for (const Case& c : kCases)
    if (name == c.name) return c;
  throw std::out_of_range(std::string(name));
}

TEST(MoreConfigs, HaveThePublishedSize) {
  for (const Case& c : kCases) {
    TransformerSpec spec = read_hf_config(c.json, c.name);
    EXPECT_NEAR(count_parameters(build_transformer(spec)).total, c.parameters, c.tolerance * c.parameters) << c.name;
  }
}

// Each divides over two ranks and serves.
TEST(MoreConfigs, ServeOnTwoGpus) {
  for (const Case& c : kCases) {
    TransformerSpec spec = read_hf_config(c.json, c.name);
    if (spec.kind == "encoder") continue;
    Graph g = build_transformer(spec);
    Plan plan;
    plan.tp = 2;
    StepPredictor p(g, plan, {load_profile("h200"), 2});
    StepShape s;
    s.decode_seqs = 4, s.decode_context = 1000;
    EXPECT_GT(p.step(s).seconds, 0) << c.name;
    EXPECT_LT(p.program().weight_bytes, 0.62 * compile(g, Plan{}).weight_bytes) << c.name;
  }
}

double state_of(const Graph& g, double tokens) { return state_bytes(g, compile(g, Plan{}), 1, tokens); }

// DeepSeek-V3.2 keeps of each token the latent (576 numbers of 16 bits) and the indexer's key (128 of 8 bits and a scale
// of 4 bytes) in 61 layers, and a step at 100,000 tokens reads 2,048 latents and all keys of the indexer.
TEST(MoreConfigs, SparseAttentionHoldsAllKeysAndReadsThoseChosen) {
  Graph g = build_transformer(read_hf_config(named("deepseek-v3.2").json, "config.json"));
  EXPECT_EQ(state_of(g, 1000), 61 * 1000 * (576 * 2 + 132.0));
  Program program = compile(g, Plan{});
  StepShape s;
  s.decode_seqs = 1, s.decode_context = 99999;
  Ledger ledger;
  walk(program, bind(g, Plan{}, s), ledger);
  EXPECT_EQ(ledger.state(), 61 * (2048 * 576 * 2 + 100000 * 132.0));
}

// The indexer's scores are one product of 128 numbers a head and pair of tokens, in 8 bits where the GPU has them: half
// the time that they take in 16, and the same on an A100.
TEST(MoreConfigs, IndexersMultiplyInTheFormatOfTheirKeys) {
  Graph g = build_transformer(read_hf_config(named("deepseek-v3.2").json, "config.json"));
  auto scores = [&](const char* gpu, Format format) {
    Graph changed = g;
    for (Tensor& t : changed.tensors)
      if (t.name == "index_cache") t.dtype.format = format;
    StepPredictor p(changed, Plan{}, {load_profile(gpu), 1});
    StepShape s;
    s.prefill_seqs = 1, s.prefill_tokens = 8192, s.prefill_context = 100000;
    p.step(s);
    for (const Line& line : p.ledger().lines)
      if (changed.ops[p.program().ops[line.op].op].name == "index.scores") {
        EXPECT_EQ(line.ops, 2 * 64 * 128 * 8192 * (100000 + 4096.0));
        return time_of(p.program().ops[line.op], line, p.binding(), p.rates()).compute;
      }
    return 0.0;
  };
  Rates h200 = read_rates(load_profile("h200"));
  EXPECT_GT(scores("h200", Format::kFp8), 0);
  EXPECT_NEAR(scores("h200", Format::kBf16) / scores("h200", Format::kFp8), h200.tensor8 / h200.tensor16, 1e-9);
  EXPECT_EQ(scores("a100", Format::kBf16), scores("a100", Format::kFp8));
}

// Of GLM-5.2's 78 layers those called "shared" have no indexer: neither its weights nor its keys.
TEST(MoreConfigs, LayersThatShareAnIndexer) {
  Json json = Json::parse(named("glm-5").json);
  double all = count_parameters(build_transformer(read_hf_config(json.dump(), "c"))).total;
  Json types = Json::array();
  for (int i = 0; i < 78; ++i) types.push_back(i < 3 || i % 4 == 2 ? "full" : "shared");
  json["indexer_types"] = types;
  Graph g = build_transformer(read_hf_config(json.dump(), "c"));
  double shared = std::count(types.begin(), types.end(), "shared");
  EXPECT_EQ(count_parameters(g).total, all - shared * (2048.0 * 32 * 128 + 6144 * 128 + 2 * 128 + 6144 * 32));
  EXPECT_EQ(state_of(g, 1000), 78 * 1000 * 1152.0 + (78 - shared) * 1000 * 132);
  json["indexer_types"][5] = "half";
  EXPECT_THAT(error_of([&] { read_hf_config(json.dump(), "c"); }), ::testing::HasSubstr("half"));
}

// Layers of two shapes: MiMo-V2-Flash keeps 192 + 128 numbers for each of 4 heads in 9 full layers, of 8 heads in 39
// with a window of 128; Gemma 4 31B 2 x 512 for 4 heads in 10 layers, 2 x 256 for 16 in 50 with a window of 1,024.
TEST(MoreConfigs, LayersOfTwoShapes) {
  Graph mimo = build_transformer(read_hf_config(named("mimo-v2-flash").json, "c"));
  EXPECT_EQ(state_of(mimo, 5000), 9 * 5000 * 4 * 320 * 2.0 + 39 * 128 * 8 * 320 * 2.0);
  Graph gemma = build_transformer(read_hf_config(named("gemma-4-31b").json, "c"));
  EXPECT_EQ(state_of(gemma, 5000), 10 * 5000 * 4 * 1024 * 2.0 + 50 * 1024 * 16 * 512 * 2.0);
  // Heads of every shape must divide.
  Plan plan;
  plan.tp = 64;
  EXPECT_THAT(error_of([&] { compile(gemma, plan); }), ::testing::HasSubstr("heads"));
}

// Llama-Nemotron's layers differ in width, and some have no attention.
TEST(MoreConfigs, LayersThatASearchCutDown) {
  Json json = Json::parse(named("nemotron-super-49b").json);
  int attention = 0;
  for (const Json& block : json["block_configs"]) attention += block["attention"]["no_op"] == false;
  EXPECT_EQ(attention, 49);
  Graph g = build_transformer(read_hf_config(json.dump(), "c"));
  EXPECT_EQ(state_of(g, 1000), 49 * 1000 * 2 * 8 * 128 * 2.0);
  json["block_configs"][3]["attention"]["replace_with_linear"] = true;
  EXPECT_THAT(error_of([&] { read_hf_config(json.dump(), "c"); }),
              ::testing::AllOf(::testing::HasSubstr("block_configs[3]"), ::testing::HasSubstr("replace_with_linear")));
}

// What is left in 16 bits may be the whole of the leading dense layers.
TEST(MoreConfigs, LeadingLayersThatKeepSixteenBits) {
  Json json = Json::parse(named("glm-5").json);
  Json kept = {"lm_head", "model.layers.0*", "model.layers.1.*", "model.layers.2.*"};
  for (int i = 3; i < 78; ++i) kept.push_back("model.layers." + std::to_string(i) + ".self_attn*");
  json["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", kept}};
  TransformerSpec spec = read_hf_config(json.dump(), "c");
  EXPECT_THAT(spec.stored_kept, ::testing::ElementsAre("attention", "dense"));
  kept.erase(kept.size() - 1);
  json["quantization_config"]["ignore"] = kept;
  EXPECT_THAT(error_of([&] { read_hf_config(json.dump(), "c"); }), ::testing::HasSubstr("77 of 78 layers"));
}

// Each module may name its own format: 8 bits for attention, 4 with scales (4.5) for the rest, the head included.
TEST(MoreConfigs, FormatsByModule) {
  Json json = Json::parse(R"({"architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":512,"num_attention_heads":4,
"num_hidden_layers":2,"num_key_value_heads":4,"vocab_size":1000,"quantization_config":{"quant_method":"modelopt",
"quant_algo":"MIXED_PRECISION","quantized_layers":{"lm_head":{"quant_algo":"NVFP4"}}}})");
  Json& modules = json["quantization_config"]["quantized_layers"];
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"})
      modules[layer + std::string(name)] = {{"quant_algo", "FP8"}};
    for (const char* name : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      modules[layer + std::string(name)] = {{"quant_algo", "NVFP4"}};
  }
  auto path = std::filesystem::temp_directory_path() / "orrery-by-module.json";
  auto written = [&] {
    std::ofstream(path) << json.dump();
    return path.string();
  };
  double attention = 2 * 4 * 256.0 * 256, mlp = 2 * 3 * 256.0 * 512, head = 1000 * 256.0, rest = 2 * (1000 * 256.0 + 5 * 256);
  EXPECT_EQ(compile(load_graph(written()), Plan{}).weight_bytes, attention + (mlp + head) * 4.5 / 8 + rest);
  modules["model.layers.1.mlp.down_proj"]["quant_algo"] = "FP8";
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("some matrices of dense in nvfp4 and some in fp8"));
  // A matrix that is not listed keeps 16 bits: then the part is not of one format.
  modules.erase("model.layers.1.mlp.down_proj");
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("of dense in layer 1 only gate, up"));
  for (const char* name : {"gate_proj", "up_proj"}) modules.erase(std::string("model.layers.1.mlp.") + name);
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("1 of 2 layers"));
  modules["model.mlp.down_proj"] = {{"quant_algo", "NVFP4"}};
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("model.mlp.down_proj names no layer"));
  modules.erase("model.mlp.down_proj");
  modules["model.layers.1.mlp.down_proj"] = {{"quant_algo", "W1A1"}};
  EXPECT_THAT(error_of([&] { load_graph(written()); }), ::testing::HasSubstr("W1A1"));
  std::filesystem::remove(path);
}

// Of a mixture the shared experts alone may be narrow, and experts may be named one by one: all of them or none.
TEST(MoreConfigs, FormatsOfExpertsAndSharedExperts) {
  Json json = Json::parse(named("deepseek-v3.2").json);
  json["num_hidden_layers"] = 4, json["n_routed_experts"] = 8;
  Json modules = Json::object();
  auto list = [&](const std::string& part) {
    for (const char* name : {"gate_proj", "up_proj", "down_proj"})
      modules["model.layers.3.mlp." + part + "." + name] = {{"quant_algo", "FP8"}};
  };
  auto read = [&] {
    json["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}, {"quantized_layers", modules}};
    return read_hf_config(json.dump(), "c");
  };
  list("shared_experts");
  TransformerSpec spec = read();
  EXPECT_EQ(spec.stored_weights, "fp8");
  EXPECT_THAT(spec.stored_kept, ::testing::UnorderedElementsAre("attention", "dense", "experts"));
  for (int e = 0; e < 7; ++e) list("experts." + std::to_string(e));
  EXPECT_THAT(error_of(read), ::testing::HasSubstr("down of 7 experts"));
  list("experts.7");
  EXPECT_THAT(read().stored_kept, ::testing::UnorderedElementsAre("attention", "dense"));
}

// The class of DiT's and PixArt's first checkpoints is told apart by its norm.
TEST(MoreConfigs, DenoisersOfTheFirstClass) {
  auto config = [](const std::string& more) {
    return R"({"_class_name":"Transformer2DModel","attention_bias":true,"attention_head_dim":72,"in_channels":4,
"num_attention_heads":16,"num_embeds_ada_norm":1000,"num_layers":28,"out_channels":8,"patch_size":2,)" + more + "}";
  };
  EXPECT_EQ(read_denoiser_config(config(R"("norm_type":"ada_norm_zero","sample_size":32)"), "c").family, "dit");
  DiffusionSpec pixart = read_denoiser_config(
      config(R"("norm_type":"ada_norm_single","sample_size":128,"caption_channels":4096,"cross_attention_dim":1152)"), "c");
  EXPECT_EQ(pixart.family, "pixart");
  EXPECT_THAT(error_of([&] { read_denoiser_config(config(R"("norm_type":"layer_norm")"), "c"); }),
              ::testing::HasSubstr("norm_type"));
}

}  // namespace
}  // namespace orrery::graph
