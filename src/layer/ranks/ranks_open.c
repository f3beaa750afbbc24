// SPDX-License-Identifier: MIT
// ranks_open.c: connects the ranks by the MPI that started them, and compares them.
#include "kernel/kernel.h"
#include "layer/layer_internal.h"
#include "layer/ranks/mpi/mpi_ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef QKV_DOUBLE
static const struct mpi_ranks *mpi; // NULL: this process is alone

// The environment variables by which a launcher tells a process how many ranks there are and which
// one it is, and the library of the MPI that it belongs to. srun sets the variables of the MPI that
// --mpi names; with --mpi=pmix the number of ranks is in a variable of Slurm. server: variables of
// the connection to the launcher, of which one is set; without them the others were set by hand.
static const struct launcher {
    const char *size, *rank, *library, *server[2];
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_RANK",
      "libqkv_mpi-openmpi.so." QKV_SOVERSION,
      { "PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri" } },
    { "PMI_SIZE", "PMI_RANK", "libqkv_mpi-mpich.so." QKV_SOVERSION, { "PMI_FD", "PMI_PORT" } },
    { "PMIX_SIZE",
      "PMIX_RANK",
      "libqkv_mpi-openmpi.so." QKV_SOVERSION,
      { "PMIX_NAMESPACE", "PMIX_NAMESPACE" } },
    { "SLURM_STEP_NUM_TASKS",
      "PMIX_RANK",
      "libqkv_mpi-openmpi.so." QKV_SOVERSION,
      { "PMIX_NAMESPACE", "PMIX_NAMESPACE" } },
};
enum { HYDRA = 1, SLURM = 3 }; // rows: mpiexec of MPICH; srun --mpi=pmix

static int64_t number(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : 0;
}

static FILE *open_process(long pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    return fopen(path, "r");
}

// Returns whether a process was started with an environment variable.
static bool has_variable(long pid, const char *name)
{
    FILE *f = open_process(pid, "environ");
    const size_t n = strlen(name);
    size_t at =
        0; // characters of the name that match so far; SIZE_MAX: none until the next variable
    for (int c; f && (c = fgetc(f)) != EOF;) {
        if (c == 0) {
            at = 0;
        } else if (at == n && c == '=') {
            fclose(f);
            return true;
        } else {
            at = at < n && c == name[at] ? at + 1 : SIZE_MAX;
        }
    }
    if (f) fclose(f);
    return false;
}

// Returns whether a process has loaded an MPI, which a launcher has not.
static bool has_mpi(long pid)
{
    FILE *f = open_process(pid, "maps");
    char line[512];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, "/libmpi.so") || strstr(line, "/libmpich.so");
    if (f) fclose(f);
    return found;
}

static long parent_of(long pid)
{
    FILE *f = open_process(pid, "stat");
    char text[512] = "";
    long parent = 0;
    if (!f) return 0;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *name = strrchr(text, ')'); // the name may contain anything; then: state, parent
    return name && sscanf(name + 1, " %*c %ld", &parent) == 1 ? parent : 0;
}

// Returns whether a process between the launcher, which has no such variable, and this process is a
// rank itself, from which the variable is inherited.
static bool child_of_rank(const char *variable)
{
    enum { MOST = 16 };
    long pid = (long)getppid();
    for (int i = 0; i < MOST && pid > 1 && has_variable(pid, variable); i++) {
        if (has_mpi(pid)) return true;
        pid = parent_of(pid);
    }
    return false;
}

// Returns whether the connection to the launcher is there: a child may inherit PMI_FD without it.
static bool connected(const struct launcher *x)
{
    const char *fd = getenv("PMI_FD");
    struct stat s;
    if (!getenv(x->server[0]) && !getenv(x->server[1])) return false;
    if (strcmp(x->server[0], "PMI_FD") != 0 || !fd) return true;
    return fstat((int)strtol(fd, NULL, 10), &s) == 0 &&
           (S_ISSOCK(s.st_mode) || S_ISFIFO(s.st_mode));
}

// Returns whether srun --mpi=pmix has started this process. A launcher that srun has started sets a
// namespace of its own, or the variables of MPICH.
static bool by_slurm(void)
{
    const char *space = getenv("PMIX_NAMESPACE");
    if (!space || strncmp(space, "slurm.", 6) != 0 || !getenv("PMIX_RANK")) return false;
    return !getenv(launchers[HYDRA].size) || !connected(&launchers[HYDRA]);
}

// Returns the launcher of more than one process, or NULL.
static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (number(launchers[i].size) > 1 && connected(&launchers[i]) && (i != SLURM || by_slurm()))
            return child_of_rank(launchers[i].rank) ? NULL : &launchers[i];
    return NULL;
}

QKV_API int64_t qkv_ranks_started(int64_t *rank)
{
    const struct launcher *x = find_launcher();
    if (rank) *rank = x ? number(x->rank) : 0;
    return x ? number(x->size) : 1;
}

static qkv_status compare(const struct qkv_comm *c, qkv_error *err)
{
    const char *isa = qkv_isa(), *version = qkv_version();
    const qkv_status status = qkv_ranks_same(c, "version of qkv", version, strlen(version), err);
    return status ? status : qkv_ranks_same(c, "instruction set", isa, strlen(isa), err);
}

QKV_API qkv_status qkv_ranks_open(struct qkv_comm *c, qkv_error *err)
{
    static const struct mpi_host host = { qkv_alloc, qkv_free };
    const struct launcher *launcher = find_launcher();
    *c = (struct qkv_comm){ .size = 1 };
    if (!launcher) return QKV_OK;
    c->rank = number(launcher->rank); // until the ranks are connected
    struct qkv_library which = { .name = launcher->library,
                                 .what = "a process that MPI started",
                                 .hint = "; install the MPI and build qkv again",
                                 .none = "a command without shared libraries has no MPI",
                                 .global = true };
    mpi_ranks_function *function = NULL;
    void *library = NULL;
    qkv_status status = qkv_library_open(&library, &which, err);
    if (status) return status;
    *(void **)&function = qkv_library_function(library, MPI_RANKS_NAME);
    const struct mpi_ranks *found = function ? function(MPI_RANKS_VERSION, &host) : NULL;
    if (!found)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "ranks need the library %s of the same version of qkv, found another "
                        "version",
                        which.name);
    const char *reason = found->open(c);
    if (reason) return qkv_fail(err, QKV_ERR_IO, NULL, "%s", reason);
    mpi = found;
    status = compare(c, err);
    if (status != QKV_ERR_USAGE) return status;
    if (err) err->status = QKV_ERR_UNSUPPORTED;
    return QKV_ERR_UNSUPPORTED;
}

QKV_API void qkv_ranks_close(struct qkv_comm *c)
{
    if (!c || !mpi) return;
    mpi->close(c);
    mpi = NULL;
    *c = (struct qkv_comm){ .size = 1 };
}

QKV_API bool qkv_ranks_last(const struct qkv_comm *c, int64_t *x)
{
    return mpi && c && c->size > 1 && mpi->last(x);
}

QKV_API qkv_status qkv_ranks_same(const struct qkv_comm *c, const char *name, const void *data,
                                  size_t n, qkv_error *err)
{
    char digest[2][QKV_SHA256_TEXT];
    qkv_status status = QKV_OK;
    int64_t other; // the first rank that differs, as a number that is larger the earlier it is
    if (c->size == 1) return QKV_OK;
    qkv_sha256(digest[0], data, n);
    memcpy(digest[1], digest[0], sizeof digest[0]);
    for (int64_t r = 1; c->rank == 0 && r < c->size && !status; r++)
        status = qkv_ranks_send(c, r, digest[0], sizeof digest[0]);
    if (c->rank) status = qkv_ranks_receive(c, 0, digest[1], sizeof digest[1]);
    other = !status && memcmp(digest[0], digest[1], sizeof digest[0]) ? c->size - c->rank : 0;
    if (!status) status = qkv_ranks_reduce(c, &other, 1);
    if (status) return qkv_ranks_lost(status, err);
    if (!other) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "rank %lld has another %s than rank 0",
                    (long long)(c->size - other), name);
}
#endif
