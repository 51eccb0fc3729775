/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport as plugin/ sees it: devices, set-up, memory and messages. NCCL's terms without its types.
 *
 * Objects: dt_net (one per process) > dt_listen, dt_connection (a sender or a receiver) > dt_memory,
 * dt_request. Everything is non-blocking except where it says so. "Not now" is DT_OK with NULL (connect,
 * accept, isend, irecv) or with *done = 0 (test).
 *
 * Threads: dt_net_* and set-up: any. A connection: one thread sets it up, registers and closes ("service"),
 * one moves data ("progress"); they may work at the same time, except that close comes after the last data
 * call. These are NCCL's own rules.
 *
 * Time: set-up functions take now_ns. The data path has no clock, only stamps (base/ticks.h): Detour's own
 * threads measure.
 *
 * Errors: a connection that fails logs one WARN; from then on every call on it returns that error, unless the
 * result of the call was complete before.
 */
#ifndef DETOUR_TRANSPORT_NET_H
#define DETOUR_TRANSPORT_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/param.h"
#include "base/status.h"
#include "obs/page.h"
#include "transport/protocol/address.h"
#include "base/limits.h"
#include "transport/session/stream.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_net;
struct dt_listen;
struct dt_connection;
struct dt_memory;
struct dt_request;

struct dt_net_options {
    const struct dt_params *params;                    /* copied */
    struct dt_verbs *verbs;                            /* stays the caller's; must outlive the net */
    struct dt_network *network;                        /* for set-up and control; the same */
    struct dt_address address;                         /* to listen on; port 0 */
    void (*random)(void *arg, void *to, size_t bytes); /* nonces and first packet numbers; any thread */
    void *random_arg;
    uint32_t chunk_bytes; /* largest write, for tests; 0: params.write_bytes */
    char *reason;         /* gets one line, why no device is used; NULL with 0: it is not wanted */
    size_t reason_bytes;
    /* The time, for injected delays (CLOCK_MONOTONIC, or virtual); any thread. NULL: rules are refused. */
    uint64_t (*now_ns)(void *arg);
    void *now_arg;
    /*
     * True: the device threads start with the first connection. False (simulations): no work is done between
     * calls, and the caller must call dt_net_progress().
     */
    bool has_threads;
};

/*
 * Lists the devices that params.hca lets through and that have an active port. DT_UNSUPPORTED (logs nothing)
 * when there is none: options->reason then names those that exist. May block.
 */
enum dt_status dt_net_create(const struct dt_net_options *options, struct dt_net **net);

/*
 * Ends the threads and frees everything, after all connections and listeners were closed. Blocks until every
 * queue pair is destroyed.
 */
void dt_net_destroy(struct dt_net *net);

/*
 * Ends the device threads, with or without connections: the process is about to exit. Waits until staged
 * messages (DETOUR_HOSTPATH) are delivered, DETOUR_LINGER_MS at most.
 */
void dt_net_stop_threads(struct dt_net *net);

size_t dt_net_device_count(const struct dt_net *net);

/* Valid as long as the net. `index` is in range. */
const struct dt_device_info *dt_net_device_info(const struct dt_net *net, size_t index);
/* Unique, also where a device has several ports: "mlx5_0", "mlx5_0:2". */
const char *dt_net_device_name(const struct dt_net *net, size_t index);

/*
 * Devices and connections count in the page from now on. Call it before the first connection. The page is the
 * caller's and must outlive the net. Without a page no counters are exported.
 */
void dt_net_use_page(struct dt_net *net, struct dt_page *page);

/* Without threads: does their work. Returns when the next call is due. */
uint64_t dt_net_progress(struct dt_net *net, uint64_t now_ns);

/*
 * Drains a device for maintenance (`migrate`), or ends the drain (`back`): its connections move to their
 * other paths as if the device had failed, and return. A connection without another path that is up stays
 * until it has one. One line of what was done, or why not, goes to `answer`. DT_NOT_FOUND: no such device.
 * Any thread.
 */
enum dt_status dt_net_drain(struct dt_net *net, const char *device, bool is_drained, char *answer,
                            size_t answer_bytes);

/*
 * The same for some connections alone: the senders that `scope` (delay/rule.h, without device=) matches leave
 * the device, or may use it again. A connection that is set up later, and the other end's device, are as
 * before. The end of the device's drain ends these as well. DT_INVALID: the scope; DT_NOT_FOUND: no such
 * device, or no such sender that has a path over it. Any thread.
 */
enum dt_status dt_net_drain_some(struct dt_net *net, const char *device, const char *scope, bool is_drained,
                                 char *answer, size_t answer_bytes);

/*
 * `list` is that of dt_verbs_nic_command(): "soft0 soft up, soft1 soft down". Copies it to `answer`, with the
 * word "drained" at the end of the entry of each device that is drained for all its connections: "soft0 soft
 * up drained, soft1 soft down". A drained port with a name of its own, such as "mlx5_0:2", is an entry of its
 * own, behind that of its device. Any thread.
 */
void dt_net_list_drained(const struct dt_net *net, const char *list, char *answer, size_t answer_bytes);

/*
 * The command `hostpath` of the control socket (obs/command.h), with the scope of delay/rule.h:
 *   on|off|auto [SCOPE]   how the senders that match send from their next isend on; without a scope all of
 *                         them, and those that are set up later. Messages in progress keep their way.
 *   list                  `MODE ON AUTO OFF`: of senders to come, and how many have which; MODE is `none` if
 *                         the process has no memory for it
 * DT_UNSUPPORTED: DETOUR_HOSTPATH=off; DT_NOT_FOUND: no sender matches; DT_INVALID. One line of what was
 * done, or why not, goes to `answer`. Any thread.
 */
enum dt_status dt_net_hostpath_command(struct dt_net *net, const char *args, char *answer,
                                       size_t answer_bytes);

/*
 * The command `hold` of the control socket parks messages until a time that the process itself watches, so
 * that it ends without a further command:
 *   [SCOPE] for=TIME   messages of the senders that match are not posted before the time is over or the hold
 *                      is released (delay/rule.h: dt_delay_parse_hold()). A hold with the same scope is
 *                      replaced.
 *   list               the numbers of the holds
 *   show N             `LEFT_NS MESSAGES TEXT`: the time that is left, the messages parked so far
 * DT_INVALID, DT_NOT_FOUND (no such device, no such hold), DT_FULL (holds and rules together), DT_NO_MEMORY.
 * One line of what was done, or why not, goes to `answer`. Any thread.
 */
enum dt_status dt_net_hold_command(struct dt_net *net, const char *args, char *answer, size_t answer_bytes);

/*
 * The command `release`: ends the hold with this scope; without a scope all holds. Parked messages go at
 * once. DT_INVALID; DT_NOT_FOUND: there is none. Any thread.
 */
enum dt_status dt_net_release_command(struct dt_net *net, const char *args, char *answer,
                                      size_t answer_bytes);

/* ------------------------------------------------------------------------------------------------------------
 * Injection (delay/rule.h has the language). Any thread.
 */

/*
 * Puts rules in force: `text` is the rules, or, without a '=' in it, the name of a file that has them. All or
 * none. DT_INVALID, DT_NOT_FOUND (no such device, file), DT_UNSUPPORTED, DT_FULL, DT_NO_MEMORY: one line goes
 * to `error`. Reads files.
 */
enum dt_status dt_net_inject(struct dt_net *net, const char *text, char *error, size_t error_bytes);

/*
 * The command `inject` of the control socket (obs/command.h):
 *   add RULE                  answers `N TEXT`
 *   remove N | clear          what was done
 *   list                      the numbers of the rules
 *   show N                    `AGE_NS MESSAGES DELAY_NS TEXT`
 *   timer                     `MARGIN_NS WAITS SLEPT_NS SPUN_NS` of the threads that post held messages
 *   record N                  `FIRST;ROW;ROW...`: what was injected, from entry N (or the oldest that is
 * left) on, as many as fit; only FIRST, the next one: no more yet (delay/record.h) `arg` is the net.
 */
enum dt_status dt_net_inject_command(void *arg, const char *args, char *answer, size_t answer_bytes);

/* ------------------------------------------------------------------------------------------------------------
 * Set-up. A function that returns an error has logged why, and left nothing behind that has to be closed.
 */
enum dt_status dt_net_listen(struct dt_net *net, size_t device, uint8_t handle[DT_HANDLE_BYTES],
                             uint64_t now_ns, struct dt_listen **listen);

/*
 * `handle` is a listener's, and the same bytes at every call until the connection is there: they carry a
 * number that finds the attempt again. *sender is NULL while it is under way.
 */
enum dt_status dt_net_connect(struct dt_net *net, size_t device, uint8_t handle[DT_HANDLE_BYTES],
                              uint64_t now_ns, struct dt_connection **sender);

/* *receiver is NULL while the peer has not connected. */
enum dt_status dt_net_accept(struct dt_listen *listen, uint64_t now_ns, struct dt_connection **receiver);

void dt_net_close_listen(struct dt_listen *listen);

/*
 * Never waits for the peer or for the device: verbs that may block run on the control threads. Outstanding
 * requests are discarded, after the queue pairs are in the error state.
 */
void dt_net_close(struct dt_connection *connection);

/* ------------------------------------------------------------------------------------------------------------
 * Memory: registered on the devices of all the connection's paths. May block. DT_SYSTEM when no device takes
 * it; with some of them the connection lives on those. is_host: the CPU may read it.
 */
enum dt_status dt_net_register(struct dt_connection *connection, void *addr, size_t bytes, bool is_host,
                               struct dt_memory **memory);
enum dt_status dt_net_register_dmabuf(struct dt_connection *connection, void *addr, size_t bytes,
                                      uint64_t offset, int fd, struct dt_memory **memory);

/*
 * When it returned nothing touches the memory on behalf of this connection. If requests on it are still
 * outstanding the connection fails first. NULL is accepted.
 */
void dt_net_deregister(struct dt_connection *connection, struct dt_memory *memory);

/* ------------------------------------------------------------------------------------------------------------
 * Data. Requests belong to the connection; the dt_test() that reports done frees them.
 */
/*
 * Sends `bytes` from `data` to the next message's part that has this tag. DT_INVALID, and the end of the
 * connection: the receiver has posted fewer bytes.
 */
enum dt_status dt_isend(struct dt_connection *sender, void *data, uint32_t bytes, int tag,
                        struct dt_memory *memory, struct dt_request **request);

/* Receives one message of n parts, 1 to DT_PARTS_MAX: up to bytes[i] into data[i], from the isend with
 * tags[i]. */
enum dt_status dt_irecv(struct dt_connection *receiver, unsigned n, void *const *data, const uint32_t *bytes,
                        const int *tags, struct dt_memory *const *memories, struct dt_request **request);

/*
 * Done when what was received into data[0..n-1] before is visible to the GPU that owns them. *request is NULL
 * when there is nothing to wait for.
 */
enum dt_status dt_iflush(struct dt_connection *receiver, unsigned n, void *const *data, const uint32_t *bytes,
                         struct dt_memory *const *memories, struct dt_request **request);

/*
 * *done is always written, 0 or 1. With 1, `bytes` (unless NULL) gets what each part of a receive brought, or
 * the size of a send.
 */
enum dt_status dt_test(struct dt_request *request, int *done, int *bytes);

#ifdef __cplusplus
}
#endif

#endif
