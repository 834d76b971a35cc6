// Graphs written by hand, for what has no config: a TOML file in the vocabulary.
//
//   name = "small-cnn"
//   [axes]                      # extents; the free axes (tokens, seqs, keys, pairs, ...) exist already
//   channels = 64
//   [[block]]                   # in order; repeat = 1 unless given, layer = true when stages may divide it
//   name = "stem"
//   repeat = 1
//   share = 1                   # a branch: the share of its iterations in which it runs (a law, declared)
//   phase = "prefill"           # or "decode": it runs for these tokens only; both unless given
//   tensors = [ { name = "x", axes = ["tokens", "channels"], class = "activation", dtype = "bf16" }, ... ]
//   ops = [ { kind = "contract", name = "conv", in = ["x", "w"], out = ["y"] }, ... ]
//
// Operator fields: ops_per_element (map, reduce, scan, kernel), grouped (contract: the expert axis), pairs,
// head_axis, head_qk, head_v (attend), fused, saved; timed = "FILE" and kernel = "NAME" bind it to what `orrery time
// --json FILE` says of the kernels whose name holds NAME (all of them when not given), for one execution. Anything
// unknown, or of another type, is refused with its name.
#pragma once

#include <string>

#include "graph/spec.h"

namespace orrery::graph {

Graph read_graph_file(const std::string& path);
// A graph file (by its ending .toml), or what load_transformer accepts; weights and keys in the format that a config's
// checkpoint stores (not when training).
Graph load_graph(const std::string& model, const BuildOptions& options = {});

}  // namespace orrery::graph
