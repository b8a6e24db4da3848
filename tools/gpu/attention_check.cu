// Checks the attention kernels against their formulas in f64 on the CPU and times them: a program
// of its own for a machine with a GPU. It prints a line per check and exits with 1 if one fails.
//
//   attention_check          checks and timings
//   attention_check check    checks alone
#include "tools/gpu/attention_fixture.cuh"

using namespace strata;
using namespace strata::cuda;
using namespace strata::cuda::attention_check;

namespace {

constexpr double kFineTolerance = 2.0e-5;
constexpr double kTiledTolerance = 2.0e-3;
constexpr int kRowsCheckedMax = 6;  // the CPU takes its time for long conversations

struct Inputs {
    std::vector<float> q, k, v;
};
Inputs inputs_of(const Case& one, std::uint32_t seed) {
    std::mt19937 random(seed);
    const AttentionShape shape = shape_of(one);
    const std::int64_t length = one.first + one.rows;
    Inputs out;
    out.q = numbers(random, one.rows * shape.heads * shape.query_stride(), one.spread);
    out.k = numbers(random, length * shape.kv_heads * shape.key_dim, one.spread);
    out.v = numbers(random, length * shape.kv_heads * shape.value_dim, 1.0F);
    to_stored(shape.k_rows(), out.k);
    to_stored(shape.v_rows(), out.v);
    return out;
}

std::vector<float> attend(const Case& one, Conversation& conversation, const std::vector<float>& q,
                          std::int64_t row, std::int64_t rows, bool* counters_zero) {
    const AttentionShape shape = shape_of(one);
    const std::int64_t q_cols = shape.heads * shape.query_stride();
    const std::int64_t out_cols = shape.heads * shape.value_dim;
    const DeviceArray<float> queries(
        std::vector<float>(q.begin() + row * q_cols, q.begin() + (row + rows) * q_cols));
    DeviceArray<float> out(index(rows * out_cols));
    out.fill_bytes(0xff);
    const Scratch scratch(shape, rows, one.exact);
    launch_attention(nullptr, conversation.step(one.first + row, rows), shape,
                     {queries.at(), rows, q_cols}, {out.at(), rows, out_cols}, scratch.view(),
                     one.exact);
    check(cudaDeviceSynchronize(), "attention");
    for (const unsigned counter : scratch.counters.read()) {
        if (counter != 0) *counters_zero = false;
    }
    return out.read();
}

// Largest |got - wanted| / max(1, |wanted|) of one row.
double row_error(const Case& one, const Inputs& in, std::int64_t row, const float* got) {
    const AttentionShape shape = shape_of(one);
    const std::int64_t length = one.first + row + 1;
    double worst = 0.0;
    std::vector<double> weights(index(length));
    for (int head = 0; head < one.heads; ++head) {
        const int kv = head / (one.heads / one.kv_heads);
        const float* q = in.q.data() + (row * one.heads + head) * shape.query_stride();
        double top = -1.0e300;
        for (std::int64_t p = 0; p < length; ++p) {
            const float* k = in.k.data() + (p * one.kv_heads + kv) * one.key_dim;
            double score = 0.0;
            for (int d = 0; d < one.key_dim; ++d) score += double(q[d]) * double(k[d]);
            weights[index(p)] = score * double(shape.scale);
            top = std::max(top, weights[index(p)]);
        }
        double total = 0.0;
        std::vector<double> wanted(index(one.value_dim), 0.0);
        for (std::int64_t p = 0; p < length; ++p) {
            const double weight = std::exp(weights[index(p)] - top);
            total += weight;
            const float* v = in.v.data() + (p * one.kv_heads + kv) * one.value_dim;
            for (int d = 0; d < one.value_dim; ++d) wanted[index(d)] += weight * double(v[d]);
        }
        for (int d = 0; d < one.value_dim; ++d) {
            double value = wanted[index(d)] / total;
            if (one.gated) value /= 1.0 + std::exp(-double(q[one.key_dim + d]));
            const double error = std::abs(double(got[head * one.value_dim + d]) - value) /
                                 std::max(1.0, std::abs(value));
            worst = error <= worst ? worst : error;  // NaN counts
        }
    }
    return worst;
}

void check_case(const Case& one, std::uint32_t seed, Failures& failures) {
    const AttentionShape shape = shape_of(one);
    const Inputs in = inputs_of(one, seed);
    Conversation conversation(shape, one.first + one.rows, in.k, in.v);
    bool zero = true;
    const std::vector<float> got = attend(one, conversation, in.q, 0, one.rows, &zero);
    const bool same = [&] {
        const std::vector<float> again = attend(one, conversation, in.q, 0, one.rows, &zero);
        return std::memcmp(got.data(), again.data(), got.size() * sizeof(float)) == 0;
    }();
    double worst = 0.0;
    const std::int64_t step = std::max<std::int64_t>(1, (one.rows - 1) / (kRowsCheckedMax - 1));
    for (std::int64_t row = one.rows - 1; row >= 0; row -= step) {
        const double error = row_error(one, in, row, got.data() + row * one.heads * one.value_dim);
        worst = error <= worst ? worst : error;
    }
    const bool tiled = one.type != KvType::f32 && one.key_dim == one.value_dim &&
                       one.rows >= kTiledRowsMin && !one.exact &&
                       (one.key_dim == 64 || one.key_dim == 128 || one.key_dim == 256);
    char figures[96];
    std::snprintf(figures, sizeof figures, ": error %.2e%s%s", worst, same ? "" : ", bits differ",
                  zero ? "" : ", counters left");
    failures.note(worst <= (tiled ? kTiledTolerance : kFineTolerance) && same && zero,
                  one.name() + figures);
}

// An exact row alone and beside others.
void check_exact_bits(const Case& one, std::uint32_t seed, Failures& failures) {
    const Inputs in = inputs_of(one, seed);
    Conversation conversation(shape_of(one), one.first + one.rows, in.k, in.v);
    bool zero = true;
    const std::vector<float> together = attend(one, conversation, in.q, 0, one.rows, &zero);
    for (const std::int64_t step : {1, 7, 64}) {
        std::vector<float> apart;
        for (std::int64_t row = 0; row < one.rows; row += step) {
            const std::vector<float> some =
                attend(one, conversation, in.q, row, std::min(step, one.rows - row), &zero);
            apart.insert(apart.end(), some.begin(), some.end());
        }
        failures.note(
            zero && apart.size() == together.size() &&
                std::memcmp(apart.data(), together.data(), apart.size() * sizeof(float)) == 0,
            "same bits in steps of " + std::to_string(step) + ": " + one.name());
    }
}

// A recorded step, replayed at other positions.
void check_replay(KvType type, Failures& failures) {
    const Case one{32, 8, 128, 128, false, type, false, 5000, 1};
    const AttentionShape shape = shape_of(one);
    const Inputs in = inputs_of(one, 5);
    Conversation conversation(shape, one.first + 1, in.k, in.v);
    const DeviceArray<float> q(in.q);
    DeviceArray<float> out(index(shape.heads * shape.value_dim));
    const Scratch scratch(shape, 1, false);
    const StepView step = conversation.step(0, 1);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreate(&stream), "stream");
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording");
    launch_attention(stream, step, shape, {q.at(), 1, shape.heads * shape.query_stride()},
                     {out.at(), 1, shape.heads * shape.value_dim}, scratch.view(), false);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "end of recording");
    cudaGraphExec_t replay = nullptr;
    check(cudaGraphInstantiate(&replay, graph, 0), "graph");
    for (const std::int64_t position : {0, 15, 16, 191, 192, 255, 256, 1000, 4999, 5000, 3}) {
        out.fill_bytes(0xff);
        (void)conversation.step(position, 1);
        check(cudaGraphLaunch(replay, stream), "replay");
        check(cudaStreamSynchronize(stream), "replay");
        Case at = one;
        at.first = position;
        const double error = row_error(at, in, 0, out.read().data());
        char figures[64];
        std::snprintf(figures, sizeof figures, "%s replay at %lld: error %.2e", kv_type_name(type),
                      static_cast<long long>(position), error);
        failures.note(error <= kFineTolerance, figures);
    }
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

// One head by the formulas: norm, rotation.
std::vector<double> prepared(const float* head, int dim, const std::vector<float>& gain,
                             const std::vector<double>& frequencies, std::int64_t position,
                             RotaryPairs pairing) {
    std::vector<double> out(head, head + dim);
    double squares = 0.0;
    for (const double x : out) squares += x * x;
    for (int d = 0; d < dim; ++d) {
        out[index(d)] *= double(gain[index(d)]) / std::sqrt(squares / dim + 1.0e-6);
    }
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const bool adjacent = pairing == RotaryPairs::adjacent;
        double& a = out[adjacent ? 2 * i : i];
        double& b = out[adjacent ? 2 * i + 1 : i + frequencies.size()];
        const double angle = double(position) * frequencies[i];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
    }
    return out;
}

double difference(const std::vector<double>& wanted, const float* got) {
    double worst = 0.0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double error =
            std::abs(wanted[i] - double(got[i])) / std::max(1.0, std::abs(wanted[i]));
        worst = error <= worst ? worst : error;
    }
    return worst;
}

void check_store(const Case& one, int pairs, RotaryPairs pairing, Failures& failures) {
    const AttentionShape shape = shape_of(one);
    std::mt19937 random(3);
    std::vector<double> frequencies;
    for (int i = 0; i < pairs; ++i) frequencies.push_back(std::pow(0.8, i));
    const std::vector<float> gain = numbers(random, one.key_dim, 1.0F);
    const Inputs in = inputs_of(one, 9);  // the step's own rows are the last ones of k and v
    const std::int64_t stride = shape.query_stride();
    const std::int64_t k_cols = shape.kv_heads * one.key_dim;
    const std::int64_t v_cols = shape.kv_heads * one.value_dim;
    const std::vector<float> k(in.k.end() - one.rows * k_cols, in.k.end());
    const std::vector<float> v(in.v.end() - one.rows * v_cols, in.v.end());
    const std::vector<float> nothing(std::max(in.k.size(), in.v.size()), 0.0F);
    Conversation conversation(shape, one.first + one.rows, nothing, nothing);
    const StepView step = conversation.step(one.first, one.rows);
    const DeviceArray<float> device_q(in.q), device_k(k), device_v(v), device_gain(gain);
    const DeviceArray<double> device_frequencies(frequencies);
    DeviceArray<float> table(index(2 * one.rows * pairs));
    launch_rope_table(nullptr, step, one.rows, device_frequencies.at(), pairs, 1.0F, table.at());
    launch_store_attention_inputs(
        nullptr, step, shape,
        {device_gain.at(), device_gain.at(), 1.0e-6F, table.at(), pairs, pairing},
        {device_q.at(), one.rows, shape.heads * stride}, {device_k.at(), one.rows, k_cols},
        {device_v.at(), one.rows, v_cols});
    check(cudaDeviceSynchronize(), "storing");
    const std::vector<float> q = device_q.read();
    double q_error = 0.0;
    double k_error = 0.0;
    double v_error = 0.0;
    for (std::int64_t t = 0; t < one.rows; ++t) {
        const std::int64_t position = one.first + t;
        for (int h = 0; h < one.heads; ++h) {
            const std::int64_t at = (t * one.heads + h) * stride;
            std::vector<double> wanted =
                prepared(in.q.data() + at, one.key_dim, gain, frequencies, position, pairing);
            wanted.insert(wanted.end(), in.q.begin() + at + one.key_dim,
                          in.q.begin() + at + stride);
            q_error = std::max(q_error, difference(wanted, q.data() + at));
        }
        const std::vector<float> stored_k = conversation.row(shape, position, false);
        const std::vector<float> stored_v = conversation.row(shape, position, true);
        for (int h = 0; h < one.kv_heads; ++h) {
            const std::vector<double> wanted =
                prepared(k.data() + t * k_cols + h * one.key_dim, one.key_dim, gain, frequencies,
                         position, pairing);
            k_error = std::max(k_error, difference(wanted, stored_k.data() + h * one.key_dim));
        }
        const std::vector<double> wanted_v(v.begin() + t * v_cols, v.begin() + (t + 1) * v_cols);
        v_error = std::max(v_error, difference(wanted_v, stored_v.data()));
    }
    char figures[96];
    std::snprintf(figures, sizeof figures, ": errors q %.1e, k %.1e, v %.1e", q_error, k_error,
                  v_error);
    // Half a step of an int8 key of at most about 4; values are numbers that rows hold exactly, but
    // for the last bit of an int8 scale.
    const double k_tolerance[] = {kFineTolerance, 5.0e-4, 4.0 / 254};
    const double v_tolerance[] = {0.0, 0.0, 1.0e-6};
    const auto type = static_cast<std::size_t>(one.type);
    failures.note(
        q_error <= kFineTolerance && k_error <= k_tolerance[type] && v_error <= v_tolerance[type],
        "store " + one.name() + figures);
}

// A step of one row that stores its K and V by itself against one that has them stored before: the
// same rows byte by byte, the same results but for the order in which a head's squares are summed.
void check_fresh(const Case& one, int pairs, Failures& failures) {
    const AttentionShape shape = shape_of(one);
    std::mt19937 random(8);
    std::vector<double> frequencies;
    for (int i = 0; i < pairs; ++i) frequencies.push_back(std::pow(0.9, i));
    const DeviceArray<double> device_frequencies(frequencies);
    const DeviceArray<float> gain(numbers(random, one.key_dim, 1.0F));
    const Inputs in = inputs_of(one, 11);
    const std::int64_t k_cols = shape.kv_heads * one.key_dim;
    const std::vector<float> k(in.k.end() - k_cols, in.k.end());
    const std::vector<float> v(in.v.end() - k_cols, in.v.end());
    const std::int64_t q_cols = shape.heads * shape.query_stride();
    const std::int64_t out_cols = shape.heads * shape.value_dim;
    std::vector<float> results[2];
    std::vector<float> rows[2];
    for (const bool fresh : {false, true}) {
        Conversation conversation(shape, one.first, in.k, in.v, 1);
        const StepView step = conversation.step(one.first, 1);
        DeviceArray<float> table(index(2 * pairs));
        launch_rope_table(nullptr, step, 1, device_frequencies.at(), pairs, 1.0F, table.at());
        const QkPreparation preparation{gain.at(),  gain.at(), 1.0e-6F,
                                        table.at(), pairs,     RotaryPairs::halves};
        const DeviceArray<float> device_q(in.q), device_k(k), device_v(v);
        DeviceArray<float> out(index(out_cols));
        out.fill_bytes(0xff);
        const Rows q{device_q.at(), 1, q_cols};
        const FreshRow row{{device_k.at(), 1, k_cols}, {device_v.at(), 1, k_cols}, preparation};
        if (!fresh) {
            launch_store_attention_inputs(nullptr, step, shape, preparation, q, row.k, row.v);
        }
        const Scratch scratch(shape, 1, false);
        launch_attention(nullptr, step, shape, q, {out.at(), 1, out_cols}, scratch.view(), false,
                         fresh ? &row : nullptr);
        check(cudaDeviceSynchronize(), "attention");
        results[fresh] = out.read();
        for (const bool value : {false, true}) {
            const std::vector<float> stored = conversation.row(shape, one.first, value);
            rows[fresh].insert(rows[fresh].end(), stored.begin(), stored.end());
        }
    }
    const double error = difference({results[0].begin(), results[0].end()}, results[1].data());
    char figures[64];
    std::snprintf(figures, sizeof figures, ": difference %.1e", error);
    failures.note(error <= 1.0e-6 && rows[0] == rows[1], "fresh row " + one.name() + figures);
}

std::vector<Case> known_cases() {
    std::vector<Case> cases;
    for (const std::int64_t first : {0, 1, 15, 16, 63, 64, 255, 256, 700, 1100}) {
        cases.push_back({4, 2, 64, 64, false, KvType::f16, false, first, 1});
        cases.push_back({4, 2, 64, 64, false, KvType::f32, false, first, 1});
        cases.push_back({32, 8, 128, 128, false, KvType::f16, false, first, 1});
        cases.push_back({16, 2, 256, 256, true, KvType::f16, false, first, 1});
        cases.push_back({4, 2, 64, 64, false, KvType::int8, false, first, 1});
        cases.push_back({32, 8, 128, 128, false, KvType::int8, false, first, 1});
        cases.push_back({16, 2, 256, 256, true, KvType::int8, false, first, 1});
    }
    for (const std::int64_t rows : {2, 5, 8, 9, 33, 70, 200}) {
        for (const std::int64_t first : {0, 200}) {
            cases.push_back({4, 2, 32, 32, true, KvType::f32, false, first, rows});
            cases.push_back({4, 2, 64, 64, true, KvType::f16, false, first, rows});
            cases.push_back({16, 2, 256, 256, true, KvType::f16, false, first, rows});
            cases.push_back({8, 2, 128, 128, false, KvType::f16, false, first, rows});
            cases.push_back({4, 2, 64, 64, true, KvType::int8, false, first, rows});
            cases.push_back({16, 2, 256, 256, true, KvType::int8, false, first, rows});
            cases.push_back({8, 2, 128, 128, false, KvType::int8, false, first, rows});
        }
    }
    for (const KvType type : kKvTypes) {
        for (const std::int64_t rows : {1, 9}) {
            cases.push_back({1, 1, 16, 16, false, type, false, 90, rows});
            cases.push_back({7, 1, 64, 64, false, type, false, 90, rows});
            cases.push_back({3, 3, 40, 40, false, type, false, 90, rows});
            cases.push_back({16, 2, 128, 128, false, type, false, 90, rows, 4.0F});
            cases.push_back({2, 1, 256, 256, false, type, false, 90, rows, 3.0F});
            cases.push_back({20, 1, 18, 18, false, type, false, 90, rows});
            cases.push_back({20, 1, 128, 128, false, type, false, 900, rows});
        }
    }
    cases.push_back({32, 8, 128, 128, false, KvType::f16, false, 32767, 1});
    cases.push_back({32, 8, 128, 128, false, KvType::int8, false, 32767, 1});
    cases.push_back({32, 8, 128, 128, false, KvType::int8, false, 7000, 1000});
    cases.push_back({16, 2, 256, 256, true, KvType::f16, false, 32767, 1});
    cases.push_back({64, 8, 64, 64, false, KvType::f16, false, 32000, 3});
    cases.push_back({16, 2, 256, 256, true, KvType::f16, false, 20000, 4});
    cases.push_back({32, 8, 128, 128, false, KvType::f16, false, 7000, 1000});
    cases.push_back({16, 2, 256, 256, true, KvType::f16, false, 7000, 700});
    cases.push_back({14, 2, 64, 64, false, KvType::f16, false, 0, 2048});
    // Few rows of a long conversation: the positions of a tile of rows are parted among blocks.
    for (const KvType type : {KvType::f16, KvType::int8}) {
        for (const std::int64_t rows : {9, 46, 130, 500}) {
            cases.push_back({8, 2, 64, 64, true, type, false, 3001, rows});
            cases.push_back({32, 8, 128, 128, false, type, false, 20000, rows});
            cases.push_back({16, 2, 256, 256, true, type, false, 1030, rows, 3.0F});
        }
    }
    for (const KvType type : kKvTypes) {
        cases.push_back({4, 2, 32, 32, true, type, true, 200, 70});
        cases.push_back({16, 1, 64, 64, false, type, true, 255, 40});
        cases.push_back({32, 8, 128, 128, false, type, true, 3000, 1});
    }
    return cases;
}

std::vector<Case> random_cases() {
    std::vector<Case> cases;
    std::mt19937 random(77);
    const auto pick = [&](int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random);
    };
    for (int i = 0; i < 20; ++i) {
        const int kv = pick(1, 5);
        const int dim = pick(1, 70);
        const bool gated = pick(0, 1) == 1;
        cases.push_back({kv * pick(1, 11), kv, dim, gated ? dim : pick(1, 140), gated,
                         kKvTypes[pick(0, 2)], pick(0, 3) == 0, pick(0, 900), pick(1, 40)});
    }
    return cases;
}

void check_all(Failures& failures) {
    for (const RotaryPairs pairing : {RotaryPairs::adjacent, RotaryPairs::halves}) {
        check_store({4, 2, 24, 24, false, KvType::f32, false, 254, 3}, 5, pairing, failures);
        check_store({4, 2, 20, 18, false, KvType::f16, false, 254, 3}, 10, pairing, failures);
        check_store({16, 2, 256, 256, true, KvType::f16, false, 1000, 9}, 32, pairing, failures);
        check_store({32, 8, 128, 128, false, KvType::f16, false, 600, 5}, 64, pairing, failures);
        check_store({4, 2, 20, 18, false, KvType::int8, false, 254, 3}, 10, pairing, failures);
        check_store({16, 2, 256, 256, true, KvType::int8, false, 1000, 9}, 32, pairing, failures);
        check_store({32, 8, 128, 128, false, KvType::int8, false, 600, 5}, 64, pairing, failures);
    }
    for (const KvType type : {KvType::f16, KvType::int8}) {
        for (const std::int64_t first : {0, 15, 16, 255, 256, 3000}) {
            check_fresh({32, 8, 128, 128, false, type, false, first, 1}, 64, failures);
            check_fresh({16, 2, 256, 256, true, type, false, first, 1}, 32, failures);
            check_fresh({20, 1, 64, 64, false, type, false, first, 1}, 32, failures);
        }
    }
    std::vector<Case> cases = known_cases();
    const std::vector<Case> others = random_cases();
    cases.insert(cases.end(), others.begin(), others.end());
    std::uint32_t seed = 100;
    for (const Case& one : cases) check_case(one, ++seed, failures);
    check_exact_bits({4, 2, 32, 32, true, KvType::f16, true, 440, 150}, 1, failures);
    check_exact_bits({16, 1, 64, 64, false, KvType::f16, true, 440, 150}, 2, failures);
    check_exact_bits({2, 2, 20, 20, false, KvType::f32, true, 440, 150}, 3, failures);
    check_exact_bits({16, 2, 256, 256, true, KvType::f16, true, 2440, 100}, 4, failures);
    check_exact_bits({16, 2, 256, 256, true, KvType::int8, true, 440, 100}, 5, failures);
    for (const KvType type : {KvType::f16, KvType::int8}) check_replay(type, failures);
}

}  // namespace

int main(int count, char** words) {
    Failures failures;
    check_all(failures);
    std::printf("%d failed\n", failures.count);
    std::fflush(stdout);
    if (count < 2 || std::string(words[1]) != "check") time_all();
    return failures.count == 0 ? 0 : 1;
}
