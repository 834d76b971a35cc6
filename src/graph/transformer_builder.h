// The builder of transformer graphs: embedding, layers in up to four kinds, head (build_transformer.cc), and the attention
// of a layer (build_attention.cc).
#pragma once

#include "graph/build_mixers.h"
#include "graph/spec.h"

namespace orrery::graph {

class TransformerBuilder {
 public:
  TransformerBuilder(const TransformerSpec& spec, const BuildOptions& options)
      : s_(spec), o_(options), b_(spec.name), hidden_(b_.axis("hidden", spec.hidden)) {}
  Graph build();

 private:
  void counted_layers();
  void check() const;
  void norm_weights(std::string_view name, AxisId axis);
  TensorId norm(Part part, std::string_view name, TensorId x, AxisId rows = kTokens);
  void embed();
  void patch_embed();
  void layers(std::string_view name, int count, bool window, bool moe, bool ssm);
  TensorId mix(const LayerGroup& g, TensorId a);
  TensorId feed(const LayerGroup& g, TensorId m);
  void group(const LayerGroup& g);
  // The axis of that name and extent; where layers differ in it, the others' is called NAME.EXTENT (layout.h).
  AxisId sized(std::string_view name, double extent);
  // An attention block whose weights several layers share (Zamba): it sees the layer's input beside the
  // model's, and a product of the layer's own takes its output.
  TensorId shared_block(TensorId x, int layers);
  TensorId residual(Part part, std::string_view name, TensorId x, TensorId y);
  TensorId attention(TensorId a, bool window) { return attention(a, window, hidden_, {}); }
  TensorId attention(TensorId a, bool window, AxisId from, const LayerGroup& shape);
  // One kernel that rewrites queries and keys head by head.
  void per_head(OpKind kind, std::string_view name, TensorId q, TensorId k, AxisId heads, AxisId kv,
                AxisId dim, double ops);
  TensorId attend(AxisId heads, AxisId dim, std::vector<TensorId> in, std::vector<TensorId> saved,
                  bool window);
  // Attention's output times a gate that a product makes from the layer's input.
  TensorId gated(TensorId a, TensorId y, std::vector<AxisId> numbers, std::vector<AxisId> shape);
  TensorId output(TensorId y, AxisId heads, AxisId dim);
  TensorId latent_attention(TensorId a, bool window, bool indexer = false);
  // The indexer of sparse attention: scores every key, keeps its own narrow keys.
  void choose_keys(TensorId a, TensorId q_in, AxisId q_axis);
  // Keys that are compressed or chosen, and streams between layers that are several (build_compressed.cc).
  TensorId compressed_attention(TensorId a, const LayerGroup& g);
  TensorId latent_state(std::string_view name, FreeAxis keys, AxisId width, DType dtype = kBf16);
  TensorId compress(const std::string& stem, const char* cache, TensorId a, int width, const LayerGroup& g, int kept, DType dtype = kBf16);
  void choose_compressed(TensorId a, TensorId q_in, AxisId q_axis, const LayerGroup& g);
  void choose_blocks(TensorId a);
  void score_keys(TensorId a, TensorId q, TensorId keys, FreeAxis pairs, double width, bool weighted);
  TensorId take_streams(const char* name);
  TensorId give_streams(const char* name, TensorId y);
  TensorId choose_depth(const char* name, TensorId x);
  TensorId mlp(TensorId m, int width, std::string_view axis_name);
  TensorId experts(TensorId m);
  TensorId expert_inner(TensorId x, AxisId experts, AxisId width, AxisId ffn);
  void head();

  const TransformerSpec& s_;
  const BuildOptions& o_;
  GraphBuilder b_;
  AxisId hidden_;
  TensorId embedding_ = 0;
};

}  // namespace orrery::graph
