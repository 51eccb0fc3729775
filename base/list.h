/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. The head is a node of its own; an entry embeds a node and is found again
 * with dt_container_of. Nothing is allocated; no locking: the list's owner is its only user.
 */
#ifndef DETOUR_BASE_LIST_H
#define DETOUR_BASE_LIST_H

#include <stdbool.h>

#include "base/util.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_list {
    struct dt_list *prev;
    struct dt_list *next;
};

/* Makes an empty list of a head, or a node that is on no list. */
static inline void dt_list_init(struct dt_list *node)
{
    node->prev = node;
    node->next = node;
}

/* Also: "is this node on no list?" */
static inline bool dt_list_is_empty(const struct dt_list *head)
{
    return head->next == head;
}

static inline void dt_list_push_back(struct dt_list *head, struct dt_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Takes the node off its list; harmless when it is on none. */
static inline void dt_list_remove(struct dt_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    dt_list_init(node);
}

/* The first node, taken off; NULL when the list is empty. */
static inline struct dt_list *dt_list_pop_front(struct dt_list *head)
{
    struct dt_list *node = head->next;

    if (node == head)
        return NULL;
    dt_list_remove(node);
    return node;
}

/* Walks all nodes; the current one may be removed on the way. */
#define dt_list_for_each(node, head)                                                     \
    for (struct dt_list *node = (head)->next, *node##_next = node->next; node != (head); \
         node = node##_next, node##_next = node->next)

#ifdef __cplusplus
}
#endif

#endif
