// SPDX-License-Identifier: MIT
// cmd_serve.c: implements `qkv serve`: a server of HTTP/1.1 for vectors, text and attention.
#include "serve/server.h"
#include "serve/service.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SECONDS = 86400 };
static struct {
    const char *host, *token_file;
    int64_t port, batch_tokens, sequences, requests, client_batch, head, body, idle;
    struct cmd_words models, hosts;
} o = { .host = "127.0.0.1",
        .port = 8080,
        .sequences = 16,
        .requests = 512,
        .client_batch = 32,
        .head = SERVER_HEAD_SECONDS,
        .body = SERVER_BODY_SECONDS,
        .idle = SERVER_IDLE_SECONDS };

static const struct opt opts[] = {
    OPT_WORDS('m', "model", &o.models, "DIR|NAME=DIR",
              "model folder, may be repeated; NAME is its name in requests (default: the name of "
              "the folder, or org/name of a pulled model). The first model answers requests that "
              "name none"),
    OPT_TEXT(0, "host", &o.host, "HOST", "address to listen on (default: 127.0.0.1)"),
    OPT_INT(0, "port", &o.port, 0, 65535, "N",
            "port (default: 8080); 0: a free port, which is printed"),
    OPT_INPUT(0, "token-file", &o.token_file, "FILE",
              "file whose first line is the token that clients must send (Authorization: Bearer "
              "TOKEN); required unless --host is an address of this machine only"),
    OPT_WORDS(0, "allow-host", &o.hosts, "NAME",
              "name of this server in the Host header, if it is not localhost; may be repeated"),
    OPT_GROUP("Limits"),
    OPT_INT(0, "max-batch-tokens", &o.batch_tokens, 1, 1 << 24, "N",
            "tokens that are computed together, before other requests have their turn (default: "
            "512 for each thread, at most 8192)"),
    OPT_INT(0, "max-sequences", &o.sequences, 1, 4096, "N",
            "outputs of a model that are generated at once; further ones wait (default: 16)"),
    OPT_INT(0, "max-concurrent-requests", &o.requests, 1, 65536, "N",
            "requests that wait or run; further ones are answered with 429 (default: 512)"),
    OPT_INT(0, "max-client-batch-size", &o.client_batch, 1, 65536, "N",
            "texts of one request (default: 32)"),
    OPT_INT(0, "head-timeout", &o.head, 1, MOST_SECONDS, "SECONDS",
            "time from the first byte of a request to its last header; then it is answered with "
            "408 (default: 10)"),
    OPT_INT(0, "body-timeout", &o.body, 1, MOST_SECONDS, "SECONDS",
            "time from the last header of a request to the end of its body; then it is answered "
            "with 408 (default: 30)"),
    OPT_INT(0, "idle-timeout", &o.idle, 1, MOST_SECONDS, "SECONDS",
            "time between two requests of a connection, which then ends (default: 60)"),
    OPT_END
};

// ---- the token ----------------------------------------------------------------------------------
enum { TOKEN_LEAST = 16, TOKEN_MOST = 4096 };

static qkv_status read_token(char **token, qkv_error *err)
{
    size_t bytes;
    *token = NULL;
    if (!o.token_file) return QKV_OK;
    const qkv_status status = cmd_read_file(token, &bytes, o.token_file, err);
    if (status) return status;
    const size_t n = strcspn(*token, "\r\n");
    (*token)[n] = 0;
    for (size_t i = 0; i < n; i++)
        if ((*token)[i] <= 0x20 || (*token)[i] >= 0x7f)
            return cmd_error(err, QKV_ERR_FORMAT, o.token_file,
                             "the token contains a space or a character outside of ASCII");
    if (n < TOKEN_LEAST)
        return cmd_error(err, QKV_ERR_FORMAT, o.token_file,
                         "the token is too short, expected %d characters or more, found %zu",
                         TOKEN_LEAST, n);
    if (n > TOKEN_MOST) // a client could not send it
        return cmd_error(err, QKV_ERR_FORMAT, o.token_file,
                         "the token is too long, expected at most %d characters, found %zu",
                         TOKEN_MOST, n);
    return QKV_OK;
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    static struct server s = { .lock = PTHREAD_MUTEX_INITIALIZER };
    char *token = NULL;
    bool loopback;
    (void)argc;
    (void)argv;
    if (!o.batch_tokens) o.batch_tokens = service_batch_tokens();
    service_options = (struct service_options){ .batch_tokens = o.batch_tokens,
                                                .most_requests = o.requests,
                                                .client_batch = o.client_batch,
                                                .slots = o.sequences,
                                                .page_text = SERVICE_PAGE_TEXT };
    if (read_token(&token, &err) || server_listen(&s, o.host, o.port, &loopback, &err)) goto done;
    if (!loopback && !token) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "%s%s is reached from other machines, expected --token-file FILE",
                  s.passed ? "a socket of systemd" : "--host ", s.passed ? "" : o.host);
        goto done;
    }
    s.o = (struct server_options){ .token = token,
                                   .hosts = o.hosts.text,
                                   .host_count = o.hosts.count,
                                   .any_host = !loopback && !o.hosts.count,
                                   .most_connections = o.requests * 2,
                                   .most_requests = o.requests,
                                   .head_seconds = o.head,
                                   .body_seconds = o.body,
                                   .idle_seconds = o.idle,
                                   .log = !common.quiet };
    if (!service_models_open(&o.models, &err) && !services_start(&err)) server_run(&s, &err);
    services_stop();
done:
    service_models_close();
    server_free(&s);
    free(token);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_serve = {
    .name = "serve",
    .brief = "serve models over HTTP",
    .usage = "[-m [NAME=]DIR]... [options]",
    .about = "Answers requests over HTTP/1.1 until SIGTERM or Ctrl-C, and then finishes the "
             "running ones. Requests of many clients are computed together; an answer is bit-identical "
             "to that of 'qkv embed' and 'qkv generate' on the same text, whatever else is computed.\n\n"
             "Endpoints: GET / (the page of 'qkv view' with a text field, for a browser), /health, /info, /metrics, /v1/models; POST /v1/embeddings, /embed, "
             "/v1/completions, /v1/chat/completions, /rerank, /predict, /tokenize, /detokenize, "
             "/v1/attention (as JSON, or as the page of 'qkv view'). docs/serve.md describes them.",
    .opts = opts,
    .uses = USES_COMPUTE,
    .examples = {
        { "qkv serve -m models/all-MiniLM-L6-v2", "serve one model on port 8080 of this machine" },
        { "qkv serve -m small=models/all-MiniLM-L6-v2 -m verse=models/verse --port 0", "two models by name, on a free port" },
        { "curl http://$SERVER/v1/embeddings --json '{\"input\":\"hello\"}'", "the vector of a text" },
    },
    .run = run,
};
