// Runtime API: copies and fills.
#include <cstring>

#include "api/copying.h"
#include "api/memory_calls.h"
#include "api/program.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::CopySide;
using orrery::device::CopyWork;
using orrery::device::Direction;
using orrery::device::FillWork;

namespace {

CopySide plain(const void* address, size_t pitch = 0) { return {reinterpret_cast<uint64_t>(address), pitch, 0, nullptr}; }

int copy(void* dst, const void* src, size_t bytes, int kind, cudaStream_t stream, bool async) {
  return runtime_in([&](Context& context) {
    Direction direction = direction_of(kind);
    if (bytes == 0) return;
    submit_copy(context, stream_of(context, stream), linear_copy(dst, src, bytes), direction, async);
  });
}

int copy_rows(CopySide dst, CopySide src, size_t width, size_t height, int kind, cudaStream_t stream, bool async) {
  return runtime_in([&](Context& context) {
    Direction direction = direction_of(kind);
    if (width == 0 || height == 0) return;
    require((dst.array || dst.pitch >= width) && (src.array || src.pitch >= width), Status::invalid_pitch);
    CopyWork work;
    work.src = src;
    work.dst = dst;
    work.width = width;
    work.height = height;
    submit_copy(context, stream_of(context, stream), work, direction, async);
  });
}

int copy_box(const cudaMemcpy3DParms* p, cudaStream_t stream, bool async) {
  return runtime_in([&](Context& context) {
    require(p != nullptr, Status::invalid_value);
    submit_copy(context, stream_of(context, stream), box_copy(*p), direction_of(p->kind), async);
  });
}

int copy_peer_box(const cudaMemcpy3DPeerParms* p, cudaStream_t stream, bool async) {
  if (!p) return runtime([] { throw Failure(Status::invalid_value); });
  cudaMemcpy3DParms plain_params{p->srcArray, p->srcPos, p->srcPtr, p->dstArray, p->dstPos, p->dstPtr, p->extent, 4};
  return copy_box(&plain_params, stream, async);
}

// `reach` bytes from (w, h) of an array, row after row, as the calls without a height do.
int copy_array_run(cudaArray_const_t array, size_t w, size_t h, void* host, size_t bytes, int kind, cudaStream_t stream, bool async, bool to_array) {
  return runtime_in([&](Context& context) {
    auto found = array_of(array);
    size_t row = found->width * found->format.texel_bytes();
    char* at = static_cast<char*>(host);
    while (bytes > 0) {
      size_t part = std::min(bytes, row - w);
      CopyWork work;
      (to_array ? work.dst : work.src) = array_side(found, w, h, 0);
      (to_array ? work.src : work.dst) = plain(at);
      work.width = part;
      submit_copy(context, stream_of(context, stream), work, direction_of(kind), async);
      at += part;
      bytes -= part;
      w = 0;
      h++;
    }
  });
}

int fill(cudaPitchedPtr target, int value, cudaExtent extent, cudaStream_t stream, bool async) {
  return runtime_in([&](Context& context) {
    if (extent.width * extent.height * extent.depth == 0) return;
    require(extent.height <= 1 || target.pitch >= extent.width, Status::invalid_value);
    FillWork work{reinterpret_cast<uint64_t>(target.ptr), target.pitch, target.pitch * target.ysize, uint32_t(value) & 0xff, 1, extent.width, extent.height, extent.depth};
    submit_fill(context, stream_of(context, stream), work, async);
  });
}

int copy_symbol(const void* symbol, void* other, size_t bytes, size_t offset, int kind, cudaStream_t stream, bool async, bool to_symbol) {
  return runtime_in([&](Context& context) {
    device::Variable variable = variable_of(context, symbol);
    Direction direction = direction_of(kind);
    require(to_symbol ? direction != Direction::device_to_host && direction != Direction::host_to_host
                      : direction != Direction::host_to_device && direction != Direction::host_to_host,
            Status::invalid_memcpy_direction);
    require(offset <= variable.size && bytes <= variable.size - offset, Status::invalid_value);
    if (bytes == 0) return;
    void* inside = reinterpret_cast<void*>(variable.address + offset);
    CopyWork work = to_symbol ? linear_copy(inside, other, bytes) : linear_copy(other, inside, bytes);
    submit_copy(context, stream_of(context, stream), work, direction, async);
  });
}

}  // namespace

API(cudaMemcpy)(void* dst, const void* src, size_t bytes, int kind) { return copy(dst, src, bytes, kind, nullptr, false); }
PER_THREAD(cudaMemcpy, _ptds)
API(cudaMemcpyAsync)(void* dst, const void* src, size_t bytes, int kind, cudaStream_t stream) { return copy(dst, src, bytes, kind, stream, true); }
PER_THREAD(cudaMemcpyAsync, _ptsz)
API(cudaMemcpyPeer)(void* dst, int, const void* src, int, size_t bytes) { return copy(dst, src, bytes, 4, nullptr, false); }
API(cudaMemcpyPeerAsync)(void* dst, int, const void* src, int, size_t bytes, cudaStream_t stream) { return copy(dst, src, bytes, 4, stream, true); }
PER_THREAD(cudaMemcpyPeerAsync, _ptsz)
API(cudaMemcpy2D)(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, int kind) {
  return copy_rows(plain(dst, dpitch), plain(src, spitch), width, height, kind, nullptr, false);
}
PER_THREAD(cudaMemcpy2D, _ptds)
API(cudaMemcpy2DAsync)(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, int kind, cudaStream_t stream) {
  return copy_rows(plain(dst, dpitch), plain(src, spitch), width, height, kind, stream, true);
}
PER_THREAD(cudaMemcpy2DAsync, _ptsz)

namespace {

int rows_to_array(cudaArray_t dst, size_t w, size_t h, const void* src, size_t pitch, size_t width, size_t height, int kind, cudaStream_t stream, bool async) {
  CopySide side;
  if (int code = runtime([&] {
        side = array_side(array_of(dst), w, h, 0);
        require(w + width <= side.array->pitch && h + height <= side.array->rows(), Status::invalid_value);
      }))
    return code;
  return copy_rows(side, plain(src, pitch), width, height, kind, stream, async);
}
int rows_from_array(void* dst, size_t pitch, cudaArray_const_t src, size_t w, size_t h, size_t width, size_t height, int kind, cudaStream_t stream, bool async) {
  CopySide side;
  if (int code = runtime([&] {
        side = array_side(array_of(src), w, h, 0);
        require(w + width <= side.array->pitch && h + height <= side.array->rows(), Status::invalid_value);
      }))
    return code;
  return copy_rows(plain(dst, pitch), side, width, height, kind, stream, async);
}

}  // namespace

API(cudaMemcpy2DToArray)(cudaArray_t dst, size_t w, size_t h, const void* src, size_t pitch, size_t width, size_t height, int kind) {
  return rows_to_array(dst, w, h, src, pitch, width, height, kind, nullptr, false);
}
PER_THREAD(cudaMemcpy2DToArray, _ptds)
API(cudaMemcpy2DToArrayAsync)(cudaArray_t dst, size_t w, size_t h, const void* src, size_t pitch, size_t width, size_t height, int kind, cudaStream_t stream) {
  return rows_to_array(dst, w, h, src, pitch, width, height, kind, stream, true);
}
PER_THREAD(cudaMemcpy2DToArrayAsync, _ptsz)
API(cudaMemcpy2DFromArray)(void* dst, size_t pitch, cudaArray_const_t src, size_t w, size_t h, size_t width, size_t height, int kind) {
  return rows_from_array(dst, pitch, src, w, h, width, height, kind, nullptr, false);
}
PER_THREAD(cudaMemcpy2DFromArray, _ptds)
API(cudaMemcpy2DFromArrayAsync)(void* dst, size_t pitch, cudaArray_const_t src, size_t w, size_t h, size_t width, size_t height, int kind, cudaStream_t stream) {
  return rows_from_array(dst, pitch, src, w, h, width, height, kind, stream, true);
}
PER_THREAD(cudaMemcpy2DFromArrayAsync, _ptsz)
API(cudaMemcpy2DArrayToArray)(cudaArray_t dst, size_t dw, size_t dh, cudaArray_const_t src, size_t sw, size_t sh, size_t width, size_t height, int kind) {
  return runtime_in([&](Context& context) {
    CopyWork work;
    work.dst = array_side(array_of(dst), dw, dh, 0);
    work.src = array_side(array_of(src), sw, sh, 0);
    work.width = width;
    work.height = height;
    submit_copy(context, stream_of(context, nullptr), work, direction_of(kind), false);
  });
}
PER_THREAD(cudaMemcpy2DArrayToArray, _ptds)
API(cudaMemcpyToArray)(cudaArray_t dst, size_t w, size_t h, const void* src, size_t bytes, int kind) {
  return copy_array_run(dst, w, h, const_cast<void*>(src), bytes, kind, nullptr, false, true);
}
PER_THREAD(cudaMemcpyToArray, _ptds)
API(cudaMemcpyFromArray)(void* dst, cudaArray_const_t src, size_t w, size_t h, size_t bytes, int kind) {
  return copy_array_run(src, w, h, dst, bytes, kind, nullptr, false, false);
}
PER_THREAD(cudaMemcpyFromArray, _ptds)
API(cudaMemcpyToArrayAsync)(cudaArray_t dst, size_t w, size_t h, const void* src, size_t bytes, int kind, cudaStream_t stream) {
  return copy_array_run(dst, w, h, const_cast<void*>(src), bytes, kind, stream, true, true);
}
PER_THREAD(cudaMemcpyToArrayAsync, _ptsz)
API(cudaMemcpyFromArrayAsync)(void* dst, cudaArray_const_t src, size_t w, size_t h, size_t bytes, int kind, cudaStream_t stream) {
  return copy_array_run(src, w, h, dst, bytes, kind, stream, true, false);
}
PER_THREAD(cudaMemcpyFromArrayAsync, _ptsz)

API(cudaMemcpy3D)(const cudaMemcpy3DParms* p) { return copy_box(p, nullptr, false); }
PER_THREAD(cudaMemcpy3D, _ptds)
API(cudaMemcpy3DAsync)(const cudaMemcpy3DParms* p, cudaStream_t stream) { return copy_box(p, stream, true); }
PER_THREAD(cudaMemcpy3DAsync, _ptsz)
API(cudaMemcpy3DPeer)(const cudaMemcpy3DPeerParms* p) { return copy_peer_box(p, nullptr, false); }
PER_THREAD(cudaMemcpy3DPeer, _ptds)
API(cudaMemcpy3DPeerAsync)(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) { return copy_peer_box(p, stream, true); }
PER_THREAD(cudaMemcpy3DPeerAsync, _ptsz)
API(cudaMemcpyBatchAsync)(void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count, cudaMemcpyAttributes*, size_t*, size_t, cudaStream_t stream) {
  for (size_t i = 0; i < count; i++)
    if (int code = copy(dsts[i], srcs[i], sizes[i], 4, stream, true)) return code;
  return 0;
}
PER_THREAD(cudaMemcpyBatchAsync, _ptsz)
API(cudaMemcpyBatchAsync_12)(void** dsts, void** srcs, size_t* sizes, size_t count, cudaMemcpyAttributes* attributes, size_t* first, size_t n, size_t* failed, cudaStream_t stream) {
  if (failed) *failed = SIZE_MAX;
  return orrery_cudaMemcpyBatchAsync(dsts, srcs, sizes, count, attributes, first, n, stream);
}
PER_THREAD(cudaMemcpyBatchAsync_12, _ptsz)

API(cudaMemset)(void* address, int value, size_t bytes) { return fill({address, bytes, bytes, 1}, value, {bytes, 1, 1}, nullptr, false); }
PER_THREAD(cudaMemset, _ptds)
API(cudaMemsetAsync)(void* address, int value, size_t bytes, cudaStream_t stream) { return fill({address, bytes, bytes, 1}, value, {bytes, 1, 1}, stream, true); }
PER_THREAD(cudaMemsetAsync, _ptsz)
API(cudaMemset2D)(void* address, size_t pitch, int value, size_t width, size_t height) {
  return fill({address, pitch, width, height}, value, {width, height, 1}, nullptr, false);
}
PER_THREAD(cudaMemset2D, _ptds)
API(cudaMemset2DAsync)(void* address, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  return fill({address, pitch, width, height}, value, {width, height, 1}, stream, true);
}
PER_THREAD(cudaMemset2DAsync, _ptsz)
API(cudaMemset3D)(cudaPitchedPtr target, int value, cudaExtent extent) { return fill(target, value, extent, nullptr, false); }
PER_THREAD(cudaMemset3D, _ptds)
API(cudaMemset3DAsync)(cudaPitchedPtr target, int value, cudaExtent extent, cudaStream_t stream) { return fill(target, value, extent, stream, true); }
PER_THREAD(cudaMemset3DAsync, _ptsz)

API(cudaMemcpyToSymbol)(const void* symbol, const void* src, size_t bytes, size_t offset, int kind) {
  return copy_symbol(symbol, const_cast<void*>(src), bytes, offset, kind, nullptr, false, true);
}
PER_THREAD(cudaMemcpyToSymbol, _ptds)
API(cudaMemcpyToSymbolAsync)(const void* symbol, const void* src, size_t bytes, size_t offset, int kind, cudaStream_t stream) {
  return copy_symbol(symbol, const_cast<void*>(src), bytes, offset, kind, stream, true, true);
}
PER_THREAD(cudaMemcpyToSymbolAsync, _ptsz)
API(cudaMemcpyFromSymbol)(void* dst, const void* symbol, size_t bytes, size_t offset, int kind) {
  return copy_symbol(symbol, dst, bytes, offset, kind, nullptr, false, false);
}
PER_THREAD(cudaMemcpyFromSymbol, _ptds)
API(cudaMemcpyFromSymbolAsync)(void* dst, const void* symbol, size_t bytes, size_t offset, int kind, cudaStream_t stream) {
  return copy_symbol(symbol, dst, bytes, offset, kind, stream, true, false);
}
PER_THREAD(cudaMemcpyFromSymbolAsync, _ptsz)
API(cudaGetSymbolAddress)(void** address, const void* symbol) {
  return runtime_in([&](Context& context) {
    require(address != nullptr, Status::invalid_value);
    *address = reinterpret_cast<void*>(variable_of(context, symbol).address);
  });
}
API(cudaGetSymbolSize)(size_t* size, const void* symbol) {
  return runtime_in([&](Context& context) {
    require(size != nullptr, Status::invalid_value);
    *size = variable_of(context, symbol).size;
  });
}
