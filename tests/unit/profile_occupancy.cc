// How many blocks an SM holds, by the occupancy calculator of the CUDA toolkit (cuda_occupancy.h of 13.0) for a GPU of compute capability 9.0 with 228 KiB of
// shared memory: shared memory cut so that a number of blocks just does not fit and fits, and drawn at random.
#include <gtest/gtest.h>

#include "profile/occupancy.h"

namespace orrery {
namespace {

TEST(Occupancy, IsWhatTheToolkitSays) {
  const struct {
    uint32_t threads, registers, shared, blocks;
  } of[] = {
      {128, 18, 232192, 1},  {128, 18, 231168, 1},  {128, 18, 115968, 1},  {128, 18, 114944, 2},  {128, 18, 77226, 2},   {128, 18, 76202, 3},   {128, 18, 57856, 3},
      {128, 18, 56832, 4},   {128, 18, 38485, 5},   {128, 18, 37461, 6},   {128, 18, 28800, 7},   {128, 18, 27776, 8},   {128, 18, 19114, 11},  {128, 18, 18090, 12},
      {928, 184, 27761, 0},  {320, 160, 0, 1},      {160, 200, 3592, 1},   {32, 168, 18095, 12},  {640, 128, 0, 0},      {256, 88, 0, 2},       {128, 128, 0, 4},
      {896, 248, 38625, 0},  {864, 80, 19466, 0},   {320, 184, 14246, 0},  {544, 184, 13094, 0},  {512, 240, 36309, 0},  {672, 24, 0, 3},       {416, 48, 1498, 3},
      {320, 96, 15401, 2},   {256, 152, 0, 1},      {608, 32, 32505, 3},   {320, 168, 0, 1},      {576, 184, 5070, 0},   {416, 160, 39848, 0},  {192, 128, 131303, 1},
      {320, 208, 149619, 0}, {288, 208, 17515, 0},  {864, 240, 188027, 0}, {768, 232, 0, 0},      {928, 216, 194, 0},    {96, 56, 0, 12},       {544, 64, 33706, 1},
      {896, 112, 119002, 0}, {672, 255, 113470, 0}, {672, 16, 0, 3},       {384, 56, 17982, 3},   {864, 80, 19308, 0},   {288, 24, 264, 7},     {288, 248, 0, 0},
      {672, 144, 11120, 0},  {256, 232, 29208, 1},  {608, 48, 36640, 2},   {64, 104, 0, 8},       {704, 16, 228692, 1},  {608, 120, 2071, 0},   {544, 240, 35534, 0},
      {608, 216, 69829, 0},  {224, 104, 37877, 2},  {704, 32, 20964, 2},   {576, 24, 153192, 1}};
  for (const auto& [threads, registers, shared, blocks] : of)
    EXPECT_EQ(blocks_of_sm({}, threads, registers, shared).blocks, blocks) << threads << " threads of " << registers << " registers and " << shared << " bytes";
}

}  // namespace
}  // namespace orrery
