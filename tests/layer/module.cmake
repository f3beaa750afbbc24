# SPDX-License-Identifier: MIT
# layer/long_ranks: 1,048,576 tokens on 4 ranks in memory n / 4 (long_ranks.c). It uses the shared library, which finds
# the libraries of MPI in its folder.
if(TARGET qkv AND NOT (QKV_SANITIZE OR QKV_TINY_TILES OR QKV_DOUBLE OR CMAKE_CROSSCOMPILING))
  add_executable(long_ranks layer/ranks/long_ranks.c)
  target_link_libraries(long_ranks PRIVATE qkv m)
  target_compile_definitions(long_ranks PRIVATE _GNU_SOURCE)
  add_test(NAME layer/long_ranks COMMAND sh tests/layer/ranks/long_ranks.sh $<TARGET_FILE:long_ranks> $<TARGET_FILE_DIR:qkv>
    1048576 16384 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(layer/long_ranks PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800 LABELS "layer;long" RUN_SERIAL ON)
endif()
