/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/session/session.h"
#include "transport/session/listener.h"
#include "base/name_filter.h"
#include "transport/device_thread.h"
#include "transport/net_state.h"
#include "transport/message/owner.h"
#include "transport/path/queues.h"
#include "transport/closing.h"
#include "transport/service.h"
#include "transport/setup.h"

/* Without threads: copies of GPU memory are polled at this interval. */
#define GPU_PERIOD_NS (20 * DT_NS_PER_US)

/* ------------------------------------------------------------------------------------------------------------
 * Devices
 */
static void name_device(const struct dt_device_info *info, char name[DT_NAME_BYTES])
{
    snprintf(name, DT_NAME_BYTES, info->port > 1 ? "%.48s:%u" : "%.48s", info->name, info->port);
}

static enum dt_status nic_init(struct dt_net *net, struct dt_nic *nic, const struct dt_device_info *info,
                               uint32_t rail)
{
    enum dt_status status;

    DT_CHECK(nic == &net->nic[net->nic_count] && net->nic_count <= rail);
    nic->environment = &net->environment;
    nic->net = net;
    nic->service = &net->service[nic - net->nic];
    dt_device_thread_init(nic);
    nic->index = (uint32_t)(nic - net->nic);
    nic->info = *info;
    nic->rail = rail;
    name_device(info, nic->name);
    dt_list_init(&nic->held);
    dt_list_init(&nic->service->connections);
    dt_turns_init(&nic->service->turns);
    dt_list_init(&nic->service->sessions);
    dt_inject_nic_init(&nic->service->inject);
    status = dt_executor_init(&nic->executor, net->environment.has_threads);
    if (status != DT_OK)
        return status;
    if (pthread_mutex_init(&nic->mutex, NULL) != 0) {
        dt_executor_stop(&nic->executor);
        return DT_SYSTEM;
    }
    return DT_OK;
}

/* Devices whose queues hold enough, and that have a link. Logs why one is left out. */
static bool is_usable(const struct dt_params *params, const struct dt_device_info *info)
{
    if (!info->is_active)
        dt_info("skip-no-link", "%s port %u has no link: left out", info->name, info->port);
    else if (dt_path_slots_max(params, info) == 0)
        dt_info("skip-small-queues", "%s has too small queues (%u work requests): left out", info->name,
                info->qp_wr_max);
    else
        return true;
    return false;
}

/* For a user who expected a device. */
static void explain_none(const struct dt_net_options *options, const struct dt_device_info *list,
                         size_t count)
{
    const char *hca = options->params->hca;
    size_t bytes = options->reason_bytes;
    size_t used = *hca ? (size_t)snprintf(options->reason, bytes,
                                          "DETOUR_HCA or NCCL_IB_HCA=%.200s lets none through that has a "
                                          "link; there is",
                                          hca)
                       : (size_t)snprintf(options->reason, bytes, "none has a link; there is");

    for (size_t i = 0; i < count && used < bytes; i++) {
        char name[DT_NAME_BYTES];

        name_device(&list[i], name);
        used += (size_t)snprintf(options->reason + used, bytes - used, "%s %s%s", i ? "," : "", name,
                                 list[i].is_active ? "" : " (no link)");
    }
    if (count == 0 && used < bytes)
        snprintf(options->reason + used, bytes - used, " none");
}

static enum dt_status add_devices(struct dt_net *net, const struct dt_device_info *list, size_t count)
{
    uint32_t rail = 0;

    net->nic = calloc(count ? count : 1, sizeof *net->nic);
    net->service = calloc(count ? count : 1, sizeof *net->service);
    if (!net->nic || !net->service)
        return DT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        enum dt_status status;

        if (!dt_name_filter_match(net->environment.params.hca, list[i].name, list[i].port))
            continue;
        rail++;
        if (!is_usable(&net->environment.params, &list[i]))
            continue;
        status = nic_init(net, &net->nic[net->nic_count], &list[i], rail - 1);
        if (status != DT_OK)
            return status;
        net->nic_count++;
    }
    return net->nic_count > 0 ? DT_OK : DT_UNSUPPORTED;
}

/* ------------------------------------------------------------------------------------------------------------
 * Backups
 */

/* What DETOUR_BACKUP names must be there. */
static enum dt_status check_backups(const struct dt_net *net, const struct dt_device_info *list, size_t count)
{
    struct dt_backup_device *devices = calloc(count, sizeof *devices);
    char(*names)[DT_NAME_BYTES] = calloc(count, sizeof *names);
    enum dt_status status = devices && names ? DT_OK : DT_NO_MEMORY;
    char error[512];

    for (size_t i = 0; status == DT_OK && i < count; i++) {
        name_device(&list[i], names[i]);
        devices[i].name = names[i];
        devices[i].link_layer = list[i].link_layer;
    }
    if (status == DT_OK) {
        status =
            dt_backup_check(net->environment.params.backup, devices, (uint32_t)count, error, sizeof error);
        if (status != DT_OK)
            dt_warn("setting-backup", "DETOUR_BACKUP=%s: %s", net->environment.params.backup, error);
    }
    free(devices);
    free(names);
    return status;
}

/* Logs each device that exists and is not used, once. */
static enum dt_status choose_backups(struct dt_net *net, const struct dt_device_info *list, size_t count)
{
    enum dt_status status = check_backups(net, list, count);
    struct dt_backup_device *devices = status == DT_OK ? calloc(net->nic_count, sizeof *devices) : NULL;
    char error[512];

    if (!devices)
        return status == DT_OK ? DT_NO_MEMORY : status;
    for (size_t i = 0; i < net->nic_count; i++) {
        const struct dt_nic *nic = &net->nic[i];

        devices[i] =
            (struct dt_backup_device){nic->name, nic->rail, nic->info.numa_node, nic->info.link_layer};
    }
    if (dt_backup_check(net->environment.params.backup, devices, (uint32_t)net->nic_count, error,
                        sizeof error) != DT_OK)
        dt_info("backup-unused",
                "DETOUR_BACKUP=%s: a device without a link, or left out by DETOUR_HCA, is not used as a "
                "backup: %s",
                net->environment.params.backup, error);
    for (size_t i = 0; i < net->nic_count; i++) {
        struct dt_nic *nic = &net->nic[i];

        dt_backup_make_list(devices, (uint32_t)net->nic_count, (uint32_t)i, net->environment.params.backup,
                            &nic->service->backups);
        /* Path 0 is the device that NCCL chose. */
        DT_CHECK(nic->service->backups.count > 0 && nic->service->backups.index[0] == i);
        dt_backup_make_offer(devices, &nic->service->backups, &nic->service->backup_offer);
    }
    free(devices);
    return DT_OK;
}

static void take_options(struct dt_net *net, const struct dt_net_options *options)
{
    net->environment.params = *options->params;
    net->environment.verbs = options->verbs;
    net->address = options->address;
    net->environment.network = dt_pairs_network(net->pairs);
    net->environment.chunk_bytes =
        options->chunk_bytes ? options->chunk_bytes
                             : (uint32_t)net->environment.params.write_bytes / DT_CUT_BYTES * DT_CUT_BYTES;
    net->environment.has_threads = options->has_threads;
    /* One thread needs no fence. */
    net->environment.has_membarrier = options->has_threads && dt_owner_setup();
    if (options->has_threads)
        dt_ticks_init(&net->environment.ticks);
    else
        dt_ticks_init_virtual(&net->environment.ticks, options->now_ns, options->now_arg);
    net->session_host = (struct dt_session_host){
        .network = net->environment.network,
        .mutex = &net->mutex,
        .linger_ns = net->environment.params.linger_ms * DT_NS_PER_MS,
    };
    net->environment.hostpath = &net->hostpath;
    net->environment.inject = &net->inject;
    net->environment.opened = dt_inject_opened;
    net->environment.pid = (uint32_t)getpid();
    dt_list_init(&net->setups);
    if (gethostname(net->environment.host, sizeof net->environment.host - 1) != 0)
        strcpy(net->environment.host, "?");
}

enum dt_status dt_net_create(const struct dt_net_options *options, struct dt_net **out)
{
    struct dt_net *net = calloc(1, sizeof *net);
    struct dt_device_info *list = NULL;
    size_t count = 0;
    enum dt_status status;

    if (!net || pthread_mutex_init(&net->mutex, NULL) != 0) {
        free(net);
        return DT_NO_MEMORY;
    }
    net->environment.random = options->random;
    net->environment.random_arg = options->random_arg;
    net->pairs = dt_pairs_create(options->network, dt_environment_random(&net->environment));
    status = net->pairs ? dt_health_open(&net->health) : DT_NO_MEMORY;
    if (status != DT_OK) {
        dt_pairs_destroy(net->pairs);
        pthread_mutex_destroy(&net->mutex);
        free(net);
        return status;
    }
    take_options(net, options);
    if (net->environment.has_threads)
        net->health.busy.read = dt_busy_read_schedstat;
    dt_gpu_flusher_open(&net->environment.flusher, net->environment.params.cuda_library);
    status = dt_inject_open(&net->inject, options->now_ns, options->now_arg);
    if (status == DT_OK)
        status = dt_verbs_devices(net->environment.verbs, &list, &count);
    if (status == DT_OK)
        status = add_devices(net, list, count);
    if (status == DT_UNSUPPORTED)
        explain_none(options, list, count);
    if (status == DT_OK)
        status = choose_backups(net, list, count);
    dt_verbs_devices_free(list);
    if (status == DT_OK)
        status = dt_hostpath_open(&net->hostpath, &net->environment.params, net->environment.has_threads);
    if (status != DT_OK) {
        dt_net_destroy(net);
        return status;
    }
    *out = net;
    return DT_OK;
}

static void nic_fini(struct dt_nic *nic)
{
    struct dt_list *node;

    DT_CHECK(dt_list_is_empty(&nic->service->connections)); /* closed, and ended by end_lingering */
    DT_CHECK(dt_list_is_empty(&nic->held));                 /* their memory is deregistered */
    dt_executor_stop(&nic->executor);
    dt_nic_close(nic);
    dt_turns_fini(&nic->service->turns);
    dt_delegates_close(&nic->delegates);
    while ((node = dt_list_pop_front(&nic->service->sessions)))
        dt_session_destroy(dt_container_of(node, struct dt_session, node));
    if (nic->service->reopen.opened) /* nothing has taken it; it owns the one before */
        nic->device = nic->service->reopen.opened;
    if (nic->device)
        dt_device_close(nic->device);
    pthread_mutex_destroy(&nic->mutex);
}

void dt_net_destroy(struct dt_net *net)
{
    dt_setups_abandon(net, DT_NEVER_NS);
    DT_CHECK(dt_list_is_empty(&net->setups));
    dt_net_stop_threads(net);
    for (size_t i = 0; i < net->nic_count; i++)
        dt_closing_end_lingering(&net->nic[i]);
    for (size_t i = 0; i < net->nic_count; i++)
        nic_fini(&net->nic[i]);
    if (net->session_host.listener)
        dt_listener_destroy(net->session_host.listener);
    dt_pairs_destroy(net->pairs);
    dt_inject_close(&net->inject);
    dt_hostpath_close(&net->hostpath);
    dt_gpu_flusher_close(&net->environment.flusher);
    dt_health_close(&net->health);
    pthread_mutex_destroy(&net->mutex);
    free(net->nic);
    free(net->service);
    free(net);
}

void dt_net_stop_threads(struct dt_net *net)
{
    dt_delay_table_release(net->inject.table,
                           NULL); /* staged messages must get out before the process ends */
    for (size_t i = 0; i < net->nic_count; i++)
        dt_nic_ask_to_stop(&net->nic[i]);
    for (size_t i = 0; i < net->nic_count; i++) {
        dt_nic_stop(&net->nic[i]);
        DT_CHECK(!net->nic[i].is_started || net->nic[i].service->is_joined);
        dt_inject_faults_end(&net->nic[i]);
    }
    dt_pairs_stop(net->pairs); /* after the device threads, whose last frames it sends */
    dt_gpus_stop(&net->hostpath.gpus);
}

void dt_net_use_page(struct dt_net *net, struct dt_page *page)
{
    net->environment.page = page;
}

size_t dt_net_device_count(const struct dt_net *net)
{
    return net->nic_count;
}

const struct dt_device_info *dt_net_device_info(const struct dt_net *net, size_t index)
{
    DT_CHECK(index < net->nic_count);
    return &net->nic[index].info;
}

const char *dt_net_device_name(const struct dt_net *net, size_t index)
{
    DT_CHECK(index < net->nic_count);
    return net->nic[index].name;
}

/* ------------------------------------------------------------------------------------------------------------
 * Without threads
 */
uint64_t dt_net_progress(struct dt_net *net, uint64_t now_ns)
{
    uint64_t deadline_ns = DT_NEVER_NS;

    dt_pairs_progress(net->pairs);
    for (size_t i = 0; i < net->nic_count; i++) {
        dt_executor_run(&net->nic[i].executor);
        dt_delegates_run(&net->nic[i].delegates);
        deadline_ns = dt_earlier_ns(deadline_ns, dt_service_progress(&net->nic[i], now_ns));
    }
    if (net->hostpath.is_on) {
        dt_gpus_run(&net->hostpath.gpus, now_ns);
        if (dt_gpus_is_busy(&net->hostpath.gpus))
            deadline_ns = dt_earlier_ns(deadline_ns, now_ns + GPU_PERIOD_NS);
    }
    return deadline_ns;
}
