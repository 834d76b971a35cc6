// The C++ interface of the CUDA runtime: the C functions, and the templates and overloads on top of them.
// In a CUDA translation unit the device built-ins come from orrery_cc.h, which `orrery cc` includes first.
#ifndef ORRERY_CC_CUDA_RUNTIME_H
#define ORRERY_CC_CUDA_RUNTIME_H
#define __CUDA_RUNTIME_H__
#include <cuda_runtime_api.h>
#include <vector_functions.h>
#if defined(__CUDA__)
#include <orrery_cc.h>
#endif

#ifdef __cplusplus
#include <utility>

#define ORRERY_INLINE template <class T> static inline __host__ cudaError_t

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes = 0, void* stream = 0);

// ---- managed variables (crt/host_defines.h) --------------------------------------------------------------------
#if defined(__CUDA__) && !defined(__CUDA_ARCH__)
extern "C" {
extern const char __start_orrery_managed[] __attribute__((weak, visibility("hidden")));
extern const char __stop_orrery_managed[] __attribute__((weak, visibility("hidden")));
void __cudaOrreryManagedRange(const void*, const void*) __attribute__((weak));
}
namespace orrery_cc {
// Before clang's constructor registers the variables, which has no priority.
__attribute__((constructor(101), used)) static inline __host__ void announce_managed() {
  if (__start_orrery_managed != __stop_orrery_managed && __cudaOrreryManagedRange)
    __cudaOrreryManagedRange(__start_orrery_managed, __stop_orrery_managed);
}
}  // namespace orrery_cc
#endif

// ---- launches from kernels: declared for code that names them in branches it never takes; there is no such function --
#if defined(__CUDA__)
extern "C" {
__device__ void* cudaGetParameterBuffer(size_t alignment, size_t bytes);
__device__ void* cudaGetParameterBufferV2(void* kernel, dim3 grid, dim3 block, unsigned int shared_bytes);
__device__ cudaError_t cudaLaunchDevice(void* kernel, void* parameters, dim3 grid, dim3 block, unsigned int shared_bytes, cudaStream_t stream);
__device__ cudaError_t cudaLaunchDeviceV2(void* parameters, cudaStream_t stream);
__device__ cudaError_t __cudaDeviceSynchronizeDeprecationAvoidance();
}
#endif

// ---- texel formats -------------------------------------------------------------------------------------------
namespace orrery_cc {
template <class T> struct Texel;
#define ORRERY_TEXEL1(T, bits, kind)                                                     \
  template <> struct Texel<T> {                                                          \
    static cudaChannelFormatDesc format() { return {bits, 0, 0, 0, kind}; }              \
  };
#define ORRERY_TEXEL(T, N, bits, kind)                                                                            \
  ORRERY_TEXEL1(T, bits, kind)                                                                                    \
  ORRERY_TEXEL1(N##1, bits, kind)                                                                                 \
  template <> struct Texel<N##2> { static cudaChannelFormatDesc format() { return {bits, bits, 0, 0, kind}; } }; \
  template <> struct Texel<N##4> { static cudaChannelFormatDesc format() { return {bits, bits, bits, bits, kind}; } };
ORRERY_TEXEL1(char, 8, cudaChannelFormatKindSigned)
ORRERY_TEXEL(signed char, char, 8, cudaChannelFormatKindSigned)
ORRERY_TEXEL(unsigned char, uchar, 8, cudaChannelFormatKindUnsigned)
ORRERY_TEXEL(short, short, 16, cudaChannelFormatKindSigned)
ORRERY_TEXEL(unsigned short, ushort, 16, cudaChannelFormatKindUnsigned)
ORRERY_TEXEL(int, int, 32, cudaChannelFormatKindSigned)
ORRERY_TEXEL(unsigned int, uint, 32, cudaChannelFormatKindUnsigned)
ORRERY_TEXEL(float, float, 32, cudaChannelFormatKindFloat)
#undef ORRERY_TEXEL
#undef ORRERY_TEXEL1
}  // namespace orrery_cc
template <class T> static inline __host__ cudaChannelFormatDesc cudaCreateChannelDesc() {
  return orrery_cc::Texel<T>::format();
}
static inline __host__ cudaChannelFormatDesc cudaCreateChannelDescHalf() {
  return {16, 0, 0, 0, cudaChannelFormatKindFloat};
}

// ---- constructors --------------------------------------------------------------------------------------------
static inline __host__ cudaPitchedPtr make_cudaPitchedPtr(void* p, size_t pitch, size_t width, size_t height) {
  return {p, pitch, width, height};
}
static inline __host__ cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
static inline __host__ cudaExtent make_cudaExtent(size_t w, size_t h, size_t d) { return {w, h, d}; }

// ---- memory --------------------------------------------------------------------------------------------------
ORRERY_INLINE cudaMalloc(T** p, size_t bytes) { return ::cudaMalloc((void**)p, bytes); }
ORRERY_INLINE cudaMallocHost(T** p, size_t bytes, unsigned int flags = 0) {
  return ::cudaHostAlloc((void**)p, bytes, flags);
}
static inline __host__ cudaError_t cudaMallocHost(void** p, size_t bytes, unsigned int flags) {
  return ::cudaHostAlloc(p, bytes, flags);
}
ORRERY_INLINE cudaHostAlloc(T** p, size_t bytes, unsigned int flags) {
  return ::cudaHostAlloc((void**)p, bytes, flags);
}
ORRERY_INLINE cudaHostGetDevicePointer(T** device, void* host, unsigned int flags) {
  return ::cudaHostGetDevicePointer((void**)device, host, flags);
}
ORRERY_INLINE cudaMallocManaged(T** p, size_t bytes, unsigned int flags = cudaMemAttachGlobal) {
  return ::cudaMallocManaged((void**)p, bytes, flags);
}
ORRERY_INLINE cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) {
  return ::cudaMallocPitch((void**)p, pitch, width, height);
}
ORRERY_INLINE cudaMallocAsync(T** p, size_t bytes, cudaStream_t stream) {
  return ::cudaMallocAsync((void**)p, bytes, stream);
}
static inline __host__ cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync(p, bytes, pool, stream);
}
ORRERY_INLINE cudaMallocAsync(T** p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void**)p, bytes, pool, stream);
}
ORRERY_INLINE cudaMallocFromPoolAsync(T** p, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void**)p, bytes, pool, stream);
}
ORRERY_INLINE cudaStreamAttachMemAsync(cudaStream_t stream, T* p, size_t length = 0,
                                       unsigned int flags = cudaMemAttachSingle) {
  return ::cudaStreamAttachMemAsync(stream, (void*)p, length, flags);
}

// ---- symbols -------------------------------------------------------------------------------------------------
ORRERY_INLINE cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return ::cudaMemcpyToSymbol((const void*)&symbol, from, bytes, offset, kind);
}
ORRERY_INLINE cudaMemcpyToSymbolAsync(const T& symbol, const void* from, size_t bytes, size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyHostToDevice, cudaStream_t stream = 0) {
  return ::cudaMemcpyToSymbolAsync((const void*)&symbol, from, bytes, offset, kind, stream);
}
ORRERY_INLINE cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                   cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return ::cudaMemcpyFromSymbol(to, (const void*)&symbol, bytes, offset, kind);
}
ORRERY_INLINE cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes, size_t offset = 0,
                                        cudaMemcpyKind kind = cudaMemcpyDeviceToHost, cudaStream_t stream = 0) {
  return ::cudaMemcpyFromSymbolAsync(to, (const void*)&symbol, bytes, offset, kind, stream);
}
ORRERY_INLINE cudaGetSymbolAddress(void** p, const T& symbol) {
  return ::cudaGetSymbolAddress(p, (const void*)&symbol);
}
ORRERY_INLINE cudaGetSymbolSize(size_t* bytes, const T& symbol) {
  return ::cudaGetSymbolSize(bytes, (const void*)&symbol);
}
ORRERY_INLINE cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* deps,
                                             size_t n, const T& symbol, const void* from, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind) {
  return ::cudaGraphAddMemcpyNodeToSymbol(node, graph, deps, n, (const void*)&symbol, from, bytes, offset, kind);
}
ORRERY_INLINE cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* deps,
                                               size_t n, void* to, const T& symbol, size_t bytes, size_t offset,
                                               cudaMemcpyKind kind) {
  return ::cudaGraphAddMemcpyNodeFromSymbol(node, graph, deps, n, to, (const void*)&symbol, bytes, offset, kind);
}
ORRERY_INLINE cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const T& symbol, const void* from,
                                                   size_t bytes, size_t offset, cudaMemcpyKind kind) {
  return ::cudaGraphMemcpyNodeSetParamsToSymbol(node, (const void*)&symbol, from, bytes, offset, kind);
}
ORRERY_INLINE cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const T& symbol, size_t bytes,
                                                     size_t offset, cudaMemcpyKind kind) {
  return ::cudaGraphMemcpyNodeSetParamsFromSymbol(node, to, (const void*)&symbol, bytes, offset, kind);
}

// ---- execution -----------------------------------------------------------------------------------------------
ORRERY_INLINE cudaLaunchKernel(T* f, dim3 grid, dim3 block, void** args, size_t shared_bytes = 0,
                               cudaStream_t stream = 0) {
  return ::cudaLaunchKernel((const void*)f, grid, block, args, shared_bytes, stream);
}
ORRERY_INLINE cudaLaunchCooperativeKernel(T* f, dim3 grid, dim3 block, void** args, size_t shared_bytes = 0,
                                          cudaStream_t stream = 0) {
  return ::cudaLaunchCooperativeKernel((const void*)f, grid, block, args, shared_bytes, stream);
}
template <class... Params, class... Args>
static inline __host__ cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*f)(Params...),
                                                      Args&&... args) {
  return [&](Params... converted) {
    void* list[] = {(void*)&converted..., nullptr};
    return ::cudaLaunchKernelExC(config, (const void*)f, list);
  }(std::forward<Args>(args)...);
}
ORRERY_INLINE cudaFuncSetCacheConfig(T* f, cudaFuncCache config) {
  return ::cudaFuncSetCacheConfig((const void*)f, config);
}
ORRERY_INLINE cudaFuncSetSharedMemConfig(T* f, cudaSharedMemConfig config) {
  return ::cudaFuncSetSharedMemConfig((const void*)f, config);
}
ORRERY_INLINE cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* f) {
  return ::cudaFuncGetAttributes(attributes, (const void*)f);
}
ORRERY_INLINE cudaFuncSetAttribute(T* f, cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute((const void*)f, attribute, value);
}
ORRERY_INLINE cudaFuncGetName(const char** name, T* f) { return ::cudaFuncGetName(name, (const void*)f); }
ORRERY_INLINE cudaGetFuncBySymbol(cudaFunction_t* function, T* f) {
  return ::cudaGetFuncBySymbol(function, (const void*)f);
}
ORRERY_INLINE cudaGetKernel(cudaKernel_t* kernel, T* f) { return ::cudaGetKernel(kernel, (const void*)f); }
ORRERY_INLINE cudaLibraryGetGlobal(T** p, size_t* bytes, cudaLibrary_t library, const char* name) {
  return ::cudaLibraryGetGlobal((void**)p, bytes, library, name);
}
ORRERY_INLINE cudaLibraryGetManaged(T** p, size_t* bytes, cudaLibrary_t library, const char* name) {
  return ::cudaLibraryGetManaged((void**)p, bytes, library, name);
}

static inline __host__ cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned int flags) {
  return ::cudaEventCreateWithFlags(event, flags);
}
static inline __host__ cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        cudaGraphNode_t* error_node, char* log, size_t log_bytes) {
  if (error_node) *error_node = 0;
  if (log && log_bytes) *log = 0;
  return ::cudaGraphInstantiate(exec, graph, 0);
}

// ---- occupancy -----------------------------------------------------------------------------------------------
ORRERY_INLINE cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, T f, int block_size, size_t shared_bytes) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (const void*)f, block_size, shared_bytes);
}
ORRERY_INLINE cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, T f, int block_size,
                                                                     size_t shared_bytes, unsigned int flags) {
  return ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, (const void*)f, block_size, shared_bytes,
                                                                  flags);
}
ORRERY_INLINE cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, T* f, int blocks, int block_size) {
  return ::cudaOccupancyAvailableDynamicSMemPerBlock(bytes, (const void*)f, blocks, block_size);
}
ORRERY_INLINE cudaOccupancyMaxPotentialClusterSize(int* size, T* f, const cudaLaunchConfig_t* config) {
  return ::cudaOccupancyMaxPotentialClusterSize(size, (const void*)f, config);
}
ORRERY_INLINE cudaOccupancyMaxActiveClusters(int* clusters, T* f, const cudaLaunchConfig_t* config) {
  return ::cudaOccupancyMaxActiveClusters(clusters, (const void*)f, config);
}
// The block size with the most resident threads, and the smallest grid that fills the device with it; the shared
// memory may depend on the block size.
template <class SharedBytes, class T>
static inline __host__ cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
    int* min_grid, int* block_size, T f, SharedBytes shared_bytes, int limit = 0, unsigned int flags = 0) {
  int device, processors, per_processor, device_limit;
  cudaFuncAttributes attributes;
  cudaError_t e = ::cudaGetDevice(&device);
  if (e == cudaSuccess) e = ::cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (e == cudaSuccess)
    e = ::cudaDeviceGetAttribute(&per_processor, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  if (e == cudaSuccess) e = ::cudaDeviceGetAttribute(&device_limit, cudaDevAttrMaxThreadsPerBlock, device);
  if (e == cudaSuccess) e = ::cudaFuncGetAttributes(&attributes, (const void*)f);
  if (e != cudaSuccess) return e;
  int top = attributes.maxThreadsPerBlock < device_limit ? attributes.maxThreadsPerBlock : device_limit;
  if (limit > 0 && limit < top) top = limit;
  int best_threads = 0;
  for (int size = (top + 31) / 32 * 32; size > 0; size -= 32) {
    int candidate = size < top ? size : top, blocks = 0;
    e = ::cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void*)f, candidate,
                                                                 shared_bytes(candidate), flags);
    if (e != cudaSuccess) return e;
    if (blocks * candidate > best_threads) {
      best_threads = blocks * candidate;
      *block_size = candidate;
      *min_grid = blocks * processors;
    }
    if (best_threads == per_processor) break;
  }
  return cudaSuccess;
}
template <class SharedBytes, class T>
static inline __host__ cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* min_grid, int* block_size, T f,
                                                                                  SharedBytes shared_bytes,
                                                                                  int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(min_grid, block_size, f, shared_bytes, limit, 0u);
}
template <class T>
static inline __host__ cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block_size, T f,
                                                                               size_t shared_bytes = 0, int limit = 0,
                                                                               unsigned int flags = 0) {
  return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
      min_grid, block_size, f, [=](int) { return shared_bytes; }, limit, flags);
}
template <class T>
static inline __host__ cudaError_t cudaOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size, T f,
                                                                      size_t shared_bytes = 0, int limit = 0) {
  return cudaOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, f, shared_bytes, limit, 0u);
}
#undef ORRERY_INLINE
#endif  // __cplusplus
#endif
