/* SPDX-License-Identifier: Apache-2.0 */
/* The suite of posting on the real libibverbs and libmlx5, over the stand-in (uverbs.h). */
#include <dlfcn.h>
#include <link.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/provider/uverbs.h"
#include "tests/verbs/rig.h"

namespace
{
class ProviderSource : public rig::Source
{
  public:
    // `cqe_bytes`: the size of CQ entries, which libmlx5 takes from the environment.
    explicit ProviderSource(const char *cqe_bytes)
    {
        dt_verbs_options options = {};

        setenv("MLX5_CQE_SIZE", cqe_bytes, 1);
        options.kind = DT_VERBS_SYSTEM;
        EXPECT_EQ(DT_OK, dt_verbs_open(&options, &verbs_));
    }
    ~ProviderSource() override
    {
        dt_verbs_close(verbs_);
    }
    dt_verbs *verbs() override
    {
        return verbs_;
    }
    // As on the software RNIC: nothing is acknowledged while the link is pulled.
    void Hold() override
    {
        EXPECT_EQ(0, detour_uverbs_set_link(0, false));
    }
    void Resume() override
    {
        EXPECT_EQ(0, detour_uverbs_set_link(0, true));
    }

  private:
    dt_verbs *verbs_ = nullptr;
};

std::unique_ptr<rig::Source> Make()
{
    return std::make_unique<ProviderSource>("64");
}

std::unique_ptr<rig::Source> MakeLarge()
{
    return std::make_unique<ProviderSource>("128");
}
} // namespace

// The stand-in was written for one release; others may ask a kernel for more.
std::vector<rig::Kind> rig::Kinds()
{
    void *library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    const link_map *map = nullptr;
    char path[PATH_MAX] = "";

    if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) || !realpath(map->l_name, path) ||
        !strstr(path, ".44.0")) {
        printf("provider: skipped: libmlx5 of rdma-core 44.0 not found (scripts/setup.sh test installs "
               "ibverbs-providers)\n");
        exit(77);
    }
    return {{"ProviderStd", Make, DT_POSTING_STD},
            {"ProviderDv", Make, DT_POSTING_DV},
            {"ProviderDvLarge", MakeLarge, DT_POSTING_DV}};
}
