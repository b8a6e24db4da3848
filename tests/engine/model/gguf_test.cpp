// The container's parser against files written by hand: what is right is read, everything else is
// refused with a message that names it.
#include "protocol/gguf/gguf.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <sys/stat.h>

#include "tests/engine/model/gguf_bytes.hpp"

using namespace strata;
using test::Bytes;
using test::GgufFile;
using test::Pieces;
using test::ScratchFolder;

namespace {

constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;

GgufFile small_file() {
    GgufFile file;
    file.text("general.architecture", "llama").u32("llama.block_count", 2);
    file.texts("tokenizer.ggml.tokens", {"a", "", "bc"})
        .array<std::int32_t>("types", 5, {1, 3, -1});
    file.tensor("one", {32, 2}, 8, 68).tensor("two", {3}, 0, 12);
    return file;
}

Result<gguf::Header, gguf::HeaderError> parse(const Bytes& bytes) {
    return gguf::parse_header(bytes, bytes.size());
}

// The refusal of a file that must not parse.
std::string refusal_of(const Bytes& bytes) {
    const auto header = parse(bytes);
    REQUIRE_FALSE(header);
    CHECK_FALSE(header.error().needs_more);
    CHECK_FALSE(header.error().text.empty());
    return header.error().text;
}

std::string refusal_of(const Pieces& pieces) {
    return refusal_of(pieces.bytes);
}

Pieces head(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
    return Pieces().raw("GGUF").u32(version).u64(tensors).u64(keys);
}

// A file of one tensor whose entry after its name is `entry`, with 64 bytes of contents.
Bytes with_tensor(const Pieces& entry, std::string_view name = "t") {
    return head(1, 0)
        .string(name)
        .append(entry)
        .pad_to(32)
        .append(Pieces().raw(std::string(64, '\0')))
        .bytes;
}

Pieces entry(const std::vector<std::uint64_t>& dims, std::uint32_t type, std::uint64_t offset) {
    Pieces out;
    out.u32(static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) out.u64(dim);
    return out.u32(type).u64(offset);
}

Bytes with_key(std::string_view name, std::uint32_t type, const Pieces& value) {
    return head(0, 1).string(name).u32(type).append(value).bytes;
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("a file of every value type reads back what was written") {
    GgufFile file;
    file.key("u8", 0, Pieces().number(std::uint8_t{200}))
        .key("i8", 1, Pieces().number(std::int8_t{-7}));
    file.u16("u16", 60'000).key("i16", 3, Pieces().number(std::int16_t{-300}));
    file.u32("u32", 4'000'000'000U)
        .i32("i32", -5)
        .f32("f32", 0.5F)
        .flag("yes", true)
        .flag("no", false);
    file.text("text", "caf\xC3\xA9").key("u64", 10, Pieces().u64(kHuge));
    file.key("i64", 11, Pieces().number(std::int64_t{-9'000'000'000}))
        .key("f64", 12, Pieces().number(2.25));
    file.array<std::uint8_t>("bytes", 0, {1, 255}).array<std::int16_t>("shorts", 3, {-1, 2});
    file.array<float>("floats", 6, {1.5F, -2.0F}).array<std::uint8_t>("flags", 7, {1, 0, 1});
    file.array<std::uint32_t>("none", 4, {}).texts("texts", {"x", "", "yz"});
    const auto header = parse(file.bytes());
    REQUIRE(header);
    CHECK(header->metadata.size() == 19);
    CHECK(header->unsigned_value("u8").value() == 200);
    CHECK(std::get<std::int64_t>(*header->find("i8")) == -7);
    CHECK(header->unsigned_value("u16").value() == 60'000);
    CHECK(std::get<std::int64_t>(*header->find("i16")) == -300);
    CHECK(header->unsigned_value("u32").value() == 4'000'000'000U);
    CHECK(std::get<std::int64_t>(*header->find("i32")) == -5);
    CHECK(header->float_value("f32").value() == 0.5);
    CHECK(header->bool_value("yes").value());
    CHECK_FALSE(header->bool_value("no").value());
    CHECK(header->string_value("text").value() == "caf\xC3\xA9");
    CHECK(header->unsigned_value("u64").value() == kHuge);
    CHECK(std::get<std::int64_t>(*header->find("i64")) == -9'000'000'000);
    CHECK(header->float_value("f64").value() == 2.25);
    CHECK(std::get<std::vector<std::uint64_t>>(*header->find("bytes")) ==
          std::vector<std::uint64_t>{1, 255});
    CHECK(std::get<std::vector<std::int64_t>>(*header->find("shorts")) ==
          std::vector<std::int64_t>{-1, 2});
    CHECK(std::get<std::vector<double>>(*header->find("floats")) == std::vector<double>{1.5, -2.0});
    CHECK(std::get<std::vector<bool>>(*header->find("flags")) ==
          std::vector<bool>{true, false, true});
    CHECK(std::get<std::vector<std::uint64_t>>(*header->find("none")).empty());
    CHECK(std::get<gguf::StringArray>(*header->find("texts")).values ==
          std::vector<std::string>{"x", "", "yz"});
}

TEST_CASE("the tensor table gives names and shapes and places") {
    const auto bytes = small_file().bytes();
    const auto header = parse(bytes);
    REQUIRE(header);
    CHECK(header->version == 3);
    CHECK(header->alignment == 32);
    CHECK(header->data_start % 32 == 0);
    CHECK(header->data_start + 96 + 32 == bytes.size());
    REQUIRE(header->tensors.size() == 2);
    CHECK(header->tensors[0].name == "one");
    CHECK(header->tensors[0].dims == std::vector<std::uint64_t>{32, 2});
    CHECK(header->tensors[0].type == 8);
    CHECK(header->tensors[1].offset == 96);
}

TEST_CASE("version 2 and a larger alignment are read") {
    GgufFile file;
    file.version = 2;
    file.alignment = 256;
    file.u32("general.alignment", 256).tensor("a", {1}, 0, 4).tensor("b", {1}, 0, 4);
    const auto header = parse(file.bytes());
    REQUIRE(header);
    CHECK(header->version == 2);
    CHECK(header->data_start % 256 == 0);
    CHECK(header->tensors[1].offset == 256);
}

TEST_CASE("a file cut off anywhere in its header or tensors is refused") {
    const Bytes whole = small_file().bytes();
    // The padding after the last tensor may be missing: 12 of its 32 bytes are the tensor.
    const std::size_t needed = whole.size() - 32 + 12;
    for (std::size_t length = 0; length < needed; ++length) {
        INFO("length " << length);
        REQUIRE_FALSE(
            refusal_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)))
                .empty());
    }
    CHECK(parse(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(needed))));
}

TEST_CASE("a prefix that is too short asks for more until the header is whole") {
    const GgufFile file = small_file();
    const Bytes whole = file.bytes();
    for (std::size_t length = 0; length <= whole.size(); ++length) {
        const auto header = gguf::parse_header(std::span(whole).first(length), whole.size());
        INFO("length " << length);
        REQUIRE(header.ok() == (length >= file.header().size()));
        if (!header) REQUIRE(header.error().needs_more);
    }
}

TEST_CASE("a file that is not GGUF or of another version is refused by name") {
    CHECK_THAT(refusal_of(Pieces().raw("GGML").u32(3).u64(0).u64(0)), Contains("not a GGUF file"));
    CHECK_THAT(refusal_of(head(0, 0, 1)), Contains("version 1") && Contains("2 and 3"));
    CHECK_THAT(refusal_of(head(0, 0, 4)), Contains("version 4"));
    CHECK_THAT(refusal_of(head(0, 0, 0x03000000)), Contains("big-endian"));
}

TEST_CASE("counts and lengths beyond the file are refused") {
    CHECK_THAT(refusal_of(head(0, kHuge)), Contains(std::to_string(kHuge)));
    CHECK_THAT(refusal_of(head(kHuge, 0)), Contains(std::to_string(kHuge)));
    CHECK_THAT(refusal_of(head(0, gguf::kPairsMax)), Contains("metadata"));
    CHECK_THAT(refusal_of(head(gguf::kTensorsMax, 0)), Contains("tensor table"));
    CHECK_THAT(refusal_of(head(0, gguf::kPairsMax + 1)), Contains(std::to_string(gguf::kPairsMax)));
    CHECK_THAT(refusal_of(head(gguf::kTensorsMax + 1, 0)),
               Contains(std::to_string(gguf::kTensorsMax)));
    CHECK_THAT(refusal_of(head(0, 1).u64(kHuge).raw("key..........")), Contains("key 0"));
    CHECK_THAT(refusal_of(head(0, 1).u64(0).u32(0).raw("x.......")), Contains("0 bytes long"));
    CHECK_THAT(refusal_of(with_key("k", 8, Pieces().u64(kHuge).raw("abc"))), Contains("\"k\""));
    for (std::uint32_t element : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 10U, 11U, 12U}) {
        INFO("element type " << element);
        CHECK_THAT(refusal_of(with_key("k", 9, Pieces().u32(element).u64(kHuge))),
                   Contains("\"k\""));
        CHECK_THAT(refusal_of(with_key("k", 9, Pieces().u32(element).u64(1'000'000))),
                   Contains("\"k\""));
    }
}

TEST_CASE("bad metadata values are refused by the name of their key") {
    CHECK_THAT(refusal_of(with_key("k", 13, Pieces().u32(0))),
               Contains("\"k\"") && Contains("type 13"));
    CHECK_THAT(refusal_of(with_key("k", 99, Pieces().u32(0))), Contains("type 99"));
    CHECK_THAT(refusal_of(with_key("k", 7, Pieces().raw("\2"))), Contains("bool 2"));
    CHECK_THAT(refusal_of(with_key("k", 9, Pieces().u32(9).u64(1).u32(0).u64(0))),
               Contains("array of arrays"));
    CHECK_THAT(refusal_of(with_key("k", 9, Pieces().u32(13).u64(0))), Contains("type 13"));
    CHECK_THAT(refusal_of(with_key("k", 9, Pieces().u32(7).u64(2).raw("\1\3"))),
               Contains("bool 3"));
    CHECK_THAT(refusal_of(GgufFile().u32("twin", 1).u32("twin", 2).bytes()),
               Contains("\"twin\" occurs twice"));
    const std::string long_key(gguf::kKeyBytesMax + 1, 'k');
    CHECK_THAT(refusal_of(GgufFile().u32(long_key, 1).bytes()), Contains("65535"));
    CHECK(parse(GgufFile().u32(long_key.substr(1), 1).bytes()));
}

TEST_CASE("the alignment must be a power of two from 8") {
    for (const std::uint64_t bad :
         {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{4}, std::uint64_t{33},
          std::uint64_t{96}, std::uint64_t{1} << 40, kHuge, ~std::uint64_t{0}}) {
        GgufFile file;
        file.key("general.alignment", 10, Pieces().u64(bad)).tensor("a", {1}, 0, 4);
        CHECK_THAT(refusal_of(file.bytes()),
                   Contains("general.alignment is " + std::to_string(bad)));
    }
    CHECK_THAT(refusal_of(GgufFile().text("general.alignment", "32").bytes()),
               Contains("general.alignment"));
    CHECK_THAT(refusal_of(GgufFile().i32("general.alignment", -32).bytes()),
               Contains("general.alignment"));
    GgufFile smallest;
    smallest.alignment = 8;
    smallest.u32("general.alignment", 8).tensor("a", {1}, 0, 4).tensor("b", {1}, 0, 4);
    CHECK(parse(smallest.bytes()));
}

TEST_CASE("bad tensor entries are refused by the name of the tensor") {
    CHECK(parse(with_tensor(entry({16}, 0, 0))));
    CHECK_THAT(refusal_of(with_tensor(entry({}, 0, 0))), Contains("0 dimensions"));
    CHECK_THAT(refusal_of(with_tensor(entry({1, 1, 1, 1, 1}, 0, 0))), Contains("5 dimensions"));
    CHECK_THAT(refusal_of(with_tensor(entry({0}, 0, 0))), Contains("dimension of 0"));
    CHECK_THAT(refusal_of(with_tensor(entry({4, 0}, 0, 0))), Contains("dimension of 0"));
    CHECK_THAT(refusal_of(with_tensor(entry({kHuge, 2}, 0, 0))), Contains("\"t\""));
    CHECK_THAT(refusal_of(with_tensor(entry({1U << 31, 1U << 31, 4}, 0, 0))), Contains("\"t\""));
    CHECK_THAT(refusal_of(with_tensor(entry({16}, 99, 0))), Contains("type 99"));
    CHECK_THAT(refusal_of(with_tensor(entry({16}, 4, 0))), Contains("type 4"));
    CHECK_THAT(refusal_of(with_tensor(entry({33}, 8, 0))), Contains("multiple of 32"));
    CHECK_THAT(refusal_of(with_tensor(entry({16}, 0, 8))), Contains("alignment"));
    CHECK_THAT(refusal_of(with_tensor(entry({16}, 0, 32))), Contains("offset 32"));
    CHECK_THAT(refusal_of(with_tensor(entry({1}, 0, kHuge))), Contains("offset"));
    CHECK_THAT(refusal_of(with_tensor(entry({1}, 0, ~std::uint64_t{31}))), Contains("offset"));
    CHECK_THAT(refusal_of(with_tensor(entry({17}, 0, 0))),
               Contains("68 bytes") && Contains("64 bytes"));
    CHECK_THAT(refusal_of(with_tensor(entry({1}, 0, 0), "")), Contains("0 bytes"));
    CHECK_THAT(refusal_of(with_tensor(entry({1}, 0, 0), std::string(65, 'n'))), Contains("65"));
    CHECK(parse(with_tensor(entry({1}, 0, 0), std::string(64, 'n'))));
    CHECK_THAT(refusal_of(GgufFile()
                              .tensor("a", {1}, 0, 4)
                              .tensor("b", {1}, 0, 4)
                              .tensor("a", {1}, 0, 4)
                              .bytes()),
               Contains("\"a\" occurs twice"));
}

TEST_CASE("names from a file are escaped and shortened in messages") {
    CHECK(gguf::in_quotes("plain name") == "\"plain name\"");
    CHECK(gguf::in_quotes("a\n\x1b[2J\"\\\xff") == "\"a\\x0a\\x1b[2J\\x22\\x5c\\xff\"");
    CHECK(gguf::in_quotes(std::string(500, 'x')).size() < 100);
    const std::string text = refusal_of(with_key("evil\r\nline", 99, Pieces().u32(0)));
    CHECK(text.find('\n') == std::string::npos);
    CHECK_THAT(text, Contains("evil\\x0d\\x0aline"));
}

TEST_CASE("typed look-ups name the key and the type they wanted") {
    const auto header =
        parse(GgufFile().u32("n", 7).i32("m", -1).f32("f", 1.0F).text("t", "x").bytes());
    REQUIRE(header);
    CHECK(header->find("absent") == nullptr);
    CHECK_THAT(header->unsigned_value("absent").error().text, Contains("\"absent\" is missing"));
    CHECK_THAT(header->unsigned_value("t").error().text, Contains("\"t\"") && Contains("integer"));
    CHECK_THAT(header->unsigned_value("m").error().text, Contains("0 or more"));
    CHECK_THAT(header->float_value("n").error().text, Contains("float"));
    CHECK_THAT(header->string_value("n").error().text, Contains("string"));
    CHECK_THAT(header->bool_value("n").error().text, Contains("bool"));
}

TEST_CASE("sizes of stored tensors follow the block of their type") {
    const auto bytes_of = [](std::vector<std::uint64_t> dims, std::uint32_t type) {
        return gguf::stored_bytes({"t", std::move(dims), type, 0}).value();
    };
    CHECK(bytes_of({7}, 0) == 28);
    CHECK(bytes_of({7, 3}, 1) == 42);
    CHECK(bytes_of({64, 3}, 8) == 204);
    CHECK(bytes_of({256, 2, 3}, 12) == 864);
    CHECK(bytes_of({512}, 14) == 420);
    CHECK(bytes_of({128, 2}, 40) == 144);
    CHECK(bytes_of({32}, 39) == 17);
}

TEST_CASE("a header larger than the first read is found by reading on") {
    const ScratchFolder folder;
    std::vector<std::string> tokens(200'000, "some token text");
    const auto path = folder.write(
        "big.gguf", GgufFile().texts("tokens", tokens).tensor("t", {8}, 0, 32).bytes());
    const auto header = gguf::read_header(path);
    REQUIRE(header);
    CHECK(std::get<gguf::StringArray>(*header->find("tokens")).values == tokens);
    CHECK(header->tensors.size() == 1);
}

TEST_CASE("a path that is no readable model file is refused by name and without waiting") {
    const ScratchFolder folder;
    CHECK_THAT(gguf::read_header(folder.path("absent.gguf")).error().text, Contains("absent.gguf"));
    CHECK_THAT(gguf::read_header(folder.path("")).error().text, Contains("not a regular file"));
    REQUIRE(::mkfifo(folder.path("pipe").c_str(), 0600) == 0);
    CHECK_THAT(gguf::read_header(folder.path("pipe")).error().text, Contains("not a regular file"));
    CHECK_THAT(gguf::read_header(folder.write("empty", {})).error().text, Contains("empty"));
    CHECK_THAT(gguf::read_header(folder.write("text", Pieces().raw("hello, this is text").bytes))
                   .error()
                   .text,
               Contains("not a GGUF file"));
}
