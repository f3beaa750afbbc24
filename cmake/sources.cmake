# SPDX-License-Identifier: MIT
# QKV_SOURCES=FOLDER: compiles jansson, utf8proc, PCRE2 and zlib from their source archives and links them into libqkv, so
# that it needs libc and libm only.  python/sources.sh downloads the archives from Debian.  Each must have its SHA-256.
set(qkv_archives
  "jansson_2.14.orig.tar.gz|c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b|LICENSE"
  "utf8proc_2.8.0.orig.tar.gz|a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc|LICENSE.md"
  "pcre2_10.42.orig.tar.gz|c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f|LICENCE"
  "zlib_1.2.13.dfsg.orig.tar.bz2|71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1|LICENSE")
# Libraries only, static, with code for shared libraries; the policy version is for CMake 4.
set(options -G ${CMAKE_GENERATOR} -DCMAKE_MAKE_PROGRAM=${CMAKE_MAKE_PROGRAM} -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF
  -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -DCMAKE_C_COMPILER=${CMAKE_C_COMPILER}
  "-DCMAKE_C_FLAGS=${CMAKE_C_FLAGS}"
  -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
  -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF -DPCRE2_SHOW_REPORT=OFF)
set(sources_prefix ${PROJECT_BINARY_DIR}/sources)
set(qkv_licenses "")

function(run_step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(code)
    message(FATAL_ERROR "${what}: ${out}")
  endif()
endfunction()

foreach(row ${qkv_archives})
  string(REPLACE "|" ";" row "${row}")
  list(GET row 0 file)
  list(GET row 1 sha256)
  list(GET row 2 license)
  string(REGEX REPLACE "_.*" "" name ${file})
  set(archive ${QKV_SOURCES}/${file})
  if(NOT EXISTS ${archive})
    message(FATAL_ERROR "${archive}: no such file: python/sources.sh ${QKV_SOURCES} downloads it")
  endif()
  file(SHA256 ${archive} found)
  if(NOT found STREQUAL sha256)
    message(FATAL_ERROR "${archive}: expected SHA-256 ${sha256}, found ${found}")
  endif()
  set(stamp ${sources_prefix}/${name}-${sha256})
  set(tree ${sources_prefix}/tree/${name})
  if(NOT EXISTS ${stamp})
    message(STATUS "compiling ${file}")
    file(REMOVE_RECURSE ${tree} ${tree}-build)
    file(ARCHIVE_EXTRACT INPUT ${archive} DESTINATION ${tree})
    file(GLOB folder ${tree}/*)
    file(RENAME ${folder} ${tree}/source)
    file(WRITE ${tree}/source/win32/zlib1.rc "") # CMake asks for it; the archive of zlib does not have it
    run_step("configuring ${file}" ${CMAKE_COMMAND} -S ${tree}/source -B ${tree}/build ${options}
      -DCMAKE_INSTALL_PREFIX=${sources_prefix})
    run_step("compiling ${file}" ${CMAKE_COMMAND} --build ${tree}/build --target install --parallel 2)
    file(TOUCH ${stamp})
  endif()
  configure_file(${tree}/source/${license} ${sources_prefix}/licenses/${name}.txt COPYONLY)
  list(APPEND qkv_licenses ${sources_prefix}/licenses/${name}.txt)
endforeach()
# zlib always also makes a shared library, which find_library would prefer.
file(GLOB shared ${sources_prefix}/lib/*.so*)
if(shared)
  file(REMOVE ${shared})
endif()
set(ENV{PKG_CONFIG_PATH} ${sources_prefix}/lib/pkgconfig:${sources_prefix}/share/pkgconfig:$ENV{PKG_CONFIG_PATH})
