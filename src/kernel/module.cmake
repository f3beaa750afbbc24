# SPDX-License-Identifier: MIT
# Compiles each isa_<name>.c with the flags of its row in isa.def, and skips the rows of other machines.  A build for
# fuzzing has the scalar kernels only: clang compiles the others, with sanitizers, for half an hour.
file(STRINGS src/kernel/isa.def rows REGEX "^QKV_ISA")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/kernel/isa.def)
foreach(row ${rows})
  string(REGEX MATCH "QKV_ISA\\(([a-z0-9_]+), .*, \"(.*)\", ([a-z0-9_]+)\\)" match "${row}")
  set(isa ${CMAKE_MATCH_1})
  separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_2}")
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/src/kernel/isa_${isa}.c)
  if(NOT CMAKE_MATCH_3 STREQUAL any AND (QKV_FUZZ OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "${CMAKE_MATCH_3}"))
    set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)
  elseif(flags)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
  endif()
endforeach()
