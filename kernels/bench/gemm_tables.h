// The tables of products that are timed: types, layouts, shapes; and how a configuration is written in raw files.
// Not here: who times them (gemm_bench.cc on a GPU, gemm_tune.cc where there is none).
#pragma once
#include <cstdio>
#include <string>
#include <vector>

#include "orrery/kernels.h"

namespace bench {

using orrery::kernels::DType;
using orrery::kernels::GemmConfig;

struct Shape {
  int64_t m, n, k;
};

/// A table: types, layout ("nn": B k x n row-major; "nt": B n x k row-major), shapes.
struct Table {
  const char* name;
  DType in, out;
  bool b_k_major, fast_accumulate;
  std::vector<Shape> shapes;
  int weight_bits = 0;  // 4, 8: ours has int4 weights with group scales, or e4m3 ones; the library's is the same product in `in`
  bool held = false;  // not shapes of our table
};

inline std::vector<Shape> skinny_shapes() {
  std::vector<Shape> s;
  for (int m : {1, 2, 4, 8, 16, 32, 64, 128}) s.push_back({m, 4096, 4096});
  return s;
}

inline std::vector<Shape> square_shapes() {
  std::vector<Shape> s;
  for (int n : {64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192}) s.push_back({n, n, n});
  const Shape more[] = {
      {8192, 12288, 128}, {64, 4096, 16384}, {16384, 4096, 4096}, {128, 16384, 4096}, {256, 1024, 8192},
      {512, 8192, 2048},  {1024, 16384, 512}, {2048, 512, 16384}, {4096, 64, 8192},   {16384, 16384, 1024},
      {64, 64, 16384},    {128, 128, 8192},   {256, 256, 16384},  {64, 16384, 1024},  {16384, 64, 1024},
      {128, 4096, 14336}, {128, 14336, 4096}, {256, 4096, 14336}, {256, 14336, 4096}, {512, 4096, 14336},
      {512, 14336, 4096}, {1024, 4096, 14336}, {1024, 14336, 4096}, {2048, 4096, 14336}, {2048, 14336, 4096},
      {4096, 4096, 14336}, {4096, 14336, 4096}, {8192, 4096, 14336}, {8192, 14336, 4096}, {64, 6144, 4096},
      {256, 6144, 4096},  {1024, 6144, 4096}, {4096, 6144, 4096}, {192, 5120, 5120},  {320, 5120, 5120},
      {640, 5120, 5120},  {1280, 5120, 5120}, {2560, 5120, 5120}, {5120, 5120, 5120}, {512, 512, 4096},
      {1024, 1024, 8192}, {2048, 2048, 512},  {4096, 4096, 256},  {4096, 4096, 1024}, {8192, 8192, 1024},
      {16384, 1024, 2048}, {1024, 2048, 16384}, {3072, 768, 768}, {768, 3072, 768},   {8192, 2048, 2048},
      {2048, 8192, 2048}, {12288, 4096, 2048}};
  s.insert(s.end(), std::begin(more), std::end(more));
  return s;
}

/// More rows of activations than the skinny ones, and layers of other sizes.
inline std::vector<Shape> wide_shapes() {
  std::vector<Shape> s;
  for (int m : {192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096}) s.push_back({m, 4096, 4096});
  for (int m : {64, 256, 1024, 4096}) s.push_back({m, 14336, 4096}), s.push_back({m, 4096, 14336});
  for (int m : {32, 100, 300, 1000}) s.push_back({m, 6144, 5120});
  return s;
}

/// None of these is in square_shapes: what the choice is worth where nothing was measured.
inline std::vector<Shape> held_shapes() {
  return {{384, 384, 384},   {640, 640, 640},    {1280, 1280, 1280}, {2560, 2560, 2560},  {4608, 4608, 4608},  {96, 3072, 3072},   {448, 7168, 2048},
          {100, 5120, 13824}, {3000, 11008, 4096}, {600, 1024, 4096}, {320, 320, 12288},  {12288, 384, 1536},  {24576, 2048, 512}, {2816, 2816, 11264}};
}

inline std::string describe(const GemmConfig& c) {
  static const char* const names[] = {"auto", "coop", "pingpong", "split", "direct", "stream", "streamk", "simple", "parts"};
  char text[96];
  std::snprintf(text, sizeof text, "%s:%dx%d:c%dx%d:s%d:r%d%s%s%s%s", names[int(c.schedule)], c.tile_m, c.tile_n, c.cluster_m, c.cluster_n, c.split_k, c.raster,
                c.stagger ? ":late" : "", c.swap ? ":swap" : "",
                c.per_sm ? (":o" + std::to_string(c.per_sm)).c_str() : "", c.alone ? ":alone" : "");
  return text;
}

inline std::vector<Table> tables() {
  return {
      {"skinny_e4m3", DType::kE4M3, DType::kBF16, true, true, skinny_shapes()},
      {"skinny_f16", DType::kF16, DType::kF16, true, true, skinny_shapes()},
      {"skinny_bf16", DType::kBF16, DType::kBF16, true, true, skinny_shapes()},
      {"square_bf16", DType::kBF16, DType::kBF16, false, true, square_shapes()},
      {"square_f16", DType::kF16, DType::kF16, false, true, square_shapes()},
      {"square_e4m3", DType::kE4M3, DType::kBF16, true, true, square_shapes()},
      {"square_int8", DType::kI8, DType::kF32, true, true, square_shapes()},
      {"skinny_w4a16", DType::kF16, DType::kF16, true, true, skinny_shapes(), 4},
      {"skinny_w8a16", DType::kBF16, DType::kBF16, true, true, skinny_shapes(), 8},
      {"wide_w8a16", DType::kBF16, DType::kBF16, true, true, wide_shapes(), 8},
      {"skinny_w8f16", DType::kF16, DType::kF16, true, true, skinny_shapes(), 8},
      {"wide_w8f16", DType::kF16, DType::kF16, true, true, wide_shapes(), 8},
      {"square_e4m3_promoted", DType::kE4M3, DType::kBF16, true, false, square_shapes()},
      {"square_bf16_nt", DType::kBF16, DType::kBF16, true, true, square_shapes()},
      {"held_bf16", DType::kBF16, DType::kBF16, false, true, held_shapes(), 0, true},
      {"held_e4m3", DType::kE4M3, DType::kBF16, true, true, held_shapes(), 0, true}};
}

}  // namespace bench
