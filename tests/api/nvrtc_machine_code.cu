// NVRTC asked for machine code of a real architecture: what nvrtcGetCUBIN gives can be loaded and runs. For a virtual
// architecture there is none, and the size is 0. With BY_NAME the program is not linked with NVRTC: it opens the
// library that the environment names (NVRTC_LIBRARY) and looks the functions up.
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call) \
  if (const int code = int(call)) return std::printf("%s: %d\n", #call, code), 1

#ifdef BY_NAME
static void* find(const char* name) {
  static void* const library = dlopen(std::getenv("NVRTC_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  return library ? dlsym(library, name) : nullptr;
}
#define NVRTC(function) reinterpret_cast<decltype(&function)>(find(#function))
#else
#define NVRTC(function) function
#endif

static nvrtcResult compile(nvrtcProgram* program, const char* architecture) {
  const char* source = "extern \"C\" __global__ void fill(int* out) { out[threadIdx.x] = 7 * threadIdx.x; }";
  if (const nvrtcResult code = NVRTC(nvrtcCreateProgram)(program, source, "fill.cu", 0, nullptr, nullptr)) return code;
  return NVRTC(nvrtcCompileProgram)(*program, 1, &architecture);
}

int main() {
  nvrtcProgram program, of_virtual;
  size_t bytes = 0;
  CHECK(compile(&of_virtual, "--gpu-architecture=compute_90"));
  CHECK(NVRTC(nvrtcGetCUBINSize)(of_virtual, &bytes));
  if (bytes != 0) return std::printf("machine code of a virtual architecture: %zu bytes\n", bytes), 1;

  CHECK(compile(&program, "--gpu-architecture=sm_90"));
  CHECK(NVRTC(nvrtcGetCUBINSize)(program, &bytes));
  std::vector<char> image(bytes);
  CHECK(NVRTC(nvrtcGetCUBIN)(program, image.data()));

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
