// Captures that fork: a stream that has been joined may be destroyed before the capture ends; one that has not is
// missed when it ends.
#include "check.h"

__global__ void add(int* at, int n) { *at += n; }

// Forks off `origin`, destroys the fork, and joins it before that if asked to.
cudaError_t capture(cudaStream_t origin, int* at, bool join, cudaGraph_t* graph) {
  cudaStream_t fork;
  cudaEvent_t forked, joined;
  CUDA(cudaStreamCreateWithFlags(&fork, cudaStreamNonBlocking));
  CUDA(cudaEventCreate(&forked));
  CUDA(cudaEventCreate(&joined));
  CUDA(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  add<<<1, 1, 0, origin>>>(at, 1);
  CUDA(cudaEventRecord(forked, origin));
  CUDA(cudaStreamWaitEvent(fork, forked, 0));
  add<<<1, 1, 0, fork>>>(at, 10);
  CUDA(cudaEventRecord(joined, fork));
  if (join) CUDA(cudaStreamWaitEvent(origin, joined, 0));
  CUDA(cudaStreamDestroy(fork));
  CUDA(cudaEventDestroy(forked));
  CUDA(cudaEventDestroy(joined));
  return cudaStreamEndCapture(origin, graph);
}

int main() {
  int* at = managed<int>(1);
  cudaStream_t stream;
  CUDA(cudaStreamCreate(&stream));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec;
  CUDA(capture(stream, at, true, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  EXPECT(*at == 22, "%d", *at);
  cudaError_t error = capture(stream, at, false, &graph);
  EXPECT(error == cudaErrorStreamCaptureUnjoined, "%s", cudaGetErrorString(error));
  cudaGetLastError();
  return pass();
}
