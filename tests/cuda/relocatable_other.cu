// The other file of relocatable_main.cu.
__device__ int counter = 9;
__constant__ float table[4] = {1, 7, 3, 4};
__device__ int twice(int x) { return x * 2; }
static __device__ int mine = 4;
static __global__ void same_name(int* p) { *p += mine; }
void second(int* p) {
  same_name<<<1, 1>>>(p);
  int unused = 3;
  cudaMemcpyToSymbol(mine, &unused, sizeof unused);
}
