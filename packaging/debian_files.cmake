# Run by cpack before it builds Debian packages: adds each package's copyright, changelog and
# lintian overrides to the files that are staged for it.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()

file(READ "${CMAKE_CURRENT_LIST_DIR}/copyright" copyright)
execute_process(COMMAND date -u -d "${CPACK_GORDIAN_RELEASE_DATE}" "+%a, %d %b %Y 00:00:00 +0000"
  OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(root "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}")
  set(doc "${root}/share/doc/${component}")
  file(WRITE "${doc}/copyright" "${copyright}")
  file(REMOVE "${doc}/LICENSE")  # Debian has its text, to which `copyright` points
  file(WRITE "${doc}/changelog" "${component} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  execute_process(COMMAND gzip -9n "${doc}/changelog" COMMAND_ERROR_IS_FATAL ANY)
  set(overrides "${CMAKE_CURRENT_LIST_DIR}/${component}.lintian-overrides")
  file(MAKE_DIRECTORY "${root}/share/lintian/overrides")
  file(COPY_FILE "${overrides}" "${root}/share/lintian/overrides/${component}")
endforeach()
