// SPDX-License-Identifier: MIT
// mpi_ranks.c: the functions of struct qkv_comm by MPI.
#include "layer/ranks/mpi/mpi_ranks.h"
#include <mpi.h>
#include <stdbool.h>
#include <string.h>

// MPI counts in int: longer messages are sent in pieces.
#ifdef QKV_TINY_TILES // small tests send pieces too
enum { PIECE = 1000, TAG = 1 };
#else
enum { PIECE = 1 << 30, TAG = 1 };
#endif

// A message that may be on its way.
struct message {
    struct message *next;
    char *data;
    int pieces;
    MPI_Request request[];
};
static struct {
    const struct mpi_host *host;
    MPI_Comm comm;
    struct message *sent;
} mpi = { .comm = MPI_COMM_NULL };

static int piece_of(size_t n, size_t at)
{
    return (int)(n - at < PIECE ? n - at : PIECE);
}
static int pieces_of(size_t n)
{
    return n ? (int)((n - 1) / PIECE + 1) : 1;
}

// ---- sending and receiving -----------------------------------------------------------------------
// Releases messages that have arrived; with wait, waits for all.
static int release_sent(bool wait)
{
    struct message **at = &mpi.sent;
    while (*at) {
        struct message *x = *at;
        int all = 1;
        for (int i = 0; i < x->pieces && all; i++) { // a piece that has arrived stays so
            const int code = wait ? MPI_Wait(&x->request[i], MPI_STATUS_IGNORE)
                                  : MPI_Test(&x->request[i], &all, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS) return code;
        }
        if (!all) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        mpi.host->release(x->data);
        mpi.host->release(x);
    }
    return MPI_SUCCESS;
}

static qkv_status mpi_send(void *ctx, int64_t to, const void *data, size_t n)
{
    const int pieces = pieces_of(n);
    struct message *x = mpi.host->alloc(1, sizeof *x + (size_t)pieces * sizeof *x->request);
    char *copy = mpi.host->alloc(n ? n : 1, 1);
    (void)ctx;
    if (!x || !copy) {
        mpi.host->release(x);
        mpi.host->release(copy);
        return QKV_ERR_LIMIT;
    }
    if (n) memcpy(copy, data, n);
    x->data = copy;
    x->pieces = 0;
    x->next = mpi.sent;
    mpi.sent = x;
    for (int i = 0; i < pieces; i++) {
        const size_t at = (size_t)i * PIECE;
        if (MPI_Isend(copy + at, piece_of(n, at), MPI_BYTE, (int)to, TAG, mpi.comm,
                      &x->request[i]) != MPI_SUCCESS)
            return QKV_ERR_IO;
        x->pieces = i + 1;
    }
    return release_sent(false) == MPI_SUCCESS ? QKV_OK : QKV_ERR_IO;
}

static qkv_status mpi_receive(void *ctx, int64_t from, void *data, size_t n)
{
    (void)ctx;
    for (int i = 0; i < pieces_of(n); i++) {
        const size_t at = (size_t)i * PIECE;
        if (MPI_Recv((char *)data + at, piece_of(n, at), MPI_BYTE, (int)from, TAG, mpi.comm,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return QKV_ERR_IO;
    }
    return QKV_OK;
}

// ---- all ranks -----------------------------------------------------------------------------------
// Each rank passes what it received last to the next rank: P - 1 steps around the ring.
static qkv_status mpi_gather(void *ctx, void *all, const size_t *at, const size_t *n)
{
    const struct qkv_comm *c = ctx;
    const int P = (int)c->size, rank = (int)c->rank, right = (rank + 1) % P,
              left = (rank + P - 1) % P;
    for (int step = 0; step + 1 < P; step++) {
        const int out = (rank + P - step) % P, in = (rank + P - step - 1) % P;
        const int out_pieces = pieces_of(n[out]), in_pieces = pieces_of(n[in]);
        for (int i = 0; i < out_pieces || i < in_pieces; i++) {
            const size_t place = (size_t)i * PIECE;
            const bool sends = i < out_pieces, receives = i < in_pieces;
            char *to = receives ? (char *)all + at[in] + place : NULL;
            const char *from = sends ? (const char *)all + at[out] + place : NULL;
            if (MPI_Sendrecv(from, sends ? piece_of(n[out], place) : 0, MPI_BYTE,
                             sends ? right : MPI_PROC_NULL, TAG, to,
                             receives ? piece_of(n[in], place) : 0, MPI_BYTE,
                             receives ? left : MPI_PROC_NULL, TAG, mpi.comm,
                             MPI_STATUS_IGNORE) != MPI_SUCCESS)
                return QKV_ERR_IO;
        }
    }
    return QKV_OK;
}

static qkv_status mpi_reduce(void *ctx, int64_t *x, size_t n)
{
    (void)ctx;
    for (size_t at = 0; at < n; at += PIECE)
        if (MPI_Allreduce(MPI_IN_PLACE, x + at, piece_of(n, at), MPI_INT64_T, MPI_MAX, mpi.comm) !=
            MPI_SUCCESS)
            return QKV_ERR_IO;
    return QKV_OK;
}

static qkv_status mpi_barrier(void *ctx)
{
    (void)ctx;
    return MPI_Barrier(mpi.comm) == MPI_SUCCESS ? QKV_OK : QKV_ERR_IO;
}

// ---- the connection ------------------------------------------------------------------------------
static const char *mpi_open(struct qkv_comm *c)
{
    int begun, ended, rank, size, level;
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended) return "MPI has ended in this process";
    if (MPI_Initialized(&begun) != MPI_SUCCESS) return "MPI cannot be asked";
    if (!begun && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return "MPI cannot be started";
    if (MPI_Comm_dup(MPI_COMM_WORLD, &mpi.comm) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(mpi.comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(mpi.comm, &size) != MPI_SUCCESS)
        return "MPI has no communicator";
    *c = (struct qkv_comm){ .rank = rank,
                            .size = size,
                            .ctx = c,
                            .send = mpi_send,
                            .receive = mpi_receive,
                            .gather = mpi_gather,
                            .reduce = mpi_reduce,
                            .barrier = mpi_barrier };
    return NULL;
}

static void mpi_close(struct qkv_comm *c)
{
    (void)c;
    if (release_sent(true) == MPI_SUCCESS) MPI_Comm_free(&mpi.comm);
    MPI_Finalize();
}

__attribute__((visibility("default"))) mpi_ranks_function qkv_mpi_ranks;
const struct mpi_ranks *qkv_mpi_ranks(int version, const struct mpi_host *host)
{
    static const struct mpi_ranks functions = { mpi_open, mpi_close };
    mpi.host = host;
    return version == MPI_RANKS_VERSION ? &functions : NULL;
}
