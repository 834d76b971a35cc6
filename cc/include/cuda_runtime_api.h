// The C interface of the CUDA runtime, version 13.0, as implemented by Orrery's libcudart.
// Source: CUDA Runtime API reference. What Orrery implements of it: docs/api.md.
#ifndef ORRERY_CC_CUDA_RUNTIME_API_H
#define ORRERY_CC_CUDA_RUNTIME_API_H
#define __CUDA_RUNTIME_API_H__
#include <builtin_types.h>
#include <library_types.h>

#define CUDART_VERSION 13000
#define __CUDART_API_VERSION CUDART_VERSION
#ifdef __cplusplus
#define ORRERY_DEFAULT(v) = v
extern "C" {
#else
#define ORRERY_DEFAULT(v)
#endif
#ifndef __dv
#define __dv(v) ORRERY_DEFAULT(v)
#endif
#define ORRERY_API extern __host__ cudaError_t

// ---- per-thread default stream -------------------------------------------------------------------------------
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define ORRERY_PTDS(f) f##_ptds
#define ORRERY_PTSZ(f) f##_ptsz
#define cudaMemcpy ORRERY_PTDS(cudaMemcpy)
#define cudaMemcpyToSymbol ORRERY_PTDS(cudaMemcpyToSymbol)
#define cudaMemcpyFromSymbol ORRERY_PTDS(cudaMemcpyFromSymbol)
#define cudaMemcpy2D ORRERY_PTDS(cudaMemcpy2D)
#define cudaMemcpy2DToArray ORRERY_PTDS(cudaMemcpy2DToArray)
#define cudaMemcpy2DFromArray ORRERY_PTDS(cudaMemcpy2DFromArray)
#define cudaMemcpy2DArrayToArray ORRERY_PTDS(cudaMemcpy2DArrayToArray)
#define cudaMemcpy3D ORRERY_PTDS(cudaMemcpy3D)
#define cudaMemcpy3DPeer ORRERY_PTDS(cudaMemcpy3DPeer)
#define cudaMemset ORRERY_PTDS(cudaMemset)
#define cudaMemset2D ORRERY_PTDS(cudaMemset2D)
#define cudaMemset3D ORRERY_PTDS(cudaMemset3D)
#define cudaGraphLaunch ORRERY_PTSZ(cudaGraphLaunch)
#define cudaMemcpyAsync ORRERY_PTSZ(cudaMemcpyAsync)
#define cudaMemcpyToSymbolAsync ORRERY_PTSZ(cudaMemcpyToSymbolAsync)
#define cudaMemcpyFromSymbolAsync ORRERY_PTSZ(cudaMemcpyFromSymbolAsync)
#define cudaMemcpy2DAsync ORRERY_PTSZ(cudaMemcpy2DAsync)
#define cudaMemcpy2DToArrayAsync ORRERY_PTSZ(cudaMemcpy2DToArrayAsync)
#define cudaMemcpy2DFromArrayAsync ORRERY_PTSZ(cudaMemcpy2DFromArrayAsync)
#define cudaMemcpy3DAsync ORRERY_PTSZ(cudaMemcpy3DAsync)
#define cudaMemcpy3DPeerAsync ORRERY_PTSZ(cudaMemcpy3DPeerAsync)
#define cudaMemcpyPeerAsync cudaMemcpyPeerAsync
#define cudaMemsetAsync ORRERY_PTSZ(cudaMemsetAsync)
#define cudaMemset2DAsync ORRERY_PTSZ(cudaMemset2DAsync)
#define cudaMemset3DAsync ORRERY_PTSZ(cudaMemset3DAsync)
#define cudaStreamQuery ORRERY_PTSZ(cudaStreamQuery)
#define cudaStreamGetDevice ORRERY_PTSZ(cudaStreamGetDevice)
#define cudaStreamGetFlags ORRERY_PTSZ(cudaStreamGetFlags)
#define cudaStreamGetId ORRERY_PTSZ(cudaStreamGetId)
#define cudaStreamGetPriority ORRERY_PTSZ(cudaStreamGetPriority)
#define cudaStreamWaitEvent ORRERY_PTSZ(cudaStreamWaitEvent)
#define cudaStreamAddCallback ORRERY_PTSZ(cudaStreamAddCallback)
#define cudaStreamAttachMemAsync ORRERY_PTSZ(cudaStreamAttachMemAsync)
#define cudaStreamSynchronize ORRERY_PTSZ(cudaStreamSynchronize)
#define cudaLaunchKernel ORRERY_PTSZ(cudaLaunchKernel)
#define cudaLaunchKernelExC ORRERY_PTSZ(cudaLaunchKernelExC)
#define cudaLaunchHostFunc ORRERY_PTSZ(cudaLaunchHostFunc)
#define cudaMemPrefetchAsync ORRERY_PTSZ(cudaMemPrefetchAsync)
#define cudaLaunchCooperativeKernel ORRERY_PTSZ(cudaLaunchCooperativeKernel)
#define cudaStreamBeginCapture ORRERY_PTSZ(cudaStreamBeginCapture)
#define cudaStreamEndCapture ORRERY_PTSZ(cudaStreamEndCapture)
#define cudaStreamIsCapturing ORRERY_PTSZ(cudaStreamIsCapturing)
#define cudaStreamGetCaptureInfo ORRERY_PTSZ(cudaStreamGetCaptureInfo)
#define cudaStreamUpdateCaptureDependencies ORRERY_PTSZ(cudaStreamUpdateCaptureDependencies)
#define cudaStreamCopyAttributes ORRERY_PTSZ(cudaStreamCopyAttributes)
#define cudaStreamGetAttribute ORRERY_PTSZ(cudaStreamGetAttribute)
#define cudaStreamSetAttribute ORRERY_PTSZ(cudaStreamSetAttribute)
#define cudaEventRecord ORRERY_PTSZ(cudaEventRecord)
#define cudaEventRecordWithFlags ORRERY_PTSZ(cudaEventRecordWithFlags)
#define cudaMallocAsync ORRERY_PTSZ(cudaMallocAsync)
#define cudaFreeAsync ORRERY_PTSZ(cudaFreeAsync)
#define cudaMallocFromPoolAsync ORRERY_PTSZ(cudaMallocFromPoolAsync)
#define cudaGetDriverEntryPoint ORRERY_PTSZ(cudaGetDriverEntryPoint)
#define cudaGetDriverEntryPointByVersion ORRERY_PTSZ(cudaGetDriverEntryPointByVersion)
#endif

// ---- device --------------------------------------------------------------------------------------------------
ORRERY_API cudaDeviceReset(void);
ORRERY_API cudaDeviceSynchronize(void);
ORRERY_API cudaDeviceSetLimit(enum cudaLimit limit, size_t value);
ORRERY_API cudaDeviceGetLimit(size_t* value, enum cudaLimit limit);
ORRERY_API cudaDeviceGetTexture1DLinearMaxWidth(size_t* width, const struct cudaChannelFormatDesc* format, int device);
ORRERY_API cudaDeviceGetCacheConfig(enum cudaFuncCache* config);
ORRERY_API cudaDeviceSetCacheConfig(enum cudaFuncCache config);
ORRERY_API cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
ORRERY_API cudaDeviceGetByPCIBusId(int* device, const char* bus_id);
ORRERY_API cudaDeviceGetPCIBusId(char* bus_id, int length, int device);
ORRERY_API cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event);
ORRERY_API cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle);
ORRERY_API cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer);
ORRERY_API cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned int flags);
ORRERY_API cudaIpcCloseMemHandle(void* pointer);
ORRERY_API cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                              enum cudaFlushGPUDirectRDMAWritesScope scope);
ORRERY_API cudaGetDeviceCount(int* count);
ORRERY_API cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device);
ORRERY_API cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device);
ORRERY_API cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
ORRERY_API cudaDeviceSetMemPool(int device, cudaMemPool_t pool);
ORRERY_API cudaDeviceGetMemPool(cudaMemPool_t* pool, int device);
ORRERY_API cudaDeviceGetNvSciSyncAttributes(void* list, int device, int flags);
ORRERY_API cudaDeviceGetP2PAttribute(int* value, enum cudaDeviceP2PAttr attribute, int source, int destination);
ORRERY_API cudaChooseDevice(int* device, const struct cudaDeviceProp* properties);
ORRERY_API cudaInitDevice(int device, unsigned int device_flags, unsigned int flags);
ORRERY_API cudaSetDevice(int device);
ORRERY_API cudaGetDevice(int* device);
ORRERY_API cudaSetValidDevices(int* devices, int count);
ORRERY_API cudaSetDeviceFlags(unsigned int flags);
ORRERY_API cudaGetDeviceFlags(unsigned int* flags);
ORRERY_API cudaDeviceCanAccessPeer(int* can, int device, int peer);
ORRERY_API cudaDeviceEnablePeerAccess(int peer, unsigned int flags);
ORRERY_API cudaDeviceDisablePeerAccess(int peer);
ORRERY_API cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void* value);
ORRERY_API cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attribute, void* value);
ORRERY_API cudaDeviceGraphMemTrim(int device);

// ---- errors and versions -------------------------------------------------------------------------------------
ORRERY_API cudaGetLastError(void);
ORRERY_API cudaPeekAtLastError(void);
extern __host__ const char* cudaGetErrorName(cudaError_t error);
extern __host__ const char* cudaGetErrorString(cudaError_t error);
ORRERY_API cudaDriverGetVersion(int* version);
ORRERY_API cudaRuntimeGetVersion(int* version);

// ---- streams and events --------------------------------------------------------------------------------------
ORRERY_API cudaStreamCreate(cudaStream_t* stream);
ORRERY_API cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags);
ORRERY_API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority);
ORRERY_API cudaStreamGetPriority(cudaStream_t stream, int* priority);
ORRERY_API cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags);
ORRERY_API cudaStreamGetId(cudaStream_t stream, unsigned long long* id);
ORRERY_API cudaStreamGetDevice(cudaStream_t stream, int* device);
ORRERY_API cudaCtxResetPersistingL2Cache(void);
ORRERY_API cudaStreamCopyAttributes(cudaStream_t destination, cudaStream_t source);
ORRERY_API cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute, cudaLaunchAttributeValue* value);
ORRERY_API cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                  const cudaLaunchAttributeValue* value);
ORRERY_API cudaStreamDestroy(cudaStream_t stream);
ORRERY_API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int flags);
ORRERY_API cudaStreamSynchronize(cudaStream_t stream);
ORRERY_API cudaStreamQuery(cudaStream_t stream);
ORRERY_API cudaStreamAttachMemAsync(cudaStream_t stream, void* pointer, size_t length ORRERY_DEFAULT(0),
                                    unsigned int flags ORRERY_DEFAULT(cudaMemAttachSingle));
ORRERY_API cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
ORRERY_API cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                         const cudaGraphEdgeData* edges, size_t count, enum cudaStreamCaptureMode mode);
ORRERY_API cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode);
ORRERY_API cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
ORRERY_API cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status);
ORRERY_API cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status,
                                    unsigned long long* id ORRERY_DEFAULT(0), cudaGraph_t* graph ORRERY_DEFAULT(0),
                                    const cudaGraphNode_t** dependencies ORRERY_DEFAULT(0),
                                    const cudaGraphEdgeData** edges ORRERY_DEFAULT(0), size_t* count ORRERY_DEFAULT(0));
ORRERY_API cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                               const cudaGraphEdgeData* edges, size_t count,
                                               unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaEventCreate(cudaEvent_t* event);
ORRERY_API cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags);
ORRERY_API cudaEventRecord(cudaEvent_t event, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream ORRERY_DEFAULT(0),
                                    unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaEventQuery(cudaEvent_t event);
ORRERY_API cudaEventSynchronize(cudaEvent_t event);
ORRERY_API cudaEventDestroy(cudaEvent_t event);
ORRERY_API cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

// ---- execution -----------------------------------------------------------------------------------------------
ORRERY_API cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                            cudaStream_t stream);
ORRERY_API cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** args);
ORRERY_API cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                                       cudaStream_t stream);
ORRERY_API cudaFuncSetCacheConfig(const void* function, enum cudaFuncCache config);
ORRERY_API cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function);
ORRERY_API cudaFuncSetAttribute(const void* function, enum cudaFuncAttribute attribute, int value);
ORRERY_API cudaFuncGetName(const char** name, const void* function);
ORRERY_API cudaFuncGetParamInfo(const void* function, size_t index, size_t* offset, size_t* size);
ORRERY_API cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data);
ORRERY_API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block_size,
                                                         size_t shared_bytes);
ORRERY_API cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int block_size);
ORRERY_API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int block_size,
                                                                  size_t shared_bytes, unsigned int flags);
ORRERY_API cudaOccupancyMaxPotentialClusterSize(int* size, const void* function, const cudaLaunchConfig_t* config);
ORRERY_API cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config);
ORRERY_API cudaFuncSetSharedMemConfig(const void* function, enum cudaSharedMemConfig config);
ORRERY_API cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig* config);
ORRERY_API cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config);

// ---- memory --------------------------------------------------------------------------------------------------
ORRERY_API cudaMallocManaged(void** pointer, size_t bytes, unsigned int flags ORRERY_DEFAULT(cudaMemAttachGlobal));
ORRERY_API cudaMalloc(void** pointer, size_t bytes);
ORRERY_API cudaMallocHost(void** pointer, size_t bytes);
ORRERY_API cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height);
ORRERY_API cudaMallocArray(cudaArray_t* array, const struct cudaChannelFormatDesc* format, size_t width,
                           size_t height ORRERY_DEFAULT(0), unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaFree(void* pointer);
ORRERY_API cudaFreeHost(void* pointer);
ORRERY_API cudaFreeArray(cudaArray_t array);
ORRERY_API cudaFreeMipmappedArray(cudaMipmappedArray_t array);
ORRERY_API cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags);
ORRERY_API cudaHostRegister(void* pointer, size_t bytes, unsigned int flags);
ORRERY_API cudaHostUnregister(void* pointer);
ORRERY_API cudaHostGetDevicePointer(void** device, void* host, unsigned int flags);
ORRERY_API cudaHostGetFlags(unsigned int* flags, void* host);
ORRERY_API cudaMalloc3D(struct cudaPitchedPtr* pointer, struct cudaExtent extent);
ORRERY_API cudaMalloc3DArray(cudaArray_t* array, const struct cudaChannelFormatDesc* format, struct cudaExtent extent,
                             unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const struct cudaChannelFormatDesc* format,
                                    struct cudaExtent extent, unsigned int levels,
                                    unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaGetMipmappedArrayLevel(cudaArray_t* level_array, cudaMipmappedArray_const_t array, unsigned int level);
ORRERY_API cudaMemcpy3D(const struct cudaMemcpy3DParms* p);
ORRERY_API cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms* p);
ORRERY_API cudaMemcpy3DAsync(const struct cudaMemcpy3DParms* p, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms* p, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
ORRERY_API cudaArrayGetInfo(struct cudaChannelFormatDesc* format, struct cudaExtent* extent, unsigned int* flags,
                            cudaArray_t array);
ORRERY_API cudaArrayGetPlane(cudaArray_t* plane_array, cudaArray_t array, unsigned int plane);
ORRERY_API cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements* requirements, cudaArray_t array, int device);
ORRERY_API cudaMipmappedArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements* requirements,
                                                   cudaMipmappedArray_t array, int device);
ORRERY_API cudaArrayGetSparseProperties(struct cudaArraySparseProperties* properties, cudaArray_t array);
ORRERY_API cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties* properties,
                                                 cudaMipmappedArray_t array);
ORRERY_API cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind);
ORRERY_API cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes);
ORRERY_API cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                        enum cudaMemcpyKind kind);
ORRERY_API cudaMemcpy2DToArray(cudaArray_t to, size_t w_offset, size_t h_offset, const void* from, size_t pitch,
                               size_t width, size_t height, enum cudaMemcpyKind kind);
ORRERY_API cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t w_offset, size_t h_offset,
                                 size_t width, size_t height, enum cudaMemcpyKind kind);
ORRERY_API cudaMemcpy2DArrayToArray(cudaArray_t to, size_t to_w, size_t to_h, cudaArray_const_t from, size_t from_w,
                                    size_t from_h, size_t width, size_t height,
                                    enum cudaMemcpyKind kind ORRERY_DEFAULT(cudaMemcpyDeviceToDevice));
ORRERY_API cudaMemcpyToArray(cudaArray_t to, size_t w_offset, size_t h_offset, const void* from, size_t bytes,
                             enum cudaMemcpyKind kind);
ORRERY_API cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t w_offset, size_t h_offset, size_t bytes,
                               enum cudaMemcpyKind kind);
ORRERY_API cudaMemcpyArrayToArray(cudaArray_t to, size_t to_w, size_t to_h, cudaArray_const_t from, size_t from_w,
                                  size_t from_h, size_t bytes,
                                  enum cudaMemcpyKind kind ORRERY_DEFAULT(cudaMemcpyDeviceToDevice));
ORRERY_API cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset ORRERY_DEFAULT(0),
                              enum cudaMemcpyKind kind ORRERY_DEFAULT(cudaMemcpyHostToDevice));
ORRERY_API cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset ORRERY_DEFAULT(0),
                                enum cudaMemcpyKind kind ORRERY_DEFAULT(cudaMemcpyDeviceToHost));
ORRERY_API cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                           cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                               cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* sizes, size_t count,
                                struct cudaMemcpyAttributes* attributes, size_t* attribute_indices,
                                size_t attribute_count, cudaStream_t stream);
ORRERY_API cudaMemcpy3DBatchAsync(size_t count, struct cudaMemcpy3DBatchOp* operations, unsigned long long flags,
                                  cudaStream_t stream);
ORRERY_API cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                             size_t height, enum cudaMemcpyKind kind, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t w_offset, size_t h_offset, const void* from, size_t pitch,
                                    size_t width, size_t height, enum cudaMemcpyKind kind,
                                    cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t w_offset, size_t h_offset,
                                      size_t width, size_t height, enum cudaMemcpyKind kind,
                                      cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpyToArrayAsync(cudaArray_t to, size_t w_offset, size_t h_offset, const void* from, size_t bytes,
                                  enum cudaMemcpyKind kind, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpyFromArrayAsync(void* to, cudaArray_const_t from, size_t w_offset, size_t h_offset, size_t bytes,
                                    enum cudaMemcpyKind kind, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                   enum cudaMemcpyKind kind, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                     enum cudaMemcpyKind kind, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemset(void* pointer, int value, size_t bytes);
ORRERY_API cudaMemset2D(void* pointer, size_t pitch, int value, size_t width, size_t height);
ORRERY_API cudaMemset3D(struct cudaPitchedPtr pointer, int value, struct cudaExtent extent);
ORRERY_API cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                             cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemset3DAsync(struct cudaPitchedPtr pointer, int value, struct cudaExtent extent,
                             cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaGetSymbolAddress(void** pointer, const void* symbol);
ORRERY_API cudaGetSymbolSize(size_t* bytes, const void* symbol);
ORRERY_API cudaMemPrefetchAsync(const void* pointer, size_t bytes, struct cudaMemLocation location, unsigned int flags,
                                cudaStream_t stream ORRERY_DEFAULT(0));
ORRERY_API cudaMemPrefetchBatchAsync(void** pointers, size_t* sizes, size_t count, struct cudaMemLocation* locations,
                                     size_t* location_indices, size_t location_count, unsigned long long flags,
                                     cudaStream_t stream);
ORRERY_API cudaMemDiscardBatchAsync(void** pointers, size_t* sizes, size_t count, unsigned long long flags,
                                    cudaStream_t stream);
ORRERY_API cudaMemDiscardAndPrefetchBatchAsync(void** pointers, size_t* sizes, size_t count,
                                               struct cudaMemLocation* locations, size_t* location_indices,
                                               size_t location_count, unsigned long long flags, cudaStream_t stream);
ORRERY_API cudaMemAdvise(const void* pointer, size_t bytes, enum cudaMemoryAdvise advice,
                         struct cudaMemLocation location);
ORRERY_API cudaMemRangeGetAttribute(void* data, size_t data_bytes, enum cudaMemRangeAttribute attribute,
                                    const void* pointer, size_t bytes);
ORRERY_API cudaMemRangeGetAttributes(void** data, size_t* data_bytes, enum cudaMemRangeAttribute* attributes,
                                     size_t count, const void* pointer, size_t bytes);
ORRERY_API cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* pointer);

// ---- stream-ordered memory -----------------------------------------------------------------------------------
ORRERY_API cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream);
ORRERY_API cudaFreeAsync(void* pointer, cudaStream_t stream);
ORRERY_API cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes);
ORRERY_API cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value);
ORRERY_API cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value);
ORRERY_API cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc* list, size_t count);
ORRERY_API cudaMemPoolGetAccess(enum cudaMemAccessFlags* flags, cudaMemPool_t pool, struct cudaMemLocation* location);
ORRERY_API cudaMemPoolCreate(cudaMemPool_t* pool, const struct cudaMemPoolProps* properties);
ORRERY_API cudaMemPoolDestroy(cudaMemPool_t pool);
ORRERY_API cudaMemGetDefaultMemPool(cudaMemPool_t* pool, struct cudaMemLocation* location,
                                    enum cudaMemAllocationType type);
ORRERY_API cudaMemGetMemPool(cudaMemPool_t* pool, struct cudaMemLocation* location, enum cudaMemAllocationType type);
ORRERY_API cudaMemSetMemPool(struct cudaMemLocation* location, enum cudaMemAllocationType type, cudaMemPool_t pool);
ORRERY_API cudaMallocFromPoolAsync(void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
ORRERY_API cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool, enum cudaMemAllocationHandleType type,
                                              unsigned int flags);
ORRERY_API cudaMemPoolImportFromShareableHandle(cudaMemPool_t* pool, void* handle,
                                                enum cudaMemAllocationHandleType type, unsigned int flags);
ORRERY_API cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData* data, void* pointer);
ORRERY_API cudaMemPoolImportPointer(void** pointer, cudaMemPool_t pool, struct cudaMemPoolPtrExportData* data);

// ---- arrays, textures, surfaces ------------------------------------------------------------------------------
ORRERY_API cudaGetChannelDesc(struct cudaChannelFormatDesc* format, cudaArray_const_t array);
extern __host__ struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                   enum cudaChannelFormatKind kind);
ORRERY_API cudaCreateTextureObject(cudaTextureObject_t* texture, const struct cudaResourceDesc* resource,
                                   const struct cudaTextureDesc* description, const struct cudaResourceViewDesc* view);
ORRERY_API cudaDestroyTextureObject(cudaTextureObject_t texture);
ORRERY_API cudaGetTextureObjectResourceDesc(struct cudaResourceDesc* resource, cudaTextureObject_t texture);
ORRERY_API cudaGetTextureObjectTextureDesc(struct cudaTextureDesc* description, cudaTextureObject_t texture);
ORRERY_API cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc* view, cudaTextureObject_t texture);
ORRERY_API cudaCreateSurfaceObject(cudaSurfaceObject_t* surface, const struct cudaResourceDesc* resource);
ORRERY_API cudaDestroySurfaceObject(cudaSurfaceObject_t surface);
ORRERY_API cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc* resource, cudaSurfaceObject_t surface);

// ---- graphs --------------------------------------------------------------------------------------------------
ORRERY_API cudaGraphCreate(cudaGraph_t* graph, unsigned int flags);
ORRERY_API cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                  size_t count, const struct cudaKernelNodeParams* params);
ORRERY_API cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams* params);
ORRERY_API cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams* params);
ORRERY_API cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t destination, cudaGraphNode_t source);
ORRERY_API cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                           cudaLaunchAttributeValue* value);
ORRERY_API cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID attribute,
                                           const cudaLaunchAttributeValue* value);
ORRERY_API cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                  size_t count, const struct cudaMemcpy3DParms* params);
ORRERY_API cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies, size_t count, const void* symbol,
                                          const void* from, size_t bytes, size_t offset, enum cudaMemcpyKind kind);
ORRERY_API cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t* node, cudaGraph_t graph,
                                            const cudaGraphNode_t* dependencies, size_t count, void* to,
                                            const void* symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind);
ORRERY_API cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                    size_t count, void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind);
ORRERY_API cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms* params);
ORRERY_API cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms* params);
ORRERY_API cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void* symbol, const void* from,
                                                size_t bytes, size_t offset, enum cudaMemcpyKind kind);
ORRERY_API cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void* to, const void* symbol, size_t bytes,
                                                  size_t offset, enum cudaMemcpyKind kind);
ORRERY_API cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void* to, const void* from, size_t bytes,
                                          enum cudaMemcpyKind kind);
ORRERY_API cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                  size_t count, const struct cudaMemsetParams* params);
ORRERY_API cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams* params);
ORRERY_API cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams* params);
ORRERY_API cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                size_t count, const struct cudaHostNodeParams* params);
ORRERY_API cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams* params);
ORRERY_API cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams* params);
ORRERY_API cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                      size_t count, cudaGraph_t child);
ORRERY_API cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph);
ORRERY_API cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                 size_t count);
ORRERY_API cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                       size_t count, cudaEvent_t event);
ORRERY_API cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event);
ORRERY_API cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
ORRERY_API cudaGraphAddEventWaitNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                     size_t count, cudaEvent_t event);
ORRERY_API cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event);
ORRERY_API cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event);
ORRERY_API cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                    size_t count, struct cudaMemAllocNodeParams* params);
ORRERY_API cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams* params);
ORRERY_API cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                                   size_t count, void* pointer);
ORRERY_API cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer_out);
ORRERY_API cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph);
ORRERY_API cudaGraphNodeFindInClone(cudaGraphNode_t* node, cudaGraphNode_t original, cudaGraph_t clone);
ORRERY_API cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType* type);
ORRERY_API cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
ORRERY_API cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
ORRERY_API cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                             size_t* count);
ORRERY_API cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                                        size_t* count);
ORRERY_API cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* edges,
                                          size_t* count);
ORRERY_API cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                    const cudaGraphEdgeData* edges, size_t count);
ORRERY_API cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                       const cudaGraphEdgeData* edges, size_t count);
ORRERY_API cudaGraphDestroyNode(cudaGraphNode_t node);
ORRERY_API cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags ORRERY_DEFAULT(0));
ORRERY_API cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                         unsigned long long flags ORRERY_DEFAULT(0));
ORRERY_API cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* params);
ORRERY_API cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags);
ORRERY_API cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            const struct cudaKernelNodeParams* params);
ORRERY_API cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            const struct cudaMemcpy3DParms* params);
ORRERY_API cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, const void* symbol,
                                                    const void* from, size_t bytes, size_t offset,
                                                    enum cudaMemcpyKind kind);
ORRERY_API cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t exec, cudaGraphNode_t node, void* to,
                                                      const void* symbol, size_t bytes, size_t offset,
                                                      enum cudaMemcpyKind kind);
ORRERY_API cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from,
                                              size_t bytes, enum cudaMemcpyKind kind);
ORRERY_API cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                            const struct cudaMemsetParams* params);
ORRERY_API cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                          const struct cudaHostNodeParams* params);
ORRERY_API cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child);
ORRERY_API cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event);
ORRERY_API cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event);
ORRERY_API cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int enabled);
ORRERY_API cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t node, unsigned int* enabled);
ORRERY_API cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* info);
ORRERY_API cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream);
ORRERY_API cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
ORRERY_API cudaGraphExecDestroy(cudaGraphExec_t exec);
ORRERY_API cudaGraphDestroy(cudaGraph_t graph);
ORRERY_API cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags);
ORRERY_API cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy, unsigned int references,
                                unsigned int flags);
ORRERY_API cudaUserObjectRetain(cudaUserObject_t object, unsigned int count ORRERY_DEFAULT(1));
ORRERY_API cudaUserObjectRelease(cudaUserObject_t object, unsigned int count ORRERY_DEFAULT(1));
ORRERY_API cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count ORRERY_DEFAULT(1),
                                     unsigned int flags ORRERY_DEFAULT(0));
ORRERY_API cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count ORRERY_DEFAULT(1));
ORRERY_API cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                            const cudaGraphEdgeData* edges, size_t count, struct cudaGraphNodeParams* params);
ORRERY_API cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams* params);
ORRERY_API cudaGraphExecNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node, struct cudaGraphNodeParams* params);
ORRERY_API cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                            unsigned int default_value ORRERY_DEFAULT(0),
                                            unsigned int flags ORRERY_DEFAULT(0));

// ---- entry points, libraries, profiler -----------------------------------------------------------------------
ORRERY_API cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags,
                                   enum cudaDriverEntryPointQueryResult* status ORRERY_DEFAULT(0));
ORRERY_API cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int version,
                                            unsigned long long flags,
                                            enum cudaDriverEntryPointQueryResult* status ORRERY_DEFAULT(0));
ORRERY_API cudaLibraryLoadData(cudaLibrary_t* library, const void* code, enum cudaJitOption* jit_options,
                               void** jit_values, unsigned int jit_count, enum cudaLibraryOption* options,
                               void** values, unsigned int count);
ORRERY_API cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* path, enum cudaJitOption* jit_options,
                                   void** jit_values, unsigned int jit_count, enum cudaLibraryOption* options,
                                   void** values, unsigned int count);
ORRERY_API cudaLibraryUnload(cudaLibrary_t library);
ORRERY_API cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name);
ORRERY_API cudaLibraryGetGlobal(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name);
ORRERY_API cudaLibraryGetManaged(void** pointer, size_t* bytes, cudaLibrary_t library, const char* name);
ORRERY_API cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library, const char* symbol);
ORRERY_API cudaLibraryGetKernelCount(unsigned int* count, cudaLibrary_t library);
ORRERY_API cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned int count, cudaLibrary_t library);
ORRERY_API cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int device);
ORRERY_API cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol);
ORRERY_API cudaGetKernel(cudaKernel_t* kernel, const void* symbol);
ORRERY_API cudaProfilerStart(void);
ORRERY_API cudaProfilerStop(void);

#ifdef __cplusplus
}
#endif
#undef ORRERY_API
#endif
