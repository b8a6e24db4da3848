// strata-engine itself with the demo model, by hand over pipes as a server would: the recorded
// answers, reuse of the conversation, STOP, seeds, and equal hashes for equal roads.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <signal.h>

#include "../../support/piped_engine.hpp"

namespace strata::tests {
namespace {

namespace json = boost::json;
using Ms = PipedEngine::Ms;
using Ids = std::vector<int>;

constexpr double kNearTie = 0.1;  // below this margin another rounding may choose the other token

constexpr int kEndOfTurn = 6137;  // the demo's <|im_end|>; one recorded answer was cut before it

const std::string kFolder = STRATA_SOURCE_DIR "/tools/demo_model/";

struct Recorded {
    std::string name;
    Ids prompt;
    Ids answer;  // the last id ends it
    std::vector<double> margins;
};

template <class T>
std::vector<T> numbers(const json::value& list) {
    std::vector<T> out;
    for (const auto& each : list.as_array()) out.push_back(each.to_number<T>());
    return out;
}

std::vector<Recorded> recorded() {
    std::ifstream in(kFolder + "strata-demo-reference.json");
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::vector<Recorded> out;
    const json::value file = json::parse(text);
    for (const auto& each : file.at("prompts").as_array()) {
        out.push_back({std::string(each.at("name").as_string()),
                       numbers<int>(each.at("prompt_ids")), numbers<int>(each.at("greedy_ids")),
                       numbers<double>(each.at("greedy_margins"))});
    }
    return out;
}

Recorded recorded(const std::string& name) {
    for (auto& each : recorded()) {
        if (each.name == name) return each;
    }
    FAIL("no recorded prompt " << name);
    return {};
}

struct Reply {
    std::string resume;
    std::vector<std::string> progress;
    Ids ids;
    std::string done;
};

struct DemoEngine : PipedEngine {
    explicit DemoEngine(std::vector<std::string> more = {})
        : PipedEngine(STRATA_BIN_DIR "/strata-engine", arguments(std::move(more))) {
        REQUIRE_FALSE(lines_until("READY", Ms(60'000)).empty());
    }
    static std::vector<std::string> arguments(std::vector<std::string> more) {
        more.insert(more.begin(), {"--model", kFolder + "strata-demo-q8_0.gguf", "--threads", "2",
                                   "--chunk-ms", "0"});
        return more;
    }
    static std::string gen(std::size_t max_new, const Ids& prompt, const std::string& names = "") {
        std::string line = "GEN " + std::to_string(max_new) + " id=1" + names + " ids=";
        for (const int id : prompt) line += std::to_string(id) + ",";
        line.pop_back();
        return line;
    }
    Reply read_reply() {
        Reply reply;
        const auto lines = lines_until("DONE", Ms(60'000));
        REQUIRE_FALSE(lines.empty());
        for (const auto& line : lines) {
            if (line.starts_with("RESUME")) reply.resume = line;
            if (line.starts_with("PP")) reply.progress.push_back(line);
            if (line.starts_with("T ")) reply.ids.push_back(std::stoi(field(line, 1)));
        }
        reply.done = lines.back();
        return reply;
    }
    Reply ask(std::size_t max_new, const Ids& prompt, const std::string& names = "") {
        send(gen(max_new, prompt, names));
        return read_reply();
    }
};

// A user's next turn in the demo's chat format, made of ids that the recorded prompts contain.
Ids next_turn(const Ids& prompt, const Ids& answer, const Recorded& asked) {
    Ids ids = prompt;
    ids.insert(ids.end(), answer.begin(), answer.end());
    ids.push_back(198);  // a line feed
    ids.insert(ids.end(), asked.prompt.begin(), asked.prompt.end());
    return ids;
}

}  // namespace

TEST_CASE("the demo model writes the recorded answers and names the id that ended them") {
    DemoEngine engine;
    for (const auto& each : recorded()) {
        INFO(each.name);
        const Reply reply = engine.ask(each.answer.size() + 8, each.prompt);
        for (std::size_t i = 0; i < each.answer.size(); ++i) {
            if (each.margins[i] < kNearTie) break;
            if (each.answer[i] == kEndOfTurn) {
                CHECK(field(reply.done, 5) == "stop");
                CHECK(named(reply.done, "stop_id") == std::to_string(each.answer[i]));
                CHECK(reply.ids.size() == i);
            } else {
                REQUIRE(reply.ids.size() > i);
                CHECK(reply.ids[i] == each.answer[i]);
            }
        }
    }
}

TEST_CASE("a second turn of the demo reads only its tail") {
    DemoEngine engine;
    const Recorded greeting = recorded("greeting");
    const Reply first = engine.ask(40, greeting.prompt);
    CHECK(first.resume == "RESUME 0 id=1 source=cold conv=1 parked=0 held=0 retained=0");
    Ids answer = first.ids;
    answer.push_back(greeting.answer.back());
    const Ids second = next_turn(greeting.prompt, answer, recorded("definition"));
    const Reply next = engine.ask(10, second);
    const auto kept = greeting.prompt.size() + first.ids.size();
    CHECK(field(next.done, 8) == std::to_string(kept));
    CHECK(field(next.done, 14) == std::to_string(second.size() - kept));
    CHECK(field(next.done, 15) == "0");
    CHECK(named(next.done, "source") == "live");
    CHECK(named(next.done, "conv") == named(first.done, "conv"));

    const Reply regenerated = engine.ask(10, second);
    CHECK(named(regenerated.done, "source") == "turn");
    CHECK(regenerated.ids == next.ids);

    DemoEngine cold;
    CHECK(cold.ask(10, second).ids == next.ids);
}

TEST_CASE("the demo shares a long system prompt between two chats") {
    DemoEngine engine({"--prompt-cache-root", "100"});
    const Recorded longer = recorded("conversation-1000");
    const std::string root = " root=400";
    const Reply first = engine.ask(4, longer.prompt, root);
    CHECK(named(first.done, "checkpoints") == "2");
    Ids other(longer.prompt.begin(), longer.prompt.begin() + 400);
    const Ids& question = recorded("definition").prompt;
    other.insert(other.end(), question.begin(), question.end());
    const Reply second = engine.ask(4, other, root);
    CHECK(named(second.done, "source") == "root");
    CHECK(field(second.done, 8) == "400");
    CHECK(field(second.done, 15) == "1");
    CHECK(field(second.done, 16) == "0");
    CHECK(named(second.done, "miss") == "new");
    CHECK(named(second.done, "conv") == "2");
}

TEST_CASE("the same road gives the same hashes in the same and in another engine") {
    const Recorded longer = recorded("conversation-1000");
    DemoEngine engine;
    const Reply cold = engine.ask(5, longer.prompt, " hash=1");
    const Reply from_turn = engine.ask(5, longer.prompt, " hash=1");
    CHECK(named(from_turn.done, "source") == "turn");
    DemoEngine other;
    const Reply elsewhere = other.ask(5, longer.prompt, " hash=1");
    for (const char* hash : {"logits_sha256", "state_sha256"}) {
        CHECK(named(cold.done, hash).size() == 64);
        CHECK(named(cold.done, hash) == named(from_turn.done, hash));
        CHECK(named(cold.done, hash) == named(elsewhere.done, hash));
    }
}

TEST_CASE("a seed decides what a warm demo writes") {
    const Recorded asked = recorded("thinking");
    const auto names = [](int seed) { return " temperature=1.5 seed=" + std::to_string(seed); };
    DemoEngine engine;
    const Reply first = engine.ask(30, asked.prompt, names(11));
    CHECK(engine.ask(30, asked.prompt, names(11)).ids == first.ids);
    CHECK(engine.ask(30, asked.prompt, names(12)).ids != first.ids);
    DemoEngine other;
    CHECK(other.ask(30, asked.prompt, names(11)).ids == first.ids);
}

TEST_CASE("a stop in the middle of a long demo prompt keeps what was read") {
    DemoEngine engine({"--chunk-tokens", "64"});
    const Recorded longer = recorded("conversation-3000");
    engine.send(DemoEngine::gen(4, longer.prompt));
    REQUIRE_FALSE(engine.lines_until("PP").empty());
    engine.send("STOP id=1");
    const Reply stopped = engine.read_reply();
    CHECK(field(stopped.done, 5) == "cancel");
    const std::string read = field(stopped.done, 14);
    CHECK(std::stoul(read) < longer.prompt.size());
    const Reply again = engine.ask(4, longer.prompt);
    CHECK(field(again.done, 8) == read);
    CHECK(again.ids == Ids(longer.answer.begin(), longer.answer.begin() + 4));
}

TEST_CASE("the real engine ends with status 0 and refuses files that are no models with 3") {
    DemoEngine engine;
    engine.send(DemoEngine::gen(500, recorded("thinking").prompt, " ignore_eos=1"));
    engine.lines_until("T ");
    engine.signal(SIGTERM);
    CHECK(field(engine.read_reply().done, 5) == "cancel");
    REQUIRE(engine.wait());
    CHECK(engine.wait()->status == 0);
    PipedEngine refused(STRATA_BIN_DIR "/strata-engine",
                        {"--model", kFolder + "strata-demo-reference.json"});
    REQUIRE(refused.wait());
    CHECK(refused.wait()->status == 3);
    PipedEngine absent(STRATA_BIN_DIR "/strata-engine", {"--model", "/nowhere/m.gguf"});
    REQUIRE(absent.wait());
    CHECK(absent.wait()->status == 3);
    CHECK_THAT(absent.stderr_text(), Catch::Contains("/nowhere/m.gguf"));
}

TEST_CASE("the real engine refuses with its status and its reason though nobody is at its input") {
    const auto folder =
        std::filesystem::temp_directory_path() / ("strata-refused-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
    const std::string demo = kFolder + "strata-demo-q8_0.gguf";
    const std::string truncated = folder / "truncated.gguf";
    std::filesystem::copy_file(demo, truncated);
    std::filesystem::resize_file(truncated, std::filesystem::file_size(demo) - 1);
    const std::string empty = folder / "empty.gguf";
    std::ofstream(empty).close();
    struct Case {
        std::vector<std::string> arguments;
        int status;
        std::string text;
    };
    const std::vector<Case> cases{
        {{"--model", folder / "absent.gguf"}, 3, "absent.gguf"},
        {{"--model", truncated}, 3, "truncated.gguf"},
        {{"--model", empty}, 3, "empty.gguf"},
        {{"--model", folder}, 3, folder},
        {{"--model", kFolder + "strata-demo-reference.json"}, 3, "strata-demo-reference.json"},
        {{"--model", demo, "--turn-token", "6144000"}, 2, "turn-token is 6144000"},
        {{"--model", demo, "--max-context", "16777216"}, 2, "16777216"},
        {{"--model", demo, "--threads", "0x2"}, 2, "--threads is \"0x2\""},
        {{"--model", demo}, 0, ""},
    };
    for (const std::string redirection : {"</dev/null", "<&-"}) {
        for (const Case& each : cases) {
            INFO(redirection << " " << each.arguments.back());
            std::vector<std::string> arguments{"-c", "exec \"$0\" \"$@\" " + redirection,
                                               STRATA_BIN_DIR "/strata-engine"};
            arguments.insert(arguments.end(), each.arguments.begin(), each.arguments.end());
            PipedEngine engine("/bin/sh", arguments);
            const auto end = engine.wait();
            REQUIRE(end);
            CHECK(end->exited);
            CHECK(end->status == each.status);
            CHECK_THAT(engine.stderr_text(), Catch::Contains(each.text));
        }
    }
    std::filesystem::remove_all(folder);
}

}  // namespace strata::tests
