// Loading and unloading of real processes, with the fake engine: what only shows there.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/process_epilogue.hpp"
#include "tests/support/server_process.hpp"

using namespace strata::tests;

namespace {

const std::string kPath = "/v1/chat/completions";
const std::string kChat = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5})";

ServerOptions with(std::vector<std::string> server, std::vector<std::string> engine = {}) {
    ServerOptions options;
    options.server = std::move(server);
    options.engine = std::move(engine);
    return options;
}

bool says(const ServerProcess& server, const std::string& path, const std::string& part) {
    return eventually([&] {
        const auto response = get(server.port(), path);
        return response && response->body.find(part) != std::string::npos;
    });
}

HttpResponse call(const ServerProcess& server, const std::string& path) {
    const auto response = post(server.port(), path, "{}");
    REQUIRE(response);
    return *response;
}

// A file in a folder of its own.
class Mark {
  public:
    Mark() {
        std::string name = std::filesystem::temp_directory_path() / "strata-life-XXXXXX";
        folder_ = ::mkdtemp(name.data());
    }
    ~Mark() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    std::string path() const { return folder_ + "/mark"; }
    std::size_t lines() const {
        std::ifstream in(path());
        std::size_t count = 0;
        for (std::string line; std::getline(in, line);) ++count;
        return count;
    }

  private:
    std::string folder_;
};

}  // namespace

TEST_CASE("a lazy server has no engine before its first request") {
    ServerProcess server(with({"--lazy"}));
    CHECK(server.engine_pid() == 0);
    CHECK(says(server, "/health", R"("state":"unloaded")"));
    const auto answer = post(server.port(), kPath, kChat);
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(server.engine_pid() != 0);
    CHECK(says(server, "/health", R"("state":"ready")"));
}

TEST_CASE("requests that come while nothing is loaded share one start") {
    ServerProcess server(with({"--lazy"}, {"--load-ms", "300"}));
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 6; ++i) {
        clients.push_back(std::make_unique<HttpClient>(server.port()));
        REQUIRE(clients.back()->send(post_request(kPath, kChat)));
    }
    for (const auto& client : clients) {
        const auto response = client->response();
        REQUIRE(response);
        CHECK(response->status == 200);
    }
    CHECK(says(server, "/metrics", R"("starts":1)"));
}

TEST_CASE("the idle engine's process goes and comes back with the next request") {
    ServerProcess server(with({"--idle-unload", "1"}));
    const pid_t first = server.engine_pid();
    REQUIRE(first != 0);
    REQUIRE(eventually([&] { return !process_lives(first); }));
    CHECK(says(server, "/status", R"("state":"unloaded")"));
    CHECK(says(server, "/props", R"("is_sleeping":true)"));
    const auto answer = post(server.port(), kPath, kChat);
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(says(server, "/metrics", R"("epoch":2)"));
}

TEST_CASE("an unload waits for the engine's end and is refused while a request runs") {
    ServerProcess server(with({}, {"--tokens-per-second", "50"}));
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(
        kPath,
        R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":3500})")));
    REQUIRE(client.head());
    REQUIRE(client.event());
    REQUIRE(client.event());
    CHECK(call(server, "/unload").status == 409);
    CHECK(call(server, "/load").status == 200);
    client.close();
    REQUIRE(says(server, "/status", R"("state":"idle")"));
    const pid_t engine = server.engine_pid();
    CHECK(call(server, "/unload").status == 200);
    CHECK_FALSE(process_lives(engine));
    CHECK(call(server, "/load").status == 200);
    CHECK(server.engine_pid() != engine);
}

TEST_CASE("a load and an unload at once end in what was asked for last") {
    ServerProcess server(with({}, {"--load-ms", "100"}));
    for (int round = 0; round < 5; ++round) {
        REQUIRE(post(server.port(), "/unload?wait=0", "{}"));
        CHECK(call(server, "/load").status == 200);
        CHECK(says(server, "/health", R"("loaded":true)"));
        REQUIRE(post(server.port(), "/unload?wait=0", "{}"));
        REQUIRE(post(server.port(), "/load?wait=0", "{}"));
        CHECK(call(server, "/unload").status == 200);
        CHECK(says(server, "/health", R"("state":"unloaded")"));
        CHECK(server.engine_pid() == 0);
        REQUIRE(call(server, "/load").status == 200);
    }
}

TEST_CASE("SIGTERM ends an unloaded and an unloading server in order") {
    const std::string state = GENERATE("unloaded", "unloading", "loading", "before_load");
    ServerOptions options;
    if (state == "unloaded") options = with({"--lazy"});
    if (state == "loading") options = with({}, {"--load-ms", "60000"});
    if (state == "before_load") options = with({"--before-load", "sleep 60"});
    options.wait_until_ready = state != "loading" && state != "before_load";
    ServerProcess server(options);
    if (state == "unloading") REQUIRE(post(server.port(), "/unload?wait=0", "{}"));
    if (state == "loading" || state == "before_load") {
        REQUIRE(eventually([&] { return server.engine_pid() != 0; }));
    }
    const pid_t child = server.engine_pid();
    server.signal(SIGTERM);
    CHECK(server.wait_exit() == 0);
    if (child != 0) CHECK_FALSE(process_lives(child));
}

TEST_CASE("before_load has ended before the engine starts and runs before each load") {
    const Mark mark;
    ServerProcess server(with({"--before-load", "sleep 0.2; echo done; echo x >> " + mark.path()}));
    CHECK(mark.lines() == 1);
    CHECK(server.log_has("before_load: done"));
    REQUIRE(call(server, "/unload").status == 200);
    CHECK(mark.lines() == 1);
    REQUIRE(call(server, "/load").status == 200);
    CHECK(mark.lines() == 2);
    ::kill(server.engine_pid(), SIGKILL);
    CHECK(eventually([&] { return mark.lines() == 3; }));
    CHECK(server.wait_ready());
}

TEST_CASE("a before_load that fails or hangs is told to whoever asks and to the next one again") {
    const bool hangs = GENERATE(false, true);
    ServerOptions options =
        hangs ? with({"--before-load", "echo waiting; sleep 60", "--before-load-timeout-s", "2"})
              : with({"--before-load", "echo no disk >&2; exit 7"});
    options.server.push_back("--lazy");
    ServerProcess server(options);
    for (int i = 0; i < 2; ++i) {
        const auto answer = post(server.port(), kPath, kChat);
        REQUIRE(answer);
        INFO(answer->body);
        CHECK(answer->status == 503);
        CHECK_FALSE(answer->header("retry-after").empty());
        CHECK(answer->body.find(R"("code":"before_load_failed")") != std::string::npos);
        CHECK(answer->body.find(hangs ? "took longer than 2 s: waiting" : "status 7: no disk") !=
              std::string::npos);
    }
    CHECK(call(server, "/load").status == 503);
    CHECK(says(server, "/health", R"("failure":"before_load )"));
    CHECK(server.engine_pid() == 0);
}

TEST_CASE("a server whose first load is refused stays and loads when it may") {
    const Mark mark;
    ServerProcess server(with({"--before-load", "test -e " + mark.path()}));
    CHECK(says(server, "/health", R"("loaded":false)"));
    CHECK(post(server.port(), kPath, kChat)->status == 503);
    std::ofstream(mark.path()) << "x\n";
    CHECK(post(server.port(), kPath, kChat)->status == 200);
}

TEST_CASE("a load needs the free GPU memory that it was told to need") {
    // The driver's library of a machine with 60 of 80 GiB free on one GPU; another tells nothing.
    const Mark folder;
    const std::filesystem::path libraries = std::filesystem::path(folder.path()).parent_path();
    std::filesystem::create_symlink(STRATA_TEST_BIN_DIR "/strata_fake_nvml.so",
                                    libraries / "libnvidia-ml.so.1");
    ::setenv("LD_LIBRARY_PATH", libraries.c_str(), 1);
    const bool enough = GENERATE(true, false);
    ServerProcess server(with({"--lazy", "--min-free-vram-mib", enough ? "61440" : "61441"}));
    ::unsetenv("LD_LIBRARY_PATH");
    const auto answer = post(server.port(), kPath, kChat);
    REQUIRE(answer);
    INFO(answer->body << server.log());
    CHECK(answer->status == (enough ? 200 : 503));
    if (enough) return;
    CHECK(answer->body.find(R"("code":"not_enough_vram")") != std::string::npos);
    CHECK(answer->body.find("61440 of 81920 MiB are free on Fake GPU; min_free_vram_mib asks for "
                            "61441") != std::string::npos);
    CHECK_FALSE(answer->header("retry-after").empty());
    CHECK(server.engine_pid() == 0);
}

TEST_CASE("an engine that dies while it is unloaded leaves nothing behind") {
    ProcessEpilogue epilogue;
    {
        ServerProcess server(with({}));
        const pid_t engine = server.engine_pid();
        ::kill(engine, SIGSTOP);  // it cannot end in order
        REQUIRE(post(server.port(), "/unload?wait=0", "{}"));
        ::kill(engine, SIGKILL);
        CHECK(says(server, "/health", R"("state":"unloaded")"));
        CHECK(server.engine_pid() == 0);
        CHECK(post(server.port(), kPath, kChat)->status == 200);
        server.signal(SIGTERM);
        CHECK(server.wait_exit() == 0);
    }
    CHECK(epilogue.leftovers().empty());
}

TEST_CASE("a hundred loads and unloads leave the server as large as before") {
    ServerProcess server(with({}));
    const auto round = [&] {
        REQUIRE(call(server, "/unload").status == 200);
        REQUIRE(post(server.port(), kPath, kChat)->status == 200);
    };
    for (int i = 0; i < 20; ++i) round();
    const long before = resident_kib(server.pid());
    for (int i = 0; i < 100; ++i) round();
    CHECK(resident_kib(server.pid()) - before < 2048);
    CHECK(says(server, "/metrics", R"("starts":121)"));
}
