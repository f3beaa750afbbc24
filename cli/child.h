// SPDX-License-Identifier: MIT
// child.h: work in a process of its own, whose peak of memory nothing else has raised.
#ifndef QKV_CLI_CHILD_H
#define QKV_CLI_CHILD_H

#include "cmd.h"

// Runs work(answer, ctx) in a child, which sends answer[size] (zeroed before) back.  The caller has
// started no thread yet: a child forked after that runs serial.  QKV_ERR_INTERNAL: it died of
// something, and err says so; QKV_ERR_INTERRUPTED; QKV_ERR_LIMIT without a text: the child has said
// why.
qkv_status child_run(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, qkv_error *err);
double child_peak_memory(void); // of this process, bytes
#endif
