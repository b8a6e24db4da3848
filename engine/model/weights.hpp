// The tensors of a model file, or of a set of split files, by name. Owns the mappings and the
// checks of type, shape and place; which tensors a model needs is the architecture's.
//
// Invariants
// 1. Every tensor that find() gives lies inside its mapping and has exactly the bytes of its shape.
// 2. A name occurs once in the whole set.
// 3. Split sets are whole: parts 1 to N are there, agree on N and hold all the tensors they
// promise.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"

namespace strata {

// Parts of one split model. The largest released ones have a few dozen.
inline constexpr std::uint64_t kSplitPartsMax = 1'024;

// The element type of a ggml type id; nothing when this engine has no decoder for it.
[[nodiscard]] std::optional<ElementType> element_type_of(std::uint32_t ggml_type);

class Weights {
  public:
    // `path`: a model file, or any part of a split set ("NAME-00001-of-00003.gguf").
    static Result<Weights> open(const std::string& path);
    // A whole model file that is in memory; `name` is what refusals call it.
    static Result<Weights> open(const std::string& name, const ModelImage& image);

    // The metadata (of the first part).
    const gguf::Header& header() const { return parts_.front().header; }
    bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

    // The tensor `name`, whose shape must be `dims` (contiguous dimension first; trailing ones do
    // not count). Refuses a missing tensor, another shape, a type without a decoder.
    Result<StoredTensor> find(std::string_view name,
                              std::initializer_list<std::int64_t> dims) const;
    // The same, but a missing tensor is no fault.
    Result<std::optional<StoredTensor>> find_optional(
        std::string_view name, std::initializer_list<std::int64_t> dims) const;
    // What products with the weight `name` ("...weight") are multiplied by: the values of its
    // companion tensor "... .scale" (NVFP4 files have them): one, or one for each of `experts`;
    // empty when there is none.
    Result<std::vector<float>> companion_scale(std::string_view name, std::int64_t experts) const;

    // Bytes of all tensors, and the type that most of them have (the file's word for its
    // quantisation).
    std::uint64_t tensor_bytes() const { return tensor_bytes_; }
    std::string main_type() const;

    // Content fingerprint: 32 hex digits, XXH3-128 over all bytes of all parts in order. Reads
    // every page once (measured on one core: 10 GB/s of mapped pages), so that two files that
    // differ anywhere differ here: a saved conversation must never meet other weights.
    std::string fingerprint() const;

  private:
    struct Part {
        ModelImage file;
        gguf::Header header;
    };
    struct Place {
        std::size_t part = 0;
        std::size_t index = 0;  // in the part's tensor table
    };

    Weights() = default;
    Status<> add_part(const std::string& path);
    Status<> add_part(const std::string& name, ModelImage file);
    const gguf::TensorInfo& tensor(const Place& place) const {
        return parts_[place.part].header.tensors[place.index];
    }

    std::vector<Part> parts_;
    std::map<std::string, Place, std::less<>> tensors_;
    std::uint64_t tensor_bytes_ = 0;
};

}  // namespace strata
