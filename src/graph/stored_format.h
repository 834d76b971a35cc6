// What a checkpoint stores its weights in, by the quantization_config of its config.json.
#pragma once

#include <string>
#include <vector>

#include "graph/config_reader.h"
#include "graph/spec.h"

namespace orrery::graph {

struct StoredFormat {
  std::string weights, kv;    // as `requant` takes them; empty: 16 bits
  bool experts_only = false;  // the rest keeps 16 bits
  std::string method;         // quant_method, for the report
  std::vector<std::string> kept;  // that keep 16 bits: attention, dense, shared, experts, or one of their matrices; with
                                  // a format behind the name: that are stored in it (head as well)
};
// Refuses methods and schemes that it does not know by name; `spec` is the model's shape.
StoredFormat read_stored_format(const Json& config, const TransformerSpec& spec, const std::string& origin);
// The matrices that the method's list of modules leaves in 16 bits, in every layer that has them; refuses others by
// name.
std::vector<std::string> kept_modules(const Json& quantization, const TransformerSpec& spec, const std::string& origin);
// Formats by kind of matrix, from a list that names one for every module; refuses kinds that differ from layer to layer.
void formats_by_module(const Json& modules, const TransformerSpec& spec, const std::string& origin, StoredFormat& format);
// Gives these matrices 16 bits, or the format behind their name.
void keep_wide(Graph& graph, const std::vector<std::string>& kept);

}  // namespace orrery::graph
