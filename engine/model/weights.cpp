#include "engine/model/weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <xxhash.h>

#include "engine/model/mapped_file.hpp"
#include "engine/model/split_name.hpp"
#include "strata/core/checked.hpp"

namespace strata {
namespace {

struct TypeId {
    std::uint32_t ggml;
    ElementType type;
};
constexpr std::array<TypeId, 12> kTypeIds = {{
    {0, ElementType::f32},
    {1, ElementType::f16},
    {30, ElementType::bf16},
    {8, ElementType::q8_0},
    {2, ElementType::q4_0},
    {12, ElementType::q4_k},
    {13, ElementType::q5_k},
    {14, ElementType::q6_k},
    {20, ElementType::iq4_nl},
    {21, ElementType::iq3_s},
    {39, ElementType::mxfp4},
    {40, ElementType::nvfp4},
}};

std::string supported_types() {
    std::string out;
    for (const auto& id : kTypeIds) {
        out += (out.empty() ? "" : ", ") + std::string(element_type_name(id.type));
    }
    return out;
}

template <class Dims>
std::string shape_text(const Dims& dims) {
    std::string out = "{";
    for (const auto dim : dims) out += (out.size() == 1 ? "" : ", ") + std::to_string(dim);
    return out + "}";
}

// Shapes are equal but for trailing ones.
bool same_shape(const std::vector<std::uint64_t>& stored,
                std::initializer_list<std::int64_t> wanted) {
    const std::size_t longest = std::max(stored.size(), wanted.size());
    for (std::size_t i = 0; i < longest; ++i) {
        const std::uint64_t have = i < stored.size() ? stored[i] : 1;
        const std::int64_t want = i < wanted.size() ? wanted.begin()[i] : 1;
        if (have != static_cast<std::uint64_t>(want)) return false;
    }
    return true;
}

struct SplitFacts {
    std::uint64_t number = 0;  // from 0
    std::uint64_t count = 1;
    std::optional<std::uint64_t> tensors;
};

Result<SplitFacts> split_facts(const gguf::Header& header) {
    SplitFacts out;
    if (header.find("split.count") == nullptr) return out;
    const auto count = header.unsigned_value("split.count");
    if (!count) return count.failure();
    const auto number = header.unsigned_value("split.no");
    if (!number) return number.failure();
    if (*count < 1 || *count > kSplitPartsMax || *number >= *count) {
        return refuse("metadata keys split.no, split.count are " + std::to_string(*number) + ", " +
                      std::to_string(*count) + "; allowed are at most " +
                      std::to_string(kSplitPartsMax) + " parts, numbered from 0");
    }
    out.number = *number;
    out.count = *count;
    if (header.find("split.tensors.count") != nullptr) {
        const auto tensors = header.unsigned_value("split.tensors.count");
        if (!tensors) return tensors.failure();
        out.tensors = *tensors;
    }
    return out;
}

// The paths of all parts in order, and what the part at `path` says of the set.
Result<std::vector<std::string>> part_paths(const std::string& path, const SplitFacts& facts) {
    if (facts.count == 1) return std::vector<std::string>{path};
    const auto name = parse_split_name(path);
    if (!name || name->count != facts.count || name->number != facts.number + 1) {
        return refuse("model file " + gguf::in_quotes(path) + " is part " +
                      std::to_string(facts.number + 1) + " of " + std::to_string(facts.count) +
                      "; its name must end in " +
                      gguf::in_quotes(split_suffix(facts.number + 1, facts.count)));
    }
    std::vector<std::string> out;
    for (std::uint64_t n = 1; n <= facts.count; ++n)
        out.push_back(name->stem + split_suffix(n, facts.count));
    return out;
}

Status<> check_part(const std::string& path, const gguf::Header& header, std::uint64_t number,
                    std::uint64_t count) {
    const auto facts = split_facts(header);
    if (!facts) return refuse("model file " + gguf::in_quotes(path) + ": " + facts.error().text);
    if (facts->number == number && facts->count == count) return Done{};
    return refuse("model file " + gguf::in_quotes(path) + " says that it is part " +
                  std::to_string(facts->number + 1) + " of " + std::to_string(facts->count) +
                  "; expected is part " + std::to_string(number + 1) + " of " +
                  std::to_string(count));
}

}  // namespace

std::optional<ElementType> element_type_of(std::uint32_t ggml_type) {
    for (const auto& id : kTypeIds) {
        if (id.ggml == ggml_type) return id.type;
    }
    return std::nullopt;
}

Status<> Weights::add_part(const std::string& path) {
    auto file = MappedFile::open(path);
    if (!file) return file.failure();
    const auto mapping = std::make_shared<const MappedFile>(std::move(file).value());
    return add_part(path, {mapping->bytes(), mapping});
}

Status<> Weights::add_part(const std::string& path, ModelImage file) {
    auto header = gguf::parse_header(file.bytes, file.bytes.size());
    if (!header) return refuse("model file " + gguf::in_quotes(path) + ": " + header.error().text);
    const std::size_t part = parts_.size();
    for (std::size_t i = 0; i < header->tensors.size(); ++i) {
        const gguf::TensorInfo& tensor = header->tensors[i];
        if (!tensors_.emplace(tensor.name, Place{part, i}).second) {
            return refuse("model file " + gguf::in_quotes(path) + ": tensor " +
                          gguf::in_quotes(tensor.name) + " is in another part, too");
        }
        const auto bytes = gguf::stored_bytes(tensor);
        if (!bytes)
            return refuse("model file " + gguf::in_quotes(path) + ": " + bytes.error().text);
        tensor_bytes_ += *bytes;
    }
    parts_.push_back({std::move(file), std::move(header).value()});
    return Done{};
}

Result<Weights> Weights::open(const std::string& path) {
    Weights opened;
    if (auto added = opened.add_part(path); !added) return added.failure();
    const auto facts = split_facts(opened.header());
    if (!facts) return refuse("model file " + gguf::in_quotes(path) + ": " + facts.error().text);
    const auto paths = part_paths(path, *facts);
    if (!paths) return paths.failure();
    if (facts->count == 1) return opened;
    Weights out;
    for (std::uint64_t n = 0; n < facts->count; ++n) {
        const std::string& part = (*paths)[static_cast<std::size_t>(n)];
        if (auto added = out.add_part(part); !added) return added.failure();
        if (auto right = check_part(part, out.parts_.back().header, n, facts->count); !right) {
            return right.failure();
        }
    }
    const auto promised = split_facts(out.header());
    if (promised && promised->tensors && *promised->tensors != out.tensors_.size()) {
        return refuse("the parts of model file " + gguf::in_quotes(path) + " hold " +
                      std::to_string(out.tensors_.size()) + " tensors; split.tensors.count is " +
                      std::to_string(*promised->tensors));
    }
    return out;
}

Result<Weights> Weights::open(const std::string& name, const ModelImage& image) {
    Weights opened;
    if (auto added = opened.add_part(name, image); !added) return added.failure();
    return opened;
}

Result<StoredTensor> Weights::find(std::string_view name,
                                   std::initializer_list<std::int64_t> dims) const {
    const std::string what = "tensor " + gguf::in_quotes(name);
    const auto at = tensors_.find(name);
    if (at == tensors_.end())
        return refuse(what + " is missing; its shape would be " + shape_text(dims));
    const gguf::TensorInfo& stored = tensor(at->second);
    if (!same_shape(stored.dims, dims)) {
        return refuse(what + " has the shape " + shape_text(stored.dims) +
                      "; the metadata asks for " + shape_text(dims));
    }
    const auto type = element_type_of(stored.type);
    if (!type) {
        return refuse(what + " has the type " + std::string(gguf::type_facts(stored.type)->name) +
                      "; supported are " + supported_types());
    }
    const auto bytes = gguf::stored_bytes(stored);
    if (!bytes) return bytes.failure();
    const auto dim = [&](std::size_t i) {
        return i < stored.dims.size() ? static_cast<std::int64_t>(stored.dims[i]) : std::int64_t{1};
    };
    if (dim(3) != 1) return refuse(what + " has four dimensions; at most three have a meaning");
    const Part& part = parts_[at->second.part];
    StoredTensor out{*type, dim(0), dim(1), dim(2), {}};
    out.bytes =
        part.file.bytes.subspan(static_cast<std::size_t>(part.header.data_start + stored.offset),
                                static_cast<std::size_t>(*bytes));
    return out;
}

Result<std::optional<StoredTensor>> Weights::find_optional(
    std::string_view name, std::initializer_list<std::int64_t> dims) const {
    if (!contains(name)) return std::optional<StoredTensor>();
    const auto found = find(name, dims);
    if (!found) return found.failure();
    return std::optional<StoredTensor>(*found);
}

Result<std::vector<float>> Weights::companion_scale(std::string_view name,
                                                    std::int64_t experts) const {
    constexpr std::string_view kSuffix = ".weight";
    if (name.ends_with(kSuffix)) name.remove_suffix(kSuffix.size());
    const std::string companion = std::string(name) + ".scale";
    const auto at = tensors_.find(companion);
    if (at == tensors_.end()) return std::vector<float>();
    const bool one = same_shape(tensor(at->second).dims, {1});
    const auto stored = find(companion, {one ? 1 : experts});
    if (!stored) return stored.failure();
    const std::string what = "tensor " + gguf::in_quotes(companion);
    if (stored->type != ElementType::f32) return refuse(what + " must be of type F32");
    std::vector<float> out(static_cast<std::size_t>(stored->cols));
    std::memcpy(out.data(), stored->bytes.data(), stored->bytes.size());
    for (const float value : out) {
        if (!std::isfinite(value)) return refuse(what + " holds a value that is no finite number");
    }
    return out;
}

std::string Weights::main_type() const {
    std::map<std::string_view, std::uint64_t> bytes_by_type;
    for (const auto& [name, place] : tensors_) {
        const gguf::TensorInfo& stored = tensor(place);
        bytes_by_type[gguf::type_facts(stored.type)->name] += gguf::stored_bytes(stored).value();
    }
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto most = std::max_element(bytes_by_type.begin(), bytes_by_type.end(), less);
    return most == bytes_by_type.end() ? std::string() : std::string(most->first);
}

std::string Weights::fingerprint() const {
    if (!parts_.front().file.fingerprint.empty()) return parts_.front().file.fingerprint;
    // A single part needs no state; several are hashed as one stream by hashing their digests.
    std::vector<XXH128_canonical_t> digests;
    for (const auto& part : parts_) {
        const auto bytes = part.file.bytes;
        XXH128_canonicalFromHash(&digests.emplace_back(), XXH3_128bits(bytes.data(), bytes.size()));
    }
    XXH128_canonical_t digest = digests.front();
    if (digests.size() > 1) {
        XXH128_canonicalFromHash(&digest,
                                 XXH3_128bits(digests.data(), digests.size() * sizeof digest));
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out;
    for (const unsigned char byte : digest.digest) out += {kHex[byte >> 4], kHex[byte & 15]};
    return out;
}

}  // namespace strata
