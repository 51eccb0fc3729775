/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/rig.h"

#include <algorithm>
#include <thread>

#include "tests/verbs/fake_verbs.h"

namespace rig
{
namespace
{
class FakeSource : public Source
{
  public:
    explicit FakeSource(const dt_verbs_table *(*table)())
    {
        fake::Reset();
        EXPECT_EQ(DT_OK, dt_verbs_open_table(table(), &verbs_));
    }
    ~FakeSource() override
    {
        dt_verbs_close(verbs_);
        EXPECT_EQ(0, fake::TheWorld().live) << "something was not released";
    }
    dt_verbs *verbs() override
    {
        return verbs_;
    }
    void Hold() override
    {
        fake::TheWorld().hold = true;
    }
    void Resume() override
    {
        fake::TheWorld().hold = false;
    }

  private:
    dt_verbs *verbs_ = nullptr;
};
} // namespace

std::unique_ptr<Source> MakeFake()
{
    return std::make_unique<FakeSource>(fake::Table);
}

std::unique_ptr<Source> MakeFakeMlx5()
{
    return std::make_unique<FakeSource>(fake::Mlx5Table);
}

std::unique_ptr<Source> MakeFakeMlx5Large()
{
    auto source = std::make_unique<FakeSource>(fake::Mlx5Table);

    fake::TheWorld().cqe_bytes = 128;
    fake::TheWorld().register_bytes = 0;
    return source;
}

End::End(dt_verbs *verbs, const dt_device_info &info, dt_qp_options options, uint32_t cq_entries)
{
    EXPECT_EQ(DT_OK, dt_device_open(verbs, &info, &device));
    EXPECT_EQ(DT_OK, dt_cq_create(device, cq_entries, nullptr, &send_cq));
    EXPECT_EQ(DT_OK, dt_cq_create(device, cq_entries, nullptr, &recv_cq));
    options.send_cq = send_cq;
    options.recv_cq = recv_cq;
    EXPECT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
}

End::~End()
{
    dt_qp_destroy(qp);
    dt_cq_destroy(send_cq);
    dt_cq_destroy(recv_cq);
    dt_device_close(device);
}

std::vector<dt_completion> End::Poll(size_t count)
{
    std::vector<dt_completion> all;
    auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);

    while (all.size() < count && std::chrono::steady_clock::now() < limit) {
        for (dt_cq *cq : {send_cq, recv_cq}) {
            dt_completion some[32];
            int taken = dt_cq_poll(cq, some, static_cast<unsigned>(std::min<size_t>(32, count - all.size())));

            EXPECT_GE(taken, 0);
            all.insert(all.end(), some, some + std::max(taken, 0));
        }
        std::this_thread::yield();
    }
    return all;
}

dt_qp_link_options PatientLink()
{
    dt_qp_link_options options = {};

    options.timeout_exponent = 15; // 134 ms, so that a second may pass between Hold() and Resume()
    options.retry_count = 7;
    options.rnr_retry_count = 7;
    options.min_rnr_timer = 12;
    options.rd_atomic = 4;
    return options;
}

void Connect(End &a, End &b, const dt_qp_link_options &options)
{
    dt_qp_address address_a, address_b;

    dt_qp_local_address(a.qp, &address_a);
    dt_qp_local_address(b.qp, &address_b);
    EXPECT_EQ(DT_OK, dt_qp_connect(a.qp, &address_b, &options));
    EXPECT_EQ(DT_OK, dt_qp_connect(b.qp, &address_a, &options));
}
} // namespace rig
