// clang's intrinsics header looks here for what of compute capability 7.0 it leaves to the toolkit.
#ifndef ORRERY_CC_SM_70_RT_HPP
#define ORRERY_CC_SM_70_RT_HPP
// The built-ins of __match_any_sync and __match_all_sync for every 4- and 8-byte type.
#define ORRERY_MATCH(T, W, bits)                                                                              \
  static __device__ __inline__ unsigned __match_any_sync(unsigned mask, T v) {                                \
    return __match##bits##_any_sync(mask, __builtin_bit_cast(W, v));                                          \
  }                                                                                                           \
  static __device__ __inline__ unsigned __match_all_sync(unsigned mask, T v, int* all) {                      \
    return __match##bits##_all_sync(mask, __builtin_bit_cast(W, v), all);                                     \
  }
ORRERY_MATCH(int, unsigned, 32)
ORRERY_MATCH(unsigned, unsigned, 32)
ORRERY_MATCH(float, unsigned, 32)
ORRERY_MATCH(long, unsigned long long, 64)
ORRERY_MATCH(unsigned long, unsigned long long, 64)
ORRERY_MATCH(long long, unsigned long long, 64)
ORRERY_MATCH(unsigned long long, unsigned long long, 64)
ORRERY_MATCH(double, unsigned long long, 64)
#undef ORRERY_MATCH
#endif
