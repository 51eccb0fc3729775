/* SPDX-License-Identifier: Apache-2.0 */
/* Where the suites that run on every kind of RNIC get theirs from. */
#ifndef DETOUR_TESTS_VERBS_RIG_H
#define DETOUR_TESTS_VERBS_RIG_H

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "verbs/device.h"
#include "verbs/queue.h"
#include "verbs/verbs.h"

namespace rig
{
/* RNICs of one kind, at least two that reach each other. */
class Source
{
  public:
    virtual ~Source() = default;
    virtual dt_verbs *verbs() = 0;
    /* Between these, nothing that is posted completes. */
    virtual void Hold() = 0;
    virtual void Resume() = 0;
};

/* One way to post on RNICs of one kind. */
struct Kind {
    const char *name;
    std::unique_ptr<Source> (*make)();
    dt_posting_kind posting;
};

/* What the suite of posting runs on; each program that has it says so (rig_kinds.cc). */
std::vector<Kind> Kinds();

std::unique_ptr<Source> MakeFake();
std::unique_ptr<Source> MakeFakeMlx5();      /* for dv; CQ entries of 64 bytes */
std::unique_ptr<Source> MakeFakeMlx5Large(); /* the same of 128 bytes, and one doorbell register */
std::unique_ptr<Source> MakeSoft();

/* Memory and its registration. */
class Buffer
{
  public:
    Buffer(dt_device *device, size_t bytes)
        : device_(device), data_(static_cast<uint8_t *>(aligned_alloc(4096, (bytes + 4095) & ~4095ull)))
    {
        memset(data_, 0, (bytes + 4095) & ~4095ull);
        EXPECT_EQ(DT_OK, dt_mr_register(device, data_, bytes,
                                        DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE | DT_MR_REMOTE_READ, &mr_));
    }
    ~Buffer()
    {
        EXPECT_EQ(DT_OK, dt_mr_deregister(device_, mr_));
        free(data_);
    }
    Buffer(const Buffer &) = delete;
    uint8_t *data() const
    {
        return data_;
    }
    uint64_t addr(size_t offset = 0) const
    {
        return reinterpret_cast<uint64_t>(data_) + offset;
    }
    const dt_mr *mr() const
    {
        return mr_;
    }

  private:
    dt_device *device_;
    uint8_t *data_;
    dt_mr *mr_ = nullptr;
};

/* A QP with CQs of its own on a device that is opened for it. */
class End
{
  public:
    End(dt_verbs *verbs, const dt_device_info &info, dt_qp_options options, uint32_t cq_entries = 1024);
    ~End();
    End(const End &) = delete;

    /* Polls both CQs until `count` completions are there, or 10 s have passed. */
    std::vector<dt_completion> Poll(size_t count);

    dt_device *device = nullptr;
    dt_cq *send_cq = nullptr;
    dt_cq *recv_cq = nullptr;
    dt_qp *qp = nullptr;
};

/* The options of a link that does not give up during a test. */
dt_qp_link_options PatientLink();

void Connect(End &a, End &b, const dt_qp_link_options &options = PatientLink());
} // namespace rig

#endif
