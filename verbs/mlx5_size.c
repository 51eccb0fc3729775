/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/mlx5_size.h"

#include "base/util.h"

#define PAGE_BYTES  4096
#define BLOCK_BYTES 64 /* MLX5_SEND_WQE_BB */
#define UNIT_BYTES  16 /* of a segment; a data segment is one unit */
#define INLINE_HEAD 4  /* struct mlx5_wqe_inl_data_seg */
#define ENTRY_BYTES 64 /* of a completion queue */
/*
 * _sq_overhead() of a reliable connection that may use every operation: the control segment (16), and for the
 * binding of a memory window its control (48), key context (64) and list (64).
 */
#define ELEMENT_HEAD (16 + 48 + 64 + 64)

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

uint64_t dt_mlx5_send_queue_bytes(uint32_t sends, uint32_t inline_bytes)
{
    uint64_t payload = inline_bytes ? round_up(INLINE_HEAD + inline_bytes, UNIT_BYTES) : 0;
    uint64_t element = round_up(ELEMENT_HEAD + dt_max_u64(payload, UNIT_BYTES), BLOCK_BYTES);

    return sends ? dt_round_up_power_of_two(sends * element) : 0;
}

uint64_t dt_mlx5_receive_queue_bytes(uint32_t receives)
{
    return receives ? dt_max_u64(dt_round_up_power_of_two(receives) * UNIT_BYTES, BLOCK_BYTES) : 0;
}

uint64_t dt_mlx5_qp_bytes(uint32_t sends, uint32_t inline_bytes, uint32_t receives)
{
    return round_up(dt_mlx5_send_queue_bytes(sends, inline_bytes) + dt_mlx5_receive_queue_bytes(receives),
                    PAGE_BYTES);
}

uint64_t dt_mlx5_cq_bytes(uint32_t entries)
{
    return round_up(dt_round_up_power_of_two((uint64_t)entries + 1) * ENTRY_BYTES, PAGE_BYTES);
}
