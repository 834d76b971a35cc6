// Occupancy against the CUDA occupancy rules, device printf against the host's printf.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "exec/builtins.h"
#include "exec/launch.h"

namespace orrery::exec {
namespace {

// Figures of compute capability 9.0: 2048 threads, 64 warps, 32 blocks, 65536 registers, 228 KB of shared memory per SM.
TEST(Occupancy, IsLimitedByTheScarcestResource) {
  const GpuFacts h200;
  EXPECT_EQ(blocks_per_sm(h200, 32, 16, 0), 32u) << "blocks";
  EXPECT_EQ(blocks_per_sm(h200, 1024, 32, 0), 2u) << "threads";
  EXPECT_EQ(blocks_per_sm(h200, 256, 128, 0), 2u) << "registers";
  EXPECT_EQ(blocks_per_sm(h200, 128, 32, 100 * 1024), 2u) << "shared memory: (100+1) KB twice in 228 KB";
  EXPECT_EQ(blocks_per_sm(h200, 1025, 32, 0), 0u);
}

std::string host(const char* format, auto... values) {
  char out[256];
  snprintf(out, sizeof out, format, values...);
  return out;
}

TEST(Printf, FormatsAsTheHostDoes) {
  struct { int i; int pad; double d; long long l; const char* s; } args = {-42, 0, 3.25, 1234567890123, "text"};
  const char* format = "%5d|%-8.3f|%lld|%s|%%";
  const std::byte* p = reinterpret_cast<const std::byte*>(&args);
  EXPECT_EQ(format_printf(format, p), host(format, args.i, args.d, args.l, args.s));
  unsigned u[2] = {0xBEEF, 'x'};
  EXPECT_EQ(format_printf("%08X %c", reinterpret_cast<const std::byte*>(u)), "0000BEEF x");
  int star[2] = {6, 7};
  EXPECT_EQ(format_printf("[%*d]", reinterpret_cast<const std::byte*>(star)), "[     7]");
}

}  // namespace
}  // namespace orrery::exec
