// jit/cache.cc: see cache.h.
#include "jit/cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "jit/target.h"

namespace orrery::jit {

namespace fs = std::filesystem;

namespace {

constexpr uint32_t kFormat = 18;          // change it when emitted code or its symbols change
constexpr uint64_t kLimit = 256u << 20;  // bytes of all files
constexpr char kMagic[8] = {'O', 'R', 'R', 'E', 'R', 'Y', 'J', '1'};

struct Header {
  char magic[8];
  uint32_t format, reserved;
  uint64_t bytes, checksum;
};

uint64_t hash_bytes(const void* data, size_t n, uint64_t h = 0xcbf29ce484222325ull) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t v;
    std::memcpy(&v, p, 8);
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    h ^= h >> 29;
  }
  for (; n; n--, p++) h = (h ^ *p) * 0x100000001b3ull;
  return h;
}

std::string choose_directory() {
  if (const char* off = std::getenv("ORRERY_CACHE"); off && std::string_view(off) == "off") return {};
  if (const char* d = std::getenv("ORRERY_CACHE_DIR"); d && *d) return d;
  if (const char* d = std::getenv("XDG_CACHE_HOME"); d && *d) return std::string(d) + "/orrery/code";
  if (const char* d = std::getenv("HOME"); d && *d) return std::string(d) + "/.cache/orrery/code";
  return {};
}

}  // namespace

Cache::Cache() : directory_(choose_directory()) {}

std::string Cache::name_of(uint64_t program_hash, uint32_t x, uint32_t y, uint32_t z) const {
  const HostTraits& host = HostTraits::get();
  const std::string who = host.cpu + host.features + (host.asks_for_rows ? "rows" : host.asks_foreseen ? "" : "off") +
                          (host.streams ? "stream" : "") + ORRERY_BUILD_ID;
  return fmt::format("{:016x}-{}x{}x{}-{:016x}.o", program_hash, x, y, z, hash_bytes(who.data(), who.size()));
}

bool Cache::load(const std::string& name, std::vector<char>& object) const {
  if (directory_.empty()) return false;
  std::ifstream in(directory_ + "/" + name, std::ios::binary);
  Header h;
  if (!in || !in.read(reinterpret_cast<char*>(&h), sizeof h)) return false;
  if (std::memcmp(h.magic, kMagic, 8) || h.format != kFormat || h.bytes > kLimit) return false;
  object.resize(h.bytes);
  if (!in.read(object.data(), std::streamsize(h.bytes))) return false;
  return hash_bytes(object.data(), object.size()) == h.checksum;
}

void Cache::store(const std::string& name, const std::vector<char>& object) const {
  if (directory_.empty()) return;
  static std::atomic<uint32_t> count{0};
  std::error_code ignored;
  fs::create_directories(directory_, ignored);
  const std::string temporary = fmt::format("{}/.{}.{}.{}", directory_, name, getpid(), count++);
  Header h{};
  std::memcpy(h.magic, kMagic, 8);
  h.format = kFormat;
  h.bytes = object.size();
  h.checksum = hash_bytes(object.data(), object.size());
  {
    std::ofstream out(temporary, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(object.data(), std::streamsize(object.size()));
    if (!out.flush()) {
      out.close();
      fs::remove(temporary, ignored);
      return;
    }
  }
  fs::rename(temporary, directory_ + "/" + name, ignored);
  trim();
}

void Cache::trim() const {
  std::error_code ignored;
  struct File { fs::file_time_type time; uint64_t bytes; fs::path path; };
  std::vector<File> files;
  uint64_t total = 0;
  for (const auto& e : fs::directory_iterator(directory_, ignored)) {
    if (!e.is_regular_file(ignored)) continue;
    files.push_back({e.last_write_time(ignored), e.file_size(ignored), e.path()});
    total += files.back().bytes;
  }
  if (total <= kLimit) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& f : files) {
    if (total <= kLimit / 4 * 3) break;
    if (fs::remove(f.path, ignored)) total -= f.bytes;
  }
}

}  // namespace orrery::jit
