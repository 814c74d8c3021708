# What a user gets: `cmake --install BUILD --prefix DIR`, and packages of the same files by `cpack`.
#
#   bin/gordian, ...           the program, and those that it starts
#   LIBDIR/gordian/            what it loads into jobs: shim, front end, emulator, runtime
#   include/gordian, LIBDIR/pkgconfig    for programs that use the runtime's C API
#
# The tree may be moved as a whole: gordian finds LIBDIR/gordian from its own place.
include(GNUInstallDirs)
set(GORDIAN_INSTALLED_LIB "${CMAKE_INSTALL_LIBDIR}/gordian")

function(gordian_install)
  install(TARGETS gordian RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  if(TARGET gordian-measure-collectives)
    install(TARGETS gordian-measure-collectives RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
  # Asked for by --component mpi: few have MPI, and a package would depend on it.
  if(TARGET gordian-simulate-mpi)
    install(TARGETS gordian-simulate-mpi RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT mpi EXCLUDE_FROM_ALL)
  endif()
  install(TARGETS gordian_interpose gordian_runtime LIBRARY DESTINATION "${GORDIAN_INSTALLED_LIB}")
  install(FILES "${CMAKE_BINARY_DIR}/lib/libgordian_runtime_cuda.so" DESTINATION "${GORDIAN_INSTALLED_LIB}"
    PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE OPTIONAL)
  install(TARGETS gordian_emu_cuda gordian_emu_cudart gordian_emu_nccl
    LIBRARY DESTINATION "${GORDIAN_INSTALLED_LIB}/emulator")
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/interpose/python/" DESTINATION "${GORDIAN_INSTALLED_LIB}/python"
    FILES_MATCHING PATTERN "*.py")
  install(FILES "${CMAKE_SOURCE_DIR}/runtime/include/gordian/runtime.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/gordian")
  install(FILES "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

  # These are in the program, so their notices go with it.
  foreach(name IN ITEMS jemalloc grpc protobuf absl re2 c-ares)
    find_file(GORDIAN_NOTICE_${name} copyright PATHS "/usr/share/doc/lib${name}-dev" NO_DEFAULT_PATH)
    mark_as_advanced(GORDIAN_NOTICE_${name})
    if(GORDIAN_NOTICE_${name})
      install(FILES "${GORDIAN_NOTICE_${name}}" DESTINATION "${CMAKE_INSTALL_DOCDIR}" RENAME "copyright.${name}")
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
  install(FILES "${CMAKE_BINARY_DIR}/gordian-runtime.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()
