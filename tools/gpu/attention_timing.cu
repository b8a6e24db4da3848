// Times the attention kernels: few rows against the rate at which memory is read, many rows in
// products a second.
#include "tools/gpu/attention_fixture.cuh"
#include "tools/gpu/timing.cuh"

namespace strata::cuda::attention_check {
namespace {

// One call's time on conversations that take turns, so that K and V come from memory.
double time_attention(const Case& one, std::int64_t conversations) {
    const AttentionShape shape = shape_of(one);
    const std::int64_t length = one.first + one.rows;
    const std::int64_t pages = (length + kPageTokens - 1) / kPageTokens;
    DeviceArray<char> room(index(conversations * pages) * page_bytes(shape));
    std::vector<void*> addresses;
    for (std::int64_t p = 0; p < conversations * pages; ++p) {
        addresses.push_back(room.at() + index(p) * page_bytes(shape));
    }
    std::vector<std::uint16_t> halves(room.count() / 2);
    std::uint32_t state = 12345;
    for (std::uint16_t& half : halves) {
        state = state * 1664525U + 1013904223U;
        half = static_cast<std::uint16_t>((state >> 16 & 0x8fffU) | 0x3000U);  // small, either sign
    }
    check(cudaMemcpy(room.at(), halves.data(), room.count(), cudaMemcpyHostToDevice), "copy");
    const DeviceArray<void*> table(addresses);
    DeviceArray<StepHead> head(1);
    head.write({StepHead{one.first, one.rows, nullptr}});
    std::mt19937 random(4);
    const DeviceArray<float> q(
        numbers(random, one.rows * shape.heads * shape.query_stride(), 1.0F));
    const DeviceArray<float> out(index(one.rows * shape.heads * shape.value_dim));
    const Scratch scratch(shape, one.rows, one.exact);
    const int calls = one.rows > 256 ? 5 : 100;
    return timing::milliseconds(nullptr, calls, [&](int i) {
        StepView step;
        step.head = head.at();
        step.pages = table.at() + i % conversations * pages;
        launch_attention(
            nullptr, step, shape, {q.at(), one.rows, shape.heads * shape.query_stride()},
            {out.at(), one.rows, shape.heads * shape.value_dim}, scratch.view(), one.exact);
    });
}

}  // namespace

void time_all() {
    constexpr double kGiga = 1.0e9;  // bytes a millisecond into TB/s
    const double rate = timing::read_rate(nullptr) / kGiga;
    std::printf("\nreading device memory: %.2f TB/s\n\nfew rows\n", rate);
    for (const std::int64_t length : {1000, 8192, 32768, 131072}) {
        for (const std::int64_t rows : {1, 4, 8}) {
            for (const Case& one :
                 {Case{32, 8, 128, 128, false, KvType::f16, false, length - rows, rows},
                  Case{32, 8, 128, 128, false, KvType::int8, false, length - rows, rows},
                  Case{16, 2, 256, 256, true, KvType::int8, false, length - rows, rows},
                  Case{16, 2, 256, 256, true, KvType::f16, false, length - rows, rows},
                  Case{64, 8, 64, 64, false, KvType::f16, false, length - rows, rows},
                  Case{40, 8, 128, 128, false, KvType::f16, true, length - rows, rows}}) {
                const double bytes =
                    double(length) * 2 * double(shape_of(one).k_rows().row_bytes());
                const auto turns = static_cast<std::int64_t>(4.0e8 / bytes) + 2;
                const double time = time_attention(one, std::min<std::int64_t>(turns, 40));
                std::printf("%-60s %8.1f us %6.2f TB/s %5.1f %%\n", one.name().c_str(), time * 1e3,
                            bytes / time / 1e9, bytes / time / 1e9 / rate * 100);
            }
        }
    }
    std::printf("\nmany rows\n");
    for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>{0, 2048},
                                      {0, 8192},
                                      {32768, 16},
                                      {32768, 128},
                                      {32768, 512},
                                      {30720, 2048}}) {
        for (const Case& one : {Case{32, 8, 128, 128, false, KvType::f16, false, first, rows},
                                Case{32, 8, 128, 128, false, KvType::int8, false, first, rows},
                                Case{16, 2, 256, 256, true, KvType::f16, false, first, rows},
                                Case{64, 8, 64, 64, false, KvType::f16, false, first, rows}}) {
            const double time = time_attention(one, 2);
            const double pairs = double(rows) * double(first) + double(rows) * double(rows + 1) / 2;
            std::printf("%-60s %8.1f us %6.1f TFLOP/s\n", one.name().c_str(), time * 1e3,
                        4.0 * pairs * one.heads * one.key_dim / time / 1e9);
        }
    }
}

}  // namespace strata::cuda::attention_check
