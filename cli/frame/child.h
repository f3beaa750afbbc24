// SPDX-License-Identifier: MIT
// child.h: declares work in a process of its own, whose peak memory is then that of the work alone.
#ifndef QKV_CLI_CHILD_H
#define QKV_CLI_CHILD_H

#include "frame/cmd.h"

// Runs work(answer, ctx) in a child process, which sends answer[size] (zeroed before) back.  The
// caller must not have started a thread: a child process that is forked after that runs on one
// thread.  QKV_ERR_INTERNAL: the child was killed, and err names the signal. QKV_ERR_INTERRUPTED:
// Ctrl-C. QKV_ERR_LIMIT without an error text: the child has already reported the error.
qkv_status child_run(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, qkv_error *err);
double child_peak_memory(void); // returns the peak memory of this process in bytes
#endif
