# SPDX-License-Identifier: MIT
# libqkv_mpi-openmpi and libqkv_mpi-mpich connect ranks by the MPI that started them: libraries of their own, which libqkv
# opens when it was started by that MPI (src/layer/ranks/mpi/mpi_ranks.h). Without them it runs alone.
get_target_property(sources qkv_layer SOURCES)
set(mpi_sources ${sources})
list(FILTER mpi_sources INCLUDE REGEX "/src/layer/ranks/mpi/")
list(FILTER sources EXCLUDE REGEX "/src/layer/ranks/mpi/")
set_property(TARGET qkv_layer PROPERTY SOURCES ${sources})
set_source_files_properties(src/layer/ranks/ranks_open.c PROPERTIES COMPILE_DEFINITIONS "QKV_SOVERSION=\"${soversion}\"")
if(QKV_MPI)
  foreach(kind openmpi mpich)
    set(package_openmpi ompi-c)
    set(package_mpich mpich)
    pkg_check_modules(${kind} QUIET IMPORTED_TARGET ${package_${kind}})
    if(NOT ${kind}_FOUND)
      continue()
    endif()
    add_library(qkv_mpi_${kind} MODULE ${mpi_sources})
    target_link_libraries(qkv_mpi_${kind} PRIVATE qkv_flags PkgConfig::${kind})
    set_target_properties(qkv_mpi_${kind} PROPERTIES PREFIX "" OUTPUT_NAME libqkv_mpi-${kind}.so.${soversion} SUFFIX ""
      LINK_OPTIONS "${qkv_defined};-Wl,--as-needed" INSTALL_RPATH "")
    set_property(GLOBAL APPEND PROPERTY qkv_mpi_libraries qkv_mpi_${kind})
  endforeach()
endif()
