// SPDX-License-Identifier: MIT
// count_bytes.c: a library that is loaded before MPI and counts the bytes of messages to other
// ranks, by the profiling interface of MPI (PMPI).
#include <mpi.h>

long long count_bytes_sent, count_bytes_reduced; // read by ranks_bytes.c

static long long bytes_of(int count, MPI_Datatype type, int to, MPI_Comm comm)
{
    int size = 0, own = 0;
    PMPI_Type_size(type, &size);
    PMPI_Comm_rank(comm, &own);
    return to == own || to == MPI_PROC_NULL ? 0 : (long long)count * size;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    count_bytes_sent += bytes_of(count, type, to, comm);
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Iallreduce(const void *data, void *to, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    int size = 0;
    PMPI_Type_size(type, &size);
    count_bytes_reduced += (long long)count * size;
    return PMPI_Iallreduce(data, to, count, type, op, comm, request);
}
