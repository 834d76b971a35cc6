// Conditional nodes of graphs, and graphs that kernels launch. Codes and counts are those of an H200 (driver 580.159.04).
#include "../cuda/check.h"

__global__ void set(cudaGraphConditionalHandle handle, unsigned value) { cudaGraphSetConditional(handle, value); }
__global__ void count(int* counters, int which) { atomicAdd(counters + which, 1); }
__global__ void count_down(cudaGraphConditionalHandle handle, int* left) { cudaGraphSetConditional(handle, --*left > 0); }

__device__ cudaGraphExec_t other;
__global__ void launch_other(int* code, unsigned long long stream) { *code = cudaGraphLaunch(other, (cudaStream_t)stream); }
__global__ void launch_self(int* n) {
  if (++*n < 6) cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

static int* counters;
static int h[8];
static cudaStream_t stream;

cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t after, void* function, void** arguments) {
  cudaGraphNode_t node;
  cudaKernelNodeParams p{};
  p.func = function;
  p.gridDim = p.blockDim = 1;
  p.kernelParams = arguments;
  CUDA(cudaGraphAddKernelNode(&node, graph, after ? &after : nullptr, after ? 1 : 0, &p));
  return node;
}
cudaError_t add_condition(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, unsigned size,
                  cudaGraph_t* bodies) {
  cudaGraphNode_t node;
  cudaGraphNodeParams p{};
  p.type = cudaGraphNodeTypeConditional;
  p.conditional.handle = handle;
  p.conditional.type = type;
  p.conditional.size = size;
  const cudaError_t code = cudaGraphAddNode(&node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, &p);
  for (unsigned i = 0; code == 0 && i < size; i++) bodies[i] = p.conditional.phGraph_out[i];
  return code;
}
/// Launches the executable `times` and reads the counters.
void run(cudaGraphExec_t exec, int times) {
  for (int i = 0; i < times; i++) CUDA(cudaGraphLaunch(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaMemcpy(h, counters, sizeof h, cudaMemcpyDeviceToHost));
}
void start(std::initializer_list<int> values = {}) {
  int v[8] = {}, i = 0;
  for (int x : values) v[i++] = x;
  CUDA(cudaMemcpy(counters, v, sizeof v, cudaMemcpyHostToDevice));
}

void if_else() {
  for (unsigned value : {0u, 1u, 5u})
    for (unsigned size : {1u, 2u}) {
      cudaGraph_t graph, bodies[2];
      cudaGraphConditionalHandle handle;
      CUDA(cudaGraphCreate(&graph, 0));
      CUDA(cudaGraphConditionalHandleCreate(&handle, graph));
      void* set_arguments[] = {&handle, &value};
      const cudaGraphNode_t setter = add_kernel(graph, nullptr, (void*)set, set_arguments);
      CUDA(add_condition(graph, setter, handle, cudaGraphCondTypeIf, size, bodies));
      for (int i = 0; i < int(size); i++) {
        void* arguments[] = {&counters, &i};
        add_kernel(bodies[i], nullptr, (void*)count, arguments);
      }
      cudaGraphExec_t exec;
      CUDA(cudaGraphInstantiate(&exec, graph, 0));
      start();
      run(exec, 2);
      EXPECT_EQ(h[0], value ? 2 : 0);
      EXPECT_EQ(h[1], value || size == 1 ? 0 : 2);
      CUDA(cudaGraphExecDestroy(exec));
      CUDA(cudaGraphDestroy(graph));
    }
}

void loop() {
  cudaGraph_t graph, body, copy;
  cudaGraphConditionalHandle handle;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  CUDA(add_condition(graph, nullptr, handle, cudaGraphCondTypeWhile, 1, &body));
  int one = 1;
  void* down[] = {&handle, &counters};
  void* up[] = {&counters, &one};
  add_kernel(body, add_kernel(body, nullptr, (void*)count_down, down), (void*)count, up);
  size_t nodes = 0;
  CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 1);
  cudaGraphExec_t exec, second;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) {
    start({5});
    run(exec, 1);
    EXPECT_EQ(h[1], 5);
  }
  EXPECT_EQ(cudaGraphClone(&copy, graph), cudaErrorNotSupported);
  EXPECT_EQ(cudaGraphInstantiate(&second, graph, 0), cudaErrorNotSupported);
}

void choice() {
  for (unsigned value : {0u, 1u, 2u, 7u}) {
    cudaGraph_t graph, bodies[3];
    cudaGraphConditionalHandle handle;
    CUDA(cudaGraphCreate(&graph, 0));
    CUDA(cudaGraphConditionalHandleCreate(&handle, graph, value, cudaGraphCondAssignDefault));
    CUDA(add_condition(graph, nullptr, handle, cudaGraphCondTypeSwitch, 3, bodies));
    for (int i = 0; i < 3; i++) {
      void* arguments[] = {&counters, &i};
      add_kernel(bodies[i], nullptr, (void*)count, arguments);
    }
    cudaGraphExec_t exec;
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    start();
    run(exec, 1);
    for (unsigned i = 0; i < 3; i++) EXPECT_EQ(h[i], i == value);
  }
}

/// A loop inside a branch, its body captured from a stream.
void nested() {
  cudaGraph_t graph, branch, body, captured;
  cudaGraphConditionalHandle outer, inner;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphConditionalHandleCreate(&outer, graph, 1, cudaGraphCondAssignDefault));
  CUDA(add_condition(graph, nullptr, outer, cudaGraphCondTypeIf, 1, &branch));
  CUDA(cudaGraphConditionalHandleCreate(&inner, branch, 1, cudaGraphCondAssignDefault));
  CUDA(add_condition(branch, nullptr, inner, cudaGraphCondTypeWhile, 1, &body));
  CUDA(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  count_down<<<1, 1, 0, stream>>>(inner, counters);
  count<<<1, 1, 0, stream>>>(counters, 2);
  CUDA(cudaStreamEndCapture(stream, &captured));
  EXPECT_EQ(captured == body, true);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  start({3});
  run(exec, 1);
  EXPECT_EQ(h[2], 3);
}

void refused() {
  cudaGraph_t graph, foreign, bodies[4];
  cudaGraphConditionalHandle handle, unused;
  CUDA(cudaGraphCreate(&graph, 0));
  CUDA(cudaGraphCreate(&foreign, 0));
  CUDA(cudaGraphConditionalHandleCreate(&handle, graph));
  EXPECT_EQ(add_condition(graph, nullptr, handle, cudaGraphCondTypeIf, 0, bodies), cudaErrorInvalidValue);
  EXPECT_EQ(add_condition(graph, nullptr, handle, cudaGraphCondTypeIf, 3, bodies), cudaErrorInvalidValue);
  EXPECT_EQ(add_condition(graph, nullptr, handle, cudaGraphCondTypeWhile, 2, bodies), cudaErrorInvalidValue);
  EXPECT_EQ(add_condition(graph, nullptr, 0x7777, cudaGraphCondTypeIf, 1, bodies), cudaErrorInvalidValue);
  EXPECT_EQ(add_condition(foreign, nullptr, handle, cudaGraphCondTypeIf, 1, bodies), cudaErrorInvalidValue);
  CUDA(add_condition(graph, nullptr, handle, cudaGraphCondTypeIf, 1, bodies));
  EXPECT_EQ(add_condition(graph, nullptr, handle, cudaGraphCondTypeIf, 1, bodies), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphConditionalHandleCreate(&unused, graph, 0, 7), cudaErrorInvalidValue);
  cudaGraphExec_t exec;
  CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CUDA(cudaGraphConditionalHandleCreate(&unused, foreign));
  EXPECT_EQ(cudaGraphInstantiate(&exec, foreign, 0), cudaErrorInvalidValue);
}

/// The graph of one kernel, ready to be launched by kernels.
template <class... A>
cudaGraphExec_t graph_of(void (*kernel)(A...), A... arguments) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  kernel<<<1, 1, 0, stream>>>(arguments...);
  CUDA(cudaStreamEndCapture(stream, &graph));
  CUDA(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  CUDA(cudaGraphUpload(exec, stream));
  CUDA(cudaStreamSynchronize(stream));
  return exec;
}

void launched_by_kernels() {
  const cudaGraphExec_t counting = graph_of(count, counters, 0);
  CUDA(cudaMemcpyToSymbol(other, &counting, sizeof counting));
  start();
  int launched = 0;
  for (unsigned long long how : {0x0100000000000000ull, 0x0200000000000000ull, 0x0300000000000000ull, 0ull}) {
    run(graph_of(launch_other, counters + 1, how), 1);
    launched += how != 0;
    EXPECT_EQ(h[0], launched);
    EXPECT_EQ(h[1], how ? 0 : cudaErrorInvalidValue);
  }
  start();
  run(graph_of(launch_self, counters), 1);
  EXPECT_EQ(h[0], 6);
}

int main() {
  CUDA(cudaMalloc(&counters, sizeof h));
  CUDA(cudaStreamCreate(&stream));
  if_else();
  loop();
  choice();
  nested();
  refused();
  launched_by_kernels();
  return pass();
}
