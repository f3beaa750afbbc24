# SPDX-License-Identifier: MIT
# zlib packs the page's numbers; web/ is compiled in, so that the library needs no file at run time.
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
target_link_libraries(qkv_flags INTERFACE PkgConfig::zlib)
# These files loop over all weights of a view; -O3 vectorizes their loops.
foreach(name data/head_stats data/stories data/weight_rows page/encode_layer)
  set_source_files_properties(src/view/${name}.c PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
endforeach()
# libqkv_png paints PNG files with cairo, in fonts that fontconfig chooses. It is a library of its own, which libqkv
# opens when it writes such a file (src/view/png/png_painter.h); without it the command says which library is missing.
get_target_property(sources qkv_view SOURCES)
set(png_sources ${sources})
list(FILTER png_sources INCLUDE REGEX "/src/view/png/")
list(FILTER sources EXCLUDE REGEX "/src/view/png/")
set_property(TARGET qkv_view PROPERTY SOURCES ${sources})
set(png_name libqkv_png.so.${soversion})
set_source_files_properties(src/view/canvas/canvas_png.c PROPERTIES COMPILE_DEFINITIONS "QKV_PNG_LIBRARY=\"${png_name}\"")
if(QKV_PNG)
  # pkg-config is asked where the libraries are, not for all that they were made of: its answer wants a dozen packages
  # more.
  pkg_check_modules(pc_cairo QUIET cairo fontconfig)
  find_path(QKV_CAIRO_INCLUDE cairo.h HINTS ${pc_cairo_INCLUDE_DIRS} PATH_SUFFIXES cairo REQUIRED)
  find_path(QKV_FONTCONFIG_INCLUDE fontconfig/fontconfig.h HINTS ${pc_cairo_INCLUDE_DIRS} REQUIRED)
  find_library(QKV_CAIRO_LIBRARY cairo HINTS ${pc_cairo_LIBRARY_DIRS} REQUIRED)
  find_library(QKV_FONTCONFIG_LIBRARY fontconfig HINTS ${pc_cairo_LIBRARY_DIRS} REQUIRED)
  # HarfBuzz and FriBidi shape texts whose letters join or run from right to left; without them these are drawn letter by
  # letter.
  pkg_check_modules(pc_shape QUIET harfbuzz fribidi freetype2)
  find_path(QKV_HARFBUZZ_INCLUDE hb-ft.h HINTS ${pc_shape_INCLUDE_DIRS} PATH_SUFFIXES harfbuzz)
  find_path(QKV_FRIBIDI_INCLUDE fribidi.h HINTS ${pc_shape_INCLUDE_DIRS} PATH_SUFFIXES fribidi)
  find_path(QKV_FREETYPE_INCLUDE ft2build.h HINTS ${pc_shape_INCLUDE_DIRS} PATH_SUFFIXES freetype2)
  find_library(QKV_HARFBUZZ_LIBRARY harfbuzz HINTS ${pc_shape_LIBRARY_DIRS})
  find_library(QKV_FRIBIDI_LIBRARY fribidi HINTS ${pc_shape_LIBRARY_DIRS})
  set(QKV_SHAPE_LIBRARIES "")
  if(QKV_HARFBUZZ_INCLUDE AND QKV_FRIBIDI_INCLUDE AND QKV_FREETYPE_INCLUDE AND QKV_HARFBUZZ_LIBRARY AND QKV_FRIBIDI_LIBRARY)
    set(QKV_SHAPE_LIBRARIES ${QKV_HARFBUZZ_LIBRARY} ${QKV_FRIBIDI_LIBRARY})
  else()
    message(STATUS "HarfBuzz or FriBidi not found: PNG pictures draw Arabic and Hebrew letter by letter")
    list(FILTER png_sources EXCLUDE REGEX "/png_shape\\.c$")
  endif()
  mark_as_advanced(QKV_HARFBUZZ_INCLUDE QKV_FRIBIDI_INCLUDE QKV_FREETYPE_INCLUDE QKV_HARFBUZZ_LIBRARY QKV_FRIBIDI_LIBRARY)
  mark_as_advanced(QKV_CAIRO_INCLUDE QKV_FONTCONFIG_INCLUDE QKV_CAIRO_LIBRARY QKV_FONTCONFIG_LIBRARY)
  add_library(qkv_png MODULE ${png_sources})
  target_include_directories(qkv_png SYSTEM PRIVATE ${QKV_CAIRO_INCLUDE} ${QKV_FONTCONFIG_INCLUDE})
  target_link_libraries(qkv_png PRIVATE qkv_flags ${QKV_CAIRO_LIBRARY} ${QKV_FONTCONFIG_LIBRARY} ${QKV_SHAPE_LIBRARIES})
  if(QKV_SHAPE_LIBRARIES)
    target_compile_definitions(qkv_png PRIVATE QKV_PNG_SHAPES)
    target_include_directories(qkv_png SYSTEM PRIVATE ${QKV_HARFBUZZ_INCLUDE} ${QKV_FRIBIDI_INCLUDE} ${QKV_FREETYPE_INCLUDE})
  endif()
  set_target_properties(qkv_png PROPERTIES PREFIX "" OUTPUT_NAME ${png_name} SUFFIX ""
    LINK_OPTIONS "${qkv_defined};-Wl,--as-needed" INSTALL_RPATH "")
endif()
# esbuild bundles and minifies the script of the page; without it the page is larger and works the same.
find_program(QKV_ESBUILD esbuild DOC "bundles and minifies the page's script; empty: the page is not minified")
mark_as_advanced(QKV_ESBUILD)
set(esbuild ${QKV_ESBUILD})
if(NOT esbuild)
  set(esbuild "")
  message(STATUS "esbuild not found: pages are built without minifying")
endif()
# The script of the page is compressed by a program of the build.  Cross-compiling needs an emulator for it, or the
# program that a build for this machine made.
set(QKV_DEFLATE "" CACHE FILEPATH "the program qkv_deflate of another build; empty: build it")
mark_as_advanced(QKV_DEFLATE)
set(deflate ${QKV_DEFLATE})
if(NOT deflate)
  add_executable(qkv_deflate tools/deflate.c)
  target_link_libraries(qkv_deflate PRIVATE PkgConfig::zlib)
  set(deflate ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:qkv_deflate>)
  set(deflate_target qkv_deflate)
endif()
file(GLOB_RECURSE web CONFIGURE_DEPENDS src/view/web/*)
set(embedded ${CMAKE_CURRENT_BINARY_DIR}/view_web.c)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DWEB=${CMAKE_CURRENT_SOURCE_DIR}/src/view/web
    -DVIEWS=${CMAKE_CURRENT_SOURCE_DIR}/include/qkv/view.def "-DESBUILD=${esbuild}" "-DDEFLATE=${deflate}" -DOUT=${embedded}
    -P ${CMAKE_CURRENT_SOURCE_DIR}/tools/embed.cmake
  DEPENDS ${web} include/qkv/view.def tools/embed.cmake ${deflate_target} VERBATIM)
target_sources(qkv_view PRIVATE ${embedded})
