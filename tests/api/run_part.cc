// run_part LIBRARY: loads a library that nothing else sees, as Python loads its extension modules, and runs the `main` in it.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** arguments) {
  void* part = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  const auto run = part ? reinterpret_cast<int (*)()>(dlsym(part, "main")) : nullptr;
  if (!run) return std::printf("%s\n", count == 2 ? dlerror() : "usage: run_part LIBRARY"), 1;
  return run();
}
