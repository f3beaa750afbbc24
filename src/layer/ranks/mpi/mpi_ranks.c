// SPDX-License-Identifier: MIT
// mpi_ranks.c: the functions of struct qkv_comm by MPI.
//
// MPI moves a message over a network only while a function of MPI runs. So that messages arrive
// while a rank computes, a thread of each rank moves the messages that are on their way. Ranks of
// one machine have no such thread: they read each other's memory.
//
// Every wait also ends by a notice: a rank that fails tells all others, and every function of every
// rank returns its error from then on. A rank that has no memory for the copy of a message waits
// until the message is received, and tells that too: if two ranks wait so, one may wait for the
// other, so they fail.
#include "layer/ranks/mpi/mpi_ranks.h"
#include <errno.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// MPI counts in int: longer messages are sent in pieces. ALWAYS: the thread runs on one machine too.
#ifdef QKV_TINY_TILES // small tests send pieces, and have the thread
enum { PIECE = 10000, TAG = 1, ALWAYS = 1 };
#else
enum { PIECE = 1 << 30, TAG = 1, ALWAYS = 0 };
#endif
// REDUCED: numbers that are reduced at once. SECONDS: how long a rank waits for others after a
// failure. POLLS: how often it asks MPI before it also lets others run.
enum { REDUCED = 64, SECONDS = 5, POLLS = 100 };

// What a rank tells all others.
enum notice { FAILS, WAITS, CONTINUES };

// A message that may be on its way.
struct message {
    struct message *next;
    char *data;
    int pieces;
    MPI_Request request[];
};
static struct {
    const struct mpi_host *host;
    MPI_Comm comm, notices; // of messages, and of notices
    struct message *sent;
    int rank, size;
    int64_t heard[2];    // a notice of another rank: enum notice, qkv_status
    MPI_Request hearing; // receives it
    int waiting;         // other ranks that wait since they have no memory for a copy
    qkv_status failed;   // of any rank; QKV_OK: none
    // After a failure: the message that this rank was sending from the caller's memory; whether the
    // rank has waited until no rank receives; whether it may make no other call of MPI, which might
    // move a message from or to memory of the caller; whether all ranks have called `last`.
    MPI_Request sending;
    bool settled, lost, met;
    // The thread that moves messages. MPI is called by one thread at a time, which has the lock.
    pthread_mutex_t lock;
    pthread_cond_t more; // there are messages, or the thread ends
    pthread_t thread;
    bool runs, ends;
} mpi = { .comm = MPI_COMM_NULL,
          .notices = MPI_COMM_NULL,
          .hearing = MPI_REQUEST_NULL,
          .sending = MPI_REQUEST_NULL,
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

// ---- notices -------------------------------------------------------------------------------------
static int listen_again(void)
{
    return MPI_Irecv(mpi.heard, 2, MPI_INT64_T, MPI_ANY_SOURCE, TAG, mpi.notices, &mpi.hearing);
}

static void hear(void)
{
    if (mpi.heard[0] == FAILS && !mpi.failed) mpi.failed = (qkv_status)mpi.heard[1];
    if (mpi.heard[0] == WAITS) mpi.waiting++;
    if (mpi.heard[0] == CONTINUES) mpi.waiting--;
    if (listen_again() != MPI_SUCCESS && !mpi.failed) mpi.failed = QKV_ERR_IO;
}

// Tells all others; a notice is so small that MPI does not wait until it is received.
static void tell(enum notice kind, qkv_status status)
{
    const int64_t notice[2] = { kind, status };
    for (int r = 0; r < mpi.size; r++)
        if (r != mpi.rank) MPI_Send(notice, 2, MPI_INT64_T, r, TAG, mpi.notices);
}

// Returns the error of all ranks, which is this one if no rank has failed before.
static qkv_status fail(qkv_status status)
{
    if (mpi.failed) return mpi.failed;
    mpi.failed = status;
    tell(FAILS, status);
    return status;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Waits for a request, at most SECONDS. Returns whether it is complete.
static bool wait_briefly(MPI_Request *request)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    const double end = now() + SECONDS;
    int done = 0;
    while (MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done && now() < end)
        nanosleep(&pause, NULL);
    return done;
}

// Ends a receive after a failure: it is cancelled, or its message has begun and comes to its end.
static void end_receive(MPI_Request *request)
{
    if (*request == MPI_REQUEST_NULL) return;
    MPI_Cancel(request);
    if (!wait_briefly(request)) mpi.lost = true;
}

// Waits after a failure until no rank receives, so that no message is read from the memory of a
// caller later.
static void settle(void)
{
    MPI_Request all = MPI_REQUEST_NULL;
    if (!mpi.failed || mpi.settled) return;
    mpi.settled = true;
    const bool met =
        !mpi.lost && MPI_Ibarrier(mpi.notices, &all) == MPI_SUCCESS && wait_briefly(&all);
    if (!met && mpi.sending != MPI_REQUEST_NULL) mpi.lost = true;
}

// Waits until one of two requests is complete. A rank that has waited for a while gives its core to
// what else runs there: where there are more ranks than cores, to the rank that it waits for.
static int wait_any(MPI_Request *both, int *which)
{
    int code, done = 0;
    for (int n = 0;; n++) {
        code = MPI_Testany(2, both, which, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS || done) return code;
        if (n >= POLLS) sched_yield();
    }
}

// Waits until a request is complete or a rank fails; `alone`: or another rank waits as this one.
static qkv_status complete(MPI_Request *request, bool alone)
{
    while (*request != MPI_REQUEST_NULL) {
        MPI_Request both[] = { *request, mpi.hearing };
        int which = 0;
        if (mpi.failed) return mpi.failed;
        if (alone && mpi.waiting) { // unless it has continued
            int more = 0;
            const int code = MPI_Test(&mpi.hearing, &more, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS || !more) return fail(code ? QKV_ERR_IO : QKV_ERR_LIMIT);
            hear();
            continue;
        }
        if (wait_any(both, &which) != MPI_SUCCESS) return fail(QKV_ERR_IO);
        *request = both[0];
        mpi.hearing = both[1];
        if (which == 1) hear();
    }
    return QKV_OK;
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
        if (!mpi.sent || mpi.failed) {
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
    settle();
    pthread_mutex_unlock(&mpi.lock);
    return status;
}

// Sends without a copy, for which there is no memory: waits until the message is received.
static qkv_status send_directly(int64_t to, const void *data, size_t n)
{
    qkv_status status = to == mpi.rank ? fail(QKV_ERR_LIMIT) : QKV_OK;
    if (status) return status;
    tell(WAITS, QKV_OK);
    for (int i = 0; i < pieces_of(n) && !status; i++) {
        const size_t at = (size_t)i * PIECE;
        MPI_Request request = MPI_REQUEST_NULL;
        if (MPI_Isend((const char *)data + at, piece_of(n, at), MPI_BYTE, (int)to, TAG, mpi.comm,
                      &request) != MPI_SUCCESS)
            return fail(QKV_ERR_IO);
        status = complete(&request, true);
        mpi.sending = request;
    }
    tell(CONTINUES, QKV_OK);
    return status;
}

static qkv_status send_message(int64_t to, const void *data, size_t n)
{
    const int pieces = pieces_of(n);
    if (mpi.failed) return mpi.failed;
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
            return fail(QKV_ERR_IO);
        x->pieces = i + 1;
    }
    pthread_cond_signal(&mpi.more);
    return release_sent(false) == MPI_SUCCESS ? QKV_OK : fail(QKV_ERR_IO);
}
static qkv_status mpi_send(void *ctx, int64_t to, const void *data, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(send_message(to, data, n));
}

static qkv_status receive_message(int64_t from, void *data, size_t n)
{
    qkv_status status = mpi.failed;
    for (int i = 0; i < pieces_of(n) && !status; i++) {
        const size_t at = (size_t)i * PIECE;
        MPI_Request request = MPI_REQUEST_NULL;
        if (MPI_Irecv((char *)data + at, piece_of(n, at), MPI_BYTE, (int)from, TAG, mpi.comm,
                      &request) != MPI_SUCCESS)
            return fail(QKV_ERR_IO);
        status = complete(&request, false);
        end_receive(&request);
    }
    return status;
}
static qkv_status mpi_receive(void *ctx, int64_t from, void *data, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(receive_message(from, data, n));
}

// ---- all ranks -----------------------------------------------------------------------------------
// Sends a piece to one rank while it receives a piece from another; a rank of -1: none.
static qkv_status exchange(int to, const void *data, int n, int from, void *received, int most)
{
    MPI_Request in = MPI_REQUEST_NULL, out = MPI_REQUEST_NULL;
    if (mpi.failed) return mpi.failed;
    if ((from >= 0 &&
         MPI_Irecv(received, most, MPI_BYTE, from, TAG, mpi.comm, &in) != MPI_SUCCESS) ||
        (to >= 0 && MPI_Isend(data, n, MPI_BYTE, to, TAG, mpi.comm, &out) != MPI_SUCCESS))
        fail(QKV_ERR_IO);
    qkv_status status = complete(&in, false);
    if (!status) status = complete(&out, false);
    end_receive(&in);
    mpi.sending = out;
    return status ? status : mpi.failed;
}

// Each rank passes what it received last to the next rank: P - 1 steps around the ring.
static qkv_status pass_around(void *all, const size_t *at, const size_t *n)
{
    const int P = mpi.size, right = (mpi.rank + 1) % P, left = (mpi.rank + P - 1) % P;
    qkv_status status = mpi.failed;
    for (int step = 0; step + 1 < P; step++) {
        const int out = (mpi.rank + P - step) % P, in = (mpi.rank + P - step - 1) % P;
        const int out_pieces = pieces_of(n[out]), in_pieces = pieces_of(n[in]);
        for (int i = 0; (i < out_pieces || i < in_pieces) && !status; i++) {
            const size_t place = (size_t)i * PIECE;
            const bool sends = i < out_pieces, receives = i < in_pieces;
            status =
                exchange(sends ? right : -1, sends ? (const char *)all + at[out] + place : NULL,
                         sends ? piece_of(n[out], place) : 0, receives ? left : -1,
                         receives ? (char *)all + at[in] + place : NULL,
                         receives ? piece_of(n[in], place) : 0);
        }
    }
    return status;
}
static qkv_status mpi_gather(void *ctx, void *all, const size_t *at, const size_t *n)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(pass_around(all, at, n));
}

// Reduces in memory of this file, since MPI may write to it after a failure.
static qkv_status reduce_all(int64_t *x, size_t n)
{
    static int64_t all[REDUCED];
    qkv_status status = mpi.failed;
    for (size_t at = 0; at < n && !status; at += REDUCED) {
        const size_t some = n - at < REDUCED ? n - at : REDUCED;
        MPI_Request request = MPI_REQUEST_NULL;
        memcpy(all, x + at, some * sizeof *x);
        if (MPI_Iallreduce(MPI_IN_PLACE, all, (int)some, MPI_INT64_T, MPI_MAX, mpi.comm,
                           &request) != MPI_SUCCESS)
            return fail(QKV_ERR_IO);
        status = complete(&request, false);
        if (!status) memcpy(x + at, all, some * sizeof *x);
    }
    return status;
}
static qkv_status mpi_reduce(void *ctx, int64_t *x, size_t n)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    return end_call(reduce_all(x, n));
}

static qkv_status mpi_barrier(void *ctx)
{
    int64_t none = 0;
    return mpi_reduce(ctx, &none, 1);
}

static void mpi_fail(void *ctx, qkv_status status)
{
    (void)ctx;
    pthread_mutex_lock(&mpi.lock);
    fail(status);
    end_call(status);
}

static bool mpi_last(int64_t *x)
{
    static int64_t all;
    MPI_Request request = MPI_REQUEST_NULL;
    bool done = false;
    pthread_mutex_lock(&mpi.lock);
    all = *x;
    if (mpi.failed && !mpi.lost &&
        MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT64_T, MPI_MAX, mpi.notices, &request) ==
            MPI_SUCCESS)
        done = wait_briefly(&request);
    if (done) *x = all;
    mpi.met = done;
    mpi.lost = mpi.lost || !done;
    pthread_mutex_unlock(&mpi.lock);
    return done;
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
        MPI_Comm_dup(mpi.comm, &mpi.notices) != MPI_SUCCESS ||
        MPI_Comm_rank(mpi.comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(mpi.comm, &size) != MPI_SUCCESS)
        return "MPI has no communicator";
    mpi.rank = rank;
    mpi.size = size;
    mpi.failed = QKV_OK;
    mpi.sending = MPI_REQUEST_NULL;
    mpi.settled = mpi.lost = mpi.met = false;
    if (listen_again() != MPI_SUCCESS) return "MPI cannot receive";
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
                            .barrier = mpi_barrier,
                            .fail = mpi_fail };
    return NULL;
}

// Waits for all ranks by the barrier of mpiexec, by messages of its protocol; with progress, MPI
// moves messages meanwhile. Returns false if that fails.
static bool meet_by_launcher(int launcher, bool progress)
{
    static const char in[] = "cmd=barrier_in\n";
    char c = 0;
    if (write(launcher, in, sizeof in - 1) != (ssize_t)(sizeof in - 1)) return false;
    while (c != '\n') { // the answer is a line
        struct pollfd asked = { .fd = launcher, .events = POLLIN };
        int any;
        if (progress) MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
        const int answered = poll(&asked, 1, progress ? 1 : -1);
        if (answered < 0 && errno != EINTR) return false;
        if (answered > 0 && read(launcher, &c, 1) != 1 && errno != EINTR) return false;
    }
    return true;
}

// Ends MPI. MPI_Finalize of MPICH 4.0 asks each rank over TCP for an answer, which that rank gives
// while it calls MPI, and then waits for all ranks without giving answers. A rank that has answered
// before it asks may so wait for ever. So no rank asks before each has made its last other call:
// all meet once while MPI makes progress, then once more.
static void finalize(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    const char *const launcher = getenv("PMI_FD"); // the variables of mpiexec
    if (launcher && getenv("MPI_LOCALRANKID") &&
        MPI_Get_library_version(version, &length) == MPI_SUCCESS &&
        !strncmp(version, "MPICH Version:\t4.0", 18)) {
        const int fd = (int)strtol(launcher, NULL, 10);
        if (meet_by_launcher(fd, true)) meet_by_launcher(fd, false);
    }
    MPI_Finalize();
}

static void mpi_close(struct qkv_comm *c)
{
    (void)c;
    end_thread();
    if (mpi.failed) { // what is on its way stays there
        if (mpi.met) finalize();
        return;
    }
    if (release_sent(true) == MPI_SUCCESS) MPI_Comm_free(&mpi.comm);
    MPI_Cancel(&mpi.hearing);
    MPI_Wait(&mpi.hearing, MPI_STATUS_IGNORE);
    MPI_Comm_free(&mpi.notices);
    finalize();
}

__attribute__((visibility("default"))) mpi_ranks_function qkv_mpi_ranks;
const struct mpi_ranks *qkv_mpi_ranks(int version, const struct mpi_host *host)
{
    static const struct mpi_ranks functions = { mpi_open, mpi_close, mpi_last };
    mpi.host = host;
    return version == MPI_RANKS_VERSION ? &functions : NULL;
}
