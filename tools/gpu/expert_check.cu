// Checks the products of experts on tensor cores against the integer sums of few rows, at the sizes
// of real models, then times their parts. Prints a table; exits with 1 when something differs.
// Built from this file,
// engine/backend/cuda/launch/{expert_products,products,routing,rows,weights}.cu,
// engine/backend/cuda/{cuda_weight,device_memory}.cpp and engine/invariant.cpp.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "engine/backend/cuda/cuda_weight.hpp"
#include "engine/backend/cuda/launch/expert_products.hpp"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/rows.hpp"

using namespace strata;
using namespace strata::cuda;

namespace {

// Root of the mean square of the difference, relative to the results': activations of the integer
// sums have 7 bits and a sign, bf16 has 8 bits, and both are rounded twice.
constexpr double kDifferenceMax = 0.03;
constexpr std::int64_t kComparedRowsMax = 128;  // the integer sums take long for more
std::mt19937 g_random(7);
int g_failures = 0;

struct Geometry {
    const char* name;
    ElementType type;
    std::int64_t width;
    std::int64_t hidden;
    std::int64_t experts;
    std::int64_t used;
};

template <class T>
struct Memory {
    T* at = nullptr;
    std::size_t count;
    explicit Memory(std::int64_t n) : count(static_cast<std::size_t>(n)) {
        check(cudaMalloc(&at, count * sizeof(T) + 16), "memory");
        check(cudaMemset(at, 0xff, count * sizeof(T)), "poison");  // NaN
    }
    explicit Memory(const std::vector<T>& from) : Memory(static_cast<std::int64_t>(from.size())) {
        check(cudaMemcpy(at, from.data(), count * sizeof(T), cudaMemcpyHostToDevice), "upload");
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() { cudaFree(at); }
    std::vector<T> read() const {
        std::vector<T> out(count);
        check(cudaDeviceSynchronize(), "kernels");
        check(cudaMemcpy(out.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
        return out;
    }
};

// Random blocks whose values are around 0.02 in size.
std::unique_ptr<Weight> random_weight(ElementType type, std::int64_t cols, std::int64_t rows,
                                      std::int64_t experts) {
    const BlockShape block = block_shape(type);
    const std::size_t blocks = static_cast<std::size_t>(cols * rows * experts) / block.elements;
    std::vector<std::byte> bytes((blocks * block.bytes + 7) / 8 * 8);
    std::uint64_t state = g_random();
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const std::uint64_t mixed = state ^ state >> 29;
        std::memcpy(bytes.data() + i, &mixed, 8);
    }
    bytes.resize(blocks * block.bytes);
    const auto put = [&](std::size_t at, std::uint16_t half) {
        std::memcpy(bytes.data() + at, &half, 2);
    };
    for (std::size_t at = 0; at < bytes.size(); at += block.bytes) {
        if (type == ElementType::q4_k) {
            put(at, 0x0800);      // 2^-13
            put(at + 2, 0x1380);  // 7.5 times that: the mean of the codes
        } else if (type == ElementType::q6_k) {
            put(at + 208, 0x0100);  // 2^-16
        } else {
            put(at, 0x1000);  // Q8_0: 2^-11
        }
    }
    auto weight = upload_weight(nullptr, {type, cols, rows, experts, bytes});
    if (weight.ok()) return std::move(*weight);
    std::printf("%s\n", weight.error().text.c_str());
    std::exit(1);
}

struct Layer {
    Geometry of;
    std::unique_ptr<Weight> gate, up, down;

    explicit Layer(const Geometry& geometry)
        : of(geometry),
          gate(random_weight(of.type, of.width, of.hidden, of.experts)),
          up(random_weight(of.type, of.width, of.hidden, of.experts)),
          down(random_weight(of.type, of.hidden, of.width, of.experts)) {}

    double elements() const { return 3.0 * double(of.width * of.hidden); }  // of an expert
    double bytes() const {
        const BlockShape block = block_shape(of.type);
        return elements() * double(block.bytes) / double(block.elements);
    }
};

RoutedWeight routed(const Weight& weight) {
    return {on_device(weight).planes, weight.rows, 0, nullptr, 1.0F};
}

// Activations of a step, its routes, and all memory that its parts use.
struct LayerStep {
    const Layer& layer;
    std::int64_t rows, pairs;
    Memory<float> x, weights, y;
    Memory<std::int32_t> experts, offsets, places;
    Memory<ExpertTile> tiles;
    Memory<std::uint16_t> x_bf16, hidden;
    Memory<float> results;

    static std::vector<float> numbers(std::int64_t count) {
        std::uniform_real_distribution<float> one(-1.0F, 1.0F);
        std::vector<float> out(static_cast<std::size_t>(count));
        for (float& value : out) value = one(g_random);
        return out;
    }
    static std::vector<std::int32_t> choices(const Geometry& of, std::int64_t rows) {
        std::vector<std::int32_t> order(static_cast<std::size_t>(of.experts)), out;
        std::iota(order.begin(), order.end(), 0);
        for (std::int64_t t = 0; t < rows; ++t) {
            for (std::int64_t k = 0; k < of.used; ++k) {
                const auto other = static_cast<std::size_t>(
                    k + std::int64_t(g_random() % static_cast<unsigned>(of.experts - k)));
                std::swap(order[static_cast<std::size_t>(k)], order[other]);
                out.push_back(order[static_cast<std::size_t>(k)]);
            }
        }
        return out;
    }
    LayerStep(const Layer& of, std::int64_t count)
        : layer(of),
          rows(count),
          pairs(count * of.of.used),
          x(numbers(rows * of.of.width)),
          weights(numbers(pairs)),
          y(rows * of.of.width),
          experts(choices(of.of, rows)),
          offsets(of.of.experts + 1),
          places(pairs),
          tiles(pairs + of.of.experts),
          x_bf16(rows * of.of.width),
          hidden(pairs * of.of.hidden),
          results(pairs * of.of.width) {}

    Rows x_rows() const { return {x.at, rows, layer.of.width}; }
    void group() const {
        launch_group_routes(nullptr, {experts.at, weights.at, layer.of.used}, rows,
                            layer.of.experts, offsets.at, places.at);
    }
    void cut(const TileCut& cut) const {
        launch_cut_tiles(nullptr, offsets.at, layer.of.experts, cut, tiles.at);
    }
    void multiply_gate_up(const TileCut& cut) const {
        launch_gated_expert_product(nullptr, layer.of.type, x_bf16.at, layer.of.width,
                                    layer.of.used, {tiles.at, places.at, cut}, routed(*layer.gate),
                                    routed(*layer.up), layer.of.hidden, hidden.at);
    }
    void multiply_down(const TileCut& cut) const {
        launch_expert_product(nullptr, layer.of.type, hidden.at, layer.of.hidden,
                              {tiles.at, places.at, cut}, routed(*layer.down), layer.of.width,
                              results.at);
    }
    void add() const {
        MixtureSum sum;
        sum.results = results.at;
        sum.weights = weights.at;
        sum.used = layer.of.used;
        launch_add_mixture(nullptr, sum, {y.at, rows, layer.of.width});
    }
};

// The way of few rows: int8 activations, integer sums.
struct IntegerSums {
    const LayerStep& step;
    Memory<std::int8_t> x_codes, hidden_codes;
    Memory<float2> x_steps, hidden_steps;
    Memory<float> gate, up, results;

    explicit IntegerSums(const LayerStep& of)
        : step(of),
          x_codes(of.rows * of.layer.of.width),
          hidden_codes(of.pairs * of.layer.of.hidden),
          x_steps(of.rows * of.layer.of.width / kGroupElements),
          hidden_steps(of.pairs * of.layer.of.hidden / kGroupElements),
          gate(of.pairs * of.layer.of.hidden),
          up(of.pairs * of.layer.of.hidden),
          results(of.pairs * of.layer.of.width) {}

    void run() const {
        const Layer& layer = step.layer;
        const Geometry& of = layer.of;
        RoutedRows rows{step.experts.at, step.offsets.at, step.places.at,
                        step.pairs,      of.experts,      of.used};
        const ProductInput x{step.x_rows(), {x_codes.at, x_steps.at}};
        const QuantisedView codes{hidden_codes.at, hidden_steps.at};
        const Rows hidden{gate.at, step.pairs, of.hidden};
        launch_quantise(nullptr, x.x, x.quantised);
        launch_routed_product(nullptr, of.type, x, rows, routed(*layer.gate), of.hidden, gate.at);
        launch_routed_product(nullptr, of.type, x, rows, routed(*layer.up), of.hidden, up.at);
        launch_gate_rows(nullptr, hidden, up.at, {codes, nullptr});
        rows.x_rows_per = 1;
        launch_routed_product(nullptr, of.type, {hidden, codes}, rows, routed(*layer.down),
                              of.width, results.at);
    }
};

double microseconds(const std::function<void()>& work, int times) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    for (int i = 0; i < 2; ++i) work();
    check(cudaEventRecord(begin), "event");
    for (int i = 0; i < times; ++i) work();
    check(cudaEventRecord(end), "event");
    check(cudaDeviceSynchronize(), "timing");
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    return ms * 1.0e3 / times;
}

double copy_rate() {  // bytes per microsecond, read and written
    constexpr std::int64_t kFloats = std::int64_t{1} << 28;
    const Memory<float> from(kFloats), to(kFloats);
    const double us = microseconds(
        [&] {
            check(cudaMemcpyAsync(to.at, from.at, kFloats * 4, cudaMemcpyDeviceToDevice), "copy");
        },
        10);
    std::printf("copy %.0f GB/s\n", 8.0 * double(kFloats) / us / 1.0e3);
    return 8.0 * double(kFloats) / us;
}

TileCut cut_into(const LayerStep& step, int tile_rows) {
    const std::int64_t experts = step.layer.of.experts;
    return {tile_rows, std::min(step.pairs, step.pairs / tile_rows + experts)};
}

void compare(const LayerStep& step) {
    const IntegerSums sums(step);
    step.group();
    launch_to_bf16(nullptr, step.x_rows(), step.x_bf16.at);
    sums.run();
    const std::vector<float> wanted = sums.results.read();
    const double us = microseconds([&] { sums.run(); }, 3);
    std::printf("%-14s %5ld rows: integer sums %.1f us\n", step.layer.of.name, long(step.rows), us);
    for (const int tile_rows : {kShortTileRows, kLongTileRows}) {
        const TileCut cut = cut_into(step, tile_rows);
        check(cudaMemset(step.results.at, 0xff, step.results.count * sizeof(float)), "poison");
        step.cut(cut);
        step.multiply_gate_up(cut);
        step.multiply_down(cut);
        const std::vector<float> got = step.results.read();
        double errors = 0.0;
        double sizes = 0.0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            errors += std::pow(double(got[i]) - double(wanted[i]), 2.0);
            sizes += std::pow(double(wanted[i]), 2.0);
        }
        const double difference = std::sqrt(errors / sizes);
        const bool good = difference < kDifferenceMax && sizes > 0.0;  // NaN is not
        if (!good) ++g_failures;
        std::printf("%-4s %-14s %5ld rows, tiles of %d: difference %.2e\n", good ? "ok" : "BAD",
                    step.layer.of.name, long(step.rows), tile_rows, difference);
    }
}

void time_step(const LayerStep& step, double rate) {
    const Layer& layer = step.layer;
    const int times = step.rows > 2048 ? 5 : 20;
    std::vector<bool> read(static_cast<std::size_t>(layer.of.experts), false);
    for (const std::int32_t expert : step.experts.read()) {
        read[static_cast<std::size_t>(expert)] = true;
    }
    const double bytes = layer.bytes() * double(std::count(read.begin(), read.end(), true));
    const double products = 2.0 * layer.elements() * double(step.pairs);
    const double order = microseconds([&] { step.group(); }, times);
    const double convert =
        microseconds([&] { launch_to_bf16(nullptr, step.x_rows(), step.x_bf16.at); }, times);
    const double sum = microseconds([&] { step.add(); }, times);
    for (const int tile_rows : {kShortTileRows, kLongTileRows}) {
        const TileCut cut = cut_into(step, tile_rows);
        const double table = microseconds([&] { step.cut(cut); }, times);
        const double gate_up = microseconds([&] { step.multiply_gate_up(cut); }, times);
        const double down = microseconds([&] { step.multiply_down(cut); }, times);
        const double both = gate_up + down;
        const double all = order + convert + table + both + sum;
        std::printf(
            "%-14s %5ld rows, %3d%s gate up %8.1f down %8.1f us %6.1f TFLOP/s, weights %5.1f %% of "
            "copy; order %.1f table %.1f bf16 %.1f sum %.1f, all %.1f us\n",
            layer.of.name, long(step.rows), tile_rows,
            cut_of(step.pairs, layer.of.experts).rows == tile_rows ? "*" : " ", gate_up, down,
            products / both / 1.0e6, 100.0 * bytes / both / rate, order, table, convert, sum, all);
    }
}

}  // namespace

int main() {
    const double rate = copy_rate();
    const Geometry geometries[] = {
        {"30B-A3B Q4_K", ElementType::q4_k, 2048, 768, 128, 8},
        {"Next-80B Q4_K", ElementType::q4_k, 2048, 512, 512, 10},
        {"30B-A3B Q6_K", ElementType::q6_k, 2048, 768, 128, 8},
        {"30B-A3B Q8_0", ElementType::q8_0, 2048, 768, 128, 8},
    };
    for (const Geometry& of : geometries) {
        const Layer layer(of);
        const bool whole = of.type == ElementType::q4_k;
        for (const std::int64_t rows : {9, 32, 128, 512, 2048, 4096, 8192}) {
            if (!whole && rows != 128 && rows != 4096) continue;
            const LayerStep step(layer, rows);
            if (rows <= kComparedRowsMax) compare(step);
            step.group();
            time_step(step, rate);
        }
    }
    std::printf(g_failures == 0 ? "all equal\n" : "%d FAILED\n", g_failures);
    return g_failures == 0 ? 0 : 1;
}
