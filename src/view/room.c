// SPDX-License-Identifier: MIT
// room.c: holds the place of room view until its first file comes.
typedef int qkv_view_room;
