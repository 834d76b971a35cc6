// Memory-bound kernels in launches that follow each other: that none sees what one ahead has not finished, and that workspaces
// are left as the next launch wants them. Not here: one launch alone (memory_test.cu).
#include <algorithm>
#include <deque>

#include "check.h"

using namespace orrery::kernels;
using check::Buffer;
using check::Random;
using check::random_floats;

namespace {

/// Launches that follow each other closely and share a workspace each for sums and scans.
void in_a_row(const std::vector<int64_t>& sizes, int rounds) {
  const int64_t most = *std::max_element(sizes.begin(), sizes.end());
  const auto floats = random_floats(most, 21);
  std::vector<uint32_t> words(most);
  Random random(23);
  for (auto& v : words) v = uint32_t(random.next());
  std::vector<double> want(most + 1), mass(most + 1);
  std::vector<uint32_t> want_scan(most + 1);
  for (int64_t i = 0; i < most; i++)
    want[i + 1] = want[i] + floats[i], mass[i + 1] = mass[i] + std::fabs(floats[i]), want_scan[i + 1] = want_scan[i] + words[i];
  const Buffer dfloats(floats), dwords(words), workspace(std::vector<unsigned char>(reduce_workspace(), 0)), scans(scan_workspace(most));
  const int launches = int(sizes.size()) * rounds;
  Buffer totals(launches * 4);
  std::deque<Buffer> scanned;
  for (int64_t n : sizes) scanned.emplace_back(size_t(n) * 4);
  for (int l = 0; l < launches; l++) {
    const int64_t n = sizes[l % sizes.size()];
    STATUS_OK(reduce_sum(totals.as<float>() + l, dfloats.as<float>(), n, workspace.data(), nullptr));
    STATUS_OK(inclusive_scan(scanned[l % sizes.size()].as<uint32_t>(), dwords.as<uint32_t>(), n, scans.data(), nullptr));
  }
  const auto got = totals.host<float>();
  for (int l = 0; l < launches; l++) {
    const int64_t n = sizes[l % sizes.size()];
    check::expect_near(got[l], want[n], 1e-6 * mass[n], "sum in a row", n, l);
    if (l >= int(sizes.size()) && std::memcmp(&got[l], &got[l % sizes.size()], 4)) check::fail("sum of %lld in a row: another bit pattern", (long long)n);
  }
  for (size_t i = 0; i < sizes.size(); i++) {
    const auto sums = scanned[i].host<uint32_t>();
    for (int64_t j = 0; j < sizes[i]; j++)
      if (sums[j] != want_scan[j + 1]) check::fail("scan of %lld in a row: [%lld]", (long long)sizes[i], (long long)j);
    scanned[i].check_guards("scan in a row");
  }
}

/// Kernels that may begin before the one ahead has ended see all that it writes: every round's input is written by the launch before.
void in_a_chain(int64_t rows, int64_t cols, int rounds) {
  const int64_t n = rows * cols;
  const auto base = random_floats(n, 27);
  const Buffer from(base), nothing(std::vector<float>(size_t(n), 0.0f)), workspace(std::vector<unsigned char>(reduce_workspace(), 0)), scans(scan_workspace(n));
  Buffer work(n * 4), normed(n * 4), totals(rounds * 4);
  std::deque<Buffer> seen, scanned, packed;
  for (int l = 0; l < rounds; l++) seen.emplace_back(size_t(n) * 4), scanned.emplace_back(size_t(n) * 4), packed.emplace_back(size_t(n) * 4);
  const StridedLayout whole{1, int64_t(4) * cols, {rows}, {4 * cols}};
  for (int l = 0; l < rounds; l++) {  // a power of two: exact, and so is the sum
    const auto write = [&] { STATUS_OK(stream_scale(work.as<float>(), from.as<float>(), float(1 << l), n, nullptr)); };
    const auto spoil = [&] { STATUS_OK(stream_scale(work.as<float>(), from.as<float>(), -3, n, nullptr)); };
    write();
    STATUS_OK(reduce_sum(totals.as<float>() + l, work.as<float>(), n, workspace.data(), nullptr));
    spoil(), write();
    STATUS_OK(inclusive_scan(scanned[l].as<uint32_t>(), work.as<uint32_t>(), n, scans.data(), nullptr));
    spoil(), write();
    STATUS_OK(rmsnorm(normed.data(), seen[l].data(), work.data(), nothing.data(), nullptr, 1e-6f, DType::kF32, rows, cols, cols, nullptr));
    spoil(), write();
    STATUS_OK(pack(packed[l].data(), work.data(), whole, nullptr));
    spoil();
  }
  const auto total = totals.host<float>();
  for (int l = 0; l < rounds; l++) {
    const auto x = seen[l].host<float>(), y = packed[l].host<float>();
    const auto sums = scanned[l].host<uint32_t>();
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
      const float want = base[i] * float(1 << l);
      uint32_t bits;
      std::memcpy(&bits, &want, 4);
      sum += bits;
      if (x[i] != want || y[i] != want || sums[i] != sum) check::fail("in a chain: round %d, [%lld]: norm %g, pack %g of %g, scan %u of %u", l, (long long)i, x[i], y[i], want, sums[i], sum);
    }
    if (total[l] != total[0] * float(1 << l)) check::fail("in a chain: sum of round %d", l);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  in_a_row(small ? std::vector<int64_t>{9000, 70000, 20000} : std::vector<int64_t>{int64_t(1) << 22, 5000003, 300000, int64_t(9) << 20, 70000, int64_t(1) << 22}, small ? 2 : 60);
  in_a_chain(small ? 20 : 512, small ? 512 : 4096, small ? 2 : 12);
  std::printf("PASS chains\n");
}
