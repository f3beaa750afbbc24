// SPDX-License-Identifier: MIT
// memory_files.h: declares files in memory, which the library opens, reads and writes as files of
// the folder /memory: a fuzz target waits for no disk.
#ifndef QKV_FUZZ_MEMORY_FILES_H
#define QKV_FUZZ_MEMORY_FILES_H
#include <stdint.h>
#include <stdlib.h>

#define MEMORY_FOLDER "/memory"
enum { MEMORY_FILES = 32, MEMORY_PATH = 512, MEMORY_BYTES = 1 << 26 };

// Makes the file `path`, below MEMORY_FOLDER, with the contents data[size], or replaces it.
void memory_file(const char *path, const void *data, size_t size);
void memory_folder(const char *path);
void memory_remove(const char *path); // the file, or the folder with everything in it
// Returns the contents of a file and their size; NULL: there is no file of this name.  The pointer
// is valid until the file is written or removed.
const uint8_t *memory_contents(const char *path, size_t *size);
void memory_read_most(size_t bytes); // the most bytes that one read() returns, as of a pipe
#endif
