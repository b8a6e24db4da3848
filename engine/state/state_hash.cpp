// See state/state_hash.hpp.
#include "strata/state/state_hash.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include <openssl/evp.h>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

static_assert(std::endian::native == std::endian::little, "hashes are of little-endian bytes");

class Sha256 {
  public:
    Sha256() : digest_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
        STRATA_INVARIANT(digest_ && EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr) == 1);
    }

    void add(const void* bytes, std::size_t count) {
        STRATA_INVARIANT(EVP_DigestUpdate(digest_.get(), bytes, count) == 1);
    }

    std::string hex() {
        std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
        unsigned int count = 0;
        STRATA_INVARIANT(EVP_DigestFinal_ex(digest_.get(), raw.data(), &count) == 1);
        constexpr char kDigits[] = "0123456789abcdef";
        std::string text;
        for (unsigned int i = 0; i < count; ++i) {
            text += kDigits[raw[i] >> 4];
            text += kDigits[raw[i] & 15];
        }
        return text;
    }

  private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest_;
};

// Adds device memory to the digest, page by page: `bytes` at `address`.
void add_device(Sha256& sha, const LiveSession& session, const void* address, std::size_t bytes,
                std::vector<std::byte>& staging) {
    staging.resize(std::max(staging.size(), bytes));
    session.device().copy_to_host(staging.data(), address, bytes);
    sha.add(staging.data(), bytes);
}

}  // namespace

std::string logits_sha256(std::span<const float> logits) {
    Sha256 sha;
    sha.add(logits.data(), logits.size_bytes());
    return sha.hex();
}

std::string state_sha256(const LiveSession& session) {
    STRATA_INVARIANT(session.valid());
    const Geometry& geometry = session.geometry();
    const SequenceMemory memory = session.memory();
    const auto rows = static_cast<std::uint64_t>(session.frontier());
    constexpr auto kPageRows = static_cast<std::uint64_t>(kPageTokens);
    session.device().synchronize();
    Sha256 sha;
    std::vector<std::byte> staging;
    sha.add(&rows, sizeof rows);

    const std::size_t k_bytes = geometry.k_row_bytes;
    const std::size_t v_bytes = geometry.v_row_bytes;
    const std::size_t layer_bytes = (k_bytes + v_bytes) * kPageRows;
    for (std::size_t layer = 0; layer < geometry.attention_layers(); ++layer) {
        for (const bool values : {false, true}) {
            const std::size_t row_bytes = values ? v_bytes : k_bytes;
            const std::size_t offset = layer * layer_bytes + (values ? k_bytes * kPageRows : 0);
            for (std::uint64_t first = 0; first < rows; first += kPageRows) {
                const auto* page = static_cast<const std::byte*>(memory.pages[first / kPageRows]);
                const std::uint64_t count = std::min(kPageRows, rows - first);
                add_device(sha, session, page + offset, count * row_bytes, staging);
            }
        }
    }
    const auto* state = static_cast<const std::byte*>(memory.running_state);
    const std::size_t recurrent_bytes = geometry.matrix_state_bytes + geometry.conv_state_bytes;
    for (std::size_t layer = 0; layer < geometry.recurrent_layers(); ++layer) {
        add_device(sha, session, state + layer * recurrent_bytes, recurrent_bytes, staging);
    }
    return sha.hex();
}

}  // namespace strata
