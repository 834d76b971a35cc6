# Found by find_package(orrery-kernels): defines orrery::kernels.
include(CMakeFindDependencyMacro)
find_dependency(CUDAToolkit)
include(${CMAKE_CURRENT_LIST_DIR}/orrery-kernels-targets.cmake)
