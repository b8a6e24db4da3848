// Checks the recurrent layers' kernels and the routing kernels against their formulas in f64, then
// times them. Prints a table; exits with 1 when something differs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/backend/cuda/launch/delta.hpp"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/routing.hpp"

using namespace strata;
using namespace strata::cuda;

namespace {

constexpr double kTolerance = 2.0e-5;  // of max(1, |wanted|)
constexpr std::size_t kStateOffset = 64;
std::mt19937 g_random(7);
int g_failures = 0;

template <class T>
struct Memory {
    T* at = nullptr;
    std::size_t count;
    explicit Memory(std::size_t n) : count(n) {
        check(cudaMalloc(&at, n * sizeof(T) + 16), "memory");
        check(cudaMemset(at, 0xff, n * sizeof(T)), "poison");  // NaN
    }
    explicit Memory(const std::vector<T>& from) : Memory(from.size()) {
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

std::vector<float> numbers(std::size_t count, float size = 1.0F) {
    std::uniform_real_distribution<float> one(-size, size);
    std::vector<float> out(count);
    for (float& value : out) value = one(g_random);
    return out;
}
int any(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(g_random);
}
double sigmoid64(double x) {
    return 1.0 / (1.0 + std::exp(-x));
}

void report(bool good, const char* what, double error, std::initializer_list<long> sizes) {
    if (!good) ++g_failures;
    std::printf("%-4s %-14s error %9.2e  ", good ? "ok" : "BAD", what, error);
    for (const long size : sizes) std::printf(" %ld", size);
    std::printf("\n");
}
double error_of(const float* got, const std::vector<double>& wanted) {
    double worst = 0.0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double error =
            std::abs(static_cast<double>(got[i]) - wanted[i]) / std::max(1.0, std::abs(wanted[i]));
        worst =
            std::isfinite(error) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
        if (!std::isfinite(error)) break;
    }
    return worst;
}

// A running state on the device, with a view of it.
struct State {
    Memory<float> floats;
    Memory<StepHead> head;
    StepView view;
    explicit State(const std::vector<float>& from, std::int64_t rows)
        : floats(from),
          head(std::vector<StepHead>{{0, rows, floats.at}}),
          view{head.at, nullptr, nullptr} {}
};
std::vector<float> with_offset(const std::vector<float>& state) {
    std::vector<float> out(kStateOffset / sizeof(float), 5.0F);
    out.insert(out.end(), state.begin(), state.end());
    return out;
}

void check_convolution(std::int64_t channels, std::int64_t kernel, std::int64_t rows) {
    const std::int64_t past = kernel - 1;
    const std::vector<float> u = numbers(rows * channels);
    const std::vector<float> taps = numbers(kernel * channels);
    std::vector<float> all = numbers(past * channels);
    State state(with_offset(all), rows);
    all.insert(all.end(), u.begin(), u.end());
    const Memory<float> in(u), weights(taps), out(rows * channels);
    launch_convolution(nullptr, state.view, {channels, kernel, kStateOffset},
                       {in.at, rows, channels}, weights.at, {out.at, rows, channels});
    std::vector<double> wanted(rows * channels);
    for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t i = 0; i < channels; ++i) {
            double sum = 0.0;
            for (std::int64_t j = 0; j < kernel; ++j) {
                sum += double(taps[j * channels + i]) * double(all[(t + j) * channels + i]);
            }
            wanted[t * channels + i] = sum * sigmoid64(sum);
        }
    }
    const std::vector<double> window(all.end() - past * channels, all.end());
    const double error =
        std::max(error_of(out.read().data(), wanted),
                 error_of(state.floats.read().data() + kStateOffset / sizeof(float), window));
    report(error < kTolerance, "convolution", error, {channels, kernel, rows});
}

struct DeltaCase {
    DeltaShape shape;
    std::int64_t rows;
    std::vector<float> c, b, alpha, a, dt_bias, state;
    std::int64_t keys() const { return shape.key_heads * shape.key_dim; }
    std::int64_t values() const { return shape.value_heads * shape.value_dim; }
};
DeltaCase delta_case(int key_heads, int value_heads, int key_dim, int value_dim, HeadMap map,
                     std::int64_t rows, float decay) {
    DeltaCase of{{key_heads, value_heads, key_dim, value_dim, map, kStateOffset}, rows};
    of.c = numbers(rows * (2 * of.keys() + of.values()));
    of.b = numbers(rows * value_heads, 3.0F);
    of.alpha = numbers(rows * value_heads, 2.0F);
    of.dt_bias = numbers(value_heads);
    of.a = numbers(value_heads);
    for (float& a : of.a) a = -decay * (1.0F + 0.5F * a);
    of.state = numbers(value_heads * key_dim * value_dim);
    return of;
}

std::vector<double> unit(const float* x, std::int64_t count) {
    double squares = 1.0e-6;
    for (std::int64_t i = 0; i < count; ++i) squares += double(x[i]) * double(x[i]);
    std::vector<double> out(x, x + count);
    for (double& value : out) value /= std::sqrt(squares);
    return out;
}

void define_delta(const DeltaCase& of, std::vector<double>& state, std::vector<double>& o) {
    const DeltaShape& s = of.shape;
    for (std::int64_t t = 0; t < of.rows; ++t) {
        const float* row = of.c.data() + t * (2 * of.keys() + of.values());
        for (std::int64_t h = 0; h < s.value_heads; ++h) {
            const std::int64_t kh =
                s.map == HeadMap::tiled ? h % s.key_heads : h / (s.value_heads / s.key_heads);
            const std::vector<double> q = unit(row + kh * s.key_dim, s.key_dim);
            const std::vector<double> k = unit(row + of.keys() + kh * s.key_dim, s.key_dim);
            const float* v = row + 2 * of.keys() + h * s.value_dim;
            const double beta = sigmoid64(of.b[t * s.value_heads + h]);
            const double fade = std::exp(
                double(of.a[h]) *
                std::log1p(std::exp(double(of.alpha[t * s.value_heads + h]) + of.dt_bias[h])));
            double* matrix = state.data() + h * s.key_dim * s.value_dim;
            std::vector<double> expected(s.value_dim, 0.0);
            double* answer = o.data() + t * of.values() + h * s.value_dim;
            for (std::int64_t i = 0; i < s.key_dim; ++i) {
                for (std::int64_t j = 0; j < s.value_dim; ++j) {
                    matrix[i * s.value_dim + j] *= fade;
                    expected[j] += matrix[i * s.value_dim + j] * k[i];
                }
            }
            for (std::int64_t i = 0; i < s.key_dim; ++i) {
                for (std::int64_t j = 0; j < s.value_dim; ++j) {
                    double& x = matrix[i * s.value_dim + j];
                    x += k[i] * beta * (v[j] - expected[j]);
                    answer[j] += x * q[i] / std::sqrt(double(s.key_dim));
                }
            }
        }
    }
}

// What one launch of a case needs on the device.
enum class Form { token_by_token, chunked };
struct DeltaRun {
    const DeltaCase& of;
    Form form;
    Memory<char> scratch;
    Memory<float> c, b, alpha, a, dt_bias, o;
    State state;
    DeltaRun(const DeltaCase& from, Form as)
        : of(from),
          form(as),
          scratch(as == Form::chunked ? delta_chunk_bytes(from.shape, from.rows) : 0),
          c(from.c),
          b(from.b),
          alpha(from.alpha),
          a(from.a),
          dt_bias(from.dt_bias),
          o(from.rows * from.values()),
          state(with_offset(from.state), from.rows) {}
    void launch() {
        const std::int64_t heads = of.shape.value_heads;
        launch_delta_rule(
            nullptr, state.view, of.shape, {c.at, of.rows, 2 * of.keys() + of.values()},
            {b.at, of.rows, heads}, {alpha.at, of.rows, heads}, a.at, dt_bias.at,
            {o.at, of.rows, of.values()}, form == Form::chunked ? scratch.at : nullptr);
    }
};

void check_delta(const DeltaCase& of, Form form = Form::token_by_token) {
    std::vector<double> state(of.state.begin(), of.state.end());
    std::vector<double> o(of.rows * of.values(), 0.0);
    define_delta(of, state, o);
    const DeltaShape& s = of.shape;
    DeltaRun run(of, form), again(of, form);
    run.launch();
    again.launch();
    const std::vector<float> got = run.o.read();
    const std::vector<float> twice = again.o.read();
    const double error =
        std::max(error_of(got.data(), o),
                 error_of(run.state.floats.read().data() + kStateOffset / sizeof(float), state));
    const bool same = std::memcmp(got.data(), twice.data(), got.size() * sizeof(float)) == 0;
    report(error < kTolerance && same, form == Form::chunked ? "delta, chunked" : "delta", error,
           {s.key_heads, s.value_heads, s.key_dim, s.value_dim, of.rows});
}

void check_gated_norm(std::int64_t rows, std::int64_t heads, std::int64_t dim, bool in_place) {
    const std::vector<float> o = numbers(rows * heads * dim), z = numbers(rows * heads * dim, 4.0F);
    const std::vector<float> gain = numbers(dim);
    const Memory<float> in(o), gates(z), gains(gain), other(o.size());
    float* y = in_place ? in.at : other.at;
    launch_gated_rms_norm(nullptr, {in.at, rows, heads * dim}, {gates.at, rows, heads * dim}, dim,
                          gains.at, 1.0e-6F, {y, rows, heads * dim});
    std::vector<double> wanted(o.size());
    for (std::int64_t h = 0; h < rows * heads; ++h) {
        double squares = 0.0;
        for (std::int64_t i = 0; i < dim; ++i) squares += double(o[h * dim + i]) * o[h * dim + i];
        for (std::int64_t i = 0; i < dim; ++i) {
            const double gate = z[h * dim + i];
            wanted[h * dim + i] = o[h * dim + i] / std::sqrt(squares / dim + 1.0e-6) * gain[i] *
                                  gate * sigmoid64(gate);
        }
    }
    const double error = error_of((in_place ? in : other).read().data(), wanted);
    report(error < kTolerance, "gated norm", error, {rows, heads, dim, in_place});
}

void check_routing(std::int64_t rows, std::int64_t experts, std::int64_t used, bool normalise) {
    std::vector<float> scores = numbers(rows * experts, 4.0F);
    for (std::size_t i = 0; i < scores.size(); i += 3) scores[i] = std::round(scores[i]);  // equals
    const Memory<float> in(scores), weights(rows * used);
    const Memory<std::int32_t> chosen(rows * used), offsets(experts + 1), places(rows * used);
    const Routes routes{chosen.at, weights.at, used};
    launch_choose_experts(nullptr, in.at, rows, experts, {normalise, 2.5F}, routes);
    launch_group_routes(nullptr, routes, rows, experts, offsets.at, places.at);
    std::vector<std::int32_t> wanted(rows * used);
    std::vector<double> wanted_weights(rows * used);
    for (std::int64_t t = 0; t < rows; ++t) {
        const float* row = scores.data() + t * experts;
        std::vector<std::int32_t> order(experts);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] > row[b]; });
        double total = 0.0, sum = 0.0;
        for (std::int64_t e = 0; e < experts; ++e) total += std::exp(double(row[e]));
        for (std::int64_t k = 0; k < used; ++k) sum += std::exp(double(row[order[k]])) / total;
        const double divisor = normalise ? std::max(sum, 6.1035e-5) : 1.0;
        for (std::int64_t k = 0; k < used; ++k) {
            wanted[t * used + k] = order[k];
            wanted_weights[t * used + k] = std::exp(double(row[order[k]])) / total / divisor * 2.5;
        }
    }
    std::vector<std::int32_t> wanted_places(rows * used), wanted_offsets(experts + 1, 0);
    std::iota(wanted_places.begin(), wanted_places.end(), 0);
    std::stable_sort(wanted_places.begin(), wanted_places.end(),
                     [&](int a, int b) { return wanted[a] < wanted[b]; });
    for (const std::int32_t e : wanted) ++wanted_offsets[e + 1];
    std::partial_sum(wanted_offsets.begin(), wanted_offsets.end(), wanted_offsets.begin());
    const double error = error_of(weights.read().data(), wanted_weights);
    const bool good = error < kTolerance && chosen.read() == wanted;
    report(good, "choice", error, {rows, experts, used, normalise});
    const bool grouped = offsets.read() == wanted_offsets && places.read() == wanted_places;
    report(grouped, "groups", 0.0, {rows, experts, used});
}

double microseconds(const std::function<void()>& work, int times) {
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    for (int i = 0; i < 3; ++i) work();
    check(cudaEventRecord(begin), "event");
    for (int i = 0; i < times; ++i) work();
    check(cudaEventRecord(end), "event");
    check(cudaDeviceSynchronize(), "timing");
    float ms = 0.0F;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    return ms * 1.0e3 / times;
}

void time_line(const char* what, std::int64_t rows, double us, double bytes, double copy_rate) {
    std::printf("time %-22s %6ld rows %10.2f us %8.1f GB/s %5.1f %% of copy\n", what, long(rows),
                us, bytes / us / 1.0e3, 100.0 * bytes / us / copy_rate);
}

// Operations of the chunked form: products of K and Q with the state and of K with the changes, and
// with the squares of 16 up to the diagonal of T, P, K K^T and Q K^T. Tensor cores do three times
// as many, of halves.
double chunked_operations(const DeltaCase& of) {
    constexpr double kDim = 128.0;
    constexpr double kTriangleColumns = 40.0;  // of 64
    const double by_value_head = 3.0 * kDim * kDim + 2.0 * kTriangleColumns * kDim;
    const double by_key_head = 2.0 * kTriangleColumns * kDim;
    return 2.0 * of.rows *
           (of.shape.value_heads * by_value_head + of.shape.key_heads * by_key_head);
}

void time_delta(std::int64_t rows, int value_heads, double copy_rate) {
    const DeltaCase of = delta_case(16, value_heads, 128, 128, HeadMap::grouped, rows, 0.1F);
    DeltaRun tokens(of, Form::token_by_token), chunked(of, Form::chunked);
    const double bytes = 8.0 * of.state.size() + 4.0 * (of.c.size() + rows * of.values());
    const int times = rows > 512 ? 5 : 50;
    time_line("delta token by token", rows, microseconds([&] { tokens.launch(); }, times), bytes,
              copy_rate);
    const double us = microseconds([&] { chunked.launch(); }, times);
    time_line("delta chunked", rows, us, bytes, copy_rate);
    const double rate = chunked_operations(of) / us / 1.0e6;
    std::printf("     %d value heads: %.1f TFLOP/s, %.1f of halves\n", value_heads, rate,
                3.0 * rate);
}

void time_kernels() {
    constexpr std::size_t kCopyFloats = std::size_t{1} << 28;
    double copy_rate = 0.0;  // bytes per microsecond
    {
        const Memory<float> from(kCopyFloats), to(kCopyFloats);
        const double us = microseconds(
            [&] {
                check(cudaMemcpyAsync(to.at, from.at, kCopyFloats * 4, cudaMemcpyDeviceToDevice),
                      "copy");
            },
            10);
        copy_rate = 8.0 * kCopyFloats / us;
        time_line("copy", 0, us, 8.0 * kCopyFloats, copy_rate);
    }
    for (const std::int64_t rows : {1, 4, 16, 32, 48, 64, 128, 512, 2048, 8192}) {
        time_delta(rows, 32, copy_rate);
    }
    time_delta(2048, 16, copy_rate);
    time_delta(2048, 48, copy_rate);
    for (const std::int64_t rows : {1, 4, 32, 512, 8192}) {
        const DeltaCase of = delta_case(16, 32, 128, 128, HeadMap::grouped, rows, 0.1F);
        DeltaRun run(of, Form::token_by_token);
        const Memory<float> taps(numbers(4 * 8192)), out(rows * 8192);
        const Rows u{run.c.at, rows, 8192}, c{out.at, rows, 8192};
        State window(std::vector<float>(3 * 8192), rows);
        time_line("convolution", rows,
                  microseconds(
                      [&] {
                          launch_convolution(nullptr, window.view, {8192, 4, 0}, u, taps.at, c);
                      },
                      50),
                  8.0 * rows * 8192, copy_rate);
        const Rows o{run.o.at, rows, 4096}, z{out.at, rows, 4096};
        time_line("gated norm", rows,
                  microseconds(
                      [&] { launch_gated_rms_norm(nullptr, o, z, 128, taps.at, 1.0e-6F, o); }, 50),
                  12.0 * rows * 4096, copy_rate);
        const Memory<float> scores(numbers(rows * 512)), weights(rows * 10);
        const Memory<std::int32_t> chosen(rows * 10), offsets(513), places(rows * 10);
        const Routes routes{chosen.at, weights.at, 10};
        time_line(
            "choice 512/10", rows,
            microseconds([&] { launch_choose_experts(nullptr, scores.at, rows, 512, {}, routes); },
                         50),
            4.0 * rows * 512, copy_rate);
        time_line(
            "groups 512/10", rows,
            microseconds(
                [&] { launch_group_routes(nullptr, routes, rows, 512, offsets.at, places.at); },
                50),
            8.0 * rows * 10, copy_rate);
    }
}

// A case whose gates or keys are hard for chunks.
enum class Hard { remembers_all, forgets_now_and_then, keys_alike };
DeltaCase hard_case(Hard what, std::int64_t rows) {
    const bool forgets = what == Hard::forgets_now_and_then;
    DeltaCase of = delta_case(1, 2, 128, 128, HeadMap::grouped, rows, forgets ? 1.0F : 0.0F);
    if (forgets) {  // one row in ten by up to e^-2000, the others by e^-0.0001
        for (float& x : of.alpha) x = any(0, 9) == 0 ? 1.0F * any(1, 2000) : -9.0F;
    } else if (what == Hard::keys_alike) {
        for (float& x : of.b) x = 12.0F;
        const std::vector<float> key = numbers(of.keys());
        for (std::int64_t t = 0; t < rows; ++t) {
            float* k = of.c.data() + t * (2 * of.keys() + of.values()) + of.keys();
            for (std::int64_t i = 0; i < of.keys(); ++i) k[i] = key[i] + 0.02F * k[i];
        }
    }
    return of;
}

void check_chunks() {
    if (delta_chunk_bytes(delta_case(2, 4, 128, 128, HeadMap::grouped, 1, 0.1F).shape, 1) == 0) {
        std::printf("this device has no room for chunks\n");
        return;
    }
    for (const std::int64_t rows : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 1024, 2500}) {
        check_delta(delta_case(2, 4, 128, 128, HeadMap::grouped, rows, 0.1F), Form::chunked);
    }
    check_delta(delta_case(16, 32, 128, 128, HeadMap::grouped, 300, 0.1F), Form::chunked);
    check_delta(delta_case(16, 32, 128, 128, HeadMap::tiled, 130, 0.1F), Form::chunked);
    check_delta(delta_case(16, 48, 128, 128, HeadMap::tiled, 130, 0.1F), Form::chunked);
    check_delta(delta_case(4, 4, 128, 128, HeadMap::grouped, 130, 0.1F), Form::chunked);
    check_delta(delta_case(1, 8, 128, 128, HeadMap::grouped, 130, 0.1F), Form::chunked);
    for (const float decay : {0.0F, 1.0e-4F, 40.0F, 400.0F}) {
        check_delta(delta_case(1, 2, 128, 128, HeadMap::tiled, 200, decay), Form::chunked);
    }
    for (const Hard what : {Hard::remembers_all, Hard::forgets_now_and_then, Hard::keys_alike}) {
        check_delta(hard_case(what, 1500), Form::chunked);
    }
}

void check_all() {
    check_chunks();
    for (const std::int64_t rows : {1, 2, 3, 5, 63, 64, 65, 200, 1000}) {
        check_convolution(8192, 4, std::min<std::int64_t>(rows, 200));
        check_convolution(any(1, 70), any(1, 16), rows);
        check_delta(delta_case(2, 4, 128, 128, HeadMap::grouped, rows, 0.1F));
        check_gated_norm(rows, 4, 128, true);
        check_gated_norm(rows, 3, any(1, 70), false);
        check_routing(rows, 512, 10, true);
        check_routing(rows, 128, 8, false);
        check_routing(rows, 256, 8, true);
    }
    check_delta(delta_case(16, 32, 128, 128, HeadMap::grouped, 65, 0.1F));
    check_delta(delta_case(16, 16, 128, 128, HeadMap::grouped, 65, 0.01F));
    check_delta(delta_case(16, 32, 128, 128, HeadMap::tiled, 5, 0.1F));
    check_delta(delta_case(1, 2, 256, 40, HeadMap::tiled, 9, 0.1F));
    check_delta(delta_case(1, 2, 300, 40, HeadMap::tiled, 9, 0.1F));
    for (const float decay : {0.0F, 40.0F, 400.0F}) {
        check_delta(delta_case(1, 2, 128, 128, HeadMap::tiled, 130, decay));
    }
    for (int i = 0; i < 20; ++i) {
        const int key_heads = any(1, 3);
        check_delta(delta_case(key_heads, key_heads * any(1, 3), any(1, 140), any(1, 140),
                               i % 2 == 0 ? HeadMap::grouped : HeadMap::tiled, any(1, 100), 0.1F));
        const int experts = any(2, 1024);
        check_routing(any(1, 40), experts, any(1, std::min(experts, 32)), i % 2 == 0);
    }
    check_routing(3, 20'000, 1, true);
    check_routing(3, 2000, 40, false);
    check_routing(16'384, 1024, 16, true);
}

}  // namespace

int main() {
    check_all();
    time_kernels();
    std::printf(g_failures == 0 ? "all equal\n" : "%d FAILED\n", g_failures);
    return g_failures == 0 ? 0 : 1;
}
