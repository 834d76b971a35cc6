// From here to contract_restore.h, a * b + c keeps both roundings: the error-free transformations depend on it.
// (No include guard: this pair of files brackets a region.)
#ifdef __clang__
#ifndef __CUDA_ARCH__
#pragma float_control(push)
#endif
#pragma clang fp contract(off)
#endif
