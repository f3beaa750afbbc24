// SPDX-License-Identifier: MIT
// speak.h: a call of qkv_generate or qkv_translate: prompts that wait, places where some of them
// run at once, outputs that wait for those before them.
#ifndef QKV_TASK_SPEAK_H
#define QKV_TASK_SPEAK_H

#include "task/sampling.h"
#include "task/stops.h"
#include "task/task.h"
#include <qkv/decode.h>

// Where logits come from: a decoder, or what a test puts in its place.  Contracts: decode.h.
struct qkv_voice {
    int64_t V, positions; // tokens an item may have
    qkv_status (*source)(void *ctx, int64_t item, const int32_t *ids, int64_t n, qkv_error *err);
    qkv_status (*feed)(void *ctx, float *logits, const struct qkv_decoder_tokens *t,
                       qkv_error *err);
    qkv_status (*copy)(void *ctx, const int64_t *to, const int64_t *from, int64_t n,
                       qkv_error *err);
    qkv_status (*clear)(void *ctx, int64_t item); // length 0
    void *ctx;
};

// What a folder says of its outputs.
struct qkv_manners {
    int32_t *ends, *never; // tokens that end an output; that are never chosen
    int64_t n_ends, n_never;
    int32_t start, forced, forced_end; // the first, what must follow, what the last must be; -1
    int64_t beams;                     // 0: not said
    int64_t source_positions;          // tokens a source may have
};

// ---- beam.c: a search -------------------------------------------------------------------------
// A token of a hypothesis and what stood before it.
struct qkv_beam_node {
    int64_t before; // -1: the prompt
    int32_t id;
    float logprob; // of the model itself
};
struct qkv_beam_candidate {
    int64_t row; // hypothesis that it goes on from
    int32_t id;
    float logprob;
    double score; // sum of log-probabilities
};
struct qkv_beam_end {
    int64_t node, length;
    double score; // judged
    enum qkv_ending ending;
    int32_t end;
};
struct qkv_beam {
    int64_t width, kept; // hypotheses that go on; candidates that are looked at
    struct qkv_beam_node *node;
    int64_t nodes, capacity;
    int64_t *last;                   // [width] nodes of those that run, best first
    double *score;                   // [width]
    struct qkv_beam_candidate *row;  // [width][kept] best continuations of each
    struct qkv_beam_candidate *best; // [kept] of all
    struct qkv_beam_end *done;       // [width] finished, best first
    int64_t *to, *from;              // [width] of items that change
    int64_t running, finished, length;
    bool hopeful; // a better one can still come
};

// ---- speak_seat.c: a prompt under way -----------------------------------------------------------
struct qkv_seat {
    bool active, begun; // holds a prompt; that was fed
    int64_t prompt, rank;
    int64_t item; // the first of its items
    int32_t *fed; // [fed_n] the prompt, and behind it what is forced: `given` tokens of the output
    int64_t fed_n, fed_capacity, given;
    int32_t *source; // [source_n]
    int64_t source_n, source_capacity;
    int64_t cut, replaced, replaced_at;
    int64_t most;  // tokens it may choose
    bool limited;  // ... because there are no more positions
    int64_t count; // chosen
    int32_t *ids;  // [given + count] the output
    float *logprobs;
    int64_t ids_capacity, logprobs_capacity;
    struct qkv_history *history; // [width]
    qkv_encoding encoding;
    qkv_decode_stream *stream;
    size_t skip; // bytes of the prompt's text that the stream has not given yet
    struct qkv_output_text text;
    struct qkv_beam beam;
};

// A hypothesis behind its last token.
struct qkv_row {
    struct qkv_seat *seat;
    int64_t number; // among those of its place
    float *x;       // [V]
    int32_t id;     // chosen
    float logprob;
    struct qkv_token_value *top; // [logprobs]
};

// What a body of a parallel loop needs for itself.
struct qkv_row_memory {
    struct qkv_choice choice;
    float *raw;                  // [V] before the samplers; NULL: not wanted
    struct qkv_token_value *top; // [kept] of a search
};

struct qkv_waiting; // an output that is done (speak.c)

struct qkv_call {
    const struct qkv_voice *voice;
    const qkv_tokenizer *tokenizer;
    const struct qkv_manners *manners;
    struct qkv_generate_options o; // resolved
    const char *const *prompts;
    const size_t *bytes;
    int64_t n;
    bool translates;
    int64_t items; // of the voice
    // An output that is known, before the caller sees it; NULL: nothing to add.
    qkv_status (*finish)(void *ctx, struct qkv_generated *g, float **alignment, qkv_error *err);
    void *finish_ctx;
    // made by qkv_speak
    int64_t width, seats, draws, jobs; // items of a place; places; of a prompt; in all
    struct qkv_stops stops;
    int32_t *prefix;
    int64_t n_prefix;
    int64_t next, done, delivered; // jobs begun; finished; outputs seen by the caller
    struct qkv_seat *seat;         // [seats]
    struct qkv_waiting **waiting;  // [jobs] chains of outputs
    struct qkv_row *row;           // [seats width]
    int64_t rows;
    struct qkv_row_memory *memory; // [threads]
    int threads;
    float *logits; // [seats width][V]
    struct qkv_token_value *tops;
    int64_t *items_fed, *offsets;
    int32_t *ids;
    int64_t ids_capacity;
};
// Runs the call: members up to finish_ctx are set.
qkv_status qkv_speak(struct qkv_call *c, qkv_error *err);
// A job is over: its output waits for its turn; the text is what p has.  score NaN: none.
qkv_status qkv_speak_output(struct qkv_call *c, struct qkv_seat *p, int64_t rank,
                            enum qkv_ending ending, int32_t end, double score, qkv_error *err);
qkv_status qkv_speak_interrupted(const struct qkv_call *c, qkv_error *err);

// Takes prompt p->prompt: what is fed, how much may come.
qkv_status qkv_seat_begin(struct qkv_call *c, struct qkv_seat *p, qkv_error *err);
void qkv_seat_free(struct qkv_seat *p, int64_t width);
// The text anew, behind the prompt; then the forced tokens.
qkv_status qkv_seat_text(struct qkv_call *c, struct qkv_seat *p, qkv_error *err);
// A token of the output: its text, told to the caller unless a search adds it.
struct qkv_said_token {
    int32_t id;
    float logprob;
    const struct qkv_token_value *top;
    bool forced, last; // no stop string is looked for; none follows
    bool quiet;
};
qkv_status qkv_seat_say(struct qkv_call *c, struct qkv_seat *p, const struct qkv_said_token *t,
                        qkv_error *err);
// No token follows: what waited is said.
qkv_status qkv_seat_end(struct qkv_call *c, struct qkv_seat *p, bool quiet, qkv_error *err);
// After a step, its choice made: goes on, or is over (p->active is false).
qkv_status qkv_seat_accept(struct qkv_call *c, struct qkv_seat *p, const struct qkv_row *r,
                           qkv_error *err);

bool qkv_beam_begin(struct qkv_beam *b, const struct qkv_call *c); // false: no memory
void qkv_beam_free(struct qkv_beam *b);                            // a zeroed struct is fine
// The best continuations of row r; in parallel.  r->id is -1 where there is none.
void qkv_beam_continue(const struct qkv_call *c, struct qkv_row *r, struct qkv_row_memory *m);
// After a step: as qkv_seat_accept; first: the place's first row.
qkv_status qkv_beam_accept(struct qkv_call *c, struct qkv_seat *p, const struct qkv_row *first,
                           qkv_error *err);
// ids[length] of the tokens up to a node.
void qkv_beam_ids(const struct qkv_beam *b, int64_t node, int64_t length, int32_t *ids,
                  float *logprobs);
bool qkv_speak_ends(const struct qkv_call *c, int32_t id);
#endif
