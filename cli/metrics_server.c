/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/metrics_server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef DETOUR_MICROHTTPD
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>

#include "base/util.h"
#endif

bool dt_metrics_server_parse(const char *text, struct dt_metrics_server_options *options)
{
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t address_bytes = colon ? (size_t)(colon - text) : 0;
    char address[sizeof options->address] = "";
    struct in_addr parsed;
    long port;

    if (address_bytes >= sizeof address)
        return false;
    memcpy(address, text, address_bytes);
    if (colon && inet_pton(AF_INET, address, &parsed) != 1)
        return false;
    if (!*digits || strlen(digits) > 5 || strspn(digits, "0123456789") != strlen(digits))
        return false;
    port = strtol(digits, NULL, 10);
    if (port < 1 || port > UINT16_MAX)
        return false;
    memcpy(options->address, address, sizeof address);
    options->port = (uint16_t)port;
    return true;
}

#ifdef DETOUR_MICROHTTPD

#define LIBRARY_NAME     "libmicrohttpd.so.12"
#define CONNECTIONS_MAX  64u
#define CONNECTION_BYTES ((size_t)16384)
#define SILENCE_S        10u
#define CONTENT_TYPE     "text/plain; version=0.0.4; charset=utf-8"

struct library {
    struct MHD_Daemon *(*start)(unsigned int flags, uint16_t port, MHD_AcceptPolicyCallback policy,
                                void *policy_arg, MHD_AccessHandlerCallback handler, void *handler_arg, ...);
    void (*stop)(struct MHD_Daemon *daemon);
    const union MHD_DaemonInfo *(*info)(struct MHD_Daemon *daemon, enum MHD_DaemonInfoType type, ...);
    struct MHD_Response *(*create_response)(size_t bytes, void *content, enum MHD_ResponseMemoryMode mode);
    enum MHD_Result (*add_header)(struct MHD_Response *response, const char *name, const char *content);
    enum MHD_Result (*queue)(struct MHD_Connection *connection, unsigned int code,
                             struct MHD_Response *response);
    void (*destroy_response)(struct MHD_Response *response);
};

struct dt_metrics_server {
    struct library library;
    struct MHD_Daemon *daemon;
    dt_metrics_write_func *write_metrics;
    void *arg;
};

static bool load(struct library *library, char *reason, size_t reason_bytes)
{
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
        {"MHD_start_daemon", offsetof(struct library, start)},
        {"MHD_stop_daemon", offsetof(struct library, stop)},
        {"MHD_get_daemon_info", offsetof(struct library, info)},
        {"MHD_create_response_from_buffer", offsetof(struct library, create_response)},
        {"MHD_add_response_header", offsetof(struct library, add_header)},
        {"MHD_queue_response", offsetof(struct library, queue)},
        {"MHD_destroy_response", offsetof(struct library, destroy_response)},
    };
    void *handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool is_loaded = handle != NULL;

    for (size_t i = 0; is_loaded && i < DT_COUNT_OF(symbols); i++) {
        void *function = dlsym(handle, symbols[i].name);

        is_loaded = function != NULL;
        memcpy((char *)library + symbols[i].offset, &function, sizeof function);
    }
    if (handle)
        dlclose(handle); /* RTLD_NODELETE: the functions stay */
    if (!is_loaded)
        snprintf(reason, reason_bytes,
                 "the HTTP library: cannot load " LIBRARY_NAME "; Debian's package is libmicrohttpd12");
    return is_loaded;
}

/* ---- Answers, in the library's thread. ---- */

/* Takes `text` over. */
static enum MHD_Result answer(const struct dt_metrics_server *server, struct MHD_Connection *connection,
                              unsigned int code, char *text, size_t bytes)
{
    struct MHD_Response *response = server->library.create_response(bytes, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;

    if (!response) {
        free(text);
        return MHD_NO;
    }
    (void)server->library.add_header(response, "Content-Type", CONTENT_TYPE);
    result = server->library.queue(connection, code, response);
    server->library.destroy_response(response);
    return result;
}

static enum MHD_Result answer_line(const struct dt_metrics_server *server, struct MHD_Connection *connection,
                                   unsigned int code, const char *line)
{
    char *text;
    int bytes = asprintf(&text, "%s\n", line);

    return bytes < 0 ? MHD_NO : answer(server, connection, code, text, (size_t)bytes);
}

static enum MHD_Result answer_metrics(const struct dt_metrics_server *server,
                                      struct MHD_Connection *connection)
{
    char reason[512] = "out of memory", *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    bool is_written = out && server->write_metrics(server->arg, out, reason, sizeof reason);

    is_written = out && !ferror(out) && is_written;
    is_written = out && !fclose(out) && is_written;
    if (is_written)
        return answer(server, connection, MHD_HTTP_OK, text, bytes);
    free(text);
    return answer_line(server, connection, MHD_HTTP_INTERNAL_SERVER_ERROR, reason);
}

static enum MHD_Result handle(void *arg, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    const struct dt_metrics_server *server = arg;
    bool is_first = *state == NULL;

    (void)version;
    (void)upload;
    *state = arg; /* called again with the body and at its end: the body is ignored */
    if (is_first)
        return MHD_YES;
    if (*upload_bytes) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer_line(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only");
    if (strcmp(url, "/metrics") != 0)
        return answer_line(server, connection, MHD_HTTP_NOT_FOUND, "the metrics are at /metrics");
    return answer_metrics(server, connection);
}

/* ---- Life. ---- */

struct dt_metrics_server *dt_metrics_server_start(const struct dt_metrics_server_options *options,
                                                  char *reason, size_t reason_bytes)
{
    struct dt_metrics_server *server = calloc(1, sizeof *server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    const char *text = options->address[0] ? options->address : "127.0.0.1";

    if (!server) {
        snprintf(reason, reason_bytes, "out of memory");
        return NULL;
    }
    server->write_metrics = options->write_metrics;
    server->arg = options->arg;
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
        snprintf(reason, reason_bytes, "the address of the metrics: %s is no IPv4 address", text);
    } else if (load(&server->library, reason, reason_bytes)) {
        errno = 0;
        server->daemon = server->library.start(
            MHD_USE_POLL_INTERNAL_THREAD, options->port, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR,
            &address, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_S, MHD_OPTION_END);
        if (!server->daemon)
            snprintf(reason, reason_bytes, "the metrics: cannot listen on %s:%u: %s", text, options->port,
                     errno ? strerror(errno) : "the HTTP library did not start");
    }
    if (server->daemon)
        return server;
    free(server);
    return NULL;
}

uint16_t dt_metrics_server_port(const struct dt_metrics_server *server)
{
    const union MHD_DaemonInfo *info = server->library.info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);

    return info ? info->port : 0;
}

void dt_metrics_server_stop(struct dt_metrics_server *server)
{
    if (!server)
        return;
    server->library.stop(server->daemon);
    free(server);
}

#else

struct dt_metrics_server *dt_metrics_server_start(const struct dt_metrics_server_options *options,
                                                  char *reason, size_t reason_bytes)
{
    (void)options;
    snprintf(
        reason, reason_bytes,
        "this build of Detour has no HTTP server: build it where Debian's libmicrohttpd-dev is installed");
    return NULL;
}

uint16_t dt_metrics_server_port(const struct dt_metrics_server *server)
{
    (void)server;
    return 0;
}

void dt_metrics_server_stop(struct dt_metrics_server *server)
{
    (void)server;
}

#endif
