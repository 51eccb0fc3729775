/* SPDX-License-Identifier: Apache-2.0 */
/* Commands, sessions, and the socket with friendly and hostile clients. */
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "obs/client.h"
#include "obs/server.h"
#include "obs/command_session.h"
#include "tests/harness/harness.h"
#include "tests/obs/folder.h"

namespace
{
enum dt_status Echo(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    ++*static_cast<std::atomic<int> *>(arg);
    snprintf(answer, answer_bytes, "<%s>", args);
    return DT_OK;
}

enum dt_status Refuse(void *, const char *, char *answer, size_t answer_bytes)
{
    snprintf(answer, answer_bytes, "two\nlines\x01");
    return DT_UNSUPPORTED;
}

enum dt_status Much(void *, const char *, char *answer, size_t answer_bytes)
{
    memset(answer, 'm', answer_bytes);
    answer[answer_bytes - 1] = '\0';
    return DT_OK;
}

class Commands : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(DT_OK, dt_command_table_create(&table));
        ASSERT_EQ(DT_OK, dt_command_register(table, "echo", Echo, &echo_count));
        ASSERT_EQ(DT_OK, dt_command_register(table, "refuse", Refuse, nullptr));
        ASSERT_EQ(DT_OK, dt_command_register(table, "much", Much, nullptr));
    }

    void TearDown() override
    {
        dt_command_table_destroy(table);
    }

    std::string Run(const std::string &line)
    {
        char answer[DT_COMMAND_ANSWER_BYTES + 1];
        size_t bytes = dt_command_run(table, line.c_str(), answer);
        EXPECT_EQ(strlen(answer), bytes);
        return answer;
    }

    dt_command_table *table = nullptr;
    std::atomic<int> echo_count{0};
};

TEST_F(Commands, AreFoundByNameAndGetTheirArgumentsTrimmed)
{
    EXPECT_EQ("ok <a b>\n", Run("echo a b"));
    EXPECT_EQ("ok <a  b>\n", Run("  echo \t a  b \r"));
    EXPECT_EQ("ok <>\n", Run("echo"));
    EXPECT_EQ("ok help echo refuse much\n", Run("help"));
    EXPECT_EQ("error 3 two lines \n", Run("refuse"));
    for (const char *line : {"", " ", "ech", "echoo x", "ECHO", "\xff\xfe", "../x", "echo;"})
        EXPECT_EQ("error 4 no such command; `help` lists them\n", Run(line)) << line;
}

TEST_F(Commands, NamesAreCheckedAndUniqueAndTheTableIsBounded)
{
    EXPECT_EQ(DT_INVALID, dt_command_register(table, "echo", Echo, nullptr));
    EXPECT_EQ(DT_INVALID, dt_command_register(table, "", Echo, nullptr));
    EXPECT_EQ(DT_INVALID, dt_command_register(table, "two words", Echo, nullptr));
    EXPECT_EQ(DT_INVALID, dt_command_register(table, std::string(40, 'x').c_str(), Echo, nullptr));
    enum dt_status status = DT_OK;
    int more = 0;
    for (; status == DT_OK; more++)
        status = dt_command_register(table, ("c" + std::to_string(more)).c_str(), Echo, &echo_count);
    EXPECT_EQ(DT_FULL, status);
    EXPECT_GE(more, 20);
}

TEST_F(Commands, AnswersAreCutToTheirLimit)
{
    std::string answer = Run("much");
    EXPECT_LE(answer.size(), size_t{DT_COMMAND_ANSWER_BYTES});
    EXPECT_EQ('\n', answer.back());
}

/* ---- sessions ---- */

class Session : public Commands
{
  protected:
    void SetUp() override
    {
        Commands::SetUp();
        dt_command_session_init(&session);
    }

    void Feed(const std::string &bytes)
    {
        dt_command_session_feed(&session, bytes.data(), bytes.size(), table);
    }

    std::string Take(size_t bytes_max = 1 << 20)
    {
        size_t bytes;
        const char *from = dt_command_session_output(&session, &bytes);
        std::string taken(from, std::min(bytes, bytes_max));
        if (!taken.empty())
            dt_command_session_sent(&session, taken.size(), table);
        return taken;
    }

    dt_command_session session;
};

TEST_F(Session, LinesComeInPiecesAndAnswersGoOutInPieces)
{
    Feed("ec");
    EXPECT_EQ("", Take());
    Feed("ho hi\n");
    EXPECT_EQ(0u, dt_command_session_room(&session));
    EXPECT_EQ("ok ", Take(3));
    EXPECT_EQ(0u, dt_command_session_room(&session));
    EXPECT_EQ("<hi>\n", Take());
    EXPECT_GT(dt_command_session_room(&session), 0u);
}

TEST_F(Session, LinesBehindEachOtherAreAnsweredOneByOne)
{
    Feed("echo 1\necho 2\n\necho 3");
    EXPECT_EQ(1, echo_count);
    EXPECT_EQ("ok <1>\n", Take());
    EXPECT_EQ("ok <2>\n", Take());
    EXPECT_EQ("error 4 no such command; `help` lists them\n", Take());
    EXPECT_EQ("", Take());
    Feed("\n");
    EXPECT_EQ("ok <3>\n", Take());
}

TEST_F(Session, ALineThatIsTooLongEndsIt)
{
    Feed(std::string(DT_COMMAND_LINE_BYTES, 'x'));
    EXPECT_EQ("error 2 a line has at most 511 characters\n", Take());
    EXPECT_TRUE(session.is_over);
    EXPECT_EQ(0u, dt_command_session_room(&session));
}

TEST_F(Session, TheLongestLineIsServed)
{
    Feed("echo " + std::string(DT_COMMAND_LINE_BYTES - 6, 'x') + "\n");
    EXPECT_EQ("ok <" + std::string(DT_COMMAND_LINE_BYTES - 6, 'x') + ">\n", Take());
}

TEST_F(Session, GarbageIsAnsweredWithErrors)
{
    const uint64_t seed = 99;
    dt_prng prng;

    dt_prng_init(&prng, seed);
    for (int i = 0; i < 5000 && !session.is_over; i++) {
        std::string bytes;
        for (uint64_t n = dt_prng_between(&prng, 1, 80);
             n > 0 && bytes.size() < dt_command_session_room(&session); n--)
            bytes.push_back(
                static_cast<char>(dt_prng_chance(&prng, 1, 40) ? '\n' : dt_prng_below(&prng, 256)));
        Feed(bytes);
        for (std::string answer = Take(); !answer.empty(); answer = Take())
            EXPECT_EQ("error", answer.substr(0, 5)) << "seed " << seed << " step " << i;
        if (session.is_over)
            dt_command_session_init(&session);
    }
    EXPECT_EQ(0, echo_count);
}

/* ---- the socket ---- */

class Server : public Commands
{
  protected:
    void SetUp() override
    {
        char reason[300];
        Commands::SetUp();
        ASSERT_EQ(DT_OK, dt_server_start(&folder.dir, 4711, table, &server, reason, sizeof reason)) << reason;
    }

    void TearDown() override
    {
        if (server)
            dt_server_stop(server);
        EXPECT_EQ(0u, folder.Count());
        Commands::TearDown();
    }

    std::string Call(const std::string &line, enum dt_status expected = DT_OK)
    {
        char answer[DT_COMMAND_ANSWER_BYTES];
        EXPECT_EQ(expected, dt_client_call(&folder.dir, 4711, line.c_str(), 10000, answer, sizeof answer))
            << answer;
        return answer;
    }

    int Dial()
    {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof address.sun_path, "%s/4711.sock", folder.path.c_str());
        EXPECT_EQ(0, connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address)) << strerror(errno);
        return fd;
    }

    Folder folder;
    dt_server *server = nullptr;
};

TEST_F(Server, AnswersLines)
{
    struct stat status;

    EXPECT_EQ("<hello>", Call("echo hello"));
    EXPECT_EQ("two lines ", Call("refuse", DT_UNSUPPORTED));
    EXPECT_EQ("no such command; `help` lists them", Call("nonsense", DT_NOT_FOUND));
    ASSERT_EQ(0, stat((folder.path + "/4711.sock").c_str(), &status));
    EXPECT_EQ(0600u, status.st_mode & 0777);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
}

TEST_F(Server, TheClientChecksItsCommand)
{
    char answer[200];

    EXPECT_EQ(DT_INVALID, dt_client_call(&folder.dir, 4711, "a\nb", 1000, answer, sizeof answer));
    EXPECT_EQ(DT_INVALID,
              dt_client_call(&folder.dir, 4711, std::string(600, 'x').c_str(), 1000, answer, sizeof answer));
    EXPECT_EQ(DT_NOT_FOUND, dt_client_call(&folder.dir, 4712, "echo", 1000, answer, sizeof answer));
}

TEST_F(Server, SilentAndUnreadingClientsDoNotDelayOthers)
{
    std::vector<int> fds;

    for (int i = 0; i < 5; i++)
        fds.push_back(Dial());    // sends nothing
    for (int i = 0; i < 5; i++) { // asks for far more than fits the socket, reads nothing
        int fd = Dial();
        fcntl(fd, F_SETFL, O_NONBLOCK);
        std::string lines;
        for (int n = 0; n < 1000; n++)
            lines += "much\n";
        EXPECT_GT(send(fd, lines.data(), lines.size(), MSG_NOSIGNAL), 0);
        fds.push_back(fd);
    }
    for (int i = 0; i < 50; i++)
        EXPECT_EQ("<still there>", Call("echo still there"));
    for (int fd : fds)
        close(fd);
}

TEST_F(Server, ThousandsOfConnectionsDoNotDelayOthers)
{
    std::vector<int> fds;

    for (int i = 0; i < 3000; i++) {
        int fd = Dial();
        EXPECT_GE(send(fd, "\xff\x00\x01 garbage", 11, MSG_NOSIGNAL), -1); // it may have been dropped by now
        if (i % 100 == 0) {
            EXPECT_EQ("<x>", Call("echo x"));
            fds.push_back(fd);
        } else {
            close(fd);
        }
    }
    EXPECT_EQ("<x>", Call("echo x"));
    for (int fd : fds)
        close(fd);
}

TEST_F(Server, RandomBytesOverTheSocketAreHarmless)
{
    dt_prng prng;

    dt_prng_init(&prng, 4);
    for (int i = 0; i < 50; i++) {
        int fd = Dial();
        std::string bytes;
        for (int n = 0; n < 2000; n++)
            bytes.push_back(static_cast<char>(dt_prng_below(&prng, 256)));
        send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        char answer[512];
        while (recv(fd, answer, sizeof answer, 0) > 0) {
        }
        close(fd);
    }
    EXPECT_EQ("<x>", Call("echo x"));
}

TEST_F(Server, ShortnessOfDescriptorsPasses)
{
    rlimit limit, tight;
    int fd = Dial();

    EXPECT_EQ("<a>", Call("echo a"));
    getrlimit(RLIMIT_NOFILE, &limit);
    int waiting[3] = {socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_UNIX, SOCK_STREAM, 0), -1};
    tight = limit;
    tight.rlim_cur = static_cast<rlim_t>(waiting[1]) + 1; // accept() has no number left
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/4711.sock", folder.path.c_str());
    setrlimit(RLIMIT_NOFILE, &tight);
    int connected = connect(waiting[0], reinterpret_cast<sockaddr *>(&address), sizeof address);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    setrlimit(RLIMIT_NOFILE, &limit);
    EXPECT_EQ(0, connected);
    ASSERT_EQ(7, send(waiting[0], "echo b\n", 7, MSG_NOSIGNAL));
    char answer[64] = "";
    EXPECT_EQ(7, recv(waiting[0], answer, sizeof answer, 0));
    EXPECT_STREQ("ok <b>\n", answer);
    close(waiting[0]), close(waiting[1]), close(fd);
}

TEST_F(Server, AnotherUserIsTurnedAway)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "becoming another user takes root";
    chmod(folder.path.c_str(), 0711); // let him in as far as the socket, to see what the socket itself does
    chmod((folder.path + "/4711.sock").c_str(), 0666);
    pid_t child = fork();
    if (child == 0) {
        if (setgid(12345) || setuid(12345))
            _exit(2);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof address.sun_path, "%s/4711.sock", folder.path.c_str());
        if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address))
            _exit(3);
        char answer[64];
        send(fd, "echo x\n", 7, MSG_NOSIGNAL);
        _exit(recv(fd, answer, sizeof answer, 0) <= 0 ? 0 : 4);
    }
    int status;
    waitpid(child, &status, 0);
    chmod(folder.path.c_str(), 0700);
    EXPECT_EQ(0, WEXITSTATUS(status));
    EXPECT_EQ(0, echo_count);
}

TEST_F(Server, CommandsAreRegisteredWhileClientsCall)
{
    std::thread churn([this] {
        enum dt_status status = DT_OK;
        for (int i = 0; status == DT_OK; i++)
            status = dt_command_register(table, i == 10 ? "brief" : ("c" + std::to_string(i)).c_str(), Echo,
                                         &echo_count);
        EXPECT_EQ(DT_FULL, status);
    });
    for (int i = 0; i < 200; i++) {
        char answer[100];
        enum dt_status status = dt_client_call(&folder.dir, 4711, "brief", 10000, answer, sizeof answer);
        EXPECT_TRUE(status == DT_OK || status == DT_NOT_FOUND);
    }
    churn.join();
}

TEST_F(Server, AForkedChildDoesNotTakeTheSocketAway)
{
    pid_t child = fork();
    if (child == 0) {
        dt_server_stop(server);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    EXPECT_EQ("<x>", Call("echo x"));
}

TEST_F(Server, ASecondOneInTheSameProcessReplacesTheName)
{
    dt_server *second;
    char reason[300];

    ASSERT_EQ(DT_OK, dt_server_start(&folder.dir, 4711, table, &second, reason, sizeof reason));
    EXPECT_EQ("<x>", Call("echo x"));
    dt_server_stop(second);
    dt_server_stop(server);
    server = nullptr;
}

TEST(ServerStart, TheSocketOfAnotherLivingProcessIsNotReplaced)
{
    Folder folder;
    dt_command_table *table;
    dt_server *server;
    char text[300];
    int ready[2];
    ASSERT_EQ(0, pipe(ready));
    ASSERT_EQ(DT_OK, dt_command_table_create(&table));
    pid_t other = fork();
    if (other == 0) {
        bool runs = dt_server_start(&folder.dir, 7, table, &server, text, sizeof text) == DT_OK;
        _exit(write(ready[1], "x", 1) != 1 || !runs || pause());
    }
    ASSERT_EQ(1, read(ready[0], text, 1));
    EXPECT_TRUE(dt_runtime_dir_is_taken(&folder.dir, DT_RUNTIME_SOCKET, 7));
    EXPECT_FALSE(dt_runtime_dir_is_taken(&folder.dir, DT_RUNTIME_SOCKET, 8));
    EXPECT_EQ(DT_SYSTEM, dt_server_start(&folder.dir, 7, table, &server, text, sizeof text));
    EXPECT_NE(nullptr, strstr(text, "7.sock: File exists")) << text;
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
    ASSERT_EQ(DT_OK, dt_server_start(&folder.dir, 7, table, &server, text, sizeof text)) << "left over";
    dt_server_stop(server);
    dt_command_table_destroy(table);
    EXPECT_EQ(0u, folder.Count());
    close(ready[0]);
    close(ready[1]);
}

TEST(ServerStart, FailuresAreOneLineAndLeaveNothing)
{
    Folder folder;
    dt_runtime_dir gone = folder.dir;
    dt_command_table *table;
    dt_server *server;
    char reason[400];

    ASSERT_EQ(DT_OK, dt_command_table_create(&table));
    snprintf(gone.path, sizeof gone.path, "%s/gone", folder.path.c_str());
    EXPECT_EQ(DT_SYSTEM, dt_server_start(&gone, 1, table, &server, reason, sizeof reason));
    EXPECT_EQ("no control socket " + folder.path + "/gone/1.sock: No such file or directory", reason);
    snprintf(gone.path, sizeof gone.path, "/%s", std::string(200, 'p').c_str());
    EXPECT_EQ(DT_SYSTEM, dt_server_start(&gone, 1, table, &server, reason, sizeof reason));
    EXPECT_NE(nullptr, strstr(reason, "File name too long"));
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_server_start(&folder.dir, 1, table, &server, reason, sizeof reason));
    EXPECT_EQ(0u, folder.Count());
    dt_command_table_destroy(table);
}

/* ---- the client against raw servers ---- */

std::string CallRawServer(const std::string &reply, enum dt_status expected)
{
    Folder folder;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    char answer[200] = "";

    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "%s/5.sock", folder.path.c_str());
    EXPECT_EQ(0, bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address));
    EXPECT_EQ(0, listen(listener, 1));
    std::thread server([&] {
        int fd = accept(listener, nullptr, nullptr);
        char line[64];
        EXPECT_GT(recv(fd, line, sizeof line, 0), 0);
        if (!reply.empty())
            send(fd, reply.data(), reply.size(), MSG_NOSIGNAL);
        if (expected != DT_TIMED_OUT)
            shutdown(fd, SHUT_RDWR);
        else
            recv(fd, line, sizeof line, 0); // until the client has had enough
        close(fd);
    });
    EXPECT_EQ(expected, dt_client_call(&folder.dir, 5, "x", 200, answer, sizeof answer)) << reply;
    server.join();
    close(listener);
    return answer;
}

TEST(Client, StrangeAnswersAreErrors)
{
    EXPECT_EQ("not an answer of Detour's", CallRawServer("HTTP/1.1 200 OK\n", DT_PROTOCOL));
    EXPECT_EQ("not an answer of Detour's", CallRawServer("error x y\n", DT_PROTOCOL));
    EXPECT_EQ("not an answer of Detour's", CallRawServer("error 0 y\n", DT_PROTOCOL));
    EXPECT_EQ("closed", CallRawServer("", DT_CLOSED));
    EXPECT_EQ("closed", CallRawServer("ok no newline", DT_CLOSED));
    CallRawServer(std::string(20000, 'z'), DT_PROTOCOL);
    EXPECT_EQ("no answer in time; it has the order, and may still carry it out",
              CallRawServer("ok half an ans", DT_TIMED_OUT));
    EXPECT_EQ("fine", CallRawServer("ok fine\nand more", DT_OK));
}
} // namespace
