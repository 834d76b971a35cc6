// device/fatbin.h: the container in which CUDA compilers put the code of several architectures.
//
//   wrapper   {u32 0x466243b1, u32 version, data, extra}   in the program; version 2 (relocatable code): `extra` is a
//             list of containers, one per translation unit, that ends with a null pointer
//   container {u32 0xba55ed50, u16 1, u16 16, u64 size} entry...
//   entry     {u16 kind, u16 0x101, u32 header size, u64 payload size, u32 compressed size, u32 options offset,
//              u16 minor, u16 major, u32 architecture, u32 name offset, u32 name size, u64 flags, u64 0,
//              u64 uncompressed size} payload
//
// Invariant: nothing outside the given bytes is read, whatever they hold.
// Not here: which device wants which entry beyond choose_ptx, parsing of the PTX (ptx/).
// Source: found by experiment with the compilers of CUDA 12 and 13.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace orrery::device {

constexpr uint32_t kFatbinMagic = 0xba55ed50, kFatbinWrapperMagic = 0x466243b1;

enum class Packing : uint8_t { plain, lz4, zstd };

struct FatbinEntry {
  bool is_ptx = false, is_machine_code = false;
  uint32_t arch = 0;             // 10 * major + minor
  bool arch_specific = false;    // sm_90a and the like
  bool family_specific = false;  // sm_100f and the like
  uint32_t version_major = 0, version_minor = 0;  // of the PTX
  std::string name;
  Packing packing = Packing::plain;
  uint64_t unpacked_size = 0;
  std::span<const std::byte> payload;
};

/// Bytes of a container, header included, as its header says; 0 when it is none. `bytes`: at least 16.
uint64_t fatbin_size(std::span<const std::byte> bytes);
/// The entries of one container. Throws base::Error when it is malformed.
std::vector<FatbinEntry> read_fatbin(std::span<const std::byte> bytes);
/// The payload of an entry, unpacked; text ends before its first zero byte. Throws base::Error.
std::string unpack(const FatbinEntry& entry);
/// The PTX entry that fits compute capability `capability` (10 * major + minor) best, or null: an exact
/// architecture-specific one first, then one of the family, then the highest plain one not above it.
const FatbinEntry* choose_ptx(const std::vector<FatbinEntry>& entries, uint32_t capability);

}  // namespace orrery::device
