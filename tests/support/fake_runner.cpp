// See fake_runner.hpp.
#include "fake_runner.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

#include "strata/core/invariant.hpp"

namespace strata::tests {

namespace {

constexpr std::size_t kKeyBytes = 16;   // hash of the rows below, token and position
constexpr std::size_t kValueBytes = 8;  // hash of both
constexpr std::size_t kMatrixBytes = 32;
constexpr std::size_t kWindowRows = 3;
constexpr std::size_t kConvBytes = kWindowRows * sizeof(std::uint64_t);

// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over a sum.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x632BE59BD9B4E019ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

std::byte* row_address(const Geometry& geometry, const SequenceMemory& memory, std::size_t layer,
                       Position row, bool values) {
    constexpr auto kRows = static_cast<std::size_t>(kPageTokens);
    const auto at = static_cast<std::size_t>(row);
    auto* page = static_cast<std::byte*>(memory.pages[at / kRows]);
    page += layer * kRows * (geometry.k_row_bytes + geometry.v_row_bytes);
    return values ? page + kRows * geometry.k_row_bytes + at % kRows * geometry.v_row_bytes
                  : page + at % kRows * geometry.k_row_bytes;
}

}  // namespace

Result<Buffer> FakeDevice::allocate(std::size_t bytes) {
    called();
    if (*held_ + bytes > limit_bytes) {
        return refuse_memory("the fake device has no " + std::to_string(bytes) + " bytes");
    }
    *held_ += bytes;
    auto* memory = new std::vector<std::byte>(bytes);
    const std::shared_ptr<void> owner(memory, [held = held_](void* gone) {
        auto* bytes_of = static_cast<std::vector<std::byte>*>(gone);
        *held -= bytes_of->size();
        delete bytes_of;
    });
    return Buffer(memory->data(), bytes, owner);
}

Result<std::unique_ptr<Weight>> FakeDevice::upload(const StoredTensor&) {
    return refuse("the fake device holds no weights");
}

Result<Buffer> FakeDevice::upload_values(const StoredTensor&) {
    return refuse("the fake device holds no weights");
}

void FakeDevice::copy_to_host(void* to, const void* from_device, std::size_t bytes) {
    called();
    finish_all();
    std::memcpy(to, from_device, bytes);
}

void FakeDevice::copy_to_host_aside(void* to, const void* from_device, std::size_t bytes) {
    called();
    std::memcpy(to, from_device, bytes);
}

void FakeDevice::copy_from_host(void* to_device, const void* from, std::size_t bytes) {
    called();
    finish_all();
    std::memcpy(to_device, from, bytes);
}

void FakeDevice::copy_on_device(void* to_device, const void* from_device, std::size_t bytes) {
    called();
    finish_all();
    std::memcpy(to_device, from_device, bytes);
}

void FakeDevice::start_copies_from_host(std::span<const HostCopy> copies,
                                        std::span<const CopyStage> stages) {
    if (!aside) return Device::start_copies_from_host(copies, stages);
    called();
    if (!going_.empty()) throw std::logic_error("copies from the host go on already");
    for (const HostCopy& copy : copies) std::memset(copy.to_device, 0xa5, copy.bytes);
    std::size_t done = 0;
    for (const CopyStage& stage : stages) {
        const auto part = copies.subspan(done, stage.copies - done);
        going_.push_back({{part.begin(), part.end()}, stage.page_bytes});
        done = stage.copies;
    }
    const auto rest = copies.subspan(done);
    if (!rest.empty()) going_.push_back({{rest.begin(), rest.end()}, SIZE_MAX});
    stages_begun += going_.size();
    there_ = 0;
}

void FakeDevice::finish_one() {
    Going now = std::move(going_.front());
    going_.erase(going_.begin());
    std::shuffle(now.copies.begin(), now.copies.end(), random_);
    for (const HostCopy& copy : now.copies) {
        std::memcpy(copy.to_device, copy.from, copy.bytes);
        bytes_in += copy.bytes;
    }
    there_ = now.page_bytes;
}

void FakeDevice::finish_all() {
    while (!going_.empty()) finish_one();
}

void FakeDevice::await_rows(std::size_t page_bytes) {
    while (!going_.empty() && (there_ == 0 || there_ < page_bytes)) finish_one();
}

double FakeDevice::finish_copies() {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(copies_ms));
    finish_all();
    return copies_ms;
}

Ops& FakeDevice::ops() {
    throw std::logic_error("the fake device computes nothing");
}

FakeRunner::FakeRunner(const FakeShape& shape, std::shared_ptr<FakeDevice> device)
    : shape_(shape), device_(std::move(device)) {
    geometry_.architecture = shape.recurrent ? "fake_hybrid" : "fake_attention";
    geometry_.quantisation = "none";
    geometry_.vocabulary = shape.vocabulary;
    geometry_.trained_context = 100'000;
    geometry_.kv_type = KvType::f16;
    geometry_.k_row_bytes = std::max(kKeyBytes, shape.row_bytes);
    geometry_.v_row_bytes = std::max(kValueBytes, shape.row_bytes);
    geometry_.layers = {LayerKind::attention, LayerKind::attention};
    if (shape.recurrent) {
        geometry_.layers = {LayerKind::recurrent, LayerKind::attention, LayerKind::recurrent,
                            LayerKind::attention};
        geometry_.matrix_state_bytes = kMatrixBytes;
        geometry_.conv_state_bytes = kConvBytes;
    }
    geometry_.kv_choices = {{KvType::f16, geometry_.kv_bytes_per_token()}};
    facts_.end_ids = {kFakeEnd};
    facts_.turn_open = kFakeTurnOpen;
    facts_.system_word = kFakeSystem;
    facts_.model_id = "fa4e";
    facts_.name = "fake";
}

std::uint64_t FakeRunner::read_rows(const SequenceMemory& memory, std::size_t layer,
                                    Position rows) const {
    std::uint64_t hash = layer;
    for (Position row = 0; row < rows; ++row) {
        std::array<std::uint64_t, 2> key{};
        std::uint64_t value = 0;
        std::memcpy(key.data(), row_address(geometry_, memory, layer, row, false), kKeyBytes);
        std::memcpy(&value, row_address(geometry_, memory, layer, row, true), kValueBytes);
        hash = mix(mix(hash, mix(key[0], key[1])), value);
    }
    return hash;
}

// Writes one row and returns the hash of it and all below.
std::uint64_t FakeRunner::write_row(const SequenceMemory& memory, std::size_t layer, Position row,
                                    TokenId id, std::uint64_t below) const {
    const auto token = static_cast<std::uint64_t>(id);
    const auto position = static_cast<std::uint64_t>(row);
    const std::array<std::uint64_t, 2> key{mix(below, token) + steering_salt(),
                                           mix(position, token)};
    const std::uint64_t value = mix(key[0], key[1] + layer);
    std::memcpy(row_address(geometry_, memory, layer, row, false), key.data(), kKeyBytes);
    std::memcpy(row_address(geometry_, memory, layer, row, true), &value, kValueBytes);
    return mix(mix(below, mix(key[0], key[1])), value);
}

std::uint64_t FakeRunner::advance_state(const SequenceMemory& memory,
                                        std::span<const TokenId> ids) const {
    std::uint64_t hash = 0;
    auto* state = static_cast<std::byte*>(memory.running_state);
    for (std::size_t layer = 0; layer < geometry_.recurrent_layers(); ++layer) {
        std::array<std::uint64_t, kMatrixBytes / 8> matrix{};
        std::array<std::uint64_t, kWindowRows> window{};
        std::memcpy(matrix.data(), state, kMatrixBytes);
        std::memcpy(window.data(), state + kMatrixBytes, kConvBytes);
        for (const TokenId id : ids) {
            const auto token = static_cast<std::uint64_t>(id);
            for (auto& word : matrix) {
                word = mix(word + layer, mix(token, window[0])) + steering_salt();
            }
            std::rotate(window.begin(), window.begin() + 1, window.end());
            window.back() = token + 1;
        }
        std::memcpy(state, matrix.data(), kMatrixBytes);
        std::memcpy(state + kMatrixBytes, window.data(), kConvBytes);
        for (const auto word : matrix) hash = mix(hash, word);
        for (const auto word : window) hash = mix(hash, word);
        state += kMatrixBytes + kConvBytes;
    }
    return hash;
}

// 0 without steering.
std::uint64_t FakeRunner::steering_salt() const {
    if (!steering()) return 0;
    std::uint64_t salt = 1;
    for (const char c : modes.at(*steering()).content)
        salt = mix(salt, static_cast<unsigned char>(c));
    return salt;
}

bool FakeRunner::compute_layers(const FakePass& pass) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
        if (on_layer) on_layer(pass, layer);
        if (!goes_on()) return false;
    }
    return true;
}

bool FakeRunner::forward(const SequenceMemory& memory, Position first, std::span<const TokenId> ids,
                         const LastRow& wanted) {
    STRATA_INVARIANT(!ids.empty() && std::ssize(ids) <= shape_.chunk_tokens);
    const FakePass pass{first, std::ssize(ids)};
    if (on_pass) on_pass(pass);
    passes.push_back(pass);
    device_->await_rows(0);
    std::uint64_t hash = advance_state(memory, ids);
    // An abandoned pass leaves what it must not be believed by: an advanced state, and no rows.
    if (!compute_layers(pass)) return false;
    for (std::size_t layer = 0; layer < geometry_.attention_layers(); ++layer) {
        device_->await_rows((layer + 1) * static_cast<std::size_t>(kPageTokens) *
                            (geometry_.k_row_bytes + geometry_.v_row_bytes));
        std::uint64_t rows = read_rows(memory, layer, first);
        Position row = first;
        for (const TokenId id : ids) rows = write_row(memory, layer, row++, id, rows);
        hash = mix(hash, rows);
    }
    if (!wanted.wanted()) return true;
    std::vector<float>& logits = logits_;
    logits.resize(static_cast<std::size_t>(shape_.vocabulary));
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const bool control = static_cast<TokenId>(i) < kFakeFirstText;
        const auto fraction = static_cast<float>(mix(hash, i) >> 40) / 16777216.0F;
        logits[i] = control ? -50.0F : fraction * 8 - 4;
    }
    const auto told = script.find(first + std::ssize(ids));
    if (told != script.end()) logits[static_cast<std::size_t>(told->second)] = 100;
    if (nan_logits) logits[0] = std::numeric_limits<float>::quiet_NaN();
    std::copy_n(logits.begin(), wanted.logits.size(), wanted.logits.begin());
    if (!wanted.logits.empty()) ++logits_given;
    const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (wanted.best != nullptr) *wanted.best = nan_logits ? -1 : static_cast<TokenId>(largest);
    if (wanted.shortlist != nullptr) list(*wanted.shortlist);
    return true;
}

void FakeRunner::list(RowShortlist& wish) {
    ++shortlists_given;
    if (wish.penalties) {
        for (const TokenCount& one : wish.seen) {
            float& logit = logits_[static_cast<std::size_t>(one.token)];
            logit = penalised(logit, one.count, *wish.penalties);
        }
    }
    listed_ = list_logits(logits_, wish.rule, listed_most);
    wish.list = &listed_.list;
    wish.weights = listed_.weights;
}

void FakeRunner::copy_logits(TokenId first, std::span<float> to) {
    logits_copied += std::ssize(to);
    std::copy_n(logits_.begin() + first, to.size(), to.begin());
}

TokenIds fake_answer(const FakeShape& shape, std::span<const TokenId> prompt, std::int64_t max_new,
                     const std::map<Position, TokenId>& script, const SteeringMode& steering) {
    auto device = std::make_shared<FakeDevice>();
    FakeRunner runner(shape, device);
    runner.script = script;
    runner.modes = {steering};
    if (!steering.content.empty()) runner.steer(0);
    const Position rows = std::ssize(prompt) + max_new;
    std::vector<Buffer> pages;
    std::vector<void*> addresses;
    for (Position row = 0; row <= rows; row += kPageTokens) {
        pages.push_back(device->allocate(runner.geometry().page_bytes()).value());
        addresses.push_back(pages.back().address());
    }
    const Buffer state = device->allocate(runner.geometry().state_bytes()).value();
    const SequenceMemory memory{addresses, state.address()};
    std::vector<float> logits(static_cast<std::size_t>(shape.vocabulary));
    Position row = 0;
    for (const TokenId id : prompt) runner.forward(memory, row++, std::span(&id, 1), logits);
    TokenIds answer;
    while (std::ssize(answer) < max_new) {
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        const auto id = static_cast<TokenId>(best);
        if (id == kFakeEnd) break;
        answer.push_back(id);
        runner.forward(memory, row++, std::span(&id, 1), logits);
    }
    return answer;
}

}  // namespace strata::tests
