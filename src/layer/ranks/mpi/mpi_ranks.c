// SPDX-License-Identifier: MIT
// mpi_ranks.c: the functions of struct qkv_comm by MPI.
//
// MPI moves a message over a network only while a function of MPI runs. So that messages arrive
// while a rank computes, a thread of each rank moves the messages that are on their way. Ranks of
// one machine have no such thread: they read each other's memory.
#include "layer/ranks/mpi/mpi_ranks.h"
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

// MPI counts in int: longer messages are sent in pieces. ALWAYS: the thread runs on one machine too.
#ifdef QKV_TINY_TILES // small tests send pieces, and have the thread
enum { PIECE = 10000, TAG = 1, ALWAYS = 1 };
#else
enum { PIECE = 1 << 30, TAG = 1, ALWAYS = 0 };
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
    // The thread that moves messages. MPI is called by one thread at a time, which has the lock.
    pthread_mutex_t lock;
    pthread_cond_t more; // there are messages, or the thread ends
    pthread_t thread;
    bool runs, ends;
} mpi = { .comm = MPI_COMM_NULL,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .more = PTHREAD_COND_INITIALIZER };

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

static void *move_messages(void *ctx)
{
    const struct timespec pause = { .tv_nsec = 100000 };
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    while (!mpi.ends) {
        if (!mpi.sent) {
            pthread_cond_wait(&mpi.more, &mpi.lock);
            continue;
        }
        release_sent(false); // an error is found again by the next function
        pthread_mutex_unlock(&mpi.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&mpi.lock);
    }
    pthread_mutex_unlock(&mpi.lock);
    return NULL;
}

// Begins the thread, which takes no signals. Without it messages move later.
static void begin_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
    mpi.ends = false;
    mpi.runs = pthread_create(&mpi.thread, NULL, move_messages, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void end_thread(void)
{
    if (!mpi.runs) return;
    pthread_mutex_lock(&mpi.lock);
    mpi.ends = true;
    pthread_cond_signal(&mpi.more);
    pthread_mutex_unlock(&mpi.lock);
    pthread_join(mpi.thread, NULL);
    mpi.runs = false;
}

static qkv_status end_call(qkv_status status)
{
    pthread_mutex_unlock(&mpi.lock);
    return status;
}

// Sends without a copy, for which there is no memory: waits until the message is received.
static qkv_status send_directly(int64_t to, const void *data, size_t n)
{
    for (int i = 0; i < pieces_of(n); i++) {
        const size_t at = (size_t)i * PIECE;
        if (MPI_Send((const char *)data + at, piece_of(n, at), MPI_BYTE, (int)to, TAG, mpi.comm) !=
            MPI_SUCCESS)
            return QKV_ERR_IO;
    }
    return QKV_OK;
}

static qkv_status send_message(int64_t to, const void *data, size_t n)
{
    const int pieces = pieces_of(n);
    struct message *x = mpi.host->alloc(1, sizeof *x + (size_t)pieces * sizeof *x->request);
    char *copy = mpi.host->alloc(n ? n : 1, 1);
    if (!x || !copy) {
        mpi.host->release(x);
        mpi.host->release(copy);
        return send_directly(to, data, n); // the other rank waits for it
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
    pthread_cond_signal(&mpi.more);
    return release_sent(false) == MPI_SUCCESS ? QKV_OK : QKV_ERR_IO;
}
static qkv_status mpi_send(void *ctx, int64_t to, const void *data, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(send_message(to, data, n));
}

static qkv_status receive_message(int64_t from, void *data, size_t n)
{
    for (int i = 0; i < pieces_of(n); i++) {
        const size_t at = (size_t)i * PIECE;
        if (MPI_Recv((char *)data + at, piece_of(n, at), MPI_BYTE, (int)from, TAG, mpi.comm,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return QKV_ERR_IO;
    }
    return QKV_OK;
}
static qkv_status mpi_receive(void *ctx, int64_t from, void *data, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(receive_message(from, data, n));
}

// ---- all ranks -----------------------------------------------------------------------------------
// Each rank passes what it received last to the next rank: P - 1 steps around the ring.
static qkv_status pass_around(const struct qkv_comm *c, void *all, const size_t *at,
                              const size_t *n)
{
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
static qkv_status mpi_gather(void *ctx, void *all, const size_t *at, const size_t *n)
{
    pthread_mutex_lock(&mpi.lock);
    return end_call(pass_around(ctx, all, at, n));
}

static qkv_status mpi_reduce(void *ctx, int64_t *x, size_t n)
{
    int code = MPI_SUCCESS;
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    for (size_t at = 0; at < n && code == MPI_SUCCESS; at += PIECE)
        code = MPI_Allreduce(MPI_IN_PLACE, x + at, piece_of(n, at), MPI_INT64_T, MPI_MAX, mpi.comm);
    return end_call(code == MPI_SUCCESS ? QKV_OK : QKV_ERR_IO);
}

static qkv_status mpi_barrier(void *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(MPI_Barrier(mpi.comm) == MPI_SUCCESS ? QKV_OK : QKV_ERR_IO);
}

// ---- the connection ------------------------------------------------------------------------------
// Returns the number of ranks on this machine; 0: unknown.
static int on_this_machine(void)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int size = 0;
    if (MPI_Comm_split_type(mpi.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm) != MPI_SUCCESS)
        return 0;
    if (MPI_Comm_size(comm, &size) != MPI_SUCCESS) size = 0;
    MPI_Comm_free(&comm);
    return size;
}

static const char *mpi_open(struct qkv_comm *c)
{
    int begun, ended, rank, size, level;
    if (MPI_Finalized(&ended) != MPI_SUCCESS || ended) return "MPI has ended in this process";
    if (MPI_Initialized(&begun) != MPI_SUCCESS) return "MPI cannot be asked";
    if (!begun && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return "MPI cannot be started";
    if (MPI_Comm_dup(MPI_COMM_WORLD, &mpi.comm) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(mpi.comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(mpi.comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(mpi.comm, &size) != MPI_SUCCESS)
        return "MPI has no communicator";
    if (MPI_Query_thread(&level) == MPI_SUCCESS && level >= MPI_THREAD_SERIALIZED &&
        (ALWAYS || on_this_machine() < size))
        begin_thread();
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
    end_thread();
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
