// A PNG file from 8-bit RGB pixels, with stored (uncompressed) data: no library is needed.
#pragma once
#include <cstdint>
#include <cstdio>
#include <vector>

inline bool write_png(const char* path, const std::vector<uint8_t>& rgb, int width, int height) {
  std::vector<uint8_t> out = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  uint32_t table[256];
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
    table[i] = c;
  }
  auto put32 = [&](std::vector<uint8_t>& v, uint32_t x) {
    for (int s = 24; s >= 0; s -= 8) v.push_back(uint8_t(x >> s));
  };
  auto chunk = [&](const char* type, const std::vector<uint8_t>& data) {
    put32(out, uint32_t(data.size()));
    size_t begin = out.size();
    for (int i = 0; i < 4; i++) out.push_back(uint8_t(type[i]));
    out.insert(out.end(), data.begin(), data.end());
    uint32_t crc = 0xffffffffu;
    for (size_t i = begin; i < out.size(); i++) crc = table[(crc ^ out[i]) & 255] ^ (crc >> 8);
    put32(out, ~crc);
  };
  std::vector<uint8_t> header;
  put32(header, uint32_t(width));
  put32(header, uint32_t(height));
  for (int v : {8, 2, 0, 0, 0}) header.push_back(uint8_t(v));
  chunk("IHDR", header);

  std::vector<uint8_t> raw, data = {0x78, 0x01};
  for (int y = 0; y < height; y++) {
    raw.push_back(0);
    raw.insert(raw.end(), rgb.begin() + size_t(y) * width * 3, rgb.begin() + size_t(y + 1) * width * 3);
  }
  uint32_t a = 1, b = 0;
  for (uint8_t v : raw) a = (a + v) % 65521, b = (b + a) % 65521;
  for (size_t at = 0; at < raw.size(); at += 65535) {
    size_t n = raw.size() - at < 65535 ? raw.size() - at : 65535;
    data.push_back(at + n == raw.size());
    for (size_t v : {n & 255, n >> 8, ~n & 255, (~n >> 8) & 255}) data.push_back(uint8_t(v));
    data.insert(data.end(), raw.begin() + at, raw.begin() + at + n);
  }
  put32(data, b << 16 | a);
  chunk("IDAT", data);
  chunk("IEND", {});
  FILE* f = std::fopen(path, "wb");
  if (!f) return false;
  bool ok = std::fwrite(out.data(), 1, out.size(), f) == out.size();
  return std::fclose(f) == 0 && ok;
}
