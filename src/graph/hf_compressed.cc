// Readers of config.json for models that compress or choose keys beside grouped heads: DeepSeek V4, MiniMax
// M3. Shapes follow the published implementations (transformers, vLLM).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

void deepseek_v4(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe", s.sinks = true;
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.q_lora = r.positive("q_lora_rank");
  s.o_groups = r.positive("o_groups"), s.o_lora = r.positive("o_lora_rank");
  if (s.heads % s.o_groups)
    base::fail("{}: {} heads are no multiple of o_groups = {}", r.origin(), s.heads, s.o_groups);
  s.window = r.positive("sliding_window"), s.window_layers = s.layers;
  s.streams = r.positive("hc_mult");
  s.experts = r.positive("n_routed_experts"), s.experts_per_token = r.positive("num_experts_per_tok");
  s.expert_ffn = r.positive("moe_intermediate_size"), s.shared_experts = r.integer("n_shared_experts");
  s.router_bias = true;  // the correction of the balance; layers that choose by a table have none
  s.index_heads = r.positive("index_n_heads"), s.index_dim = r.positive("index_head_dim");
  s.index_list = r.positive("index_topk");
  if (s.kv_heads != 1)
    base::fail("{}: num_key_value_heads = {}, where one key serves all heads", r.origin(), s.kv_heads);
  int layer = 0, chosen = 0;
  for (const Json& rate :
       r.list("compress_ratios")) {  // those of layers that predict further tokens stand behind
    if (!rate.is_number_integer() || rate < 0 || rate > 100000 || rate == 1)  // 0: none are compressed
      base::fail("{}: compress_ratios has {}", r.origin(), rate.dump());
    if (layer++ >= s.layers) break;
    LayerGroup g;
    g.mixer = Mixer::kCompressed, g.feed = Feed::kExperts;
    g.rate = rate.get<int>();
    g.indexer =
        g.rate == 4;  // in the published code a rate of 4 is the one with overlapping windows and an indexer
    if (g.indexer) chosen = g.rate;
    s.add_layer(g);
  }
  if (layer < s.layers)
    base::fail("{}: compress_ratios has {} entries for {} layers", r.origin(), layer, s.layers);
  s.index_topk = chosen ? r.product("index_topk", chosen, s.index_list) : 0;
  s.notes.push_back(
      "the indexer's keys are counted in 8 bits with a scale for each, and compressed keys in 16");
  if (r.integer_or("num_hash_layers", 0) > 0)
    s.notes.push_back(
        "layers that choose experts by a table (num_hash_layers) are charged as those that score them");
  note_further_tokens(r, s);
  r.only("attention_bias", false, "biases in attention");
  r.only("mlp_bias", false, "biases in the feed-forward part");
  r.only("expert_dtype", "fp4", "experts stored in another format");
  if (r.has("expert_dtype") && !r.has("quantization_config"))
    s.notes.push_back(
        "experts are counted in 16 bits: their 4 (expert_dtype) are read beside a quantization_config alone");
  r.ignore({"hc_eps", "hc_sinkhorn_iters", "compress_rope_theta", "qk_rope_head_dim", "num_hash_layers",
            "dspark_block_size"});
}

void minimax_m3(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "moe";
  s.tied = r.flag_or("tie_word_embeddings", false);
  s.dense_ffn = r.positive("dense_intermediate_size");
  s.experts = r.positive("num_local_experts"), s.experts_per_token = r.positive("num_experts_per_tok");
  s.expert_ffn = r.integer(r.has("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size");
  read_shared_experts(r, s, r.integer("n_shared_experts"), r.positive("shared_intermediate_size"));
  s.router_bias = r.flag_or("use_routing_bias", false);
  if (r.flag_or("use_qk_norm", false)) s.qk_norm = QkNorm::kHead;
  r.only("qk_norm_type", "per_head", "norms of queries and keys over all heads");
  r.only("attention_output_gate", false, "gated attention");
  ConfigReader sparse = r.part("sparse_attention_config");
  sparse.only("use_sparse_attention", true, "full attention");
  sparse.only("sparse_score_type", "max", "another score of a block");
  sparse.ignore({"sparse_init_block", "sparse_init_blocks", "sparse_local_block", "sparse_local_blocks",
                 "sparse_disable_index_value"});
  s.index_heads = sparse.positive("sparse_num_index_heads"),
  s.index_dim = sparse.positive("sparse_index_dim");
  s.index_list = sparse.positive("sparse_topk_blocks");
  s.index_topk = sparse.product("sparse_topk_blocks", s.index_list, sparse.positive("sparse_block_size"));
  int dense = 0;
  for (int i = 0; i < s.layers; ++i) {
    auto listed = [&](ConfigReader& reader, const char* key) {
      const Json& value = reader.list(key, s.layers)[static_cast<std::size_t>(i)];
      if (value != 0 && value != 1)
        base::fail("{}: {} must list 0 and 1, not {}", reader.origin(), key, value.dump());
      return value == 1;
    };
    LayerGroup g;
    g.indexer = listed(sparse, "sparse_attention_freq");
    g.feed = listed(r, "moe_layer_freq") ? Feed::kExperts : Feed::kDense;
    dense += g.feed == Feed::kDense;
    s.add_layer(g);
  }
  if (sparse.has("sparse_disable_index_value")) {
    const Json &on = sparse.list("sparse_attention_freq", s.layers),
               &off = sparse.list("sparse_disable_index_value", s.layers);
    for (std::size_t i = 0; i < off.size(); ++i)
      if ((off[i] != 0 && off[i] != 1) || (on[i] == 1 && off[i] == 0))
        base::fail("{}: sparse_disable_index_value has {} for layer {}: an indexer with values is not supported",
                   r.origin(), off[i].dump(), i);
  }
  sparse.finish();
  r.only("first_k_dense_replace", dense, "another number of dense layers than moe_layer_freq has");
  for (const char* key : {"num_mtp_modules", "num_nextn_predict_layers"}) note_further_tokens(r, s, key);
  r.ignore({"intermediate_size", "rotary_dim", "swiglu_alpha", "use_gemma_norm", "moe_intermediate_size"});
}

constexpr Architecture kCompressed[] = {
    {"DeepseekV4ForCausalLM", "deepseek-v4", deepseek_v4},
    {"MiniMaxM3ForCausalLM", "minimax-m3", minimax_m3},
    {"MiniMaxM3SparseForCausalLM", "minimax-m3", minimax_m3},
};

}  // namespace

std::span<const Architecture> compressed_architectures() { return kCompressed; }

}  // namespace orrery::graph
