/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. The head is a node; an entry embeds a node, and dt_container_of() returns the
 * entry. Nothing is allocated or locked: only the list's owner uses it.
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

/* Initializes a head as an empty list, or a node as a member of no list. */
static inline void dt_list_init(struct dt_list *node)
{
    node->prev = node;
    node->next = node;
}

/* For a node: it is a member of no list. */
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

/* Removes the node from its list. No effect if it is on none. */
static inline void dt_list_remove(struct dt_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    dt_list_init(node);
}

/* Removes and returns the first node; NULL: the list is empty. */
static inline struct dt_list *dt_list_pop_front(struct dt_list *head)
{
    struct dt_list *node = head->next;

    if (node == head)
        return NULL;
    dt_list_remove(node);
    return node;
}

/* Visits all nodes; the body may remove the current one. */
#define dt_list_for_each(node, head)                                                     \
    for (struct dt_list *node = (head)->next, *node##_next = node->next; node != (head); \
         node = node##_next, node##_next = node->next)

#ifdef __cplusplus
}
#endif

#endif
