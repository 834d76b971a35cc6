// Compares our declarations of the CUDA ABI with NVIDIA's headers, where these are installed: sizes, offsets, numbers.
// It is compiled, not run: every line is a static_assert.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "api/abi_driver.h"
#include "device/status.h"

namespace ours = orrery::abi;

#define SAME_SIZE(type) static_assert(sizeof(ours::type) == sizeof(::type), #type)
#define SAME_PLACE(type, member) static_assert(offsetof(ours::type, member) == offsetof(::type, member), #type "." #member)

SAME_SIZE(dim3);
SAME_SIZE(cudaChannelFormatDesc);
SAME_SIZE(cudaPitchedPtr);
SAME_SIZE(cudaExtent);
SAME_SIZE(cudaMemcpy3DParms);
SAME_PLACE(cudaMemcpy3DParms, kind);
SAME_PLACE(cudaMemcpy3DParms, dstPtr);
SAME_SIZE(cudaMemcpy3DPeerParms);
SAME_PLACE(cudaMemcpy3DPeerParms, extent);
SAME_SIZE(cudaMemsetParams);
SAME_SIZE(cudaHostNodeParams);
SAME_SIZE(cudaKernelNodeParams);
SAME_PLACE(cudaKernelNodeParams, kernelParams);
SAME_SIZE(cudaMemLocation);
SAME_SIZE(cudaMemPoolProps);
SAME_PLACE(cudaMemPoolProps, maxSize);
SAME_SIZE(cudaMemAllocNodeParams);
SAME_PLACE(cudaMemAllocNodeParams, dptr);
SAME_SIZE(cudaMemcpyAttributes);
SAME_SIZE(cudaResourceDesc);
SAME_PLACE(cudaResourceDesc, res);
SAME_PLACE(cudaResourceDesc, flags);
SAME_SIZE(cudaResourceViewDesc);
SAME_SIZE(cudaTextureDesc);
SAME_PLACE(cudaTextureDesc, borderColor);
SAME_PLACE(cudaTextureDesc, normalizedCoords);
SAME_PLACE(cudaTextureDesc, maxMipmapLevelClamp);
SAME_SIZE(cudaFuncAttributes);
SAME_PLACE(cudaFuncAttributes, numRegs);
SAME_PLACE(cudaFuncAttributes, nonPortableClusterSizeAllowed);
SAME_SIZE(cudaLaunchAttributeValue);
SAME_SIZE(cudaLaunchAttribute);
SAME_PLACE(cudaLaunchAttribute, val);
SAME_SIZE(cudaLaunchConfig_t);
SAME_PLACE(cudaLaunchConfig_t, attrs);
SAME_SIZE(cudaGraphEdgeData);
SAME_SIZE(cudaGraphInstantiateParams);
SAME_SIZE(cudaGraphExecUpdateResultInfo);
SAME_SIZE(cudaGraphNodeParams);
SAME_PLACE(cudaGraphNodeParams, kernel);
static_assert(offsetof(ours::cudaPointerAttributes12, hostPointer) == offsetof(::cudaPointerAttributes, hostPointer));

SAME_SIZE(CUDA_MEMCPY2D);
SAME_PLACE(CUDA_MEMCPY2D, dstPitch);
SAME_SIZE(CUDA_MEMCPY3D);
SAME_PLACE(CUDA_MEMCPY3D, dstHeight);
SAME_SIZE(CUDA_ARRAY_DESCRIPTOR);
SAME_SIZE(CUDA_ARRAY3D_DESCRIPTOR);
SAME_SIZE(CUDA_RESOURCE_DESC);
SAME_SIZE(CUDA_TEXTURE_DESC);
SAME_PLACE(CUDA_TEXTURE_DESC, borderColor);
SAME_SIZE(CUlaunchConfig);
SAME_PLACE(CUlaunchConfig, attrs);
SAME_SIZE(CUdevprop);
SAME_SIZE(CUstreamBatchMemOpParams);
static_assert(sizeof(ours::CUDA_KERNEL_NODE_PARAMS) == sizeof(::CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(sizeof(ours::CUDA_MEMSET_NODE_PARAMS) == sizeof(::CUDA_MEMSET_NODE_PARAMS_v1));

#if CUDART_VERSION >= 13000
#define SAME_PROPERTY(member) static_assert(offsetof(ours::cudaDeviceProp13, member) == offsetof(::cudaDeviceProp, member), #member)
static_assert(sizeof(ours::cudaDeviceProp13) == sizeof(::cudaDeviceProp));
#else
#define SAME_PROPERTY(member) static_assert(offsetof(ours::cudaDeviceProp12, member) == offsetof(::cudaDeviceProp, member), #member)
static_assert(sizeof(ours::cudaDeviceProp12) == sizeof(::cudaDeviceProp));
#endif
SAME_PROPERTY(totalGlobalMem);
SAME_PROPERTY(totalConstMem);
SAME_PROPERTY(multiProcessorCount);
SAME_PROPERTY(maxSurfaceCubemapLayered);
SAME_PROPERTY(l2CacheSize);
SAME_PROPERTY(sharedMemPerBlockOptin);
SAME_PROPERTY(clusterLaunch);

using orrery::device::Status;
#define SAME_NUMBER(ours_, theirs) static_assert(int(Status::ours_) == int(theirs))
SAME_NUMBER(invalid_value, cudaErrorInvalidValue);
SAME_NUMBER(out_of_memory, cudaErrorMemoryAllocation);
SAME_NUMBER(invalid_configuration, cudaErrorInvalidConfiguration);
SAME_NUMBER(invalid_symbol, cudaErrorInvalidSymbol);
SAME_NUMBER(invalid_memcpy_direction, cudaErrorInvalidMemcpyDirection);
SAME_NUMBER(invalid_device_function, cudaErrorInvalidDeviceFunction);
SAME_NUMBER(no_binary, cudaErrorNoKernelImageForDevice);
SAME_NUMBER(invalid_ptx, cudaErrorInvalidPtx);
SAME_NUMBER(invalid_handle, cudaErrorInvalidResourceHandle);
SAME_NUMBER(not_ready, cudaErrorNotReady);
SAME_NUMBER(illegal_address, cudaErrorIllegalAddress);
SAME_NUMBER(assertion, cudaErrorAssert);
SAME_NUMBER(hardware_stack, cudaErrorHardwareStackError);
SAME_NUMBER(illegal_instruction, cudaErrorIllegalInstruction);
SAME_NUMBER(misaligned_address, cudaErrorMisalignedAddress);
SAME_NUMBER(invalid_pc, cudaErrorInvalidPc);
SAME_NUMBER(launch_failure, cudaErrorLaunchFailure);
SAME_NUMBER(cooperative_too_large, cudaErrorCooperativeLaunchTooLarge);
SAME_NUMBER(not_supported, cudaErrorNotSupported);
SAME_NUMBER(capture_unsupported, cudaErrorStreamCaptureUnsupported);
SAME_NUMBER(capture_isolation, cudaErrorStreamCaptureIsolation);
SAME_NUMBER(captured_event, cudaErrorCapturedEvent);
SAME_NUMBER(graph_update_failure, cudaErrorGraphExecUpdateFailure);
SAME_NUMBER(invalid_cluster_size, cudaErrorInvalidClusterSize);
