// mathematical.cu: asks cuBLAS, which is machine code only, for its handle and does not look at the answer (loading.sh).
#include <cublas_v2.h>

int main() {
  cublasHandle_t handle;
  cublasCreate(&handle);
}
