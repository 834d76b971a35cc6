#ifndef ORRERY_CC_DEVICE_TYPES_H
#define ORRERY_CC_DEVICE_TYPES_H
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };
#endif
