/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/delay.h"

bool dt_delay_of(const struct dt_slow_link *slow, struct dt_decided_link *link)
{
    if (slow->from_rank > DT_RECORD_RANK_MAX || slow->to_rank > DT_RECORD_RANK_MAX ||
        slow->delay_ns > DT_DELAY_MAX_NS)
        return false;
    *link =
        (struct dt_decided_link){(int32_t)slow->from_rank, (int32_t)slow->to_rank, (int64_t)slow->delay_ns};
    return true;
}

static bool is_between(const struct dt_known_link *known, const struct dt_decided_link *link)
{
    return known->from_rank == link->from_rank && known->to_rank == link->to_rank;
}

bool dt_delay_is_refuted(const struct dt_situation *situation, const struct dt_decided_link *link,
                         uint64_t connection)
{
    uint64_t longest_ns = 0;

    for (size_t i = 0; i < situation->link_count; i++) {
        const struct dt_known_link *known = &situation->links[i];

        if (known->connection && (connection ? known->connection == connection : is_between(known, link)) &&
            known->service_ns > longest_ns)
            longest_ns = known->service_ns;
    }
    return longest_ns && longest_ns < (uint64_t)link->delay_ns / 2;
}
