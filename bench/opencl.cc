// bench/opencl.cc: see opencl.h.
#include "opencl.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>

struct OpenCl::State {
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_program program = nullptr;
  cl_kernel kernel = nullptr;
  std::vector<cl_mem> buffers;
  std::string name;
};

std::unique_ptr<OpenCl> OpenCl::open(const std::string& source) {
  cl_platform_id platform;
  cl_uint n = 0;
  if (clGetPlatformIDs(1, &platform, &n) != CL_SUCCESS || n == 0) return nullptr;
  cl_device_id device;
  if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, nullptr) != CL_SUCCESS) return nullptr;
  std::unique_ptr<OpenCl> cl(new OpenCl);
  cl->state_ = std::make_unique<State>();
  State& s = *cl->state_;
  char version[256] = {};
  clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version, version, nullptr);
  s.name = version;
  cl_int e;
  s.context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &e);
  if (e != CL_SUCCESS) return nullptr;
  s.queue = clCreateCommandQueue(s.context, device, 0, &e);
  const char* text = source.c_str();
  s.program = clCreateProgramWithSource(s.context, 1, &text, nullptr, &e);
  if (clBuildProgram(s.program, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) {
    char log[4096] = {};
    clGetProgramBuildInfo(s.program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, nullptr);
    fprintf(stderr, "OpenCL: %s\n", log);
    return nullptr;
  }
  return cl;
}

OpenCl::~OpenCl() = default;
const std::string& OpenCl::name() const { return state_->name; }

bool OpenCl::prepare(const std::string& kernel, const std::vector<Argument>& args) {
  State& s = *state_;
  cl_int e;
  s.kernel = clCreateKernel(s.program, kernel.c_str(), &e);
  if (e != CL_SUCCESS) return false;
  for (cl_uint i = 0; i < args.size(); i++) {
    if (!args[i].host) {
      clSetKernelArg(s.kernel, i, sizeof(int), &args[i].value);
      continue;
    }
    cl_mem m = clCreateBuffer(s.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, args[i].bytes, args[i].host, &e);
    if (e != CL_SUCCESS) return false;
    s.buffers.push_back(m);
    clSetKernelArg(s.kernel, i, sizeof m, &m);
  }
  return true;
}

void OpenCl::run(const size_t global[2], const size_t local[2]) {
  clEnqueueNDRangeKernel(state_->queue, state_->kernel, 2, nullptr, global, local, 0, nullptr, nullptr);
  clFinish(state_->queue);
}

void OpenCl::release() {
  for (cl_mem m : state_->buffers) clReleaseMemObject(m);
  state_->buffers.clear();
  if (state_->kernel) clReleaseKernel(state_->kernel);
  state_->kernel = nullptr;
}
