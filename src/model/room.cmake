# SPDX-License-Identifier: MIT
# find.c looks for models where `make install` puts shared data.
set_source_files_properties(src/model/find.c PROPERTIES
  COMPILE_DEFINITIONS QKV_DATADIR="${CMAKE_INSTALL_FULL_DATADIR}")
