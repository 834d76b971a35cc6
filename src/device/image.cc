// Recognises images by their first bytes; see image.h.
#include "device/image.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "device/fatbin.h"
#include "device/status.h"
#include "timing/cubin.h"

namespace orrery::device {
namespace {

constexpr char kLinkedMagic[8] = {'O', 'R', 'R', 'L', 'I', 'N', 'K', '1'};

struct Wrapper {
  uint32_t magic, version;
  const void* data;
  const void* const* extra;
};

std::span<const std::byte> container_at(const void* data) {
  std::span head(static_cast<const std::byte*>(data), 16);
  return {head.data(), fatbin_size(head)};
}

[[noreturn]] void refuse(const std::string& origin, uint32_t capability, uint32_t lowest) {
  std::string file = origin.empty() ? "the program" : origin;
  if (lowest > capability)
    throw Failure(Status::no_binary, fmt::format("{}: its PTX is for compute capability {}.{} and above, this GPU has {}.{}: choose a newer "
                                                 "one with --gpu, or compile with -arch=compute_{}",
                                                 file, lowest / 10, lowest % 10, capability / 10, capability % 10, capability));
  throw Failure(Status::no_binary,
                fmt::format("{}: holds machine code only and no PTX: compile it with nvcc -gencode arch=compute_{}{},code=compute_{}{} "
                            "(or plain -arch=compute_{}), which embeds PTX",
                            file, capability, capability == 90 ? "a" : "", capability, capability == 90 ? "a" : "", capability));
}

/// Whether a container is NVIDIA's library for kernels that launch kernels. Its functions are the device's own here
/// (api/device_runtime.cc), and its PTX is for the newest architecture only.
bool is_device_runtime(const std::vector<FatbinEntry>& entries) {
  if (entries.empty()) return false;
  const auto ptx = std::ranges::find_if(entries, [](const FatbinEntry& e) { return e.is_ptx; });
  const std::string code = unpack(ptx != entries.end() ? *ptx : entries.front());
  return code.find("__cudaCDP2LaunchDeviceV2_ptsz") != std::string::npos && code.find("__cudaCDP2Memset3DAsync_ptsz") != std::string::npos;
}

/// Machine code in the container that the GPU would run: of its own architecture, or of an earlier one of its generation.
const FatbinEntry* choose_machine_code(const std::vector<FatbinEntry>& entries, uint32_t capability) {
  const FatbinEntry* best = nullptr;
  for (const FatbinEntry& e : entries)
    if (e.is_machine_code && e.arch <= capability && e.arch / 10 == capability / 10 && (!e.arch_specific || e.arch == capability) &&
        (!best || e.arch > best->arch || (e.arch == best->arch && e.arch_specific)))
      best = &e;
  return best;
}

void add_registers(Image& image, const std::vector<FatbinEntry>& entries, uint32_t capability) try {
  const FatbinEntry* code = choose_machine_code(entries, capability);
  if (!code) return;
  const std::string file = unpack(*code);
  image.registers.merge(timing::read_registers(std::as_bytes(std::span(file))));
} catch (const base::Error&) {  // kernels run without it
}

void add_container(Image& image, const void* data, uint32_t capability, bool linked = false) {
  std::vector<FatbinEntry> entries;
  std::string text;
  uint32_t lowest = UINT32_MAX;
  try {
    entries = read_fatbin(container_at(data));
    if (entries.empty() || (linked && is_device_runtime(entries))) return;
    if (const FatbinEntry* best = choose_ptx(entries, capability)) text = unpack(*best);
    add_registers(image, entries, capability);
  } catch (const base::Error& error) {
    throw Failure(Status::invalid_image, image.origin.empty() ? error.what() : image.origin + ": " + error.what());
  }
  for (const FatbinEntry& entry : entries)
    if (entry.is_ptx) lowest = std::min(lowest, entry.arch);
  if (text.empty()) refuse(image.origin, capability, lowest == UINT32_MAX ? 0 : lowest);
  image.texts.push_back(std::move(text));
}

/// What the linker made of all parts; compilers that leave linking to the start of the program hand over an empty container.
void add_linked_registers(Image& image, const void* data, uint32_t capability) try {
  add_registers(image, read_fatbin(container_at(data)), capability);
} catch (const base::Error&) {
}

void add_wrapper(Image& image, const Wrapper& wrapper, uint32_t capability) {
  if (wrapper.version == 2 && wrapper.extra) {
    image.relocatable = true;
    add_linked_registers(image, wrapper.data, capability);
    for (const void* const* part = wrapper.extra; *part; part++) add_container(image, *part, capability, true);
    if (!image.texts.empty()) return;
  }
  add_container(image, wrapper.data, capability);
}

Image split_linked(const char* data) {
  Image image;
  image.relocatable = true;
  uint32_t count;
  std::memcpy(&count, data + 8, 4);
  const char* at = data + 12;
  for (uint32_t i = 0; i < count; i++) {
    image.texts.emplace_back(at);
    at += image.texts.back().size() + 1;
  }
  return image;
}

}  // namespace

std::string file_of_address(const void* address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "";
}

Image read_image(const void* data, uint32_t capability) {
  require(data != nullptr, Status::invalid_value);
  Image image;
  image.origin = file_of_address(data);
  uint32_t magic = 0;
  std::memcpy(&magic, data, 1);
  if (magic == 0) throw Failure(Status::invalid_image, "the image is empty");
  if (strnlen(static_cast<const char*>(data), 4) == 4) std::memcpy(&magic, data, 4);
  if (magic == kFatbinWrapperMagic) {
    add_wrapper(image, *static_cast<const Wrapper*>(data), capability);
  } else if (magic == kFatbinMagic) {
    add_container(image, data, capability);
  } else if (magic == 0x464c457f) {
    refuse(image.origin, capability, 0);
  } else if (strnlen(static_cast<const char*>(data), 8) == 8 && std::memcmp(data, kLinkedMagic, 8) == 0) {
    image = split_linked(static_cast<const char*>(data));
  } else {
    image.texts.emplace_back(static_cast<const char*>(data));
  }
  return image;
}

Image read_image_file(const std::string& path, uint32_t capability) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(Status::file_not_found, path + ": cannot be read");
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  bytes.append(16, '\0');
  uint64_t claimed = fatbin_size(std::as_bytes(std::span(bytes)));
  if (claimed > bytes.size()) throw Failure(Status::invalid_image, path + ": the fat binary is truncated");
  Image image = read_image(bytes.data(), capability);
  image.origin = path;
  return image;
}

std::string link_image(const std::vector<std::string>& texts) {
  std::string image(kLinkedMagic, 8);
  uint32_t count = uint32_t(texts.size());
  image.append(reinterpret_cast<const char*>(&count), 4);
  for (const std::string& text : texts) image.append(text.c_str(), text.size() + 1);
  return image;
}

}  // namespace orrery::device
