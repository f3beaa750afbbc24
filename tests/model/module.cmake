# SPDX-License-Identifier: MIT
# Folders for tools/golden_net.py to open with transformers.
add_executable(make_nets model/params/make_nets.c)
target_link_libraries(make_nets PRIVATE qkv_model)
foreach(below ${needs_model})
  target_link_libraries(make_nets PRIVATE qkv_${below})
endforeach()
