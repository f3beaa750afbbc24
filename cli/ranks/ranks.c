// SPDX-License-Identifier: MIT
// ranks.c: runs a command on several ranks.
#include "ranks/ranks.h"
#include "frame/signals.h"
#include "ranks/ranks_guard.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct qkv_comm ranks = { .size = 1 };

// A process of the same host, and its rank. A signal handler asks which of them has ended.
static struct {
    int64_t *pid; // [size] process of each rank, 0 if it is on another host
    volatile sig_atomic_t size;
} peers;

// ---- the end of a rank --------------------------------------------------------------------------
static void put(char **to, const char *text)
{
    const size_t n = strlen(text);
    memcpy(*to, text, n);
    *to += n;
}
static void put_number(char **to, int64_t n)
{
    char digits[24], *at = digits + sizeof digits;
    *--at = 0;
    do {
        *--at = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    put(to, at);
}

// The launcher ends all ranks by SIGTERM when one has ended. Prints which one, if it was on this
// host, and ends with the code of an error of input and output. Only async-signal-safe calls are
// allowed here.
static void on_end_of_rank(int number)
{
    char text[160], *end = text;
    int64_t lost = -1;
    (void)number;
    cmd_temps_remove();
    if (!peers.size) _exit(QKV_ERR_IO); // not connected yet: the rank that failed may have printed
    for (int64_t r = 0; r < peers.size && lost < 0; r++) {
        struct process p;
        if (!peers.pid[r] || r == ranks.rank) continue;
        if (!ranks_process(peers.pid[r], &p) || p.state == 'Z' || p.state == 'X') lost = r;
    }
    put(&end, common.json ? "{\"status\":\"io\",\"code\":6,\"text\":\"" : "qkv: ");
    put(&end, lost < 0 ? "the launcher ended this rank" : "rank ");
    if (lost >= 0) {
        put_number(&end, lost);
        put(&end, " has ended before the others");
    }
    put(&end, common.json ? "\"}\n" : "\n");
    // The first rank of this host that is left prints, or rank 0 if none of this host has ended.
    // All stay a moment, so that the others see them alive.
    const struct timespec moment = { .tv_nsec = 300000000 };
    int64_t first = 0;
    while (lost >= 0 && (first == lost || !peers.pid[first])) first++;
    const bool prints = ranks.rank == first;
    if (!prints || write(2, text, (size_t)(end - text)) > 0) nanosleep(&moment, NULL);
    _exit(QKV_ERR_IO);
}

// Collects the processes of the ranks of this host.
static qkv_status find_peers(void)
{
    struct peer {
        char host[64];
        int64_t pid, start;
    } *all = cmd_alloc((size_t)ranks.size, sizeof *all);
    size_t *at = cmd_alloc((size_t)ranks.size * 2, sizeof *at), *n = at + ranks.size;
    memset(all, 0, (size_t)ranks.size * sizeof *all);
    if (gethostname(all[ranks.rank].host, sizeof all->host - 1) != 0) *all[ranks.rank].host = 0;
    struct process own = { 0 };
    if (ranks_process(getpid(), &own)) all[ranks.rank].start = own.start;
    all[ranks.rank].pid = getpid();
    for (int64_t r = 0; r < ranks.size; r++) {
        at[r] = (size_t)r * sizeof *all;
        n[r] = sizeof *all;
    }
    const qkv_status status = ranks.gather(ranks.ctx, all, at, n);
    peers.pid = cmd_alloc((size_t)ranks.size, sizeof *peers.pid);
    for (int64_t r = 0; r < ranks.size; r++)
        peers.pid[r] = strcmp(all[r].host, all[ranks.rank].host) ? 0 : all[r].pid;
    for (int64_t r = 0; r < ranks.size && !status; r++)
        if (peers.pid[r]) ranks_guard_peer(r, ranks.rank, all[r].pid, all[r].start);
    free(all);
    free(at);
    if (!status) peers.size = (sig_atomic_t)ranks.size;
    return status;
}

// Begins to handle SIGTERM, by which Open MPI ends the ranks after one has ended.
static void catch_end_of_rank(void)
{
    struct sigaction a = { .sa_handler = on_end_of_rank };
    sigemptyset(&a.sa_mask);
    sigaction(SIGTERM, &a, NULL);
}

// ---- the connection -----------------------------------------------------------------------------
static void end(qkv_status code)
{
    ranks_close();
    cmd_temps_remove();
    _exit(code);
}

// Ends the process if MPI itself waits, as it may without memory.
static void on_alarm(int number)
{
    (void)number;
    ranks_guard_end();
    _exit(QKV_ERR_LIMIT);
}

// A rank and its error as one number, of which the largest is that of the first rank with an error;
// 0: no error.
enum { CODES = 256 };
static int64_t cause_of(const qkv_error *own)
{
    return own->status ? (ranks.size - ranks.rank) * CODES + own->status : 0;
}
static int64_t rank_of(int64_t cause)
{
    return cause ? ranks.size - cause / CODES : 0;
}
static qkv_status status_of(int64_t cause)
{
    return (qkv_status)(cause % CODES);
}

// Ends the command after an error of the connection, of which own says more if this rank is the
// cause: all ranks end with the code of the first cause, whose rank prints it.
static _Noreturn void end_lost(qkv_status status, const qkv_error *own)
{
    enum { SECONDS = 20 };
    qkv_error err = { 0 };
    int64_t first = cause_of(own);
    const bool cause = own->status != QKV_OK;
    int64_t none = 0;
    signal(SIGTERM, SIG_IGN); // the launcher ends the ranks after the first one
    signal(SIGALRM, on_alarm);
    alarm(SECONDS);
    const bool all = qkv_ranks_last(&ranks, &first);
    if (first) status = status_of(first);
    const int64_t reporter = rank_of(first);
    if (all ? ranks.rank == reporter : cause || ranks.rank == 0) {
        if (cause && ranks.rank)
            cmd_error(&err, own->status, own->path[0] ? own->path : NULL, "rank %lld: %s",
                      (long long)ranks.rank, own->text);
        if (!cause)
            cmd_error(&err, status, NULL,
                      status == QKV_ERR_LIMIT ? "out of memory for messages between ranks"
                                              : "a rank cannot be reached");
        cmd_fail(cause && !ranks.rank ? own : &err);
    }
    if (all) qkv_ranks_last(&ranks, &none); // no rank ends before the message is printed
    ranks_guard_end();
    qkv_ranks_close(&ranks);
    cmd_temps_remove();
    _exit(status);
}

// Ends all ranks with the error of a failed allocation, of which the others do not know.
static void out_of_memory(const qkv_error *err)
{
    ranks.fail(ranks.ctx, err->status);
    end_lost(err->status, err);
}

// Ends a rank without a connection. The launcher ends the others when one has ended, so rank 0,
// which may have the same error, prints first: then this rank is ended while it waits.
static _Noreturn void end_alone(const qkv_error *err)
{
    enum { SECONDS = 5 };
    qkv_error own = *err;
    if (ranks.rank)
        cmd_error(&own, err->status, err->path[0] ? err->path : NULL, "rank %lld: %s",
                  (long long)ranks.rank, err->text);
    if (!ranks.rank || sleep(SECONDS) == 0) cmd_fail(&own);
    cmd_temps_remove();
    _exit(err->status);
}

// ---- the command line ---------------------------------------------------------------------------
// Returns the words of the command line, each with its final NUL, and their bytes in *n.
static char *line_of(int argc, char **argv, size_t *n)
{
    *n = 0;
    for (int i = 0; i < argc; i++) *n += strlen(argv[i]) + 1;
    char *line = cmd_alloc(*n + 1, 1), *to = line;
    for (int i = 0; i < argc; i++) {
        put(&to, argv[i]);
        *to++ = 0;
    }
    return line;
}

// Writes to err the first word in which the line b differs from line a of rank 0.
static void compare_words(const char *a, size_t a_bytes, const char *b, size_t b_bytes,
                          int64_t rank, qkv_error *err)
{
    const char *const a_end = a + a_bytes, *const b_end = b + b_bytes;
    int64_t word = 0; // the name of the command that runs is word 0
    for (; a < a_end && b < b_end && !strcmp(a, b); word++) {
        a += strlen(a) + 1;
        b += strlen(b) + 1;
    }
    memset(err, 0, sizeof *err);
    cmd_error(err, QKV_ERR_USAGE, NULL,
              "rank %lld has another command line than rank 0: expected %s%.200s%s as word %lld, "
              "found %s%.200s%s",
              (long long)rank, a < a_end ? "'" : "", a < a_end ? a : "the end",
              a < a_end ? "'" : "", (long long)word, b < b_end ? "'" : "",
              b < b_end ? b : "the end", b < b_end ? "'" : "");
}

// Collects the command lines, of which one differs, and names in err the first word that does.
// Returns QKV_ERR_USAGE, or another error if the connection fails.
static qkv_status differing_word(const char *line, size_t bytes, qkv_error *err)
{
    const size_t size = (size_t)ranks.size, rank = (size_t)ranks.rank;
    size_t *at = cmd_alloc(size * 3, sizeof *at), *n = at + size, *all = n + size, total = 0;
    for (size_t r = 0; r < size; r++) {
        at[r] = r * sizeof *all;
        n[r] = sizeof *all;
    }
    all[rank] = bytes;
    qkv_status status = ranks.gather(ranks.ctx, all, at, n);
    for (size_t r = 0; r < size && !status; r++) {
        at[r] = total;
        total += all[r];
    }
    char *lines = cmd_alloc(total + 1, 1);
    memcpy(lines + (status ? 0 : at[rank]), line, status ? 0 : bytes);
    if (!status) status = ranks.gather(ranks.ctx, lines, at, all);
    size_t r = 1;
    while (!status && r + 1 < size && all[r] == all[0] && !memcmp(lines + at[r], lines, all[0]))
        r++;
    if (!status) compare_words(lines, all[0], lines + at[r], all[r], (int64_t)r, err);
    free(lines);
    free(at);
    return status ? status : QKV_ERR_USAGE;
}

void ranks_open(int argc, char **argv)
{
    qkv_error err = { 0 };
    size_t bytes;
    if (qkv_ranks_started(NULL) > 1) {
        catch_end_of_rank();
        ranks_guard();
    }
    const qkv_status opened = qkv_ranks_open(&ranks, &err);
    if (opened) {
        if (ranks.size == 1) end_alone(&err);
        if (opened != QKV_ERR_UNSUPPORTED) end_lost(opened, &(qkv_error){ 0 }); // by another rank
        if (ranks.rank == 0) cmd_fail(&err);
        end(opened);
    }
    if (ranks.size == 1) return;
    cmd_memory_hook = out_of_memory;
    char *line = line_of(argc, argv, &bytes);
    qkv_status status = qkv_ranks_same(&ranks, "command line", line, bytes, &err);
    if (status == QKV_ERR_USAGE) status = differing_word(line, bytes, &err);
    free(line);
    if (!status) {
        const qkv_status lost = find_peers();
        if (lost) end_lost(lost, &err);
    } else if (status != QKV_ERR_USAGE) {
        end_lost(status, &(qkv_error){ 0 });
    } else {
        if (ranks.rank == 0) cmd_fail(&err);
        end(status);
    }
    if (ranks.rank && !freopen("/dev/null", "w", stdout)) end(QKV_ERR_IO);
}

void ranks_refuse(const char *command, const char *instead)
{
    qkv_error err = { 0 };
    int64_t rank;
    if (qkv_ranks_started(&rank) == 1) return;
    cmd_error(&err, QKV_ERR_USAGE, NULL,
              "%s cannot run on several ranks, on which each would do the same work; %s", command,
              instead);
    // a launcher ends the other ranks when one has ended: rank 0 prints first
    const struct timespec moment = { .tv_nsec = 300000000 };
    if (rank)
        nanosleep(&moment, NULL);
    else
        cmd_fail(&err);
    _exit(QKV_ERR_USAGE);
}

void ranks_agree(const qkv_error *err)
{
    if (ranks.size == 1) return;
    // the message and the code are those that the first rank with an error has
    int64_t first = cause_of(err);
    const qkv_status status = ranks.reduce(ranks.ctx, &first, 1);
    qkv_error lost = { 0 };
    if (status) end_lost(status, err);
    if (!first) return;
    if (rank_of(first) == ranks.rank) {
        if (ranks.rank)
            cmd_error(&lost, err->status, err->path[0] ? err->path : NULL, "rank %lld: %s",
                      (long long)ranks.rank, err->text);
        cmd_fail(ranks.rank ? &lost : err);
    }
    end(status_of(first));
}

void ranks_note_alone(void)
{
    static const char *const connected[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK" };
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS"), *task = getenv("SLURM_PROCID");
    if (ranks.size > 1 || !tasks || !task || strtol(tasks, NULL, 10) < 2 || strcmp(task, "0") != 0)
        return;
    for (size_t i = 0; i < sizeof connected / sizeof *connected; i++)
        if (getenv(connected[i])) return;
    cmd_note("srun started %.20s tasks without MPI, so each runs this command alone; srun "
             "--mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH) connects them as ranks",
             tasks);
}

int64_t ranks_on_host(void)
{
    int64_t n = 0;
    for (int64_t r = 0; r < peers.size; r++) n += peers.pid[r] != 0;
    return n ? n : 1;
}

int64_t ranks_least(int64_t x)
{
    int64_t most = -x;
    if (ranks.size == 1) return x;
    const qkv_status status = ranks.reduce(ranks.ctx, &most, 1);
    if (status) end_lost(status, &(qkv_error){ 0 });
    return -most;
}

void ranks_close(void)
{
    peers.size = 0;
    signal(SIGTERM, SIG_DFL);
    ranks_guard_end();
    qkv_ranks_close(&ranks);
}
