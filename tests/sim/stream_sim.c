/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/stream_sim.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/prng.h"
#include "base/util.h"

/* What one host sees. */
struct door {
    struct dt_network base;
    struct dt_sim_network *network;
    uint32_t host;
};

struct dt_sim_network {
    struct door door[DT_SIM_HOSTS_MAX];
    struct dt_sim_network_options options;
    uint64_t hold_until_ns;
    bool is_dead[DT_SIM_HOSTS_MAX];
    bool is_silent[DT_SIM_HOSTS_MAX]; /* and does not even refuse */
    struct dt_prng prng;
    uint64_t now_ns;
    uint16_t port_next;
    struct dt_list ports;
    struct dt_list ends; /* of all streams */
    /* What spares a look at every end: pieces in the inboxes of a host's ends, of all, and the latest
     * open_ns. */
    uint32_t pieces_of[DT_SIM_HOSTS_MAX];
    uint32_t piece_count;
    uint64_t open_last_ns;
};

/* Bytes under way, or the end of the stream (bytes == 0). */
struct piece {
    struct dt_list node;
    uint64_t arrival_ns;
    size_t bytes;
    size_t taken;
    uint8_t data[];
};

struct end {
    struct dt_stream base;
    struct dt_list node;
    struct dt_sim_network *network;
    struct end *other; /* NULL: closed */
    struct dt_address peer;
    struct dt_list inbox;
    uint64_t inbox_last_ns; /* arrival of the newest piece: streams keep order */
    uint64_t open_ns;       /* established from then on */
    uint32_t host;
    uint32_t other_host;
    enum dt_status ended; /* DT_OK: it has not */
};

struct port {
    struct dt_stream_port base;
    struct dt_list node;
    struct dt_sim_network *network;
    uint32_t host;
    uint16_t number;
    struct dt_list waiting; /* ends not accepted yet, by their `accept_node` */
};

struct waiting {
    struct dt_list node;
    struct end *end;
};

static uint64_t draw_arrival_ns(struct dt_sim_network *network)
{
    uint64_t jitter_ns = dt_prng_below(&network->prng, network->options.jitter_ns + 1);

    return network->now_ns + network->options.latency_ns + jitter_ns;
}

/* Every change of an inbox's length is counted here. */
static void count_piece(const struct end *end, bool is_new)
{
    struct dt_sim_network *network = end->network;

    DT_CHECK(is_new || (network->pieces_of[end->host] > 0 && network->piece_count > 0));
    network->pieces_of[end->host] += is_new ? 1 : -1u;
    network->piece_count += is_new ? 1 : -1u;
}

static void set_open_ns(struct end *end, uint64_t open_ns)
{
    end->open_ns = open_ns;
    end->network->open_last_ns = dt_max_u64(end->network->open_last_ns, open_ns);
}

/* ---- streams --------------------------------------------------------------------------------------------
 */

static enum dt_status stream_state(struct dt_stream *stream)
{
    const struct end *end = (const struct end *)stream;

    if (end->network->now_ns < end->open_ns)
        return DT_AGAIN;
    return end->ended;
}

static bool deliver(struct end *to, const uint8_t *data, size_t bytes)
{
    struct piece *piece = malloc(sizeof *piece + bytes);

    if (!piece)
        return false;
    piece->arrival_ns = dt_max_u64(draw_arrival_ns(to->network), to->inbox_last_ns);
    if (to->host != to->other_host)
        piece->arrival_ns = dt_max_u64(piece->arrival_ns, to->network->hold_until_ns);
    piece->bytes = bytes;
    piece->taken = 0;
    if (bytes)
        memcpy(piece->data, data, bytes);
    to->inbox_last_ns = piece->arrival_ns;
    dt_list_push_back(&to->inbox, &piece->node);
    count_piece(to, true);
    return true;
}

static enum dt_status stream_send(struct dt_stream *stream, const void *from, size_t bytes, size_t *sent)
{
    struct end *end = (struct end *)stream;
    enum dt_status status = stream_state(stream);
    size_t total = dt_min_u64(bytes, end->network->options.piece_bytes);
    size_t done = 0;

    if (status != DT_OK)
        return status;
    if (!end->other)
        return DT_PEER_ERROR;
    while (done < total) {
        size_t part = dt_prng_between(&end->network->prng, 1, total - done);

        if (!deliver(end->other, (const uint8_t *)from + done, part))
            return DT_SYSTEM;
        done += part;
    }
    *sent = total;
    return DT_OK;
}

static enum dt_status stream_receive(struct dt_stream *stream, void *to, size_t bytes, size_t *received)
{
    struct end *end = (struct end *)stream;
    enum dt_status status = stream_state(stream);
    struct piece *piece;
    size_t part;

    if (status != DT_OK)
        return status;
    if (dt_list_is_empty(&end->inbox))
        return DT_AGAIN;
    piece = dt_container_of(end->inbox.next, struct piece, node);
    if (piece->arrival_ns > end->network->now_ns)
        return DT_AGAIN;
    if (!piece->bytes)
        return DT_CLOSED;
    part = dt_min_u64(bytes, piece->bytes - piece->taken);
    memcpy(to, piece->data + piece->taken, part);
    piece->taken += part;
    if (piece->taken == piece->bytes) {
        dt_list_remove(&piece->node);
        count_piece(end, false);
        free(piece);
    }
    *received = part;
    return DT_OK;
}

static void stream_peer(struct dt_stream *stream, struct dt_address *address)
{
    *address = ((const struct end *)stream)->peer;
}

static int no_fd(struct dt_stream *stream)
{
    (void)stream;
    return -1;
}

static void free_end(struct end *end)
{
    struct dt_list *node;

    if (end->other)
        end->other->other = NULL;
    while ((node = dt_list_pop_front(&end->inbox))) {
        count_piece(end, false);
        free(dt_container_of(node, struct piece, node));
    }
    dt_list_remove(&end->node);
    free(end);
}

static void stream_close(struct dt_stream *stream)
{
    struct end *end = (struct end *)stream;

    if (end->other && !deliver(end->other, NULL, 0))
        end->other->ended = DT_PEER_ERROR;
    free_end(end);
}

static const struct dt_stream_ops stream_ops = {
    .state = stream_state,
    .send = stream_send,
    .receive = stream_receive,
    .peer = stream_peer,
    .fd = no_fd,
    .close = stream_close,
};

static struct end *make_end(struct dt_sim_network *network, uint32_t host, uint32_t other_host)
{
    struct end *end = calloc(1, sizeof *end);

    if (!end)
        return NULL;
    end->base.ops = &stream_ops;
    end->network = network;
    end->host = host;
    end->other_host = other_host;
    end->peer = (struct dt_address){.family = DT_ADDRESS_IPV4, .ip = {127, 0, 0, 1}};
    dt_list_init(&end->inbox);
    dt_list_push_back(&network->ends, &end->node);
    return end;
}

/* ---- ports ----------------------------------------------------------------------------------------------
 */

static const struct dt_network_ops network_ops;

static enum dt_status network_listen(struct dt_network *base, struct dt_address *address,
                                     struct dt_stream_port **out)
{
    struct door *door = (struct door *)base;
    struct dt_sim_network *network = door->network;
    struct port *port = calloc(1, sizeof *port);

    if (!port)
        return DT_SYSTEM;
    port->base.ops = &network_ops;
    port->network = network;
    port->host = door->host;
    port->number = address->port ? address->port : network->port_next++;
    address->port = port->number;
    dt_list_init(&port->waiting);
    dt_list_push_back(&network->ports, &port->node);
    *out = &port->base;
    return DT_OK;
}

static enum dt_status port_accept(struct dt_stream_port *base, struct dt_stream **stream)
{
    struct port *port = (struct port *)base;
    struct waiting *first;

    if (dt_list_is_empty(&port->waiting))
        return DT_AGAIN;
    first = dt_container_of(port->waiting.next, struct waiting, node);
    if (first->end->open_ns > port->network->now_ns)
        return DT_AGAIN;
    *stream = &first->end->base;
    dt_list_remove(&first->node);
    free(first);
    return DT_OK;
}

static int port_no_fd(struct dt_stream_port *port)
{
    (void)port;
    return -1;
}

static void close_port(struct dt_stream_port *base)
{
    struct port *port = (struct port *)base;
    struct dt_list *node;

    while ((node = dt_list_pop_front(&port->waiting))) {
        struct waiting *waiting = dt_container_of(node, struct waiting, node);

        stream_close(&waiting->end->base);
        free(waiting);
    }
    dt_list_remove(&port->node);
    free(port);
}

static struct port *find_port(struct dt_sim_network *network, uint16_t number)
{
    dt_list_for_each(node, &network->ports)
    {
        struct port *port = dt_container_of(node, struct port, node);

        if (port->number == number && (!network->is_dead[port->host] || network->is_silent[port->host]))
            return port;
    }
    return NULL;
}

/* When a stream that is dialed now is established. */
static uint64_t dial_ns(struct dt_sim_network *network, uint32_t host, uint32_t far_host)
{
    uint64_t open_ns = draw_arrival_ns(network) + network->options.latency_ns;

    if (network->is_silent[far_host])
        return DT_NEVER_NS;
    return far_host != host ? dt_max_u64(open_ns, network->hold_until_ns) : open_ns;
}

static enum dt_status network_dial(struct dt_network *base, const struct dt_address *address,
                                   struct dt_stream **stream)
{
    struct door *door = (struct door *)base;
    struct dt_sim_network *network = door->network;
    struct port *port = find_port(network, address->port);
    uint32_t far_host = port ? port->host : door->host;
    struct waiting *waiting = calloc(1, sizeof *waiting);
    struct end *near_end = make_end(network, door->host, far_host);
    struct end *far_end = port ? make_end(network, far_host, door->host) : NULL;

    if (!waiting || !near_end || (port && !far_end)) {
        free(waiting);
        if (near_end)
            free_end(near_end);
        if (far_end)
            free_end(far_end);
        return DT_SYSTEM;
    }
    set_open_ns(near_end, dial_ns(network, door->host, far_host));
    near_end->ended = port ? DT_OK : DT_PEER_ERROR;
    if (port) {
        near_end->other = far_end;
        far_end->other = near_end;
        set_open_ns(far_end, near_end->open_ns);
        waiting->end = far_end;
        dt_list_push_back(&port->waiting, &waiting->node);
    } else {
        free(waiting);
    }
    *stream = &near_end->base;
    return DT_OK;
}

static const struct dt_network_ops network_ops = {
    .listen = network_listen,
    .accept = port_accept,
    .port_fd = port_no_fd,
    .close_port = close_port,
    .dial = network_dial,
};

/* ---- the network ----------------------------------------------------------------------------------------
 */

struct dt_sim_network *dt_sim_network_create(const struct dt_sim_network_options *options)
{
    struct dt_sim_network *network = calloc(1, sizeof *network);

    if (!network)
        return NULL;
    for (uint32_t i = 0; i < DT_SIM_HOSTS_MAX; i++)
        network->door[i] = (struct door){{&network_ops}, network, i};
    network->options = *options;
    network->port_next = 40000;
    dt_prng_init(&network->prng, options->seed);
    dt_list_init(&network->ports);
    dt_list_init(&network->ends);
    return network;
}

void dt_sim_network_destroy(struct dt_sim_network *network)
{
    while (!dt_list_is_empty(&network->ports))
        close_port(&dt_container_of(network->ports.next, struct port, node)->base);
    while (!dt_list_is_empty(&network->ends))
        free_end(dt_container_of(network->ends.next, struct end, node));
    free(network);
}

struct dt_network *dt_sim_network_of_host(struct dt_sim_network *network, uint32_t host)
{
    return &network->door[host].base;
}

void dt_sim_network_set_now(struct dt_sim_network *network, uint64_t now_ns)
{
    network->now_ns = now_ns;
}

static uint64_t first_arrival_ns(const struct end *end)
{
    if (dt_list_is_empty(&end->inbox))
        return DT_NEVER_NS;
    return dt_container_of(end->inbox.next, struct piece, node)->arrival_ns;
}

uint64_t dt_sim_network_next_ns(const struct dt_sim_network *network)
{
    uint64_t next_ns = DT_NEVER_NS;

    if (!network->piece_count && network->open_last_ns <= network->now_ns)
        return DT_NEVER_NS;
    dt_list_for_each(node, &network->ends)
    {
        const struct end *end = dt_container_of(node, struct end, node);

        if (end->open_ns > network->now_ns)
            next_ns = dt_earlier_ns(next_ns, end->open_ns);
        if (first_arrival_ns(end) > network->now_ns)
            next_ns = dt_earlier_ns(next_ns, first_arrival_ns(end));
    }
    return next_ns;
}

bool dt_sim_network_has_some(const struct dt_sim_network *network, uint32_t host)
{
    if (!network->pieces_of[host])
        return false;
    dt_list_for_each(node, &network->ends)
    {
        const struct end *end = dt_container_of(node, struct end, node);

        if (end->host == host && first_arrival_ns(end) <= network->now_ns)
            return true;
    }
    return false;
}

/* ---- faults ---------------------------------------------------------------------------------------------
 */

static void hold_end(struct end *end, uint64_t until_ns)
{
    if (end->network->now_ns < end->open_ns)
        set_open_ns(end, dt_max_u64(end->open_ns, until_ns));
    dt_list_for_each(node, &end->inbox)
    {
        struct piece *piece = dt_container_of(node, struct piece, node);

        if (piece->arrival_ns > end->network->now_ns)
            piece->arrival_ns = dt_max_u64(piece->arrival_ns, until_ns);
    }
    end->inbox_last_ns = dt_max_u64(end->inbox_last_ns, until_ns);
}

void dt_sim_network_hold(struct dt_sim_network *network, uint64_t until_ns)
{
    network->hold_until_ns = dt_max_u64(network->hold_until_ns, until_ns);
    dt_list_for_each(node, &network->ends)
    {
        struct end *end = dt_container_of(node, struct end, node);

        if (end->host != end->other_host)
            hold_end(end, until_ns);
    }
}

void dt_sim_network_set_latency(struct dt_sim_network *network, uint64_t latency_ns)
{
    network->options.latency_ns = latency_ns;
}

static void kill_end(struct end *end, enum dt_stream_death death)
{
    struct end *other = end->other;

    if (!other || end->host == end->other_host)
        return;
    if (death == DT_STREAM_DESTROYED || !deliver(other, NULL, 0))
        other->ended = DT_PEER_ERROR;
    end->other = other->other = NULL;
}

void dt_sim_network_kill(struct dt_sim_network *network, uint32_t host, enum dt_stream_death death)
{
    network->is_dead[host] = true;
    network->is_silent[host] |= death == DT_STREAM_SILENT;
    if (network->is_silent[host])
        return;
    dt_list_for_each(node, &network->ends)
    {
        struct end *end = dt_container_of(node, struct end, node);

        if (end->host == host)
            kill_end(end, death);
    }
}

static bool is_breakable(const struct end *end)
{
    return end->host != end->other_host && end->other && end->ended == DT_OK && end->other->ended == DT_OK &&
           end->network->now_ns >= end->open_ns;
}

static void break_stream(struct end *end, enum dt_stream_fault fault)
{
    switch (fault) {
    case DT_STREAM_RESET:
        end->ended = end->other->ended = DT_PEER_ERROR;
        break;
    case DT_STREAM_TIMED_OUT:
        end->ended = end->other->ended = DT_TIMED_OUT;
        break;
    case DT_STREAM_HALF_CLOSED:
        if (!deliver(end, NULL, 0))
            end->ended = DT_CLOSED;
        break;
    default:
        break;
    }
}

bool dt_sim_network_break(struct dt_sim_network *network, uint64_t which, enum dt_stream_fault fault)
{
    uint64_t count = 0;

    dt_list_for_each(node, &network->ends) count += is_breakable(dt_container_of(node, struct end, node));
    if (!count)
        return false;
    which %= count;
    dt_list_for_each(node, &network->ends)
    {
        struct end *end = dt_container_of(node, struct end, node);

        if (is_breakable(end) && which-- == 0) {
            break_stream(end, fault);
            return true;
        }
    }
    return false;
}
