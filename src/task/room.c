// SPDX-License-Identifier: MIT
// room.c: holds the place of room task until its first file comes.
typedef int qkv_task_room;
