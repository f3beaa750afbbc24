// SPDX-License-Identifier: MIT
// room.c: holds the place of room file until its first file comes.
typedef int qkv_file_room;
