// Part of each libcudart: tells the shared code which version of the runtime the program was built for.
extern "C" void orrery_set_runtime_version(int major);

#if ORRERY_LIBRARY != 0
namespace {
__attribute__((constructor)) void loaded() { orrery_set_runtime_version(ORRERY_LIBRARY); }
}  // namespace
#endif
