// SPDX-License-Identifier: MIT
// machines.h: declares the model of the time of attention over ranks (machines_model.c), which
// `qkv bench machines` compares with what it measures, and the messages of the ranks
// (machines_messages.c).
#ifndef QKV_CLI_BENCH_MACHINES_H
#define QKV_CLI_BENCH_MACHINES_H

#include "bench/bench.h"
#include <qkv/ranks.h>

// What one rank and its link can do.
struct machines_rates {
    double flops[2];           // operations per second, forward [0] and backward [1]
    double bandwidth, latency; // bytes per second that a rank sends; seconds of a message
    double memory;             // bytes per second that a rank reads and writes
    double copying;            // bytes per second that one thread reads and writes in a copy
    // Part of a core that the thread needs that moves messages, while one is on its way; 0: there
    // is no such thread.
    double moving;
};
// One pass of attention on P ranks.
struct machines_time {
    double one, many;     // seconds of 1 rank and of P ranks
    double link;          // seconds of P ranks in which nothing is computed because of messages
    double efficiency;    // one / (P many)
    double bytes;         // bytes that a rank sends, the largest of all ranks
    int64_t steps, units; // backward: steps of the pipeline, units whose sums pass
};
// Fills forward [0] and backward [1] for an attention on P ranks. Returns the status of the plans,
// with their reason in err.
qkv_status machines_model(struct machines_time of[2], const struct qkv_attention *a, int64_t ranks,
                          const struct machines_rates *r, qkv_error *err);
// Prints the efficiency of 2 to 64 ranks on links of 10, 100 and 400 Gbit/s.
qkv_status machines_predict(const struct bench_shape *shapes, int count, double gflops,
                            qkv_error *err);

// ---- messages -----------------------------------------------------------------------------------
enum machines_mode {
    MACHINES_TIMED,
    MACHINES_RECORDED, // and timed
    MACHINES_LEFT_OUT  // a function of the ranks does nothing: what is received stays as it was
};
// Returns the ranks of the command with functions that do what the mode says.
struct qkv_comm machines_comm(size_t collect_limit);
// Sets the mode, and the seconds to 0; MACHINES_RECORDED begins a new list of messages.
void machines_messages_begin(enum machines_mode mode);
// Returns the seconds that this rank has spent in messages and in waiting.
double machines_messages_seconds(void);
// Sends and receives the messages of the list again, in their order, with no arithmetic between
// them, and measures the time. All ranks call it.
qkv_status machines_messages_repeat(double *seconds);
void machines_messages_free(void);
#endif
