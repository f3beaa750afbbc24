# SPDX-License-Identifier: MIT
#   task/train_bytes   the bytes that MPI sends for a training step and a checkpoint, compared with docs/machines.md
if(COMMAND qkv_rank_test)
  qkv_rank_test(task/train/train_bytes "1 2 3 4")
endif()
