// The other translation unit of loading.sh's relocatable program; empty for the rest.
__device__ int shared_counter = 3;
__device__ __noinline__ int doubled(int x) { return 2 * x + shared_counter - shared_counter; }
