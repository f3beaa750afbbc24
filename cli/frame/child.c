// SPDX-License-Identifier: MIT
// child.c: runs work in a child process, and reads its result from a pipe.
#include "frame/child.h"
#include "frame/signals.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

double child_peak_memory(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u)) return 0;
#ifdef __APPLE__
    return (double)u.ru_maxrss;
#else
    return (double)u.ru_maxrss * 1024;
#endif
}

enum { UNSENT = 100 }; // exit code of a child that could not send its result

// Makes the child process end when its parent does, however the parent is ended.
static void end_with(pid_t parent)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, CMD_PARENT_ENDED);
    if (getppid() != parent) _exit(QKV_ERR_INTERRUPTED);
#else
    (void)parent;
#endif
}

qkv_status child_try(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, struct child_end *end, qkv_error *err)
{
    int ends[2], status = 0;
    const pid_t self = getpid();
    memset(answer, 0, size);
    *end = (struct child_end){ 0 };
    fflush(NULL);
    if (pipe(ends) != 0)
        return cmd_error(err, cmd_io_status(errno), NULL,
                         "cannot create a pipe to a child process: %s", strerror(errno));
    const pid_t child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "cannot start a child process: %s",
                         strerror(errno));
    }
    if (child == 0) {
        close(ends[0]);
        cmd_signals_child(); // Ctrl-C must end the child; the parent reports it
        end_with(self);
        work(answer, ctx);
        const bool sent = write(ends[1], answer, size) == (ssize_t)size;
        _exit(sent ? 0 : UNSENT);
    }
    close(ends[1]);
    size_t got = 0; // a long result arrives in parts
    int code = 0;
    for (ssize_t n; got < size; got += (size_t)n) {
        while ((n = read(ends[0], (char *)answer + got, size - got)) < 0 && errno == EINTR)
            continue;
        if (n < 0) code = errno;
        if (n < 1) break;
    }
    close(ends[0]);
    // it fails if the caller of this process ignores SIGCHLD: then status is 0
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (got == size) return QKV_OK;
    if (cmd_interrupted() || (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT))
        return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    if (code)
        return cmd_error(err, cmd_io_status(code), NULL,
                         "%s: cannot read the result of the child process: %s", name,
                         strerror(code));
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNSENT)
        return cmd_error(err, QKV_ERR_IO, NULL, "%s: the child process cannot send its result",
                         name);
    *end = (struct child_end){ true, status };
    // the child process has already printed that a mapped file was truncated
    if (WIFEXITED(status) && WEXITSTATUS(status) == QKV_ERR_IO) return err->status = QKV_ERR_IO;
    return QKV_ERR_INTERNAL;
}

qkv_status child_run(void *answer, size_t size, void (*work)(void *answer, void *ctx), void *ctx,
                     const char *name, qkv_error *err)
{
    struct child_end end;
    const qkv_status status = child_try(answer, size, work, ctx, name, &end, err);
    if (!end.ended || status == QKV_ERR_IO) return status;
    // the child process has already printed this error
    if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == QKV_ERR_LIMIT)
        return err->status = QKV_ERR_LIMIT;
    return cmd_error(err, QKV_ERR_INTERNAL, NULL,
                     "%s: the child process ended without a result, with wait status %d", name,
                     end.status);
}
