// The promise that speculation, chunking and the cache rest on: an output is the same bits whatever
// is computed beside it and by however many threads. And the mixture-of-experts form, which is the
// same product by other addresses.
#include <cstdint>
#include <cstring>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/engine/backend/matmul_cases.hpp"

namespace strata {
namespace {

using namespace matmul_cases;

constexpr std::int64_t kRows = 43;    // two whole tiles and a part
constexpr std::int64_t kTokens = 19;  // every block of tokens that the kernels have

std::vector<float> product_of(int threads, const PackedWeight& weight, std::int64_t expert,
                              std::vector<float> x) {
    const std::int64_t tokens = static_cast<std::int64_t>(x.size()) / weight.cols;
    std::vector<float> y(static_cast<std::size_t>(tokens * weight.rows));
    ThreadPool pool(threads);
    MatmulScratch scratch;
    matmul(pool, scratch, weight, expert, {x.data(), tokens, weight.cols},
           {y.data(), tokens, weight.rows}, false);
    return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> some_rows(const std::vector<float>& all, std::int64_t cols, std::int64_t first,
                             std::int64_t count) {
    return {all.begin() + first * cols, all.begin() + (first + count) * cols};
}

std::int64_t some_cols(ElementType type) {
    return is_float(type) ? 96 : static_cast<std::int64_t>(block_shape(type).elements) * 2;
}

TEST_CASE("matmul gives a row the same bits alone and in any chunk") {
    for (const Isa isa : available_isas()) {
        for (const ElementType type : kAllTypes) {
            const std::int64_t cols = some_cols(type);
            const auto stored = make_stored(type, cols, kRows, 1, 41U);
            const auto weight = pack(*stored, isa);
            const std::vector<float> x = make_rows(kTokens, cols, 43U);
            const std::vector<float> all = product_of(1, *weight, 0, x);
            bool equal = true;
            for (const std::int64_t chunk : {1, 2, 3, 7, 13}) {
                for (std::int64_t first = 0; first < kTokens; first += chunk) {
                    const std::int64_t count = std::min(chunk, kTokens - first);
                    equal = equal &&
                            same_bits(product_of(1, *weight, 0, some_rows(x, cols, first, count)),
                                      some_rows(all, kRows, first, count));
                }
            }
            INFO(element_type_name(type) << " on " << isa_name(isa));
            CHECK(equal);
        }
    }
}

TEST_CASE("matmul gives the same bits for any number of threads") {
    for (const Isa isa : available_isas()) {
        for (const ElementType type : kAllTypes) {
            const std::int64_t cols = some_cols(type);
            const auto stored = make_stored(type, cols, 300, 1, 47U);
            const auto weight = pack(*stored, isa);
            for (const std::int64_t tokens : {std::int64_t{1}, kTokens}) {
                const std::vector<float> x = make_rows(tokens, cols, 53U);
                const std::vector<float> one = product_of(1, *weight, 0, x);
                INFO(element_type_name(type)
                     << " on " << isa_name(isa) << ", " << tokens << " tokens");
                CHECK(same_bits(product_of(2, *weight, 0, x), one));
                CHECK(same_bits(product_of(5, *weight, 0, x), one));
            }
        }
    }
}

TEST_CASE("several products of one input equal each product alone") {
    for (const Isa isa : available_isas()) {
        constexpr std::int64_t kCols = 256;
        std::vector<std::unique_ptr<PackedWeight>> weights;
        std::vector<std::vector<float>> outputs;
        std::vector<Product> products;
        const std::vector<float> x = make_rows(kTokens, kCols, 61U);
        const std::vector<ElementType> types = {ElementType::q8_0, ElementType::f32,
                                                ElementType::q6_k, ElementType::q8_0};
        const std::vector<std::int64_t> rows = {200, 16, 33, 3};
        for (std::size_t p = 0; p < types.size(); ++p) {
            weights.push_back(pack(
                *make_stored(types[p], kCols, rows[p], 1, 67U + static_cast<unsigned>(p)), isa));
            outputs.emplace_back(static_cast<std::size_t>(kTokens * rows[p]));
        }
        for (std::size_t p = 0; p < types.size(); ++p) {
            products.push_back(
                {weights[p].get(), 0, {outputs[p].data(), kTokens, rows[p]}, false, nullptr});
        }
        ThreadPool pool(3);
        MatmulScratch scratch;
        std::vector<float> input = x;
        matmul(pool, scratch, {input.data(), kTokens, kCols}, products);
        for (std::size_t p = 0; p < types.size(); ++p) {
            CHECK(same_bits(outputs[p], product_of(1, *weights[p], 0, x)));
        }
    }
}

// Tokens choose experts unevenly: expert 2 gets none, expert 0 gets most.
struct Routing {
    std::vector<std::vector<std::int32_t>> from;
    std::vector<std::vector<std::int32_t>> to;
    std::vector<std::int64_t> expert_of_pair;

    Routing(std::int64_t experts, std::int64_t tokens, std::int64_t used)
        : from(static_cast<std::size_t>(experts)), to(static_cast<std::size_t>(experts)) {
        for (std::int64_t pair = 0; pair < tokens * used; ++pair) {
            const std::int64_t expert = pair % used == 0 ? 0 : 1 + pair / used % 2 * 2;
            from[static_cast<std::size_t>(expert)].push_back(
                static_cast<std::int32_t>(pair / used));
            to[static_cast<std::size_t>(expert)].push_back(static_cast<std::int32_t>(pair));
            expert_of_pair.push_back(expert);
        }
    }
    std::vector<ExpertRows> groups() const {
        std::vector<ExpertRows> out;
        for (std::size_t e = 0; e < from.size(); ++e) {
            out.push_back({static_cast<std::int64_t>(e), from[e], to[e]});
        }
        return out;
    }
};

TEST_CASE("matmul through experts equals the product with each expert") {
    constexpr std::int64_t kExperts = 4;
    constexpr std::int64_t kUsed = 2;
    for (const Isa isa : available_isas()) {
        for (const ElementType type : kAllTypes) {
            const std::int64_t cols = some_cols(type);
            const auto gate = pack(*make_stored(type, cols, kRows, kExperts, 71U), isa);
            const auto up = pack(*make_stored(type, cols, 16, kExperts, 73U), isa);
            std::vector<float> x = make_rows(kTokens, cols, 79U);
            const Routing routing(kExperts, kTokens, kUsed);
            std::vector<float> gate_out(static_cast<std::size_t>(kTokens * kUsed * kRows));
            std::vector<float> up_out(static_cast<std::size_t>(kTokens * kUsed * 16));
            const std::vector<ExpertProduct> products = {
                {gate.get(), {gate_out.data(), kTokens * kUsed, kRows}},
                {up.get(), {up_out.data(), kTokens * kUsed, 16}}};
            ThreadPool pool(2);
            MatmulScratch scratch;
            matmul_experts(pool, scratch, {x.data(), kTokens, cols}, routing.groups(), products);
            bool equal = true;
            for (std::int64_t pair = 0; pair < kTokens * kUsed; ++pair) {
                const std::int64_t expert = routing.expert_of_pair[static_cast<std::size_t>(pair)];
                const std::vector<float> row = some_rows(x, cols, pair / kUsed, 1);
                equal = equal && same_bits(some_rows(gate_out, kRows, pair, 1),
                                           product_of(1, *gate, expert, row));
                equal = equal &&
                        same_bits(some_rows(up_out, 16, pair, 1), product_of(1, *up, expert, row));
            }
            INFO(element_type_name(type) << " on " << isa_name(isa));
            CHECK(equal);
        }
    }
}

TEST_CASE("matmul with no rows or no groups writes nothing") {
    const auto weight = pack(*make_stored(ElementType::q8_0, 64, 16, 2, 83U), Isa::scalar);
    std::vector<float> x(64, 1.0F);
    std::vector<float> y(16, 7.0F);
    ThreadPool pool(2);
    MatmulScratch scratch;
    matmul(pool, scratch, *weight, 1, {x.data(), 0, 64}, {y.data(), 0, 16}, false);
    const ExpertProduct product{weight.get(), {y.data(), 1, 16}};
    matmul_experts(pool, scratch, {x.data(), 1, 64}, {}, std::span(&product, 1));
    CHECK(y == std::vector<float>(16, 7.0F));
}

}  // namespace
}  // namespace strata
