// What a checkpoint stores its weights in, by the quantization_config of its config.json.
#pragma once

#include <string>

#include "graph/config_reader.h"

namespace orrery::graph {

struct StoredFormat {
  std::string weights, kv;    // as `requant` takes them; empty: 16 bits
  bool experts_only = false;  // the rest keeps 16 bits
  std::string method;         // quant_method, for the report
};
// Refuses methods and schemes that it does not know by name.
StoredFormat read_stored_format(const Json& config, const std::string& origin);

}  // namespace orrery::graph
