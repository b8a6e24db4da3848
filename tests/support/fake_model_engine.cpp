// strata-engine's process around the fake model, for tests of the process itself. The model's path
// says how it behaves: words joined by commas, as in "hybrid,pass_ms=20,vocabulary=200000".
#include <charconv>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_process.hpp"
#include "fake_runner.hpp"
#include "strata/backend/device_fault.hpp"

namespace strata::tests {
namespace {

struct Behaviour {
    std::map<std::string, std::int64_t, std::less<>> words;

    explicit Behaviour(std::string_view text) {
        while (!text.empty()) {
            const std::string_view word = text.substr(0, text.find(','));
            text.remove_prefix(std::min(word.size() + 1, text.size()));
            const std::size_t equals = word.find('=');
            std::int64_t value = 1;
            if (equals != std::string_view::npos) {
                std::from_chars(word.data() + equals + 1, word.data() + word.size(), value);
            }
            words[std::string(word.substr(0, equals))] = value;
        }
    }
    std::int64_t get(std::string_view name, std::int64_t otherwise = 0) const {
        const auto found = words.find(name);
        return found == words.end() ? otherwise : found->second;
    }
};

// Reads a page of a mapped file that has shrunk.
void touch_shrunk_mapping() {
    const int file = ::memfd_create("weights", MFD_CLOEXEC);
    if (::ftruncate(file, 4096) != 0) return;
    const auto* page =
        static_cast<const volatile char*>(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0));
    if (::ftruncate(file, 0) != 0) return;
    (void)page[0];
}

void print_foreign_text() {
    std::printf("text by printf\n");
    std::fflush(stdout);
    std::cout << "text by a stream" << std::endl;
    constexpr std::string_view kRaw = "DONE 1 2 3 text by write\n";
    [[maybe_unused]] const ssize_t count = ::write(STDOUT_FILENO, kRaw.data(), kRaw.size());
}

// Sleeps as a kernel that nothing can interrupt.
void sleep_ms(std::int64_t ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

Result<LoadedModel, LoadFailure> load_fake(const EngineOptions& options,
                                           const LoadProgress& progress) {
    const Behaviour behaviour(options.model_path);
    sleep_ms(behaviour.get("check_ms"));
    if (behaviour.get("refused") != 0) {
        return Failure{LoadFailure{ExitStatus::model_refused, "the model file is not one"}};
    }
    if (behaviour.get("too_large") != 0) throw std::bad_alloc();
    progress(0, 100);
    for (std::uint64_t i = 1; i <= 4; ++i) {
        sleep_ms(behaviour.get("load_ms") / 4);
        progress(i * 25, 100);
        if (behaviour.get("grows_too_large") != 0) throw std::bad_alloc();
    }
    FakeShape shape;
    shape.recurrent = behaviour.get("hybrid") != 0;
    shape.vocabulary = behaviour.get("vocabulary", 97);
    shape.chunk_tokens = options.chunk_tokens;
    auto device = std::make_shared<FakeDevice>();
    auto runner = std::make_unique<FakeRunner>(shape, device);
    for (const ControlVector& one : options.control_vectors) {
        runner->modes.push_back({one.name, one.path + ":" + std::to_string(one.scale)});
    }
    runner->layers = behaviour.get("layers");
    runner->on_layer = [behaviour](const FakePass& pass, std::int64_t) {
        if (pass.first >= behaviour.get("slow_from")) sleep_ms(behaviour.get("layer_ms"));
    };
    runner->on_pass = [behaviour, said = false,
                       model = runner.get()](const FakePass& pass) mutable {
        sleep_ms(behaviour.get("pass_ms") + behaviour.get("token_ms") * pass.tokens);
        if (pass.first >= behaviour.get("stuck_at", INT64_MAX)) sleep_ms(60'000);
        if (pass.first >= behaviour.get("bus_at", INT64_MAX)) touch_shrunk_mapping();
        if (pass.first >= behaviour.get("state_grows_at", INT64_MAX)) model->grow_state();
        if (pass.first >= behaviour.get("device_lost_at", INT64_MAX)) {
            throw DeviceFault("the fake device fell off the bus");
        }
        if (behaviour.get("talks") != 0 && !said) print_foreign_text();
        said = true;
    };
    // The device is the runner's own: nothing else needs one.
    return LoadedModel{nullptr, std::move(runner)};
}

}  // namespace
}  // namespace strata::tests

int main(int argc, char** argv) {
    return strata::engine_main(argc, argv, &strata::tests::load_fake);
}
