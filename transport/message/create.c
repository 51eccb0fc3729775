/* SPDX-License-Identifier: Apache-2.0 */
/* A connection's life: made with nothing but memory, freed with its last reference. */
#include "transport/message/create.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "transport/message/memory.h"
#include "transport/message/receive_end.h"
#include "transport/message/send.h"
#include "transport/message/send_again.h"
#include "transport/path/nic.h"
#include "transport/session/session.h"

#define CACHE_LINE_BYTES 64

DT_STATIC_CHECK(offsetof(struct dt_sender, connection) == 0 && offsetof(struct dt_receiver, connection) == 0,
                "an end and its connection are one allocation with one address");

static void free_memories(struct dt_connection *c)
{
    dt_list_for_each(node, &c->memories)
    {
        struct dt_memory *memory = dt_memory_of_node(node);

        dt_memory_deregister_all(c, memory);
        free(memory);
    }
}

/* The last reference is gone. */
static void destroy(struct dt_path_group *group)
{
    struct dt_connection *c = dt_container_of(group, struct dt_connection, group);

    DT_CHECK(dt_list_is_empty(&c->node) && c->owner.holder == DT_HOLDER_NCCL); /* nothing serves it */
    DT_CHECK(group->setup_pending == 0 && group->fences_pending == 0); /* each task held a reference */
    free_memories(c);
    dt_session_destroy(c->session);
    c->ops->close(c);
    dt_meter_fini(&c->meter);
    free(c->switchover);
    free(c->service);
    pthread_mutex_destroy(&c->memory_mutex);
    free(c);
}

/* The queue pairs of a failing connection are fenced: its error can be reported. */
static void report_failure(struct dt_path_group *group)
{
    struct dt_connection *c = dt_container_of(group, struct dt_connection, group);

    DT_CHECK(dt_load_acquire(&c->failing) != DT_OK); /* only a failing connection is fenced so */
    dt_store_release(&c->error, dt_load_acquire(&c->failing));
}

/* What else a new connection, which is zero, owns. False: out of memory. */
static bool create_owned(struct dt_connection *c)
{
    if (pthread_mutex_init(&c->memory_mutex, NULL) != 0)
        return false;
    c->session = dt_session_create();
    if (!c->session)
        pthread_mutex_destroy(&c->memory_mutex);
    return c->session;
}

struct dt_connection *dt_connection_create(struct dt_nic *nic, bool is_sender)
{
    size_t bytes = is_sender ? sizeof(struct dt_sender) : sizeof(struct dt_receiver);
    struct dt_connection *c = aligned_alloc(CACHE_LINE_BYTES, dt_align_up(bytes, CACHE_LINE_BYTES));

    if (!c)
        return NULL;
    memset((void *)c, 0, bytes);
    if (!create_owned(c)) {
        free(c);
        return NULL;
    }
    dt_owner_init(&c->owner, nic->environment->has_membarrier);
    c->environment = nic->environment;
    c->net = nic->net;
    c->nic = nic;
    c->is_sender = is_sender;
    c->ops = is_sender ? &dt_sender_ops : &dt_receiver_ops;
    c->group = (struct dt_path_group){
        .environment = nic->environment,
        .nic = nic,
        .is_sender = is_sender,
        .references = 1,
        .release = destroy,
        .fenced = report_failure,
    };
    if (is_sender)
        dt_sender_init(dt_sender_of(c), dt_send_test);
    dt_meter_init(&c->meter, &nic->environment->ticks, is_sender);
    dt_list_init(&c->memories);
    dt_list_init(&c->node);
    dt_list_init(&c->turn);
    return c;
}
