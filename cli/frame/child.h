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
// How a child process ended without a result. `status` is the one of waitpid, or 0 if it is not
// known, because the process that started the command ignores SIGCHLD.
struct child_end {
    bool ended;
    int status;
};
// Like child_run, but if the child process ended without a result, sets *end and returns
// QKV_ERR_INTERNAL with err unchanged, or QKV_ERR_IO without a message if the child has printed
// that a mapped file was truncated.
qkv_status child_try(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, struct child_end *end, qkv_error *err);
double child_peak_memory(void); // returns the peak memory of this process in bytes
#endif
