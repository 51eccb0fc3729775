/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source of RNICs: the system's libibverbs, loaded at run time, or the software RNIC of this process.
 * Both fill the same table of functions (table.h), so the layers above cannot distinguish them; `is_soft` in
 * the device list is for messages only.
 *
 * verbs.h, device.h, queue.h and flush.h are all that transport/, failover/ and hostpath/ see of verbs: no
 * type of libibverbs appears in them. The terms are those of the InfiniBand Architecture Specification:
 * protection domain, memory region (MR), queue pair (QP), completion queue (CQ), work request (WR).
 *
 * Errors: the function that detects an error logs it, once, at WARN, unless its comment says "silent".
 * DT_NO_MEMORY is always silent.
 *
 * Ownership: dt_verbs > dt_device > {dt_mr, dt_cq, dt_qp, dt_flush}. Close in the reverse order of opening;
 * an object outlives everything opened on it.
 */
#ifndef DETOUR_VERBS_VERBS_H
#define DETOUR_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_verbs_kind {
    DT_VERBS_SYSTEM, /* libibverbs.so.1, or the file named in the options */
    DT_VERBS_SOFT    /* the software RNIC in this process; not after fork() in the child */
};

struct dt_verbs_options {
    enum dt_verbs_kind kind;
    const char *library;            /* SYSTEM: the file to dlopen; NULL is libibverbs.so.1 */
    bool library_or_default;        /* libibverbs.so.1 where `library` cannot be used, with one INFO */
    const char *mlx5_library;       /* SYSTEM: the one for dv on ConnectX; NULL is libmlx5.so.1 */
    uint32_t soft_device_count;     /* SOFT: devices soft0, soft1, ... */
    uint64_t soft_rate_bytes_per_s; /* SOFT: link rate of each device; 0 is unlimited */
    bool has_gid_index;             /* SYSTEM: each RoCE port uses GID gid_index; else the best entry */
    uint32_t gid_index;
    uint32_t flid_gid_index; /* InfiniBand: the entry that is used if it has an FLID; else entry 0 */
    uint32_t pkey_index;     /* of every queue pair, in its port's table of partition keys */
    uint32_t pkey_value;     /* the key itself, wherever it is in the table; 0: pkey_index counts */
    uint32_t roce_version;   /* preferred for RoCE ports without gid_index: 1 or 2; 0: any */
    const char *addr_family; /* the same: AF_INET or AF_INET6; NULL or empty: any */
    const char *addr_range;  /* the same: ADDRESS/BITS of the family, IPv4 without one; NULL or empty: any */
    char *reason;            /* receives one line with the reason of a failure; NULL: the log */
    size_t reason_bytes;
};

enum dt_link_layer { DT_LINK_UNKNOWN, DT_LINK_INFINIBAND, DT_LINK_ETHERNET };

/*
 * The provider of a device, from the vendor id in ibv_query_device(): the meaning of completions differs
 * between providers (dt_wc_status_class()). X(name, text, vendor_id)
 */
#define DT_PROVIDERS(X)                \
    X(DT_PROVIDER_OTHER, "other", 0)   \
    X(DT_PROVIDER_SOFT, "soft", 0)     \
    X(DT_PROVIDER_MLX, "mlx5", 0x02c9) \
    X(DT_PROVIDER_RXE, "rxe", 0xffffff)

enum dt_provider {
#define DT_PROVIDER_ENUM(name, text, vendor_id) name,
    DT_PROVIDERS(DT_PROVIDER_ENUM)
#undef DT_PROVIDER_ENUM
        DT_PROVIDER_COUNT
};

/* Never NULL. */
const char *dt_provider_text(uint32_t provider);

/* Memory that a device can register. */
enum dt_memory_capability {
    DT_MEMORY_HOST = 1,
    DT_MEMORY_CUDA = 2,  /* pointers of the CUDA driver, by peer memory */
    DT_MEMORY_DMABUF = 4 /* memory exported as a dma-buf file */
};

#define DT_DEVICE_NAME_BYTES 64
#define DT_DEVICE_PATH_BYTES 256

/* One port of one device. A device with two ports has two entries. */
struct dt_device_info {
    char name[DT_DEVICE_NAME_BYTES];     /* as in libibverbs, e.g. "mlx5_0", "soft1" */
    char pci_path[DT_DEVICE_PATH_BYTES]; /* real path in sysfs; empty when there is none (software) */
    uint64_t guid;                       /* host byte order; 0 when unknown */
    /* The card that the port is on, as NCCL's own InfiniBand transport reports it (net_ib/init.cc): function
       0 of device 0 on its bus, whatever function or virtual function this one is; the ports of one card
       share image_guid, and card_port tells them apart. */
    char card_path[DT_DEVICE_PATH_BYTES]; /* empty if pci_path is */
    uint64_t image_guid;                  /* sys_image_guid, host byte order; 0 when unknown */
    uint32_t card_port;
    uint8_t gid[16]; /* of gid_index; network byte order */
    uint32_t gid_index;
    uint32_t port;          /* counts from 1 */
    uint32_t speed_mbps;    /* lanes x rate of a lane */
    int32_t numa_node;      /* -1: unknown */
    uint32_t lid;           /* InfiniBand; else 0 */
    uint32_t mtu_bytes;     /* active path MTU: 256 ... 4096 */
    uint32_t capabilities;  /* enum dt_memory_capability */
    uint32_t qp_wr_max;     /* work requests per queue */
    uint32_t cqe_max;       /* entries per CQ */
    uint32_t qp_max;        /* queue pairs */
    uint32_t mr_max;        /* memory regions */
    uint32_t rd_atomic_max; /* RDMA reads outstanding per QP */
    uint64_t mr_bytes_max;  /* largest memory region */
    uint32_t provider;      /* enum dt_provider */
    enum dt_link_layer link_layer;
    bool needs_grh; /* InfiniBand: the port sends with a global header only, as virtual functions may */
    bool is_active; /* the port carries traffic */
    bool is_soft;
};

struct dt_verbs;
struct dt_params;

/* The members that settings decide; `kind` is the caller's, since `auto` differs between programs. The
 * strings are those of *params. */
void dt_verbs_options_take(struct dt_verbs_options *options, const struct dt_params *params);

/*
 * Finds the functions and logs the result at INFO. The strings in *options are used during the call only.
 * DT_NOT_FOUND when the library or one of its functions is missing; DT_INVALID when an option is out of
 * range; DT_NO_MEMORY. One line gives the reason, at WARN or, for callers that can do without verbs, in
 * options->reason. May block; any thread.
 */
enum dt_status dt_verbs_open(const struct dt_verbs_options *options, struct dt_verbs **verbs);

/*
 * Every device opened on it is closed. The library stays loaded: its providers do not expect to be unloaded.
 */
void dt_verbs_close(struct dt_verbs *verbs);

/* Whether the library can negotiate ECE options (queue.h); a device of it may have none. */
bool dt_verbs_has_ece(const struct dt_verbs *verbs);

/*
 * The ports of all devices by PCI path, so that hosts of the same make agree on it; devices without one come
 * last, in the library's order. *list is allocated, to be given back with
 * dt_verbs_devices_free(); it is NULL when *count is 0. A device that cannot be queried is left out with
 * one INFO line. May block; any thread.
 */
enum dt_status dt_verbs_devices(struct dt_verbs *verbs, struct dt_device_info **list, size_t *count);
void dt_verbs_devices_free(struct dt_device_info *list);

/*
 * The kinds of entries in a port's GID table, worst first: RoCE uses the best one. X(name, text)
 */
#define DT_GID_KINDS(X)                                 \
    X(DT_GID_EMPTY, "empty")                            \
    X(DT_GID_ROCE_V1_LINK_LOCAL, "RoCE v1, link-local") \
    X(DT_GID_ROCE_V2_LINK_LOCAL, "RoCE v2, link-local") \
    X(DT_GID_ROCE_V1, "RoCE v1")                        \
    X(DT_GID_ROCE_V2_IPV6, "RoCE v2, IPv6")             \
    X(DT_GID_ROCE_V2_IPV4, "RoCE v2, IPv4")             \
    X(DT_GID_INFINIBAND, "InfiniBand")

enum dt_gid_kind {
#define DT_GID_KIND_ENUM(name, text) name,
    DT_GID_KINDS(DT_GID_KIND_ENUM)
#undef DT_GID_KIND_ENUM
        DT_GID_KIND_COUNT
};

/* Never NULL. */
const char *dt_gid_kind_text(uint32_t kind);

struct dt_gid_info {
    uint8_t gid[16]; /* network byte order */
    uint32_t index;
    uint32_t kind;            /* enum dt_gid_kind */
    uint32_t interface_index; /* of the network interface that it belongs to; 0: none, or not known */
};

/*
 * The entries of the GID table of *info's port that are not empty, at most count_max; returns how many. 0
 * also when the device cannot be queried (one WARN). For display only: connections use the entry in *info.
 * May block; any thread.
 */
size_t dt_verbs_gids(struct dt_verbs *verbs, const struct dt_device_info *info, struct dt_gid_info *list,
                     size_t count_max);

/*
 * Acts on a software RNIC of this process: `action` is "down", "up", "fatal", "plug", "drop N" (the next N
 * packets that it sends are lost) or "drop P%" (from now on P percent of them; 0% ends it), as in `detour
 * nic`. A one-line answer without newline goes to `answer`: for DT_OK what was done, else why not.
 * DT_INVALID: not such an action; DT_NOT_FOUND: no such device is open; DT_UNSUPPORTED: the devices are real.
 * Does not block. Any thread.
 */
enum dt_status dt_verbs_device_control(struct dt_verbs *verbs, const char *device, const char *action,
                                       char *answer, size_t answer_bytes);

#ifdef __cplusplus
}
#endif

#endif
