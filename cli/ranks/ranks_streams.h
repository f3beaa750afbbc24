// SPDX-License-Identifier: MIT
// ranks_streams.h: declares how the guard of a rank copies what the rank prints, so that the
// launcher sees it when the guard writes it. Standard output and standard error pass through the
// guard if they are pipes or sockets, as mpiexec makes them.
#ifndef QKV_CLI_RANKS_STREAMS_H
#define QKV_CLI_RANKS_STREAMS_H

#include <poll.h>
#include <stdbool.h>

enum { STREAMS = 2 };

// Makes the pipes before the guard is forked. An output without a pipe stays as it is.
void streams_open(void);

// The rank calls these. begin: its outputs pass through the pipes from now on. end: they lead
// to the launcher again; may be called in a signal handler.
void streams_begin(void);
void streams_end(void);

// The guard calls these. keep: closes the descriptors of the rank. ask: fills STREAMS requests of
// poll(); with hold, none to write. copy: reads and writes as poll() has answered, and returns
// whether it has read. drain: copies until the pipes are empty; with closed,
// until the rank has closed them.
void streams_keep(void);
void streams_ask(struct pollfd *asked, bool hold);
bool streams_copy(const struct pollfd *asked);
void streams_drain(bool closed);

#endif
