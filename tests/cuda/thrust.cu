// Thrust and CUB from Debian (libthrust-dev, libcub-dev) through `orrery cc`: sort, scan, reduce, transform, a reduction
// by key and CUB's device-wide sum against the same on the host.
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include "check.h"

struct Twice {
  __host__ __device__ int operator()(int x) const { return 2 * x; }
};

int main() {
  const int n = 3000;
  thrust::host_vector<int> h(n);
  for (int i = 0; i < n; i++) h[i] = i * 7919 % n;  // a permutation: 7919 is prime and no divisor of n
  thrust::device_vector<int> d = h;
  thrust::sort(d.begin(), d.end());
  h = d;
  for (int i = 0; i < n; i++) EXPECT(h[i] == i, "sorted %d: %d", i, h[i]);
  EXPECT(thrust::reduce(d.begin(), d.end()) == n * (n - 1) / 2, "reduce");

  thrust::device_vector<int> sums(n);
  thrust::inclusive_scan(d.begin(), d.end(), sums.begin());
  thrust::transform(sums.begin(), sums.end(), sums.begin(), Twice());
  h = sums;
  for (int i = 0; i < n; i++) EXPECT(h[i] == i * (i + 1), "scan %d: %d", i, h[i]);

  thrust::device_vector<int> keys(n), values(n, 1), found(n), counts(n);
  for (int i = 0; i < n; i++) h[i] = i / 100;
  keys = h;
  auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), found.begin(), counts.begin());
  EXPECT(ends.first - found.begin() == n / 100 && counts[7] == 100, "keys");

  int* out = managed<int>(1);
  size_t bytes = 0;
  CUDA(cub::DeviceReduce::Sum(nullptr, bytes, thrust::raw_pointer_cast(d.data()), out, n));
  thrust::device_vector<char> scratch(bytes);
  CUDA(cub::DeviceReduce::Sum(thrust::raw_pointer_cast(scratch.data()), bytes, thrust::raw_pointer_cast(d.data()), out, n));
  finish();
  EXPECT(*out == n * (n - 1) / 2, "cub %d", *out);
  return pass();
}
