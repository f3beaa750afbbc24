// SPDX-License-Identifier: MIT
// fetch.h: declares the table of the engine "curl": single HTTP requests without redirects.
#ifndef QKV_CLI_FETCH_H
#define QKV_CLI_FETCH_H

#include <stddef.h>

enum { FETCH_RATE = 1000 };
struct fetch_request {
    const char *url;            // http:// or https://
    int head;                   // 1: the request is HEAD, without a body
    const char *const *headers; // lines such as "Accept: text/html"; the list ends with NULL
    const char *certificates;   // file with the certificates to trust; NULL: the system's
    long connect_seconds;       // time to connect
    long idle_seconds;          // time with fewer than FETCH_RATE bytes per second, after which
                                // the request fails
    long total_seconds;         // time of the whole request; 0: no limit
    void *context;              // of the callbacks
    // A response begins (name NULL, value is the status line), or has this header.  Both end with
    // NUL.  Not 0: the request ends.
    int (*header)(void *context, const char *name, const char *value);
    // Bytes of the body of a response with this status.  Not 0: the request ends.
    int (*body)(void *context, long status, const void *data, size_t bytes);
    int (*tick)(void *context); // called at least once a second.  Not 0: the request ends.
};

enum fetch_outcome {
    FETCH_OK = 0,  // the whole response arrived
    FETCH_NETWORK, // no connection, or it broke
    FETCH_STOPPED, // a callback ended the request
    FETCH_REFUSED, // the address or the certificate is not accepted, or the engine failed
    FETCH_MEMORY
};

struct fetch_answer {
    enum fetch_outcome outcome;
    long status;    // HTTP status, 0 if there was no response
    char text[256]; // what failed
};

struct fetch_engine {
    size_t size;
    void *(*open)(void); // NULL: out of memory
    void (*run)(void *connections, const struct fetch_request *r, struct fetch_answer *a);
    void (*close)(void *connections); // NULL is fine
};
#endif
