/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/metrics_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "cli/stat_metrics.h"
#include "tests/cli/stat_page.h"

namespace
{
class MetricsServer : public testing::Test
{
  protected:
    void SetUp() override
    {
        options.write_metrics = dt_metrics_write_host;
        options.arg = &host;
        server = dt_metrics_server_start(&options, reason, sizeof reason);
        if (!server && (strstr(reason, "libmicrohttpd12") || strstr(reason, "libmicrohttpd-dev")))
            GTEST_SKIP() << reason;
        ASSERT_NE(nullptr, server) << reason;
    }
    void TearDown() override
    {
        dt_metrics_server_stop(server);
    }

    int Connect() const
    {
        struct sockaddr_in address = {};
        int fd = socket(AF_INET, SOCK_STREAM, 0);

        address.sin_family = AF_INET;
        address.sin_port = htons(dt_metrics_server_port(server));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(0, connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address));
        return fd;
    }

    /* The whole answer to these bytes, until the server ends the connection. */
    std::string Ask(const std::string &request) const
    {
        int fd = Connect();
        std::string answer;
        char bytes[4096];
        ssize_t count;

        (void)send(fd, request.data(), request.size(), MSG_NOSIGNAL);
        while ((count = recv(fd, bytes, sizeof bytes, 0)) > 0)
            answer.append(bytes, static_cast<size_t>(count));
        close(fd);
        return answer;
    }

    std::string Get(const std::string &path, const std::string &method = "GET") const
    {
        return Ask(method + " " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    }

    Folder folder;
    dt_metrics_host host = {folder.path.c_str(), {nullptr, "job-7"}};
    dt_metrics_server_options options = {};
    dt_metrics_server *server = nullptr;
    char reason[256] = "";
};

TEST_F(MetricsServer, AnswersWithTheMetricsOfThisMoment)
{
    std::string before = Get("/metrics");
    StatPage page(folder);
    std::string answer = Get("/metrics");

    EXPECT_EQ(0u, before.rfind("HTTP/1.1 200", 0)) << before;
    EXPECT_NE(std::string::npos, before.find("\ndetour_processes 0\n")) << before;
    EXPECT_NE(std::string::npos, answer.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"))
        << answer;
    EXPECT_NE(std::string::npos, answer.find("\ndetour_processes 1\n")) << answer;
    EXPECT_NE(std::string::npos,
              answer.find("\ndetour_messages_total{host=\"nodea\",rank=\"3\",job=\"job-7\","))
        << answer;
    EXPECT_EQ(0u, Get("/metrics", "HEAD").rfind("HTTP/1.1 200", 0));
}

/* An agent starts before the job, whose first process creates the directory. */
TEST_F(MetricsServer, WithoutTheRuntimeDirectoryThereIsNoProcess)
{
    std::string moved = folder.path + ".moved";

    ASSERT_EQ(0, rename(folder.path.c_str(), moved.c_str()));
    std::string answer = Get("/metrics");
    EXPECT_EQ(0u, answer.rfind("HTTP/1.1 200", 0)) << answer;
    EXPECT_NE(std::string::npos, answer.find("\ndetour_processes 0\n")) << answer;
    ASSERT_EQ(0, rename(moved.c_str(), folder.path.c_str()));
}

TEST_F(MetricsServer, RefusesAnythingElse)
{
    EXPECT_EQ(0u, Get("/").rfind("HTTP/1.1 404", 0)) << Get("/");
    EXPECT_EQ(0u, Get("/metrics/../x").rfind("HTTP/1.1 404", 0));
    EXPECT_EQ(0u, Get("/metrics", "DELETE").rfind("HTTP/1.1 405", 0));
    EXPECT_EQ(0u,
              Ask("POST /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc")
                  .rfind("HTTP/1.1 405", 0));
    EXPECT_EQ(std::string::npos, Ask("\x16\x03\x01\x02garbage\r\n\r\n").find(" 200 "));
    EXPECT_EQ(
        std::string::npos,
        Ask("GET /metrics HTTP/1.1\r\nHost: h\r\nX: " + std::string(100000, 'x') + "\r\n\r\n").find(" 200 "));
    chmod(folder.path.c_str(), 0755);
    std::string answer = Get("/metrics");
    EXPECT_EQ(0u, answer.rfind("HTTP/1.1 500", 0)) << answer;
    EXPECT_NE(std::string::npos, answer.find("its mode should be 0700")) << answer;
    chmod(folder.path.c_str(), 0700);
}

/* More connections than the limit that ask for nothing: when they end, the next one is answered. */
TEST_F(MetricsServer, SilentConnectionsAreBoundedAndEndWithTheirPeers)
{
    std::vector<int> silent;

    for (int i = 0; i < 80; i++)
        silent.push_back(Connect());
    for (int fd : silent)
        close(fd);
    std::string answer;
    while (answer.empty()) /* the server may still hold ended connections, and closes further ones at once */
        answer = Get("/metrics");
    EXPECT_EQ(0u, answer.rfind("HTTP/1.1 200", 0)) << answer;
}

TEST_F(MetricsServer, APortThatIsInUseIsOneLine)
{
    dt_metrics_server_options same = options;

    same.port = dt_metrics_server_port(server);
    EXPECT_EQ(nullptr, dt_metrics_server_start(&same, reason, sizeof reason));
    EXPECT_NE(std::string::npos,
              std::string(reason).find("cannot listen on 127.0.0.1:" + std::to_string(same.port)))
        << reason;
}

TEST(MetricsServerOption, IsAPortOrAnAddressWithAPort)
{
    dt_metrics_server_options options = {};

    EXPECT_TRUE(dt_metrics_server_parse("9464", &options));
    EXPECT_EQ(9464, options.port);
    EXPECT_STREQ("", options.address);
    EXPECT_TRUE(dt_metrics_server_parse("0.0.0.0:1", &options));
    EXPECT_EQ(1, options.port);
    EXPECT_STREQ("0.0.0.0", options.address);
    for (const char *text : {"", ":", "x", "0", "65536", "123456", "host:1", ":1", "1.2.3.4:", "1.2.3.4:x",
                             "[::1]:1", "-1", "1.2.3.4.5.6.7.8.9:1"})
        EXPECT_FALSE(dt_metrics_server_parse(text, &options)) << text;
    EXPECT_EQ(1, options.port) << "as before";
}
} // namespace
