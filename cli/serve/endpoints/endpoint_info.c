// SPDX-License-Identifier: MIT
// endpoint_info.c: what the server is and does: health, models, limits, counters.
#include "serve/server.h"
#include "serve/service.h"
#include <string.h>

void endpoint_health(struct serve_call *c)
{
    fprintf(serve_answer(c, 200, "application/json"), "{\"status\":\"ok\"}\n");
    serve_send(c);
}

static const char *kind_name(enum qkv_model_kind kind)
{
    return kind == QKV_KIND_DECODER           ? "decoder"
           : kind == QKV_KIND_ENCODER_DECODER ? "encoder-decoder"
                                              : "encoder";
}

static void print_model(FILE *to, const struct serve_model *m)
{
    fputs("{\"id\":", to);
    cmd_json_text(to, m->name, strlen(m->name));
    fprintf(to,
            ",\"family\":\"%s\",\"kind\":\"%s\",\"layers\":%lld,\"heads\":%lld,\"width\":%lld,"
            "\"vocab\":%lld,\"positions\":%lld,\"parameters\":%lld,\"labels\":%lld,"
            "\"precision\":\"%s\",\"generates\":%s,\"embeds\":%s",
            m->info.family, kind_name(m->info.kind), (long long)m->info.layers,
            (long long)m->info.heads, (long long)m->info.width, (long long)m->info.vocab,
            (long long)m->info.positions, (long long)m->info.parameters, (long long)m->info.labels,
            qkv_precision_name(m->info.precision), m->generator ? "true" : "false",
            m->embedder ? "true" : "false");
    if (m->embedder)
        fprintf(to, ",\"dimensions\":%lld,\"max_input_length\":%lld",
                (long long)qkv_embedder_width(m->embedder),
                (long long)qkv_embedder_max_length(m->embedder));
    putc('}', to);
}

void endpoint_info(struct serve_call *c)
{
    FILE *to = serve_answer(c, 200, "application/json");
    fprintf(to, "{\"version\":\"%s\",\"isa\":\"%s\",\"threads\":%d,\"models\":[", qkv_version(),
            qkv_isa(), qkv_threads());
    for (int64_t i = 0; i < serve_model_count; i++) {
        if (i) putc(',', to);
        print_model(to, &serve_models[i]);
    }
    fprintf(to,
            "],\"max_batch_tokens\":%lld,\"max_sequences\":%lld,\"max_concurrent_requests\":%lld,"
            "\"max_client_batch_size\":%lld,\"max_body_bytes\":%d,\"endpoints\":[",
            (long long)service_options.batch_tokens, (long long)service_options.slots,
            (long long)service_options.most_requests, (long long)service_options.client_batch,
            SERVER_BODY);
    for (const struct endpoint *e = endpoint_table; e->path; e++)
        fprintf(to, "%s{\"method\":\"%s\",\"path\":\"%s\",\"about\":\"%s\"}",
                e == endpoint_table ? "" : ",", e->method, e->path, e->about);
    fputs("]}\n", to);
    serve_send(c);
}

// Prints a model as OpenAI lists it.
static void print_listed(FILE *to, const char *name)
{
    fputs("{\"id\":", to);
    cmd_json_text(to, name, strlen(name));
    fputs(",\"object\":\"model\",\"created\":0,\"owned_by\":\"qkv\"}", to);
}

void endpoint_models(struct serve_call *c)
{
    FILE *to = serve_answer(c, 200, "application/json");
    fputs("{\"object\":\"list\",\"data\":[", to);
    for (int64_t i = 0; i < serve_model_count; i++) {
        if (i) putc(',', to);
        print_listed(to, serve_models[i].name);
    }
    fputs("]}\n", to);
    serve_send(c);
}

// Returns the value of a hexadecimal digit; -1: it is none.
static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) % 16 : -1;
}

// Replaces the escapes of a part of a path, such as %2F.  Returns false if the result is too long,
// or has a byte 0.
static bool unescape(char *out, size_t size, const char *part)
{
    size_t n = 0;
    for (; *part && n + 1 < size; n++) {
        const int high = *part == '%' ? hex_digit(part[1]) : -1;
        const int low = high >= 0 ? hex_digit(part[2]) : -1;
        out[n] = low >= 0 ? (char)(16 * high + low) : *part;
        if (!out[n]) return false;
        part += low >= 0 ? 3 : 1;
    }
    out[n] = 0;
    return !*part;
}

void endpoint_model(struct serve_call *c)
{
    const char *part = c->request->path + strlen("/v1/models/");
    char name[CMD_PATH];
    const struct serve_model *m =
        serve_model_of(c, unescape(name, sizeof name, part) ? name : part);
    if (!m) return;
    FILE *to = serve_answer(c, 200, "application/json");
    print_listed(to, m->name);
    putc('\n', to);
    serve_send(c);
}

static void print_family(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP qkv_%s %s\n# TYPE qkv_%s %s\n", name, help, name, type);
}

// Prints the value of a label, which has other escapes than JSON; invalid UTF-8 becomes U+FFFD.
static void print_label(FILE *to, const char *text)
{
    const size_t bytes = strlen(text);
    putc('"', to);
    for (size_t i = 0, n; i < bytes; i += n ? n : 1) {
        n = qkv_utf8_bytes(text + i, bytes - i);
        if (text[i] == '\n')
            fputs("\\n", to);
        else if (text[i] == '"' || text[i] == '\\')
            fprintf(to, "\\%c", text[i]);
        else
            fwrite(n ? text + i : "\xef\xbf\xbd", 1, n ? n : 3, to);
    }
    putc('"', to);
}

// Prints one counter per endpoint.
static void print_counts(FILE *to, const struct server *s, const char *name, const char *help,
                         double (*value)(const struct server_count *n))
{
    print_family(to, name, "counter", help);
    for (int64_t i = 0;; i++) {
        const char *path = i ? endpoint_table[i - 1].path : "other";
        if (!path) return;
        fprintf(to, "qkv_%s{path=\"%s\"} %.17g\n", name, path, value(&s->count[i]));
    }
}
static double requests(const struct server_count *n)
{
    return (double)n->requests;
}
static double errors(const struct server_count *n)
{
    return (double)n->errors;
}
static double seconds(const struct server_count *n)
{
    return n->seconds;
}

void endpoint_metrics(struct serve_call *c)
{
    const struct server *s = c->server;
    FILE *to = serve_answer(c, 200, "text/plain; version=0.0.4; charset=utf-8");
    print_counts(to, s, "requests_total", "Requests that were answered.", requests);
    print_counts(to, s, "request_errors_total", "Answers with status 400 or above.", errors);
    print_counts(to, s, "request_seconds_total", "Time from the request to its answer.", seconds);
    print_family(to, "tokens_total", "counter", "Tokens that were read or generated.");
    fprintf(to, "qkv_tokens_total %lld\n", (long long)atomic_load(&s->tokens));
    print_family(to, "connections", "gauge", "Open connections.");
    fprintf(to, "qkv_connections %lld\n", (long long)s->connections);
    print_family(to, "connections_refused_total", "counter", "Connections above the limit.");
    fprintf(to, "qkv_connections_refused_total %lld\n", (long long)s->refused);
    print_family(to, "connections_slow_total", "counter",
                 "Connections that ended because large answers were read too slowly.");
    fprintf(to, "qkv_connections_slow_total %lld\n", (long long)s->slow);
    print_family(to, "body_bytes", "gauge", "Bytes of bodies that are read or answered.");
    fprintf(to, "qkv_body_bytes %zu\n", s->held);
    print_family(to, "unread_bytes", "gauge", "Bytes of answers that clients have not read.");
    fprintf(to, "qkv_unread_bytes %zu\n", s->unread);
    print_family(to, "log_dropped_total", "counter", "Lines of the log that did not fit.");
    fprintf(to, "qkv_log_dropped_total %lld\n", (long long)log_dropped());
    print_family(to, "queue_jobs", "gauge", "Requests that wait or run, per model.");
    for (int64_t i = 0; i < serve_model_count; i++) {
        fputs("qkv_queue_jobs{model=", to);
        print_label(to, serve_models[i].name);
        fprintf(to, "} %lld\n", (long long)service_jobs(&serve_models[i]));
    }
    print_family(to, "uptime_seconds", "gauge", "Time since the start.");
    fprintf(to, "qkv_uptime_seconds %.3f\n", (double)(server_now() - s->started) * 1e-3);
    serve_send(c);
}
