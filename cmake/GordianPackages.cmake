# Packages of what GordianInstall.cmake installs, by `cpack` in the build folder (./dev package):
# a tarball of all, and a Debian package for each component.
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "the gordian developers <gordian@localhost>")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_COMPONENTS_ALL gordian gordian-emulator libgordian-runtime gordian-dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Its own libraries, which are in no package's dependencies.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}/lib" "${CMAKE_BINARY_DIR}/lib/emulator")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# What Debian wants of a package beyond the files of `cmake --install`.
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/packaging/debian_files.cmake")
set(CPACK_GORDIAN_RELEASE_DATE "${GORDIAN_RELEASE_DATE}")

# gordian_debian_package(NAME SECTION SUMMARY DESCRIPTION [DEPENDS ...] [RECOMMENDS ...]
#   [SUGGESTS ...])
macro(gordian_debian_package NAME SECTION SUMMARY DESCRIPTION)
  cmake_parse_arguments(P "" "DEPENDS;RECOMMENDS;SUGGESTS" "" ${ARGN})
  string(TOUPPER "${NAME}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME "${NAME}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION "${SECTION}")
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${SUMMARY}\n${DESCRIPTION}")
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${SUMMARY}\n${DESCRIPTION}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${P_DEPENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${P_RECOMMENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${P_SUGGESTS}")
endmacro()
gordian_debian_package(gordian devel "finds and proves deadlocks in multi-GPU jobs"
  "gordian run watches a job's calls of NCCL and CUDA and says, when the job
hangs, which ranks wait for which, and whether that is a proven deadlock.
It also predicts deadlocks, and writes small programs that hang alike."
  # It loads libcurl when it sends an alert.
  RECOMMENDS "gordian-emulator, libgordian-runtime, libcurl4")
gordian_debian_package(gordian-emulator devel "emulated CUDA and NCCL libraries for gordian"
  "With these libraries gordian run --emulator runs multi-GPU programs on a
machine without a GPU, and gordian demo shows a deadlock and its verdict."
  DEPENDS "gordian (= ${PROJECT_VERSION})")
gordian_debian_package(libgordian-runtime libs "collectives that complete in any order of calls"
  "The library behind gordian run --collectives=preemptive. Programs may use
it by its C interface, too, which gordian-dev describes."
  RECOMMENDS "gordian"
  # It loads UCX for communicators of several nodes.
  SUGGESTS "libucx0")
gordian_debian_package(gordian-dev libdevel "headers of the gordian runtime"
  "The C interface of the gordian runtime, whose collectives complete in any
order of calls, with its files for pkg-config and CMake."
  DEPENDS "libgordian-runtime (= ${PROJECT_VERSION})")
include(CPack)
