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

void vit(ConfigReader& r, TransformerSpec& s) {
  s.kind = "vit";
  s.layers = r.integer("num_hidden_layers");
  s.hidden = r.integer("hidden_size");
  s.heads = s.kv_heads = r.integer("num_attention_heads");
  s.head_dim = s.heads ? s.hidden / s.heads : 0;
  s.ffn = r.integer("intermediate_size");
  s.patch = r.integer("patch_size");
  int image = r.integer("image_size");
  if (s.patch == 0 || image % s.patch) base::fail("{}: image_size is no multiple of patch_size", r.origin());
  s.image_tokens = (image / s.patch) * (image / s.patch) + 1;
  s.classes = r.integer_or("num_labels", 1000);
  r.only("num_channels", 3, "other than three colour channels");
  s.qkv_bias = s.o_bias = r.flag_or("qkv_bias", true);
  s.mlp_bias = s.norm_bias = true;
  r.ignore({"pooler_act", "pooler_output_size"});
}

void t5_encoder(ConfigReader& r, TransformerSpec& s) {
  s.kind = "encoder";
  s.layers = r.integer("num_layers"), s.hidden = r.integer("d_model");
  s.heads = s.kv_heads = r.integer("num_heads"), s.head_dim = r.integer("d_kv");
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

constexpr Architecture kEncoders[] = {
    {"BertModel", "bert", bert},
    {"BertForMaskedLM", "bert", bert},
    {"ViTForImageClassification", "vit", vit},
    {"ViTModel", "vit", vit},
    {"RobertaModel", "bert", bert},
    {"RobertaForMaskedLM", "bert", bert},
    {"XLMRobertaModel", "bert", bert},
    {"XLMRobertaForMaskedLM", "bert", bert},
    {"T5EncoderModel", "t5", t5_encoder},
    {"T5ForConditionalGeneration", "t5", t5_encoder},
    {"UMT5EncoderModel", "t5", t5_encoder},
    {"CLIPTextModel", "clip", clip_text},
    {"CLIPTextModelWithProjection", "clip", clip_text},
};

}  // namespace

std::span<const Architecture> encoder_architectures() { return kEncoders; }

}  // namespace orrery::graph
