// Shard, Stage, Place: where things are.
#include <algorithm>
#include <cmath>

#include "graph/verbs.h"

namespace orrery::graph {
namespace {

void shard(VerbWords& w, Graph& g, Plan& p) {
  std::string what = w.word("what");
  if (what == "sequence") {
    p.sequence_parallel = true;
    return;
  }
  int n = w.count("ranks or stage");
  double load = what == "expert" ? w.pair("load", NAN) : NAN;  // no number that is given is NaN
  if (load < 1 || load > std::max(1, n))
    w.refuse("the fullest rank gets at least the mean and at most all: load 1 to the number of ranks");
  if (what == "tensor")
    p.tp = n;
  else if (what == "data")
    p.dp = n;
  else if (what == "expert")
    p.ep = n, p.expert_load = n > 1 && !std::isnan(load) ? load : 0;
  else if (what == "context" || what == "ring")
    p.cp = n;
  else if (what == "ulysses")
    p.cp = n, p.ulysses = true;
  else if (what == "zero")
    p.zero = n;
  else if (what == "attention")
    p.tp_attention = n;
  else if (what == "dense")
    p.tp_dense = n;
  else
    w.refuse(
        "tensor, attention, dense, data, expert, context, ring, ulysses, zero or sequence can be sharded");
  Plan check = p;
  if (what != "expert") check.ep = 1;  // its group may be declared by a later verb
  check_plan(g, check);
}

void stage(VerbWords& w, Graph& g, Plan& p) {
  p.pp = w.count("stages");
  p.schedule = PipelineSchedule::kOneFOneB, p.virtual_stages = 1;
  if (w.accept("interleaved")) {
    p.schedule = PipelineSchedule::kInterleaved;
    p.virtual_stages = w.count("chunks a stage");
  } else if (w.accept("zero-bubble")) {
    p.schedule = PipelineSchedule::kZeroBubble;
  } else if (w.accept("denoising")) {
    p.schedule = PipelineSchedule::kDenoising;
    if (p.pp < 1) w.refuse("there must be at least 1 stage");
    return;  // each stage holds the whole network and does a part of the steps
  } else {
    w.accept("1f1b");
  }
  Plan check = p;
  check.ep = 1;
  check_plan(g, check);
}

void place(VerbWords& w, Graph&, Plan& p) {
  std::string what = w.word("class");
  if (what.size() > 1 && what.ends_with('s')) what.pop_back();  // weights, experts, ...
  std::string where = w.word("tier");
  Tier tier = where == "device"   ? Tier::kDevice
              : where == "host"   ? Tier::kHost
              : where == "nvme"   ? Tier::kNvme
              : where == "remote" ? Tier::kRemote
                                  : (w.refuse("a tier is device, host, nvme or remote"), Tier::kDevice);
  double share = w.pair("share", 1.0);
  if (share < 0 || share > 1) w.refuse("a share lies between 0 and 1");
  double hit = w.pair("hit", NAN);
  if (!std::isnan(hit) && (what != "expert" || hit < 0 || hit > 1))
    w.refuse("hit is the share of accesses, 0 to 1, that find an expert on the GPU");
  if (what == "weight")
    p.place.weights = tier, p.place.weights_fraction = share;
  else if (what == "kv")
    p.place.kv = tier, p.place.kv_fraction = share;
  else if (what == "expert")
    p.place.experts = tier, p.place.experts_fraction = share, p.place.experts_hit = std::isnan(hit) ? -1 : hit;
  else if (what == "optimizer")
    p.place.optimizer = tier, p.place.optimizer_fraction = share;
  else if (what == "gradient")
    p.place.gradients = tier, p.place.gradients_fraction = share;
  else if (what == "checkpoint")
    p.place.checkpoints = tier, p.place.checkpoints_fraction = share;
  else
    w.refuse("weight, kv, expert, optimizer, gradient or checkpoint can be placed");
  p.place.compute_follows |= w.accept("compute-follows");
}

constexpr Verb kVerbs[] = {
    {"shard", "shard tensor|attention|dense|data|expert|context|ring|ulysses|zero N [load L] | shard sequence",
     "Divides an axis over ranks: heads and widths (of all operators, of attention or of the dense "
     "feed-forward part alone), batch, "
     "experts, sequence; ZeRO divides optimizer (1), "
     "gradients "
     "(2) and weights (3) over the data-parallel ranks. What does not divide is refused; key-value heads "
     "fewer than "
     "ranks are replicated and counted. Of experts, L declares what the rank with most rows gets over the mean.",
     shard},
    {"stage", "stage N [1f1b | interleaved V | zero-bubble | denoising]",
     "Divides the layers into pipeline stages, or the steps of a denoiser over GPUs that each hold it whole.",
     stage},
    {"place",
     "place weight|kv|expert|optimizer|gradient|checkpoint device|host|nvme|remote [share S] "
     "[hit H] [compute-follows]",
     "Keeps a class of tensors on another tier: the host, its drives, or another host's memory over the "
     "network. Its bytes cross the host link when they are used, or the "
     "host computes "
     "with them where compute follows. Of experts, H declares the share of accesses that find them on the GPU.",
     place},
};

}  // namespace

std::span<const Verb> layout_verbs() { return kVerbs; }

}  // namespace orrery::graph
