/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/redis_tls.h"

#include <stdio.h>

#include "base/param.h"

#ifdef DETOUR_OPENSSL

#include <arpa/inet.h>
#include <dlfcn.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define TEXT_OF(x)    #x
#define VERSION_OF(x) TEXT_OF(x)
#define VERSION       VERSION_OF(OPENSSL_SHLIB_VERSION)
#define LIBRARY_NAME  "libssl.so." VERSION

/* Of libssl and, below it, libcrypto. */
#define FUNCTIONS(X)                      \
    X(BIO_new)                            \
    X(BIO_read)                           \
    X(BIO_s_mem)                          \
    X(BIO_write)                          \
    X(ERR_clear_error)                    \
    X(ERR_get_error)                      \
    X(ERR_reason_error_string)            \
    X(SSL_CTX_check_private_key)          \
    X(SSL_CTX_ctrl)                       \
    X(SSL_CTX_free)                       \
    X(SSL_CTX_load_verify_file)           \
    X(SSL_CTX_new)                        \
    X(SSL_CTX_set_default_passwd_cb)      \
    X(SSL_CTX_set_default_verify_paths)   \
    X(SSL_CTX_set_options)                \
    X(SSL_CTX_set_verify)                 \
    X(SSL_CTX_use_PrivateKey_file)        \
    X(SSL_CTX_use_certificate_chain_file) \
    X(SSL_ctrl)                           \
    X(SSL_do_handshake)                   \
    X(SSL_free)                           \
    X(SSL_get0_param)                     \
    X(SSL_get_error)                      \
    X(SSL_get_verify_result)              \
    X(SSL_new)                            \
    X(SSL_read)                           \
    X(SSL_set1_host)                      \
    X(SSL_set_bio)                        \
    X(SSL_set_connect_state)              \
    X(SSL_write)                          \
    X(TLS_client_method)                  \
    X(X509_VERIFY_PARAM_set1_ip_asc)      \
    X(X509_verify_cert_error_string)

struct library {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
#define SYMBOL(name) {#name, offsetof(struct library, name)},
    FUNCTIONS(SYMBOL)
#undef SYMBOL
};

struct session {
    struct dt_redis_tls tls;
    struct library library;
    SSL_CTX *context;
    char host[256];
    bool is_address;          /* the host */
    bool has_arrived, is_tls; /* a byte; that it can be one of TLS */
    SSL *ssl;                 /* NULL: no session; owns the next */
    BIO *arrived, *to_send;
};

static struct session *session_of(struct dt_redis_tls *tls)
{
    return dt_container_of(tls, struct session, tls);
}

static enum dt_status load(struct library *library, char *reason, size_t reason_bytes)
{
    void *handle = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    enum dt_status status = handle ? DT_OK : DT_UNSUPPORTED;

    if (!handle)
        snprintf(reason, reason_bytes,
                 "rediss://: cannot load " LIBRARY_NAME "; Debian's package is libssl" VERSION);
    for (size_t i = 0; status == DT_OK && i < DT_COUNT_OF(symbols); i++) {
        void *function = dlsym(handle, symbols[i].name);

        memcpy((char *)library + symbols[i].offset, &function, sizeof function);
        if (function)
            continue;
        snprintf(reason, reason_bytes, "rediss://: " LIBRARY_NAME " has no function %s", symbols[i].name);
        status = DT_UNSUPPORTED;
    }
    if (handle)
        dlclose(handle); /* RTLD_NODELETE: the functions stay */
    return status;
}

/* The reason of the library's first error; the others are forgotten. */
static const char *take_error(const struct library *library)
{
    unsigned long code = library->ERR_get_error();
    const char *text = code ? library->ERR_reason_error_string(code) : NULL;

    library->ERR_clear_error();
    return text ? text : "no reason given";
}

/* ---- The context. ---- */

/* An encrypted key: without this the library asks on the terminal, for as long as it takes. */
static int refuse_password(char *password, int bytes, int is_writing, void *arg)
{
    (void)password;
    (void)bytes;
    (void)is_writing;
    (void)arg;
    return -1;
}

static bool is_given(const char *path)
{
    return path && *path;
}

static enum dt_status fail_file(const struct session *session, const char *variable, const char *path,
                                char *reason, size_t reason_bytes)
{
    snprintf(reason, reason_bytes, "%s=%.100s: expected a file in PEM format: %.60s", variable, path,
             take_error(&session->library));
    return DT_INVALID;
}

static enum dt_status use_own_certificate(struct session *session, const struct dt_redis_tls_files *files,
                                          char *reason, size_t reason_bytes)
{
    const struct library *library = &session->library;

    if (is_given(files->certificate) != is_given(files->key)) {
        snprintf(reason, reason_bytes, DT_ENV_REDIS_CERT " and " DT_ENV_REDIS_KEY ": expected both or none");
        return DT_INVALID;
    }
    if (!is_given(files->key))
        return DT_OK;
    if (library->SSL_CTX_use_certificate_chain_file(session->context, files->certificate) != 1)
        return fail_file(session, DT_ENV_REDIS_CERT, files->certificate, reason, reason_bytes);
    library->SSL_CTX_set_default_passwd_cb(session->context, refuse_password);
    if (library->SSL_CTX_use_PrivateKey_file(session->context, files->key, SSL_FILETYPE_PEM) != 1 ||
        library->SSL_CTX_check_private_key(session->context) != 1)
        return fail_file(session, DT_ENV_REDIS_KEY, files->key, reason, reason_bytes);
    return DT_OK;
}

static enum dt_status make_context(struct session *session, const struct dt_redis_tls_files *files,
                                   char *reason, size_t reason_bytes)
{
    const struct library *library = &session->library;

    session->context = library->SSL_CTX_new(library->TLS_client_method());
    if (!session->context ||
        !library->SSL_CTX_ctrl(session->context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL)) {
        snprintf(reason, reason_bytes, "rediss://: no TLS context: %.100s", take_error(library));
        return DT_NO_MEMORY;
    }
    library->SSL_CTX_set_options(session->context, SSL_OP_NO_RENEGOTIATION);
    library->SSL_CTX_set_verify(session->context, SSL_VERIFY_PEER, NULL);
    if (is_given(files->ca)) {
        if (library->SSL_CTX_load_verify_file(session->context, files->ca) != 1)
            return fail_file(session, DT_ENV_REDIS_CA, files->ca, reason, reason_bytes);
    } else if (library->SSL_CTX_set_default_verify_paths(session->context) != 1) {
        snprintf(reason, reason_bytes, "rediss://: the system's certificates: %.100s", take_error(library));
        return DT_INVALID;
    }
    return use_own_certificate(session, files, reason, reason_bytes);
}

/* ---- A session. ---- */
static void end(struct session *session)
{
    if (session->ssl)
        session->library.SSL_free(session->ssl);
    session->ssl = NULL;
    session->has_arrived = false;
}

static bool expect_host(struct session *session)
{
    const struct library *library = &session->library;

    if (session->is_address)
        return library->X509_VERIFY_PARAM_set1_ip_asc(library->SSL_get0_param(session->ssl), session->host);
    return library->SSL_set1_host(session->ssl, session->host) &&
           library->SSL_ctrl(session->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                             session->host);
}

static enum dt_status begin(struct dt_redis_tls *tls)
{
    struct session *session = session_of(tls);
    const struct library *library = &session->library;

    end(session);
    library->ERR_clear_error();
    session->ssl = library->SSL_new(session->context);
    if (!session->ssl)
        return DT_NO_MEMORY;
    session->arrived = library->BIO_new(library->BIO_s_mem());
    session->to_send = library->BIO_new(library->BIO_s_mem());
    library->SSL_set_bio(session->ssl, session->arrived, session->to_send); /* frees both with the session */
    library->SSL_set_connect_state(session->ssl);
    if (session->arrived && session->to_send && expect_host(session))
        return DT_OK;
    end(session);
    return DT_NO_MEMORY;
}

/* What an operator can do about it. */
static void explain_certificate(const struct session *session, long result, char *reason, size_t reason_bytes)
{
    bool is_name = result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH;
    bool is_chain = result == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
                    result == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
                    result == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
                    result == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;

    snprintf(reason, reason_bytes, "the server's certificate is refused: %.60s%s",
             session->library.X509_verify_cert_error_string(result),
             is_name    ? " (expected: the host of the URL)"
             : is_chain ? " (" DT_ENV_REDIS_CA "=FILE has the CA's)"
                        : "");
}

/* The library's error of a handshake or of a read; a server may refuse this client as late as then. */
static void explain(const struct session *session, char *reason, size_t reason_bytes)
{
    const struct library *library = &session->library;
    long result = library->SSL_get_verify_result(session->ssl);
    unsigned long code = library->ERR_get_error();
    const char *text = code ? library->ERR_reason_error_string(code) : NULL;

    library->ERR_clear_error();
    if (result != X509_V_OK)
        explain_certificate(session, result, reason, reason_bytes);
    else
        snprintf(reason, reason_bytes, "TLS: %.60s%s", text ? text : "the session has ended",
                 ERR_GET_REASON(code) == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED
                     ? " (" DT_ENV_REDIS_CERT " and " DT_ENV_REDIS_KEY " name one)"
                     : "");
}

static enum dt_status handshake(struct dt_redis_tls *tls, char *reason, size_t reason_bytes)
{
    struct session *session = session_of(tls);
    int result;

    if (session->has_arrived && !session->is_tls) {
        snprintf(reason, reason_bytes, "the server's answer is not TLS: rediss:// needs its TLS port");
        return DT_CLOSED;
    }
    session->library.ERR_clear_error();
    result = session->library.SSL_do_handshake(session->ssl);
    if (result == 1)
        return DT_OK;
    if (session->library.SSL_get_error(session->ssl, result) == SSL_ERROR_WANT_READ)
        return DT_AGAIN;
    explain(session, reason, reason_bytes);
    return DT_CLOSED;
}

static enum dt_status write_content(struct dt_redis_tls *tls, const char *bytes, size_t count)
{
    struct session *session = session_of(tls);

    session->library.ERR_clear_error();
    while (count > 0) {
        int written = session->library.SSL_write(session->ssl, bytes, (int)dt_min_u64(count, INT_MAX));

        if (written <= 0) /* a memory buffer is never full */
            return DT_NO_MEMORY;
        bytes += written;
        count -= (size_t)written;
    }
    return DT_OK;
}

static enum dt_status read_content(struct dt_redis_tls *tls, char *bytes, size_t room, size_t *count,
                                   char *reason, size_t reason_bytes)
{
    struct session *session = session_of(tls);
    int got;

    session->library.ERR_clear_error();
    got = session->library.SSL_read(session->ssl, bytes, (int)dt_min_u64(room, INT_MAX));
    *count = got > 0 ? (size_t)got : 0;
    if (got > 0 || session->library.SSL_get_error(session->ssl, got) == SSL_ERROR_WANT_READ)
        return DT_OK;
    explain(session, reason, reason_bytes);
    return DT_CLOSED;
}

static enum dt_status take(struct dt_redis_tls *tls, const char *bytes, size_t count)
{
    struct session *session = session_of(tls);

    if (!session->has_arrived && count > 0) {
        session->has_arrived = true;
        session->is_tls = bytes[0] == SSL3_RT_HANDSHAKE || bytes[0] == SSL3_RT_ALERT;
    }
    return session->library.BIO_write(session->arrived, bytes, (int)count) == (int)count ? DT_OK
                                                                                         : DT_NO_MEMORY;
}

static size_t give(struct dt_redis_tls *tls, char *bytes, size_t room)
{
    struct session *session = session_of(tls);
    int count = session->library.BIO_read(session->to_send, bytes, (int)room);

    return count > 0 ? (size_t)count : 0;
}

static void destroy(struct dt_redis_tls *tls)
{
    struct session *session = session_of(tls);

    end(session);
    if (session->context)
        session->library.SSL_CTX_free(session->context);
    free(session);
}

static const struct dt_redis_tls_ops ops = {
    .begin = begin,
    .handshake = handshake,
    .write = write_content,
    .read = read_content,
    .take = take,
    .give = give,
    .destroy = destroy,
};

enum dt_status dt_redis_tls_create(const char *host, const struct dt_redis_tls_files *files,
                                   struct dt_redis_tls **tls, char *reason, size_t reason_bytes)
{
    struct session *session = calloc(1, sizeof *session);
    unsigned char address[sizeof(struct in6_addr)];
    enum dt_status status;

    if (!session) {
        snprintf(reason, reason_bytes, "out of memory");
        return DT_NO_MEMORY;
    }
    session->tls.ops = &ops;
    snprintf(session->host, sizeof session->host, "%s", host);
    session->is_address = inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
    status = load(&session->library, reason, reason_bytes);
    if (status == DT_OK)
        status = make_context(session, files, reason, reason_bytes);
    if (status == DT_OK)
        *tls = &session->tls;
    else
        destroy(&session->tls);
    return status;
}

#else

enum dt_status dt_redis_tls_create(const char *host, const struct dt_redis_tls_files *files,
                                   struct dt_redis_tls **tls, char *reason, size_t reason_bytes)
{
    (void)host;
    (void)files;
    (void)tls;
    snprintf(reason, reason_bytes,
             "rediss://: this build of Detour has no TLS: build it where Debian's libssl-dev is installed");
    return DT_UNSUPPORTED;
}

#endif
