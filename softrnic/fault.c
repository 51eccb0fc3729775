/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/fault.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/prng.h"
#include "softrnic/psn.h"

#define PPM 1000000u

struct rule {
    struct dt_list node;
    struct dt_fault_rule rule;
    uint32_t id;
    uint64_t seen; /* PSNs that matched */
    uint64_t hits;
};

/* A packet held back, with its payload behind it. */
struct held {
    struct dt_list node; /* by due_ns, then by age */
    void *link;
    uint64_t due_ns;
    uint32_t hold_packets; /* 0: waits for its time only */
    struct dt_packet packet;
    uint8_t payload[];
};

struct dt_faults {
    struct dt_prng prng;
    struct dt_list rules;
    struct dt_list held;
    uint32_t id_last;
};

/* Where emitted packets go, for the length of one call. */
struct way_out {
    void *link;
    uint64_t now_ns;
    dt_fault_emit_func *emit;
    void *arg;
};

struct dt_faults *dt_faults_create(uint64_t seed)
{
    struct dt_faults *faults = calloc(1, sizeof *faults);

    if (!faults)
        return NULL;
    dt_prng_init(&faults->prng, seed);
    dt_list_init(&faults->rules);
    dt_list_init(&faults->held);
    return faults;
}

void dt_faults_destroy(struct dt_faults *faults)
{
    if (!faults)
        return;
    dt_faults_clear(faults);
    dt_list_for_each(node, &faults->held)
    {
        free(dt_container_of(node, struct held, node));
    }
    free(faults);
}

/* ---- rules ---- */

uint32_t dt_faults_add(struct dt_faults *faults, const struct dt_fault_rule *rule)
{
    struct rule *entry = calloc(1, sizeof *entry);

    if (!entry)
        return 0;
    entry->rule = *rule;
    entry->id = ++faults->id_last;
    dt_list_push_back(&faults->rules, &entry->node);
    return entry->id;
}

static struct rule *find_rule(const struct dt_faults *faults, uint32_t id)
{
    for (struct dt_list *node = faults->rules.next; node != &faults->rules; node = node->next) {
        struct rule *entry = dt_container_of(node, struct rule, node);

        if (entry->id == id)
            return entry;
    }
    return NULL;
}

bool dt_faults_remove(struct dt_faults *faults, uint32_t id)
{
    struct rule *entry = find_rule(faults, id);

    if (!entry)
        return false;
    dt_list_remove(&entry->node);
    free(entry);
    return true;
}

void dt_faults_clear(struct dt_faults *faults)
{
    dt_list_for_each(node, &faults->rules)
    {
        free(dt_container_of(node, struct rule, node));
    }
    dt_list_init(&faults->rules);
}

uint64_t dt_faults_hits(const struct dt_faults *faults, uint32_t id)
{
    const struct rule *entry = find_rule(faults, id);

    return entry ? entry->hits : 0;
}

bool dt_faults_active(const struct dt_faults *faults)
{
    return !dt_list_is_empty(&faults->rules) || !dt_list_is_empty(&faults->held);
}

/* All conditions but the ones that count and the PSN. */
static bool concerns(const struct dt_fault_rule *rule, const struct dt_packet *packet)
{
    return (!rule->ops || rule->ops & DT_FAULT_OP(packet->op)) &&
           (!rule->src_qpn || rule->src_qpn == packet->src_qpn) &&
           (!rule->dst_qpn || rule->dst_qpn == packet->dst_qpn) &&
           (!rule->syndrome || (packet->op == DT_PACKET_ACK && rule->syndrome == packet->syndrome));
}

/* Of one PSN: a path MTU, but the last of a range has what is left. */
static uint64_t payload_of(const struct dt_packet *packet, uint32_t psn)
{
    uint64_t skip = (uint64_t)dt_psn_sub(psn, packet->psn) << packet->mtu_shift;

    return dt_min_u64(packet->payload_bytes - skip, 1ull << packet->mtu_shift);
}

static bool is_hit(struct dt_faults *faults, struct rule *entry, const struct dt_packet *packet, uint32_t psn)
{
    const struct dt_fault_rule *rule = &entry->rule;
    uint32_t span = dt_psn_sub(rule->psn_last, rule->psn_first);
    uint64_t n;

    if (rule->has_psn && dt_psn_sub(psn, rule->psn_first) > span)
        return false;
    if (payload_of(packet, psn) < rule->bytes_min)
        return false;
    n = entry->seen++;
    if (n < rule->skip || (rule->count && entry->hits >= rule->count))
        return false;
    if (rule->every && (n - rule->skip) % rule->every >= (rule->of_every ? rule->of_every : 1))
        return false;
    if (rule->chance_ppm && !dt_prng_chance(&faults->prng, rule->chance_ppm, PPM))
        return false;
    entry->hits++;
    DT_CHECK(entry->hits <= entry->seen);
    return true;
}

/* The first rule that hits this PSN of the packet, or NULL. */
static const struct dt_fault_rule *rule_for(struct dt_faults *faults, const struct dt_packet *packet,
                                            uint32_t psn)
{
    dt_list_for_each(node, &faults->rules)
    {
        struct rule *entry = dt_container_of(node, struct rule, node);

        if (concerns(&entry->rule, packet) && is_hit(faults, entry, packet, psn))
            return &entry->rule;
    }
    return NULL;
}

static bool concerns_any(const struct dt_faults *faults, const struct dt_packet *packet)
{
    for (struct dt_list *node = faults->rules.next; node != &faults->rules; node = node->next) {
        if (concerns(&dt_container_of(node, struct rule, node)->rule, packet))
            return true;
    }
    return false;
}

/* ---- ranges ---- */

/* out->iov becomes [skip, skip + bytes) of the packet's. */
static void slice_iov(const struct dt_packet *packet, uint64_t skip, uint64_t bytes, struct dt_packet *out)
{
    out->iov_count = 0;
    for (uint32_t i = 0; i < packet->iov_count && bytes; i++) {
        uint64_t there = packet->iov[i].iov_len, piece;

        if (skip >= there) {
            skip -= there;
            continue;
        }
        piece = dt_min_u64(there - skip, bytes);
        out->iov[out->iov_count++] = (struct iovec){(char *)packet->iov[i].iov_base + skip, piece};
        skip = 0;
        bytes -= piece;
    }
}

/*
 * *out becomes `count` PSNs of a range from the `first`-th on, with the address, payload, FIRST, LAST,
 * immediate and acknowledgement request of that part. Only for kinds whose PSNs carry payload (SEND, WRITE,
 * READ_RESPONSE).
 */
static void slice(const struct dt_packet *packet, uint32_t first, uint32_t count, struct dt_packet *out)
{
    uint64_t skip = (uint64_t)first << packet->mtu_shift;
    bool has_end = first + count == packet->psn_count;

    DT_CHECK(count && first + count <= packet->psn_count);
    memcpy(out, packet, offsetof(struct dt_packet, iov));
    out->psn = dt_psn_add(packet->psn, first);
    out->psn_count = count;
    out->payload_bytes = has_end ? packet->payload_bytes - skip : (uint64_t)count << packet->mtu_shift;
    if (packet->op == DT_PACKET_WRITE)
        out->remote_addr = packet->remote_addr + skip;
    if (first)
        out->flags &= (uint8_t)~DT_PACKET_FIRST;
    if (!has_end)
        out->flags &= DT_PACKET_FIRST;
    slice_iov(packet, skip, out->payload_bytes, out);
}

/* ---- holding back ---- */

static void hold(struct dt_faults *faults, const struct way_out *way, const struct dt_packet *packet,
                 uint64_t due_ns, uint32_t hold_packets)
{
    struct held *held = malloc(sizeof *held + packet->payload_bytes);
    struct dt_list *before = &faults->held;
    uint64_t at = 0;

    if (!held)
        return; /* lost, as in a switch that runs out of buffers */
    memcpy(&held->packet, packet, offsetof(struct dt_packet, iov));
    for (uint32_t i = 0; i < packet->iov_count; i++) {
        memcpy(held->payload + at, packet->iov[i].iov_base, packet->iov[i].iov_len);
        at += packet->iov[i].iov_len;
    }
    DT_CHECK(at == packet->payload_bytes); /* what was allocated */
    held->packet.iov[0] = (struct iovec){held->payload, at};
    held->packet.iov_count = at ? 1 : 0;
    held->link = way->link;
    held->due_ns = due_ns;
    held->hold_packets = hold_packets;
    while (before->prev != &faults->held && dt_container_of(before->prev, struct held, node)->due_ns > due_ns)
        before = before->prev;
    dt_list_push_back(before, &held->node); /* "back" of a node is just before it */
}

/* clang-tidy takes what is on the list afterwards for what was freed here; hence NOLINT below. */
static void let_go(struct held *held, dt_fault_emit_func *emit, void *arg)
{
    DT_CHECK(!dt_list_is_empty(&held->node));
    dt_list_remove(&held->node);
    emit(arg, held->link, &held->packet, true);
    free(held);
}

/* Emits `packet`, then the held packets that waited for one more packet of this link. */
static void send_out(struct dt_faults *faults, const struct way_out *way, const struct dt_packet *packet)
{
    way->emit(way->arg, way->link, packet, false);
    dt_list_for_each(node, &faults->held) /* NOLINT(clang-analyzer-unix.Malloc) */
    {
        struct held *held = dt_container_of(node, struct held, node);

        if (held->link == way->link && held->hold_packets && !--held->hold_packets)
            let_go(held, way->emit, way->arg);
    }
}

/* ---- apply ---- */

static uint64_t due_after(uint64_t now_ns, uint64_t delay_ns)
{
    return delay_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + delay_ns;
}

static void apply_rule(struct dt_faults *faults, const struct dt_fault_rule *rule, const struct way_out *way,
                       const struct dt_packet *packet)
{
    switch (rule->action) {
    case DT_FAULT_DROP:
    case DT_FAULT_TRUNCATE:
        break;
    case DT_FAULT_DELAY:
        hold(faults, way, packet, due_after(way->now_ns, rule->delay_ns), 0);
        break;
    case DT_FAULT_DUPLICATE:
        send_out(faults, way, packet);
        if (rule->delay_ns)
            hold(faults, way, packet, due_after(way->now_ns, rule->delay_ns), 0);
        else
            send_out(faults, way, packet);
        break;
    case DT_FAULT_REORDER:
        hold(faults, way, packet, rule->delay_ns ? due_after(way->now_ns, rule->delay_ns) : UINT64_MAX,
             rule->hold_packets ? rule->hold_packets : 1);
        break;
    }
}

/* A packet whose PSNs carry no payload of their own is hit as a whole, by its first PSN. */
static void apply_whole(struct dt_faults *faults, const struct way_out *way, const struct dt_packet *packet)
{
    const struct dt_fault_rule *rule = rule_for(faults, packet, packet->psn);

    if (rule)
        apply_rule(faults, rule, way, packet);
    else
        send_out(faults, way, packet);
}

static void apply_range(struct dt_faults *faults, const struct way_out *way, const struct dt_packet *packet)
{
    struct dt_packet part;
    uint32_t first = 0; /* of the PSNs that go out together */

    for (uint32_t n = 0; n < packet->psn_count; n++) {
        const struct dt_fault_rule *rule = rule_for(faults, packet, dt_psn_add(packet->psn, n));

        if (!rule)
            continue;
        if (n > first) {
            slice(packet, first, n - first, &part);
            send_out(faults, way, &part);
        }
        if (rule->action == DT_FAULT_TRUNCATE)
            return;
        slice(packet, n, 1, &part);
        apply_rule(faults, rule, way, &part);
        first = n + 1;
    }
    if (first < packet->psn_count) {
        slice(packet, first, packet->psn_count - first, &part);
        send_out(faults, way, &part);
    }
}

void dt_faults_apply(struct dt_faults *faults, void *link, const struct dt_packet *packet, uint64_t now_ns,
                     dt_fault_emit_func *emit, void *arg)
{
    struct way_out way = {link, now_ns, emit, arg};

    if (!concerns_any(faults, packet))
        send_out(faults, &way, packet);
    else if (packet->op == DT_PACKET_ACK || packet->op == DT_PACKET_READ_REQUEST)
        apply_whole(faults, &way, packet);
    else
        apply_range(faults, &way, packet);
}

uint64_t dt_faults_deadline_ns(const struct dt_faults *faults)
{
    if (dt_list_is_empty(&faults->held))
        return UINT64_MAX;
    return dt_container_of(faults->held.next, struct held, node)->due_ns;
}

void dt_faults_release(struct dt_faults *faults, uint64_t now_ns, dt_fault_emit_func *emit, void *arg)
{
    dt_list_for_each(node, &faults->held) /* NOLINT(clang-analyzer-unix.Malloc) */
    {
        struct held *held = dt_container_of(node, struct held, node);

        if (held->due_ns > now_ns)
            break;
        let_go(held, emit, arg);
    }
}

void dt_faults_forget_link(struct dt_faults *faults, const void *link)
{
    dt_list_for_each(node, &faults->held)
    {
        struct held *held = dt_container_of(node, struct held, node);

        if (held->link != link)
            continue;
        dt_list_remove(node);
        free(held);
    }
}
