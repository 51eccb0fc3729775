/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "softrnic/engine_state.h"

#define SLOTS_AT_START 64u
#define NO_SLOT        UINT32_MAX
#define TAG_BITS       8
#define REMOTE_WRITES  (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define KNOWN_ACCESS   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | REMOTE_WRITES)

/* Free slots form a queue, so that a key is reused as late as possible. */
static void free_slot(struct dt_mr_table *table, uint32_t index)
{
    struct dt_rnic_mr *mr = &table->slots[index];

    DT_CHECK(table->free_head == NO_SLOT || table->slots[table->free_tail].next_free == NO_SLOT);
    mr->key = 0;
    mr->next_free = NO_SLOT;
    if (table->free_head == NO_SLOT)
        table->free_head = index;
    else
        table->slots[table->free_tail].next_free = index;
    table->free_tail = index;
}

static int grow(struct dt_mr_table *table, uint32_t size, uint8_t first_tag)
{
    struct dt_rnic_mr *slots = realloc(table->slots, size * sizeof *slots);

    if (!slots)
        return ENOMEM;
    memset(slots + table->size, 0, (size - table->size) * sizeof *slots);
    table->slots = slots;
    for (uint32_t i = table->size; i < size; i++) {
        slots[i].tag = first_tag;
        free_slot(table, i);
    }
    table->size = size;
    return 0;
}

int dt_mr_table_init(struct dt_mr_table *table, uint32_t seed)
{
    *table = (struct dt_mr_table){NULL, 0, NO_SLOT, NO_SLOT};
    return grow(table, SLOTS_AT_START, (uint8_t)seed);
}

void dt_mr_table_free(struct dt_mr_table *table)
{
    free(table->slots);
}

/* A free slot with its next key, or NULL. */
static struct dt_rnic_mr *take_slot(struct dt_mr_table *table)
{
    struct dt_rnic_mr *mr;
    uint32_t index;

    if (table->free_head == NO_SLOT &&
        (table->size >= DT_RNIC_MR_MAX || grow(table, table->size * 2, table->slots[0].tag)))
        return NULL;
    index = table->free_head;
    mr = &table->slots[index];
    DT_CHECK(index < table->size && mr->key == 0); /* a free slot has no key */
    table->free_head = mr->next_free;
    if (!++mr->tag) /* key 0 is invalid */
        mr->tag = 1;
    mr->key = index << TAG_BITS | mr->tag;
    return mr;
}

int dt_rnic_mr_register(struct dt_rnic *rnic, uint32_t pd, void *addr, uint64_t bytes, uint64_t iova,
                        unsigned access, uint32_t *key)
{
    uint64_t start = (uintptr_t)addr;
    struct dt_rnic_mr *mr;

    if (rnic->is_fatal)
        return EIO;
    if (!bytes || start + bytes < start || iova + bytes < iova)
        return EINVAL;
    if (access & ~(unsigned)(KNOWN_ACCESS | IBV_ACCESS_OPTIONAL_RANGE))
        return EINVAL;
    if (access & REMOTE_WRITES && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    mr = take_slot(&rnic->mrs);
    if (!mr)
        return ENOMEM;
    mr->addr = addr;
    mr->bytes = bytes;
    mr->iova = iova;
    mr->pd = pd;
    mr->access = access;
    *key = mr->key;
    return 0;
}

static struct dt_rnic_mr *find(const struct dt_mr_table *table, uint32_t key)
{
    uint32_t index = key >> TAG_BITS;

    if (!key || index >= table->size || table->slots[index].key != key)
        return NULL;
    return &table->slots[index];
}

int dt_rnic_mr_deregister(struct dt_rnic *rnic, uint32_t key)
{
    const struct dt_wire_ops *ops = rnic->options.wire->ops;
    const struct dt_rnic_mr *mr = find(&rnic->mrs, key);

    if (!mr)
        return EINVAL;
    if (ops->revoke_memory)
        ops->revoke_memory(rnic->options.wire, mr->addr, mr->bytes);
    free_slot(&rnic->mrs, key >> TAG_BITS);
    DT_CHECK(!find(&rnic->mrs, key));
    return 0;
}

void *dt_mr_translate(const struct dt_rnic *rnic, uint32_t key, uint32_t pd, uint64_t addr, uint64_t bytes,
                      unsigned access, uint8_t *vendor_err)
{
    const struct dt_rnic_mr *mr = find(&rnic->mrs, key);

    if (!mr || mr->pd != pd) {
        *vendor_err = DT_VENDOR_LOCAL_KEY;
        return NULL;
    }
    if (addr < mr->iova || addr - mr->iova > mr->bytes || bytes > mr->bytes - (addr - mr->iova)) {
        *vendor_err = DT_VENDOR_LOCAL_BOUNDS;
        return NULL;
    }
    if ((mr->access & access) != access) {
        *vendor_err = DT_VENDOR_LOCAL_RIGHT;
        return NULL;
    }
    return mr->addr + (addr - mr->iova);
}

int dt_qp_scatter(const struct dt_rnic_qp *qp, const struct dt_wqe_sge *sges, uint32_t sge_count, uint64_t at,
                  struct dt_received *received, uint64_t land_offset, uint64_t bytes, uint8_t *vendor_err)
{
    const struct dt_rnic *rnic = qp->rnic;

    for (uint32_t i = 0; i < sge_count && bytes; i++) {
        uint64_t piece;
        void *to;
        int error;

        if (at >= sges[i].bytes) {
            at -= sges[i].bytes;
            continue;
        }
        piece = dt_min_u64(sges[i].bytes - at, bytes);
        DT_CHECK_HOT(piece > 0);
        to = dt_mr_translate(rnic, sges[i].lkey, qp->pd, sges[i].addr + at, piece, IBV_ACCESS_LOCAL_WRITE,
                             vendor_err);
        if (!to)
            return EINVAL;
        error = rnic->options.wire->ops->land(received, land_offset, to, piece);
        if (error)
            return error == EINVAL ? EIO : error;
        at = 0;
        land_offset += piece;
        bytes -= piece;
    }
    if (bytes)
        *vendor_err = DT_VENDOR_LENGTH;
    return bytes ? EINVAL : 0;
}
