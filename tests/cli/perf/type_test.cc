/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/perf/pattern.h"
#include "cli/perf/type.h"

namespace
{
template <class T>
struct Named {
    const char *name;
};

template <class T>
void CheckReductions(const char *name)
{
    const struct dt_perf_type *type = dt_perf_type_find(name);
    ASSERT_NE(type, nullptr) << name;
    ASSERT_EQ(type->bytes, sizeof(T));
    std::vector<T> a(1000), b(1000), out(1000);

    type->fill(a.data(), a.size(), dt_perf_stream(0, 1), 0);
    type->fill(b.data(), b.size(), dt_perf_stream(1, 1), 0);
    type->reduce[DT_PERF_SUM](out.data(), a.data(), b.data(), out.size());
    for (size_t i = 0; i < out.size(); i++)
        ASSERT_EQ(out[i], static_cast<T>(a[i] + b[i])) << name << " sum " << i;
    type->reduce[DT_PERF_MAX](out.data(), a.data(), b.data(), out.size());
    for (size_t i = 0; i < out.size(); i++)
        ASSERT_EQ(out[i], std::max(a[i], b[i])) << name << " max " << i;
    type->reduce[DT_PERF_MIN](out.data(), a.data(), b.data(), out.size());
    for (size_t i = 0; i < out.size(); i++)
        ASSERT_EQ(out[i], std::min(a[i], b[i])) << name << " min " << i;
    // In place, as the ring does it.
    std::vector<T> sum = a;
    type->reduce[DT_PERF_SUM](sum.data(), sum.data(), b.data(), sum.size());
    type->reduce[DT_PERF_SUM](out.data(), a.data(), b.data(), out.size());
    EXPECT_EQ(sum, out) << name;
}

TEST(PerfType, ReducesEveryType)
{
    CheckReductions<int8_t>("int8");
    CheckReductions<uint8_t>("uint8");
    CheckReductions<int32_t>("int32");
    CheckReductions<uint32_t>("uint32");
    CheckReductions<int64_t>("int64");
    CheckReductions<uint64_t>("uint64");
    CheckReductions<float>("float");
    CheckReductions<double>("double");
}

TEST(PerfType, ListsExactlyTheTypesThatCanBeFound)
{
    std::istringstream names(dt_perf_type_names());
    std::string name;
    size_t count = 0;

    while (std::getline(names, name, ',')) {
        name.erase(0, name.find_first_not_of(' '));
        EXPECT_NE(dt_perf_type_find(name.c_str()), nullptr) << name;
        count++;
    }
    EXPECT_EQ(count, 8u);
    EXPECT_EQ(dt_perf_type_find("half"), nullptr);
}

TEST(PerfType, FillDependsOnTheElementsPlaceOnly)
{
    const struct dt_perf_type *type = dt_perf_type_find("float");
    std::vector<float> whole(100), part(10);

    type->fill(whole.data(), whole.size(), 5, 0);
    type->fill(part.data(), part.size(), 5, 40);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 40));
    EXPECT_GT(*std::max_element(whole.begin(), whole.end()), 500.0f); // spread over 0..1023
    EXPECT_LT(*std::max_element(whole.begin(), whole.end()), 1024.0f);
}

TEST(PerfType, FloatSumsOfAllRanksAreExact)
{
    const struct dt_perf_type *type = dt_perf_type_find("float");
    std::vector<float> forward(64, 0), backward(64, 0), values(64);

    for (unsigned i = 0; i < 64; i++) {
        type->fill(values.data(), values.size(), dt_perf_stream(i, 0), 0);
        type->reduce[DT_PERF_SUM](forward.data(), forward.data(), values.data(), values.size());
        type->fill(values.data(), values.size(), dt_perf_stream(63 - i, 0), 0);
        type->reduce[DT_PERF_SUM](backward.data(), backward.data(), values.data(), values.size());
    }
    EXPECT_EQ(forward, backward);
}

TEST(PerfType, FindsReductions)
{
    EXPECT_EQ(dt_perf_redop_find("sum"), DT_PERF_SUM);
    EXPECT_EQ(dt_perf_redop_find("max"), DT_PERF_MAX);
    EXPECT_EQ(dt_perf_redop_find("min"), DT_PERF_MIN);
    EXPECT_EQ(dt_perf_redop_find("avg"), DT_PERF_REDOP_COUNT);
}
} // namespace
