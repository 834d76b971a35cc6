// calib/dissect/dissect.cu: the microbenchmark suite: runs the groups named on the command line (all by default).
//
// Output: JSON lines, the first one saying what was measured on. Build: nvcc -O3 -std=c++20 -arch=sm_90a -o dissect *.cu
#include <cstring>

#include "measure.h"

namespace dissect {
int sm_count() {
  static int n = [] {
    int v = 0;
    cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0);
    return v;
  }();
  return n;
}
}  // namespace dissect

int main(int argc, char** argv) {
  using namespace dissect;
  struct Group { const char* name; void (*run)(); };
  const Group groups[] = {{"instructions", measure_instructions}, {"memory", measure_memory}, {"synchronisation", measure_synchronisation},
                          {"bulk_copies", measure_bulk_copies}, {"tensor_cores", measure_tensor_cores}, {"launches", measure_launches},
                          {"power", measure_power}, {"spread", measure_spread}, {"overlap", measure_overlap}, {"products", measure_products},
                          {"boxes", measure_boxes}, {"translation", measure_translation}, {"clusters", measure_clusters}, {"box_rows", measure_box_rows},
                          {"turns", measure_turns}, {"queues", measure_queues}, {"fills", measure_fills}, {"forms", measure_forms}, {"lane_lines", measure_lane_lines}};
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) {
    std::fprintf(stderr, "dissect: no CUDA device\n");
    return 3;
  }
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::printf("{\"gpu\":\"%s\",\"sms\":%d,\"compute_capability\":%d,\"driver_api\":%d,\"runtime\":%d}\n", p.name, p.multiProcessorCount, p.major * 10 + p.minor, driver, runtime);
  for (const Group& g : groups) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; i++) wanted |= std::strcmp(argv[i], g.name) == 0;
    if (wanted) g.run();
  }
  return 0;
}
