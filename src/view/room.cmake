# SPDX-License-Identifier: MIT
# zlib packs the page's numbers; web/ is compiled in, so that the library needs no file at run time.
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
target_link_libraries(qkv_flags INTERFACE PkgConfig::zlib)
file(GLOB web CONFIGURE_DEPENDS src/view/web/*)
add_executable(qkv_lean tools/lean.c)
set(lean ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:qkv_lean>)
set(embedded ${CMAKE_CURRENT_BINARY_DIR}/view_web.c)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DWEB=${CMAKE_CURRENT_SOURCE_DIR}/src/view/web
    "-DLEAN=${lean}" -DOUT=${embedded}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/tools/embed.cmake
  DEPENDS ${web} tools/embed.cmake qkv_lean VERBATIM)
target_sources(qkv_view PRIVATE ${embedded})
