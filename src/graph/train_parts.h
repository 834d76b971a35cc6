// What the memory (train_memory.cc) and the time (train.cc) of a training rank share.
#pragma once

#include "graph/train.h"

namespace orrery::graph {

double layers_of(const Graph& graph);
// Extent of the axis that layers hand on; refuses a graph without it by name.
double hidden_of(const Graph& graph);
double vocab_of(const Graph& graph);  // 0: none
// Parameters of a rank, whatever width they are stored in.
double rank_parameters(const Program& program);
// Fills the items, total, capacity, host bytes and verdict of an answer whose parameters are known.
void training_memory(const Graph& graph, const Plan& plan, const Program& program, const Cluster& cluster,
                     const TrainQuestion& question, TrainAnswer& answer);

}  // namespace orrery::graph
