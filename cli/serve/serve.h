// SPDX-License-Identifier: MIT
// serve.h: declares what an endpoint of `qkv serve` may use.
//
// To add an endpoint: a row of endpoint.def with the method, the path and a function, and the
// function in a file endpoints/endpoint_<subject>.c.  The function runs on the thread of the
// sockets, so it only reads the request, and either answers at once,
//
//     void endpoint_version(struct serve_call *c)
//     {
//         FILE *to = serve_answer(c, 200, "application/json");
//         fprintf(to, "{\"version\":\"%s\"}", qkv_version());
//         serve_send(c);
//     }
//
// or gives the work to the thread of a model:
//
//     static void count(struct serve_job *j)
//     {
//         ...
//         serve_send(j->call);
//     }
//     void endpoint_count(struct serve_call *c)
//     {
//         struct serve_model *m;
//         if (serve_body(c, fields) && (m = serve_model_of(c, name)))
//             serve_run(c, m, cost, count);
//     }
//
// Each call is answered exactly once: serve_send, serve_fail or serve_stream_end.  After that the
// call must not be used.  Host, Origin, token, method, Content-Type and all limits were checked
// before the function is called.
#ifndef QKV_CLI_SERVE_H
#define QKV_CLI_SERVE_H

#include "frame/cmd.h"
#include "serve/http_request.h"
#include <qkv/json.h>
#include <pthread.h>
#include <stdatomic.h>

struct serve_model;
struct serve_job;
struct serve_call;

// ---- endpoints (endpoint.def) -------------------------------------------------------------------
struct endpoint {
    const char *method, *path;
    void (*run)(struct serve_call *c);
    const char *about; // one phrase
};
extern const struct endpoint endpoint_table[]; // ends with a zeroed row
#define ENDPOINT(method, path, function, about) void endpoint_##function(struct serve_call *c);
#include "serve/endpoint.def"
#undef ENDPOINT

// ---- a call (call.c) ----------------------------------------------------------------------------
// A growing array of bytes (serve_bytes.c).  After a failed allocation `failed` stays true.
struct serve_bytes {
    char *at;
    size_t count, capacity;
    bool failed;
};
void serve_bytes_add(struct serve_bytes *b, const void *bytes, size_t n);
void serve_bytes_free(struct serve_bytes *b);

// One request and its answer.  Members that are not in the first group belong to server.c.
struct serve_call {
    const struct http_request *request; // valid while the endpoint's function runs, not in a job
    const struct endpoint *endpoint;
    qkv_json *body;   // set by serve_body(), freed with the call
    atomic_bool gone; // the client has left: a job ends as soon as it can
    int64_t tokens;   // tokens that were read or generated, for the log

    FILE *to; // the body that is being written, with its memory
    char *text;
    size_t text_bytes;
    int status;
    char type[64];
    bool streaming, http10, head_only, closing;
    // Guarded by server.lock: bytes that the connection has not taken yet; whether the call is in
    // the list of calls with news; whether the answer is complete; the next call of that list.
    struct serve_bytes out, rest; // rest: the body of a complete answer, after `out`
    bool queued, ended;
    struct serve_call *next;
    // The virtual time at which its job ends, and where the connection stores it when the call has
    // ended; NULL: no model computes it.
    double finish, *finish_of;
    struct serve_call *other; // the next of server.calls
    size_t held; // bytes of the body of a client that has left, which count in server.held
    struct connection *connection; // NULL: the client has left
    struct server *server;
    int64_t began; // time in microseconds
    size_t sent;
    char path[64], method[8], peer[48];
};

// Begins the answer; the caller writes the body to the stream, then calls serve_send().  type: a
// constant such as "application/json".
FILE *serve_answer(struct serve_call *c, int status, const char *type);
void serve_send(struct serve_call *c);
// Answers with an error as OpenAI writes it.  param: the JSON path of the error, "$.input"; NULL:
// none.
void serve_fail(struct serve_call *c, int status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Answers with an error of the library: 400 for what the client can change, otherwise 500 or 503.
void serve_fail_with(struct serve_call *c, const qkv_error *err, const char *param);
// An answer in pieces: server-sent events.  Pieces are sent when they are written.
void serve_stream_begin(struct serve_call *c);
void serve_stream_event(struct serve_call *c, const char *data, size_t bytes);
void serve_stream_end(struct serve_call *c);

// ---- JSON of a request (request_json.c) ---------------------------------------------------------
// A member of the body of a request.
enum serve_field_kind {
    FIELD_TEXT,    // const char *
    FIELD_INTEGER, // int64_t
    FIELD_NUMBER,  // double
    FIELD_BOOLEAN, // bool
    FIELD_ANY,     // const qkv_json *
    FIELD_IGNORED, // accepted without effect
    FIELD_REFUSED  // known, but not supported: refused by name unless it is null
};
struct serve_field {
    const char *name;
    enum serve_field_kind kind;
    void *to;        // where the value is stored, unless the member is missing or null
    double min, max; // range of a number
};
// Parses the body of the request, a JSON object of at most 2^18 values, and stores its members.
// fields[] ends with a zeroed row; another member is refused by name.  Returns false if the call
// was answered with an error.
bool serve_body(struct serve_call *c, const struct serve_field *fields);
// Stores the members of an object inside the body; path is its path, such as "$.options".
bool serve_members(struct serve_call *c, const qkv_json *object, const char *path,
                   const struct serve_field *fields);
// Reads truncation_direction, "Right" (as without it) or "Left"; left NULL: "Left" is refused.
bool serve_direction(struct serve_call *c, const char *direction, bool *left);
// Reads the texts of a member: a text or an array of texts. The caller frees *texts and *bytes.
struct serve_texts {
    const char **text; // [count], in memory of the call's body
    size_t *bytes;
    int32_t *ids;     // the texts as token ids, if the member has ids instead of texts
    int64_t *offsets; // [count + 1] text i is ids[offsets[i]] .. ids[offsets[i + 1] - 1]
    int64_t count;
    bool single; // the member is one text, not an array
};
enum { TEXTS_IDS = 1, TEXTS_EMPTY = 2 }; // token ids, no text at all are allowed
bool serve_texts_read(struct serve_call *c, struct serve_texts *t, const qkv_json *v,
                      const char *path, int64_t most, unsigned allowed);
void serve_texts_free(struct serve_texts *t);
// Fails if one of n token ids is not below `vocab`.
qkv_status serve_ids_check(const int32_t *ids, int64_t n, int64_t vocab, qkv_error *err);
// Returns the number of tokens of text i, about.
int64_t serve_text_cost(const struct serve_texts *t, int64_t i);
// Prints floats as a JSON array.
void serve_floats(FILE *to, const float *x, int64_t n);

// ---- models and their threads (service.c) -------------------------------------------------------
// A model with everything that its endpoints need, opened when the server starts.
struct serve_model {
    const char *name; // name in requests
    char dir[CMD_PATH];
    struct qkv_model_info info;
    const qkv_model *model;         // belongs to the embedder or the generator
    const qkv_tokenizer *tokenizer; // the same
    qkv_embedder *embedder;         // NULL: the model computes no vectors
    qkv_generator *generator;       // NULL: the model does not generate
    struct chat *chat;              // its chat template; NULL: it generates no text
    struct service *service;        // its queue and thread
};
extern struct serve_model *serve_models; // [serve_model_count]
extern int64_t serve_model_count;

// RUN calls the function of the job; texts of EMBED jobs are computed together; GENERATE jobs are
// decoded together.
enum serve_job_kind { JOB_RUN = 0, JOB_EMBED, JOB_GENERATE };
// Work for the thread of a model.
struct serve_job {
    struct serve_call *call;
    struct serve_model *model;
    void (*run)(struct serve_job *j);  // answers the call
    void (*free)(struct serve_job *j); // frees the job; NULL: free()
    enum serve_job_kind kind;
    double tag;   // its position in the queue, which grows with the tokens that it has used
    int64_t cost; // of JOB_RUN: tokens of the next call of run(), about
    bool again;   // set by run(): the call is not answered yet, run() is called again
    struct serve_job *next;
};
// Returns the model that the request names in its member "model", or the first model if it names
// none; answers with 404 and returns NULL if there is no such model.
struct serve_model *serve_model_of(struct serve_call *c, const char *name);
// The same, but without a name the first model that `can` do what is asked; the first model if none
// can.
struct serve_model *serve_model_that(struct serve_call *c, const char *name,
                                     bool (*can)(const struct serve_model *m));
// Queues a job, whose first member is a struct serve_job with `run`, `free`, `cost` and whose
// memory is from calloc().  If the queue is full, answers with 429.
void serve_queue(struct serve_call *c, struct serve_model *m, void *job);
// Queues a job that has no data of its own.
void serve_run(struct serve_call *c, struct serve_model *m, int64_t cost,
               void (*run)(struct serve_job *j));

#endif
