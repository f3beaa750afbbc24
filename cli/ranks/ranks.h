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
// Prints a note if srun started several tasks without connecting them (--mpi=none): task 0 does.
void ranks_note_alone(void);
// Returns the number of ranks on the host of this one.
int64_t ranks_on_host(void);
// Returns the minimum of x over all ranks.
int64_t ranks_least(int64_t x);
// Returns the bytes of keys and values that ranks collect: given (--collect-limit) or, if it is 0,
// the memory available to a rank, divided by parts: the minimum over all ranks. One rank: given.
size_t ranks_collect_limit(int64_t given, int parts);
void ranks_close(void);

#endif
