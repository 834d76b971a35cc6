# Found by find_package(orrery-kernels): defines orrery::kernels.
include(CMakeFindDependencyMacro)
# CMake 3.25's FindCUDAToolkit fails with CUDA 13, which has no nvToolsExt, in projects that ask for 3.25.
set(orrery_kernels_minimum "${CMAKE_MINIMUM_REQUIRED_VERSION}")
if(CMAKE_VERSION VERSION_LESS 3.26)
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
endif()
find_dependency(CUDAToolkit)
set(CMAKE_MINIMUM_REQUIRED_VERSION "${orrery_kernels_minimum}")
unset(orrery_kernels_minimum)
include(${CMAKE_CURRENT_LIST_DIR}/orrery-kernels-targets.cmake)
