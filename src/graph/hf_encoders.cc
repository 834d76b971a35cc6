// Readers of config.json for encoders of text and of images. Shapes follow the published implementations
// (transformers).
#include "base/error.h"
#include "graph/hf_readers.h"

namespace orrery::graph {
namespace {

// BERT and its descendants; RoBERTa's positions start behind the padding token and are counted as the config does.
void bert(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "encoder";
  s.gated = false;
  s.ffn = r.integer("intermediate_size");
  s.learned_positions = r.integer("max_position_embeddings");
  s.segments = r.integer("type_vocab_size");
  s.tied = s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = s.embedding_norm = s.pooler = true;
  s.final_norm = false;
  r.ignore({"tie_word_embeddings", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
            "pooler_type"});
}

// The head that predicts words has a product of its own width before the words' (which are the embedding), and stands
// where the model alone has a pooler.
void masked_bert(ConfigReader& r, TransformerSpec& s) {
  bert(r, s);
  s.pooler = false, s.word_head = s.head_bias = true;
}

// BERT of fewer layers, without segments and pooler, under names of its own.
void distilbert(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"n_layers", "dim", "n_heads"});
  s.kind = "encoder";
  s.ffn = r.integer("hidden_dim"), s.vocab = r.integer("vocab_size");
  s.learned_positions = r.integer("max_position_embeddings");
  s.tied = s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = s.embedding_norm = true;
  s.final_norm = false, s.word_head = s.head_bias = true;
  r.ignore({"activation", "sinusoidal_pos_embds", "tie_weights_", "qa_dropout", "seq_classif_dropout", "output_past"});
}

void vit(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {});
  s.kind = "vit";
  s.ffn = r.integer("intermediate_size");
  s.patch = r.integer("patch_size");
  int image = r.integer("image_size");
  if (s.patch == 0 || image % s.patch) base::fail("{}: image_size is no multiple of patch_size", r.origin());
  s.image_tokens = r.product("image_size", image / s.patch, image / s.patch) + 1;
  s.classes = r.integer_or("num_labels", 1000);
  r.only("num_channels", 3, "other than three colour channels");
  s.qkv_bias = s.o_bias = r.flag_or("qkv_bias", true);
  s.mlp_bias = s.norm_bias = true;
  r.ignore({"pooler_act", "pooler_output_size"});
}

void t5_encoder(ConfigReader& r, TransformerSpec& s) {
  read_shape(r, s, {"num_layers", "d_model", "num_heads"});
  s.kind = "encoder";
  s.head_dim = r.integer("d_kv");
  r.product("num_heads", s.heads, s.head_dim);
  s.ffn = r.integer("d_ff"), s.vocab = r.integer("vocab_size");
  s.gated =
      r.has("feed_forward_proj") && r.word("feed_forward_proj").starts_with("gated");
  s.tied = true;
  r.ignore({"feed_forward_proj", "is_gated_act", "dense_act_fn", "num_decoder_layers", "dropout_rate",
            "relative_attention_num_buckets", "relative_attention_max_distance", "is_encoder_decoder",
            "decoder_start_token_id", "initializer_factor", "n_positions", "output_past",
            "tie_word_embeddings", "classifier_dropout", "scalable_attention", "tokenizer_class"});
  s.notes.push_back("the encoder alone: a decoder in the checkpoint is not counted");
}

void clip_text(ConfigReader& r, TransformerSpec& s) {
  read_common_fields(r, s);
  s.kind = "encoder";
  s.gated = false;
  s.ffn = r.integer("intermediate_size");
  s.learned_positions = r.integer("max_position_embeddings");
  s.tied = s.qkv_bias = s.o_bias = s.mlp_bias = s.norm_bias = true;
  r.ignore({"projection_dim", "initializer_factor"});
}

// Rotary positions, a gated feed-forward part, attention near by in most layers, nothing with a bias.
void modernbert(ConfigReader& r, TransformerSpec& s) {
  read_gated_fields(r, s, true);
  s.kind = "encoder";
  s.embedding_norm = true;
  s.window = r.positive("local_attention");
  int every = r.positive("global_attn_every_n_layers");
  s.window_layers = s.layers - (s.layers + every - 1) / every;
  for (const char* key : {"attention_bias", "mlp_bias", "norm_bias"}) r.only(key, false, "biases");
  s.first_norm = false;  // the embedding is normalised already
  if (r.has("layer_types") && listed_windows(r, s) != s.window_layers)
    base::fail("{}: layer_types and global_attn_every_n_layers = {} differ", r.origin(), every);
  r.ignore({"classifier_activation", "classifier_bias", "classifier_pooling", "decoder_bias", "deterministic_flash_attn",
            "embedding_dropout", "global_rope_theta", "initializer_cutoff_factor", "local_rope_theta", "mlp_dropout", "norm_eps",
            "reference_compile", "repad_logits_with_grad", "sparse_prediction", "sparse_pred_ignore_index", "layer_types"});
}
void masked_modernbert(ConfigReader& r, TransformerSpec& s) {
  modernbert(r, s);
  s.word_head = true;
  s.word_head_bias = r.flag_or("classifier_bias", false), s.head_bias = r.flag_or("decoder_bias", true);
}

constexpr Architecture kEncoders[] = {
    {"BertModel", "bert", bert},
    {"BertForMaskedLM", "bert", masked_bert},
    {"DistilBertForMaskedLM", "bert", distilbert},
    {"ViTForImageClassification", "vit", vit},
    {"ViTModel", "vit", vit},
    {"RobertaModel", "bert", bert},
    {"RobertaForMaskedLM", "bert", masked_bert},
    {"XLMRobertaModel", "bert", bert},
    {"XLMRobertaForMaskedLM", "bert", masked_bert},
    {"ModernBertModel", "modernbert", modernbert},
    {"ModernBertForMaskedLM", "modernbert", masked_modernbert},
    {"T5EncoderModel", "t5", t5_encoder},
    {"T5ForConditionalGeneration", "t5", t5_encoder},
    {"UMT5EncoderModel", "t5", t5_encoder},
    {"CLIPTextModel", "clip", clip_text},
    {"CLIPTextModelWithProjection", "clip", clip_text},
};

}  // namespace

std::span<const Architecture> encoder_architectures() { return kEncoders; }

}  // namespace orrery::graph
