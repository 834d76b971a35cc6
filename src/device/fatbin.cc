// Reader of fat binaries; see fatbin.h for the layout.
#include "device/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace orrery::device {
namespace {

constexpr uint64_t kContainerHeader = 16, kEntryHeader = 64;
constexpr uint64_t kMaxUnpacked = uint64_t{1} << 31;
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000, kFlagArch = 0x100000, kFlagFamily = 0x200000;

template <class T>
T load(std::span<const std::byte> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string name_in(std::span<const std::byte> entry, uint64_t header) {
  uint64_t offset = load<uint32_t>(entry, 32), size = load<uint32_t>(entry, 36);
  if (offset == 0 || size == 0 || offset > header || size > header - offset) return "";
  return std::string(reinterpret_cast<const char*>(entry.data()) + offset, size);
}

FatbinEntry read_entry(std::span<const std::byte> bytes, uint64_t* total) {
  if (bytes.size() < kEntryHeader) base::fail("fat binary: {} bytes left where an entry's header of {} should stand", bytes.size(), kEntryHeader);
  uint64_t header = load<uint32_t>(bytes, 4), payload = load<uint64_t>(bytes, 8);
  if (header < kEntryHeader || header > bytes.size()) base::fail("fat binary: an entry's header claims {} bytes", header);
  if (payload > bytes.size() - header) base::fail("fat binary: an entry claims {} bytes where {} are left", payload, bytes.size() - header);
  FatbinEntry entry;
  uint16_t kind = load<uint16_t>(bytes, 0);
  uint64_t flags = load<uint64_t>(bytes, 40), packed = load<uint32_t>(bytes, 16);
  entry.is_ptx = kind == 1;
  entry.is_machine_code = kind == 2;
  entry.version_minor = load<uint16_t>(bytes, 24);
  entry.version_major = load<uint16_t>(bytes, 26);
  entry.arch = load<uint32_t>(bytes, 28);
  entry.arch_specific = flags & kFlagArch;
  entry.family_specific = flags & kFlagFamily;
  entry.name = name_in(bytes, header);
  entry.packing = flags & kFlagZstd ? Packing::zstd : flags & kFlagLz4 ? Packing::lz4 : Packing::plain;
  entry.unpacked_size = load<uint64_t>(bytes, 56);
  uint64_t used = entry.packing == Packing::plain || packed == 0 ? payload : packed;
  if (used > payload) base::fail("fat binary: {} packed bytes in a payload of {}", used, payload);
  entry.payload = bytes.subspan(header, used);
  *total = header + payload;
  return entry;
}

std::string unpack_bytes(const FatbinEntry& entry) {
  const char* source = reinterpret_cast<const char*>(entry.payload.data());
  if (entry.packing == Packing::plain) return std::string(source, entry.payload.size());
  if (entry.unpacked_size > kMaxUnpacked || entry.payload.size() > INT32_MAX)
    base::fail("fat binary: an entry claims {} bytes when unpacked", entry.unpacked_size);
  std::string text(entry.unpacked_size, '\0');
  if (entry.packing == Packing::lz4) {
    int got = LZ4_decompress_safe(source, text.data(), int(entry.payload.size()), int(text.size()));
    if (got < 0 || size_t(got) != text.size()) base::fail("fat binary: an LZ4 entry is damaged");
    return text;
  }
  size_t got = ZSTD_decompress(text.data(), text.size(), source, entry.payload.size());
  if (ZSTD_isError(got)) base::fail("fat binary: a zstd entry is damaged ({})", ZSTD_getErrorName(got));
  text.resize(got);
  return text;
}

// Greater is better; negative: does not run on the device.
int fitness(const FatbinEntry& entry, uint32_t capability) {
  if (!entry.is_ptx || entry.arch > capability) return -1;
  if (entry.arch_specific) return entry.arch == capability ? 3000 : -1;
  if (entry.family_specific) return entry.arch / 10 == capability / 10 ? 2000 + int(entry.arch) : -1;
  return int(entry.arch);
}

}  // namespace

uint64_t fatbin_size(std::span<const std::byte> bytes) {
  if (bytes.size() < kContainerHeader || load<uint32_t>(bytes, 0) != kFatbinMagic) return 0;
  uint64_t header = load<uint16_t>(bytes, 6), size = load<uint64_t>(bytes, 8);
  return header < kContainerHeader || size > UINT64_MAX - header ? 0 : header + size;
}

std::vector<FatbinEntry> read_fatbin(std::span<const std::byte> bytes) {
  uint64_t size = fatbin_size(bytes);
  if (size == 0) base::fail("fat binary: no container header");
  if (size > bytes.size()) base::fail("fat binary: the container claims {} bytes, {} are there", size, bytes.size());
  std::vector<FatbinEntry> entries;
  for (uint64_t at = load<uint16_t>(bytes, 6); at < size;) {
    uint64_t step = 0;
    entries.push_back(read_entry(bytes.subspan(at, size - at), &step));
    at += step;
  }
  return entries;
}

std::string unpack(const FatbinEntry& entry) {
  std::string text = unpack_bytes(entry);
  if (entry.is_ptx) text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

const FatbinEntry* choose_ptx(const std::vector<FatbinEntry>& entries, uint32_t capability) {
  const FatbinEntry* best = nullptr;
  for (const FatbinEntry& entry : entries)
    if (fitness(entry, capability) >= 0 && (!best || fitness(entry, capability) > fitness(*best, capability))) best = &entry;
  return best;
}

}  // namespace orrery::device
