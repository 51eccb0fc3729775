/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/listener.h"
#include "transport/name_filter.h"
#include "transport/nic.h"
#include "transport/owner.h"
#include "transport/path_queues.h"
#include "transport/service.h"
#include "transport/setup.h"

/* ------------------------------------------------------------------------------------------------------------
 * Devices
 */
static enum dt_status nic_init(struct dt_net *net, struct dt_nic *nic, const struct dt_device_info *info)
{
    enum dt_status status;

    nic->net = net;
    nic->index = (uint32_t)(nic - net->nic);
    nic->info = *info;
    snprintf(nic->name, sizeof nic->name, info->port > 1 ? "%.48s:%u" : "%.48s", info->name, info->port);
    dt_list_init(&nic->connections);
    dt_inject_nic_init(&nic->inject);
    status = dt_executor_init(&nic->executor, net->has_threads);
    if (status != DT_OK)
        return status;
    if (pthread_mutex_init(&nic->mutex, NULL) != 0) {
        dt_executor_stop(&nic->executor);
        return DT_SYSTEM;
    }
    return DT_OK;
}

/* Devices whose queues hold enough, and that have a link. Says why one is left out. */
static bool is_usable(const struct dt_device_info *info, const char *filter)
{
    if (!dt_name_filter_match(filter, info->name, info->port))
        return false;
    if (!info->is_active)
        dt_info("%s port %u has no link: left out", info->name, info->port);
    else if (dt_path_slots_max(info) == 0)
        dt_info("%s has too small queues (%u work requests): left out", info->name, info->qp_wr_max);
    else
        return true;
    return false;
}

static enum dt_status add_devices(struct dt_net *net, const struct dt_device_info *list, size_t count)
{
    net->nic = calloc(count ? count : 1, sizeof *net->nic);
    if (!net->nic)
        return DT_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        enum dt_status status;

        if (!is_usable(&list[i], net->params.hca))
            continue;
        status = nic_init(net, &net->nic[net->nic_count], &list[i]);
        if (status != DT_OK)
            return status;
        net->nic_count++;
    }
    return net->nic_count > 0 ? DT_OK : DT_UNSUPPORTED;
}

static void take_options(struct dt_net *net, const struct dt_net_options *options)
{
    net->params = *options->params;
    net->verbs = options->verbs;
    net->network = options->network;
    net->address = options->address;
    net->random = options->random;
    net->random_arg = options->random_arg;
    net->chunk_bytes = options->chunk_bytes ? options->chunk_bytes : DT_CHUNK_BYTES_DEFAULT;
    net->has_threads = options->has_threads;
    net->has_membarrier = dt_owner_setup();
    net->pid = (uint32_t)getpid();
    dt_list_init(&net->setups);
    if (gethostname(net->host, sizeof net->host - 1) != 0)
        strcpy(net->host, "?");
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
    take_options(net, options);
    status = dt_inject_open(&net->inject, options->now_ns, options->now_arg);
    if (status == DT_OK)
        status = dt_verbs_devices(net->verbs, &list, &count);
    if (status == DT_OK)
        status = add_devices(net, list, count);
    dt_verbs_devices_free(list);
    if (status != DT_OK) {
        dt_net_destroy(net);
        return status;
    }
    *out = net;
    return DT_OK;
}

static void nic_fini(struct dt_nic *nic)
{
    dt_executor_stop(&nic->executor);
    dt_nic_close(nic);
    if (nic->device)
        dt_device_close(nic->device);
    pthread_mutex_destroy(&nic->mutex);
}

void dt_net_destroy(struct dt_net *net)
{
    dt_setups_abandon(net, DT_NEVER_NS);
    dt_net_stop_threads(net);
    for (size_t i = 0; i < net->nic_count; i++)
        nic_fini(&net->nic[i]);
    if (net->listener)
        dt_listener_destroy(net->listener);
    dt_inject_close(&net->inject);
    pthread_mutex_destroy(&net->mutex);
    free(net->nic);
    free(net);
}

void dt_net_stop_threads(struct dt_net *net)
{
    for (size_t i = 0; i < net->nic_count; i++)
        dt_nic_stop(&net->nic[i]);
}

size_t dt_net_device_count(const struct dt_net *net)
{
    return net->nic_count;
}

const struct dt_device_info *dt_net_device_info(const struct dt_net *net, size_t index)
{
    return &net->nic[index].info;
}

const char *dt_net_device_name(const struct dt_net *net, size_t index)
{
    return net->nic[index].name;
}

/* ------------------------------------------------------------------------------------------------------------
 * Without threads
 */
uint64_t dt_net_progress(struct dt_net *net, uint64_t now_ns)
{
    uint64_t deadline_ns = DT_NEVER_NS;

    for (size_t i = 0; i < net->nic_count; i++) {
        dt_executor_run(&net->nic[i].executor);
        deadline_ns = dt_earlier_ns(deadline_ns, dt_service_progress(&net->nic[i], now_ns));
    }
    return deadline_ns;
}

void dt_nic_submit(struct dt_nic *nic, struct dt_job *job)
{
    if (dt_executor_submit(&nic->executor, job) != DT_OK)
        job->run(job);
}
