// SPDX-License-Identifier: MIT
// signals.h: declares the handling of signals that would end a command.
#ifndef QKV_SIGNALS_H
#define QKV_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// Installs handlers for Ctrl-C (exit code 130) and for a mapped file that is truncated (exit code
// 6), and makes writing to a closed pipe an error (exit code 6). Opens descriptors 0, 1 and 2 if
// they are closed, so that no file gets the number of stdout.
void cmd_signals_init(void);
// on true: the first Ctrl-C only sets a flag, which cmd_interrupted() returns; the second ends the
// command. on false: the first Ctrl-C ends the command.
void cmd_signals_graceful(bool on);
// Called in the signal handler when Ctrl-C ends the command; NULL: nothing is called.
extern void (*cmd_interrupt_hook)(void);
// The signal by which the system tells a child process that its parent has ended; no caller ignores
// it by default.
enum { CMD_PARENT_ENDED = SIGUSR1 };
// In a child process: lets SIGINT, unless it is ignored, and CMD_PARENT_ENDED end it, after the
// removal of its own temporary files.
void cmd_signals_child(void);
// Registers a temporary file of the command, which is then removed if a signal ends the command.
void cmd_temps_add(const char *temp);
// Removes the registered files, and the temporary files and folders of all outputs; may be called
// in a signal handler.
void cmd_temps_remove(void);

#endif
