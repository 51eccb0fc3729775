/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted stand-in for libibverbs: RNICs in a few hundred lines that move bytes with memcpy, one process,
 * no time. Completions of a destroyed QP stay in its CQ, as on Linux soft-RoCE. Any call can be told to fail;
 * every object is counted, so that leaks and wrong orders of release are seen. Work requests are executed
 * at the next poll, unless they are held.
 *
 * Threads: one, except reg_mr and dereg_mr.
 */
#ifndef DETOUR_TESTS_VERBS_FAKE_VERBS_H
#define DETOUR_TESTS_VERBS_FAKE_VERBS_H

#include <infiniband/verbs.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "verbs/table.h"

namespace fake
{
struct Gid {
    uint8_t raw[16];
    uint32_t type; /* enum ibv_gid_type */
};

struct Port {
    ibv_port_state state = IBV_PORT_ACTIVE;
    uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
    uint8_t width = 2;     /* 4 lanes */
    uint8_t speed = 32;    /* 25 Gbit/s each */
    uint32_t speed_ex = 0; /* set by newer libraries; 0: an older one */
    ibv_mtu mtu = IBV_MTU_4096;
    uint16_t lid = 0;
    uint8_t flags = 0; /* IBV_QPF_* */
    std::vector<Gid> gids;
    std::vector<uint16_t> pkeys; /* host byte order */
};

struct DeviceScript {
    std::string name;
    uint64_t guid;
    std::vector<Port> ports;
    std::string ibdev_path; /* sysfs, or empty */
    ibv_transport_type transport = IBV_TRANSPORT_IB;
    uint32_t vendor_id = 0;
    uint64_t image_guid = 0; /* of the card */
};

/* A device with one RoCE port and one RoCE v2 GID of 10.0.0.`number`. */
DeviceScript RoceDevice(const std::string &name, uint8_t number);

/* One posted send, whichever way it was posted. */
struct Send {
    uint64_t wr_id; /* std: as posted; dv: the index of its first block */
    ibv_wr_opcode opcode;
    unsigned flags;
    std::vector<ibv_sge> sges;
    std::string inline_data;
    uint64_t remote_addr;
    uint32_t rkey;
    uint32_t imm;
};

struct Mr : ibv_mr {
    int access;
    uint64_t iova; // if it was given one
};

struct Cq : ibv_cq {
    std::deque<ibv_wc> queue;
    bool broken = false; /* poll fails */
    /* after it was handed over as mlx5 does: what the device writes, and how much */
    std::vector<uint8_t> entries;
    uint32_t entry_bytes = 0; /* 0: not handed over */
    uint32_t entry_count = 0;
    uint32_t written = 0;
    uint32_t dbrec[2] = {0, 0};
};

struct Qp : ibv_qp {
    ibv_qp_attr attr;
    ibv_qp_cap cap;
    std::deque<Send> sends;
    std::deque<uint64_t> recvs;
    uint64_t send_total = 0;
    /* dv */
    std::vector<uint8_t> ring;
    uint32_t doorbell_record[2];
    uint64_t doorbell = 0;
    uint32_t consumed = 0;           /* blocks */
    size_t last_block = 0;           /* where the element read last begins in the ring */
    std::vector<uint64_t> registers; /* as mlx5 has them: the doorbell, once or twice */
    uint32_t registers_used = 0;     /* a bit each */
};

struct Context : verbs_context {
    DeviceScript *script;
    int hang_up_fd; /* closed: the events are over for good; -1 then */
};

/* All state; made anew by Reset(). */
struct World {
    std::vector<std::unique_ptr<DeviceScript>> devices;
    std::map<std::string, std::pair<int, int>> failures; /* call -> calls before it fails, errno */
    std::vector<std::string> log;                        /* calls that make or release something */
    std::atomic<int> live{0};                            /* objects that exist */
    std::map<uint32_t, Qp *> qps;
    std::map<uint32_t, Mr *> mrs;
    std::deque<ibv_async_event> events;
    int events_unacknowledged = 0;
    uint32_t next_number = 100;
    uint32_t dv_blocks = 0;                     /* size of the queues handed over; 0: as large as asked for */
    bool hold = false;                          /* nothing is executed */
    ibv_wc_status next_status = IBV_WC_SUCCESS; /* the next executed work request completes with this */
    bool knows_dmabuf = false;                  /* by the answer to a file that is none */
    bool whole_contexts = true;                 /* contexts are struct verbs_context */
    /* mlx5 */
    uint32_t cqe_bytes = 64;
    uint32_t register_bytes = 256; /* between the two doorbell registers; 0: there is one */
    uint32_t sq_stride = 64;
    uint8_t cqe_op_own = 0; /* set in the next entry written, in addition to its other fields */
    uint32_t domains = 0;   /* parent domains made */
};

World &TheWorld();

/* Fresh, with two RoCE devices fake0 and fake1. */
void Reset();

/* The call `name` (without ibv_) fails with `error` after `before` more successful ones, once. */
void Fail(const std::string &name, int error, int before = 0);

/* Executes what was posted (and what is not held). */
void Run();

const dt_verbs_table *Table();

/*
 * The same with devices of mlx5: dv takes queues over as libmlx5 hands them out, send CQs included. The
 * device sees memory only: rings, doorbell records and registers, and entries that it writes.
 */
const dt_verbs_table *Mlx5Table();

/* ---- between fake_verbs.cc, fake_queues.cc and fake_mlx5.cc ---- */

/* True, with errno set, when the script lets this call fail now. */
bool Fails(const std::string &name);

/* Calls of libibverbs that concern queues. */
int PostSend(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad);
int PostRecv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad);
int PollCq(ibv_cq *cq, int count, ibv_wc *wcs);
int OwnSendQueue(ibv_qp *qp, dt_dv_queue *queue);

/* The size of the send queue that is handed over, which becomes the queue pair's. */
uint32_t MakeRing(Qp *qp);

/* Reads elements from the ring up to the doorbell record. */
void ReadRing(Qp *qp);

/* mlx5dv_init_obj() */
int InitObject(dt_mlx5_object *object, uint64_t types);

/* If the doorbell was rung, reads the ring. */
void ReadRegisters(Qp *qp);

/* What the device does with a completion of a CQ that was handed over. */
void WriteEntry(Cq *cq, const ibv_wc &wc);
} // namespace fake

#endif
