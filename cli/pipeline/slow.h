/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links and devices that are slow in a run, and an RNIC that fails: what --slow-link, --slow-device and
 * --kill mean. Pure.
 *
 *   --slow-link A-B=TIME[,serial][,from=N][,to=N]   messages between devices A and B, in both directions
 *   --slow-device D=FACTORx[,from=N][,to=N]         computations of device D
 *   --kill NAME@iteration=N[,back=N]                the RNIC NAME of every rank
 *
 * TIME is a number with us, ms or s: added to each message (`serial`: the messages of a direction take it one
 * after the other). The slowness begins with iteration `from` (default 0) and ends before iteration `to`.
 */
#ifndef DETOUR_CLI_PIPELINE_SLOW_H
#define DETOUR_CLI_PIPELINE_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_SLOW_MAX 16

/* Iterations [from, to). */
struct dt_pipeline_period {
    uint32_t from;
    uint32_t to; /* UINT32_MAX: no end */
};

struct dt_pipeline_slow_link {
    int32_t a; /* devices; a < b */
    int32_t b;
    int64_t delay_ns;
    bool serial;
    struct dt_pipeline_period period;
};

struct dt_pipeline_slow_device {
    int32_t device;
    uint32_t permille; /* of its computing times; 1000: as planned */
    struct dt_pipeline_period period;
};

/* Fails in the middle of iteration period.from; back before iteration period.to. */
struct dt_pipeline_kill {
    char nic[32]; /* "": none */
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

/* The product of all factors of the device in that iteration, 1000 without any. */
uint32_t dt_pipeline_slow_permille(const struct dt_pipeline_slow *slow, int32_t device, uint32_t iteration);

#ifdef __cplusplus
}
#endif

#endif
