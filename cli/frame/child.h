// SPDX-License-Identifier: MIT
// child.h: declares how to run work in a child process, so that the peak memory of the child is
// that of the work alone, or that a library which ends the child does not end the command.
#ifndef QKV_CLI_CHILD_H
#define QKV_CLI_CHILD_H

#include "frame/cmd.h"

// Runs work(answer, ctx) in a child process, which sends answer[size] to this process; the child
// begins with a zeroed answer, and ends when this process ends.  Returns QKV_ERR_INTERNAL if the
// child was killed (err names the signal), QKV_ERR_INTERRUPTED after Ctrl-C, or QKV_ERR_LIMIT or
// QKV_ERR_IO without a message if the child has already printed the error.
qkv_status child_run(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, qkv_error *err);
// Like child_run, but if the child was killed, *ended is its wait status and err is unchanged;
// otherwise *ended is 0.
qkv_status child_try(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, int *ended, qkv_error *err);
double child_peak_memory(void); // returns the peak memory of this process in bytes
#endif
