// Part of liborrery_preload.so: programs that ask NVIDIA's run-time compiler (NVRTC) for machine code get the PTX it was
// made from, which is what can run here.
//
// A program compiled for a real architecture (--gpu-architecture=sm_90) reads the result with nvrtcGetCUBIN and gives it to
// cuModuleLoadData, which takes PTX as well. Both functions come before NVRTC's own because the library is preloaded; for
// virtual architectures, where there is no machine code, they answer as NVRTC does.
// Not here: programs that look the functions up with dlsym get NVRTC's own, and the refusal of machine code; the linker
// for machine code (nvJitLink).
#include <dlfcn.h>

#include <cstddef>

namespace {

constexpr int kInternalError = 11;  // NVRTC_ERROR_INTERNAL_ERROR

/// Calls NVRTC's own function of that name.
template <class Result>
int next(const char* name, void* program, Result* result) {
  const auto function = reinterpret_cast<int (*)(void*, Result*)>(dlsym(RTLD_NEXT, name));
  return function ? function(program, result) : kInternalError;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  const int code = next("nvrtcGetCUBINSize", program, bytes);
  return code || *bytes == 0 ? code : next("nvrtcGetPTXSize", program, bytes);
}
extern "C" __attribute__((visibility("default"))) int nvrtcGetCUBIN(void* program, char* image) {
  size_t bytes = 0;
  const int code = next("nvrtcGetCUBINSize", program, &bytes);
  return code || bytes == 0 ? next("nvrtcGetCUBIN", program, image) : next("nvrtcGetPTX", program, image);
}
