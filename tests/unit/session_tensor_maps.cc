// Tensor copies that leave memory: maps over freed memory and over the host's, strides that lead away, maps whose bytes
// were changed. Interpreted, compiled and checked, each is an error that names kernel, line and thread, or harmless; the
// process lives on, and no byte outside device memory changes. And multicasts to addresses of another block.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "exec/tensor_map.h"
#include "orrery/gpu.h"

namespace {

using orrery::Gpu;
using orrery::GpuOptions;
using orrery::LaunchReport;
using orrery::exec::TensorMap;
using testing::HasSubstr;

// Each copy is in line 20.
std::string program(const std::string& copy) {
  return R"(.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u32 x, .param .u32 y)
{
  .reg .pred %p<2>; .reg .b16 %h<2>; .reg .b32 %r<8>; .reg .b64 %d<4>;
  .shared .align 128 .b8 tile[65536];
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x;
  setp.ne.u32 %p0, %r0, 5;
  @%p0 ret;
  mov.b64 %d1, map;
  cvta.param.u64 %d1, %d1;
  ld.param.u32 %r1, [x];
  ld.param.u32 %r2, [y];
  mov.u32 %r3, 0;
  mov.u16 %h1, 0;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.proxy.async;
  )" + copy + R"(
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";
}
constexpr uint32_t kLine = 20;

const char* const kLoad = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%d1, {%r1, %r2}], [bar];";
const char* const kStore = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d1, {%r1, %r2}], [tile];";
const char* const kReduce = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%d1, {%r1, %r2}], [tile];";
const char* const kLoadImages = "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [tile], [%d1, {%r1, %r2, %r3, %r3}], [bar], {%h1, %h1};";
const char* const kStoreImages = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%d1, {%r1, %r2, %r3, %r3}], [tile];";

enum class Mode { interpreted, compiled, checked };
std::string name_of(Mode m) { return m == Mode::interpreted ? "interpreted" : m == Mode::compiled ? "compiled" : "checked"; }

std::unique_ptr<Gpu> gpu_of(Mode mode) {
  setenv("ORRERY_CACHE", "off", 1);
  GpuOptions o;
  o.threads = 1;
  o.interpret = mode == Mode::interpreted;
  if (mode == Mode::checked) o.checks = "all";
  return std::make_unique<Gpu>(o);
}

constexpr uint32_t kU32 = 2;
constexpr uint64_t kRows = 64, kColumns = 64;

/// Boxes of 16 x 16 of a matrix of kRows x kColumns words.
TensorMap matrix_map(const void* at, uint64_t pitch = kColumns * 4) {
  alignas(64) TensorMap map;
  const uint64_t dims[] = {kColumns, kRows};
  const uint32_t box[] = {16, 16}, steps[] = {1, 1};
  EXPECT_EQ(encode_tiled(&map, {kU32, 2, reinterpret_cast<uint64_t>(at), dims, &pitch, steps}, box), orrery::exec::EncodeStatus::ok);
  return map;
}

/// Tiles of 4 x 4 pixels of 16 channels.
TensorMap images_map(const void* at) {
  alignas(64) TensorMap map;
  const uint64_t dims[] = {16, 8, 8, 4}, strides[] = {64, 512, 4096};
  const uint32_t steps[] = {1, 1, 1, 1};
  const int lower[] = {0, 0}, upper[] = {0, 0};
  EXPECT_EQ(encode_im2col(&map, {kU32, 4, reinterpret_cast<uint64_t>(at), dims, strides, steps}, lower, upper, 16, 32), orrery::exec::EncodeStatus::ok);
  return map;
}

LaunchReport launch(Gpu& gpu, const std::string& text, const TensorMap& map, uint32_t x = 0, uint32_t y = 0) {
  return gpu.load(text).kernel("k").launch({.grid = {1}, .block = {32}}, {map, x, y});
}

class TensorCopies : public testing::TestWithParam<Mode> {
 protected:
  std::unique_ptr<Gpu> gpu_ = gpu_of(GetParam());

  /// Expects the fault of a copy that leaves memory, and under check a finding of that kind.
  void expect_fault(const char* copy, const TensorMap& map, const std::string& text, const std::string& finding) {
    const LaunchReport r = launch(*gpu_, program(copy), map);
    ASSERT_TRUE(r.fault) << copy;
    EXPECT_EQ(r.fault->kind, "illegal address") << copy;
    EXPECT_THAT(r.fault->message, HasSubstr(text)) << copy;
    EXPECT_EQ(r.fault->kernel, "k");
    EXPECT_EQ(r.fault->ptx_line, kLine) << copy;
    EXPECT_EQ(r.fault->thread.x, 5u) << copy;
    if (GetParam() != Mode::checked) return;
    bool found = false;
    for (const orrery::Finding& f : gpu_->check_report().findings) found |= f.kind == finding && f.ptx_line == kLine;
    EXPECT_TRUE(found) << copy << ": no " << finding << " in\n" << gpu_->check_report().text;
  }
};

TEST_P(TensorCopies, OfAFreedTensor) {
  void* p = gpu_->allocate(4 << 20);
  gpu_->release(p);
  for (const char* copy : {kLoad, kStore, kReduce}) expect_fault(copy, matrix_map(p), "that was freed", "use-after-free");
  for (const char* copy : {kLoadImages, kStoreImages}) expect_fault(copy, images_map(p), "that was freed", "use-after-free");
}

TEST_P(TensorCopies, OfTheHostsMemory) {
  const std::vector<uint32_t> before(kRows * kColumns + 64, 0xABCD1234);
  std::vector<uint32_t> host = before;
  const void* p = reinterpret_cast<void*>((reinterpret_cast<uint64_t>(host.data()) + 15) / 16 * 16);
  for (const char* copy : {kLoad, kStore, kReduce}) expect_fault(copy, matrix_map(p), "not device memory", "host-pointer");
  for (const char* copy : {kLoadImages, kStoreImages}) expect_fault(copy, images_map(p), "not device memory", "host-pointer");
  expect_fault(kLoad, matrix_map(reinterpret_cast<void*>(64)), "null pointer", "null-pointer");
  EXPECT_EQ(host, before);
}

TEST_P(TensorCopies, WhoseRowsLeaveTheAllocation) {
  void* p = gpu_->allocate(4 << 20);
  for (const char* copy : {kLoad, kStore, kReduce}) {
    expect_fault(copy, matrix_map(p, uint64_t{1} << 23), "allocation at", "out-of-bounds");
    expect_fault(copy, matrix_map(p, uint64_t{1} << 39), "", "out-of-bounds");  // soon beyond all device memory
  }
}

TEST_P(TensorCopies, OfATensorWithRowsElsewhereThatAreNotTouched) {
  auto* p = static_cast<uint32_t*>(gpu_->allocate(4 << 20));
  for (uint32_t i = 0; i < 16; i++) p[i] = i;
  gpu_->wrote(p, 4 << 20);
  // (16 rows of 2^39 bytes: the last of the first box is beyond device memory, the box at -15 touches the first alone)
  const LaunchReport r = launch(*gpu_, program(kLoad), matrix_map(p, uint64_t{1} << 39), 0, uint32_t(-15));
  EXPECT_FALSE(r.fault) << r.fault->message;
}

TEST_P(TensorCopies, OfMapsWithChangedBytes) {
  std::mt19937 random(1);
  const std::vector<std::byte> before(1 << 16, std::byte{0x5A});
  std::vector<std::byte> host = before;
  auto* tensor = static_cast<std::byte*>(gpu_->allocate(4 << 20));
  gpu_->wrote(tensor, 4 << 20);
  int faults = 0, runs = 0;
  const struct {
    const char* copy;
    bool images;
  } copies[] = {{kLoad, false}, {kStore, false}, {kReduce, false}, {kLoadImages, true}, {kStoreImages, true}};
  for (const auto& c : copies) {
    const orrery::Kernel kernel = gpu_->load(program(c.copy)).kernel("k");
    for (int trial = 0; trial < 400; trial++) {
      TensorMap map = c.images ? images_map(tensor + (2 << 20)) : matrix_map(tensor + (2 << 20));
      auto* bytes = reinterpret_cast<uint8_t*>(&map);
      for (uint32_t n = 1 + random() % 4; n > 0; n--) {
        const uint32_t at = 4 + random() % 124, kind = random() % 3;  // (without its first word it is no map)
        bytes[at] = kind == 0 ? uint8_t(random()) : kind == 1 ? 0xFF : uint8_t(bytes[at] ^ 1u << random() % 8);
      }
      if (random() % 4 == 0) map.address = (reinterpret_cast<uint64_t>(host.data()) + random() % 32768) / 16 * 16;
      const uint32_t x = random() % 4 * 4, y = random() % 8;
      const LaunchReport r = kernel.launch({.grid = {1}, .block = {32}}, {map, x, y});
      runs++;
      if (!r.fault) continue;
      faults++;
      EXPECT_EQ(r.fault->kernel, "k");
      if (r.fault->kind != "trap") {
        EXPECT_EQ(r.fault->ptx_line, kLine) << r.fault->message;
        EXPECT_EQ(r.fault->thread.x, 5u) << r.fault->message;
      }
      EXPECT_EQ(host, before);
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "copy " << c.copy << ", trial " << trial;
    }
  }
  EXPECT_EQ(host, before);
  EXPECT_GT(faults, runs / 4);
  EXPECT_LT(faults, runs);
}

// PTX manual, cp.async.bulk: "the data is copied to the same CTA-relative offset as dstMem in each destination CTA", and the
// mbarrier signal goes to the same offset as mbar's. Block 1 names them by addresses in block 0.
TEST_P(TensorCopies, MulticastToAnAddressOfAnotherBlock) {
  const std::string head = R"(.version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out)
{
  .reg .pred %p<3>; .reg .b16 %h<2>; .reg .b32 %r<12>; .reg .b64 %d<8>;
  .shared .align 128 .b8 before[256];
  .shared .align 128 .b8 tile[1024];
  .shared .align 8 .b64 bar;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %cluster_ctarank;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra START;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 1024;
START:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  setp.ne.u32 %p1, %r1, 1;
  or.pred %p1, %p1, %p0;
  @%p1 bra WAIT;
  mov.b64 %d1, map;
  cvta.param.u64 %d1, %d1;
  ld.param.u64 %d2, [in];
  mov.u32 %r2, tile;
  mapa.shared::cluster.u32 %r3, %r2, 0;
  mov.u32 %r4, bar;
  mapa.shared::cluster.u32 %r5, %r4, 0;
  mov.u32 %r6, 0;
  mov.u16 %h1, 3;
  )";
  const std::string tail = R"(
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;
  @!%p2 bra WAIT;
  ld.param.u64 %d4, [out];
  mul.wide.u32 %d5, %r1, 1024;
  add.u64 %d4, %d4, %d5;
  mul.wide.u32 %d5, %r0, 4;
  add.u64 %d4, %d4, %d5;
  shl.b32 %r7, %r0, 2;
  mov.u32 %r2, tile;
  add.u32 %r7, %r7, %r2;
  ld.shared.u32 %r8, [%r7];
  st.global.u32 [%d4], %r8;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
)";
  auto* in = static_cast<uint32_t*>(gpu_->allocate(kRows * kColumns * 4));
  auto* out = static_cast<uint32_t*>(gpu_->allocate(2048));
  for (uint32_t i = 0; i < kRows * kColumns; i++) in[i] = i;
  gpu_->wrote(in, kRows * kColumns * 4);
  const struct {
    const char* copy;
    uint32_t pitch;  // of 16 words in the source
  } copies[] = {
      {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%d2], 1024, [%r5], %h1;", 16},
      {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r3], [%d1, {%r6, %r6}], [%r5], %h1;", kColumns}};
  for (const auto& c : copies) {
    std::memset(out, 0, 2048);
    const LaunchReport r =
        gpu_->load(head + c.copy + tail).kernel("k").launch({.grid = {2}, .block = {256}, .cluster = {2}}, {matrix_map(in), in, out});
    ASSERT_FALSE(r.fault) << r.fault->message;
    for (uint32_t i = 0; i < 512; i++) ASSERT_EQ(out[i], i % 256 / 16 * c.pitch + i % 16) << c.copy << ' ' << i;
  }
  EXPECT_TRUE(gpu_->check_report().findings.empty()) << gpu_->check_report().text;
}

INSTANTIATE_TEST_SUITE_P(Modes, TensorCopies, testing::Values(Mode::interpreted, Mode::compiled, Mode::checked),
                         [](const auto& info) { return name_of(info.param); });

}  // namespace
