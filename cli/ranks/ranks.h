// SPDX-License-Identifier: MIT
// ranks.h: declares how a command runs on several ranks (mpirun -n P qkv ...): rank 0 prints and
// writes, an error ends all ranks with one message and one exit code.
#ifndef QKV_CLI_RANKS_H
#define QKV_CLI_RANKS_H

#include "frame/cmd.h"
#include <qkv/ranks.h>

extern struct qkv_comm ranks; // size 1 until ranks_open(), and if mpirun did not start the command

// Connects the ranks. Ranks other than 0 then print nothing on standard output. Ends the command
// with a message if a rank has another version, instruction set or command line.
void ranks_open(int argc, char **argv);
// Ends a command that does not run on ranks if a launcher started several processes: rank 0 prints
// that, and what to do instead.
void ranks_refuse(const char *command, const char *instead);
// Returns QKV_OK if no rank has an error. If one has, its message is printed, with the number of
// the rank, and all ranks end with its code.
void ranks_agree(const qkv_error *err);
void ranks_close(void);

#endif
