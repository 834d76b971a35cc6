// What the driver API needs to have been called before: cuInit, or a call of the runtime that needs a device; no context for
// giving back mapped memory. A finished link leaves a log that is a text, and a refused input says in it what it is.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

#define CHECK(call) \
  if (const int code = int(call)) return std::printf("%s: %d\n", #call, code), 1

__global__ void write(int* out) {
  for (int i = 0; i < 100000; i++) *(volatile int*)out = i;
}

static int unmap_without_context() {
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));
  CUmemAllocationProp kind = {};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  size_t bytes = 0;
  CHECK(cuMemGetAllocationGranularity(&bytes, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr address;
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  CHECK(cuMemCreate(&memory, bytes, &kind, 0));
  CHECK(cuMemMap(address, bytes, 0, memory, 0));
  CHECK(cuMemRelease(memory));
  CHECK(cuCtxDestroy(context));
  CHECK(cuMemUnmap(address, bytes));

  // A thread without a context unmaps what a kernel of another context still writes: it waits for that.
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));
  CHECK(cuMemCreate(&memory, bytes, &kind, 0));
  CHECK(cuMemMap(address, bytes, 0, memory, 0));
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemSetAccess(address, bytes, &access, 1));
  write<<<1, 1>>>((int*)address);
  CUcontext popped;
  CHECK(cuCtxPopCurrent(&popped));
  CHECK(cuMemUnmap(address, bytes));
  CHECK(cuCtxPushCurrent(context));
  CHECK(cuCtxSynchronize());  // the kernel's fault, had it lost its memory
  CHECK(cuMemRelease(memory));
  CHECK(cuCtxDestroy(context));
  CHECK(cuMemAddressFree(address, bytes));
  return 0;
}

static int link_logs() {
  const char* ptx = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
  char info[64], error[64];
  std::memset(info, 'x', sizeof info);
  std::memset(error, 'x', sizeof error);
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {info, (void*)sizeof info, error, (void*)sizeof error};
  CUlinkState link;
  void* image;
  size_t bytes;
  CHECK(cuLinkCreate(4, options, values, &link));
  CHECK(cuLinkAddData(link, CU_JIT_INPUT_PTX, (void*)ptx, std::strlen(ptx) + 1, "k", 0, nullptr, nullptr));
  CHECK(cuLinkComplete(link, &image, &bytes));
  if (!std::memchr(info, 0, sizeof info) || error[0]) return std::printf("logs are no texts, or name errors\n"), 1;
  if ((size_t)values[1] != std::strlen(info) || values[3]) return std::printf("sizes of the logs: %p, %p\n", values[1], values[3]), 1;
  CHECK(cuLinkDestroy(link));

  values[1] = (void*)sizeof info, values[3] = (void*)sizeof error;
  CHECK(cuLinkCreate(4, options, values, &link));
  if (!cuLinkAddData(link, CU_JIT_INPUT_CUBIN, (void*)"\177ELF", 5, "part.cubin", 0, nullptr, nullptr)) return std::puts("machine code is linked"), 1;
  if (!std::memchr(error, 0, sizeof error) || !std::strstr(error, "part.cubin")) return std::puts("the log does not name what was refused"), 1;
  if ((size_t)values[3] != std::strlen(error)) return std::printf("size of the log of errors: %p\n", values[3]), 1;
  CHECK(cuLinkDestroy(link));
  return 0;
}

int main() {
  int count = 0;
  if (cuMemUnmap(CUdeviceptr(1) << 30, 2 << 20) != CUDA_ERROR_NOT_INITIALIZED) return std::puts("unmapped before any initialisation"), 1;
  if (cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED) return std::puts("initialised too early"), 1;
  CHECK(cudaGetDeviceCount(&count));
  CHECK(cuDeviceGetCount(&count));
  CHECK(cudaSetDevice(0));
  if (link_logs() || unmap_without_context()) return 1;
  std::puts("PASS");
}
