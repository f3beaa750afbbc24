// SPDX-License-Identifier: MIT
// live.c: the server of `qkv view --live`: one page for one browser of this machine.
//
// The address that is printed contains a ticket, which is exchanged once for a cookie. A secret
// that the script of the page held instead would be part of the page: it would be lost when the
// page is loaded again, and a saved page would contain it. The cookie is out of reach of scripts
// (HttpOnly), and the address, which histories of browsers and shells keep, is worthless after its
// first use. Browsers send a cookie to every port of a host, so its name contains the port; another
// server on this machine that the browser visits can still read it. SameSite=Strict would refuse
// the first page to a browser that comes from a link on another page; requests of other sites are
// refused by their header Origin.
#include "serve/page/live.h"
#include "serve/server.h"
#include "serve/service.h"
#include <errno.h>
#include <string.h>

static qkv_status make_secret(char out[SERVER_SECRET], qkv_error *err)
{
    static const char path[] = "/dev/urandom";
    unsigned char bytes[(SERVER_SECRET - 1) / 2];
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    if (n < sizeof bytes)
        return cmd_error(err, QKV_ERR_IO, path, "no random numbers for the address of the page");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return QKV_OK;
}

qkv_status live_run(const char *text, qkv_error *err)
{
    static struct server s = { .lock = PTHREAD_MUTEX_INITIALIZER };
    const struct cmd_words none = { 0 };
    bool loopback;
    service_options = (struct service_options){ .batch_tokens = service_batch_tokens(),
                                                .most_requests = 64,
                                                .client_batch = 32,
                                                .slots = 1,
                                                .page_text = text ? text : SERVICE_PAGE_TEXT };
    s.o = (struct server_options){ .most_connections = 128,
                                   .most_requests = 64,
                                   .head_seconds = SERVER_HEAD_SECONDS,
                                   .body_seconds = SERVER_BODY_SECONDS,
                                   .idle_seconds = SERVER_IDLE_SECONDS };
    qkv_status status = make_secret(s.o.ticket, err);
    if (!status) status = make_secret(s.o.cookie, err);
    if (!status) status = service_models_open(&none, err);
    if (!status) status = server_listen(&s, "127.0.0.1", 0, &loopback, err);
    if (!status) status = services_start(err);
    if (!status) status = server_run(&s, err);
    services_stop();
    service_models_close();
    server_free(&s);
    return status;
}
