# SPDX-License-Identifier: MIT
# The tests that write PNG files open libqkv_png.
foreach(name test_picture_files test_chart test_png_text)
  set_property(TEST view/${name} PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${PROJECT_BINARY_DIR})
  if(TARGET qkv_png)
    add_dependencies(${name} qkv_png)
  endif()
endforeach()
set(defined "")
if(TARGET qkv_png)
  get_target_property(defined qkv_png COMPILE_DEFINITIONS)
endif()
if(NOT QKV_PNG_SHAPES IN_LIST defined)
  set_property(TEST view/test_png_text PROPERTY DISABLED TRUE)
endif()
# Pages in a real browser: needs Python 3 and a Chromium or Chrome; skipped where one is missing.
list(TRANSFORM needs_view PREPEND qkv_ OUTPUT_VARIABLE below_view)
foreach(maker make_pages make_maps make_odd make_pictures)
  add_executable(${maker} view/${maker}.c)
  target_include_directories(${maker} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${maker} PRIVATE qkv_view ${below_view})
endforeach()
# The types of the page's script; skipped where TypeScript is not installed.
add_test(NAME view/types COMMAND tools/typecheck.sh WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
set_tests_properties(view/types PROPERTIES SKIP_RETURN_CODE 77 LABELS view TIMEOUT 300)
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(qkv_command "")
  if(TARGET qkv_cli)
    set(qkv_command $<TARGET_FILE:qkv_cli>)
  endif()
  # The first makes the pages of the others.
  foreach(part pages heads maps pairs)
    add_test(NAME view/browser_${part} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/view/browser.py $<TARGET_FILE:make_pages>
      ${CMAKE_BINARY_DIR}/browser ${qkv_command} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(view/browser_${part} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 COST 2000
      LABELS view ENVIRONMENT QKV_PART=${part} FIXTURES_REQUIRED pages)
  endforeach()
  set_tests_properties(view/browser_pages PROPERTIES FIXTURES_SETUP pages FIXTURES_REQUIRED "")
  # The box of every text: some widths, and all of them.
  foreach(grid sample all)
    add_test(NAME view/boxes_${grid} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/view/boxes.py ${CMAKE_BINARY_DIR}/browser ${grid} ${qkv_command}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(view/boxes_${grid} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 COST 2000
      LABELS view FIXTURES_REQUIRED pages)
  endforeach()
  set_tests_properties(view/boxes_all PROPERTIES LABELS "view;long" TIMEOUT 14400)
  foreach(size odd large)
    add_test(NAME view/browser_${size} COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/view/browser_odd.py $<TARGET_FILE:make_odd>
      ${CMAKE_BINARY_DIR}/browser_${size} ${size} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  endforeach()
  set_tests_properties(view/browser_odd view/browser_large PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300
    COST 2000 LABELS view)
  set_tests_properties(view/browser_large PROPERTIES LABELS "view;long")
  if(TARGET qkv_cli)
    add_test(NAME view/one_print COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/view/one_print.py $<TARGET_FILE:qkv_cli> ${CMAKE_BINARY_DIR}/one_print
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(view/one_print PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 COST 500 LABELS view)
  endif()
  if(TARGET qkv_cli)
    add_test(NAME view/browser_live COMMAND ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/view/browser_live.py $<TARGET_FILE:qkv_cli> ${CMAKE_BINARY_DIR}/browser_live
      models/all-MiniLM-L6-v2 models/verse WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(view/browser_live PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 COST 500 LABELS view)
  endif()
  add_test(NAME view/pictures COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/view/pictures.py $<TARGET_FILE:make_pictures>
    ${CMAKE_BINARY_DIR}/pictures WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(view/pictures PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 COST 2000 LABELS view)
endif()
