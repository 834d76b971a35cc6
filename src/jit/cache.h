// jit/cache.h: object files of compiled kernels on disk, so that a program's second start does not compile.
//
// One file per object in $ORRERY_CACHE_DIR, else $XDG_CACHE_HOME/orrery/code, else ~/.cache/orrery/code:
//
//   magic 8 bytes | format version | bytes of the object | checksum of the object | object
//
// Files appear by rename, so readers see whole files; a truncated, foreign or damaged file is a miss. The oldest files
// go when all together exceed the limit (256 MB). Every failure of the file system is a miss, never an error.
// Threads and processes: safe to use concurrently.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace orrery::jit {

class Cache {
 public:
  Cache();
  /// Name of the file for a program compiled for a block size on this host with this version of the code generator.
  std::string name_of(uint64_t program_hash, uint32_t x, uint32_t y, uint32_t z) const;
  bool load(const std::string& name, std::vector<char>& object) const;
  void store(const std::string& name, const std::vector<char>& object) const;
  const std::string& directory() const { return directory_; }

 private:
  void trim() const;
  std::string directory_;  // empty: no cache
};

}  // namespace orrery::jit
