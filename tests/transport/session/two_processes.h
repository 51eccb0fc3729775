/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with carriers (transport/session/pair.h) on a simulated network, in virtual time: each has a
 * listener and, if a test wants them, sessions. Everything follows from the seed. One thread.
 */
#ifndef DETOUR_TESTS_TRANSPORT_SESSION_TWO_PROCESSES_H
#define DETOUR_TESTS_TRANSPORT_SESSION_TWO_PROCESSES_H

#ifdef __cplusplus
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/sim/stream_sim.h"
#include "transport/session/listener.h"
#include "transport/session/pair.h"
#include "transport/session/session.h"

namespace detour_test
{
/* Counts its calls; as the device thread does, it has streams wake it. */
struct WakeCounter {
    dt_poller poller;
    int wakes = 0;

    WakeCounter()
    {
        static const dt_poller_ops ops = {Watch, Forget, Wake, IsRunning};
        poller.ops = &ops;
    }
    static void SetPoller(dt_session *session, dt_poller *poller)
    {
        dt_stream *stream = session->channel.stream;
        if (stream && stream->ops->set_poller)
            stream->ops->set_poller(stream, poller);
    }
    static void Watch(dt_poller *poller, dt_session *session)
    {
        SetPoller(session, poller);
    }
    static void Forget(dt_poller *, dt_session *session)
    {
        SetPoller(session, nullptr);
    }
    static void Wake(dt_poller *poller)
    {
        reinterpret_cast<WakeCounter *>(poller)->wakes++;
    }
    static bool IsRunning(const dt_poller *)
    {
        return false;
    }
};

struct Process {
    dt_pairs *pairs;
    dt_address address = {};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    dt_session_host host = {};
    WakeCounter poller;
    std::vector<dt_session *> sessions;
    bool is_peer_alive = false; // the answer to dt_session_judge()

    Process(dt_network *network, uint64_t identity) : pairs(dt_pairs_create(network, identity))
    {
        EXPECT_NE(nullptr, pairs);
        address.family = DT_ADDRESS_IPV4;
        host.network = dt_pairs_network(pairs);
        host.mutex = &mutex;
        host.linger_ns = DT_NS_PER_S;
        EXPECT_EQ(DT_OK, dt_listener_create(host.network, &address, &host.listener));
        EXPECT_EQ(identity, address.process);
    }
    Process(const Process &) = delete;
    ~Process()
    {
        for (dt_session *session : sessions)
            dt_session_destroy(session);
        dt_listener_destroy(host.listener);
        dt_pairs_destroy(pairs);
    }
    void Progress(uint64_t now_ns)
    {
        dt_pairs_progress(pairs);
        dt_listener_progress(host.listener, now_ns);
        for (dt_session *session : sessions) {
            dt_session_progress(session, now_ns);
            if (session->is_condemned)
                dt_session_judge(session, is_peer_alive, now_ns);
        }
    }
    dt_stream *Dial(const dt_address &to)
    {
        dt_stream *stream = nullptr;
        EXPECT_EQ(DT_OK, host.network->ops->dial(host.network, &to, &stream));
        return stream;
    }
    dt_pairs_stats Stats()
    {
        dt_pairs_stats stats;
        dt_pairs_query_stats(pairs, &stats);
        return stats;
    }
};

class TwoProcesses : public ::testing::Test
{
  protected:
    explicit TwoProcesses(dt_sim_network_options options = {1, 20000, 10000, 1u << 20})
    {
        Begin(options);
    }
    ~TwoProcesses() override
    {
        End();
    }
    /* Process 1 has the larger identity. */
    void Begin(const dt_sim_network_options &options)
    {
        network = dt_sim_network_create(&options);
        ASSERT_NE(nullptr, network);
        dt_sim_network_set_now(network, now_ns);
        for (uint32_t i = 0; i < 2; i++)
            process[i] = std::make_unique<Process>(dt_sim_network_of_host(network, i), 100 + i);
    }
    void End()
    {
        for (auto &p : process)
            p.reset();
        if (network)
            dt_sim_network_destroy(network);
        network = nullptr;
    }
    void Step(uint64_t ns = 10000)
    {
        now_ns += ns;
        dt_sim_network_set_now(network, now_ns);
        for (auto &p : process)
            if (p)
                p->Progress(now_ns);
    }
    bool StepUntil(const std::function<bool()> &condition, int limit = 2000000)
    {
        for (int i = 0; i < limit; i++) {
            if (condition())
                return true;
            Step();
        }
        ADD_FAILURE() << "the condition was not reached";
        return false;
    }
    /* From process `from` to the other: once both ends have their session, which start. */
    void Connect(uint32_t from, int count)
    {
        Process &sender = *process[from], &receiver = *process[1 - from];
        std::vector<std::unique_ptr<dt_listen>> listens;
        size_t first = sender.sessions.size();
        for (int i = 0; i < count; i++) {
            auto listen = std::make_unique<dt_listen>();
            *listen = {};
            listen->id = ++connections;
            listen->nonce = 7 * listen->id;
            dt_listener_add(receiver.host.listener, listen.get());
            listens.push_back(std::move(listen));
        }
        for (auto &listen : listens)
            Dial(sender, receiver, *listen);
        StepUntil([&] {
            bool is_complete = true;
            for (size_t i = 0; i < listens.size(); i++) {
                dt_session *session = sender.sessions[first + i];
                if (session->channel.stream->ops->state(session->channel.stream) == DT_OK)
                    dt_channel_flush(&session->channel);
                is_complete &= listens[i]->incoming != nullptr;
            }
            return is_complete;
        });
        for (auto &listen : listens) {
            Accept(receiver, sender, *listen);
            dt_listener_remove(receiver.host.listener, listen.get());
        }
        for (size_t i = first; i < sender.sessions.size(); i++)
            dt_session_start(sender.sessions[i]);
    }
    bool AreAllUp()
    {
        for (auto &p : process)
            for (dt_session *session : p->sessions)
                if (session->state != DT_SESSION_UP)
                    return false;
        return true;
    }

    dt_sim_network *network = nullptr;
    std::unique_ptr<Process> process[2];
    uint64_t now_ns = DT_NS_PER_S;
    uint64_t connections = 0;

  private:
    static dt_session *AddSession(Process &at, const dt_listen &listen, bool is_sender)
    {
        dt_session *session = dt_session_create();
        EXPECT_NE(nullptr, session);
        session->host = &at.host;
        session->poller = session->endpoint.poller = &at.poller.poller;
        session->endpoint.connection_id = listen.id;
        session->endpoint.nonce = listen.nonce;
        session->endpoint.is_sender = is_sender;
        dt_session_open_endpoint(session);
        at.sessions.push_back(session);
        return session;
    }
    static void Dial(Process &sender, Process &receiver, const dt_listen &listen)
    {
        dt_session *session = AddSession(sender, listen, true);
        dt_hello hello = {};
        hello.version_min = hello.version_max = DT_PROTOCOL_VERSION_MAX;
        hello.listen_id = listen.id;
        hello.nonce = listen.nonce;
        hello.wanted = {1, 1, 64, 65536};
        strcpy(hello.host, "host");
        strcpy(hello.device, "device");
        hello.devices.count = 1;
        hello.listener = sender.address;
        session->peer_address = receiver.address;
        dt_channel_open(&session->channel, sender.Dial(receiver.address));
        dt_hello_encode(&hello, &session->channel.out);
    }
    static void Accept(Process &receiver, Process &sender, dt_listen &listen)
    {
        dt_session *session = AddSession(receiver, listen, false);
        session->peer_address = sender.address;
        dt_channel_move(&session->channel, listen.incoming);
        free(listen.incoming);
        dt_session_start(session);
    }
};
} // namespace detour_test
#endif

#endif
