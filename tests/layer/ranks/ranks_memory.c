// SPDX-License-Identifier: MIT
// ranks_memory.c: a rank without memory for the copies of its messages sends them all the same, so
// that no other rank waits for ever. If several ranks are without memory, all end with
// QKV_ERR_LIMIT: the program then exits with 5.
//
// usage: mpirun -n P env QKV_LIBRARY=libqkv_mpi-KIND.so ranks_memory [POOR FROM STEP]
//   POOR ranks, from rank 0 on, have no memory from their (FROM + STEP * rank)-th message on
#include "layer/ranks/mpi/mpi_ranks.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NUMBERS = 1 << 20, ROUNDS = 3 };

static int64_t poor = -1; // the rank whose allocations fail
static int64_t left = -1; // messages for which this rank has memory; -1: all
static struct qkv_comm c;
static void *allocate(size_t count, size_t size)
{
    return c.rank == poor || left == 0 ? NULL : malloc(count * size);
}

// Every rank sends to all others, then receives from all, as the pipeline of attention does; only
// the poor one waits in its sends.
static qkv_status send(int64_t to, const void *data, size_t n)
{
    const qkv_status status = c.send(c.ctx, to, data, n);
    if (left > 0) left--;
    return status;
}
static bool pass(int round)
{
    int64_t *x = malloc(NUMBERS * sizeof *x);
    bool good = x != NULL;
    for (int64_t r = 0; r < c.size && good; r++) {
        for (int64_t i = 0; i < NUMBERS; i++) x[i] = c.rank * 1000 + round + i;
        if (r != c.rank) good = send(r, x, NUMBERS * sizeof *x) == QKV_OK;
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

// Several ranks are without memory. Returns QKV_ERR_LIMIT if each function of this rank has it.
static qkv_status fail_all(const char *const *argument)
{
    const long ranks = strtol(argument[0], NULL, 10), from = strtol(argument[1], NULL, 10);
    const long step = strtol(argument[2], NULL, 10);
    const size_t all[8] = { 0 };
    int64_t x = c.size - c.rank;
    char byte = 0;
    if (c.rank < ranks) left = from + step * c.rank;
    for (int round = 0; round < ROUNDS && pass(round); round++) {
    }
    const bool limit = c.send(c.ctx, 0, &byte, 1) == QKV_ERR_LIMIT &&
                       c.receive(c.ctx, 0, &byte, 1) == QKV_ERR_LIMIT &&
                       c.gather(c.ctx, &byte, all, all) == QKV_ERR_LIMIT &&
                       c.reduce(c.ctx, &x, 1) == QKV_ERR_LIMIT && c.barrier(c.ctx) == QKV_ERR_LIMIT;
    return limit ? QKV_ERR_LIMIT : QKV_ERR_INTERNAL;
}

int main(int count, char **argument)
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
    if (count == 4) {
        const qkv_status status = fail_all((const char *const *)argument + 1);
        int64_t first = c.size - c.rank;
        const bool last = mpi->last(&first); // all ranks are here, and agree on the first one
        mpi->close(&c);
        if (!last || first != c.size)
            printf("rank %lld: the ranks did not meet\n", (long long)c.rank);
        fflush(stdout);
        _exit(last && first == c.size ? status : QKV_ERR_INTERNAL);
    }
    for (int round = 0; round < ROUNDS && c.size > 1; round++) {
        poor = round % c.size;
        if (!pass(round)) wrong = 1;
        if (c.reduce(c.ctx, &wrong, 1)) wrong = 1;
    }
    if (wrong) printf("rank %lld: a message was lost or differs\n", (long long)c.rank);
    mpi->close(&c);
    return wrong ? QKV_ERR_INTERNAL : QKV_OK;
}
