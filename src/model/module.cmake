# SPDX-License-Identifier: MIT
# search_directory.c looks for models where `make install` puts shared data.
set_source_files_properties(src/model/search_directory.c PROPERTIES
  COMPILE_DEFINITIONS QKV_DATADIR="${CMAKE_INSTALL_FULL_DATADIR}")
