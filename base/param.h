/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detour's settings: one table with every name, unit, default and range. docs/environment.md is checked
 * against it, and `detour doctor` prints it. Only plugin/, cli/ and dropin/ call dt_params_load() with the
 * real environment; everything else receives option structs.
 *
 * A setting may have an alias that users know from NCCL; Detour's own name takes precedence. A value under
 * the alias is parsed as NCCL parses it: empty is unset, 0x1f is 31, a negative number is the default.
 */
#ifndef DETOUR_BASE_PARAM_H
#define DETOUR_BASE_PARAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* DETOUR_RANK: the rank is the launcher's (base/job_env.h). */
#define DT_PARAM_RANK_AUTO 1000000

/*
 * X(field, name, alias or NULL, unit, default, min, max, help) for numbers.
 * Sizes in bytes and rates take the suffixes K, M, G (powers of 1024) when the unit is "bytes" or "bytes/s".
 */
#define DT_PARAM_NUMBERS(X)                                                                                  \
    X(soft_devices, "DETOUR_SOFT_DEVICES", NULL, "count", 2, 1, 16, "software RNICs per process")            \
    X(soft_rate_bytes_per_s, "DETOUR_SOFT_RATE", NULL, "bytes/s", 0, 0, 1ull << 40,                          \
      "link rate of each software RNIC; 0 is unlimited")                                                     \
    X(paths, "DETOUR_PATHS", NULL, "count", 2, 1, 4, "paths set up per connection: the default and backups") \
    X(qps_per_path, "DETOUR_QPS_PER_PATH", "NCCL_IB_QPS_PER_CONNECTION", "count", 1, 1, 128,                 \
      "data queue pairs per path")                                                                           \
    X(split_data, "DETOUR_SPLIT_DATA", "NCCL_IB_SPLIT_DATA_ON_QPS", "0|1", 0, 0, 1,                          \
      "with several queue pairs: 1 splits each message over them, 0 sends messages over each in turn")       \
    X(timeout_exponent, "DETOUR_TIMEOUT", "NCCL_IB_TIMEOUT", "exponent", 16, 1, 31,                          \
      "RC transport timer of the queue pairs: 4.096 us x 2^N")                                               \
    X(retry_count, "DETOUR_RETRY_CNT", "NCCL_IB_RETRY_CNT", "count", 6, 0, 7,                                \
      "RC retries before a queue pair fails (Linux soft-RoCE reads 7 as forever)")                           \
    X(traffic_class, "DETOUR_TC", "NCCL_IB_TC", "value", 0, 0, 255, "traffic class of the queue pairs")      \
    X(service_level, "DETOUR_SL", "NCCL_IB_SL", "value", 0, 0, 15, "service level of the queue pairs")       \
    X(fifo_tc, "DETOUR_FIFO_TC", "NCCL_IB_FIFO_TC", "value", 256, 0, 256,                                    \
      "traffic class of a receiver's queue pairs, which carry its clear-to-sends; 256: as DETOUR_TC")        \
    X(pkey_index, "DETOUR_PKEY", "NCCL_IB_PKEY", "index", 0, 0, 65535,                                       \
      "entry of each port's table of partition keys that the queue pairs use")                               \
    X(pkey_value, "DETOUR_PKEY_VALUE", "NCCL_IB_PKEY_VALUE", "key", 0, 0, 65535,                             \
      "partition key of the queue pairs, wherever it is in a port's table, as in 0x8111; 0: DETOUR_PKEY")    \
    X(ece, "DETOUR_ECE", "NCCL_IB_ECE_ENABLE", "0|1", 1, 0, 1,                                               \
      "1: the devices of both ends agree on options of their vendor, where they have them")                  \
    X(flid_gid_index, "DETOUR_FLID_GID_INDEX", "NCCL_IB_ROUTABLE_FLID_GID_INDEX", "index", 1, 0, 255,        \
      "GID of an InfiniBand port whose FLID, if it has one, routes between subnets")                         \
    X(roce_version, "DETOUR_ROCE_VERSION", "NCCL_IB_ROCE_VERSION_NUM", "0|1|2", 0, 0, 2,                     \
      "preferred version of a RoCE port's GID; 0: 2 before 1")                                               \
    X(link_retry_all, "DETOUR_LINK_RETRY_ALL", "NCCL_IB_MQP_RETRY_ALL", "0|1", 0, 0, 1,                      \
      "what is repeated when a queue pair is connected at set-up: 0 a time-out of the address, 1 any error") \
    X(link_retry_count, "DETOUR_LINK_RETRY_CNT", "NCCL_IB_MQP_RETRY_CNT", "count", 34, 0, 100000,            \
      "how often it is repeated before the path counts as failed")                                           \
    X(link_retry_ms, "DETOUR_LINK_RETRY_MS", "NCCL_IB_MQP_RETRY_SLEEP_MSEC", "ms", 100, 0, 3600000,          \
      "how long set-up waits before it repeats it")                                                          \
    X(write_bytes, "DETOUR_WRITE_BYTES", NULL, "bytes", 64u << 20, 4096, 1u << 30,                           \
      "largest RDMA write that a message is sent in; the smaller value of the two ends counts")              \
    X(adaptive_routing, "DETOUR_ADAPTIVE_ROUTING", "NCCL_IB_ADAPTIVE_ROUTING", "0|1|2", 2, 0, 2,             \
      "payload in writes without immediate, which a fabric may route adaptively; 2: on InfiniBand")          \
    X(ar_threshold, "DETOUR_AR_THRESHOLD", "NCCL_IB_AR_THRESHOLD", "bytes", 8192, 0, 1u << 30,               \
      "with adaptive routing: payloads up to this size go with their immediate")                             \
    X(flush_disable, "DETOUR_FLUSH_DISABLE", "NCCL_GDR_FLUSH_DISABLE", "0|1", 0, 0, 1,                       \
      "1: received GPU memory is not flushed; only where the platform orders an RNIC's writes by itself")    \
    X(relaxed_ordering, "DETOUR_PCI_RELAXED_ORDERING", "NCCL_IB_PCI_RELAXED_ORDERING", "0|1|2", 2, 0, 2,     \
      "PCI relaxed ordering for payload: 0 never, 1 and 2 where library and device can")                     \
    X(connect_timeout_ms, "DETOUR_CONNECT_TIMEOUT_MS", NULL, "ms", 60000, 100, 3600000,                      \
      "how long connect and accept try before they fail with the reason")                                    \
    X(idle_takeover_us, "DETOUR_IDLE_TAKEOVER_US", NULL, "us", 2000, 50, 1000000,                            \
      "how long NCCL may leave pending work untouched before Detour's own thread progresses it")             \
    X(stall_ms, "DETOUR_STALL_MS", NULL, "ms", 500, 10, 3600000,                                             \
      "how long a path may make no progress before it is probed, and given up if only others answer")        \
    X(fence_ms, "DETOUR_FENCE_MS", NULL, "ms", 1000, 1, 3600000,                                             \
      "how long the queue pairs of a failed path may take to flush before they are destroyed instead, "      \
      "and how long a receiver awaits the answer to STOP")                                                   \
    X(late_ms, "DETOUR_LATE_MS", NULL, "ms", 10000, 0, 3600000,                                              \
      "how long a failed path's old queue pairs keep their numbers, for packets that come late")             \
    X(stable_ms, "DETOUR_STABLE_MS", NULL, "ms", 800, 0, 3600000,                                            \
      "how long a path that is back has to answer probes before it is used, while another one lives")        \
    X(dead_ms, "DETOUR_DEAD_MS", NULL, "ms", 120000, 100, 86400000,                                          \
      "how long a connection without any path waits for one before it fails")                                \
    X(hostpath_bytes, "DETOUR_HOSTPATH_BYTES", NULL, "bytes", 64u << 20, 4096, 1ull << 36,                   \
      "memory per process to stage messages in, with DETOUR_HOSTPATH")                                       \
    X(hostpath_queues, "DETOUR_HOSTPATH_QUEUES", NULL, "count", 1, 1, 16,                                    \
      "threads per RNIC that copy large messages into it")                                                   \
    X(event_timeout_ms, "DETOUR_EVENT_TIMEOUT_MS", NULL, "ms", 60000, 100, 86400000,                         \
      "how long DETOUR_EVENT_COMMAND may run before its process group is killed")                            \
    X(rank, "DETOUR_RANK", NULL, "rank", DT_PARAM_RANK_AUTO, 0, DT_PARAM_RANK_AUTO,                          \
      "this process' rank in the job, for its events; 1000000: as mpirun, srun or torchrun numbers it")      \
    X(linger_ms, "DETOUR_LINGER_MS", NULL, "ms", 5000, 0, 3600000,                                           \
      "after close: for staged messages to be delivered (also at exit), and for the peer to receive CLOSE")

/* X(field, name, alias or NULL, default, help) for texts. */
#define DT_PARAM_TEXTS(X)                                                                       \
    X(verbs, "DETOUR_VERBS", NULL, "auto",                                                      \
      "where RNICs come from: system, soft or auto (auto: real devices only, inside NCCL)")     \
    X(verbs_library, "DETOUR_IBV_LIB", "NCCL_IBVERBS_LIB", "libibverbs.so.1",                   \
      "the verbs library to load: a name that the system finds, or a path")                     \
    X(mlx5_library, "DETOUR_MLX5_LIB", NULL, "libmlx5.so.1",                                    \
      "ConnectX' library to load, with DETOUR_POSTING=dv: the one that the verbs library uses") \
    X(cuda_library, "DETOUR_CUDA_LIB", NULL, "libcuda.so.1",                                    \
      "the CUDA driver's library, for the host path and to flush writes of a dead device")      \
    X(hca, "DETOUR_HCA", "NCCL_IB_HCA", "",                                                     \
      "which RNICs to use: prefix list, ^ excludes, = matches exactly, NAME:PORT picks a port") \
    X(gid_index, "DETOUR_GID_INDEX", "NCCL_IB_GID_INDEX", "auto",                               \
      "GID of every RoCE port: an index from 0 to 255, or auto (-1): v2 with IPv4 first")       \
    X(addr_family, "DETOUR_ADDR_FAMILY", "NCCL_IB_ADDR_FAMILY", "",                             \
      "preferred family of a RoCE port's GID: AF_INET or AF_INET6; empty: IPv4 before IPv6")    \
    X(addr_range, "DETOUR_ADDR_RANGE", "NCCL_IB_ADDR_RANGE", "",                                \
      "preferred addresses of a RoCE port's GID: ADDRESS/BITS of that family")                  \
    X(backup, "DETOUR_BACKUP", NULL, "",                                                        \
      "which RNICs back up which: NAME,... for all, or DEVICE=NAME,...; empty: the nearest")    \
    X(posting, "DETOUR_POSTING", NULL, "auto", "posting back end: std, dv or auto")             \
    X(interface, "DETOUR_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "",                              \
      "network interfaces for set-up and control: prefix list, ^ excludes, = matches exactly")  \
    X(socket_family, "DETOUR_SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", "",                          \
      "addresses for set-up and control: AF_INET or AF_INET6; empty: IPv4 before IPv6")         \
    X(runtime_dir, "DETOUR_RUNTIME_DIR", NULL, "",                                              \
      "folder of the counter pages and control sockets (default: /dev/shm/detour-UID)")         \
    X(inject, "DETOUR_INJECT", NULL, "",                                                        \
      "delays and faults to inject from the start: rules, or the name of a file of rules")      \
    X(event_command, "DETOUR_EVENT_COMMAND", NULL, "",                                          \
      "shell command to run for each event of DETOUR_EVENT_KINDS; empty: none")                 \
    X(event_kinds, "DETOUR_EVENT_KINDS", NULL, "path",                                          \
      "kinds of these events: process, device, path, verdict, control, computation, remedy")    \
    X(hostpath, "DETOUR_HOSTPATH", NULL, "off",                                                 \
      "send from memory of Detour's own, so that a slow link does not hold NCCL up: off, on or auto")

/* NCCL_IB_HCA of a host with many RNICs is long. */
#define DT_PARAM_TEXT_BYTES 2048

struct dt_params {
#define DT_PARAM_NUMBER_FIELD(field, name, alias, unit, value, min, max, help) uint64_t field;
    DT_PARAM_NUMBERS(DT_PARAM_NUMBER_FIELD)
#undef DT_PARAM_NUMBER_FIELD
#define DT_PARAM_TEXT_FIELD(field, name, alias, value, help) char field[DT_PARAM_TEXT_BYTES];
    DT_PARAM_TEXTS(DT_PARAM_TEXT_FIELD)
#undef DT_PARAM_TEXT_FIELD
    /* verbs_library is not Detour's own setting: where it cannot be used, NCCL takes the default one. */
    bool verbs_library_or_default;
};

/* DETOUR_GID_INDEX: true and the index, or false for auto. */
bool dt_params_gid_index(const struct dt_params *params, uint32_t *index);

/* One row of the table, for listings. Numbers have unit, min and max; texts have a NULL unit. */
struct dt_param_info {
    const char *name;
    const char *alias; /* or NULL */
    const char *unit;  /* or NULL: a text */
    const char *help;
    uint64_t number_default;
    uint64_t number_min;
    uint64_t number_max;
    const char *text_default; /* or NULL: a number */
    size_t offset;            /* of the field in struct dt_params */
};

/* The table, of *count rows; static. */
const struct dt_param_info *dt_param_table(size_t *count);

/* The URL of a job's store, for the commands alone: no setting of the plugin, and a secret if it has a
 * password. */
#define DT_ENV_REDIS "DETOUR_REDIS"

/* Files for a URL with TLS (controller/redis_tls.h). */
#define DT_ENV_REDIS_CA   "DETOUR_REDIS_CA"
#define DT_ENV_REDIS_CERT "DETOUR_REDIS_CERT"
#define DT_ENV_REDIS_KEY  "DETOUR_REDIS_KEY"

/* getenv(3), or a test double: the value of a name, or NULL. */
typedef const char *dt_getenv_func(void *arg, const char *name);

/* The process environment, as a dt_getenv_func. */
const char *dt_getenv_process(void *arg, const char *name);

/* The variable that sets the value: Detour's name or NCCL's; NULL: the default applies. */
const char *dt_param_source(const struct dt_param_info *info, dt_getenv_func *get, void *arg);

/*
 * Fills *params with the defaults, then from the environment. DT_INVALID: a bad value; one line in `error`
 * names the variable, the value and the valid range, and *params is undefined. A count under NCCL's name
 * above Detour's maximum is reduced to the maximum, with one WARN.
 */
enum dt_status dt_params_load(struct dt_params *params, dt_getenv_func *get, void *arg, char *error,
                              size_t error_bytes);

/*
 * Parses a decimal number with an optional suffix K, M, G (powers of 1024; when `suffixes`) and nothing
 * else around it. DT_INVALID when it is anything else or does not fit 64 bits.
 */
enum dt_status dt_parse_number(const char *text, bool suffixes, uint64_t *value);

#ifdef __cplusplus
}
#endif

#endif
