// SPDX-License-Identifier: MIT
// address.h: declares the parts of an HTTP address, and where a redirect may lead.
#ifndef QKV_CLI_ADDRESS_H
#define QKV_CLI_ADDRESS_H

#include "frame/cmd.h"

enum { ADDRESS_BYTES = 8192, ADDRESS_HOST = 256, ADDRESS_SHOWN = 304 };

struct address {
    bool secure;             // https
    char host[ADDRESS_HOST]; // in lower case; an IPv6 address without its brackets
    int port;
    bool user;        // has a user name, perhaps with a password
    const char *path; // points into the text that was parsed: path, query
};

// Parses an address.  Returns false if it is not a valid one of http or https.
bool address_parse(struct address *out, const char *text);
// Writes an address as messages may show it: without user name, password, query and fragment, which
// may be secret.  Of an invalid address with '@' only the scheme is left.  Returns out.
const char *address_show(char out[ADDRESS_SHOWN], const char *address);
// Returns true if scheme, host and port are equal.
bool address_same(const struct address *a, const struct address *b);
// Returns true if the host is this machine or, as a number, an address of a private network.
bool address_local(const struct address *a);
// Writes the address to which `location`, a header of the response of `from`, leads.  Returns
// QKV_ERR_FORMAT if it may not be followed: another scheme than http and https, http after https,
// a user name, or from a public host to a local one.
qkv_status address_redirect(char out[ADDRESS_BYTES], const char *from, const char *location,
                            qkv_error *err);
// Appends text to out[size], with bytes outside of [A-Za-z0-9._~-] and `keep` as %XX.  Returns
// false if it does not fit.
bool address_quote(char *out, size_t size, const char *text, const char *keep);
#endif
