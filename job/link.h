/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection between a rank and its launcher: frames over a stream socket (a socketpair, or TCP when
 * ranks run on several machines). It carries what NCCL's bootstrap and an MPI launcher carry: connection
 * handles, barriers, results, and why a run ends.
 *
 * A link belongs to one thread. An error of the socket means that the other end, launcher or rank, is dead.
 */
#ifndef DETOUR_JOB_LINK_H
#define DETOUR_JOB_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_job_frame_kind {
    DT_JOB_FRAME_HELLO =
        1, /* TCP only. rank -> launcher: which rank it is; launcher -> rank: accepted (empty) */
    DT_JOB_FRAME_EXCHANGE, /* rank -> launcher: this rank's part; launcher -> rank: the answer (exchange.h) */
    DT_JOB_FRAME_ERROR,    /* either way: struct dt_job_error; the run is over */
    DT_JOB_FRAME_DONE,     /* rank -> launcher: the rank has finished and released everything */
    DT_JOB_FRAME_GATHER,   /* as DT_JOB_FRAME_EXCHANGE */
    DT_JOB_FRAME_DELIVER,  /* as DT_JOB_FRAME_EXCHANGE */
    DT_JOB_FRAME_COMMAND = 64 /* either way: this kind and those above belong to the command */
};

/* Bounds the memory that a connection to the rendezvous port can make the launcher allocate. */
#define DT_JOB_FRAME_BYTES_MAX (1024 * 1024)

/* In the byte order of the machine: the ranks of a job run on machines of one kind. */
struct dt_job_frame {
    uint32_t kind;
    uint32_t bytes; /* of the payload that follows */
};

/* A rank's end. */
struct dt_job_link {
    int fd;
    unsigned rank;
    unsigned ranks;
    /*
     * Takes a frame of the command's own kinds, whenever one arrives while this rank reads the link. The
     * payload is valid during the call and has a NUL behind it. NULL: such a frame is an error.
     */
    void (*take)(void *context, const struct dt_job_frame *frame, const void *payload);
    void *context;
};

/* Sends one whole frame. False when the other end has closed the socket or, with a time limit set, stalls.
 * Never raises SIGPIPE. */
bool dt_job_frame_send(int fd, unsigned kind, const void *payload, size_t bytes);

/*
 * Receives one whole frame; the payload, with a NUL behind it, is malloc'ed and the caller's. False when the
 * other end has closed the socket, stalls inside a frame (if the socket has a time limit), or sends an
 * oversized frame.
 */
bool dt_job_frame_receive(int fd, struct dt_job_frame *frame, void **payload);

/* Time limit in seconds of a single send and receive; 0: none. */
void dt_job_socket_limit(int fd, unsigned seconds);

/*
 * Every rank gives `bytes` bytes and gets those of all ranks in rank order in `all` (ranks * bytes, at most
 * DT_JOB_FRAME_BYTES_MAX). With 0 bytes a barrier. Fails when the launcher ends the job or has closed the
 * link.
 */
bool dt_job_exchange(struct dt_job_link *link, const void *mine, size_t bytes, void *all,
                     struct dt_job_error *error);

/* As dt_job_exchange(), but only rank 0 gets the parts; `all` of the others is not used. */
bool dt_job_gather(struct dt_job_link *link, const void *mine, size_t bytes, void *all,
                   struct dt_job_error *error);

/*
 * Every rank gives records, each for one rank, and gets those that are for it: the bytes on a link do not
 * depend on the number of ranks. A record has `record_bytes` bytes and begins with struct dt_job_record
 * (exchange.h); records of one rank arrive in their order. *arrived is malloc'ed and the caller's; NULL
 * when no record has arrived, or the call fails. In rounds, so that the records of a round fit in one frame.
 */
bool dt_job_deliver(struct dt_job_link *link, const void *records, size_t count, size_t record_bytes,
                    void **arrived, size_t *arrived_count, struct dt_job_error *error);

/*
 * Reads one frame that arrives outside an exchange, once the link is readable: one of the command's own kinds
 * goes to `take`. False, with the reason in *error, when the launcher ends the job or has closed the link.
 */
bool dt_job_link_read(struct dt_job_link *link, struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
