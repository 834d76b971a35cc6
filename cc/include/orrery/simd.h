#ifndef ORRERY_CC_SIMD_H
#define ORRERY_CC_SIMD_H
#endif
