// calib/steps/moved.cu: managed memory that lies where the host touched it last, or nowhere yet: what a kernel takes that reads or writes it, by bytes,
// by how a warp touches it and by how many warps do.
//
// Before every launch the host writes the whole of it (moved_), it is allocated anew (new_), or the GPU has it and the host reads or writes a word of each
// page of 4 KB (page_), one word (word_) or none (none_); or the host writes it and it is then prefetched, filled or copied to (moved_by_).
#include <cstring>

#include "steps.h"

namespace {
using namespace steps;

__global__ void __launch_bounds__(256) read_all(const float4* p, size_t n, float* out) {
  float sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    const float4 v = p[i];
    sum += v.x + v.y + v.z + v.w;
  }
  if (sum == 0.5f) out[threadIdx.x] = sum;
}
__global__ void __launch_bounds__(256) write_all(float4* p, size_t n) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) p[i] = make_float4(1, 2, 3, 4);
}
/// Each warp reads 128 bytes of a page of 4 KB of its own.
__global__ void __launch_bounds__(256) read_pages(const float* p, size_t pages, float* out) {
  const size_t warp = (blockIdx.x * size_t(blockDim.x) + threadIdx.x) / 32;
  const float v = warp < pages ? p[(warp * 7919 % pages) * 1024 + threadIdx.x % 32] : 0;
  if (v == 0.5f) out[threadIdx.x] = v;
}

struct Managed {
  void* p = nullptr;
  size_t bytes;
  explicit Managed(size_t n) : bytes(n) { again(); }
  void again() {
    cudaFree(p);
    if (cudaMallocManaged(&p, bytes) != cudaSuccess) std::exit(1);
  }
  ~Managed() { cudaFree(p); }
};

enum class Kind { read, write, pages, few };
template <Kind kKind, bool kNew>
truth::Launch managed(long kilobytes) {
  auto m = std::make_shared<Managed>(size_t(kilobytes) << 10);
  auto out = zeros<float>(1024);
  return [=] {
    cudaDeviceSynchronize();
    if (kNew) m->again();
    else std::memset(m->p, 1, m->bytes);
    const size_t n = m->bytes / 16;
    if (kKind == Kind::read) read_all<<<unsigned(std::min<size_t>(1056, (n + 255) / 256)), 256>>>(static_cast<const float4*>(m->p), n, out.p);
    if (kKind == Kind::few) read_all<<<1, 256>>>(static_cast<const float4*>(m->p), n, out.p);
    if (kKind == Kind::write) write_all<<<unsigned(std::min<size_t>(1056, (n + 255) / 256)), 256>>>(static_cast<float4*>(m->p), n);
    if (kKind == Kind::pages) read_pages<<<unsigned((m->bytes / 4096 + 7) / 8), 256>>>(static_cast<const float*>(m->p), m->bytes / 4096, out.p);
  };
}
enum class Way { prefetched, filled, copied, none, reads_word, writes_word, reads_pages };
template <Way kWay>
truth::Launch after(long kilobytes) {
  auto m = std::make_shared<Managed>(size_t(kilobytes) << 10);
  auto out = zeros<float>(1024);
  auto host = std::make_shared<std::vector<char>>(m->bytes);
  return [=] {
    cudaDeviceSynchronize();
    if (kWay == Way::prefetched || kWay == Way::filled || kWay == Way::copied) std::memset(m->p, 1, m->bytes);
    volatile char* const bytes = static_cast<char*>(m->p);
    if (kWay == Way::filled || kWay >= Way::none) cudaMemset(m->p, 0, m->bytes);
    if (kWay == Way::copied) cudaMemcpy(m->p, host->data(), m->bytes, cudaMemcpyHostToDevice);
    if (kWay == Way::prefetched) cudaMemPrefetchAsync(m->p, m->bytes, cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0);
    cudaDeviceSynchronize();
    if (kWay == Way::writes_word) bytes[m->bytes / 2] = 1;
    if (kWay == Way::reads_word) (void)bytes[m->bytes / 2];
    for (size_t i = 0; kWay == Way::reads_pages && i < m->bytes; i += 4096) (void)bytes[i];
    const size_t n = m->bytes / 16;
    read_all<<<unsigned(std::min<size_t>(1056, (n + 255) / 256)), 256>>>(static_cast<const float4*>(m->p), n, out.p);
  };
}
TRUTH("managed", "moved_by_prefetch", {16384}, [](long n) { return after<Way::prefetched>(n); });
TRUTH("managed", "moved_by_fill", {16384}, [](long n) { return after<Way::filled>(n); });
TRUTH("managed", "moved_by_copy", {16384}, [](long n) { return after<Way::copied>(n); });
TRUTH("managed", "none_read", {16384}, [](long n) { return after<Way::none>(n); });
TRUTH("managed", "word_read", {16384}, [](long n) { return after<Way::reads_word>(n); });
TRUTH("managed", "word_written", {16384}, [](long n) { return after<Way::writes_word>(n); });
TRUTH("managed", "page_read", {16384}, [](long n) { return after<Way::reads_pages>(n); });
TRUTH("managed", "moved_read", {4, 64, 1024, 4096, 16384, 65536, 262144}, [](long n) { return managed<Kind::read, false>(n); });
TRUTH("managed", "moved_few", {64, 1024, 4096}, [](long n) { return managed<Kind::few, false>(n); });
TRUTH("managed", "moved_write", {64, 1024, 4096, 16384, 65536}, [](long n) { return managed<Kind::write, false>(n); });
TRUTH("managed", "moved_pages", {64, 1024, 4096, 16384, 65536}, [](long n) { return managed<Kind::pages, false>(n); });
TRUTH("managed", "new_read", {64, 4096, 65536}, [](long n) { return managed<Kind::read, true>(n); });
TRUTH("managed", "new_write", {64, 1024, 4096, 16384, 65536}, [](long n) { return managed<Kind::write, true>(n); });
}  // namespace
