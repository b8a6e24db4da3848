// Tensors by name: one file, split sets, shapes, types, companions; and the seven reference models
// whole.
#include "engine/model/weights.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <sys/stat.h>

#include "engine/model/model_config.hpp"
#include "engine/model/split_name.hpp"
#include "engine/model/vocabulary.hpp"
#include "tests/engine/model/gguf_bytes.hpp"

using namespace strata;
using Catch::Matchers::Contains;
using test::Bytes;
using test::GgufFile;
using test::Pieces;
using test::ScratchFolder;

namespace {

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ80 = 8;

Bytes floats(const std::vector<float>& values) {
    Pieces out;
    for (const float value : values) out.number(value);
    return out.bytes;
}

std::string refusal_of_open(const std::string& path) {
    const auto weights = Weights::open(path);
    REQUIRE_FALSE(weights);
    return weights.error().text;
}

Weights opened(const std::string& path) {
    auto weights = Weights::open(path);
    INFO((weights ? std::string() : weights.error().text));
    REQUIRE(weights);
    return std::move(weights).value();
}

// Part `number` (from 0) of `count`, with one tensor of its own.
GgufFile part(std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
    GgufFile file;
    file.u16("split.no", number).u16("split.count", count).i32("split.tensors.count", tensors);
    if (number == 0) file.text("general.name", "whole");
    file.tensor("t" + std::to_string(number), {2}, kF32, floats({1.0F * number, 2.0F}));
    return file;
}

std::string part_name(std::uint64_t number, std::uint64_t count) {
    return "m" + split_suffix(number, count);
}

}  // namespace

TEST_CASE("a tensor is found with its type and shape and bytes") {
    const ScratchFolder folder;
    GgufFile file;
    file.tensor("vector", {3}, kF32, floats({1.0F, 2.0F, 3.0F}))
        .tensor("matrix", {64, 5}, kQ80, 340);
    file.tensor("cube", {32, 4, 3}, kQ80, 408).tensor("column", {2, 1}, kF32, floats({4.0F, 5.0F}));
    const Weights weights = opened(folder.write("m.gguf", file.bytes()));
    const auto vector = weights.find("vector", {3});
    REQUIRE(vector);
    CHECK(vector->cols == 3);
    CHECK(vector->rows == 1);
    CHECK(vector->experts == 1);
    REQUIRE(vector->bytes.size() == 12);
    CHECK(std::memcmp(vector->bytes.data(), floats({1.0F, 2.0F, 3.0F}).data(), 12) == 0);
    const auto matrix = weights.find("matrix", {64, 5});
    REQUIRE(matrix);
    CHECK(matrix->type == ElementType::q8_0);
    CHECK(matrix->cols == 64);
    CHECK(matrix->rows == 5);
    CHECK(matrix->bytes.size() == 340);
    CHECK(weights.find("cube", {32, 4, 3})->experts == 3);
    CHECK(weights.find("column", {2}));
    CHECK(weights.find("vector", {3, 1, 1}));
    CHECK(weights.tensor_bytes() == 12 + 340 + 408 + 8);
    CHECK(weights.main_type() == "Q8_0");
}

TEST_CASE("a missing tensor or another shape or type is refused by name") {
    const ScratchFolder folder;
    GgufFile file;
    file.tensor("t", {64, 5}, kQ80, 340)
        .tensor("old", {256}, 10, 84)
        .tensor("four", {1, 1, 1, 2}, kF32, 8);
    const Weights weights = opened(folder.write("m.gguf", file.bytes()));
    CHECK_THAT(weights.find("absent", {4, 2}).error().text,
               Contains("\"absent\" is missing") && Contains("{4, 2}"));
    CHECK_THAT(weights.find("t", {64, 6}).error().text, Contains("{64, 5}") && Contains("{64, 6}"));
    CHECK_THAT(weights.find("t", {5, 64}).error().text, Contains("\"t\""));
    CHECK_THAT(weights.find("t", {64}).error().text, Contains("{64, 5}"));
    CHECK_THAT(weights.find("t", {-64, 5}).error().text, Contains("{64, 5}"));
    CHECK_THAT(weights.find("old", {256}).error().text,
               Contains("Q2_K") && Contains("Q4_K") && Contains("NVFP4"));
    CHECK_THAT(weights.find("four", {1, 1, 1, 2}).error().text, Contains("four dimensions"));
    CHECK(weights.contains("t"));
    CHECK_FALSE(weights.contains("absent"));
    CHECK_FALSE(weights.find_optional("absent", {4})->has_value());
    CHECK(weights.find_optional("t", {64, 5})->has_value());
    CHECK_FALSE(weights.find_optional("t", {64}));
}

TEST_CASE("companion scales are one value or one for each expert") {
    const ScratchFolder folder;
    GgufFile file;
    file.tensor("a.scale", {1}, kF32, floats({0.5F}))
        .tensor("b.scale", {3}, kF32, floats({1.0F, 2.0F, 3.0F}));
    file.tensor("c.scale", {2}, kF32, floats({1.0F, 2.0F}))
        .tensor("d.scale", {1}, kF32, Pieces().u32(0x7FC00000).bytes);
    file.tensor("e.scale", {1}, 1, 2);
    const Weights weights = opened(folder.write("m.gguf", file.bytes()));
    CHECK(weights.companion_scale("none.weight", 1)->empty());
    CHECK(weights.companion_scale("a.weight", 1).value() == std::vector<float>{0.5F});
    CHECK(weights.companion_scale("a.weight", 3).value() == std::vector<float>{0.5F});
    CHECK(weights.companion_scale("b.weight", 3).value() == std::vector<float>{1.0F, 2.0F, 3.0F});
    CHECK_THAT(weights.companion_scale("c.weight", 3).error().text,
               Contains("\"c.scale\"") && Contains("{3}"));
    CHECK_THAT(weights.companion_scale("d.weight", 1).error().text, Contains("finite"));
    CHECK_THAT(weights.companion_scale("e.weight", 1).error().text, Contains("F32"));
}

TEST_CASE("a split set is read whole from any of its parts") {
    const ScratchFolder folder;
    for (std::uint16_t n = 0; n < 3; ++n) folder.write(part_name(n + 1U, 3), part(n, 3, 3).bytes());
    for (std::uint64_t n = 1; n <= 3; ++n) {
        const Weights weights = opened(folder.path(part_name(n, 3)));
        CHECK(weights.header().string_value("general.name").value() == "whole");
        for (std::uint16_t t = 0; t < 3; ++t) {
            const auto tensor = weights.find("t" + std::to_string(t), {2});
            REQUIRE(tensor);
            CHECK(std::memcmp(tensor->bytes.data(), floats({1.0F * t, 2.0F}).data(), 8) == 0);
        }
        CHECK(weights.tensor_bytes() == 24);
    }
}

TEST_CASE("a split set with a missing or wrong part is refused by file") {
    const ScratchFolder folder;
    const auto first = folder.write(part_name(1, 2), part(0, 2, 2).bytes());
    CHECK_THAT(refusal_of_open(first), Contains("00002-of-00002"));
    folder.write(part_name(2, 2), part(0, 2, 2).bytes());
    CHECK_THAT(refusal_of_open(first), Contains("00002-of-00002"));
    folder.write(part_name(2, 2), part(1, 3, 2).bytes());
    CHECK_THAT(refusal_of_open(first), Contains("part 2 of 3") && Contains("part 2 of 2"));
    folder.write(part_name(2, 2), GgufFile().tensor("t1", {2}, kF32, 8).bytes());
    CHECK_THAT(refusal_of_open(first), Contains("part 1 of 1"));
    folder.write(part_name(2, 2), GgufFile(part(1, 2, 2)).tensor("t0", {2}, kF32, 8).bytes());
    CHECK_THAT(refusal_of_open(first), Contains("\"t0\"") && Contains("another part"));
    folder.write(part_name(2, 2), GgufFile(part(1, 2, 2)).tensor("t9", {2}, kF32, 8).bytes());
    CHECK_THAT(refusal_of_open(first),
               Contains("3 tensors") && Contains("split.tensors.count is 2"));
    folder.write(part_name(2, 2), part(1, 2, 2).bytes());
    CHECK(Weights::open(first));
}

TEST_CASE("a split file of another name or with absurd counts is refused") {
    const ScratchFolder folder;
    CHECK_THAT(refusal_of_open(folder.write("renamed.gguf", part(0, 2, 2).bytes())),
               Contains("-00001-of-00002.gguf"));
    CHECK_THAT(refusal_of_open(folder.write(part_name(2, 2), part(0, 2, 2).bytes())),
               Contains("part 1 of 2"));
    CHECK_THAT(refusal_of_open(folder.write(part_name(1, 5'000), part(0, 5'000, 2).bytes())),
               Contains("1024"));
    CHECK_THAT(refusal_of_open(folder.write(part_name(1, 2), part(2, 2, 2).bytes())),
               Contains("split.no"));
    CHECK_THAT(
        refusal_of_open(folder.write(part_name(1, 2), GgufFile().u16("split.count", 2).bytes())),
        Contains("split.no"));
    CHECK_THAT(
        refusal_of_open(folder.write(part_name(1, 2), GgufFile().text("split.count", "2").bytes())),
        Contains("split.count"));
    CHECK(Weights::open(
        folder.write("single.gguf", GgufFile().u16("split.no", 0).u16("split.count", 1).bytes())));
}

TEST_CASE("split names are read only in their own form") {
    const auto name = parse_split_name("/a/b-00003-of-00012.gguf");
    REQUIRE(name);
    CHECK(name->stem == "/a/b");
    CHECK(name->number == 3);
    CHECK(name->count == 12);
    for (const char* bad :
         {"", "a.gguf", "a-0003-of-00012.gguf", "a-00003-of-0001x.gguf", "a-00003-of-00012.ggu",
          "a-00003 of 00012.gguf", "a-+0003-of-00012.gguf", "a_00003-of-00012.gguf"}) {
        INFO(bad);
        CHECK_FALSE(parse_split_name(bad));
    }
}

TEST_CASE("what cannot be mapped is refused without waiting") {
    const ScratchFolder folder;
    CHECK_THAT(refusal_of_open(folder.path("absent.gguf")), Contains("absent.gguf"));
    CHECK_THAT(refusal_of_open(folder.path("")), Contains("not a regular file"));
    REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
    CHECK_THAT(refusal_of_open(folder.path("pipe")), Contains("not a regular file"));
    CHECK_THAT(refusal_of_open(folder.write("empty.gguf", {})), Contains("empty"));
    CHECK_THAT(
        refusal_of_open(folder.write("text.gguf", Pieces().raw("no model at all, sorry.").bytes)),
        Contains("not a GGUF file"));
}

TEST_CASE("the fingerprint follows every byte") {
    const ScratchFolder folder;
    const Bytes bytes =
        GgufFile().text("k", "v").tensor("t", {4}, kF32, floats({1, 2, 3, 4})).bytes();
    const std::string original = opened(folder.write("a.gguf", bytes)).fingerprint();
    CHECK(original.size() == 32);
    CHECK(original == opened(folder.write("b.gguf", bytes)).fingerprint());
    // XXH3-128 of the file's bytes: the last tensor byte and a metadata byte count.
    for (const std::size_t at : {bytes.size() - 17, std::size_t{45}}) {
        Bytes changed = bytes;
        changed[at] ^= std::byte{1};
        CHECK(opened(folder.write("c.gguf", changed)).fingerprint() != original);
    }
    for (std::uint16_t n = 0; n < 2; ++n) folder.write(part_name(n + 1U, 2), part(n, 2, 2).bytes());
    const std::string split = opened(folder.path(part_name(1, 2))).fingerprint();
    CHECK(split.size() == 32);
    CHECK(split == opened(folder.path(part_name(2, 2))).fingerprint());
}
