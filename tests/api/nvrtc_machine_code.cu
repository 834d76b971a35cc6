// NVRTC asked for machine code of a real architecture: what nvrtcGetCUBIN gives can be loaded and runs. For a virtual
// architecture there is none, and the size is 0.
#include <cuda.h>
#include <nvrtc.h>

#include <cstdio>
#include <vector>

#define CHECK(call) \
  if (const int code = int(call)) return std::printf("%s: %d\n", #call, code), 1

static nvrtcResult compile(nvrtcProgram* program, const char* architecture) {
  const char* source = "extern \"C\" __global__ void fill(int* out) { out[threadIdx.x] = 7 * threadIdx.x; }";
  if (const nvrtcResult code = nvrtcCreateProgram(program, source, "fill.cu", 0, nullptr, nullptr)) return code;
  return nvrtcCompileProgram(*program, 1, &architecture);
}

int main() {
  nvrtcProgram program, of_virtual;
  size_t bytes = 0;
  CHECK(compile(&of_virtual, "--gpu-architecture=compute_90"));
  CHECK(nvrtcGetCUBINSize(of_virtual, &bytes));
  if (bytes != 0) return std::printf("machine code of a virtual architecture: %zu bytes\n", bytes), 1;

  CHECK(compile(&program, "--gpu-architecture=sm_90"));
  CHECK(nvrtcGetCUBINSize(program, &bytes));
  std::vector<char> image(bytes);
  CHECK(nvrtcGetCUBIN(program, image.data()));

  CUcontext context;
  CUmodule module;
  CUfunction fill;
  CUdeviceptr memory;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, image.data()));
  CHECK(cuModuleGetFunction(&fill, module, "fill"));
  CHECK(cuMemAlloc(&memory, 32 * sizeof(int)));
  void* arguments[] = {&memory};
  CHECK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  int out[32];
  CHECK(cuMemcpyDtoH(out, memory, sizeof out));
  for (int i = 0; i < 32; i++)
    if (out[i] != 7 * i) return std::printf("element %d: %d\n", i, out[i]), 1;
  std::puts("PASS");
}
