/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/backup.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* ------------------------------------------------------------------------------------------------------------
 * DETOUR_BACKUP
 */

/* One item; the texts are not terminated. */
struct item {
    const char *device; /* NULL: all */
    size_t device_bytes;
    const char *backup;
    size_t backup_bytes;
};

/* Reads the item at *at and advances *at past it; false at the end. */
static bool next_item(const char **at, struct item *item)
{
    size_t bytes = strcspn(*at, ",");
    const char *equals = memchr(*at, '=', bytes);

    if (!**at)
        return false;
    item->device = equals ? *at : NULL;
    item->device_bytes = equals ? (size_t)(equals - *at) : 0;
    item->backup = equals ? equals + 1 : *at;
    item->backup_bytes = bytes - (equals ? item->device_bytes + 1 : 0);
    *at += bytes + ((*at)[bytes] == ',');
    return true;
}

static bool is_named(const struct dt_backup_device *device, const char *name, size_t bytes)
{
    return strlen(device->name) == bytes && memcmp(device->name, name, bytes) == 0;
}

/* The index of the device of this name, or `count`. */
static uint32_t find(const struct dt_backup_device *devices, uint32_t count, const char *name, size_t bytes)
{
    uint32_t i = 0;

    while (i < count && !is_named(&devices[i], name, bytes))
        i++;
    return i;
}

static enum dt_status complain_name(const struct dt_backup_device *devices, uint32_t count, const char *name,
                                    size_t bytes, char *error, size_t error_bytes)
{
    size_t used =
        (size_t)snprintf(error, error_bytes, "'%.*s' is no device here; there are", (int)bytes, name);

    for (uint32_t i = 0; i < count && used < error_bytes; i++)
        used += (size_t)snprintf(error + used, error_bytes - used, " %s", devices[i].name);
    return DT_INVALID;
}

static enum dt_status check_item(const struct item *item, const struct dt_backup_device *devices,
                                 uint32_t count, char *error, size_t error_bytes)
{
    uint32_t backup = find(devices, count, item->backup, item->backup_bytes);
    uint32_t device = item->device ? find(devices, count, item->device, item->device_bytes) : 0;

    if (item->backup_bytes == 0 || (item->device && item->device_bytes == 0)) {
        snprintf(error, error_bytes,
                 "expected names of backups, or DEVICE=BACKUP, separated by commas: soft0=soft1,soft1=soft0");
        return DT_INVALID;
    }
    if (backup == count)
        return complain_name(devices, count, item->backup, item->backup_bytes, error, error_bytes);
    if (device == count)
        return complain_name(devices, count, item->device, item->device_bytes, error, error_bytes);
    if (item->device && backup == device) {
        snprintf(error, error_bytes, "%s cannot be its own backup", devices[device].name);
        return DT_INVALID;
    }
    if (item->device && devices[backup].link_layer != devices[device].link_layer) {
        snprintf(error, error_bytes, "%s cannot back up %s: one is InfiniBand, the other Ethernet",
                 devices[backup].name, devices[device].name);
        return DT_INVALID;
    }
    return DT_OK;
}

enum dt_status dt_backup_check(const char *setting, const struct dt_backup_device *devices, uint32_t count,
                               char *error, size_t error_bytes)
{
    enum dt_status status = DT_OK;
    struct item item;

    while (status == DT_OK && next_item(&setting, &item))
        status = check_item(&item, devices, count, error, error_bytes);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * One end's list
 */
static void append(struct dt_backup_list *list, const struct dt_backup_device *devices, uint32_t index)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->index[i] == index)
            return;
    }
    if (list->count < DT_BACKUPS_MAX && devices[index].link_layer == devices[list->index[0]].link_layer)
        list->index[list->count++] = index;
}

/* Adds the setting's items for this device, or those for all devices; false: there is none. */
static bool append_items(struct dt_backup_list *list, const struct dt_backup_device *devices, uint32_t count,
                         const char *setting, bool is_own)
{
    const struct dt_backup_device *self = &devices[list->index[0]];
    bool has_item = false;
    struct item item;

    while (next_item(&setting, &item)) {
        uint32_t index = find(devices, count, item.backup, item.backup_bytes);

        if (is_own ? !item.device || !is_named(self, item.device, item.device_bytes) : item.device != NULL)
            continue;
        has_item = true;
        if (index < count)
            append(list, devices, index);
    }
    return has_item;
}

static void append_by_distance(struct dt_backup_list *list, const struct dt_backup_device *devices,
                               uint32_t count)
{
    uint32_t self = list->index[0];

    for (int is_near = 1; is_near >= 0; is_near--) {
        for (uint32_t i = 1; i < count; i++) {
            uint32_t index = (self + i) % count;

            if ((devices[index].numa_node == devices[self].numa_node) == (bool)is_near)
                append(list, devices, index);
        }
    }
}

void dt_backup_make_list(const struct dt_backup_device *devices, uint32_t count, uint32_t self,
                         const char *setting, struct dt_backup_list *list)
{
    memset(list, 0, sizeof *list);
    list->count = 1;
    list->index[0] = self;
    list->is_chosen = append_items(list, devices, count, setting, true) ||
                      append_items(list, devices, count, setting, false);
    if (!list->is_chosen)
        append_by_distance(list, devices, count);
}

void dt_backup_make_offer(const struct dt_backup_device *devices, const struct dt_backup_list *list,
                          struct dt_backup_offer *offer)
{
    memset(offer, 0, sizeof *offer);
    offer->is_chosen = list->is_chosen;
    offer->count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct dt_backup_device *device = &devices[list->index[i]];

        offer->device[i].rail = device->rail;
        offer->device[i].is_near = device->numa_node == devices[list->index[0]].numa_node;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Pairs
 */
const char *dt_backup_kind_text(uint32_t kind)
{
    static const char *const texts[] = {
#define DT_BACKUP_KIND_TEXT(name, text) text,
        DT_BACKUP_KINDS(DT_BACKUP_KIND_TEXT)
#undef DT_BACKUP_KIND_TEXT
    };

    return kind < DT_COUNT_OF(texts) ? texts[kind] : "";
}

static bool is_same_rail(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                         const struct dt_backup_pair *pair)
{
    return sender->device[pair->sender].rail == receiver->device[pair->receiver].rail;
}

static uint32_t far_ends(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                         const struct dt_backup_pair *pair)
{
    return !sender->device[pair->sender].is_near + !receiver->device[pair->receiver].is_near;
}

static uint32_t kind_of(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                        const struct dt_backup_pair *pair)
{
    if (sender->is_chosen || receiver->is_chosen)
        return DT_BACKUP_CHOSEN;
    if (is_same_rail(sender, receiver, pair))
        return DT_BACKUP_SAME_RAIL;
    return far_ends(sender, receiver, pair) == 0 ? DT_BACKUP_SAME_NODE : DT_BACKUP_DISTANT;
}

/* The cost of a pair: the most important criterion in the highest bits; positions are below DT_BACKUPS_MAX.
 */
static uint32_t badness(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                        const struct dt_backup_pair *pair, uint32_t used_ends)
{
    uint32_t chosen = (sender->is_chosen ? pair->sender : 0) + (receiver->is_chosen ? pair->receiver : 0);

    return used_ends << 24 | chosen << 16 | (uint32_t)!is_same_rail(sender, receiver, pair) << 12 |
           far_ends(sender, receiver, pair) << 10 | pair->sender << 5 | pair->receiver;
}

/* The best pair with at least one new device. False: there is none. */
static bool find_pair(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                      uint32_t used_sender, uint32_t used_receiver, struct dt_backup_pair *best)
{
    uint32_t least = UINT32_MAX;
    struct dt_backup_pair pair = {0};

    for (pair.sender = 0; pair.sender < sender->count; pair.sender++) {
        for (pair.receiver = 0; pair.receiver < receiver->count; pair.receiver++) {
            uint32_t used_ends = (used_sender >> pair.sender & 1) + (used_receiver >> pair.receiver & 1);
            uint32_t bad = badness(sender, receiver, &pair, used_ends);

            if (used_ends == 2 || bad >= least)
                continue;
            least = bad;
            *best = pair;
        }
    }
    return least != UINT32_MAX;
}

uint32_t dt_backup_make_pairs(const struct dt_backup_offer *sender, const struct dt_backup_offer *receiver,
                              uint32_t paths_max, struct dt_backup_pair *pairs)
{
    uint32_t used_sender = 1, used_receiver = 1, count = 1;

    memset(pairs, 0, paths_max * sizeof *pairs);
    while (count < paths_max && find_pair(sender, receiver, used_sender, used_receiver, &pairs[count])) {
        pairs[count].kind = kind_of(sender, receiver, &pairs[count]);
        used_sender |= 1u << pairs[count].sender;
        used_receiver |= 1u << pairs[count].receiver;
        count++;
    }
    return count;
}
