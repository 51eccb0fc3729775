/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/file.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace
{
std::string ReadBack(const std::string &content, size_t bytes_max, size_t *bytes)
{
    FILE *stream = tmpfile();
    fwrite(content.data(), 1, content.size(), stream);
    rewind(stream);
    char *data = dt_file_read(stream, bytes_max, bytes);
    std::string read(data ? data : "", data ? *bytes : 0);
    free(data);
    fclose(stream);
    return read;
}

TEST(File, IsReadWholeWhateverItsLength)
{
    for (size_t length : {0u, 1u, 65535u, 65536u, 65537u, 400000u}) {
        std::string content(length, 'x');
        size_t bytes = 99;
        EXPECT_EQ(content, ReadBack(content, 1 << 20, &bytes)) << length;
        EXPECT_EQ(length, bytes);
    }
}

TEST(File, ReadingStopsBeyondTheLimit)
{
    size_t bytes = 0;
    ReadBack(std::string(1 << 20, 'x'), 100000, &bytes);
    EXPECT_GT(bytes, 100000u);
    EXPECT_LT(bytes, 1u << 20);
}

TEST(File, AStreamThatCannotBeReadIsAnError)
{
    FILE *folder = fopen("/", "r");
    size_t bytes = 0;
    ASSERT_NE(nullptr, folder);
    EXPECT_EQ(nullptr, dt_file_read(folder, 1000, &bytes));
    EXPECT_EQ(EISDIR, errno);
    fclose(folder);
}
} // namespace
