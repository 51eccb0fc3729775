/* SPDX-License-Identifier: Apache-2.0 */
/* A connection whose both ends use the host path, without threads (tests/transport/message/ends.h). */
#ifndef DETOUR_TESTS_HOSTPATH_STAGED_STAGED_ENDS_H
#define DETOUR_TESTS_HOSTPATH_STAGED_STAGED_ENDS_H

#ifdef __cplusplus
#include "hostpath/staged/stage.h"
#include "tests/transport/message/ends.h"

namespace detour_test
{
class StagedEnds : public Ends
{
  protected:
    explicit StagedEnds(const char *mode = "on")
        : Ends([mode](dt_params &params, dt_net_options &) {
              snprintf(params.hostpath, sizeof params.hostpath, "%s", mode);
              params.hostpath_bytes = 32 << 20;
          })
    {
    }
    void SetUp() override
    {
        Ends::SetUp();
        stage = s->stage;
        ASSERT_NE(nullptr, stage);
        ASSERT_NE(nullptr, r->eager);
        eager = &stage->eager;
    }
    /* The receiver's GRANT is here, and a row that takes eager payloads was read. */
    void AwaitGrant()
    {
        ASSERT_TRUE(Until([&] { return eager->is_granted != 0; }));
        Transfer(64);
        ASSERT_TRUE(Until([&] {
            dt_connection_progress(sender);
            return stage->undelivered == 0;
        }));
        ASSERT_TRUE(eager->is_accepted);
    }
    /* An isend whose payload is at the receiver before its irecv; reported done. */
    void SendEagerly(uint32_t bytes, int tag = 0)
    {
        uint32_t arrived = Arrivals();
        Wait(Isend(bytes, tag));
        ASSERT_TRUE(Until([&] {
            dt_connection_progress(sender);
            dt_connection_progress(receiver);
            return Arrivals() == arrived + 1;
        }));
    }
    uint32_t Arrivals() const
    {
        uint32_t count = 0;
        for (const dt_eager_arrival &arrival : r->eager->arrival)
            count += arrival.state != DT_ARRIVAL_NONE;
        return count;
    }
    void AwaitDelivery()
    {
        ASSERT_TRUE(Until([&] {
            dt_connection_progress(sender);
            dt_connection_progress(receiver);
            return stage->undelivered == 0;
        }));
    }

    dt_stage *stage = nullptr;
    dt_eager *eager = nullptr;
};
} // namespace detour_test
#endif

#endif
