// SPDX-License-Identifier: MIT
// signals.h: what ends a command from outside (signals.c).
#ifndef QKV_SIGNALS_H
#define QKV_SIGNALS_H

#include <stdbool.h>

// Handlers for Ctrl-C (130), a mapped file cut short (6), a closed pipe (the write fails: 6); and
// file descriptors 0, 1, 2 are made sure to exist, so that no file of ours becomes "stdout".
void cmd_signals_init(void);
// While true an interrupt only sets the flag of cmd_interrupted; a second one ends the command.
void cmd_signals_graceful(bool on);
// NAME.tmp.PID of an output that is being written, removed when a signal ends us.
void cmd_temps_add(const char *temp);
void cmd_temps_remove(void); // async-signal-safe

#endif
