// lower/placement.cc: see placement.h.
#include "lower/placement.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace orrery::lower {

namespace {

constexpr uint64_t kFunctionPitch = 16;  // bytes between two function pointers
constexpr uint64_t kVariableAlign = 512; // what cudaMalloc promises, so that a symbol's address has it too

uint64_t address_of(const ptx::Module& m, const Addresses& a, const ptx::Var& holder, const std::string& symbol) {
  for (size_t i = 0; i < m.vars.size(); i++)
    if (m.vars[i].name == symbol && a.var[i]) return a.var[i];
  for (size_t i = 0; i < m.functions.size(); i++)
    if (m.functions[i].name == symbol) return a.function[i];
  base::fail("the initial value of {} names {}, which has no address", holder.name, symbol);
}

void initialise(const ptx::Module& m, const Addresses& a, size_t index) {
  const ptx::Var& var = m.vars[index];
  std::byte* bytes = reinterpret_cast<std::byte*>(a.var[index]);
  std::memcpy(bytes, var.init.data(), std::min<uint64_t>(var.init.size(), var.size));
  for (const ptx::Reloc& reloc : var.relocs) {
    uint64_t value = address_of(m, a, var, reloc.symbol) + uint64_t(reloc.addend);
    if (reloc.mask) value = (value & reloc.mask) >> std::countr_zero(reloc.mask);
    if (reloc.offset + reloc.size <= var.size) std::memcpy(bytes + reloc.offset, &value, reloc.size);
  }
}

}  // namespace

Addresses place_variables(const ptx::Module& module, const Allocate& allocate) {
  Addresses a;
  if (!module.functions.empty()) {
    const uint64_t first = allocate(nullptr, kFunctionPitch * module.functions.size(), kVariableAlign);
    for (size_t i = 0; i < module.functions.size(); i++) a.function.push_back(first + kFunctionPitch * i);
  }
  a.var.assign(module.vars.size(), 0);
  for (size_t i = 0; i < module.vars.size(); i++) {
    const ptx::Var& var = module.vars[i];
    if (in_device_memory(var) && var.size) a.var[i] = allocate(&var, var.size, std::max<uint64_t>(kVariableAlign, var.align));
  }
  for (size_t i = 0; i < module.vars.size(); i++)
    if (a.var[i]) initialise(module, a, i);
  return a;
}

}  // namespace orrery::lower
