/* SPDX-License-Identifier: Apache-2.0 */
/* RNICs as the plugin takes them: the same list, the same filter, the same choice of backups. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "doctor/doctor.h"
#include "failover/backup.h"
#include "base/name_filter.h"
#include "transport/path/queues.h"

#define GIDS_MAX    256
#define DEVICES_MAX 64 /* further devices are not considered as backups */

/* RoCE's smallest MTU that is no waste: 1024 is what an Ethernet MTU of 1500 leaves of it. */
#define ROCE_MTU_BYTES_GOOD 2048

/* One port with what the plugin thinks of it. */
struct port {
    const struct dt_device_info *info;
    char name[DT_DEVICE_NAME_BYTES + 16]; /* as in the plugin's log: "mlx5_0", "mlx5_0:2" */
    bool is_let_through;                  /* by DETOUR_HCA */
    bool is_used;
    uint32_t rail;
};

/* ------------------------------------------------------------------------------------------------------------
 * Facts
 */
static json_t *gid_fact(const struct dt_gid_info *gid, const struct dt_device_info *info)
{
    char text[INET6_ADDRSTRLEN];
    char interface[IF_NAMESIZE];
    bool has_interface = gid->interface_index && if_indextoname(gid->interface_index, interface);

    inet_ntop(AF_INET6, gid->gid, text, sizeof text);
    return json_pack("{s:i, s:s, s:s, s:s*, s:b}", "index", (int)gid->index, "gid", text, "kind",
                     dt_gid_kind_text(gid->kind), "interface", has_interface ? interface : NULL, "is_used",
                     (int)(gid->index == info->gid_index));
}

static json_t *memory_fact(uint32_t capabilities)
{
    json_t *list = json_array();

    json_array_append_new(list, json_string("host"));
    if (capabilities & DT_MEMORY_CUDA)
        json_array_append_new(list, json_string("CUDA"));
    if (capabilities & DT_MEMORY_DMABUF)
        json_array_append_new(list, json_string("dma-buf"));
    return list;
}

static const char *link_layer_text(enum dt_link_layer layer)
{
    switch (layer) {
    case DT_LINK_ETHERNET:
        return "RoCE";
    case DT_LINK_INFINIBAND:
        return "InfiniBand";
    case DT_LINK_UNKNOWN:
        break;
    }
    return "unknown";
}

static const char *use_text(const struct port *port)
{
    if (!port->is_let_through)
        return "not let through by DETOUR_HCA";
    if (!port->info->is_active)
        return "no link";
    return port->is_used ? "used" : "queues too small";
}

static json_t *port_fact(const struct port *port, json_t *gids, const char *why, json_t *backups)
{
    const struct dt_device_info *info = port->info;
    char guid[32];
    json_t *fact;

    snprintf(guid, sizeof guid, "%016" PRIx64, info->guid);
    fact = json_pack("{s:s, s:i, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:s, s:o}", "name", port->name,
                     "port", (int)info->port, "use", use_text(port), "link_layer",
                     link_layer_text(info->link_layer), "speed_mbps", (int)info->speed_mbps, "mtu_bytes",
                     (int)info->mtu_bytes, "numa_node", (int)info->numa_node, "pci_path", info->pci_path,
                     "guid", guid, "memory", memory_fact(info->capabilities), "gids", gids, "gid_reason", why,
                     "backups", backups);
    if (port->is_let_through)
        json_object_set_new(fact, "rail", json_integer(port->rail));
    return fact;
}

/* ------------------------------------------------------------------------------------------------------------
 * GIDs
 */
static const struct dt_gid_info *chosen_of(const struct dt_gid_info *gids, size_t count,
                                           const struct dt_device_info *info)
{
    for (size_t i = 0; i < count; i++) {
        if (gids[i].index == info->gid_index)
            return &gids[i];
    }
    return NULL;
}

static void why_chosen(const struct dt_doctor_options *options, const struct dt_params *params,
                       const struct dt_device_info *info, const struct dt_gid_info *chosen, char *text,
                       size_t bytes)
{
    size_t count;
    const struct dt_param_info *table = dt_param_table(&count);
    uint32_t index;

    for (size_t i = 0; i < count && !info->is_soft && dt_params_gid_index(params, &index); i++) {
        if (strcmp(table[i].name, "DETOUR_GID_INDEX") != 0)
            continue;
        snprintf(text, bytes, "asked for by %s", dt_param_source(&table[i], options->get, options->get_arg));
        return;
    }
    if (info->link_layer == DT_LINK_INFINIBAND)
        snprintf(text, bytes, "InfiniBand uses entry 0");
    else
        snprintf(text, bytes, "%s: the best kind that the port has",
                 chosen ? dt_gid_kind_text(chosen->kind) : "unknown");
}

static void judge_gid(struct dt_report *report, const struct port *port, const struct dt_gid_info *chosen)
{
    const char *advice = "an IPv4 address for the interface; or the right entry by DETOUR_GID_INDEX";

    if (!chosen || !port->is_used || port->info->is_soft || port->info->link_layer == DT_LINK_INFINIBAND)
        return;
    if (chosen->kind == DT_GID_ROCE_V2_LINK_LOCAL || chosen->kind == DT_GID_ROCE_V1_LINK_LOCAL)
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "devices", advice,
            "%s has a link-local GID only (index %u): it reaches its own layer-2 network and no other",
            port->name, chosen->index);
    else if (chosen->kind == DT_GID_ROCE_V1)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "devices", advice,
                              "%s uses RoCE v1 (index %u), which no router forwards", port->name,
                              chosen->index);
}

/* ------------------------------------------------------------------------------------------------------------
 * Judgements
 */
static void judge_port(struct dt_report *report, const struct port *port)
{
    const struct dt_device_info *info = port->info;

    if (port->is_let_through && !info->is_active)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "devices",
                              "cable, transceiver, switch port; or leave it out with DETOUR_HCA=^NAME",
                              "%s has no link", port->name);
    else if (port->is_let_through && !port->is_used)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "devices", "leave it out with DETOUR_HCA=^NAME",
                              "%s has too small queues (%u work requests)", port->name, info->qp_wr_max);
    if (!port->is_used || info->is_soft)
        return;
    if (info->link_layer == DT_LINK_ETHERNET && info->mtu_bytes < ROCE_MTU_BYTES_GOOD)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "devices",
                              "an MTU of 9000 for the interface and its switches gives 4096",
                              "%s has an RDMA MTU of %u", port->name, info->mtu_bytes);
}

static void judge_speeds(struct dt_report *report, const struct port *ports, size_t count)
{
    const struct port *slow = NULL;
    const struct port *fast = NULL;

    for (size_t i = 0; i < count; i++) {
        if (!ports[i].is_used)
            continue;
        if (!slow || ports[i].info->speed_mbps < slow->info->speed_mbps)
            slow = &ports[i];
        if (!fast || ports[i].info->speed_mbps > fast->info->speed_mbps)
            fast = &ports[i];
    }
    if (slow && slow->info->speed_mbps < fast->info->speed_mbps)
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "devices",
            "the slower ones hold a job up: leave them out with DETOUR_HCA, if they are not the training "
            "network; or look at the link (`ibstat`, `ethtool`)",
            "%s runs at %u Gbit/s and %s at %u Gbit/s", slow->name, slow->info->speed_mbps / 1000, fast->name,
            fast->info->speed_mbps / 1000);
}

/* ------------------------------------------------------------------------------------------------------------
 * Backups
 */
static size_t list_devices(const struct port *ports, size_t count, bool is_used_only,
                           struct dt_backup_device *devices, size_t *port_of)
{
    size_t device_count = 0;

    for (size_t i = 0; i < count && device_count < DEVICES_MAX; i++) {
        if (is_used_only && !ports[i].is_used)
            continue;
        port_of[device_count] = i;
        devices[device_count++] = (struct dt_backup_device){.name = ports[i].name,
                                                            .rail = ports[i].rail,
                                                            .numa_node = ports[i].info->numa_node,
                                                            .link_layer = ports[i].info->link_layer};
    }
    return device_count;
}

/* The devices that back ports[index] up, in the order in which they are wanted. */
static json_t *backups_of(const struct port *ports, size_t count, size_t index,
                          const struct dt_params *params, bool is_setting_right)
{
    struct dt_backup_device used[DEVICES_MAX];
    size_t port_of[DEVICES_MAX];
    size_t used_count = list_devices(ports, count, true, used, port_of);
    struct dt_backup_list list;
    json_t *names = json_array();

    for (size_t self = 0; self < used_count; self++) {
        if (port_of[self] != index)
            continue;
        dt_backup_make_list(used, (uint32_t)used_count, (uint32_t)self,
                            is_setting_right ? params->backup : "", &list);
        for (uint32_t i = 1; i < list.count && i < params->paths; i++)
            json_array_append_new(names, json_string(used[list.index[i]].name));
    }
    return names;
}

/* DETOUR_BACKUP: every device of the machine may be named, and those in use alone can serve. */
static bool judge_setting(struct dt_report *report, const struct port *ports, size_t count,
                          const struct dt_params *params)
{
    struct dt_backup_device devices[DEVICES_MAX];
    size_t port_of[DEVICES_MAX];
    size_t all = list_devices(ports, count, false, devices, port_of);
    char error[512];

    if (dt_backup_check(params->backup, devices, (uint32_t)all, error, sizeof error) != DT_OK) {
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "backups",
                              "correct DETOUR_BACKUP: with it the plugin does not start", "%s", error);
        return false;
    }
    all = list_devices(ports, count, true, devices, port_of);
    if (dt_backup_check(params->backup, devices, (uint32_t)all, error, sizeof error) != DT_OK)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "backups",
                              "a link for it, and a DETOUR_HCA that lets it through",
                              "a device that cannot be used backs up nothing: %s", error);
    return true;
}

static void judge_backups(struct dt_report *report, const struct port *ports, size_t count,
                          const struct dt_params *params)
{
    const struct port *used = NULL;
    size_t used_count = 0;

    for (size_t i = 0; i < count; i++) {
        if (!ports[i].is_used)
            continue;
        used = &ports[i];
        used_count++;
    }
    if (used_count == 1)
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "backups", "a second RNIC",
            "%s is alone: when it fails nothing takes over, connections wait for it to come back",
            used->name);
    else if (used_count > 1 && params->paths == 1)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "backups", "DETOUR_PATHS=2, which is the default",
                              "DETOUR_PATHS=1: no RNIC takes over when one fails");
}

/* ------------------------------------------------------------------------------------------------------------
 * The list
 */
static uint32_t judge_use(const struct dt_doctor_options *options, struct dt_report *report,
                          const struct port *ports, size_t count, uint32_t used_count)
{
    uint32_t capabilities = UINT32_MAX;

    for (size_t i = 0; i < count; i++) {
        if (ports[i].is_used)
            capabilities &= ports[i].info->capabilities;
    }
    if (count == 0)
        dt_doctor_no_devices(options, report);
    else if (used_count == 0)
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "devices",
                              "a link, and a DETOUR_HCA (or NCCL_IB_HCA) that lets it through",
                              "none of %zu ports can be used: NCCL will take another network", count);
    else
        dt_report_add_finding(report, DT_LEVEL_OK, "devices", NULL, "%u of %zu ports are used", used_count,
                              count);
    if (used_count && ports[0].info->is_soft)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "devices",
                              "unset DETOUR_VERBS where there are real devices",
                              "software RNICs: for tests and demonstrations on one host, not for production");
    return used_count ? capabilities : 0;
}

static uint32_t number_ports(struct port *ports, const struct dt_device_info *list, size_t count,
                             const struct dt_params *params)
{
    uint32_t rail = 0;
    uint32_t used_count = 0;

    for (size_t i = 0; i < count; i++) {
        struct port *port = &ports[i];

        port->info = &list[i];
        snprintf(port->name, sizeof port->name, list[i].port > 1 ? "%s:%u" : "%s", list[i].name,
                 list[i].port);
        port->is_let_through = dt_name_filter_match(params->hca, list[i].name, list[i].port);
        port->rail = port->is_let_through ? rail++ : 0;
        port->is_used = port->is_let_through && list[i].is_active && dt_path_slots_max(params, &list[i]) > 0;
        used_count += port->is_used;
    }
    return used_count;
}

static void say_port(const struct dt_doctor_options *options, struct dt_report *report,
                     struct dt_verbs *verbs, const struct dt_params *params, const struct port *port,
                     json_t *backups)
{
    struct dt_gid_info gids[GIDS_MAX];
    size_t gid_count = dt_verbs_gids(verbs, port->info, gids, GIDS_MAX);
    const struct dt_gid_info *chosen = chosen_of(gids, gid_count, port->info);
    json_t *gid_facts = json_array();
    char why[128];

    for (size_t i = 0; i < gid_count; i++)
        json_array_append_new(gid_facts, gid_fact(&gids[i], port->info));
    why_chosen(options, params, port->info, chosen, why, sizeof why);
    dt_report_add_fact(report, "devices", port_fact(port, gid_facts, why, backups));
    judge_port(report, port);
    judge_gid(report, port, chosen);
}

void dt_doctor_devices(const struct dt_doctor_options *options, struct dt_report *report,
                       struct dt_verbs *verbs, const struct dt_params *params)
{
    struct dt_device_info *list = NULL;
    size_t count = 0;
    struct port *ports;
    uint32_t used_count;
    bool is_right;

    dt_doctor_capture_log(report, "devices", DT_LEVEL_PROBLEM);
    if (dt_verbs_devices(verbs, &list, &count) != DT_OK)
        count = 0;
    dt_doctor_release_log();
    ports = calloc(count ? count : 1, sizeof *ports);
    if (!ports)
        count = 0;
    used_count = number_ports(ports, list, count, params);
    is_right = judge_setting(report, ports, count, params);
    judge_backups(report, ports, count, params);
    for (size_t i = 0; i < count; i++)
        say_port(options, report, verbs, params, &ports[i], backups_of(ports, count, i, params, is_right));
    judge_speeds(report, ports, count);
    dt_doctor_gpu(options, report, judge_use(options, report, ports, count, used_count));
    free(ports);
    dt_verbs_devices_free(list);
}
