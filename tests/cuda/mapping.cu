// Virtual memory management of the driver API: addresses are reserved, memory is made, mapped piece by piece, opened,
// copied across pieces, seen at two addresses, shared through a file descriptor, and closed again.
#include <cuda.h>
#include <unistd.h>

#include "check.h"

#define DRIVER(call)                                                                \
  do {                                                                              \
    CUresult code_ = (call);                                                        \
    if (code_ != CUDA_SUCCESS) {                                                    \
      std::printf("FAIL line %d: %s: %d\n", __LINE__, #call, (int)code_);           \
      std::exit(1);                                                                 \
    }                                                                               \
  } while (0)

__global__ void number(int* at, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) at[i] = int(i);
}

int main() {
  CUDA(cudaFree(nullptr));
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granule = 0;
  DRIVER(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT(granule >= 4096 && (granule & (granule - 1)) == 0, "granularity %zu", granule);
  const size_t ints = granule / sizeof(int);

  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle first, second, again;
  DRIVER(cuMemAddressReserve(&range, 4 * granule, 0, 0, 0));
  DRIVER(cuMemCreate(&first, granule, &prop, 0));
  DRIVER(cuMemCreate(&second, granule, &prop, 0));
  EXPECT(cuMemCreate(&again, granule + 1, &prop, 0) == CUDA_ERROR_INVALID_VALUE, "half a granule");
  DRIVER(cuMemMap(range, granule, 0, first, 0));
  DRIVER(cuMemMap(range + granule, granule, 0, second, 0));
  EXPECT(cuMemMap(range, granule, 0, second, 0) == CUDA_ERROR_INVALID_VALUE, "mapped twice");
  EXPECT(cuMemMap(range + 4 * granule, granule, 0, second, 0) == CUDA_ERROR_INVALID_VALUE, "outside the reservation");
  CUmemAccessDesc access = {};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT(cudaMemset((void*)range, 0, 4) == cudaErrorInvalidValue, "closed memory was set");
  cudaGetLastError();
  DRIVER(cuMemSetAccess(range, 2 * granule, &access, 1));
  unsigned long long flags = 0;
  DRIVER(cuMemGetAccess(&flags, &prop.location, range + granule));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "access %llu", flags);

  // one kernel and one copy go across both pieces
  number<<<64, 256>>>((int*)range, 2 * ints);
  int seen[4];
  CUDA(cudaMemcpy(seen, (int*)range + ints - 2, sizeof seen, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 4; i++) EXPECT(seen[i] == int(ints) - 2 + i, "%d: %d", i, seen[i]);
  EXPECT(cudaMemcpy(seen, (int*)range + 2 * ints - 2, sizeof seen, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue, "past the end");
  cudaGetLastError();

  // the second piece again, at another address, through a file descriptor
  int fd = -1;
  DRIVER(cuMemExportToShareableHandle(&fd, second, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  DRIVER(cuMemImportFromShareableHandle(&again, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  DRIVER(cuMemMap(range + 3 * granule, granule, 0, again, 0));
  DRIVER(cuMemSetAccess(range + 3 * granule, granule, &access, 1));
  CUDA(cudaMemcpy(seen, (int*)range + 3 * ints, sizeof seen, cudaMemcpyDeviceToHost));
  EXPECT(seen[1] == int(ints) + 1, "second view: %d", seen[1]);
  CUmemAllocationProp told = {};
  DRIVER(cuMemGetAllocationPropertiesFromHandle(&told, second));
  EXPECT(told.location.id == prop.location.id && told.type == prop.type, "properties");

  EXPECT(cuMemAddressFree(range, 4 * granule) == CUDA_ERROR_INVALID_VALUE, "freed while mapped");
  EXPECT(cuMemUnmap(range, granule / 2) == CUDA_ERROR_INVALID_VALUE, "half a mapping");
  DRIVER(cuMemRelease(first));
  DRIVER(cuMemRelease(second));
  DRIVER(cuMemRelease(again));
  number<<<1, 32>>>((int*)range, 32);  // mappings keep their memory
  finish();
  DRIVER(cuMemUnmap(range, 2 * granule));
  DRIVER(cuMemUnmap(range + 3 * granule, granule));
  DRIVER(cuMemAddressFree(range, 4 * granule));

  CUmemoryPool pool = nullptr, current = nullptr;
  DRIVER(cuMemGetDefaultMemPool(&pool, &prop.location, CU_MEM_ALLOCATION_TYPE_PINNED));
  DRIVER(cuMemGetMemPool(&current, &prop.location, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT(pool && pool == current, "pools");

  // a kernel that uses it now is at fault
  number<<<1, 1>>>((int*)range, 1);
  EXPECT(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "unmapped memory was written");
  return pass();
}
