# SPDX-License-Identifier: MIT
# Compiles each isa_<name>.c with the flags of its row in isa.def, and skips the rows of other machines.  A build for
# fuzzing has the scalar kernels only: clang compiles the others, with sanitizers, for half an hour.  So has a build with
# real as double.
option(QKV_ISA_HERE "for tests only: instruction sets that this CPU does not have are compiled without optimisation and \
sanitizers, 20 times as fast" OFF)
option(QKV_EMULATE_AVX512 "for tests only: the instruction sets of AVX-512 and AMX are compiled with AVX2 and emulated \
intrinsics (tests/emulate/avx512.h)" OFF)
if(QKV_EMULATE_AVX512)
  set_source_files_properties(src/base/cpu.c PROPERTIES COMPILE_DEFINITIONS QKV_EMULATE_AVX512)
  # Without AVX-512 the compiler warns that vectors of 64 bytes are passed in memory.
  set(qkv_emulate_avx512 -mavx2 -mfma -mf16c -O1 -Wno-psabi -I${CMAKE_CURRENT_SOURCE_DIR}/tests -include emulate/avx512_names.h)
endif()
set(cpu_flags "")
if(QKV_ISA_HERE AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
  string(REPLACE "_" "" cpu_flags "${cpu_flags} ") # amx_tile: the compiler's flag is -mamx-tile
endif()
file(STRINGS src/kernel/isa.def rows REGEX "^QKV_ISA")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/kernel/isa.def)
foreach(row ${rows})
  string(REGEX MATCH "QKV_ISA\\(([a-z0-9_]+), .*, \"(.*)\", ([a-z0-9_]+)\\)" match "${row}")
  set(isa ${CMAKE_MATCH_1})
  separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_2}")
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/isa_${isa}.c)
  if(NOT CMAKE_MATCH_3 STREQUAL any AND (QKV_FUZZ OR QKV_DOUBLE OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "${CMAKE_MATCH_3}"))
    set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)
  elseif(QKV_EMULATE_AVX512 AND CMAKE_MATCH_2 MATCHES avx512)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${qkv_emulate_avx512}")
  elseif(flags)
    if(cpu_flags)
      set(needs ${flags})
      list(FILTER needs EXCLUDE REGEX "=")
      foreach(flag ${needs})
        string(REGEX REPLACE "^-m|-" "" flag ${flag})
        if(NOT cpu_flags MATCHES " ${flag} ")
          list(APPEND flags -O0 -fno-sanitize=all)
          break()
        endif()
      endforeach()
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
  endif()
endforeach()
