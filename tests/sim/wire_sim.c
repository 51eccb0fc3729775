/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/wire_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/prng.h"

/* A packet under way; the payload, or its stamps, lie behind it. */
struct flight {
    uint64_t arrives_ns;
    uint64_t leaves_ns; /* its last byte */
    uint64_t number;    /* breaks ties, so that the order is one of the program, not of the heap */
    struct sim_link *link;
    bool is_lost;    /* the link was cut before leaves_ns */
    bool has_stamps; /* instead of the payload */
    struct dt_packet packet;
    uint8_t payload[];
};

/* One direction between two ports; behind struct dt_wire_link. */
struct sim_link {
    struct dt_list node;
    struct sim_port *from;
    uint8_t gid[16];     /* of the other end, which may not exist (yet) */
    struct sim_port *to; /* the other end, once a packet has found it */
    struct dt_sim_link_options options;
    uint64_t busy_since_ns; /* the packets since then leave one after the other, without a pause */
    uint64_t busy_bytes;    /* of these */
    uint64_t free_ns;       /* the last of them has left */
    uint64_t last_arrival_ns;
    uint32_t under_way;
    bool is_cut;
};

struct sim_port {
    struct dt_wire wire; /* first */
    struct dt_list node;
    struct dt_list links;
    struct dt_sim *sim;
    struct dt_rnic *rnic;
    struct dt_faults *faults;
    uint8_t gid[16];
};

struct dt_sim {
    struct dt_sim_options options;
    struct dt_wire_ops ops;
    struct dt_sim_watch watch;
    struct dt_wire *receiving; /* the port that a packet is being delivered to */
    struct dt_prng prng;
    struct dt_list ports;
    uint64_t now_ns;
    uint64_t flight_count;
    struct flight **heap; /* earliest first */
    uint32_t heap_used;
    uint32_t heap_size;
    uint32_t port_count;
};

static struct sim_link *to_link(struct dt_wire_link *link)
{
    return (struct sim_link *)(void *)link;
}

static struct sim_port *to_port(struct dt_wire *wire)
{
    return dt_container_of(wire, struct sim_port, wire);
}

/* ---- the packets under way ---- */

static bool is_earlier(const struct flight *a, const struct flight *b)
{
    return a->arrives_ns != b->arrives_ns ? a->arrives_ns < b->arrives_ns : a->number < b->number;
}

static bool heap_push(struct dt_sim *sim, struct flight *flight)
{
    uint32_t at = sim->heap_used;

    if (at == sim->heap_size) {
        uint32_t size = at ? at * 2 : 64;
        struct flight **heap = realloc(sim->heap, size * sizeof(struct flight *));

        if (!heap)
            return false;
        sim->heap = heap;
        sim->heap_size = size;
    }
    sim->heap_used++;
    for (; at && is_earlier(flight, sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = flight;
    return true;
}

static struct flight *heap_pop(struct dt_sim *sim)
{
    struct flight *first = sim->heap[0];
    struct flight *last = sim->heap[--sim->heap_used];
    uint32_t at = 0, child;

    while ((child = 2 * at + 1) < sim->heap_used) {
        if (child + 1 < sim->heap_used && is_earlier(sim->heap[child + 1], sim->heap[child]))
            child++;
        if (!is_earlier(sim->heap[child], last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

/* ---- wire.h ---- */

static struct dt_wire_link *sim_link(struct dt_wire *wire, const uint8_t gid[16])
{
    struct sim_port *port = to_port(wire);
    struct sim_link *link;

    dt_list_for_each(node, &port->links)
    {
        link = dt_container_of(node, struct sim_link, node);
        if (!memcmp(link->gid, gid, sizeof link->gid))
            return (struct dt_wire_link *)(void *)link;
    }
    link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->from = port;
    memcpy(link->gid, gid, sizeof link->gid);
    link->options.latency_ns = port->sim->options.latency_ns;
    link->options.jitter_ns = port->sim->options.jitter_ns;
    dt_list_push_back(&port->links, &link->node);
    return (struct dt_wire_link *)(void *)link;
}

static bool sim_can_transmit(struct dt_wire_link *wire_link)
{
    const struct sim_link *link = to_link(wire_link);
    uint32_t limit = link->from->sim->options.link_packets_max;

    return !limit || link->under_way < limit;
}

/* ---- payload ---- */

static bool has_stamps(const struct dt_sim *sim, const struct dt_packet *packet)
{
    return sim->options.block_bytes && packet->payload_bytes > sim->options.block_bytes;
}

static uint64_t carried_bytes(const struct dt_sim *sim, const struct dt_packet *packet)
{
    if (!has_stamps(sim, packet))
        return packet->payload_bytes;
    return (packet->payload_bytes + sim->options.block_bytes - 1) / sim->options.block_bytes *
           DT_SIM_STAMP_BYTES;
}

/*
 * The stamps in [offset, offset + bytes) of a payload, between `memory`, which holds that part of the
 * payload, and `stamps`, which holds those of all blocks.
 */
static void copy_stamps(const struct dt_sim *sim, uint8_t *stamps, uint8_t *memory, uint64_t offset,
                        uint64_t bytes, bool to_memory)
{
    const uint64_t block = sim->options.block_bytes, end = offset + bytes;

    for (uint64_t i = offset / block; i * block < end; i++) {
        uint64_t from = dt_max_u64(i * block, offset), to = dt_min_u64(i * block + DT_SIM_STAMP_BYTES, end);
        uint8_t *stamp = stamps + i * DT_SIM_STAMP_BYTES + (from - i * block);

        if (from < to && to_memory)
            memcpy(memory + (from - offset), stamp, to - from);
        else if (from < to)
            memcpy(stamp, memory + (from - offset), to - from);
    }
}

static void take_payload(const struct dt_sim *sim, struct flight *flight, const struct dt_packet *packet)
{
    uint64_t at = 0;

    flight->has_stamps = has_stamps(sim, packet);
    for (uint32_t i = 0; i < packet->iov_count; i++) {
        const struct iovec *piece = &packet->iov[i];

        if (flight->has_stamps)
            copy_stamps(sim, flight->payload, piece->iov_base, at, piece->iov_len, false);
        else
            memcpy(flight->payload + at, piece->iov_base, piece->iov_len);
        at += piece->iov_len;
    }
}

/* ---- sending ---- */

static bool begins_message(const struct dt_packet *packet)
{
    return packet->flags & DT_PACKET_FIRST && packet->message_bytes > DT_SIM_SERIAL_BYTES &&
           (packet->op == DT_PACKET_SEND || packet->op == DT_PACKET_WRITE);
}

/*
 * When the last byte of a packet leaves that is sent now. Counted in bytes since the link was idle, so that
 * one packet takes as long as the same bytes in many.
 */
static uint64_t occupy(struct sim_link *link, const struct dt_packet *packet, uint64_t now_ns)
{
    const struct dt_sim_link_options *o = &link->options;

    if (!o->rate_bytes_per_s && !o->serial_ns)
        return now_ns;
    if (link->free_ns <= now_ns) {
        link->busy_since_ns = now_ns;
        link->busy_bytes = 0;
    }
    link->busy_bytes += packet->payload_bytes;
    link->busy_since_ns += begins_message(packet) ? o->serial_ns : 0;
    link->free_ns = link->busy_since_ns;
    if (o->rate_bytes_per_s)
        link->free_ns +=
            (uint64_t)(((unsigned __int128)link->busy_bytes * 1000000000u + o->rate_bytes_per_s - 1) /
                       o->rate_bytes_per_s);
    return link->free_ns;
}

/* What the fault rules have left of a packet. */
static void send_off(void *arg, void *wire_link, const struct dt_packet *packet, bool is_copied)
{
    struct dt_sim *sim = arg;
    struct sim_link *link = wire_link;
    struct flight *flight;

    (void)is_copied; /* copied in any case */
    if (sim->watch.leaves && !sim->watch.leaves(sim->watch.arg, &link->from->wire, packet))
        return;
    if (link->is_cut)
        return;
    flight = malloc(sizeof *flight + carried_bytes(sim, packet));
    if (!flight)
        return;
    memcpy(&flight->packet, packet, offsetof(struct dt_packet, iov));
    take_payload(sim, flight, packet);
    flight->packet.iov_count = 0;
    flight->link = link;
    flight->is_lost = false;
    flight->number = sim->flight_count++;
    flight->leaves_ns = occupy(link, packet, sim->now_ns);
    flight->arrives_ns = flight->leaves_ns + link->options.latency_ns;
    if (link->options.jitter_ns)
        flight->arrives_ns += dt_prng_below(&sim->prng, link->options.jitter_ns + 1);
    if (flight->arrives_ns < link->last_arrival_ns)
        flight->arrives_ns = link->last_arrival_ns;
    link->last_arrival_ns = flight->arrives_ns;
    if (!heap_push(sim, flight))
        free(flight);
    else
        link->under_way++;
}

static void sim_transmit(struct dt_wire_link *wire_link, const struct dt_packet *packet, uint64_t now_ns)
{
    struct sim_link *link = to_link(wire_link);
    struct sim_port *port = link->from;

    if (dt_faults_active(port->faults))
        dt_faults_apply(port->faults, link, packet, now_ns, send_off, port->sim);
    else
        send_off(port->sim, link, packet, false);
}

static int sim_land(struct dt_received *received, uint64_t offset, void *dst, uint64_t bytes)
{
    struct flight *flight = (struct flight *)(void *)received;
    const struct dt_sim *sim = flight->link->from->sim;

    if (flight->has_stamps)
        copy_stamps(sim, flight->payload, dst, offset, bytes, true);
    else
        memcpy(dst, flight->payload + offset, bytes);
    if (sim->watch.landed)
        sim->watch.landed(sim->watch.arg, sim->receiving, &flight->packet, dst, bytes);
    return 0;
}

/* ---- life ---- */

struct dt_sim *dt_sim_create(const struct dt_sim_options *options)
{
    struct dt_sim *sim = calloc(1, sizeof *sim);

    if (!sim)
        return NULL;
    sim->options = *options;
    sim->ops = (struct dt_wire_ops){.link = sim_link,
                                    .can_transmit = sim_can_transmit,
                                    .transmit = sim_transmit,
                                    .land = sim_land,
                                    .segment_bytes_max = options->segment_bytes_max};
    sim->now_ns = options->start_ns;
    dt_prng_init(&sim->prng, options->seed);
    dt_list_init(&sim->ports);
    return sim;
}

static void free_port(struct sim_port *port)
{
    dt_list_for_each(node, &port->links)
    {
        free(dt_container_of(node, struct sim_link, node));
    }
    dt_faults_destroy(port->faults);
    free(port);
}

void dt_sim_destroy(struct dt_sim *sim)
{
    if (!sim)
        return;
    while (sim->heap_used)
        free(heap_pop(sim));
    free(sim->heap);
    dt_list_for_each(node, &sim->ports)
    {
        free_port(dt_container_of(node, struct sim_port, node));
    }
    free(sim);
}

static bool add_rules(struct dt_faults *faults, const struct dt_sim_options *options)
{
    struct dt_fault_rule rules[] = {
        {.action = DT_FAULT_DROP, .chance_ppm = options->loss_ppm},
        {.action = DT_FAULT_DUPLICATE, .chance_ppm = options->duplicate_ppm, .delay_ns = options->reorder_ns},
        {.action = DT_FAULT_DELAY, .chance_ppm = options->reorder_ppm, .delay_ns = options->reorder_ns},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rules); i++) {
        if (rules[i].chance_ppm && !dt_faults_add(faults, &rules[i]))
            return false;
    }
    return true;
}

struct dt_wire *dt_sim_add_port(struct dt_sim *sim, const uint8_t gid[16])
{
    struct sim_port *port = calloc(1, sizeof *port);

    if (!port)
        return NULL;
    port->wire.ops = &sim->ops;
    port->sim = sim;
    memcpy(port->gid, gid, sizeof port->gid);
    dt_list_init(&port->links);
    port->faults = dt_faults_create(sim->options.seed * 1000003u + ++sim->port_count);
    if (!port->faults || !add_rules(port->faults, &sim->options)) {
        free_port(port);
        return NULL;
    }
    dt_list_push_back(&sim->ports, &port->node);
    return &port->wire;
}

void dt_sim_attach(struct dt_wire *port, struct dt_rnic *rnic)
{
    to_port(port)->rnic = rnic;
}

struct dt_faults *dt_sim_faults(struct dt_wire *port)
{
    return to_port(port)->faults;
}

void dt_sim_set_watch(struct dt_sim *sim, const struct dt_sim_watch *watch)
{
    sim->watch = *watch;
}

void dt_sim_cut(struct dt_wire *from, struct dt_wire *to, bool is_cut)
{
    struct sim_link *link = to_link(sim_link(from, to_port(to)->gid));
    const struct dt_sim *sim = to_port(from)->sim;

    if (!link)
        return;
    link->is_cut = is_cut;
    for (uint32_t i = 0; is_cut && i < sim->heap_used; i++)
        sim->heap[i]->is_lost |= sim->heap[i]->link == link && sim->heap[i]->leaves_ns > sim->now_ns;
    if (is_cut)
        link->free_ns = dt_min_u64(link->free_ns, sim->now_ns);
}

void dt_sim_set_link(struct dt_wire *from, struct dt_wire *to, const struct dt_sim_link_options *options)
{
    struct sim_link *link = to_link(sim_link(from, to_port(to)->gid));

    if (link)
        link->options = *options;
}

void dt_sim_set_latency(struct dt_wire *from, struct dt_wire *to, uint64_t latency_ns, uint64_t jitter_ns)
{
    struct sim_link *link = to_link(sim_link(from, to_port(to)->gid));

    if (!link)
        return;
    link->options.latency_ns = latency_ns;
    link->options.jitter_ns = jitter_ns;
}

/* ---- time ---- */

uint64_t dt_sim_now_ns(const struct dt_sim *sim)
{
    return sim->now_ns;
}

static uint64_t port_next_ns(const struct sim_port *port)
{
    uint64_t next_ns = dt_faults_deadline_ns(port->faults);

    return port->rnic ? dt_min_u64(next_ns, dt_rnic_deadline_ns(port->rnic)) : next_ns;
}

uint64_t dt_sim_next_ns(const struct dt_sim *sim)
{
    uint64_t next_ns = sim->heap_used ? sim->heap[0]->arrives_ns : UINT64_MAX;

    for (struct dt_list *node = sim->ports.next; node != &sim->ports; node = node->next)
        next_ns = dt_min_u64(next_ns, port_next_ns(dt_container_of(node, struct sim_port, node)));
    return next_ns == UINT64_MAX ? next_ns : dt_max_u64(next_ns, sim->now_ns);
}

/* NULL: there is no such port (yet). Ports live as long as the network. */
static struct sim_port *far_end(struct sim_link *link)
{
    const struct dt_sim *sim = link->from->sim;

    for (struct dt_list *node = sim->ports.next; !link->to && node != &sim->ports; node = node->next) {
        struct sim_port *port = dt_container_of(node, struct sim_port, node);

        if (!memcmp(port->gid, link->gid, sizeof port->gid))
            link->to = port;
    }
    return link->to;
}

static void deliver(struct dt_sim *sim)
{
    struct flight *flight = heap_pop(sim);
    struct sim_port *from = flight->link->from, *to = far_end(flight->link);

    flight->link->under_way--;
    if (to && to->rnic && !flight->is_lost) {
        sim->receiving = &to->wire;
        dt_rnic_receive(to->rnic, &flight->packet, (struct dt_received *)(void *)flight, sim->now_ns);
        dt_rnic_progress(to->rnic, sim->now_ns);
    }
    if (to && sim->watch.acted)
        sim->watch.acted(sim->watch.arg, &to->wire);
    /* There is room again on the way it took. */
    if (sim->options.link_packets_max && from->rnic)
        dt_rnic_progress(from->rnic, sim->now_ns);
    free(flight);
}

/* What is due at the ports. */
static void run_ports(struct dt_sim *sim)
{
    dt_list_for_each(node, &sim->ports)
    {
        struct sim_port *port = dt_container_of(node, struct sim_port, node);

        dt_faults_release(port->faults, sim->now_ns, send_off, sim);
        if (!port->rnic || dt_rnic_deadline_ns(port->rnic) > sim->now_ns)
            continue;
        dt_rnic_progress(port->rnic, sim->now_ns);
        if (sim->watch.acted)
            sim->watch.acted(sim->watch.arg, &port->wire);
    }
}

static void step_to(struct dt_sim *sim, uint64_t next_ns)
{
    sim->now_ns = next_ns;
    /* Arrivals first: an acknowledgement that comes in the very instant of its timeout counts. */
    if (sim->heap_used && sim->heap[0]->arrives_ns <= next_ns)
        deliver(sim);
    else
        run_ports(sim);
}

bool dt_sim_step(struct dt_sim *sim)
{
    uint64_t next_ns = dt_sim_next_ns(sim);

    if (next_ns == UINT64_MAX)
        return false;
    step_to(sim, next_ns);
    return true;
}

void dt_sim_run_until(struct dt_sim *sim, uint64_t until_ns)
{
    uint64_t next_ns;

    while ((next_ns = dt_sim_next_ns(sim)) <= until_ns && next_ns != UINT64_MAX)
        step_to(sim, next_ns);
    sim->now_ns = dt_max_u64(sim->now_ns, until_ns);
}
