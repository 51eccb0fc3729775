/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which RNICs back up which: from the devices of both ends of a connection to the device pairs of its paths.
 *
 *   1. each end lists its devices that may serve the connection, best first (dt_backup_make_list())
 *   2. the sender offers its list; the receiver, which has both, chooses the pairs (dt_backup_make_pairs())
 * and returns them
 *
 * So both ends agree whatever their number of devices, settings and versions. Pure.
 *
 * A *rail* is a device's position among the devices that DETOUR_HCA allows, with or without a link, in the
 * order of verbs.h; hosts of the same model agree on it. In rail-optimized networks a device reaches only
 * devices of the same rail.
 */
#ifndef DETOUR_FAILOVER_BACKUP_H
#define DETOUR_FAILOVER_BACKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_BACKUPS_MAX 16 /* devices of one list; more are not offered */

/* The properties of a device that the choice depends on. */
struct dt_backup_device {
    const char *name;
    uint32_t rail;
    int32_t numa_node;   /* -1: unknown */
    uint32_t link_layer; /* enum dt_link_layer */
};

/* Indices of devices: the connection's own first, then its backups in order of preference. */
struct dt_backup_list {
    bool is_chosen; /* by DETOUR_BACKUP */
    uint32_t count; /* at least 1 */
    uint32_t index[DT_BACKUPS_MAX];
};

/*
 * DETOUR_BACKUP: items separated by commas, `DEVICE=BACKUP` for one device or `BACKUP` for all that have no
 * item of their own; names as in the log ("mlx5_0", "mlx5_0:2"). "" is valid. DT_INVALID, with one line in
 * `error`: a syntax error, or the name of none of these devices.
 */
enum dt_status dt_backup_check(const char *setting, const struct dt_backup_device *devices, uint32_t count,
                               char *error, size_t error_bytes);

/*
 * The list of devices[self]. `setting` has been checked; names that `devices` lacks are skipped. Without an
 * item for this device: the devices of its NUMA node, then the others, each group rotated to start after
 * `self`, so that the connections of several failed devices spread. Devices of another link layer never back
 * up.
 */
void dt_backup_make_list(const struct dt_backup_device *devices, uint32_t count, uint32_t self,
                         const char *setting, struct dt_backup_list *list);

/* The part of a list that the other end needs; a position in it identifies a device. */
struct dt_backup_offer {
    bool is_chosen;
    uint32_t count; /* 1 .. DT_BACKUPS_MAX */
    struct {
        uint32_t rail;
        bool is_near; /* on the NUMA node of the first device */
    } device[DT_BACKUPS_MAX];
};

void dt_backup_make_offer(const struct dt_backup_device *devices, const struct dt_backup_list *list,
                          struct dt_backup_offer *offer);

/* Why a path was chosen. X(name, text for the log) */
#define DT_BACKUP_KINDS(X)               \
    X(DT_BACKUP_DEFAULT, "")             \
    X(DT_BACKUP_CHOSEN, "DETOUR_BACKUP") \
    X(DT_BACKUP_SAME_RAIL, "same rail")  \
    X(DT_BACKUP_SAME_NODE, "same node")  \
    X(DT_BACKUP_DISTANT, "distant")

enum dt_backup_kind {
#define DT_BACKUP_KIND_ENUM(name, text) name,
    DT_BACKUP_KINDS(DT_BACKUP_KIND_ENUM)
#undef DT_BACKUP_KIND_ENUM
        DT_BACKUP_KIND_COUNT
};

/* Never NULL. */
const char *dt_backup_kind_text(uint32_t kind);

/* A path: positions in the two lists. */
struct dt_backup_pair {
    uint32_t sender;
    uint32_t receiver;
    uint32_t kind; /* enum dt_backup_kind */
};

/*
 * The paths, at most `paths_max` (1 .. DT_PATHS_MAX); returns their number. The first is the pair that NCCL
 * chose. Each further path has, at one end at least, a device that no earlier path has. Criteria, in this
 * order:
 *
 *   both devices are new: the path shares no device with those it backs up
 *   position in the list of DETOUR_BACKUP
 *   same rail at both ends
 *   the NUMA node of the default device, at both ends, then at one
 *   position in the lists
 *
 * A connection sends over the first of its paths that is up; the others are standby.
 */
uint32_t dt_backup_make_pairs(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                              uint32_t paths_max, struct dt_backup_pair *pairs);

#ifdef __cplusplus
}
#endif

#endif
