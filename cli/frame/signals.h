// SPDX-License-Identifier: MIT
// signals.h: declares the handling of signals that end a command.
#ifndef QKV_SIGNALS_H
#define QKV_SIGNALS_H

#include <stdbool.h>

// Installs the handlers for Ctrl-C (exit code 130), a truncated mapped file (exit code 6) and a
// closed pipe (writing fails, exit code 6).  Opens descriptors 0, 1 and 2 if they are closed, so
// that no file that the command opens becomes "stdout".
void cmd_signals_init(void);
// While `on` is true, the first Ctrl-C only sets the flag that cmd_interrupted returns; a second
// one ends the command.
void cmd_signals_graceful(bool on);
// Registers the temporary file NAME.tmp.PID of an output: it is removed when a signal ends the
// command.
void cmd_temps_add(const char *temp);
void cmd_temps_remove(void); // removes the registered temporary files; async-signal-safe

#endif
