// device/array.h: arrays (texture memory), texture and surface objects.
//
// An array is a plain row-major box in device memory; the tiles of real hardware are known to the timing model only (timing/trace_texels.cc).
// A texture object's handle is a small number that TextureTable resolves without a lock.
// Source: CUDA runtime API, texture object management.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "exec/texture.h"

namespace orrery::device {

class Device;

struct Format {
  uint8_t bits[4] = {32, 0, 0, 0};       // of x, y, z, w
  exec::TexelKind kind = exec::TexelKind::flt;
  int channels() const;
  uint32_t texel_bytes() const;
};

struct Array {
  ~Array();
  Device* device = nullptr;
  uint64_t address = 0;
  uint64_t width = 0, height = 0, depth = 0;  // texels; 0 where the dimension does not exist; depth = layers if layered
  uint64_t pitch = 0, slice = 0;              // bytes
  Format format;
  uint32_t flags = 0;
  uint64_t rows() const { return height ? height : 1; }
  uint64_t slices() const { return depth ? depth : 1; }
  std::shared_ptr<void> owner;                // a mipmapped array that this level belongs to
};

constexpr uint32_t kLayered = 1, kSurface = 2, kCubemap = 4, kGather = 8;

std::shared_ptr<Array> make_array(Device& device, uint64_t width, uint64_t height, uint64_t depth, Format format, uint32_t flags);

struct MipmappedArray {
  std::vector<std::shared_ptr<Array>> levels;
};

/// One live object: what sampling reads, and the caller's descriptors for queries.
struct ObjectRecord {
  exec::TextureObject object;
  std::shared_ptr<void> keeps;               // array or mipmapped array
  std::vector<std::byte> resource, texture, view;
};

class TextureTable {
 public:
  uint64_t add(std::unique_ptr<ObjectRecord> record);
  bool remove(uint64_t handle);
  const ObjectRecord* find(uint64_t handle) const;

 private:
  static constexpr uint64_t kCapacity = 1 << 20, kFirst = 1;
  std::mutex mutex_;
  std::vector<uint64_t> free_;
  uint64_t next_ = kFirst;
  std::unique_ptr<std::atomic<ObjectRecord*>[]> slots_{new std::atomic<ObjectRecord*>[kCapacity]()};
};

}  // namespace orrery::device
