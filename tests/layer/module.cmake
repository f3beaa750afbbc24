# SPDX-License-Identifier: MIT
# Programs that MPI starts on several ranks of this machine. They use the shared library, which finds the libraries of MPI in
# its folder.
#   layer/ranks_bytes  the bytes that MPI sends, compared with the plans
#   layer/ranks_memory messages of a rank that has no memory for copies; two and all ranks without memory
#   layer/long_ranks   1,048,576 tokens on 4 ranks in memory n / 4; layer/blocks_ranks 131,072
if(TARGET qkv AND NOT (QKV_SANITIZE OR QKV_TINY_TILES OR QKV_DOUBLE OR CMAKE_CROSSCOMPILING))
  # SOURCE of a program (module/folder/name) and the numbers of ranks that run it
  function(qkv_rank_test source sizes)
    get_filename_component(name ${source} NAME)
    string(REGEX REPLACE "/.*" "" module ${source})
    add_executable(${name} ${source}.c)
    target_link_libraries(${name} PRIVATE qkv m ${CMAKE_DL_LIBS})
    target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
    add_test(NAME ${module}/${name} COMMAND sh tests/layer/ranks/ranks.sh $<TARGET_FILE_DIR:qkv> ${sizes}
      $<TARGET_FILE:${name}> ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${module}/${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS ${module})
  endfunction()
  qkv_rank_test(layer/ranks/ranks_bytes "1 2 3 4")
  qkv_rank_test(layer/ranks/ranks_memory "2 3")
  target_include_directories(ranks_memory PRIVATE ${PROJECT_SOURCE_DIR}/src)
  foreach(poor "2 0 0" "2 0 1" "3 0 0" "3 1 1") # number of poor ranks, the messages that they have memory for
    string(REPLACE " " "_" name "${poor}")
    separate_arguments(poor)
    add_test(NAME layer/ranks_memory_${name} COMMAND sh tests/layer/ranks/ranks.sh $<TARGET_FILE_DIR:qkv> "2 3"
      $<TARGET_FILE:ranks_memory> ${poor} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(layer/ranks_memory_${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS layer ENVIRONMENT QKV_CODE=5)
  endforeach()
  qkv_rank_test(layer/ranks/long_ranks 4 1048576 16384 64 64)
  set_tests_properties(layer/long_ranks PROPERTIES LABELS "layer;long" RUN_SERIAL ON)
  add_test(NAME layer/blocks_ranks COMMAND sh tests/layer/ranks/ranks.sh $<TARGET_FILE_DIR:qkv> 4 $<TARGET_FILE:long_ranks>
    131072 1024 16 24 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(layer/blocks_ranks PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS layer)
  foreach(kind openmpi mpich)
    if(TARGET qkv_mpi_${kind})
      add_library(count_bytes_${kind} MODULE layer/ranks/count_bytes.c)
      target_link_libraries(count_bytes_${kind} PRIVATE qkv_flags PkgConfig::${kind})
      set_target_properties(count_bytes_${kind} PROPERTIES OUTPUT_NAME count_bytes-${kind} C_VISIBILITY_PRESET default)
      add_dependencies(ranks_bytes count_bytes_${kind})
    endif()
  endforeach()
endif()
