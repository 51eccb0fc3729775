/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses for rendezvous of test jobs. */
#ifndef DETOUR_TESTS_HARNESS_FREE_ADDRESS_H
#define DETOUR_TESTS_HARNESS_FREE_ADDRESS_H

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace detour_test
{
/*
 * An unused port of 127.0.0.1 as HOST:PORT. With `listening_fd` a socket listens there: the caller closes it.
 * The port is below the range that Linux assigns from (ip_local_port_range, 32768 and more), so that no
 * socket of another program gets it before the test's program listens there.
 */
inline std::string FreeAddress(int *listening_fd = nullptr)
{
    const unsigned kFirst = 10000, kCount = 20000;
    static unsigned next = static_cast<unsigned>(getpid()) * 7;
    struct sockaddr_in address = {};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    unsigned tries = 0;

    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    do
        address.sin_port = htons(static_cast<uint16_t>(kFirst + next++ % kCount));
    while (bind(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address) && ++tries < kCount);
    EXPECT_LT(tries, kCount) << "no port is free";
    if (listening_fd) {
        EXPECT_EQ(listen(fd, 1), 0);
        *listening_fd = fd;
    } else {
        close(fd);
    }
    return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

} // namespace detour_test

#endif
