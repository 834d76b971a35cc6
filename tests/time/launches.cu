// launches: what the cases of this folder time. Each argument is one launch: `copy`, `chain`, `calls` and `turned` of N floats, `more` for more
// turns of the latter, `told` for as many as `tell` has written; `managed`: what is copied from then on is managed memory that the host has written,
// `prefetch`, `upload`, `clear`: and brought to the GPU, copied to from the host, filled; `fill` writes a number, one more each time, to all that `copy` copies, `show` prints the last copied, `anew` frees what is copied and takes other memory; `aside`: copy and chain go to a new stream from then on; `await` waits for a word that nobody changes, `patient` looks at it 600,000 times; `exit` with a status, `abort`; `stray` copies, but that one block far behind the first stores where there is nothing; or `asked`: from then on threads ask what memory is allocated.
//
//   launches [N] [copy|chain|calls|turned|more|tell|told|managed|prefetch|upload|clear|fill|show|anew|aside|await|patient|fault|stray|exit|abort|asked]...
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

__global__ void copy(const float* from, float* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}

__global__ void stray(const float* from, float* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x == 54321) to = nullptr;
  if (i < n) to[i] = from[i];
}

__global__ void fill(float* from, int n, float value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) from[i] = value;
}

/// A thousand additions, each of which needs the one before it.
__global__ void chain(float* to, float step) {
  float sum = 0;
#pragma unroll 8
  for (int i = 0; i < 1000; i++) sum = sum + step;
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__constant__ int turns = 1000;

/// As many additions as the constant says.
__global__ void turned(float* to, float step) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < turns; i++) sum = sum + step;
  to[threadIdx.x] = sum;
}

__global__ void tell(float* to) { to[threadIdx.x] = 1000; }
/// As many additions as memory says.
__global__ void told(float* to, float step) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < int(to[threadIdx.x]); i++) sum = sum + step;
  to[threadIdx.x] = sum;
}

/// A thousand additions, in a function of its own.
__device__ __noinline__ float thousand(float sum, float step) {
#pragma unroll 8
  for (int i = 0; i < 1000; i++) sum = sum + step;
  return sum;
}

__global__ void calls(float* to, float step) {
  const float sum = thousand(0, step);
  to[threadIdx.x] = thousand(sum, -step);
}

/// Waits until a word is what nobody makes of it.
__global__ void await(float* word, float* to) {
  while (atomicAdd(word, 0.f) != 1e30f) {}
  to[threadIdx.x] = 1;
}

/// Looks at a word so many times.
__global__ void patient(float* word, float* to, int times) {
  float sum = 0;
#pragma unroll 1
  for (int n = 0; n < times; n++) sum += atomicAdd(word, 0.f);
  to[threadIdx.x] = sum;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 0;
  float *from = nullptr, *to = nullptr;
  cudaStream_t stream = nullptr;
  int filled = 0;
  cudaMalloc(&from, sizeof(float) * size_t(n + 32));
  cudaMalloc(&to, sizeof(float) * size_t(n + 32));
  std::atomic<bool> over = false;
  std::vector<std::thread> askers;
  const auto ask = [&, from] {
    for (cudaPointerAttributes a; !over;) cudaPointerGetAttributes(&a, from);
  };
  for (int i = 2; i < argc; i++) {
    if (!strcmp(argv[i], "copy")) copy<<<(n + 255) / 256, 256, 0, stream>>>(from, to, n);
    else if (!strcmp(argv[i], "chain")) chain<<<1, 32, 0, stream>>>(to, 1.f);
    else if (!strcmp(argv[i], "tell")) tell<<<1, 32>>>(to);
    else if (!strcmp(argv[i], "told")) told<<<1, 32>>>(to, 1.f);
    else if (!strcmp(argv[i], "turned")) turned<<<1, 32>>>(to, 1.f);
    else if (!strcmp(argv[i], "more")) {
      const int more = 5000;
      cudaMemcpyToSymbol(turns, &more, sizeof more);
    } else if (!strcmp(argv[i], "calls")) calls<<<1, 32>>>(to, 1.f);
    else if (!strcmp(argv[i], "managed")) {
      cudaFree(from);
      cudaMallocManaged(&from, sizeof(float) * size_t(n));
      for (int k = 0; k < n; k++) from[k] = float(k);
    } else if (!strcmp(argv[i], "prefetch")) cudaMemPrefetchAsync(from, sizeof(float) * size_t(n), cudaMemLocation{cudaMemLocationTypeDevice, 0}, 0, 0);
    else if (!strcmp(argv[i], "upload")) cudaMemcpy(from, std::vector<float>(size_t(n)).data(), sizeof(float) * size_t(n), cudaMemcpyHostToDevice);
    else if (!strcmp(argv[i], "clear")) cudaMemset(from, 0, sizeof(float) * size_t(n));
    else if (!strcmp(argv[i], "fill")) fill<<<(n + 255) / 256, 256>>>(from, n, float(++filled));
    else if (!strcmp(argv[i], "show")) {
      float last = -1;
      cudaMemcpy(&last, to + n - 1, sizeof last, cudaMemcpyDeviceToHost);
      printf("last is %g\n", last);
    } else if (!strcmp(argv[i], "anew")) {
      cudaFree(from);
      cudaMalloc(&from, sizeof(float) * size_t(n + 32));
    } else if (!strcmp(argv[i], "aside")) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    else if (!strcmp(argv[i], "await")) await<<<1, 32>>>(from, to);
    else if (!strcmp(argv[i], "patient")) patient<<<1, 32>>>(from, to, 600'000);
    else if (!strcmp(argv[i], "fault")) copy<<<1, 32>>>(from, reinterpret_cast<float*>(8), 32);
    else if (!strcmp(argv[i], "stray")) stray<<<(n + 255) / 256, 256>>>(from, to, n);
    else if (!strcmp(argv[i], "exit")) return 3;
    else if (!strcmp(argv[i], "abort")) abort();
    else if (!strcmp(argv[i], "asked")) askers.emplace_back(ask), askers.emplace_back(ask);
    cudaDeviceSynchronize();
  }
  over = true;
  for (std::thread& t : askers) t.join();
  printf("done\n");
}
