// liborrery_preload.so: makes programs with a statically linked CUDA runtime use Orrery's.
//
// nvcc links the runtime statically unless told otherwise. Such a program holds NVIDIA's functions, which cannot work
// here, and imports nothing that could be replaced. But its symbol table names them: before any constructor of the
// program runs, each named function's first bytes are overwritten with a jump to the function of that name in
// libcudart. A stripped program has no such table; it is told the flag that helps.
//
// The library holds no CUDA code and costs other programs next to nothing: what tells is the symbol table, which is looked
// through once. (Device code does not: a program may hold the runtime for its memory alone.)
// Order: the dynamic linker runs this constructor before those of the executable. Constructors of shared libraries may
// run earlier; one that itself holds a static runtime and registers device code then is not served.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// A file mapped for reading.
class File {
 public:
  explicit File(const char* path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat info;
    if (fstat(fd, &info) == 0 && info.st_size > 0) {
      void* at = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) data_ = static_cast<const char*>(at), size_ = size_t(info.st_size);
    }
    close(fd);
  }
  ~File() {
    if (data_) munmap(const_cast<char*>(data_), size_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// `count` values of T at `offset`, or null when they are not all inside.
  template <class T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    return offset <= size_ && count <= (size_ - offset) / sizeof(T) ? reinterpret_cast<const T*>(data_ + offset) : nullptr;
  }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

struct Sections {
  const Elf64_Shdr *symbols = nullptr, *strings = nullptr;
  const Elf64_Shdr* constants = nullptr;  // .rodata
  bool has_device_code = false;
};

Sections read_sections(const File& file) {
  Sections result;
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) return result;
  const auto* sections = file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (!sections || header->e_shstrndx >= header->e_shnum) return result;
  const Elf64_Shdr& names = sections[header->e_shstrndx];
  for (unsigned i = 0; i < header->e_shnum; i++) {
    const char* name = sections[i].sh_name < names.sh_size ? file.at<char>(names.sh_offset + sections[i].sh_name, 16) : nullptr;
    if (name && (std::strncmp(name, ".nv_fatbin", 11) == 0 || std::strncmp(name, ".nvFatBinSegment", 16) == 0)) result.has_device_code = true;
    if (name && std::strncmp(name, ".rodata", 8) == 0) result.constants = &sections[i];
    if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum) {
      result.symbols = &sections[i];
      result.strings = &sections[sections[i].sh_link];
    }
  }
  return result;
}

// Calls visit(name, symbol) for every function that the table defines and whose name a runtime function could have.
template <class Visit>
void for_runtime_symbols(const File& file, const Sections& sections, Visit visit) {
  uint64_t count = sections.symbols->sh_size / sizeof(Elf64_Sym);
  const auto* symbols = file.at<Elf64_Sym>(sections.symbols->sh_offset, count);
  const auto* strings = file.at<char>(sections.strings->sh_offset, sections.strings->sh_size);
  if (!symbols || !strings || sections.strings->sh_size == 0 || strings[sections.strings->sh_size - 1] != 0) return;
  for (uint64_t i = 0; i < count; i++) {
    const Elf64_Sym& symbol = symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= sections.strings->sh_size) continue;
    const char* name = strings + symbol.st_name;
    if (std::strncmp(name, "cuda", 4) == 0 || std::strncmp(name, "__cuda", 6) == 0) visit(name, symbol);
  }
}

/// Whether a program without symbols holds the runtime: it opens the driver by name and knows its errors by theirs.
bool holds_runtime(const File& file, const Sections& sections) {
  const auto* text = sections.constants ? file.at<char>(sections.constants->sh_offset, sections.constants->sh_size) : nullptr;
  const auto has = [&](const char* s) { return memmem(text, sections.constants->sh_size, s, std::strlen(s) + 1) != nullptr; };
  return text && has("libcuda.so.1") && has("cudaErrorInvalidDeviceFunction");
}

bool make_writable(uintptr_t address, size_t bytes, bool writable) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  uintptr_t first = address / page * page, last = (address + bytes + page - 1) / page * page;
  return mprotect(reinterpret_cast<void*>(first), last - first, writable ? PROT_READ | PROT_WRITE : PROT_READ | PROT_EXEC) == 0;
}

// Overwrites the start of a function with a jump. Functions are 16 bytes apart at least, so the jump always fits.
bool redirect(uintptr_t function, void* target) {
#if defined(__x86_64__)
  unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};  // mov rax, target; jmp rax
  std::memcpy(jump + 2, &target, 8);
#elif defined(__aarch64__)
  uint32_t jump[4] = {0x58000050, 0xd61f0200, 0, 0};  // ldr x16, target; br x16
  std::memcpy(jump + 2, &target, 8);
#endif
  if (!make_writable(function, sizeof jump, true)) return false;
  std::memcpy(reinterpret_cast<void*>(function), jump, sizeof jump);
  __builtin___clear_cache(reinterpret_cast<char*>(function), reinterpret_cast<char*>(function) + sizeof jump);
  return make_writable(function, sizeof jump, false);
}

std::string own_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&own_folder), &info) || !info.dli_fname) return "";
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

// Only defined functions of a runtime that is part of this object count; wrappers that nvcc generates
// (__cuda_register_globals and the like) have no counterpart in libcudart and are left alone.
void redirect_object(const char* path, uintptr_t base) {
  File file(path);
  Sections sections = read_sections(file);
  if (!sections.symbols) return;
  bool linked = false, version_12 = false;
  for_runtime_symbols(file, sections, [&](const char* name, const Elf64_Sym&) {
    linked |= std::strcmp(name, "__cudaRegisterFatBinary") == 0;
    version_12 |= std::strcmp(name, "cudaGetDeviceProperties_v2") == 0;
  });
  if (!linked) return;
  std::string library = own_folder() + (version_12 ? "libcudart.so.12" : "libcudart.so.13");
  void* runtime = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!runtime) {
    std::fprintf(stderr, "orrery: %s\n", dlerror());
    _exit(127);
  }
  for_runtime_symbols(file, sections, [&](const char* name, const Elf64_Sym& symbol) {
    void* target = dlsym(runtime, name);
    if (target && !redirect(base + symbol.st_value, target)) {
      std::fprintf(stderr, "orrery: %s: cannot redirect %s; link it with -cudart shared\n", path, name);
      _exit(127);
    }
  });
}

bool needs_runtime_library(const dl_phdr_info& object) {
  for (unsigned i = 0; i < object.dlpi_phnum; i++) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const Elf64_Dyn*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    const char* strings = nullptr;
    for (const Elf64_Dyn* at = entry; at->d_tag != DT_NULL; at++)
      if (at->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(at->d_un.d_ptr);
    for (; strings && entry->d_tag != DT_NULL; entry++)
      if (entry->d_tag == DT_NEEDED && std::strncmp(strings + entry->d_un.d_val, "libcudart.so", 12) == 0) return true;
  }
  return false;
}

void explain_stripped(const char* path) {
  std::fprintf(stderr,
               "orrery: %s holds NVIDIA's CUDA runtime (linked statically) and no symbol table to find it by.\n"
               "orrery: link it with nvcc -cudart shared, or do not strip it.\n",
               path);
}

/// Orrery's libraries define the runtime's functions, too.
bool is_own(const std::string& path) {
  const std::string own = own_folder();
  if (own.empty() || path.compare(0, own.size(), own) != 0) return false;
  return path.compare(own.size(), 9, "liborrery") == 0 || path.compare(own.size(), 7, "libcuda") == 0;
}

int visit_object(dl_phdr_info* object, size_t, void* context) {
  bool& first = *static_cast<bool*>(context);
  const bool is_program = first;
  first = false;
  char program[PATH_MAX] = "";
  const char* path = object->dlpi_name;
  if (is_program) {
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return 0;
    path = program;
  }
  if (!path || !*path || std::strncmp(path, "/lib/", 5) == 0 || std::strncmp(path, "/usr/lib/x86", 12) == 0) return 0;
  if (is_own(path)) return 0;
  {
    File file(path);
    Sections sections = read_sections(file);
    if (!sections.symbols) {
      if (is_program && !needs_runtime_library(*object) && (sections.has_device_code || holds_runtime(file, sections))) explain_stripped(path);
      return 0;
    }
  }
  redirect_object(path, object->dlpi_addr);
  return 0;
}

__attribute__((constructor)) void redirect_static_runtime() {
  bool first = true;
  dl_iterate_phdr(visit_object, &first);
}

}  // namespace
