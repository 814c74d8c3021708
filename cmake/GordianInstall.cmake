# What a user gets: `cmake --install BUILD --prefix DIR`, and packages of the same files by `cpack`
# (cmake/GordianPackages.cmake). A component is a Debian package:
#
#   gordian               bin/gordian, the shim and the front end that it loads into jobs, what jobs
#                         import, man pages, completions, the example of gordian.toml
#   gordian-emulator      LIBDIR/gordian/emulator, and the job of `gordian demo`
#   libgordian-runtime    the runtime that LIBDIR/gordian holds
#   gordian-dev           include/gordian, LIBDIR/pkgconfig, LIBDIR/cmake: for programs that use its C API
#
# The tree may be moved as a whole: gordian finds LIBDIR/gordian from its own place.
include(GNUInstallDirs)
set(GORDIAN_INSTALLED_LIB "${CMAKE_INSTALL_LIBDIR}/gordian")
set(GORDIAN_REFERENCE "${CMAKE_BINARY_DIR}/reference")  # laid out as below the prefix

# Man pages, completions and the example of gordian.toml, which the built gordian writes. A build for another
# processor names one that runs here.
set(GORDIAN_NATIVE "$<TARGET_FILE:gordian>" CACHE STRING "The gordian that writes the man pages")
mark_as_advanced(GORDIAN_NATIVE)
function(gordian_reference)
  set(commands COMMAND "${CMAKE_COMMAND}" -E rm -rf "${GORDIAN_REFERENCE}"
    COMMAND "${GORDIAN_NATIVE}" man --to "${GORDIAN_REFERENCE}/man/man1"
    COMMAND sh -c "gzip -9n '${GORDIAN_REFERENCE}/man/man1/'*.1")
  foreach(file IN ITEMS "completion bash:bash-completion/completions/gordian"
      "completion zsh:zsh/vendor-completions/_gordian" "completion fish:fish/vendor_completions.d/gordian.fish"
      "settings:doc/gordian/examples/gordian.toml")
    string(REPLACE ":" ";" file "${file}")
    list(GET file 0 verb)
    list(GET file 1 path)
    cmake_path(GET path PARENT_PATH folder)
    list(APPEND commands COMMAND "${CMAKE_COMMAND}" -E make_directory "${GORDIAN_REFERENCE}/${folder}"
      COMMAND sh -c "'${GORDIAN_NATIVE}' ${verb} > '${GORDIAN_REFERENCE}/${path}'")
  endforeach()
  add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/reference.stamp" ${commands}
    COMMAND "${CMAKE_COMMAND}" -E touch "${CMAKE_BINARY_DIR}/reference.stamp" DEPENDS gordian VERBATIM)
  add_custom_target(gordian_reference ALL DEPENDS "${CMAKE_BINARY_DIR}/reference.stamp")
endfunction()

function(gordian_install)
  gordian_reference()
  install(TARGETS gordian RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT gordian)
  # `gordian bench` starts it, and nobody else.
  if(TARGET gordian-measure-collectives)
    install(TARGETS gordian-measure-collectives RUNTIME DESTINATION "${GORDIAN_INSTALLED_LIB}" COMPONENT gordian)
  endif()
  # Asked for by --component mpi: few have MPI, and a package would depend on it.
  if(TARGET gordian-simulate-mpi)
    install(TARGETS gordian-simulate-mpi RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT mpi EXCLUDE_FROM_ALL)
  endif()
  install(TARGETS gordian_interpose LIBRARY DESTINATION "${GORDIAN_INSTALLED_LIB}" COMPONENT gordian)
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/interpose/python/" DESTINATION "${GORDIAN_INSTALLED_LIB}/python"
    COMPONENT gordian FILES_MATCHING PATTERN "*.py")
  # For jobs under `gordian run`, and without the front end for PYTHONPATH; a wheel's Python finds it by itself.
  foreach(place IN ITEMS "${GORDIAN_INSTALLED_LIB}/python" "${CMAKE_INSTALL_DATAROOTDIR}/gordian/python")
    install(DIRECTORY "${CMAKE_SOURCE_DIR}/python/gordian" DESTINATION "${place}"
      COMPONENT gordian FILES_MATCHING PATTERN "*.py")
  endforeach()
  install(DIRECTORY "${GORDIAN_REFERENCE}/" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}" COMPONENT gordian)
  install(FILES "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/LICENSE"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/gordian" COMPONENT gordian)

  install(TARGETS gordian_runtime LIBRARY DESTINATION "${GORDIAN_INSTALLED_LIB}" COMPONENT libgordian-runtime)
  install(FILES "${CMAKE_BINARY_DIR}/lib/libgordian_runtime_cuda.so" DESTINATION "${GORDIAN_INSTALLED_LIB}"
    COMPONENT libgordian-runtime OPTIONAL)

  install(TARGETS gordian_emu_cuda gordian_emu_cudart gordian_emu_nccl
    LIBRARY DESTINATION "${GORDIAN_INSTALLED_LIB}/emulator" COMPONENT gordian-emulator)
  # No target, so it is never stripped: verdicts name its source lines.
  install(PROGRAMS "$<TARGET_FILE:hybrid_training>" DESTINATION "${GORDIAN_INSTALLED_LIB}/demo"
    COMPONENT gordian-emulator)

  install(FILES "${CMAKE_SOURCE_DIR}/runtime/include/gordian/runtime.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gordian" COMPONENT gordian-dev)

  # These are in the program, so their notices go with it.
  foreach(name IN ITEMS jemalloc grpc protobuf absl re2 c-ares)
    find_file(GORDIAN_NOTICE_${name} copyright PATHS "/usr/share/doc/lib${name}-dev" NO_DEFAULT_PATH)
    mark_as_advanced(GORDIAN_NOTICE_${name})
    if(GORDIAN_NOTICE_${name})
      install(FILES "${GORDIAN_NOTICE_${name}}" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/gordian"
        COMPONENT gordian RENAME "copyright.${name}")
    endif()
  endforeach()

  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  file(WRITE "${CMAKE_BINARY_DIR}/gordian-runtime.pc" "prefix=\${pcfiledir}/${up}
libdir=\${prefix}/${GORDIAN_INSTALLED_LIB}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: gordian-runtime
Description: Collectives that complete in any order of calls
Version: ${PROJECT_VERSION}
Cflags: -I\${includedir}
Libs: -L\${libdir} -Wl,-rpath,\${libdir} -lgordian_runtime
")
  install(FILES "${CMAKE_BINARY_DIR}/gordian-runtime.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT gordian-dev)

  set(folder "${CMAKE_INSTALL_LIBDIR}/cmake/gordian-runtime")
  file(RELATIVE_PATH up "/${folder}" "/")
  file(WRITE "${CMAKE_BINARY_DIR}/gordian-runtime-config.cmake" "\
# find_package(gordian-runtime) makes the target gordian::runtime.
if(NOT TARGET gordian::runtime)
  get_filename_component(_gordian_prefix \"\${CMAKE_CURRENT_LIST_DIR}/${up}\" ABSOLUTE)
  add_library(gordian::runtime SHARED IMPORTED)
  set_target_properties(gordian::runtime PROPERTIES
    IMPORTED_LOCATION \"\${_gordian_prefix}/${GORDIAN_INSTALLED_LIB}/libgordian_runtime.so\"
    INTERFACE_INCLUDE_DIRECTORIES \"\${_gordian_prefix}/${CMAKE_INSTALL_INCLUDEDIR}\")
  unset(_gordian_prefix)
endif()
")
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/gordian-runtime-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_BINARY_DIR}/gordian-runtime-config.cmake"
    "${CMAKE_BINARY_DIR}/gordian-runtime-config-version.cmake" DESTINATION "${folder}" COMPONENT gordian-dev)
endfunction()
