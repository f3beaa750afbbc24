// SPDX-License-Identifier: MIT
// engine.h: declares how a command opens an engine: a library of qkv over a library that is
// optional when qkv is built (HTTP, SQLite, curl).
//
// The sources of an engine are cli/engines/<name>/; a row of cli/engines/CMakeLists.txt names the
// library that it needs.  It exports one object, `qkv_engine`, a table of functions whose type is
// declared in a header of the command.  The first member of each table is `size_t size`, the size
// of the table.  An engine calls its library and the C library only: it returns errors to the
// command, which prints them.
#ifndef QKV_CLI_ENGINE_H
#define QKV_CLI_ENGINE_H

#include "frame/cmd.h"

struct engine {
    const char *name;    // name of the folder in cli/engines, such as "http"
    const char *command; // command that needs it, such as "qkv serve", for the message
    const char *package; // package of Debian with the library to build with
    size_t size;         // size of the table
};

// Opens an engine, which stays open until the program ends, and returns its table.  If it is
// missing, returns NULL and fills err: QKV_ERR_UNSUPPORTED, with the package to install; if it is
// there and cannot be opened, QKV_ERR_LIMIT or QKV_ERR_IO, with its path.
const void *engine_open(const struct engine *x, qkv_error *err);
#endif
