// See attention_tensors.h.
#include "attention_tensors.h"

#include "arguments.h"
#include "tensor_map.h"

namespace orrery::kernels {

Status check_tensor(const char* name, const char* strides_name, const void* data, const AttentionArgs::Strides& s, int64_t batch, int64_t seq,
                    int64_t heads, int64_t dim, int size) {
  if (!data) return bad(name, "is null");
  if (!aligned(data, 16)) return bad(name, "is not 16-byte aligned");
  const struct { int64_t stride, count; } all[] = {{s.batch, batch}, {s.seq, seq}, {s.head, heads}};
  for (const auto& it : all)
    if (it.count > 1 && (it.stride < dim || it.stride * size % 16 || it.stride >= int64_t(1) << 39))
      return bad(strides_name, "must be multiples of 16 bytes, at least dim");
  if (span(extent_of_tensor(name, data, s, batch, seq, heads, dim, size)) == kMostBytes) return bad(strides_name, "are too large");
  return {};
}

Extent extent_of_tensor(const char* name, const void* data, const AttentionArgs::Strides& s, int64_t batch, int64_t seq, int64_t heads, int64_t dim, int size) {
  return {name, data, dim * size, {{batch, product(s.batch, size)}, {seq, product(s.seq, size)}, {heads, product(s.head, size)}}};
}

bool encode_tensor(CUtensorMap* map, const void* data, DType t, const AttentionArgs::Strides& s, int64_t batch, int64_t seq, int64_t heads,
                   int64_t dim, uint32_t rows) {
  const int size = size_of(t);
  const uint64_t sizes[4] = {uint64_t(dim), uint64_t(seq), uint64_t(heads), uint64_t(batch)};
  // The stride of a dimension of size 1 is not used, but must be one that the encoder accepts.
  const auto bytes = [&](int64_t stride, int64_t count) { return uint64_t(count > 1 ? stride : dim) * size; };
  const uint64_t pitches[3] = {bytes(s.seq, seq), bytes(s.head, heads), bytes(s.batch, batch)};
  const uint32_t box[4] = {uint32_t(128 / size), rows, 1, 1};
  return encode_tensor_map(map, tensor_map_type(t), 4, data, sizes, pitches, box);
}

}  // namespace orrery::kernels
