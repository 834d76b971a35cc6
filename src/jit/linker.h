// jit/linker.h: from an object file to callable regions.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exec/native.h"
#include "isa/form.h"
#include "sem/pure.h"

namespace orrery::jit {

/// Compiled regions in memory, with what they refer to. Freed with the last reference.
struct LoadedCode : exec::NativeCode {
  std::vector<std::unique_ptr<isa::Form>> forms;
  std::shared_ptr<void> memory;
  size_t object_bytes = 0;
};

/// What the code of a program calls besides the thunks: the meanings of instructions.
struct Meaning {
  isa::Form form;
  sem::PureFn fn = nullptr;
};

/// `site_ranges`: of an observed program (exec/observed.h). Links `object` and finds its regions; null with `error` set when the object is not what it should be.
std::shared_ptr<LoadedCode> link_object(const std::vector<char>& object, uint32_t n_regions,
                                        const std::map<uint32_t, Meaning>& meanings, const void* site_ranges, std::string& error);

}  // namespace orrery::jit
