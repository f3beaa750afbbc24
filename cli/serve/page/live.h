// SPDX-License-Identifier: MIT
// live.h: declares the server of `qkv view --live`.
#ifndef QKV_CLI_LIVE_H
#define QKV_CLI_LIVE_H

#include "frame/cmd.h"

// Serves the page of the model of --model on a free port of this machine, to the browser that opens
// the address first, until SIGTERM or Ctrl-C. text: the first text; NULL: an example.
qkv_status live_run(const char *text, qkv_error *err);
#endif
