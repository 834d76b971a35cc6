// api/abi_runtime.h: the binary interface of the CUDA runtime, as far as Orrery's functions need it.
//
// Layouts and numbers only, in our own words: programs compiled against NVIDIA's headers pass exactly these bytes.
// tests/api/abi_check.cc compares them with the headers where these are installed.
// Source: CUDA runtime API reference (data structures, enumerations), versions 12 and 13.
#pragma once
#include <cstddef>
#include <cstdint>

namespace orrery::abi {

using cudaError_t = int;

// Opaque handles. A type of its own for each, so that they cannot be mixed up here.
typedef struct StreamTag* cudaStream_t;
typedef struct EventTag* cudaEvent_t;
typedef struct GraphTag* cudaGraph_t;
typedef struct GraphNodeTag* cudaGraphNode_t;
typedef struct GraphExecTag* cudaGraphExec_t;
typedef struct ArrayTag* cudaArray_t;
typedef const struct ArrayTag* cudaArray_const_t;
typedef struct MipmapTag* cudaMipmappedArray_t;
typedef const struct MipmapTag* cudaMipmappedArray_const_t;
typedef struct PoolTag* cudaMemPool_t;
typedef struct LibraryTag* cudaLibrary_t;
typedef struct KernelTag* cudaKernel_t;
typedef struct FunctionTag* cudaFunction_t;
typedef struct UserObjectTag* cudaUserObject_t;
using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;
using cudaHostFn_t = void (*)(void*);
using cudaStreamCallback_t = void (*)(cudaStream_t, cudaError_t, void*);

struct dim3 { unsigned x, y, z; };
struct cudaUUID { char bytes[16]; };
struct cudaChannelFormatDesc { int x, y, z, w, f; };
struct cudaPitchedPtr { void* ptr; size_t pitch, xsize, ysize; };
struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaMemcpy3DParms {
  cudaArray_t srcArray; cudaPos srcPos; cudaPitchedPtr srcPtr;
  cudaArray_t dstArray; cudaPos dstPos; cudaPitchedPtr dstPtr;
  cudaExtent extent; int kind;
};
struct cudaMemcpy3DPeerParms {
  cudaArray_t srcArray; cudaPos srcPos; cudaPitchedPtr srcPtr; int srcDevice;
  cudaArray_t dstArray; cudaPos dstPos; cudaPitchedPtr dstPtr; int dstDevice;
  cudaExtent extent;
};
struct cudaMemsetParams { void* dst; size_t pitch; unsigned value, elementSize; size_t width, height; };
struct cudaHostNodeParams { cudaHostFn_t fn; void* userData; };
struct cudaKernelNodeParams { void* func; dim3 gridDim, blockDim; unsigned sharedMemBytes; void** kernelParams; void** extra; };
struct cudaMemcpyNodeParams { int flags, reserved[3]; cudaMemcpy3DParms copyParams; };
struct cudaMemLocation { int type, id; };
struct cudaMemAccessDesc { cudaMemLocation location; int flags; };
struct cudaMemPoolProps {
  int allocType, handleTypes; cudaMemLocation location; void* win32SecurityAttributes;
  size_t maxSize; unsigned short usage; unsigned char reserved[54];
};
struct cudaMemAllocNodeParams {
  cudaMemPoolProps poolProps; const cudaMemAccessDesc* accessDescs; size_t accessDescCount, bytesize; void* dptr;
};
struct cudaMemcpyAttributes { int srcAccessOrder; cudaMemLocation srcLocHint, dstLocHint; unsigned flags; };
struct cudaArraySparseProperties { struct { unsigned width, height, depth; } tileExtent; unsigned miptailFirstLevel; unsigned long long miptailSize; unsigned flags, reserved[4]; };
struct cudaArrayMemoryRequirements { size_t size, alignment; unsigned reserved[4]; };
struct cudaResourceDesc {
  int resType;
  union {
    struct { cudaArray_t array; } array;
    struct { cudaMipmappedArray_t mipmap; } mipmap;
    struct { void* devPtr; cudaChannelFormatDesc desc; size_t sizeInBytes; } linear;
    struct { void* devPtr; cudaChannelFormatDesc desc; size_t width, height, pitchInBytes; } pitch2D;
    struct { int reserved[32]; } reserved;
  } res;
  unsigned flags;
};
struct cudaResourceViewDesc {
  int format; size_t width, height, depth; unsigned firstMipmapLevel, lastMipmapLevel, firstLayer, lastLayer, reserved[16];
};
struct cudaTextureDesc {
  int addressMode[3], filterMode, readMode, sRGB; float borderColor[4]; int normalizedCoords; unsigned maxAnisotropy;
  int mipmapFilterMode; float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp; int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaPointerAttributes { int type, device; void *devicePointer, *hostPointer; long reserved[8]; };
struct cudaPointerAttributes12 { int type, device; void *devicePointer, *hostPointer; };
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, preferredShmemCarveout;
  int clusterDimMustBeSet, requiredClusterWidth, requiredClusterHeight, requiredClusterDepth, clusterSchedulingPolicyPreference,
      nonPortableClusterSizeAllowed, reserved[16];
};
struct cudaIpcHandle { char reserved[64]; };

union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative, syncPolicy, clusterSchedulingPolicyPreference, programmaticStreamSerializationAllowed, priority, memSyncDomain;
  struct { unsigned x, y, z; } clusterDim;
  struct { cudaEvent_t event; int flags, triggerAtBlockStart; } programmaticEvent;
  struct { cudaEvent_t event; int flags; } launchCompletionEvent;
  unsigned sharedMemCarveout;
  struct { void* base_ptr; size_t num_bytes; float hitRatio; int hitProp, missProp; } accessPolicyWindow;
};
struct cudaLaunchAttribute { int id; char pad[4]; cudaLaunchAttributeValue val; };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; unsigned numAttrs;
};
enum LaunchAttribute : int {
  kAttrIgnore, kAttrAccessPolicyWindow, kAttrCooperative, kAttrSyncPolicy, kAttrClusterDimension, kAttrClusterScheduling,
  kAttrProgrammaticSerialization, kAttrProgrammaticEvent, kAttrPriority, kAttrMemSyncDomainMap, kAttrMemSyncDomain,
  kAttrPreferredClusterDimension, kAttrLaunchCompletionEvent, kAttrDeviceUpdatable, kAttrPreferredCarveout
};

struct cudaGraphEdgeData { unsigned char from_port, to_port, type, reserved[5]; };
struct cudaGraphInstantiateParams { unsigned long long flags; cudaStream_t uploadStream; cudaGraphNode_t errNode_out; int result_out; };
struct cudaGraphExecUpdateResultInfo { int result; cudaGraphNode_t errorNode, errorFromNode; };
// Also the driver's; a context follows that stands for the current one.
struct cudaConditionalNodeParams {
  unsigned long long handle;
  int type;
  unsigned size;
  cudaGraph_t* phGraph_out;
  void* ctx;
};
struct cudaGraphNodeParams {
  int type, reserved0[3];
  union {
    long long reserved1[29];
    cudaKernelNodeParams kernel;
    cudaMemcpyNodeParams memcpy;
    cudaMemsetParams memset;
    cudaHostNodeParams host;
    struct { cudaGraph_t graph; int ownership; } graph;
    struct { cudaEvent_t event; } eventWait;
    struct { cudaEvent_t event; } eventRecord;
    cudaMemAllocNodeParams alloc;
    struct { void* dptr; } free;
    cudaConditionalNodeParams conditional;
  };
  long long reserved2;
};

// Version 13 dropped fields that CUDA 12 has; both are filled from one list (device_properties.cc).
struct cudaDeviceProp13 {
  char name[256]; cudaUUID uuid; char luid[8]; unsigned luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock; int regsPerBlock, warpSize; size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3]; size_t totalConstMem; int major, minor;
  size_t textureAlignment, texturePitchAlignment; int multiProcessorCount, integrated, canMapHostMemory;
  int maxTexture1D, maxTexture1DMipmap, maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3],
      maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2], maxSurface1D,
      maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing, memoryBusWidth,
      l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported, pageableMemoryAccess,
      concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported, memoryPoolsSupported,
      gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions; int gpuDirectRDMAWritesOrdering; unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers, deviceNumaConfig, deviceNumaId, mpsEnabled,
      hostNumaId;
  unsigned gpuPciDeviceID, gpuPciSubsystemID; int hostNumaMultinodeIpcSupported, reserved[56];
};
struct cudaDeviceProp12 {
  char name[256]; cudaUUID uuid; char luid[8]; unsigned luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock; int regsPerBlock, warpSize; size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate; size_t totalConstMem; int major, minor;
  size_t textureAlignment, texturePitchAlignment; int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory,
      computeMode;
  int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2],
      maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2],
      maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap,
      maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing, memoryClockRate,
      memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported,
      localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported, singleToDoublePrecisionPerfRatio,
      pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch,
      cooperativeMultiDeviceLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported, memoryPoolsSupported,
      gpuDirectRDMASupported;
  unsigned gpuDirectRDMAFlushWritesOptions; int gpuDirectRDMAWritesOrdering; unsigned memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers, reserved2[2], reserved1[1], reserved[60];
};
static_assert(sizeof(cudaDeviceProp12) == 1032, "layout of CUDA 12");

}  // namespace orrery::abi
