// SPDX-License-Identifier: MIT
/** ranks.h: computes one attention with several processes (ranks), on one machine or many, with the
 *  bits of one process.
 *
 *  Every rank has some rows of q, k, v and out.  It collects all keys and values of the call
 *  (gathering, as Llama 3 does) and computes the rows of its own queries.  If they do not fit
 *  (collect_limit), it receives them block by block instead, in memory n / P, and keeps the sums of
 *  its rows from block to block (a pipeline).  In the backward pass the sums of dk and dv go from
 *  rank to rank in the order of the rows, unit by unit, so that each sum has the order of one
 *  process; blocks of keys and values go with them.  For decoding, the keys of a cache are split
 *  among the ranks (qkv_ranks_cache_forward).
 *
 *  P ranks; other sizes as in qkv/attention.h.
 */
#ifndef QKV_RANKS_H
#define QKV_RANKS_H

#include <qkv/cache.h>
#include <qkv/probe.h>

QKV_BEGIN_DECLS

/** The ranks that compute together, as one of them sees them, and how it reaches the others.  The
 *  functions return QKV_OK, QKV_ERR_LIMIT if memory is exhausted, or QKV_ERR_IO if a rank cannot be
 *  reached.  qkv_ranks_open fills it for MPI; a program with another transport fills it itself.
 *  After one of them has returned an error on a rank, qkv calls fail there, so no rank waits for
 *  one that has failed.  All calls of all ranks then return an error, except a call that was
 *  complete on its rank when the connection failed: it returns QKV_OK and has its results.
 *  Messages from one rank to another arrive in the order in which they were sent.  A rank calls
 *  the functions from one thread at a time. */
struct qkv_comm {
    int64_t rank; /**< number of this process, 0 .. size - 1 */
    int64_t size; /**< number of processes P, at least 1 */
    void *ctx;    /**< first argument of all functions; they may be NULL if size is 1 */
    /** Sends data[n] to rank `to`, which may be this rank.  Does not wait until it is received;
     *  afterwards data may be changed.  A rank that has no memory for a copy may wait for the
     *  other rank; by MPI it does, unless another rank waits so too or is itself. */
    qkv_status (*send)(void *ctx, int64_t to, const void *data, size_t n);
    /** Receives data[n] from rank `from`; n is the size that was sent. */
    qkv_status (*receive)(void *ctx, int64_t from, void *data, size_t n);
    /** Collects on every rank the n[r] bytes at all + at[r] of each rank r, which that rank has
     *  there before the call.  at and n have P elements, equal on all ranks. */
    qkv_status (*gather)(void *ctx, void *all, const size_t *at, const size_t *n);
    /** Replaces each x[i], i < n, by its maximum over all ranks. */
    qkv_status (*reduce)(void *ctx, int64_t *x, size_t n);
    /** Waits for all ranks. */
    qkv_status (*barrier)(void *ctx);
    /** Tells all ranks that this one has failed and will not send or receive what they expect:
     *  their functions return status (not QKV_OK) from now on, also those that wait.  It may be
     *  called again, and on a rank that was told so.  NULL: the transport itself returns an error
     *  on all ranks after it has returned one on any; or else they may wait for ever. */
    void (*fail)(void *ctx, qkv_status status);
    /** Bytes of keys and values that qkv_ranks_forward and qkv_ranks_backward may collect on a
     *  rank, equal on all ranks.  If all keys and values of a call have more bytes, they travel in
     *  blocks of about collect_limit / P bytes, at most 4 MiB and at least one chunk (up to 256
     *  keys of one batch item; backward: of one head per thread).  0: no limit.  qkv_ranks_open
     *  sets 0.  In a backward pass with gradients of relative positions or ALiBi, whose bits depend
     *  on the division of the keys, a block has the keys that one process adds up together, for
     *  each thread: about 1/16 of all, at most all keys of a head. */
    size_t collect_limit;
    /** First rows of the runs, if the caller divides the rows itself: [P + 1], with a causal mask
     *  [2 P + 1], ascending from 0 to T = S, equal on all ranks.  Each is a multiple of a tile of
     *  the backward pass from the first row of its sequence.  NULL: as qkv_rank_rows divides them.
     *  qkv_ranks_open sets NULL. */
    const int64_t *edges;
};

/** Connects this process with the ranks that mpirun (or srun) started with it, through the MPI
 *  library by which they were started: Open MPI or MPICH.  A process that was started alone becomes
 *  the one rank of size 1, and needs no MPI.  Call it once, before other threads exist.
 *
 *  Returns: QKV_OK; QKV_ERR_UNSUPPORTED if libqkv was built without this MPI, or the ranks have
 *           other versions of qkv or other instruction sets (err says which rank and what differs);
 *           QKV_ERR_IO if MPI cannot be started.  After an error c->rank is the number that the
 *           launcher gave, so that one rank reports it */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_open(struct qkv_comm *c, qkv_error *err);
/** Returns how many processes the launcher of this process started, 1 if it was started alone, and
 *  sets *rank (unless NULL) to the number of this one.  Does not connect them.  A process that only
 *  inherits the variables of a launcher, as a child of a process that MPI started, is alone. */
QKV_API int64_t qkv_ranks_started(int64_t *rank);
/** Ends the connection, after which the process can have no other.  NULL: nothing to do.  After an
 *  error of the connection, all ranks should call qkv_ranks_last before; if they do not, MPI is not
 *  ended, and its launcher ends the other ranks when this process ends. */
QKV_API void qkv_ranks_close(struct qkv_comm *c);
/** After an error of the connection: replaces *x by its maximum over all ranks, for example to
 *  choose the one that reports the error.  Waits up to 5 s for the others.  Returns
 *  false if a rank did not call it in time, in all later calls, or if there is no error */
QKV_API bool qkv_ranks_last(const struct qkv_comm *c, int64_t *x);
/** Compares data[n] with rank 0.  Returns QKV_OK on all ranks if all are equal.  If not, returns
 *  QKV_ERR_USAGE on all; err says "rank 2 has another NAME than rank 0". */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_same(const struct qkv_comm *c, const char *name,
                                                 const void *data, size_t n, qkv_error *err);

/** The rows of one rank: up to two runs of rows, in ascending order; their sizes may be 0. */
struct qkv_rank_rows {
    int64_t first[2], n[2];
    int64_t all; /**< n[0] + n[1] */
};
/** Returns the queries that a rank computes, or with `keys` the keys and values that it has.
 *  Without a causal mask, rank r has the r-th of P runs.  With it, the r-th and the r-th last of
 *  2 P runs (zigzag), so that all ranks have equal work.  Runs begin at multiples of a tile of the
 *  backward pass, counted from the first row of a sequence, and may be empty.
 *  In: a with the sizes of the whole call.  Invalid calls have no rows. */
QKV_API struct qkv_rank_rows qkv_rank_rows(const struct qkv_attention *a, bool keys, int64_t rank,
                                           int64_t size);

/** How keys and values reach the ranks. */
enum qkv_ranks_mode {
    QKV_RANKS_COLLECT = 0, /**< every rank collects all before it computes */
    QKV_RANKS_PIPELINE     /**< every rank has one block of them at a time */
};

/** How a rank computes its share of an attention, before the call. */
struct qkv_ranks_plan {
    qkv_status status;               /**< QKV_OK, or the error that the call would return */
    char reason[192];                /**< why the call is refused, or why it has this mode */
    struct qkv_rank_rows rows, keys; /**< of this rank */
    /** bytes of scratch: all keys and values, or with QKV_RANKS_PIPELINE a block of them and the
     *  sums of the rank's rows; and the scratch of attention */
    size_t scratch;
    /** bytes that this rank sends to other ranks, if gather sends each part to each rank; by MPI
     *  the parts pass around a ring, and the sum of all ranks is the same */
    size_t sent;
    double flops;  /**< operations of this rank */
    double all;    /**< operations of all ranks; all / (P flops) is the balance */
    int64_t units; /**< backward: units whose sums pass from rank to rank */
    enum qkv_ranks_mode mode;
    int64_t blocks; /**< QKV_RANKS_PIPELINE: number of blocks of all batch items */
    size_t block;   /**< QKV_RANKS_PIPELINE: bytes of a block at most */
};
QKV_API struct qkv_ranks_plan qkv_ranks_plan(const struct qkv_attention *a,
                                             const struct qkv_comm *c);
QKV_API struct qkv_ranks_plan qkv_ranks_backward_plan(const struct qkv_attention *a,
                                                      const struct qkv_attention_gradients *g,
                                                      const struct qkv_comm *c);

/** qkv_attention_forward over ranks.  All ranks call it with the same a, which has the sizes of the
 *  whole call, and with the rows of their own.
 *
 *  Out:      out [B][t][H][F];  lse [B][H][t], or NULL.  t = qkv_rank_rows(a, false, ..).all
 *  In:       q [B][t][H][E];  k [B][s][G][E];  v [B][s][G][F].  s = qkv_rank_rows(a, true, ..).all
 *            a: q_offsets, k_offsets and k_lengths of the whole call; bias and mask with the t rows
 *            of the rank, and all keys.  Their strides say which axes they have: where t is 0, too,
 *            the stride of an axis that they have is not 0
 *  Scratch:  qkv_ranks_plan(a, c).scratch bytes, 64-byte aligned
 *  Returns:  as qkv_attention_forward; the same on all ranks.  QKV_ERR_UNSUPPORTED for strides and
 *            statistics (probe: see qkv_ranks_probe); QKV_ERR_USAGE if the ranks have different
 *            limits (collect_limit) or the edges of c do not fit; QKV_ERR_IO if a rank ended
 *  Repeats:  every row has the bits of qkv_attention_forward, for any P and in both modes
 *  Source:   Grattafiori et al. 2024 (arXiv 2407.21783) 3.3.2; Brandon et al. 2023 (arXiv
 *            2311.09431) for the balance */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_forward(void *out, float *lse, const void *q,
                                                    const void *k, const void *v,
                                                    const struct qkv_attention *a,
                                                    const struct qkv_comm *c, void *scratch);
/** qkv_attention_backward over ranks, with the arrays of the rank's own rows.
 *
 *  Out:      dq [B][t][H][E];  dk [B][s][G][E];  dv [B][s][G][F];  g as qkv_attention_backward: on
 *            every rank the gradients over all rows of relative, alibi, sinks and of a bias without
 *            an axis of rows, for which the arrays have the same numbers on all ranks before the
 *            call; the gradient of another bias of the rank's rows
 *  Scratch:  qkv_ranks_backward_plan(a, g, c).scratch bytes, 64-byte aligned
 *  Returns:  as qkv_ranks_forward; with QKV_RANKS_PIPELINE also QKV_ERR_USAGE if an output overlaps
 *            another array; QKV_ERR_USAGE if the ranks have different numbers of threads
 *            (qkv_threads) or other axes of the bias
 *  Repeats:  all gradients have the bits of qkv_attention_backward, for any P and in both modes */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_backward(
    void *dq, void *dk, void *dv, const struct qkv_attention_gradients *g, const void *dout,
    const void *q, const void *k, const void *v, const void *out, const float *lse,
    const struct qkv_attention *a, const struct qkv_comm *c, void *scratch);

/** qkv_attention_probe over ranks, each of which computes some heads of all batch items.
 *
 *  Out:      the arrays of p, complete on every rank
 *  In:       q, k and lse with all rows and all keys on every rank; p and a the same on all ranks
 *  Scratch:  qkv_attention_probe_plan(a, p).scratch bytes, 64-byte aligned
 *  Returns:  as qkv_attention_probe, the same on all ranks; QKV_ERR_IO if a rank ended
 *  Repeats:  the bits of qkv_attention_probe, for any P */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_probe(const struct qkv_probe *p, const void *q,
                                                  const void *k, const float *lse,
                                                  const struct qkv_attention *a,
                                                  const struct qkv_comm *comm, void *scratch);

/** Makes the cache of one rank for decoding: qkv_cache_new with s->parts parts (0: one per rank),
 *  of which rank r of P stores the parts r parts / P .. (r + 1) parts / P - 1.  All ranks call it
 *  with the same shape, whose first_part and own_parts are not read.
 *
 *  Returns:  as qkv_cache_new; QKV_ERR_USAGE for fewer parts than ranks, or another shape than
 *            rank 0; the error of another rank.  After an error *out is NULL on all ranks */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_cache_new(qkv_cache **out,
                                                      const struct qkv_cache_shape *s,
                                                      const struct qkv_comm *c, qkv_error *err);
/** Plans qkv_ranks_cache_forward: status, reason, scratch, sent, and the operations of all ranks
 *  and, on average, of this one. */
QKV_API struct qkv_ranks_plan qkv_ranks_cache_plan(const qkv_cache *c,
                                                   const struct qkv_attention *a,
                                                   const struct qkv_comm *comm);
/** qkv_cache_forward over ranks, each of which stores some parts of the keys.  All ranks append the
 *  same tokens to their caches and call this function with the same q and a; all receive all
 *  results.  The sums of the parts (maximum, sum, weighted values) go up the tree of the parts and
 *  back: about 2 log2 P messages one after the other, each of B T H (F + 2) floats.
 *
 *  Out, in:  as qkv_cache_forward, without weights
 *  Scratch:  qkv_ranks_cache_plan(c, a, comm).scratch bytes, 64-byte aligned
 *  Returns:  as qkv_cache_forward, the same on all ranks; QKV_ERR_USAGE if the ranks have other
 *            sizes or lengths; QKV_ERR_IO if a rank ended
 *  Repeats:  the bits of qkv_cache_forward with a cache of as many parts, for any number of ranks
 *  Source:   Shyam et al. 2024 (arXiv 2408.04093) */
QKV_API QKV_MUST_CHECK qkv_status qkv_ranks_cache_forward(void *out, float *lse, const void *q,
                                                          const qkv_cache *c,
                                                          const struct qkv_attention *a,
                                                          const struct qkv_comm *comm,
                                                          void *scratch);

QKV_END_DECLS
#endif
