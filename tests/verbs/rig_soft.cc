/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/verbs/rig.h"

namespace rig
{
namespace
{
/* Held by pulling the link: nothing is acknowledged, and the retry timer brings all of it again afterwards.
 */
class SoftSource : public Source
{
  public:
    SoftSource()
    {
        dt_verbs_options options = {};

        options.kind = DT_VERBS_SOFT;
        options.soft_device_count = 2;
        EXPECT_EQ(DT_OK, dt_verbs_open(&options, &verbs_));
    }
    ~SoftSource() override
    {
        dt_verbs_close(verbs_);
    }
    dt_verbs *verbs() override
    {
        return verbs_;
    }
    void Hold() override
    {
        Do("down");
    }
    void Resume() override
    {
        Do("up");
    }

  private:
    void Do(const char *action)
    {
        char answer[200];
        EXPECT_EQ(DT_OK, dt_verbs_device_control(verbs_, "soft0", action, answer, sizeof answer)) << answer;
    }

    dt_verbs *verbs_ = nullptr;
};
} // namespace

std::unique_ptr<Source> MakeSoft()
{
    return std::make_unique<SoftSource>();
}
} // namespace rig
