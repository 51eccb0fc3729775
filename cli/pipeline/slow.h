/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links and devices that are slow in a run, and an RNIC that fails: what --slow-link, --slow-device and
 * --kill mean. Pure.
 *
 *   --slow-link A-B=TIME[,serial][,from=N][,to=N]   messages between A and B, in both directions
 *   --slow-device A=FACTORx[,from=N][,to=N]         computations of A
 *   --kill NAME@iteration=N[,back=N]                the RNIC NAME of every rank, or the `first` one
 *
 * A and B are devices: D, of every replica of the pipeline, or D@R, of replica R. So 2-3 is a link of every
 * replica, 2@1-3@1 that of replica 1, and 2@0-2@1 joins the replicas 0 and 1 of device 2.
 *
 * TIME is a number with us, ms or s: added to each message (`serial`: the messages of a direction take it one
 * after the other). The slowness begins with iteration `from` (default 0) and ends before iteration `to`.
 */
#ifndef DETOUR_CLI_PIPELINE_SLOW_H
#define DETOUR_CLI_PIPELINE_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_SLOW_MAX 1024

/* As the name of an RNIC: the plugin's first one. */
#define DT_PIPELINE_FIRST_NIC "first"

/* The replica of a position that stands for every replica. */
#define DT_PIPELINE_EVERY_REPLICA (-1)

/* Iterations [from, to). */
struct dt_pipeline_period {
    uint32_t from;
    uint32_t to; /* UINT32_MAX: no end */
};

struct dt_pipeline_slow_link {
    struct dt_pipeline_position a; /* a.device <= b.device; both of every replica, or of one each */
    struct dt_pipeline_position b;
    int64_t delay_ns;
    bool serial;
    struct dt_pipeline_period period;
};

struct dt_pipeline_slow_device {
    struct dt_pipeline_position position;
    uint32_t permille; /* of its computing times; 1000: as planned */
    struct dt_pipeline_period period;
};

/* Fails in the middle of iteration period.from; back before iteration period.to. */
struct dt_pipeline_kill {
    char nic[32];     /* "": none */
    uint64_t devices; /* whose RNIC it is: bits */
    struct dt_pipeline_period period;
};

struct dt_pipeline_slow {
    struct dt_pipeline_slow_link links[DT_PIPELINE_SLOW_MAX];
    size_t link_count;
    struct dt_pipeline_slow_device devices[DT_PIPELINE_SLOW_MAX];
    size_t device_count;
    struct dt_pipeline_kill kill;
};

/* Adds the text of an option. False: not of that form, or the table is full. */
bool dt_pipeline_slow_add_link(struct dt_pipeline_slow *slow, const char *text);
bool dt_pipeline_slow_add_device(struct dt_pipeline_slow *slow, const char *text);

/* Reads the text of --kill. False: not of that form, or there is one. */
bool dt_pipeline_slow_set_kill(struct dt_pipeline_slow *slow, const char *text);

static inline bool dt_pipeline_period_has(const struct dt_pipeline_period *period, uint32_t iteration)
{
    return iteration >= period->from && iteration < period->to;
}

/* The link joins two replicas of a device; two devices otherwise. */
static inline bool dt_pipeline_slow_link_is_dp(const struct dt_pipeline_slow_link *link)
{
    return link->a.device == link->b.device;
}

/* The link joins these devices, of one replica each. */
bool dt_pipeline_slow_link_joins(const struct dt_pipeline_slow_link *link, struct dt_pipeline_position a,
                                 struct dt_pipeline_position b);

/* The other end of the link, if `self`, of one replica, is an end. */
bool dt_pipeline_slow_link_peer(const struct dt_pipeline_slow_link *link, struct dt_pipeline_position self,
                                struct dt_pipeline_position *peer);

/* The product of all factors of the device in that iteration, 1000 without any. */
uint32_t dt_pipeline_slow_permille(const struct dt_pipeline_slow *slow, struct dt_pipeline_position position,
                                   uint32_t iteration);

/* "3", or "3@1", into `text`; returns `text`. */
enum { DT_PIPELINE_POSITION_BYTES = 32 };
const char *dt_pipeline_position_text(struct dt_pipeline_position position,
                                      char text[DT_PIPELINE_POSITION_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
