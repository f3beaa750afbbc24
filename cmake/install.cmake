# SPDX-License-Identifier: MIT
# make install: library, headers, command, and what find_package(qkv) and pkg-config need.
include(CMakePackageConfigHelpers)
set(qkv_package ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)

install(TARGETS qkv EXPORT qkvTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET qkv_static)
  install(TARGETS qkv_static EXPORT qkvTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(mpi_libraries)
  install(TARGETS ${mpi_libraries} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET qkv_png)
  install(TARGETS qkv_png LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
get_property(engines GLOBAL PROPERTY qkv_engines)
if(engines)
  install(TARGETS ${engines} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/qkv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN "*.def")
install(EXPORT qkvTargets NAMESPACE qkv:: DESTINATION ${qkv_package})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET qkv_cli)
  install(TARGETS qkv_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(cmake/qkvConfig.cmake.in qkvConfig.cmake
  INSTALL_DESTINATION ${qkv_package} NO_SET_AND_CHECK_MACRO)
# 0.x: a minor version may change the interface
write_basic_package_version_file(qkvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/qkvConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/qkvConfigVersion.cmake DESTINATION ${qkv_package})

list(TRANSFORM qkv_private_libs PREPEND "-l" OUTPUT_VARIABLE private_libs)
list(JOIN private_libs " " private_libs)
# The prefix as it is at install time: `cmake --install --prefix` may name another than configure did.
install(CODE "set(qkv_version \"${PROJECT_VERSION}\")
set(qkv_description \"${PROJECT_DESCRIPTION}\")
set(qkv_libdir \"${CMAKE_INSTALL_LIBDIR}\")
set(qkv_includedir \"${CMAKE_INSTALL_INCLUDEDIR}\")
set(qkv_private_libs \"${private_libs}\")
configure_file(\"${CMAKE_CURRENT_SOURCE_DIR}/cmake/qkv.pc.in\" \"${CMAKE_CURRENT_BINARY_DIR}/qkv.pc\" @ONLY)
file(INSTALL \"${CMAKE_CURRENT_BINARY_DIR}/qkv.pc\"
  DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig\")")
