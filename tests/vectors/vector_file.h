// tests/vectors/vector_file.h: reading *.vectors.zst: per form its key, and a hash per chunk of recorded outputs.
//
//   u32 key bytes, u32 chunks, u32 destinations; key; u64 hash[chunks]   (repeated; the whole file zstd-compressed)
#pragma once
#include <zstd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace vectors {

inline std::string read_zst(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  const std::string z(std::istreambuf_iterator<char>(in), {});
  std::string out;
  std::vector<char> part(1 << 20);
  ZSTD_DStream* d = ZSTD_createDStream();
  ZSTD_inBuffer from{z.data(), z.size(), 0};
  while (from.pos < from.size) {
    ZSTD_outBuffer to{part.data(), part.size(), 0};
    const size_t rc = ZSTD_decompressStream(d, &to, &from);
    if (ZSTD_isError(rc)) throw std::runtime_error(path + ": " + ZSTD_getErrorName(rc));
    out.append(part.data(), to.pos);
  }
  for (;;) {  // what the decoder still holds
    ZSTD_outBuffer to{part.data(), part.size(), 0};
    const size_t rc = ZSTD_decompressStream(d, &to, &from);
    if (ZSTD_isError(rc) || to.pos == 0) break;
    out.append(part.data(), to.pos);
  }
  ZSTD_freeDStream(d);
  return out;
}

inline std::map<std::string, std::vector<uint64_t>> read_vectors(const std::string& path) {
  const std::string data = read_zst(path);
  std::map<std::string, std::vector<uint64_t>> all;
  for (size_t at = 0; at + 12 <= data.size();) {
    uint32_t head[3];
    memcpy(head, &data[at], 12);
    at += 12;
    const std::string key = data.substr(at, head[0]);
    at += head[0];
    std::vector<uint64_t> hashes(head[1]);
    memcpy(hashes.data(), &data.at(at), head[1] * 8);
    at += head[1] * 8;
    all[key] = hashes;
  }
  return all;
}

}  // namespace vectors
