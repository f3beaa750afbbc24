# SPDX-License-Identifier: MIT
# Toolchain: cross-compiles for 64-bit ARM with Debian's gcc-aarch64-linux-gnu; programs run under qemu-aarch64.  The
# libraries that qkv needs are in QKV_SYSROOT, an arm64 tree made by tools/sysroot.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(QKV_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-sysroot CACHE PATH "arm64 libraries and headers")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QKV_SYSROOT)
# The dependencies of a library in the sysroot are also in the sysroot.
set(QKV_SYSROOT_LIB ${QKV_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${QKV_SYSROOT_LIB})
add_link_options(-Wl,-rpath-link,${QKV_SYSROOT_LIB})
set(CMAKE_FIND_ROOT_PATH ${QKV_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${QKV_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${QKV_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${QKV_SYSROOT}/usr/share/pkgconfig)
