// SPDX-License-Identifier: MIT
// mpi_ranks.h: the interface between libqkv and libqkv_mpi-openmpi or libqkv_mpi-mpich. One source
// is built with each MPI that is installed, as libraries of their own, so that only ranks that this
// MPI started load it.
#ifndef QKV_MPI_RANKS_H
#define QKV_MPI_RANKS_H
#include <qkv/ranks.h>

// The functions of libqkv that the library calls.
struct mpi_host {
    void *(*alloc)(size_t count, size_t size);
    void (*release)(void *p);
};
struct mpi_ranks {
    // Starts MPI and fills *c. Returns NULL, or the reason of the failure.
    const char *(*open)(struct qkv_comm *c);
    void (*close)(struct qkv_comm *c);
    // qkv_ranks_last
    bool (*last)(int64_t *x);
};

// The one function that the library exports. Returns NULL if the library was built for another
// version. host stays valid.
#define MPI_RANKS_NAME "qkv_mpi_ranks"
enum { MPI_RANKS_VERSION = QKV_VERSION_MAJOR << 20 | QKV_VERSION_MINOR << 10 | QKV_VERSION_PATCH };
typedef const struct mpi_ranks *mpi_ranks_function(int version, const struct mpi_host *host);
#endif
