// Protects the one door of the server's configuration: which source wins, what is refused and in
// which words, and how a model's name becomes a file.
#include "serve/config.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "serve/options.hpp"

namespace strata::serve {
namespace {

namespace fs = std::filesystem;

// A folder of its own as working directory, a clean STRATA_ environment, and everything back at the
// end.
class Scene {
  public:
    Scene() : before_(fs::current_path()) {
        folder_ = fs::temp_directory_path() /
                  ("strata-config-" + std::to_string(reinterpret_cast<std::uintptr_t>(this)));
        fs::create_directories(folder_);
        fs::current_path(folder_);
        setenv("HOME", (folder_ / "home").c_str(), 1);
        write("engine", "x");
        fs::permissions("engine", fs::perms::owner_all);
        unsetenv("XDG_CONFIG_HOME");
        clear();
    }
    ~Scene() {
        clear();
        fs::current_path(before_);
        fs::remove_all(folder_);
    }
    static void write(const fs::path& path, const std::string& text) {
        if (path.has_parent_path()) fs::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }

  private:
    static void clear() {
        for (const auto& option : option_table()) unsetenv(option.environment_name().c_str());
    }
    fs::path before_;
    fs::path folder_;
};

Result<Configuration> read(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), {"strata-serve", "--engine", "engine"});
    return read_configuration(arguments);
}

std::string refusal(std::vector<const char*> arguments) {
    const auto result = read(std::move(arguments));
    return result ? "accepted" : result.error().text;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "A flag wins over the environment and that over the settings file and that over the default") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    Scene::write("strata-chat.json",
                 R"({"model":"m.gguf","port":9001,"top_k":7,"temperature":0.5})");
    setenv("STRATA_PORT", "9002", 1);
    setenv("STRATA_TEMPERATURE", "0.25", 1);
    const auto got = read({"--model", "chat", "--port", "9003"});
    REQUIRE(got.ok());
    CHECK(got->config.port == 9003);
    CHECK(got->config.sampling.temperature == 0.25);
    CHECK(got->config.sampling.top_k == 7);
    CHECK(got->config.max_queue == 64);
    CHECK(got->config.model_name == "chat");
    CHECK(got->config.model_path == "./m.gguf");
    const std::string shown = show_configuration(*got);
    CHECK(contains(shown, "port = 9003  (flag --port)"));
    CHECK(contains(shown, "temperature = 0.25  (environment STRATA_TEMPERATURE)"));
    CHECK(contains(shown, "top_k = 7  (strata-chat.json)"));
    CHECK(contains(shown, "max_queue = 64  (default)"));
    CHECK(contains(shown, "template_date = today  (default)"));
}

TEST_CASE("Every option is shown once with a source") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    const auto got = read({"--model", "m.gguf"});
    REQUIRE(got.ok());
    const std::string shown = show_configuration(*got);
    for (const auto& option : option_table()) {
        INFO(option.flag);
        CHECK(contains("\n" + shown, "\n" + option.key() + " = "));
    }
}

TEST_CASE("A key is never shown") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    const auto got =
        read({"--model", "m.gguf", "--api-key", "first-secret", "--api-key=second-secret"});
    REQUIRE(got.ok());
    CHECK(got->config.api_keys == std::vector<std::string>{"first-secret", "second-secret"});
    CHECK_FALSE(contains(show_configuration(*got), "secret"));
    CHECK_FALSE(contains(refusal({"--model", "m.gguf", "--api-key", "short"}), "short"));
}

TEST_CASE("Keys come from a file that its owner alone may read") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    Scene::write("keys", "# ours\nfirst-secret\n\nsecond-secret\r\n");
    fs::permissions("keys", fs::perms::owner_read | fs::perms::owner_write);
    const auto got =
        read({"--model", "m.gguf", "--api-key", "given-secret", "--api-key-file", "keys"});
    REQUIRE(got.ok());
    CHECK(got->config.api_keys ==
          std::vector<std::string>{"given-secret", "first-secret", "second-secret"});
    CHECK_FALSE(contains(show_configuration(*got), "secret"));
    fs::permissions("keys", fs::perms::group_read, fs::perm_options::add);
    CHECK(contains(refusal({"--model", "m.gguf", "--api-key-file", "keys"}), "chmod 600"));
    Scene::write("short", "abc\n");
    fs::permissions("short", fs::perms::owner_read | fs::perms::owner_write);
    CHECK(contains(refusal({"--model", "m.gguf", "--api-key-file", "short"}), "at least 8"));
    Scene::write("empty", "\n");
    fs::permissions("empty", fs::perms::owner_read | fs::perms::owner_write);
    CHECK(contains(refusal({"--model", "m.gguf", "--api-key-file", "empty"}), "no key"));
    CHECK(contains(refusal({"--model", "m.gguf", "--api-key-file", "gone"}), "cannot be read"));
}

TEST_CASE("An unknown flag names the closest one") {
    const Scene scene;
    CHECK(refusal({"--modle", "demo"}) == "unknown option --modle; did you mean --model?");
    CHECK(contains(refusal({"--prot=1"}), "did you mean --port?"));
    CHECK(contains(refusal({"demo"}), "unexpected argument 'demo'"));
    CHECK(contains(refusal({"--model"}), "--model needs a value"));
}

TEST_CASE("An unknown key of the settings file names the closest one") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    Scene::write("strata-a.json", R"({"model":"m.gguf","temprature":1})");
    CHECK(refusal({"--model", "a"}) ==
          "unknown key \"temprature\" in strata-a.json; did you mean \"temperature\"?");
}

TEST_CASE("A bad value names the key and the value and the source and what is allowed") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    CHECK(refusal({"--model", "m.gguf", "--port", "70000"}) ==
          "port = 70000 (flag --port) is not allowed; allowed: a whole number from 0 to 65535");
    for (const char* bad : {"-1", "65536", "1.5", "x", "", "1 ", "0x10", "99999999999999999999"}) {
        INFO(bad);
        CHECK(contains(refusal({"--model", "m.gguf", "--port", bad}), "port = "));
    }
    for (const char* bad : {"0", "-0.1", "1.01", "nan", "inf"}) {
        INFO(bad);
        CHECK(contains(refusal({"--model", "m.gguf", "--top-p", bad}), "top_p = "));
    }
    CHECK(contains(refusal({"--model", "m.gguf", "--kv", "f8"}), "allowed: f16, f32"));
    setenv("STRATA_THREADS", "many", 1);
    CHECK(contains(refusal({"--model", "m.gguf"}), "threads = many (environment STRATA_THREADS)"));
}

TEST_CASE("The settings file keeps the types of JSON") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    const auto with = [](const std::string& key, const std::string& value) {
        Scene::write("strata-a.json", R"({"model":"m.gguf",")" + key + "\":" + value + "}");
        return read({"--model", "a"});
    };
    REQUIRE(with("port", "null").ok());
    CHECK(with("port", "null")->config.port == 8080);
    REQUIRE(with("port", "9000.0").ok());
    CHECK(with("port", "9000.0")->config.port == 9000);
    for (const char* bad : {"\"9000\"", "9000.5", "true", "[9000]", "{}", "18446744073709551615"}) {
        INFO(bad);
        const auto got = with("port", bad);
        REQUIRE_FALSE(got.ok());
        CHECK(contains(got.error().text, "port = "));
        CHECK(contains(got.error().text, "a whole number from 0 to 65535"));
    }
    REQUIRE(with("strict_model", "true").ok());
    CHECK(with("strict_model", "true")->config.strict_model);
    CHECK_FALSE(with("strict_model", "1").ok());
    CHECK_FALSE(with("allowed_host", "[1]").ok());
    REQUIRE(with("allowed_host", R"(["a.example","b.example"])").ok());
}

TEST_CASE("A settings file that is no JSON object is refused by name") {
    const Scene scene;
    Scene::write("strata-a.json", "{not json");
    CHECK(contains(refusal({"--model", "a"}), "strata-a.json' is not JSON"));
    Scene::write("strata-b.json", "[1]");
    CHECK(contains(refusal({"--model", "b"}), "is not an object"));
    Scene::write("strata-c.json", "{}");
    CHECK(contains(refusal({"--model", "c"}), "names no \"model\" file"));
    Scene::write("strata-d.json", R"({"model":"gone.gguf"})");
    CHECK(contains(refusal({"--model", "d"}), "gone.gguf' does not exist"));
}

TEST_CASE("A key that stands twice in the settings file is refused by name") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    Scene::write("strata-a.json", R"({"model":"m.gguf","port":9001,"top_k":1,"port":9002})");
    CHECK(contains(refusal({"--model", "a"}), R"(the key "port" is given twice)"));
    CHECK(contains(refusal({"--model", "a"}), "strata-a.json"));
}

TEST_CASE("A refused number of the settings file is shown as people write it") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    Scene::write("strata-a.json", R"({"model":"m.gguf","port":1.5})");
    CHECK(contains(refusal({"--model", "a"}), "port = 1.5 (strata-a.json)"));
    Scene::write("strata-a.json", R"({"model":"m.gguf","top_p":0.0})");
    CHECK(contains(refusal({"--model", "a"}), "top_p = 0 (strata-a.json)"));
}

TEST_CASE("A host is an address or localhost") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    for (const char* good : {"127.0.0.1", "0.0.0.0", "::", "::1", "localhost", "192.168.1.9"}) {
        INFO(good);
        CHECK(read({"--model", "m.gguf", "--host", good}).ok());
    }
    for (const char* bad : {"999.1.1.1", "1.2.3", "example.com", "127.0.0.1:80", "[::1]", ""}) {
        INFO(bad);
        CHECK(contains(refusal({"--model", "m.gguf", "--host", bad}), "host = "));
    }
}

TEST_CASE("A model is demo or a file or a name in one of the folders") {
    const Scene scene;
    Scene::write("models/big.gguf", "x");
    Scene::write("home/.config/strata/strata-mine.json", R"({"model":"weights.gguf"})");
    Scene::write("home/.config/strata/weights.gguf", "x");
    const auto demo = read({"--model", "demo"});
    REQUIRE(demo.ok());
    CHECK(demo->config.model_name == "demo");
    CHECK(fs::path(demo->config.model_path).filename() == "strata-demo-q8_0.gguf");
    const auto named = read({"--model", "big", "--models-dir", "models"});
    REQUIRE(named.ok());
    CHECK(named->config.model_path == "models/big.gguf");
    const auto mine = read({"--model", "mine"});
    REQUIRE(mine.ok());
    CHECK(fs::path(mine->config.model_path).filename() == "weights.gguf");
    const auto file = read({"--model", "models/big.gguf"});
    REQUIRE(file.ok());
    CHECK(file->config.model_name == "big");
}

TEST_CASE("The settings file of demo keeps the demo model") {
    const Scene scene;
    Scene::write("strata-demo.json", R"({"temperature":0.3})");
    const auto got = read({"--model", "demo"});
    REQUIRE(got.ok());
    CHECK(got->config.sampling.temperature == 0.3);
    CHECK(fs::path(got->config.model_path).filename() == "strata-demo-q8_0.gguf");
}

TEST_CASE("An unknown model lists the names that exist with the closest first") {
    const Scene scene;
    Scene::write("models/qwen3-8b.gguf", "x");
    Scene::write("models/strata-otter.json", "{}");
    const std::string text = refusal({"--model", "qwen3-8", "--models-dir", "models"});
    CHECK(contains(text, "no model 'qwen3-8'; there are: qwen3-8b, "));
    CHECK(contains(text, "otter"));
    CHECK(contains(text, "demo"));
    CHECK(contains(refusal({"--model", "no.gguf"}), "'no.gguf' does not exist"));
    CHECK(contains(refusal({"--model", "../models/qwen3-8b"}), "no model"));
    CHECK(contains(refusal({}), "which model?"));
}

TEST_CASE("A missing program or page or a day that does not exist stops the start") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    Scene::write("plain.txt", "x");
    Scene::write("ui/index.html", "x");
    for (const char* bad : {"/nope", "plain.txt", "ui"}) {
        INFO(bad);
        CHECK(contains(refusal({"--model", "m.gguf", "--engine", bad}), "engine = "));
    }
    CHECK(read({"--model", "m.gguf", "--ui-dir", "ui"}).ok());
    CHECK(contains(refusal({"--model", "m.gguf", "--ui-dir", "/nope"}), "ui_dir = /nope"));
    CHECK(read({"--model", "m.gguf", "--template-date", "2024-02-29"}).ok());
    for (const char* bad : {"2025-02-29", "2025-13-01", "2025-1-1", "today", "2025-02-3x"}) {
        INFO(bad);
        CHECK(contains(refusal({"--model", "m.gguf", "--template-date", bad}), "template_date = "));
    }
    CHECK(contains(refusal({"--model", "plain.txt"}), "'plain.txt' is no model file"));
    std::filesystem::create_directories("models/empty.gguf");
    Scene::write("models/b.gguf", "x");
    Scene::write("models/a.gguf", "x");
    Scene::write("strata-folder.json", R"({"model":"models"})");
    const std::string files = "is a folder; name a file in it: a.gguf, b.gguf";
    CHECK(contains(refusal({"--model", "models"}), "'models' " + files));
    CHECK(contains(refusal({"--model", "models/"}), "'models/' " + files));
    CHECK(contains(refusal({"--model", "folder"}), files));
    CHECK(contains(refusal({"--model", "models/empty.gguf"}),
                   "'models/empty.gguf' is a folder, without a .gguf file in it"));
    CHECK(contains(refusal({"--model", "m.gguf", "--threads", "513"}), "from 0 to 512"));
}

TEST_CASE("Help is grouped and fits a terminal and can be searched") {
    const std::string all = help_text("");
    for (const auto& option : option_table()) {
        CHECK(contains(all, "  --" + std::string(option.flag)));
        CHECK(contains(all, option.environment_name()));
    }
    for (std::size_t at = 0; at < all.size();) {
        const std::size_t end = all.find('\n', at);
        CHECK(end - at <= 80);
        at = end + 1;
    }
    const std::string some = help_text("prompt-cache");
    CHECK(contains(some, "--prompt-cache-every"));
    CHECK_FALSE(contains(some, "--port"));
    CHECK(
        contains(help_text("zzport"), "Nothing mentions 'zzport'; the closest option is --port."));
    CHECK_FALSE(contains(some, "Nothing mentions"));
    const auto asked = read({"--help", "port"});
    REQUIRE(asked.ok());
    CHECK(asked->action == Action::help);
    CHECK(asked->help_word == "port");
}

TEST_CASE("The engine comes and goes by the settings that were given and their limits hold") {
    Scene scene;
    Scene::write("model.gguf", "x");
    Scene::write("strata-m.json", R"({"model":"model.gguf","lazy":true,"idle_unload":600,
        "before_load":"true","before_load_timeout_s":5,"min_free_vram_mib":20000,
        "reasoning_budget_tokens":0})");
    const auto read_file = read({"--model", "m"});
    REQUIRE(read_file);
    const Config& config = read_file->config;
    CHECK(config.load.lazy);
    CHECK(config.load.idle_unload == 600);
    CHECK(config.load.before_load == "true");
    CHECK(config.load.before_load_timeout_s == 5);
    CHECK(config.load.min_free_vram_mib == 20000);
    CHECK(config.sampling.reasoning_budget_tokens == 0);
    Scene::write("strata-none.json", R"({"model":"model.gguf","reasoning_budget_tokens":null})");
    const auto plain = read({"--model", "none"});
    REQUIRE(plain);
    CHECK_FALSE(plain->config.sampling.reasoning_budget_tokens);
    CHECK_FALSE(plain->config.load.lazy);
    CHECK(plain->config.load.idle_unload == 0);
    CHECK(contains(show_configuration(*plain), "reasoning_budget_tokens = unlimited  (default)"));

    const std::vector<std::pair<const char*, std::vector<const char*>>> bad = {
        {"--idle-unload", {"-1", "1.5", "31536001", "x", ""}},
        {"--before-load-timeout-s", {"0", "3601", "-1"}},
        {"--min-free-vram-mib", {"-1", "16777217", "1e99"}},
        {"--reasoning-budget-tokens", {"-1", "2147483648", "0.5", "all"}},
        {"--before-load", {""}},
    };
    for (const auto& [flag, values] : bad) {
        for (const char* value : values) {
            const std::string text = refusal({"--model", "m", flag, value});
            INFO(flag << " " << value << ": " << text);
            CHECK(contains(text, std::string("(flag ") + flag + ") is not allowed; allowed: "));
        }
    }
    Scene::write("strata-q.json", R"({"model":"model.gguf","idle_unload":"600"})");
    CHECK(contains(refusal({"--model", "q"}), "idle_unload = \"600\" (strata-q.json)"));
    Scene::write("strata-b.json", R"({"model":"model.gguf","reasoning_budget_tokens":true})");
    CHECK(contains(refusal({"--model", "b"}), "allowed: a whole number from 0 to 2147483647"));
}

TEST_CASE("The window of the Monitor is a whole number from 1 to 500 or not given") {
    const Scene scene;
    Scene::write("m.gguf", "x");
    const auto with = [](const std::string& value) {
        Scene::write("strata-chat.json",
                     R"({"model":"m.gguf","monitor_cache_window":)" + value + "}");
        return read({"--model", "chat"});
    };
    CHECK(read({"--model", "m.gguf"})->config.monitor_cache_window == 20);
    CHECK(with("1")->config.monitor_cache_window == 1);
    CHECK(with("500")->config.monitor_cache_window == 500);
    CHECK(with("20.0")->config.monitor_cache_window == 20);
    CHECK(with("null")->config.monitor_cache_window == 20);
    CHECK(read({"--model", "chat", "--monitor-cache-window", "7"})->config.monitor_cache_window ==
          7);
    for (const std::string value : {"\"20\"", "20.5", "0", "501", "true", "-1", "[20]", "{}"}) {
        const auto got = with(value);
        INFO(value);
        REQUIRE_FALSE(got.ok());
        CHECK(contains(got.error().text, "monitor_cache_window"));
        CHECK(contains(got.error().text, "a whole number from 1 to 500"));
        CHECK(contains(got.error().text, "strata-chat.json"));
        const std::string bare = value == "\"20\"" ? "20" : value;
        const bool scalar = value.front() != '[' && value.front() != '{';
        CHECK((!scalar || contains(got.error().text, bare)));
    }
    CHECK(read({"--model", "m.gguf", "--monitor-cache-window", "20.0"})
              ->config.monitor_cache_window == 20);
    for (const char* value :
         {"0", "501", "20.5", "x", "", "20.0x", "0x14", "nan", "inf", "1e400", "true"}) {
        INFO(value);
        CHECK(contains(refusal({"--model", "m.gguf", "--monitor-cache-window", value}),
                       "a whole number from 1 to 500"));
    }
}

}  // namespace strata::serve
