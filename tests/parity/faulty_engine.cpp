// strata-engine with one planted fault, so that the parity scripts can be shown to find it. The
// engine itself is the product's: the fault sits in the device below it, or in the line before it.
//
//   --fault flipped_page      a byte of each K/V page that comes from host memory is another one
//   --fault skipped_restore   K/V pages that should come from host memory do not
//   --fault forced_hit        a new conversation is read behind the head of an earlier one, so that
//                             the cache finds what it should not
//   --fault lost_device       the device fails when a conversation wants its fourth K/V page
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/engine_process.hpp"
#include "strata/backend/device_fault.hpp"

namespace strata::tests {

namespace {

enum class Fault { none, flipped_page, skipped_restore, forced_hit, lost_device };

// Copies into buffers of a page's size are restores: everything else that is copied from host
// memory goes into the running state.
class FaultyDevice : public Device {
  public:
    FaultyDevice(std::unique_ptr<Device> inner, Fault fault)
        : inner_(std::move(inner)), fault_(fault) {}
    void set_page_bytes(std::size_t bytes) { page_bytes_ = bytes; }

    DeviceFacts facts() const override { return inner_->facts(); }
    Result<Buffer> allocate(std::size_t bytes) override {
        if (fault_ == Fault::lost_device && bytes == page_bytes_ && pages_.size() >= kPagesHeld) {
            throw DeviceFault("the planted fault");
        }
        auto buffer = inner_->allocate(bytes);
        if (buffer.ok() && bytes > 0 && bytes == page_bytes_) {
            pages_[static_cast<const std::byte*>(buffer->address())] = bytes;
        }
        return buffer;
    }
    Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) override {
        return inner_->upload(stored);
    }
    Result<Buffer> upload_values(const StoredTensor& stored) override {
        return inner_->upload_values(stored);
    }
    void copy_to_host(void* to, const void* from_device, std::size_t bytes) override {
        inner_->copy_to_host(to, from_device, bytes);
    }
    void copy_from_host(void* to_device, const void* from, std::size_t bytes) override {
        const bool restore = is_page(to_device) && bytes > 0;
        if (restore && fault_ == Fault::skipped_restore) return;
        inner_->copy_from_host(to_device, from, bytes);
        if (!restore || fault_ != Fault::flipped_page) return;
        std::byte first{};
        inner_->copy_to_host(&first, to_device, 1);
        first ^= std::byte{1};
        inner_->copy_from_host(to_device, &first, 1);
    }
    void copy_on_device(void* to_device, const void* from_device, std::size_t bytes) override {
        inner_->copy_on_device(to_device, from_device, bytes);
    }
    void synchronize() override { inner_->synchronize(); }
    Ops& ops() override { return inner_->ops(); }
    bool lock_pages(void* at, std::size_t bytes) override { return inner_->lock_pages(at, bytes); }
    void unlock_pages(void* at, std::size_t bytes) noexcept override {
        inner_->unlock_pages(at, bytes);
    }

  private:
    static constexpr std::size_t kPagesHeld = 3;

    bool is_page(const void* address) const {
        const auto* at = static_cast<const std::byte*>(address);
        const auto after = pages_.upper_bound(at);
        if (after == pages_.begin()) return false;
        const auto& [begin, bytes] = *std::prev(after);
        return at < begin + bytes;
    }

    std::unique_ptr<Device> inner_;
    Fault fault_;
    std::size_t page_bytes_ = 0;
    std::map<const std::byte*, std::size_t> pages_;  // begin and bytes, of all that ever were
};

Result<LoadedModel, LoadFailure> load_faulty(const EngineOptions& options,
                                             const LoadProgress& progress, Fault fault) {
    CpuDeviceOptions cpu;
    const auto cores = std::max(1U, std::thread::hardware_concurrency());
    cpu.threads = static_cast<int>(options.threads > 0 ? options.threads : cores);
    cpu.kernels = std::string(kernel_name(options.kernels));
    cpu.exact = options.exact;
    auto made = make_cpu_device(cpu);
    if (!made) return Failure{LoadFailure{ExitStatus::no_device_or_memory, made.error().text}};
    auto device = std::make_unique<FaultyDevice>(std::move(made).value(), fault);
    RunnerOptions model;
    model.model_path = options.model_path;
    model.kv_type = options.kv;
    model.max_context = options.max_context;
    model.chunk_tokens = options.chunk_tokens;
    model.control_vectors = options.control_vectors;
    auto runner = load_runner(*device, model, progress);
    if (!runner) return Failure{LoadFailure{ExitStatus::model_refused, runner.error().text}};
    device->set_page_bytes((*runner)->geometry().page_bytes());
    return LoadedModel{std::move(device), std::move(runner).value()};
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> out;
    while (true) {
        const std::size_t at = text.find(separator);
        out.emplace_back(text.substr(0, at));
        if (at == std::string_view::npos) return out;
        text.remove_prefix(at + 1);
    }
}

// Gives each third and later new conversation the head of the first one, and its root.
class HeadSwap {
  public:
    std::string line(const std::string& line) {
        const std::size_t at = line.find(" ids=");
        if (!line.starts_with("GEN ") || at == std::string::npos) return line;
        std::vector<std::string> ids = split(std::string_view(line).substr(at + 5), ',');
        if (!is_new(ids)) return line;
        conversations_.push_back(ids);
        const std::string front = line.substr(0, at);
        if (conversations_.size() == 1) root_ = word_of(front, "root=");
        if (conversations_.size() < kEnough) return line;
        const std::vector<std::string>& head = conversations_.front();
        const std::size_t swapped = std::min(head.size(), ids.size() - 1);
        std::copy_n(head.begin(), swapped, ids.begin());
        std::string out = front;
        const std::string own_root = word_of(front, "root=");
        if (!own_root.empty()) out.replace(out.find(own_root), own_root.size(), root_);
        out += " ids=";
        for (const std::string& id : ids) out += id + ",";
        out.pop_back();
        return out;
    }

  private:
    static constexpr std::size_t kEnough = 3;  // one is live then, and one may be parked

    static std::string word_of(const std::string& line, std::string_view begins) {
        for (std::string& word : split(line, ' ')) {
            if (word.starts_with(begins)) return std::move(word);
        }
        return {};
    }
    bool is_new(const std::vector<std::string>& ids) const {
        return std::none_of(conversations_.begin(), conversations_.end(), [&](const auto& known) {
            return known.size() <= ids.size() &&
                   std::equal(known.begin(), known.end(), ids.begin());
        });
    }
    std::vector<std::vector<std::string>> conversations_;
    std::string root_;  // of the first one, as its line says it
};

bool write_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(to, bytes.data(), bytes.size());
        if (written <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

// Puts a HeadSwap between stdin and the engine. The thread ends with stdin, or with the process.
bool swap_heads_on_stdin() {
    int ends[2];
    const int input = ::dup(STDIN_FILENO);
    if (input < 0 || ::pipe(ends) != 0 || ::dup2(ends[0], STDIN_FILENO) < 0) return false;
    ::close(ends[0]);
    std::thread([input, output = ends[1]] {
        HeadSwap swap;
        std::FILE* lines = ::fdopen(input, "r");
        char* line = nullptr;
        std::size_t room = 0;
        for (ssize_t n = 0; lines != nullptr && (n = ::getline(&line, &room, lines)) > 0;) {
            std::string text(line, static_cast<std::size_t>(n));
            if (text.back() == '\n') text.pop_back();
            if (!write_all(output, swap.line(text) + "\n")) break;
        }
        ::close(output);
    }).detach();
    return true;
}

std::optional<Fault> fault_named(std::string_view name) {
    if (name == "none") return Fault::none;
    if (name == "flipped_page") return Fault::flipped_page;
    if (name == "skipped_restore") return Fault::skipped_restore;
    if (name == "forced_hit") return Fault::forced_hit;
    if (name == "lost_device") return Fault::lost_device;
    return std::nullopt;
}

int run(std::vector<const char*> arguments) {
    std::optional<Fault> fault = Fault::none;
    for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
        if (std::string_view(arguments[i]) != "--fault") continue;
        fault = fault_named(arguments[i + 1]);
        const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
        arguments.erase(at, at + 2);
        break;
    }
    if (!fault || (*fault == Fault::forced_hit && !swap_heads_on_stdin())) {
        std::fputs(
            "--fault: allowed are none, flipped_page, skipped_restore, forced_hit, lost_device\n",
            stderr);
        return static_cast<int>(ExitStatus::bad_option);
    }
    const auto load = [planted = *fault](const EngineOptions& options, const LoadProgress& say) {
        return load_faulty(options, say, planted);
    };
    return engine_main(static_cast<int>(arguments.size()), arguments.data(), load);
}

}  // namespace

}  // namespace strata::tests

int main(int argc, char** argv) {
    return strata::tests::run({argv, argv + argc});
}
