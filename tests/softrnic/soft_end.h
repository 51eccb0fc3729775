// SPDX-License-Identifier: Apache-2.0
// One end of a connection over a software RNIC, for tests: device, PD, CQ, QP and a buffer, made and
// connected with as few words as possible. Failures throw (ranks.h).
#ifndef DETOUR_TESTS_SOFTRNIC_SOFT_END_H
#define DETOUR_TESTS_SOFTRNIC_SOFT_END_H

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softrnic/softrnic.h"
#include "tests/softrnic/ranks.h"

namespace detour_test
{
struct EndOptions {
    int device = 0;
    uint64_t buffer_bytes = 1 << 20;
    uint32_t send_wr = 64, recv_wr = 64, sge = 4, inline_bytes = 64;
    int cqe = 512;
    bool with_channel = false;
    bool sq_sig_all = false;
    uint64_t send_ops = 0;          // ibv_wr_*
    ibv_context *context = nullptr; // shared; not closed
    ibv_qp_type type = IBV_QPT_RC;
};

// The values that one end sends the other.
struct EndAddress {
    ibv_gid gid;
    uint32_t qpn, psn, rkey;
    uint64_t addr;
};

struct ConnectOptions {
    uint8_t timeout = 14, retry_cnt = 6, rnr_retry = 7, min_rnr_timer = 1, rd_atomic = 4;
    ibv_mtu mtu = IBV_MTU_4096;
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
};

ibv_context *OpenDevice(int index);

class End
{
  public:
    explicit End(const EndOptions &options = {});
    ~End();
    End(const End &) = delete;
    End &operator=(const End &) = delete;

    EndAddress Address() const;
    void Init(const ConnectOptions &options = {});
    void Connect(const EndAddress &peer, const ConnectOptions &options = {}); // INIT to RTS
    int ToError();
    void Reset();

    // A work request on the end's own buffer; `remote` is an offset in the peer's.
    int Post(ibv_wr_opcode opcode, uint64_t offset, uint32_t bytes, const EndAddress &peer, uint64_t remote,
             uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED, uint32_t imm = 0);
    int PostRecv(uint64_t wr_id, uint64_t offset = 0, uint32_t bytes = 0);

    // The next completion; throws after `seconds`.
    ibv_wc Wait(double seconds = 10);
    // The same, and that it is a success.
    ibv_wc WaitOk(double seconds = 10);
    bool Poll(ibv_wc *wc)
    {
        return ibv_poll_cq(cq, 1, wc) == 1;
    }

    void Fill(uint64_t seed, uint64_t offset, uint64_t bytes);
    // Throws when the buffer does not hold what Fill() of that seed wrote, at any offset, of a buffer.
    void Check(uint64_t seed, uint64_t offset, uint64_t bytes, const char *what) const;

    EndOptions options;
    ibv_context *context = nullptr;
    ibv_comp_channel *channel = nullptr;
    ibv_pd *pd = nullptr;
    ibv_cq *cq = nullptr;
    ibv_qp *qp = nullptr;
    ibv_mr *mr = nullptr;
    uint8_t *buffer = nullptr;
};

// Both ends of one process (which may be one end, connected to itself), or this rank's end and a peer's.
void ConnectEnds(End &a, End &b, const ConnectOptions &options = {});
EndAddress ConnectTo(const Rank &rank, int peer, End &end, const ConnectOptions &options = {});

// Seconds of the monotonic clock, for timeouts of tests.
double Seconds();
} // namespace detour_test

#endif
