// SPDX-License-Identifier: MIT
// address.c: parses HTTP addresses (RFC 3986) and decides where a redirect may lead.
#include "pull/address.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Parses "host", "host:port" or "[IPv6]:port" in text[bytes].
static bool parse_host(struct address *out, const char *text, size_t bytes)
{
    const bool six = bytes && text[0] == '[';
    const char *const end = text + bytes, *const close = memchr(text, six ? ']' : ':', bytes),
                      *const after = six     ? (close ? close + 1 : NULL)
                                     : close ? close
                                             : end;
    const char *const host = text + six;
    const size_t n = after ? (size_t)(six ? close - host : after - host) : 0;
    int64_t port = out->secure ? 443 : 80;
    char digits[8];
    if (!n || n >= sizeof out->host) return false;
    for (size_t i = 0; i < n; i++) {
        const char c = host[i] >= 'A' && host[i] <= 'Z' ? (char)(host[i] + 32) : host[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '.' || (six ? c == ':' : c == '_');
        if (!plain) return false;
        out->host[i] = c;
    }
    out->host[n] = 0;
    if (after < end) {
        const size_t k = (size_t)(end - after) - 1;
        if (*after != ':' || !k || k >= sizeof digits) return false;
        memcpy(digits, after + 1, k);
        digits[k] = 0;
        if (!cmd_parse_int(digits, &port) || port < 1 || port > 65535) return false;
    }
    out->port = (int)port;
    return true;
}

bool address_parse(struct address *out, const char *text)
{
    memset(out, 0, sizeof *out);
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 127 || *p == '\\' || *p == '"')
            return false;
    out->secure = !strncasecmp(text, "https://", 8);
    if (!out->secure && strncasecmp(text, "http://", 7) != 0) return false;
    text += out->secure ? 8 : 7;
    const size_t bytes = strcspn(text, "/?#");
    const char *at = NULL;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '@') at = text + i;
    out->user = at != NULL;
    out->path = text + bytes;
    const char *const host = at ? at + 1 : text;
    return parse_host(out, host, bytes - (size_t)(host - text));
}

const char *address_show(char out[ADDRESS_SHOWN], const char *address)
{
    struct address a;
    const char *host = address, *const end = address + strcspn(address, "?#"),
               *const slashes = strstr(address, "://");
    if (slashes && slashes < end) host = slashes + 3;
    const int scheme = (int)(host - address);
    if (address_parse(&a, address)) {
        for (const char *p = host; p < a.path; p++)
            if (*p == '@') host = p + 1;
    } else if (strchr(address, '@')) { // where a password ends is unknown
        snprintf(out, ADDRESS_SHOWN, "%.*s...", scheme < 16 ? scheme : 0, address);
        return out;
    }
    snprintf(out, ADDRESS_SHOWN, "%.*s%.*s", scheme, address, (int)(end - host), host);
    return out;
}

bool address_same(const struct address *a, const struct address *b)
{
    return a->secure == b->secure && a->port == b->port && !strcmp(a->host, b->host);
}

// Returns true if the host is an IPv4 address in one of the forms that a resolver accepts: numbers
// with dots, also fewer than four and hexadecimal ones.
static bool is_number(const char *host)
{
    const size_t n = strlen(host);
    const char *const last = strrchr(host, '.') ? strrchr(host, '.') + 1 : host;
    return n && (strspn(last, "0123456789") == strlen(last) || !strncmp(last, "0x", 2));
}

bool address_local(const struct address *a)
{
    const char *const h = a->host, *const local = ".localhost";
    const size_t n = strlen(h), k = strlen(local);
    if (!strcmp(h, "localhost") || (n > k && !strcmp(h + n - k, local))) return true;
    if (strchr(h, ':')) // only global unicast, 2000::/3, is public
        return !(n > 4 && (h[0] == '2' || h[0] == '3') && strcspn(h, ":") == 4);
    if (!is_number(h)) return false;
    int part[4];
    char more;
    if (sscanf(h, "%3d.%3d.%3d.%3d%c", part, part + 1, part + 2, part + 3, &more) != 4) return true;
    return h[0] == '0' || strstr(h, ".0x") || part[0] == 0 || part[0] == 10 || part[0] == 127 ||
           part[0] >= 224 || (part[0] == 100 && part[1] >= 64 && part[1] < 128) ||
           (part[0] == 169 && part[1] == 254) ||
           (part[0] == 172 && part[1] >= 16 && part[1] < 32) || (part[0] == 192 && part[1] == 168);
}

qkv_status address_redirect(char out[ADDRESS_BYTES], const char *from, const char *location,
                            qkv_error *err)
{
    struct address old, new;
    char shown[2][ADDRESS_SHOWN];
    int n;
    if (!address_parse(&old, from))
        return cmd_error(err, QKV_ERR_FORMAT, NULL, "%s is no address",
                         address_show(shown[0], from));
    const int origin = (int)(old.path - from), path = (int)strcspn(old.path, "?#");
    if (!strncmp(location, "//", 2)) {
        n = snprintf(out, ADDRESS_BYTES, "%s%s", old.secure ? "https:" : "http:", location);
    } else if (*location == '/') {
        n = snprintf(out, ADDRESS_BYTES, "%.*s%s", origin, from, location);
    } else if (strcspn(location, ":") < strcspn(location, "/?#")) { // it has a scheme
        n = snprintf(out, ADDRESS_BYTES, "%s", location);
    } else { // relative to the folder of the path
        int folder = path;
        while (folder && old.path[folder - 1] != '/') folder--;
        n = snprintf(out, ADDRESS_BYTES, "%.*s%.*s%s%s", origin, from, folder, old.path,
                     folder ? "" : "/", location);
    }
    const char *reason = NULL;
    if (n < 0 || n >= ADDRESS_BYTES || !address_parse(&new, out))
        reason = "expected an address of http or https";
    else if (old.secure && !new.secure)
        reason = "expected https, as the address before";
    else if (new.user && !old.user)
        reason = "expected an address without user name";
    else if (address_local(&new) && !address_local(&old))
        reason = "expected a public host, as the host before";
    if (!reason) return QKV_OK;
    return cmd_error(err, QKV_ERR_FORMAT, NULL, "%s leads to %s, %s; it was not followed",
                     address_show(shown[0], from), address_show(shown[1], location), reason);
}

bool address_quote(char *out, size_t size, const char *text, const char *keep)
{
    size_t at = strlen(out);
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || strchr("._~-", c) || strchr(keep, c);
        if (at + 4 > size) return false;
        at += (size_t)snprintf(out + at, size - at, plain ? "%c" : "%%%02X", c);
    }
    return true;
}
