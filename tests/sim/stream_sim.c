/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/stream_sim.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/prng.h"

struct network {
    struct dt_network base;
    struct dt_sim_network_options options;
    struct dt_prng prng;
    uint64_t now_ns;
    uint16_t port_next;
    struct dt_list ports;
    struct dt_list ends; /* of all streams */
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
    struct network *network;
    struct end *other; /* NULL: closed */
    struct dt_address peer;
    struct dt_list inbox;
    uint64_t inbox_last_ns; /* arrival of the newest piece: streams keep order */
    uint64_t open_ns;       /* established from then on */
    bool is_refused;
    bool is_reset;
};

struct port {
    struct dt_stream_port base;
    struct dt_list node;
    struct network *network;
    uint16_t number;
    struct dt_list waiting; /* ends not accepted yet, by their `accept_node` */
};

struct waiting {
    struct dt_list node;
    struct end *end;
};

static uint64_t draw_arrival_ns(struct network *network)
{
    uint64_t jitter_ns = dt_prng_below(&network->prng, network->options.jitter_ns + 1);

    return network->now_ns + network->options.latency_ns + jitter_ns;
}

/* ---- streams --------------------------------------------------------------------------------------------
 */

static enum dt_status stream_state(struct dt_stream *stream)
{
    const struct end *end = (const struct end *)stream;

    if (end->network->now_ns < end->open_ns)
        return DT_AGAIN;
    return end->is_refused || end->is_reset ? DT_PEER_ERROR : DT_OK;
}

static bool deliver(struct end *to, const uint8_t *data, size_t bytes)
{
    struct piece *piece = malloc(sizeof *piece + bytes);

    if (!piece)
        return false;
    piece->arrival_ns = dt_max_u64(draw_arrival_ns(to->network), to->inbox_last_ns);
    piece->bytes = bytes;
    piece->taken = 0;
    if (bytes)
        memcpy(piece->data, data, bytes);
    to->inbox_last_ns = piece->arrival_ns;
    dt_list_push_back(&to->inbox, &piece->node);
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
    while ((node = dt_list_pop_front(&end->inbox)))
        free(dt_container_of(node, struct piece, node));
    dt_list_remove(&end->node);
    free(end);
}

static void stream_close(struct dt_stream *stream)
{
    struct end *end = (struct end *)stream;

    if (end->other && !deliver(end->other, NULL, 0))
        end->other->is_reset = true;
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

static struct end *make_end(struct network *network)
{
    struct end *end = calloc(1, sizeof *end);

    if (!end)
        return NULL;
    end->base.ops = &stream_ops;
    end->network = network;
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
    struct network *network = (struct network *)base;
    struct port *port = calloc(1, sizeof *port);

    if (!port)
        return DT_SYSTEM;
    port->base.ops = &network_ops;
    port->network = network;
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

static struct port *find_port(struct network *network, uint16_t number)
{
    dt_list_for_each(node, &network->ports)
    {
        struct port *port = dt_container_of(node, struct port, node);

        if (port->number == number)
            return port;
    }
    return NULL;
}

static enum dt_status network_dial(struct dt_network *base, const struct dt_address *address,
                                   struct dt_stream **stream)
{
    struct network *network = (struct network *)base;
    struct port *port = find_port(network, address->port);
    struct waiting *waiting = calloc(1, sizeof *waiting);
    struct end *near_end = make_end(network), *far_end = port ? make_end(network) : NULL;

    if (!waiting || !near_end || (port && !far_end)) {
        free(waiting);
        if (near_end)
            free_end(near_end);
        if (far_end)
            free_end(far_end);
        return DT_SYSTEM;
    }
    near_end->open_ns = draw_arrival_ns(network) + network->options.latency_ns;
    near_end->is_refused = !port;
    if (port) {
        near_end->other = far_end;
        far_end->other = near_end;
        far_end->open_ns = near_end->open_ns;
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

struct dt_network *dt_sim_network_create(const struct dt_sim_network_options *options)
{
    struct network *network = calloc(1, sizeof *network);

    if (!network)
        return NULL;
    network->base.ops = &network_ops;
    network->options = *options;
    network->port_next = 40000;
    dt_prng_init(&network->prng, options->seed);
    dt_list_init(&network->ports);
    dt_list_init(&network->ends);
    return &network->base;
}

void dt_sim_network_destroy(struct dt_network *base)
{
    struct network *network = (struct network *)base;

    while (!dt_list_is_empty(&network->ports))
        close_port(&dt_container_of(network->ports.next, struct port, node)->base);
    while (!dt_list_is_empty(&network->ends))
        free_end(dt_container_of(network->ends.next, struct end, node));
    free(network);
}

void dt_sim_network_set_now(struct dt_network *network, uint64_t now_ns)
{
    ((struct network *)network)->now_ns = now_ns;
}

uint64_t dt_sim_network_next_ns(const struct dt_network *base)
{
    const struct network *network = (const struct network *)base;
    uint64_t next_ns = DT_NEVER_NS;

    dt_list_for_each(node, &network->ends)
    {
        const struct end *end = dt_container_of(node, struct end, node);

        if (network->now_ns < end->open_ns)
            next_ns = dt_earlier_ns(next_ns, end->open_ns);
        if (!dt_list_is_empty(&end->inbox)) {
            const struct piece *piece = dt_container_of(end->inbox.next, struct piece, node);

            next_ns = dt_earlier_ns(next_ns, dt_max_u64(piece->arrival_ns, network->now_ns));
        }
    }
    return next_ns;
}
