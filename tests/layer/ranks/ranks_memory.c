// SPDX-License-Identifier: MIT
// ranks_memory.c: a rank without memory for the copies of its messages sends them all the same, so
// that no other rank waits for ever.
//
// usage: mpirun -n P env QKV_LIBRARY=libqkv_mpi-KIND.so ranks_memory
#include "layer/ranks/mpi/mpi_ranks.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 1 << 20, ROUNDS = 3 };

static int64_t poor = -1; // the rank whose allocations fail
static struct qkv_comm c;
static void *allocate(size_t count, size_t size)
{
    return c.rank == poor ? NULL : malloc(count * size);
}

// Every rank sends to all others, then receives from all, as the pipeline of attention does; only
// the poor one waits in its sends.
static bool pass(int round)
{
    int64_t *x = malloc(NUMBERS * sizeof *x);
    bool good = x != NULL;
    for (int64_t r = 0; r < c.size && good; r++) {
        for (int64_t i = 0; i < NUMBERS; i++) x[i] = c.rank * 1000 + round + i;
        if (r != c.rank) good = c.send(c.ctx, r, x, NUMBERS * sizeof *x) == QKV_OK;
        for (int64_t i = 0; i < NUMBERS; i++) x[i] = -1; // data may be changed afterwards
    }
    for (int64_t r = 0; r < c.size && good; r++) {
        if (r == c.rank) continue;
        good = c.receive(c.ctx, r, x, NUMBERS * sizeof *x) == QKV_OK;
        for (int64_t i = 0; i < NUMBERS && good; i++) good = x[i] == r * 1000 + round + i;
    }
    free(x);
    return good;
}

int main(void)
{
    static const struct mpi_host host = { allocate, free };
    const char *path = getenv("QKV_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    mpi_ranks_function *function = NULL;
    if (library) *(void **)&function = dlsym(library, MPI_RANKS_NAME);
    const struct mpi_ranks *mpi = function ? function(MPI_RANKS_VERSION, &host) : NULL;
    if (!mpi || mpi->open(&c)) {
        fprintf(stderr, "ranks_memory: the library is missing\n");
        return QKV_ERR_USAGE;
    }
    int64_t wrong = 0;
    for (int round = 0; round < ROUNDS && c.size > 1; round++) {
        poor = round % c.size;
        if (!pass(round)) wrong = 1;
        if (c.reduce(c.ctx, &wrong, 1)) wrong = 1;
    }
    if (wrong) printf("rank %lld: a message was lost or differs\n", (long long)c.rank);
    mpi->close(&c);
    return wrong ? QKV_ERR_INTERNAL : QKV_OK;
}
