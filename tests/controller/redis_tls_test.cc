// SPDX-License-Identifier: Apache-2.0
/* TLS to a real redis-server that has no other port. Skipped where there is none. */
#include "controller/redis_tls.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "tests/controller/certificates.h"
#include "tests/controller/opened_store.h"
#include "tests/controller/redis_server.h"

namespace
{
using detour_test::Certificates;
using detour_test::Records;
using Store = detour_test::OpenedStore;

const char kPassword[] = ":the-right-one@";

class RedisTls : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (!RedisServer::IsUsable())
            GTEST_SKIP() << "redis-server or libhiredis is not installed";
        if (!Certificates::IsInstalled())
            GTEST_SKIP() << "there is no openssl command";
        certificates = std::make_unique<Certificates>();
    }

    std::string Path(const char *name, const char *ending = ".pem") const
    {
        return certificates->Path(name, ending);
    }
    std::vector<std::string> WithPassword(std::vector<std::string> options) const
    {
        options.insert(options.end(), {"--requirepass", "the-right-one"});
        return options;
    }
    /* The one line of a failed append. */
    std::string Failure(const std::string &url, const std::string &ca, const std::string &name = "")
    {
        const std::string certificate = name.empty() ? "" : Path(name.c_str()),
                          key = name.empty() ? "" : Path(name.c_str(), ".key");
        Store store(url, "job-1", {ca.c_str(), certificate.c_str(), key.c_str()});
        dt_status status;

        /* A server that has not started yet refuses the connection. */
        do {
            status = store.Append("x");
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        } while (status == DT_CLOSED &&
                 (strstr(store.store->reason, "refused; ") || strstr(store.store->reason, "waiting")));
        EXPECT_EQ(status, DT_CLOSED);
        EXPECT_EQ(strchr(store.store->reason, '\n'), nullptr);
        EXPECT_EQ(strstr(store.store->reason, "the-right-one"), nullptr) << store.store->reason;
        return store.store->reason;
    }
    /* What the files are refused for. */
    std::string Refusal(const std::string &ca, const std::string &certificate = "",
                        const std::string &key = "")
    {
        const struct dt_store_options options = {
            "rediss://u:secret@h", "job", 0, {ca.c_str(), certificate.c_str(), key.c_str()}};
        char reason[DT_STORE_REASON_BYTES] = "";
        struct dt_store *store = nullptr;

        EXPECT_EQ(dt_store_open(&options, &store, reason), DT_INVALID);
        EXPECT_EQ(strstr(reason, "secret"), nullptr) << reason;
        EXPECT_EQ(strchr(reason, '\n'), nullptr) << reason;
        return reason;
    }

    std::unique_ptr<Certificates> certificates;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(RedisTls, RecordsGoOverTlsToAnAddressAndToAName)
{
    RedisServer server(WithPassword(certificates->Server()), true);
    const std::string ca = Path("ca"), port = server.address.substr(server.address.find(':')),
                      largest(DT_STORE_RECORD_BYTES - 1, 'r');
    Store address(server.Url(kPassword), "job-1", {ca.c_str(), nullptr, nullptr});
    Store name(std::string("rediss://default") + kPassword + "localhost" + port + "/0", "job-1",
               {ca.c_str(), "", ""});

    ASSERT_EQ(address.Until([&] { return address.Append("first"); }), DT_OK);
    for (int i = 0; i < 70; i++) /* an answer of more records than TLS has in one */
        ASSERT_EQ(name.Append(largest), DT_OK) << name.store->reason;
    ASSERT_EQ(address.Append("last"), DT_OK);
    Records records = name.Read();
    ASSERT_EQ(records.size(), 72u);
    EXPECT_EQ(records.front(), "first");
    EXPECT_EQ(records[70], largest);
    EXPECT_EQ(records.back(), "last");
}

TEST_F(RedisTls, ACertificateForAnotherHostIsRefused)
{
    certificates->Make("named", "DNS:localhost.example,IP:127.0.0.2");
    RedisServer server(WithPassword(certificates->Server("named")), true);
    const std::string port = server.address.substr(server.address.find(':'));
    std::string reason = Failure(server.Url(kPassword), Path("ca"));

    EXPECT_HAS(reason,
               "the server's certificate is refused: IP address mismatch (expected: the host of the URL)");
    reason = Failure(std::string("rediss://") + kPassword + "localhost" + port, Path("ca"));
    EXPECT_HAS(reason, "refused: hostname mismatch");
}

TEST_F(RedisTls, ACertificateOfAnotherAuthorityIsRefused)
{
    RedisServer server(WithPassword(certificates->Server()), true);
    std::string reason = Failure(server.Url(kPassword), Path("other"));

    EXPECT_HAS(reason, "certificate in certificate chain (DETOUR_REDIS_CA=FILE has the CA's)");
    EXPECT_HAS(Failure(server.Url(kPassword), ""), "DETOUR_REDIS_CA"); /* the system's authorities */
}

TEST_F(RedisTls, ACertificateThatHasEndedIsRefused)
{
    certificates->Make("old", "IP:127.0.0.1", -1);
    RedisServer server(WithPassword(certificates->Server("old")), true);

    EXPECT_HAS(Failure(server.Url(kPassword), Path("ca")), "refused: certificate has expired");
}

TEST_F(RedisTls, AServerThatDemandsACertificateGetsOne)
{
    RedisServer server(WithPassword(certificates->Server("server", true)), true);
    const std::string ca = Path("ca"), certificate = Path("client"), key = Path("client", ".key");
    Store store(server.Url(kPassword), "job-1", {ca.c_str(), certificate.c_str(), key.c_str()});

    EXPECT_EQ(store.Until([&] { return store.Append("x"); }), DT_OK);
    EXPECT_HAS(Failure(server.Url(kPassword), ca),
               "DETOUR_REDIS_CERT"); /* the alert, or the end of the connection */
}

TEST_F(RedisTls, AServerWithoutTlsGetsNoCommand)
{
    RedisServer plain({"--requirepass", "the-right-one"});

    EXPECT_HAS(Failure(plain.Url(kPassword, "rediss"), Path("ca")), "TLS port");
}

/* Servers that answer the first message with something else, then end. */
TEST_F(RedisTls, AnAnswerThatIsNoHandshakeEndsTheCall)
{
    const std::string ca = Path("ca");
    const std::vector<std::pair<std::string, const char *>> answers = {
        {"-ERR unknown command\r\n", "the server's answer is not TLS"},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", "the server's answer is not TLS"},
        {std::string("\x16\x03\x03\0\x05hello", 10), "TLS: "},
        {std::string("\x15\x03\x03\0\x02\x02\x28", 7), "TLS: "}, /* an alert: handshake failure */
        {std::string("\x16\x03\x03\x40", 4), "the server closed it, in the handshake of TLS"},
        {"", "the server closed it, in the handshake of TLS"},
    };

    for (const auto &[answer, part] : answers) {
        int listener;
        const std::string url = "rediss://" + std::string(kPassword) + detour_test::FreeAddress(&listener);
        std::string seen;
        std::thread server([&, bytes = answer] {
            char buffer[4096];
            int fd = accept(listener, nullptr, nullptr);
            ssize_t got = recv(fd, buffer, sizeof buffer, 0);

            EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
            shutdown(fd, SHUT_WR);
            for (; got > 0; got = recv(fd, buffer, sizeof buffer, 0))
                seen.append(buffer, static_cast<size_t>(got));
            close(fd);
        });

        EXPECT_HAS(Failure(url, ca), part);
        server.join();
        close(listener);
        EXPECT_EQ(seen.substr(0, 1), "\x16") << "a handshake is all that a server gets";
        EXPECT_EQ(seen.find("AUTH"), std::string::npos);
    }
}

TEST_F(RedisTls, FilesThatCannotBeUsedAreNamed)
{
    const std::string ca = Path("ca"), certificate = Path("client"), missing = Path("none");

    certificates->Run("ec -in " + Path("client", ".key") + " -aes128 -passout pass:secret-2 -out " +
                      Path("locked", ".key"));
    EXPECT_HAS(Refusal(missing), "DETOUR_REDIS_CA=" + missing + ": expected a file in PEM format");
    EXPECT_HAS(Refusal(Path("ca", ".key")), "DETOUR_REDIS_CA=");
    EXPECT_HAS(Refusal(ca, certificate), "DETOUR_REDIS_CERT and DETOUR_REDIS_KEY: expected both or none");
    EXPECT_HAS(Refusal(ca, missing, Path("client", ".key")), "DETOUR_REDIS_CERT=" + missing);
    EXPECT_HAS(Refusal(ca, certificate, Path("server", ".key")), "DETOUR_REDIS_KEY=");
    EXPECT_HAS(Refusal(ca, certificate, Path("locked", ".key")), "DETOUR_REDIS_KEY=");
}

} // namespace
