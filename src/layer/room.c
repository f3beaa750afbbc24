// SPDX-License-Identifier: MIT
// room.c: holds the place of room layer until its first file comes.
typedef int qkv_layer_room;
