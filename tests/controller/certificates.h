// SPDX-License-Identifier: Apache-2.0
/* Certificates of a test's own, made by the openssl command in a folder that is removed at the end. */
#ifndef DETOUR_TESTS_CONTROLLER_CERTIFICATES_H
#define DETOUR_TESTS_CONTROLLER_CERTIFICATES_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "controller/redis_tls.h"

namespace detour_test
{
/* Two authorities, "ca" and "other", and certificates of the first one; NAME.pem and NAME.key each. */
class Certificates
{
  public:
    static bool IsInstalled()
    {
        return access("/usr/bin/openssl", X_OK) == 0;
    }

    Certificates()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-tls-XXXXXX").string();

        folder = mkdtemp(pattern.data());
        for (const char *name : {"ca", "other"})
            Run("req -x509 " + NewKey(name) + " -days 2 -out " + Path(name, ".pem"));
        Make("server", "IP:127.0.0.1,DNS:localhost");
        Make("client", "DNS:agent");
    }
    ~Certificates()
    {
        std::filesystem::remove_all(folder);
    }
    Certificates(const Certificates &) = delete;

    /* For these names, until `days` from now. */
    void Make(const std::string &name, const std::string &names, int days = 2)
    {
        const std::string request = Path(name, ".csr");

        Run("req -new " + NewKey(name) + " -addext subjectAltName=" + names + " -out " + request);
        Run("x509 -req -in " + request + " -CA " + Path("ca", ".pem") + " -CAkey " + Path("ca", ".key") +
            " -CAcreateserial -copy_extensions copy -days " + std::to_string(days) + " -out " +
            Path(name, ".pem"));
    }

    std::string Path(const std::string &name, const std::string &ending) const
    {
        return folder + "/" + name + ending;
    }

    /* Options of a redis-server with this certificate, which demands none of its clients, or does. */
    std::vector<std::string> Server(const std::string &name = "server", bool demands_one = false) const
    {
        return {"--tls-cert-file",    Path(name, ".pem"), "--tls-key-file",     Path(name, ".key"),
                "--tls-ca-cert-file", Path("ca", ".pem"), "--tls-auth-clients", demands_one ? "yes" : "no"};
    }

    void Run(const std::string &words) const
    {
        const std::string command = "openssl " + words + " >>" + folder + "/log 2>&1 </dev/null";

        EXPECT_EQ(std::system(command.c_str()), 0) << command;
    }

    std::string folder;

  private:
    std::string NewKey(const std::string &name) const
    {
        return "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=" + name + " -keyout " +
               Path(name, ".key");
    }
};
} // namespace detour_test

#endif
