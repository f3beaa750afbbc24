// SPDX-License-Identifier: MIT
// room.c: holds the place of room text until its first file comes.
typedef int qkv_text_room;
