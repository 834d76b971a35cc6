// attention_forward for bench/attention_peers.py, which times it in turns with another library's in one process: bf16, heads
// alike, batch x seq x heads x dim, dense.
#include "orrery/kernels.h"

extern "C" int orrery_attention(void* out, const void* q, const void* k, const void* v, long batch, long heads, long seq, long dim, int causal,
                                void* stream) {
  orrery::kernels::AttentionArgs a;
  a.q = q, a.k = k, a.v = v, a.out = out;
  a.batch = batch, a.heads = a.kv_heads = heads, a.seq_q = a.seq_k = seq, a.dim = dim, a.causal = causal != 0;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {seq * heads * dim, heads * dim, dim};
  return orrery::kernels::attention_forward(a, static_cast<cudaStream_t>(stream)).ok() ? 0 : 1;
}
