# SPDX-License-Identifier: Apache-2.0
# Install rules of what is not one folder's own: public headers, the CMake package and pkg-config files.
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/detour DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "man" EXCLUDE PATTERN "model" EXCLUDE)
# Their libraries are two folders above.
file(GLOB DETOUR_PYTHON_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/*.py)
install(FILES ${DETOUR_PYTHON_FILES} DESTINATION ${CMAKE_INSTALL_LIBDIR}/detour/python)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/detour-config.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/detour-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/detour
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/detour-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/detour-config.cmake
              ${PROJECT_BINARY_DIR}/cmake/detour-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/detour)
if(TARGET detour-sched)
  install(EXPORT detour NAMESPACE detour:: FILE detour-targets.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/detour)
endif()
# Seen from the file itself: `cmake --install --prefix` chooses the folder after this was written.
file(RELATIVE_PATH DETOUR_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" DETOUR_PC_TO_PREFIX "${DETOUR_PC_TO_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/detour.pc.in ${PROJECT_BINARY_DIR}/cmake/detour.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/detour-stat.pc.in ${PROJECT_BINARY_DIR}/cmake/detour-stat.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/detour.pc ${PROJECT_BINARY_DIR}/cmake/detour-stat.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
