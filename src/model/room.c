// SPDX-License-Identifier: MIT
// room.c: holds the place of room model until its first file comes.
typedef int qkv_model_room;
