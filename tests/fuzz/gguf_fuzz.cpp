// Bytes of a stranger as a model file: the container, then every reader of its metadata. What
// parses must keep the container's promises; what does not must say why.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/model/model_config.hpp"
#include "engine/model/vocabulary.hpp"
#include "protocol/gguf/gguf.hpp"

namespace {

using namespace strata;

// A property that does not hold is a crash: that is how libFuzzer is told.
void require(bool holds) {
    if (!holds) __builtin_trap();
}

bool printable(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7F; });
}

void check_message(const std::string& text) {
    require(!text.empty() && printable(text));
}

void check_tensors(const gguf::Header& header, std::uint64_t file_bytes) {
    for (const auto& tensor : header.tensors) {
        const auto bytes = gguf::stored_bytes(tensor);
        require(bytes.ok());
        require(tensor.offset % header.alignment == 0);
        require(header.data_start <= file_bytes && tensor.offset <= file_bytes - header.data_start);
        require(*bytes <= file_bytes - header.data_start - tensor.offset);
    }
}

void check_readers(const gguf::Header& header) {
    const auto config = read_model_config(header);
    if (!config) check_message(config.error().text);
    const std::int64_t vocabulary = config ? config->vocabulary : 1'000;
    const auto facts = read_vocabulary(header, vocabulary);
    if (!facts) {
        check_message(facts.error().text);
        return;
    }
    for (const TokenId id : facts->end_ids) require(id >= 0 && id < vocabulary);
    require(facts->turn_open < vocabulary && facts->system_word < vocabulary);
    if (config) static_cast<void>(geometry_of(*config, KvType::f16));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
    const std::span file(reinterpret_cast<const std::byte*>(bytes), count);
    const auto header = gguf::parse_header(file, count);
    if (!header) {
        check_message(header.error().text);
        require(!header.error().needs_more);
    } else {
        check_tensors(*header, count);
        check_readers(*header);
    }
    // Half of the file: never more than the whole says, and a request for more only for a prefix.
    const auto half = gguf::parse_header(file.first(count / 2), count);
    if (half) require(header.ok());
    if (!half && !half.error().needs_more) require(!header.ok());
    return 0;
}
