/* SPDX-License-Identifier: Apache-2.0 */
/* Senders of one process, each from one of its NICs to one of a peer's; no device, no thread, virtual time.
 */
#ifndef DETOUR_TESTS_TRANSPORT_HEALTH_SENDERS_H
#define DETOUR_TESTS_TRANSPORT_HEALTH_SENDERS_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/harness/harness.h"
#include "transport/message/create.h"
#include "transport/message/send.h"
#include "transport/net_state.h"

namespace detour_test
{
class HealthSenders : public ::testing::Test
{
  protected:
    struct Sender {
        dt_sender *sender;
        uint64_t ns_a_message; // network time
        uint64_t wait_ns;      // for the peer
    };

    void SetUp() override
    {
        net = new dt_net();
        net->nic_count = 2;
        net->nic = new dt_nic[2]();
        net->service = new dt_nic_service[2]();
        for (uint32_t i = 0; i < 2; i++) {
            net->nic[i].net = net;
            net->nic[i].environment = &net->environment;
            net->nic[i].service = &net->service[i];
            net->nic[i].index = i;
            snprintf(net->nic[i].name, sizeof net->nic[i].name, "soft%u", i);
            dt_list_init(&net->nic[i].service->connections);
        }
        dt_ticks_init_virtual(&net->environment.ticks, Now, &now_ns);
        ASSERT_EQ(DT_OK, dt_health_open(&net->health));
        dt_page_options options = {nullptr, 1, "x", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
        ASSERT_EQ(DT_OK, dt_page_open(&options, &net->environment.page));
    }
    void TearDown() override
    {
        while (!senders.empty())
            Remove(0);
        dt_health_close(&net->health);
        dt_page_close(net->environment.page);
        delete[] net->nic;
        delete[] net->service;
        delete net;
    }

    void Add(uint32_t nic, const char *peer, const char *peer_nic)
    {
        dt_connection *c = dt_connection_create(&net->nic[nic], true);
        c->id = 100 + senders.size();
        c->path_count = 1;
        c->path[0].nic = &net->nic[nic];
        c->current = &c->path[0];
        snprintf(c->peer, sizeof c->peer, "%s", peer);
        snprintf(c->path[0].peer_device, sizeof c->path[0].peer_device, "%s", peer_nic);
        dt_meter_open(c, now_ns);
        ASSERT_EQ(DT_OK, dt_health_add(&net->health, dt_sender_of(c)));
        senders.push_back({dt_sender_of(c), 100 * DT_NS_PER_US, 0});
    }

    void Remove(size_t index)
    {
        dt_connection *c = &senders[index].sender->connection;
        dt_health_remove(&net->health, senders[index].sender);
        dt_meter_close(c);
        dt_path_group_release(&c->group);
        senders.erase(senders.begin() + static_cast<long>(index));
    }

    /* A message has gone, and is complete now. */
    void Send(dt_sender *sender, uint64_t requested_ns, uint64_t submitted_ns)
    {
        dt_store_relaxed(&sender->next, sender->next + 1);
        dt_count(&sender->connection.completions, 1);
        dt_meter_sent(&sender->connection.meter, requested_ns, submitted_ns, 1 << 20);
    }

    /* Training steps: each sender sends four messages in a row, then there is a pause. */
    void Step(int count)
    {
        for (int i = 0; i < count; i++) {
            uint64_t longest_ns = 0, began_ns = now_ns;
            for (Sender &s : senders) {
                uint64_t requested_ns = began_ns;
                for (int message = 0; message < 4; message++) {
                    uint64_t submitted_ns = requested_ns + (message == 0 ? s.wait_ns : 0);
                    // a healthy link is not quite steady
                    now_ns = submitted_ns +
                             s.ns_a_message * static_cast<uint64_t>(1000 + (i * 7 + message * 3) % 20) / 1000;
                    Send(s.sender, requested_ns, submitted_ns);
                    requested_ns = now_ns;
                }
                longest_ns = std::max(longest_ns, now_ns - began_ns);
            }
            now_ns = began_ns + longest_ns + 10 * DT_NS_PER_MS;
            Look();
        }
    }

    void Look()
    {
        for (Sender &s : senders)
            dt_health_feed(&net->health, s.sender, now_ns);
        dt_health_judge(&net->health, now_ns);
    }

    const dt_page_health &Of(size_t index)
    {
        return senders[index].sender->connection.meter.row->health;
    }

    uint32_t Fresh()
    {
        uint32_t count = 0;
        dt_list_for_each(node, &net->health.fresh) count++;
        return count;
    }

    std::vector<std::string> Verdicts()
    {
        std::vector<std::string> found;
        for (const std::string &line : detour_test::LoggedLines()) {
            if (line.find("connection ") != std::string::npos)
                found.push_back(line);
        }
        return found;
    }

    static uint64_t Now(void *arg)
    {
        return *static_cast<uint64_t *>(arg);
    }

    uint64_t now_ns = 5 * DT_NS_PER_S;
    dt_net *net = nullptr;
    std::vector<Sender> senders;
};
} // namespace detour_test

#endif
