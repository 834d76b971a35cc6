// api/abi_driver.h: the binary interface of the driver API where it differs from the runtime's.
//
// Handles of both APIs are the same objects: CUstream is cudaStream_t, CUgraph is cudaGraph_t, CUarray is cudaArray_t,
// and so on; launch attributes, pool properties and graph edges have the same layout.
// Source: CUDA driver API reference (data structures), versions 12 and 13.
#pragma once
#include "api/abi_runtime.h"

namespace orrery::abi {

using CUdeviceptr = unsigned long long;
using CUdevice = int;
typedef struct ContextTag* CUcontext;
typedef struct ModuleTag* CUmodule;
typedef struct LinkTag* CUlinkState;
using CUstream = cudaStream_t;
using CUevent = cudaEvent_t;
using CUgraph = cudaGraph_t;
using CUgraphNode = cudaGraphNode_t;
using CUgraphExec = cudaGraphExec_t;
using CUarray = cudaArray_t;
using CUmipmappedArray = cudaMipmappedArray_t;
using CUmemoryPool = cudaMemPool_t;
using CUlibrary = cudaLibrary_t;
using CUkernel = cudaKernel_t;
using CUfunction = cudaFunction_t;
using CUuserObject = cudaUserObject_t;

struct CUDA_MEMCPY2D {
  size_t srcXInBytes, srcY; int srcMemoryType; const void* srcHost; CUdeviceptr srcDevice; CUarray srcArray; size_t srcPitch;
  size_t dstXInBytes, dstY; int dstMemoryType; void* dstHost; CUdeviceptr dstDevice; CUarray dstArray; size_t dstPitch;
  size_t WidthInBytes, Height;
};
struct CUDA_MEMCPY3D {
  size_t srcXInBytes, srcY, srcZ, srcLOD; int srcMemoryType; const void* srcHost; CUdeviceptr srcDevice; CUarray srcArray; void* reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD; int dstMemoryType; void* dstHost; CUdeviceptr dstDevice; CUarray dstArray; void* reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
};
struct CUDA_ARRAY_DESCRIPTOR { size_t Width, Height; int Format; unsigned NumChannels; };
struct CUDA_ARRAY3D_DESCRIPTOR { size_t Width, Height, Depth; int Format; unsigned NumChannels, Flags; };
struct CUDA_RESOURCE_DESC {
  int resType;
  union {
    struct { CUarray hArray; } array;
    struct { CUmipmappedArray hMipmappedArray; } mipmap;
    struct { CUdeviceptr devPtr; int format; unsigned numChannels; size_t sizeInBytes; } linear;
    struct { CUdeviceptr devPtr; int format; unsigned numChannels; size_t width, height, pitchInBytes; } pitch2D;
    struct { int reserved[32]; } reserved;
  } res;
  unsigned flags;
};
struct CUDA_TEXTURE_DESC {
  int addressMode[3], filterMode; unsigned flags, maxAnisotropy; int mipmapFilterMode; float mipmapLevelBias, minMipmapLevelClamp,
      maxMipmapLevelClamp, borderColor[4]; int reserved[12];
};
struct CUDA_KERNEL_NODE_PARAMS {
  CUfunction func; unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes; void** kernelParams; void** extra;
  CUkernel kern; CUcontext ctx;
};
struct CUDA_MEMSET_NODE_PARAMS { CUdeviceptr dst; size_t pitch; unsigned value, elementSize; size_t width, height; };
struct CUgraphNodeParams {
  int type, reserved0[3];
  union {
    long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS kernel;
    struct { int flags, reserved; CUcontext ctx; CUDA_MEMCPY3D copyParams; } memcpy;
    CUDA_MEMSET_NODE_PARAMS memset;
    cudaHostNodeParams host;
    struct { CUgraph graph; int ownership; } graph;
    struct { CUevent event; } event;
    cudaConditionalNodeParams conditional;
  };
  long long reserved2;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes; CUstream hStream; cudaLaunchAttribute* attrs; unsigned numAttrs;
};
struct CUdevprop {
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], sharedMemPerBlock, totalConstantMemory, SIMDWidth, memPitch, regsPerBlock, clockRate, textureAlign;
};
struct CUtensorMap { alignas(64) unsigned long long opaque[16]; };
struct CUstreamBatchMemOpParams {
  int operation; CUdeviceptr address; unsigned long long value; unsigned flags; CUdeviceptr alias; unsigned long long pad;
};

struct CUmemAllocationProp {
  int type, requestedHandleTypes;
  cudaMemLocation location;
  void* win32HandleMetaData;
  struct { unsigned char compressionType, gpuDirectRDMACapable; unsigned short usage; unsigned char reserved[4]; } allocFlags;
};
using CUmemGenericAllocationHandle = unsigned long long;

}  // namespace orrery::abi
