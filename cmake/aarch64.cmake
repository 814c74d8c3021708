# Compiles for AArch64 Linux with Debian's cross compiler, against the packages in GORDIAN_ROOT (made
# by tests/debian/root.sh). What the build runs (npm, protoc) is this machine's; what it builds runs on
# the machine of tests/arm64/machine.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(GORDIAN_ROOT "${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root" CACHE PATH "Debian for arm64")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GORDIAN_ROOT)
get_filename_component(root "${GORDIAN_ROOT}" ABSOLUTE)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_SYSROOT "${root}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# CUDA's headers have no package, and are the same for both processors.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${root}")
set(ENV{PKG_CONFIG_LIBDIR} "${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig")
set(GORDIAN_MOLD "" CACHE FILEPATH "Debian's cross compiler does not find it")
