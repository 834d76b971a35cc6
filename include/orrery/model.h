/* C interface to the model scale: any question of `orrery model`, and step times and memory of a language model under
   a plan, for schedulers and simulators. include/orrery/model.hpp is the same for C++. Functions return 0 on success;
   otherwise orrery_model_error() says why (per thread). A handle may be used by one thread at a time. Amounts are per
   data-parallel rank. What a step costs is given for one tensor-parallel rank of every pipeline stage, together: times
   tp it is that of a data-parallel rank. */
#ifndef ORRERY_MODEL_H
#define ORRERY_MODEL_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ORRERY_MODEL_EXPORT __attribute__((visibility("default")))
#else
#define ORRERY_MODEL_EXPORT
#endif

typedef struct orrery_model orrery_model;

typedef struct {
  int tp, pp, dp, ep;         /* ranks of each division; 0 means 1 */
  const char* weights;        /* format of linear layers, for example "fp8"; NULL: 16 bits */
  const char* kv;             /* format of keys and values; NULL: 16 bits */
  const char* const* verbs;   /* further techniques, NULL-terminated; may be NULL */
} orrery_model_plan;

typedef struct {
  double decode_sequences, decode_context;                      /* each adds one token to decode_context keys */
  double prefill_sequences, prefill_tokens, prefill_context;    /* tokens in all; context before them, per sequence */
} orrery_model_step;

typedef struct {
  double seconds, joules;         /* of the step, through all stages; idle power of all stages included */
  double operations, bytes, link_bytes;
} orrery_model_cost;

/* model: config.json, graph file or built-in name; gpu: for example "h200". */
ORRERY_MODEL_EXPORT int orrery_model_open(const char* model, const char* gpu, const orrery_model_plan* plan, orrery_model** out);
ORRERY_MODEL_EXPORT int orrery_model_predict(orrery_model* model, const orrery_model_step* step, orrery_model_cost* cost);
/* Bytes of the fullest rank with `batch` sequences of `context` tokens, and what the GPU has. */
ORRERY_MODEL_EXPORT int orrery_model_memory(orrery_model* model, double batch, double context, double* bytes, double* capacity);
/* Any question with a document as its answer, in the words that follow `orrery model`: {"fit", "llama-3.1-70b", "--gpu",
   "h200:2", "--tp", "2"}; fit, serve, train, render and plan, without --html and --trace. The document is JSON
   (docs/report.md), of which orrery_model_free() disposes; on an error none is made. verdict (may be NULL): 0, or 1
   when it does not fit, the rate is not reached or no plan fits. */
ORRERY_MODEL_EXPORT int orrery_model_ask(int count, const char* const* words, char** document, int* verdict);
ORRERY_MODEL_EXPORT void orrery_model_free(char* document);
ORRERY_MODEL_EXPORT void orrery_model_close(orrery_model* model);
ORRERY_MODEL_EXPORT const char* orrery_model_error(void);

#ifdef __cplusplus
}
#endif
#endif
