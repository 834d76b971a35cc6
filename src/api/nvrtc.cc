// Part of liborrery_preload.so: programs that ask NVIDIA's run-time compiler (NVRTC) for machine code get the PTX it was
// made from, which is what can run here.
//
// A program compiled for a real architecture (--gpu-architecture=sm_90) reads the result with nvrtcGetCUBIN and gives it to
// cuModuleLoadData, which takes PTX as well. Both functions come before NVRTC's own because the library is preloaded; for
// virtual architectures, where there is no machine code, they answer as NVRTC does.
// An NVRTC that only a library of the program uses (an extension module of Python, loaded with RTLD_LOCAL) is in no scope that
// this library searches; it is found among the loaded objects.
// Not here: programs that look the functions up with dlsym get NVRTC's own, and the refusal of machine code; a process with two
// NVRTCs, whose programs all go to the one that is found first; the linker for machine code (nvJitLink).
#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kInternalError = 11;  // NVRTC_ERROR_INTERNAL_ERROR

/// Adds the object's path when its file is named as NVRTC is, also by those who pack it anew (libnvrtc-0123abcd.so.12).
int add_if_nvrtc(dl_phdr_info* object, size_t, void* paths) {
  const char* path = object->dlpi_name ? object->dlpi_name : "";
  const char* slash = std::strrchr(path, '/');
  if (std::strncmp(slash ? slash + 1 : path, "libnvrtc", 8) == 0) static_cast<std::vector<std::string>*>(paths)->push_back(path);
  return 0;
}

/// NVRTC's own function of that name, or null. Its caller's use of NVRTC keeps it loaded.
void* find_own(const char* name) {
  if (void* found = dlsym(RTLD_NEXT, name)) return found;
  std::vector<std::string> paths;
  dl_iterate_phdr(add_if_nvrtc, &paths);
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (!library) continue;
    void* found = dlsym(library, name);  // null in what NVRTC consists of beside itself (libnvrtc-builtins)
    dlclose(library);
    if (found) return found;
  }
  return nullptr;
}

/// Calls NVRTC's own function of that name.
template <class Result>
int next(const char* name, void* program, Result* result) {
  const auto function = reinterpret_cast<int (*)(void*, Result*)>(find_own(name));
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
