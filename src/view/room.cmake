# SPDX-License-Identifier: MIT
# zlib packs the page's numbers; web/ is compiled in, so that the library needs no file at run time.
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
target_link_libraries(qkv_flags INTERFACE PkgConfig::zlib)
# cairo paints PNG in fonts that fontconfig chooses (libqkv links both: CMakeLists.txt).  pkg-config is
# asked where they are, not for all that they were made of: its answer wants a dozen packages more.
pkg_check_modules(pc_cairo QUIET cairo fontconfig)
find_path(QKV_CAIRO_INCLUDE cairo.h HINTS ${pc_cairo_INCLUDE_DIRS} PATH_SUFFIXES cairo REQUIRED)
find_path(QKV_FONTCONFIG_INCLUDE fontconfig/fontconfig.h HINTS ${pc_cairo_INCLUDE_DIRS} REQUIRED)
find_library(QKV_CAIRO_LIBRARY cairo HINTS ${pc_cairo_LIBRARY_DIRS} REQUIRED)
find_library(QKV_FONTCONFIG_LIBRARY fontconfig HINTS ${pc_cairo_LIBRARY_DIRS} REQUIRED)
mark_as_advanced(QKV_CAIRO_INCLUDE QKV_FONTCONFIG_INCLUDE QKV_CAIRO_LIBRARY QKV_FONTCONFIG_LIBRARY)
set(qkv_paint ${QKV_CAIRO_LIBRARY} ${QKV_FONTCONFIG_LIBRARY} PARENT_SCOPE)
target_include_directories(qkv_view SYSTEM PRIVATE ${QKV_CAIRO_INCLUDE} ${QKV_FONTCONFIG_INCLUDE})
target_link_libraries(qkv_view INTERFACE ${QKV_CAIRO_LIBRARY} ${QKV_FONTCONFIG_LIBRARY}) # the tests of the room
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
