// The tables behind the exported names: one code pointer per row of runtime.def and driver.def.
//
// Libraries jump through these slots (trampolines.S), so that a library file holds names only. A row whose function
// nobody defined has a null weak symbol and gets the slot of the stub.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/entry.h"

extern "C" {
#define RUNTIME(name, reason) int orrery_##name() __attribute__((weak));
#define RUNTIME_12(name, function, reason)
#define RUNTIME_13(name, function, reason) int orrery_##function() __attribute__((weak));
#include "api/runtime.def"
#undef RUNTIME_12
#undef RUNTIME_13
#undef RUNTIME
#define RUNTIME(name, reason)
#define RUNTIME_12(name, function, reason) int orrery_##function() __attribute__((weak));
#define RUNTIME_13(name, function, reason)
#include "api/runtime.def"
#undef RUNTIME
#undef RUNTIME_12
#undef RUNTIME_13
#define DRIVER(name, since, reason) int orrery_##name() __attribute__((weak));
#include "api/driver.def"
#undef DRIVER

#define EXPORTED __attribute__((visibility("default")))
using Slot = void*;

#define RUNTIME(name, reason) reinterpret_cast<Slot>(&orrery_##name),
#define RUNTIME_13(name, function, reason) reinterpret_cast<Slot>(&orrery_##function),
#define RUNTIME_12(name, function, reason)
EXPORTED Slot orrery_slots_13[] = {
#include "api/runtime.def"
};
#undef RUNTIME_12
#undef RUNTIME_13
#define RUNTIME_13(name, function, reason)
#define RUNTIME_12(name, function, reason) reinterpret_cast<Slot>(&orrery_##function),
EXPORTED Slot orrery_slots_12[] = {
#include "api/runtime.def"
};
#undef RUNTIME
#undef RUNTIME_12
#undef RUNTIME_13
#define DRIVER(name, since, reason) reinterpret_cast<Slot>(&orrery_##name),
EXPORTED Slot orrery_slots_driver[] = {
#include "api/driver.def"
};
#undef DRIVER
}

namespace orrery::api {
namespace {

#define RUNTIME(name, reason) #name,
#define RUNTIME_13(name, function, reason) #name,
#define RUNTIME_12(name, function, reason)
const char* const kNames13[] = {
#include "api/runtime.def"
};
#undef RUNTIME_12
#undef RUNTIME_13
#define RUNTIME_13(name, function, reason)
#define RUNTIME_12(name, function, reason) #name,
const char* const kNames12[] = {
#include "api/runtime.def"
};
#undef RUNTIME_12
#undef RUNTIME_13
#undef RUNTIME
struct DriverRow {
  const char* name;
  int since;
};
#define DRIVER(name, since, reason) {#name, since},
const DriverRow kDriver[] = {
#include "api/driver.def"
};
#undef DRIVER

using Index = std::unordered_map<std::string_view, size_t>;
const Index& index_of(int table) {
  static const auto* const indices = [] {
    auto* made = new Index[3];
    for (size_t i = 0; i < std::size(kNames12); i++) made[0][kNames12[i]] = i;
    for (size_t i = 0; i < std::size(kNames13); i++) made[1][kNames13[i]] = i;
    for (size_t i = 0; i < std::size(kDriver); i++) made[2][kDriver[i].name] = i;
    return made;
  }();
  return indices[table];
}

void* lookup(int table, std::string_view name) {
  auto at = index_of(table).find(name);
  Slot* const slots[] = {orrery_slots_12, orrery_slots_13, orrery_slots_driver};
  return at == index_of(table).end() ? nullptr : slots[table][at->second];
}

int g_runtime_version = 13;

void say_once(const char* name) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said->insert(name).second) std::fprintf(stderr, "orrery: %s is not supported; see docs/api.md\n", name);
}

}  // namespace

int runtime_version() { return g_runtime_version; }

bool add_per_thread_variant(const char* name, void* function) {
  Slot* const slots[] = {orrery_slots_12, orrery_slots_13, orrery_slots_driver};
  bool found = false;
  for (int table = 0; table < 3; table++)
    if (auto at = index_of(table).find(name); at != index_of(table).end()) slots[table][at->second] = function, found = true;
  // Functions that differ in CUDA 12 are registered as NAME_12_ptsz.
  std::string_view text = name;
  if (size_t cut = text.find("_12_pts"); cut != text.npos) {
    std::string plain = std::string(text.substr(0, cut)) + std::string(text.substr(cut + 3));
    if (auto at = index_of(0).find(plain); at != index_of(0).end()) slots[0][at->second] = function, found = true;
  }
  return found;
}

void* find_runtime_function(const std::string& name, int version) { return lookup(version >= 13 ? 1 : 0, name); }

void* find_driver_function(const std::string& name, int version, bool per_thread, bool* too_new) {
  *too_new = false;
  void* best = nullptr;
  for (const char* suffix : {"", "_v2", "_v3", "_v4"}) {
    auto at = index_of(2).find(name + suffix);
    if (at == index_of(2).end()) continue;
    if (kDriver[at->second].since > version) {
      *too_new = true;
      continue;
    }
    void* found = per_thread ? lookup(2, name + suffix + "_ptsz") : nullptr;
    if (per_thread && !found) found = lookup(2, name + suffix + "_ptds");
    if (!found) found = orrery_slots_driver[at->second];
    if (found) best = found;
  }
  return best;
}

}  // namespace orrery::api

extern "C" {
/// What an unimplemented runtime function does: `index` is its row.
EXPORTED int orrery_refuse_12(int index) {
  orrery::api::say_once(orrery::api::kNames12[index]);
  return orrery::api::runtime([] { throw orrery::device::Failure(orrery::device::Status::not_supported); });
}
EXPORTED int orrery_refuse_13(int index) {
  orrery::api::say_once(orrery::api::kNames13[index]);
  return orrery::api::runtime([] { throw orrery::device::Failure(orrery::device::Status::not_supported); });
}
EXPORTED int orrery_refuse_driver(int index) {
  orrery::api::say_once(orrery::api::kDriver[index].name);
  return 801;
}
/// Called by the libraries when they are loaded.
EXPORTED void orrery_set_runtime_version(int major) { orrery::api::g_runtime_version = major; }
/// For redirecting a statically linked runtime: the code of a runtime function, null when it is not implemented.
EXPORTED void* orrery_runtime_function(const char* name, int version) {
  return orrery::api::find_runtime_function(name, version);
}
/// A stub for a runtime function that is not implemented.
EXPORTED int orrery_runtime_index(const char* name, int version) {
  const auto& index = orrery::api::index_of(version >= 13 ? 1 : 0);
  auto at = index.find(name);
  return at == index.end() ? -1 : int(at->second);
}
}
