// The C interface to steps: handles around StepPredictor; no exception crosses it. Whole questions: tools/model_api.cc.
#include "graph/c_api.h"

#include <memory>
#include <string>

#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/serve.h"
#include "graph/verbs.h"
#include "orrery/model.h"

using namespace orrery::graph;

struct orrery_model {
  Graph graph;
  Plan plan;
  Cluster cluster;
  std::unique_ptr<StepPredictor> predictor;
};

namespace {

template <class Body>
int guarded(Body body) {
  try {
    body();
    model_error().clear();
    return 0;
  } catch (const std::exception& error) {
    model_error() = error.what();
    return 1;
  }
}

void need(const void* pointer, const char* what) {
  if (!pointer) orrery::base::fail("{} is NULL", what);
}

}  // namespace

std::string& orrery::graph::model_error() {
  thread_local std::string text;
  return text;
}

extern "C" {

int orrery_model_open(const char* model, const char* gpu, const orrery_model_plan* plan, orrery_model** out) {
  return guarded([&] {
    need(model, "model"), need(gpu, "gpu"), need(out, "out");
    auto handle = std::make_unique<orrery_model>();
    handle->graph = load_graph(model);
    if (plan) {
      auto ranks = [](int n) { return n == 0 ? 1 : n; };
      handle->plan.tp = ranks(plan->tp), handle->plan.pp = ranks(plan->pp);
      handle->plan.dp = ranks(plan->dp), handle->plan.ep = ranks(plan->ep);
      if (plan->weights)
        apply_verb(std::string("requant weight ") + plan->weights, handle->graph, handle->plan);
      if (plan->kv) apply_verb(std::string("requant kv ") + plan->kv, handle->graph, handle->plan);
      for (const char* const* verb = plan->verbs; verb && *verb; ++verb)
        apply_verb(*verb, handle->graph, handle->plan);
    }
    handle->cluster = parse_cluster(gpu);
    handle->cluster.gpus = std::max(handle->cluster.gpus, handle->plan.gpus());
    handle->predictor = std::make_unique<StepPredictor>(handle->graph, handle->plan, handle->cluster);
    *out = handle.release();
  });
}

int orrery_model_predict(orrery_model* model, const orrery_model_step* step, orrery_model_cost* cost) {
  return guarded([&] {
    need(model, "model"), need(step, "step"), need(cost, "cost");
    StepShape s;
    s.decode_seqs = step->decode_sequences, s.decode_context = step->decode_context;
    s.prefill_seqs = step->prefill_sequences, s.prefill_tokens = step->prefill_tokens;
    s.prefill_context = step->prefill_context;
    for (double v : {s.decode_seqs, s.decode_context, s.prefill_seqs, s.prefill_tokens, s.prefill_context})
      if (!(v >= 0 && v < 1e12)) orrery::base::fail("amounts of a step must be finite and not negative");
    if ((s.prefill_tokens > 0) != (s.prefill_seqs > 0))
      orrery::base::fail("tokens to prefill belong to sequences: give both, or neither");
    StepTime t = model->predictor->step(s);
    *cost = {t.seconds, t.joules, t.ops, t.bytes, t.link_bytes};
  });
}

int orrery_model_memory(orrery_model* model, double batch, double context, double* bytes, double* capacity) {
  return guarded([&] {
    need(model, "model"), need(bytes, "bytes"), need(capacity, "capacity");
    double all = batch * model->plan.dp;  // fit counts the sequences of all data-parallel ranks
    FitAnswer a = fit(model->graph, model->plan, model->cluster, all, context, find_engine("none"));
    *bytes = a.total;
    *capacity = a.capacity;
  });
}

void orrery_model_close(orrery_model* model) { delete model; }
const char* orrery_model_error(void) { return model_error().c_str(); }

}  // extern "C"
