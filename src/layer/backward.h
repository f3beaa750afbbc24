// SPDX-License-Identifier: MIT
// backward.h: declares the layers for training: each forward pass with its backward pass. layer.h
// includes it.
//
//   Activations and their gradients are overwritten; gradients of weights are accumulated (+=). A
//   gradient whose pointer is NULL is not computed. `keep` receives the activations that backward
//   needs.
//   Arrays declared void * contain numbers of one type t: 0 means real; QKV_BF16 or QKV_F16 means
//   16 bits, rounded to nearest even when written. All sums are real.
//   Sums over rows are split by shape and added in a fixed order: no bit depends on the number of
//   threads.
//   Scratch is 64-byte aligned and has the bytes that *_scratch returns; SIZE_MAX: too large for an
//   address space.
#ifndef QKV_LAYER_BACKWARD_H
#define QKV_LAYER_BACKWARD_H

// ---- ranks (ranks_group.c, ranks_errors.c) -----------------------------------------------------
// `size` consecutive ranks of all, to which this rank belongs; size divides the number of all.
struct qkv_ranks_group {
    const struct qkv_comm *all;
    int64_t first, rank, size;
};
// Returns the group as ranks of their own. *g and *all stay valid.
struct qkv_comm qkv_ranks_group(struct qkv_ranks_group *g, const struct qkv_comm *all,
                                int64_t size);
// Tells the other ranks that this one has failed (fail of struct qkv_comm), unless status is
// QKV_OK; returns status.
qkv_status qkv_ranks_give_up(const struct qkv_comm *comm, qkv_status status);
// Call the functions of struct qkv_comm; gather and reduce with one rank do nothing. After an error
// of one of them, they call fail, so that the other ranks do not wait for this one.
qkv_status qkv_ranks_send(const struct qkv_comm *comm, int64_t to, const void *data, size_t n);
qkv_status qkv_ranks_receive(const struct qkv_comm *comm, int64_t from, void *data, size_t n);
qkv_status qkv_ranks_gather(const struct qkv_comm *comm, void *all, const size_t *at,
                            const size_t *n);
qkv_status qkv_ranks_reduce(const struct qkv_comm *comm, int64_t *x, size_t n);
// Describes an error that a function of struct qkv_comm returned, unless err has a message already;
// returns status, also QKV_OK.
qkv_status qkv_ranks_lost(qkv_status status, qkv_error *err);

// ---- linear (linear_backward.c) ----------------------------------------------------------------
// ---- sums over the rows of a batch (row_sums.c) ------------------------------------------------
// The gradient of a weight is a sum over all rows. Where several processes may have the rows of a
// batch, the rows are divided into blocks, which are the leaves of a binary tree: the left part of
// each node is the largest power of two of its leaves. Blocks depend on the lengths of the sequences
// only. So the sum of all rows has one order, whichever process computes which nodes of the tree.
//
enum { QKV_ROW_BLOCK_MOST = 768 };
// Returns the most rows of a block: the largest multiple of the tiles of attention's backward pass
// that is not above QKV_ROW_BLOCK_MOST.
int64_t qkv_row_block(qkv_precision precision);
// Divides packed sequences into blocks of at most `block` rows, each of which begins at the first
// row of a sequence or at a multiple of `block` rows after it. Returns the number n of blocks and
// writes their first rows and the number of all rows, edges[n + 1]; edges NULL: only counts.
int64_t qkv_row_edges(int64_t *edges, const int64_t *offsets, int64_t sequences, int64_t block);

// Consecutive leaves of a tree, from .. end-1.
struct qkv_tree_node {
    int64_t from, end;
};
enum { QKV_TREE_NODES = 128 }; // more than the nodes that two runs of leaves can form
struct qkv_tree_nodes {
    struct qkv_tree_node node[QKV_TREE_NODES];
    int n;
};
// Returns whether the leaves from .. end-1 are a node of the tree.
bool qkv_tree_node(int64_t leaves, int64_t from, int64_t end);
// Appends a node; while the last two are the children of a node, this replaces them.
void qkv_tree_push(struct qkv_tree_nodes *x, int64_t leaves, int64_t from, int64_t end);

// A block of this process. Its sum goes to a slot; then `merges` times the last slot is added to
// the one before it.
struct qkv_row_block {
    int64_t first, n; // rows of this process
    int slot, merges;
};
// How this process adds up its rows: a stack of slots. In the end, slot i has the sum of node i.
struct qkv_row_sums {
    const struct qkv_row_block *block;
    int64_t blocks;
    struct qkv_tree_nodes nodes;
    int slots; // largest number of slots in use
    // slot 0 is the gradient itself, part of the array gradients[weights]; slots 1 .. nodes-1 are
    // its copies, [nodes.n - 1][weights]
    real *gradients, *copies;
    int64_t weights;
    real *stack;  // [slots - nodes.n][most] the other slots
    int64_t most; // largest number of elements of the gradients of a call
};
// Appends leaf number `leaf`, which is rows first .. first + n - 1 of this process.
void qkv_row_sums_push(struct qkv_row_sums *s, struct qkv_row_block *block, int64_t leaf,
                       int64_t leaves, int64_t first, int64_t n);
// One or two gradients that are summed together, and their elements; NULL: not computed.
struct qkv_row_gradients {
    real *at[2];
    int64_t n[2];
};
// Adds the sums of all blocks: body adds the rows of a block to to[0] and to[1].
typedef void qkv_row_sums_body(void *ctx, real *const *to, const struct qkv_row_block *b);
void qkv_row_sums_run(const struct qkv_row_sums *s, const struct qkv_row_gradients *g,
                      qkv_row_sums_body *body, void *ctx);
// to[n] += x[n]; x NULL: to[n] = 0.
void qkv_add_numbers(real *to, const real *x, int64_t n);

// ---- linear (linear_backward.c) ----------------------------------------------------------------
// Options of the backward pass of qkv_linear_once (training packs weights during each call, because
// they change every step):
//   y = x w^T + b:   dx = dy w (+ dx_add),   dw += dy^T x,   db += sum_r dy
struct qkv_linear_back {
    qkv_precision precision;
    int threads;        // number of threads that scratch has space for
    qkv_dtype x, y;     // x: type of the array x, and of dx unless dx_real is set; y: type of dy
    bool dx_real;       // true: dx is an array of real
    int64_t ldx, lddy;  // distance of rows in elements; 0 means K and N; dx uses ldx
    const real *dx_add; // added to dx, in its layout (may be dx itself if real); NULL: none
    void *scratch;
    const struct qkv_row_sums *sums; // order of the sums dw and db; NULL: the order of the rows
};
size_t qkv_linear_once_backward_scratch(const struct qkv_linear_back *how, int64_t R, int64_t K,
                                        int64_t N);
// Computes the gradients of a linear projection. `part` is the part that forward used (its w is
// [N][K], or [K][N] if transposed); dw has the layout of w; db is [N]. x may be NULL if dw is NULL;
// dx and x may be the same array if their types agree.
void qkv_linear_once_backward(void *dx, real *dw, real *db, const void *dy, const void *x,
                              int64_t R, int64_t K, const struct qkv_linear_part *part,
                              const struct qkv_linear_back *how);

// The arrays that backward of a linear layer y = x w^T + b reads and writes; the layer is not
// packed.
struct qkv_linear_rows {
    // gradient of x, plus dx_add unless that is NULL; its type is real if dx_real is true,
    // otherwise x_type; dx NULL: not computed
    void *dx;
    bool dx_real;
    const real *dx_add;
    const void *dy[QKV_LINEAR_PARTS]; // gradient of each part's result
    int64_t lddy[QKV_LINEAR_PARTS];   // distance of the rows of dy, in elements; 0: N
    qkv_dtype dy_type;
    const void *x; // input of forward
    qkv_dtype x_type;
};
// Adds the gradients of the weights and biases to l->dw and l->db, and computes rows->dx. If
// the layer has several parts (l->parts > 1), rows->dx_real must be true.
void qkv_linear_layer_backward(const struct qkv_linear_rows *rows, int64_t R,
                               const struct qkv_linear *l);
// Returns the bytes that l->once->scratch must have for forward of R rows and, if `back` is true,
// also for qkv_linear_layer_backward with arrays of type real or `type`.
size_t qkv_linear_train_scratch(const struct qkv_linear *l, qkv_dtype type, int64_t R, bool back);

// ---- feed-forward (mlp_backward.c) -------------------------------------------------------------
// Returns the bytes of scratch of qkv_mlp_forward with a tape and, if `back` is true, also of
// qkv_mlp_backward. The caller sets this scratch as once->scratch of m->up and m->down.
size_t qkv_mlp_train_scratch(const struct qkv_mlp *m, int64_t R, bool back);
// Adds the gradients of both layers and computes rows->dx. d_inner[R][M] and d_up, of the shape of
// tape->up, are scratch arrays of the type of tape->up.
void qkv_mlp_backward(const struct qkv_sublayer_back *rows, void *d_inner, void *d_up,
                      const struct qkv_mlp_tape *tape, int64_t R, const struct qkv_mlp *m);

// ---- self-attention with projections (heads_backward.c) ----------------------------------------
// Arrays that backward writes. All except d_memory, d_relative and tables are scratch, which layers
// may share.
struct qkv_attention_tables;
struct qkv_score_arrays;
struct qkv_heads_back {
    void *d_heads;             // [R][H F] gradient of the outputs of the heads
    struct qkv_heads_arrays d; // gradients of tape->at
    void *d_q, *d_k;           // if q or k has a norm: gradients of tape->q and tape->k
    real *d_wide;              // if q or k has a norm: gradient of tape->wide
    real *rstd;                // [R max(H, G)] 1 / root mean square of each head's q or k
    // cross-attention: receives the gradient of m->memory, plus memory_add unless that is NULL;
    // d_memory NULL: not computed
    real *d_memory;
    const real *memory_add;
    real *d_relative; // [H][2 reach + 1] the gradient of a->relative is added; NULL: not computed
    // The following three members are for the public layer only; in models they are NULL. tables:
    // gradients of bias, relative, alibi and sinks; if it is set, d_relative is unused
    const struct qkv_attention_tables *tables;
    const struct qkv_score_arrays *scores, *d_scores; // inputs of the scores, and their gradients
};
// Returns the bytes of scratch of qkv_heads_forward with a tape and, if `back` is true, also of
// qkv_heads_backward. SIZE_MAX: the call is refused and *status is the reason.
size_t qkv_heads_train_scratch(const struct qkv_heads *m, const struct qkv_attention *a, bool back,
                               qkv_status *status);
// Adds the gradients of all projections and norms of heads, and computes rows->dx.
qkv_status qkv_heads_backward(const struct qkv_sublayer_back *rows, const struct qkv_heads_back *b,
                              const struct qkv_heads_tape *tape, const struct qkv_heads *m,
                              const struct qkv_attention *a, void *scratch);

// ---- norm (norm_backward.c) --------------------------------------------------------------------
// The kinds of norm: layer norm, or RMS norm (Zhang and Sennrich 2019, arXiv 1910.07467): y = x /
// sqrt(mean x^2 + eps) * w.
enum qkv_norm_kind { QKV_NORM_LAYER = 0, QKV_NORM_RMS };
// Applies a norm: y[R][D] of type t = norm(x). keep receives rstd and, for layer norm only, the
// mean. x and y may be the same array if t is real. y NULL: only keep is written.
void qkv_norm_kind_forward(void *y, qkv_dtype t, const struct qkv_norm_keep *keep, const real *x,
                           int64_t R, const struct qkv_norm *p, enum qkv_norm_kind kind);
size_t qkv_norm_backward_scratch(int64_t R, int64_t D);
// Computes the gradients of a norm from dy, the gradient of its result (type t): dx[R][D] = (the
// gradient of x) + dx_add[R][D]. dx_add NULL: nothing is added; dx and dx_add may be the same
// array. dw[D] and db[D] are accumulated. x is the input of forward.
// qkv_norm_sums_backward adds them up in the order of sums; `per` rows of the norm are one row of
// the batch. sums NULL: it is qkv_norm_backward.
void qkv_norm_backward(real *dx, const real *dx_add, real *dw, real *db, const void *dy,
                       qkv_dtype t, const real *x, const struct qkv_norm_keep *keep, int64_t R,
                       const struct qkv_norm *p, enum qkv_norm_kind kind, void *scratch);
struct qkv_norm_back {
    real *dx;
    const real *dx_add;
    const void *dy;
    qkv_dtype type; // of dy
    const real *x;
    struct qkv_norm_keep keep;
    void *scratch;
};
void qkv_norm_sums_backward(const struct qkv_norm_back *rows, int64_t R, const struct qkv_norm *p,
                            enum qkv_norm_kind kind, const struct qkv_row_sums *sums, int64_t per);

// ---- activations (activation.c) ----------------------------------------------------------------
// Apply an activation, y[n] = act(a), and compute its gradient, da = dy act'(a). Here and in the
// gated functions below, the result may be the same array as an argument.
void qkv_activation_forward(void *y, const void *a, qkv_dtype t, int64_t n,
                            enum qkv_activation act);
void qkv_activation_backward(void *da, const void *dy, const void *a, qkv_dtype t, int64_t n,
                             enum qkv_activation act);
// Apply a gated activation, y = act(g) u (SwiGLU if act is SILU; Shazeer 2020, arXiv 2002.05202),
// and compute its gradients. Rows of g and u may alternate in one array.
void qkv_gated_forward(void *y, const void *g, const void *u, qkv_dtype t, int64_t n,
                       enum qkv_activation act);
void qkv_gated_backward(void *dg, void *du, const void *dy, const void *g, const void *u,
                        qkv_dtype t, int64_t n, enum qkv_activation act);

// ---- dropout and residual (dropout.c) ----------------------------------------------------------
// Dropout with random numbers of Philox4x32-10 (Salmon et al. 2011, SC11): number `index` of stream
// (seed, site) is the same on every machine.
struct qkv_dropout {
    // probability p that an element is dropped, 0 <= p < 1; 0: no dropout. Other elements are
    // divided by 1 - p
    real p;
    uint64_t seed; // seed of the training run
    // identifies the training step and the place in the model, so that no two uses share random
    // numbers
    uint64_t site;
};
// Applies dropout: y[n] (real) = residual[n] + drop(x[n] of type t). residual NULL: 0; residual and
// y may be the same array. first: index of element 0 in the random stream.
void qkv_dropout_forward(real *y, const real *residual, const void *x, qkv_dtype t, int64_t first,
                         int64_t n, const struct qkv_dropout *d);
// Computes the gradient of dropout: dx[n] of type t = drop(dy[n]), with dy real.
void qkv_dropout_backward(void *dx, qkv_dtype t, const real *dy, int64_t first, int64_t n,
                          const struct qkv_dropout *d);
// The random words of dropout come from qkv_philox, their threshold from qkv_dropout_threshold
// (base.h).

// ---- positions (rope.c) ------------------------------------------------------------------------
// Rotary positions (Su et al. 2021, arXiv 2104.09864), in place on x[R][H][E] of type t. Rotates
// pairs of elements by the angle positions[r] / theta^(2i/E): pairs (i, i + E/2) as in Llama, or
// (2i, 2i + 1) if interleaved. backward: rotates by the negative angle, which is the transposed
// operation.
struct qkv_rope {
    real theta; // base of the angles; 0 means 10000
    bool interleaved, backward;
    // table that qkv_rope_table filled for all positions that occur; NULL: sines are computed
    // during the call
    const real *table;
    int64_t ldx;    // distance of rows of x in elements; 0 means H E
    int64_t turned; // number of leading elements of a head that are rotated (even); 0 means E
};
// Fills table[P][E] for positions 0 .. P-1: in each row E/2 cosines, then E/2 sines. One table
// serves any number of calls.
void qkv_rope_table(real *table, int64_t P, int64_t E, real theta);
// qkv_rope_table_of fills a table like qkv_rope_table, for `pairs` pairs with the angles position *
// step[i], and multiplies every cosine and sine by gain. qkv_rope_steps computes the steps that
// qkv_rope_table uses: step[i] = 1 / theta^(i/pairs).
void qkv_rope_table_of(real *table, int64_t P, int64_t pairs, const double *step, double gain);
void qkv_rope_steps(double *step, int64_t pairs, double theta);
void qkv_rope_apply(void *x, qkv_dtype t, const int32_t *positions, int64_t R, int64_t H, int64_t E,
                    const struct qkv_rope *p);

// ---- embeddings (embed_backward.c) -------------------------------------------------------------
// Computes the gradients of the tables of qkv_embed_forward: adds each row r of dy, in ascending
// order of r, to the rows ids[r] of dtoken[V][D] (times p->scale), positions[r] of dposition[P][D]
// and types[r] of dtype[Y][D]. Scratch stores the sorted ids.
size_t qkv_embed_backward_scratch(int64_t R, const struct qkv_embed *p);
void qkv_embed_backward(real *dtoken, real *dposition, real *dtype, const real *dy,
                        const int32_t *ids, const int32_t *types, const int32_t *positions,
                        int64_t R, const struct qkv_embed *p, void *scratch);

// ---- losses (cross_entropy.c, contrastive.c) ---------------------------------------------------
// Softmax cross-entropy fused with the vocabulary projection: the logits, cap(times x w^T + b),
// exist only in blocks. lse is their log-sum-exp.
//   loss = sum over rows with target >= 0 of  (1 - e) (lse - logit[target]) + e (lse - mean logit)
struct qkv_cross_entropy {
    int64_t V, K;
    const real *w, *b; // weights [V][K]; bias [V], NULL: none
    real times;        // factor of the logits; 0 means 1
    real softcap;      // bound c of the logits, cap(a) = c tanh(a / c); 0: none
    real smoothing;    // label smoothing: the factor e in the loss above
    qkv_precision precision;
    qkv_dtype x; // type of x and dx
    int threads;
    void *scratch;
};
struct qkv_loss {
    double sum;    // sum of the losses of all rows that have a target
    int64_t rows;  // number of rows that have a target
    int64_t right; // number of rows whose target is the first largest logit
};
size_t qkv_cross_entropy_scratch(const struct qkv_cross_entropy *p, int64_t R);
// Computes the loss of R rows, adds it to *loss, and computes its gradients. Writes dx[R][K] =
// scale times the gradient of x (0 in rows without a target), and accumulates dw[V][K] and db[V]. A
// gradient that is NULL is not computed; all three NULL: only the loss is computed. losses[R]
// receives the loss of each row, 0 without a target; losses NULL: not written. Rows without a
// target cost no time.
void qkv_cross_entropy(struct qkv_loss *loss, void *dx, real *dw, real *db, real *losses,
                       const void *x, const int32_t *targets, int64_t R, real scale,
                       const struct qkv_cross_entropy *p);
// Computes logits[R][V] for a few rows, stored densely, for generation. Scratch is as for
// qkv_cross_entropy with the same p and R.
void qkv_logits(real *logits, const void *x, int64_t R, const struct qkv_cross_entropy *p);

// Options of qkv_contrastive.
struct qkv_contrastive {
    real temperature; // divisor of the scores; 0 means 0.05
    bool rows_only;
    int threads;
    void *scratch; // workspace; qkv_contrastive_scratch ignores it
};
size_t qkv_contrastive_scratch(const struct qkv_contrastive *p, int64_t n, int64_t D);
// Computes the in-batch contrastive loss (InfoNCE; Henderson et al. 2017, arXiv 1705.00652) of unit
// vectors a[n][D] and b[n][D]: the cross-entropy of row i of the scores a b^T / temperature with
// target i. rows_only false: the mean of this loss and of the same loss for the transposed scores;
// rows_only true: this loss alone. da[n][D] and db[n][D] receive scale times the gradients; both
// NULL: only the loss is computed. loss->right counts rows of the scores, not columns.
void qkv_contrastive(struct qkv_loss *loss, real *da, real *db, const real *a, const real *b,
                     int64_t n, int64_t D, real scale, const struct qkv_contrastive *p);

// ---- pooling (pool_rows.c) ---------------------------------------------------------------------
// Computes v[n][D] = the mean of the rows of each sequence; with `unit` scaled to length 1, and
// norm[n] receives the length before.
void qkv_mean_pool_forward(real *v, real *norm, const real *x, const int64_t *offsets, int64_t n,
                           int64_t D, bool unit);
// Writes dx[R][D], the gradient of the rows, from dv[n][D]; v and norm are the results of forward.
void qkv_mean_pool_backward(real *dx, const real *dv, const real *v, const real *norm,
                            const int64_t *offsets, int64_t n, int64_t D, bool unit);

// ---- gated recurrent unit (gru.c) --------------------------------------------------------------
// Gated recurrent unit, Cho et al. 2014 (arXiv 1406.1078), with gates as in torch.nn.GRU: [3D] in
// the order r, z, n.
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),  z likewise
//   n = tanh(W_in x + b_in + r (W_hn h + b_hn))
//   h' = (1 - z) n + z h
// Sequences are packed; the sequences of a batch advance together, one step at a time. reverse:
// each sequence starts at its last row.
struct qkv_gru {
    int64_t D_in, D;
    const real *w_i, *w_h; // input weights [3D][D_in], recurrent weights [3D][D]
    const real *b_i, *b_h; // biases [3D]; NULL: none
    bool reverse;
    qkv_precision precision; // precision of the products; all arrays are real
    int threads;
    void *scratch; // workspace; qkv_gru_scratch ignores it
};
struct qkv_gru_grad {
    real *w_i, *w_h, *b_i, *b_h; // accumulated gradients of the weights; NULL: not computed
};
// Returns the bytes of scratch of qkv_gru_forward and qkv_gru_backward.
size_t qkv_gru_scratch(const struct qkv_gru *p, int64_t R, int64_t sequences);
// Writes the states h[R][D], and stores in gates[R][4D], for backward, the values r, z, n and W_hn
// h + b_hn of each row. first[sequences][D]: state before the first step of each sequence; NULL:
// zeros.
void qkv_gru_forward(real *h, real *gates, const real *x, const real *first, const int64_t *offsets,
                     int64_t sequences, const struct qkv_gru *p);
// Computes the gradients from dh[R][D], the gradient of h: writes dx[R][D_in] and
// dfirst[sequences][D], accumulates *g. A gradient that is NULL is not computed.
void qkv_gru_backward(real *dx, real *dfirst, const struct qkv_gru_grad *g, const real *dh,
                      const real *h, const real *gates, const real *x, const real *first,
                      const int64_t *offsets, int64_t sequences, const struct qkv_gru *p);
#endif
