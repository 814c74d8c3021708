# The CUDA compiler, and what it builds: the kernels of the runtime, and programs for machines with GPUs.
#
#   gordian_kernels(NAME SRCS a.cu)                  static library of device code, whose functions other
#                                                    kernels may call
#   gordian_gpu_program(NAME SRCS a.cc DEPS x)       into bin/; needs libc alone, since it is carried to
#                                                    the machine with GPUs
#   gordian_gpu_api_program(NAME SRCS a.cc)          into bin/, beside lib/libgordian_runtime_cuda.so
#
# GORDIAN_HAVE_CUDA says whether there is a compiler. nvcc takes minutes over the kernels, so these
# targets belong to `gordian_cuda` (./dev build cuda) and not to `all`.

set(GORDIAN_CUDA AUTO CACHE STRING
  "The runtime's CUDA backend, its GPU tests and benchmarks: AUTO (where nvcc 12 or later is found), ON or OFF")
set_property(CACHE GORDIAN_CUDA PROPERTY STRINGS AUTO ON OFF)

set(GORDIAN_HAVE_CUDA FALSE)
# Ends the search for a compiler: an error where the user wants one, else a target that says why it is empty.
macro(gordian_no_cuda WHY)
  if(NOT GORDIAN_CUDA STREQUAL AUTO AND GORDIAN_CUDA)
    message(FATAL_ERROR "GORDIAN_CUDA is ${GORDIAN_CUDA}, but ${WHY}")
  endif()
  message(STATUS "The runtime's CUDA backend is not built: ${WHY}")
  add_custom_target(gordian_cuda COMMAND "${CMAKE_COMMAND}" -E echo "No CUDA backend: ${WHY}" COMMAND false VERBATIM)
  return()
endmacro()
if(NOT GORDIAN_CUDA)
  gordian_no_cuda("GORDIAN_CUDA is ${GORDIAN_CUDA}")
endif()
# An installed toolkit need not be on PATH.
find_program(GORDIAN_NVCC nvcc HINTS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin"
  PATHS /usr/local/cuda/bin /opt/cuda/bin)
if(GORDIAN_NVCC AND NOT DEFINED ENV{CUDACXX})
  set(ENV{CUDACXX} "${GORDIAN_NVCC}")
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  gordian_no_cuda("no CUDA compiler works here (install nvcc, or set CUDACXX to its path)")
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
find_package(CUDAToolkit QUIET)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12 OR NOT TARGET CUDA::cudart_static)
  gordian_no_cuda("${CMAKE_CUDA_COMPILER} (${CMAKE_CUDA_COMPILER_VERSION}) is older than 12 or has no libcudart_static.a")
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know how to ask nvcc 13 for it.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
if(GORDIAN_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${GORDIAN_CCACHE}")
endif()
find_package(Threads REQUIRED)
set(GORDIAN_HAVE_CUDA TRUE)
add_custom_target(gordian_cuda)

# So few registers that two blocks fit a multiprocessor, and that every kernel may call every function that
# is compiled apart.
function(gordian_kernels)
  cmake_parse_arguments(A "" "NAME" "SRCS" ${ARGN})
  add_library(gordian_${A_NAME} STATIC EXCLUDE_FROM_ALL ${A_SRCS})
  add_library(gordian::${A_NAME} ALIAS gordian_${A_NAME})
  target_include_directories(gordian_${A_NAME} PRIVATE "${CMAKE_SOURCE_DIR}")
  set_target_properties(gordian_${A_NAME} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON
    CUDA_RUNTIME_LIBRARY Static)
  target_compile_options(gordian_${A_NAME} PRIVATE -O3 --expt-relaxed-constexpr -maxrregcount=64)
endfunction()

function(gordian_gpu_program)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${A_NAME} EXCLUDE_FROM_ALL ${A_SRCS})
  target_link_libraries(${A_NAME} PRIVATE gordian::runtime_cuda gordian::runtime_testing ${A_DEPS})
  target_link_options(${A_NAME} PRIVATE -Wl,--as-needed -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
  add_dependencies(gordian_cuda ${A_NAME})
endfunction()

function(gordian_gpu_api_program)
  cmake_parse_arguments(A "" "NAME" "SRCS" ${ARGN})
  add_executable(${A_NAME} EXCLUDE_FROM_ALL ${A_SRCS})
  target_link_libraries(${A_NAME} PRIVATE gordian::runtime_cuda_api gordian::runtime_cuda_driver
    gordian::runtime_testing gordian::runtime_core CUDA::cudart_static Threads::Threads ${CMAKE_DL_LIBS})
  target_link_options(${A_NAME} PRIVATE -static-libstdc++ -static-libgcc)
  set_target_properties(${A_NAME} PROPERTIES BUILD_RPATH "$ORIGIN/../lib" BUILD_RPATH_USE_ORIGIN ON)
  add_dependencies(gordian_cuda ${A_NAME})
endfunction()
