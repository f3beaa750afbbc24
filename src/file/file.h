// SPDX-License-Identifier: MIT
// file.h: the door of room file: bytes of checkpoints and arrays <-> named tensors.
#ifndef QKV_ROOM_FILE_H
#define QKV_ROOM_FILE_H
#include "base/base.h"
#include "file/config.h"
#endif
