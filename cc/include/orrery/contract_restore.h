// Ends the region that contract_off.h began. Device targets know no float_control stack, so there the state of the
// command line is restored: contraction across statements, or none with -fmad=false.
#ifdef __clang__
#ifndef __CUDA_ARCH__
#pragma float_control(pop)
#elif !defined(ORRERY_CC_NO_FMAD)
#pragma clang fp contract(fast)
#endif
#endif
