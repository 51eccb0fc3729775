/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a carrier: what is appended is decoded, and nothing else is. */
#include "transport/session/pair_record.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/harness/harness.h"

namespace
{
class Record : public ::testing::Test
{
  protected:
    ~Record() override
    {
        free(buffer.bytes);
    }
    dt_status Append(uint32_t stream, uint16_t kind, const std::string &payload, uint16_t number)
    {
        dt_record record = {stream, kind, number, reinterpret_cast<const uint8_t *>(payload.data())};
        return dt_record_append(&buffer, &record);
    }
    /* Of 8 bytes of header, which the test writes itself. */
    static dt_status Decode(uint16_t kind, uint16_t number, size_t payload)
    {
        std::string bytes = {
            7, 0, 0, 0, (char)(kind & 0xff), (char)(kind >> 8), (char)(number & 0xff), (char)(number >> 8)};
        bytes += std::string(payload, 'x');
        dt_record record;
        size_t length;
        return dt_record_decode(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), &record,
                                &length);
    }

    dt_record_buffer buffer = {};
};

TEST_F(Record, WhatIsAppendedIsDecodedInItsOrder)
{
    const std::string large(DT_PAIR_WINDOW_BYTES, 'l');
    size_t begin = 0, length = 0;
    dt_record record;

    ASSERT_EQ(DT_OK, Append(5, DT_RECORD_OPEN, "hello", 5));
    ASSERT_EQ(DT_OK, Append(0xfffffffe, DT_RECORD_DATA, large, DT_PAIR_WINDOW_BYTES));
    ASSERT_EQ(DT_OK, Append(5, DT_RECORD_CREDIT, "", 2048));
    ASSERT_EQ(DT_OK, Append(5, DT_RECORD_END, "", 0));
    const struct {
        uint32_t stream;
        uint16_t kind, number;
        std::string payload;
    } expected[] = {{5, DT_RECORD_OPEN, 5, "hello"},
                    {0xfffffffe, DT_RECORD_DATA, DT_PAIR_WINDOW_BYTES, large},
                    {5, DT_RECORD_CREDIT, 2048, ""},
                    {5, DT_RECORD_END, 0, ""}};
    for (const auto &e : expected) {
        ASSERT_EQ(DT_OK, dt_record_decode(buffer.bytes + begin, buffer.used - begin, &record, &length));
        EXPECT_EQ(e.stream, record.stream);
        EXPECT_EQ(e.kind, record.kind);
        EXPECT_EQ(e.number, record.number);
        EXPECT_EQ(e.payload, record.payload ? std::string((const char *)record.payload, record.number) : "");
        for (size_t part = 0; part < length; part++)
            ASSERT_EQ(DT_AGAIN, dt_record_decode(buffer.bytes + begin, part, &record, &length));
        ASSERT_EQ(DT_OK, dt_record_decode(buffer.bytes + begin, buffer.used - begin, &record, &length));
        begin += length;
    }
    EXPECT_EQ(begin, buffer.used);
}

TEST_F(Record, WhatIsOutOfRangeIsRefusedByItsHeader)
{
    EXPECT_EQ(DT_PROTOCOL, Decode(0, 1, 1));
    EXPECT_EQ(DT_PROTOCOL, Decode(5, 1, 1));
    EXPECT_EQ(DT_PROTOCOL, Decode(0x0101, 1, 1));
    EXPECT_EQ(DT_PROTOCOL, Decode(DT_RECORD_OPEN, 0, 0));
    EXPECT_EQ(DT_PROTOCOL, Decode(DT_RECORD_DATA, DT_PAIR_WINDOW_BYTES + 1, 0));
    EXPECT_EQ(DT_PROTOCOL, Decode(DT_RECORD_CREDIT, 0, 0));
    EXPECT_EQ(DT_PROTOCOL, Decode(DT_RECORD_CREDIT, DT_PAIR_WINDOW_BYTES + 1, 0));
    EXPECT_EQ(DT_PROTOCOL, Decode(DT_RECORD_END, 1, 0));
    EXPECT_EQ(DT_AGAIN, Decode(DT_RECORD_DATA, 2, 1));
    EXPECT_EQ(DT_OK, Decode(DT_RECORD_DATA, 2, 2));
}

TEST_F(Record, WithoutMemoryNothingIsAppended)
{
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, Append(5, DT_RECORD_END, "", 0));
    EXPECT_TRUE(detour_test_alloc_failed());
    EXPECT_EQ(0u, buffer.used);
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_record_append_bytes(&buffer, "xy", 2));
    EXPECT_TRUE(detour_test_alloc_failed());
    EXPECT_EQ(DT_OK, dt_record_append_bytes(&buffer, "xy", 2));
    EXPECT_EQ(2u, buffer.used);
}
} // namespace
