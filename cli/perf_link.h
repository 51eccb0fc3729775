/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire between a rank and the launcher: frames over a stream socket (a socketpair, or TCP when ranks run
 * on several machines). It carries what NCCL's bootstrap and an MPI launcher would: handles, barriers,
 * results, and why a run ends.
 *
 * A link belongs to one thread. Errors of the socket are errors of the other end: a dead launcher or rank.
 */
#ifndef DETOUR_CLI_PERF_LINK_H
#define DETOUR_CLI_PERF_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/perf_error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_perf_frame_kind {
    DT_PERF_FRAME_HELLO = 1, /* TCP only. rank -> launcher: who it is; launcher -> rank: welcome (empty) */
    DT_PERF_FRAME_EXCHANGE,  /* rank -> launcher: my part; launcher -> rank: all parts in rank order */
    DT_PERF_FRAME_START,     /* rank 0 -> launcher: what goes above the table, as text */
    DT_PERF_FRAME_ROW,       /* rank 0 -> launcher: struct dt_perf_row */
    DT_PERF_FRAME_STATUS,    /* rank 0 -> launcher: what is going on, as text */
    DT_PERF_FRAME_SAMPLE,    /* rank -> launcher: struct dt_perf_sample */
    DT_PERF_FRAME_ERROR,     /* either way: struct dt_perf_error; the run is over */
    DT_PERF_FRAME_DONE,      /* rank -> launcher: all closed down */
};

/* Frames are bounded so that a stranger on the TCP port cannot ask for memory. */
#define DT_PERF_FRAME_BYTES_MAX (1024 * 1024)

struct dt_perf_frame {
    uint32_t kind;
    uint32_t bytes; /* of the payload that follows */
};

/* A rank's end. */
struct dt_perf_link {
    int fd;
    unsigned rank;
    unsigned ranks;
};

/* Sends one whole frame. False when the other end is gone. Never raises SIGPIPE. */
bool dt_perf_frame_send(int fd, enum dt_perf_frame_kind kind, const void *payload, size_t bytes);

/*
 * Receives one whole frame; the payload, with a NUL behind it, is malloc'ed and the caller's. False when the
 * other end is gone, stalls inside a frame (if the socket has a time limit), or breaks the rules.
 */
bool dt_perf_frame_receive(int fd, struct dt_perf_frame *frame, void **payload);

/*
 * Every rank gives `bytes` bytes and gets those of all ranks in rank order in `all` (ranks * bytes). With 0
 * bytes a barrier. Fails when the launcher ends the run or is gone.
 */
bool dt_perf_exchange(struct dt_perf_link *link, const void *mine, size_t bytes, void *all,
                      struct dt_perf_error *error);

/* Takes the frame that ended the run, or the lost link, and makes it this rank's error. Always false. */
bool dt_perf_link_ended(struct dt_perf_link *link, struct dt_perf_error *error);

#ifdef __cplusplus
}
#endif

#endif
