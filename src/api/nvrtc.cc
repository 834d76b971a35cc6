// Part of liborrery_preload.so: programs that ask NVIDIA's run-time compiler (NVRTC) for machine code get the PTX it was
// made from, which is what can run here.
//
// A program compiled for a real architecture (--gpu-architecture=sm_90) reads the result with nvrtcGetCUBIN and gives it to
// cuModuleLoadData, which takes PTX as well. Both functions come before NVRTC's own because the library is preloaded; for
// virtual architectures, where there is no machine code, they answer as NVRTC does.
// An NVRTC that only a library of the program uses (an extension module of Python, loaded with RTLD_LOCAL) is in no scope that
// this library searches; it is found among the loaded objects.
// Programs that open NVRTC themselves look its functions up with dlsym, so that comes from here, too: it gives the two functions
// below where the library has them, and leaves everything else to the C library, which must see the caller's return address
// (RTLD_NEXT means "behind the caller"): hence the jump in assembly.
// Not here: a process with two NVRTCs, whose programs all go to the one that is found first; the linker for machine code (nvJitLink).
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

using Lookup = void* (*)(void*, const char*);

/// The C library's dlsym.
Lookup own_lookup() {
  static const Lookup found = [] {
    for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"})
      if (void* at = dlvsym(RTLD_NEXT, "dlsym", version)) return reinterpret_cast<Lookup>(at);
    return Lookup(nullptr);
  }();
  return found;
}

/// NVRTC's own function of that name, or null. Its caller's use of NVRTC keeps it loaded.
void* find_own(const char* name) {
  if (void* found = own_lookup()(RTLD_NEXT, name)) return found;
  std::vector<std::string> paths;
  dl_iterate_phdr(add_if_nvrtc, &paths);
  for (const std::string& path : paths) {
    void* library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_LAZY);
    if (!library) continue;
    void* found = own_lookup()(library, name);  // null in what NVRTC consists of beside itself (libnvrtc-builtins)
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

#if defined(__x86_64__)
/// What dlsym must answer itself; null: the C library's answer is the right one.
extern "C" __attribute__((visibility("hidden"), used)) void* orrery_looked_up(void* library, const char* name) {
  if (!name || std::strncmp(name, "nvrtcGetCUBIN", 13) != 0) return nullptr;
  void* mine = std::strcmp(name, "nvrtcGetCUBIN") == 0       ? reinterpret_cast<void*>(&nvrtcGetCUBIN)
               : std::strcmp(name, "nvrtcGetCUBINSize") == 0 ? reinterpret_cast<void*>(&nvrtcGetCUBINSize)
                                                             : nullptr;
  return mine && own_lookup()(library, name) ? mine : nullptr;
}
extern "C" __attribute__((visibility("hidden"), used)) void* orrery_next_dlsym() { return reinterpret_cast<void*>(own_lookup()); }

asm(".text\n .globl dlsym\n .type dlsym, @function\n .p2align 4\ndlsym:\n"
    " push %rdi\n push %rsi\n sub $8, %rsp\n call orrery_looked_up\n"
    " test %rax, %rax\n jne 1f\n call orrery_next_dlsym\n add $8, %rsp\n pop %rsi\n pop %rdi\n jmp *%rax\n"
    "1: add $24, %rsp\n ret\n .size dlsym, . - dlsym\n");
#endif
