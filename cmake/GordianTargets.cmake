# How this project builds things. Targets are gordian::name; sources are listed, never globbed.
#
#   gordian_library(NAME graph SRCS a.cc DEPS gordian::x [BUSY|COLD] [UNITY [ALONE b.cc]])  static library gordian::graph
#   gordian_executable(NAME gordian SRCS main.cc DEPS ...)      into bin/
#   gordian_test(NAME x_test SRCS ... DEPS ... [LABELS unit] [OPTIMIZED])  GoogleTest binary, one CTest entry

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(GORDIAN_CCACHE ccache)
if(GORDIAN_CCACHE)
  # Without these ccache does not cache what uses a precompiled header.
  set(GORDIAN_LAUNCHER "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${GORDIAN_CCACHE}")
  set(CMAKE_C_COMPILER_LAUNCHER "${GORDIAN_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${GORDIAN_LAUNCHER}")
endif()
find_program(GORDIAN_MOLD mold)
if(GORDIAN_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

set(GORDIAN_SANITIZE "" CACHE STRING "Value of -fsanitize= for everything but the shim and the emulated libraries")

# CUDA's and NCCL's headers: no toolkit binary is needed.
find_path(GORDIAN_CUDA_INCLUDE cuda_runtime_api.h
  HINTS "$ENV{CUDA_HOME}/include" "$ENV{CUDA_PATH}/include"
  PATHS /usr/local/cuda/include /usr/local/cuda/targets/x86_64-linux/include /usr/include /opt/cuda/include)
find_path(GORDIAN_NCCL_INCLUDE nccl.h
  HINTS "$ENV{NCCL_HOME}/include" "${GORDIAN_CUDA_INCLUDE}" PATHS /usr/include /usr/local/include)
if(NOT GORDIAN_CUDA_INCLUDE OR NOT GORDIAN_NCCL_INCLUDE)
  message(FATAL_ERROR "CUDA's or NCCL's headers were not found (cuda_runtime_api.h: "
    "'${GORDIAN_CUDA_INCLUDE}', nccl.h: '${GORDIAN_NCCL_INCLUDE}'). Install the CUDA Toolkit's headers, "
    "or set CUDA_HOME and NCCL_HOME to the folders that hold include/.")
endif()
add_library(gordian_cuda_headers INTERFACE)
add_library(gordian::cuda_headers ALIAS gordian_cuda_headers)
target_include_directories(gordian_cuda_headers SYSTEM INTERFACE
  "${GORDIAN_CUDA_INCLUDE}" "${GORDIAN_NCCL_INCLUDE}")
# nccl.h of 2.30 replaces ncclResetDebugInit by an empty macro where this is not set.
target_compile_definitions(gordian_cuda_headers INTERFACE NCCL_OS_LINUX)

add_library(gordian_flags INTERFACE)
target_compile_options(gordian_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(GORDIAN_WERROR)
  target_compile_options(gordian_flags INTERFACE -Werror)
endif()
target_include_directories(gordian_flags INTERFACE "${CMAKE_SOURCE_DIR}")
add_library(gordian_sanitize INTERFACE)
if(GORDIAN_SANITIZE)
  target_compile_options(gordian_sanitize INTERFACE -fsanitize=${GORDIAN_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(gordian_sanitize INTERFACE -fsanitize=${GORDIAN_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND GORDIAN_SANITIZE MATCHES address)
    # By this GCC tells code that it is compiled for it.
    target_compile_definitions(gordian_sanitize INTERFACE __SANITIZE_ADDRESS__=1)
  endif()
  if(GORDIAN_SANITIZE MATCHES thread)
    # Fences are not modelled: what a sequence lock guards is accessed atomically besides.
    target_compile_options(gordian_sanitize INTERFACE -Wno-tsan)
  endif()
endif()

# Programs that hold whole jobs allocate with jemalloc: glibc's malloc sorts its freed blocks whenever
# a round asks for a large one, half of the time of a verdict over 16,384 ranks. It is linked
# statically, so that a user installs nothing, and never into what a job loads. Sanitizers bring
# their own allocator.
add_library(gordian_allocator INTERFACE)
add_library(gordian::allocator ALIAS gordian_allocator)
if(NOT GORDIAN_SANITIZE)
  find_library(GORDIAN_JEMALLOC libjemalloc_pic.a)
  if(NOT GORDIAN_JEMALLOC)
    message(FATAL_ERROR "libjemalloc_pic.a was not found: install libjemalloc-dev")
  endif()
  target_sources(gordian_allocator INTERFACE "${CMAKE_SOURCE_DIR}/common/allocator_settings.cc")
  target_link_libraries(gordian_allocator INTERFACE "${GORDIAN_JEMALLOC}" ${CMAKE_DL_LIBS})
endif()

# The compiler takes the sources of a folder at once: most of the time it parses headers and
# instantiates templates that they share.
function(gordian_unity TARGET)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(folder "${source}" DIRECTORY)
    string(REPLACE "/" "_" folder "${folder}")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_files")
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It warns where a class of a header's has a member of a type local to the one file that defines it.
    target_compile_options(${TARGET} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# Of a library marked UNITY the compiler takes SRCS together; ALONE lists files that it takes one by one,
# because a name of theirs, local to the file, is another file's too. BUSY is one where tests spend their
# time: sanitizers' builds, which optimize nothing else, optimize it. COLD is one whose code runs a few
# times a command: less optimized, it compiles in three quarters of the time.
function(gordian_library)
  cmake_parse_arguments(A "UNITY;BUSY;COLD" "NAME" "SRCS;DEPS;ALONE" ${ARGN})
  add_library(gordian_${A_NAME} STATIC ${A_SRCS} ${A_ALONE})
  add_library(gordian::${A_NAME} ALIAS gordian_${A_NAME})
  target_link_libraries(gordian_${A_NAME} PUBLIC ${A_DEPS} gordian_flags gordian_sanitize)
  if((A_BUSY AND GORDIAN_SANITIZE) OR (A_COLD AND NOT GORDIAN_SANITIZE))
    target_compile_options(gordian_${A_NAME} PRIVATE -O1)
  endif()
  if(A_UNITY)
    gordian_unity(gordian_${A_NAME} ${A_SRCS})
  endif()
endfunction()

# Puts gordian's version into a library that jobs load.
function(gordian_version_note NAME)
  target_sources(${NAME} PRIVATE "${CMAKE_SOURCE_DIR}/common/version_note.S")
  set_source_files_properties("${CMAKE_SOURCE_DIR}/common/version_note.S" PROPERTIES
    COMPILE_DEFINITIONS "GORDIAN_VERSION_STRING=\"${PROJECT_VERSION}\"")
endfunction()

function(gordian_executable)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${A_NAME} ${A_SRCS})
  target_link_libraries(${A_NAME} PRIVATE ${A_DEPS} gordian_flags gordian_sanitize)
endfunction()

# A test's own code is not optimized, which halves the time of its compilation, and shares a precompiled
# header; OPTIMIZED is for tests that compute much themselves, or look at what an optimizer makes of them.
# Libraries have no such header: with it GCC 12 warns of what it inlines from the standard library.
function(gordian_test)
  cmake_parse_arguments(A "OPTIMIZED" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  set(pch_options -Winvalid-pch -fpch-preprocess)
  if(NOT TARGET gordian_test_pch)
    file(WRITE "${CMAKE_BINARY_DIR}/pch/test.cc" "int main() {}\n")
    add_executable(gordian_test_pch EXCLUDE_FROM_ALL "${CMAKE_BINARY_DIR}/pch/test.cc")
    target_link_libraries(gordian_test_pch PRIVATE GTest::gtest_main gordian_flags gordian_sanitize)
    target_compile_options(gordian_test_pch PRIVATE -O0 ${pch_options})
    target_precompile_headers(gordian_test_pch PRIVATE <algorithm> <functional> <gtest/gtest.h> <map> <memory>
      <optional> <set> <string> <unordered_map> <vector>)
  endif()
  add_executable(${A_NAME} ${A_SRCS})
  set_target_properties(${A_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${A_NAME} PRIVATE ${A_DEPS} GTest::gtest_main gordian_flags gordian_sanitize)
  if(NOT A_OPTIMIZED)
    target_compile_options(${A_NAME} PRIVATE -O0 ${pch_options})
    target_precompile_headers(${A_NAME} REUSE_FROM gordian_test_pch)
  endif()
  if(GORDIAN_SANITIZE)
    # GCC 12 sees uninitialised members of std::regex where the sanitizers have added code.
    target_compile_options(${A_NAME} PRIVATE -Wno-maybe-uninitialized)
  endif()
  add_test(NAME ${A_NAME} COMMAND ${A_NAME})
  if(NOT A_LABELS)
    set(A_LABELS unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING)  # it runs on an emulated machine
    math(EXPR A_TIMEOUT "${A_TIMEOUT} * 10")
  endif()
  set_tests_properties(${A_NAME} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
  # CTest lists as skipped what GTEST_SKIP left out a part of. The words end the output only when the rest
  # has passed, so that no failure is hidden.
  set_property(TEST ${A_NAME} PROPERTY SKIP_REGULAR_EXPRESSION
    "\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\] [^\n]*\n)+$")
endfunction()
