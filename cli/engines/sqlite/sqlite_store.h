// SPDX-License-Identifier: MIT
// sqlite_store.h: declares the file system of SQLite that reads and writes an open file.
#ifndef QKV_SQLITE_STORE_H
#define QKV_SQLITE_STORE_H

#include "index/store.h"
#include <sqlite3.h>

#define SQLITE_FILES "qkv-descriptor"

// Makes SQLite know the file system SQLITE_FILES: the name of a database is the number of an open
// descriptor.  It has no journal and no locks; the caller replaces whole files.
int sqlite_files_init(void);
// Returns the errno of the last call that failed, and forgets it.
int sqlite_files_errno(void);
#endif
