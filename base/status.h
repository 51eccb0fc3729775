/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The return value of Detour's functions. Values are grouped by the scope of the failure, so that a caller
 * can decide by range: the call (a mistake of the caller, or try again), the path (another path may work),
 * the connection (both ends must end it), the process.
 *
 * Functions that return dt_status write their outputs only on DT_OK, unless documented otherwise. The
 * function that detects an error logs it, once; its callers return it without logging.
 */
#ifndef DETOUR_BASE_STATUS_H
#define DETOUR_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* name, value, text */
#define DT_STATUS_LIST(X)                                       \
    X(DT_OK, 0, "success")                                      \
    /* the call */                                              \
    X(DT_AGAIN, 1, "not now, try again")                        \
    X(DT_INVALID, 2, "invalid argument")                        \
    X(DT_UNSUPPORTED, 3, "not supported")                       \
    X(DT_NOT_FOUND, 4, "not found")                             \
    X(DT_FULL, 5, "no room left")                               \
    /* the path */                                              \
    X(DT_PATH_ERROR, 16, "path failed")                         \
    /* the connection */                                        \
    X(DT_PEER_ERROR, 32, "peer reported an error or went away") \
    X(DT_PROTOCOL, 33, "peer broke the protocol")               \
    X(DT_TIMED_OUT, 34, "timed out")                            \
    X(DT_CLOSED, 35, "closed")                                  \
    /* the process */                                           \
    X(DT_NO_MEMORY, 48, "out of memory")                        \
    X(DT_SYSTEM, 49, "system call failed")                      \
    X(DT_INTERNAL, 50, "internal error")

enum dt_status {
#define DT_STATUS_ENUM(name, value, text) name = value,
    DT_STATUS_LIST(DT_STATUS_ENUM)
#undef DT_STATUS_ENUM
};

/* The text of a status; "unknown status" for a value outside the list. Never NULL. */
const char *dt_status_text(enum dt_status status);

#ifdef __cplusplus
}
#endif

#endif
