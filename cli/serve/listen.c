// SPDX-License-Identifier: MIT
// listen.c: opens the sockets of the server, or takes those that systemd has opened (sd_listen_fds:
// the variables LISTEN_PID and LISTEN_FDS, descriptors from 3 on).
#include "serve/server.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_PASSED = 3, BACKLOG = 512, ADDRESS_HOST = 64, ADDRESS_PORT = 16 };

static bool is_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_UNIX) return true;
    if (a->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

// Writes the address of a socket. Returns false if it has none: a socket of this machine.
static bool address(int fd, char host[ADDRESS_HOST], char port[ADDRESS_PORT], bool *six)
{
    struct sockaddr_storage a = { 0 };
    socklen_t size = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &size) < 0 || a.ss_family == AF_UNIX) return false;
    *six = a.ss_family == AF_INET6;
    return getnameinfo((struct sockaddr *)&a, size, host, ADDRESS_HOST, port, ADDRESS_PORT,
                       NI_NUMERICHOST | NI_NUMERICSERV) == 0;
}

// Returns true if the descriptor is a stream socket that listens. systemd passes a connection with
// Accept=yes, and a datagram socket with ListenDatagram.
static bool listens(int fd)
{
    int type = 0, on = 0;
    socklen_t type_size = sizeof type, on_size = sizeof on;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &on_size) == 0 && on;
}

// Adds a listening socket.
static qkv_status add(struct server *s, int fd, bool *loopback, qkv_error *err)
{
    struct sockaddr_storage a = { 0 };
    socklen_t size = sizeof a;
    char host[ADDRESS_HOST], port[ADDRESS_PORT];
    bool six;
    const int on = 1;
    if (getsockname(fd, (struct sockaddr *)&a, &size) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return cmd_error(err, QKV_ERR_IO, NULL, "descriptor %d is no usable socket: %s", fd,
                         strerror(errno));
    if (!listens(fd))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "descriptor %d is no usable socket, expected a stream socket that listens "
                         "(systemd: ListenStream= without Accept=yes)",
                         fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // inherited by accepted sockets
    s->listener[s->listeners++] = fd;
    *loopback = *loopback && is_loopback(&a);
    if (address(fd, host, port, &six))
        snprintf(s->o.cookie_name, sizeof s->o.cookie_name, "qkv-%s", port);
    return QKV_OK;
}

qkv_status server_print_addresses(const struct server *s, qkv_error *err)
{
    for (int i = 0; i < s->listeners; i++) {
        char host[ADDRESS_HOST], port[ADDRESS_PORT];
        bool six;
        if (!address(s->listener[i], host, port, &six)) {
            puts("listening on a socket of this machine");
            continue;
        }
        printf("%shttp://%s%s%s:%s", *s->o.ticket ? "" : "listening on ", six ? "[" : "", host,
               six ? "]" : "", port);
        printf(*s->o.ticket ? "/?token=%s\n" : "%s\n", s->o.ticket);
    }
    return cmd_written(stdout, "standard output", err);
}

// Takes the sockets of systemd. Returns their number, 0 if there are none.
static int passed(struct server *s, bool *loopback, qkv_error *err)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t owner, count;
    if (!pid || !fds || !cmd_parse_int(pid, &owner) || owner != (int64_t)getpid() ||
        !cmd_parse_int(fds, &count) || count < 1)
        return 0;
    if (count > SERVER_LISTENERS) {
        cmd_error(err, QKV_ERR_USAGE, NULL,
                  "systemd passes too many sockets, expected at most %d, found %lld",
                  SERVER_LISTENERS, (long long)count);
        return -1;
    }
    for (int i = 0; i < (int)count; i++)
        if (add(s, FIRST_PASSED + i, loopback, err)) return -1;
    return (int)count;
}

static int open_socket(const struct addrinfo *a)
{
    const int on = 1, fd = socket(a->ai_family, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    const int code = errno;
    close(fd);
    errno = code;
    return -1;
}

qkv_status server_listen(struct server *s, const char *host, int64_t port, bool *loopback,
                         qkv_error *err)
{
    char service[24];
    const struct addrinfo hints = { .ai_family = AF_UNSPEC,
                                    .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    *loopback = true;
    const int taken = passed(s, loopback, err);
    s->passed = taken > 0;
    if (taken) return taken < 0 ? err->status : QKV_OK;
    snprintf(service, sizeof service, "%lld", (long long)port);
    const int code = getaddrinfo(host, service, &hints, &list);
    if (code)
        return cmd_error(err,
                         code == EAI_MEMORY   ? QKV_ERR_LIMIT
                         : code == EAI_SYSTEM ? cmd_io_status(errno)
                                              : QKV_ERR_USAGE,
                         NULL, "--host: %s: %s", host,
                         code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    qkv_status status = QKV_OK;
    for (const struct addrinfo *a = list; a && !status && s->listeners < SERVER_LISTENERS;
         a = a->ai_next) {
        const int fd = open_socket(a);
        if (fd >= 0 && (status = add(s, fd, loopback, err)))
            close(fd);
        else if (fd < 0 && !a->ai_next && !s->listeners)
            status = cmd_error(err, QKV_ERR_IO, NULL, "cannot listen on %s, port %lld: %s", host,
                               (long long)port, strerror(errno));
        if (!port && s->listeners) break; // each further socket would get another port
    }
    freeaddrinfo(list);
    return status;
}
