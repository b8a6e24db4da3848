#include "engine/backend/cuda/cuda_ops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/backend/cuda/launch/delta.hpp"
#include "engine/backend/cuda/launch/largest.hpp"
#include "engine/backend/cuda/launch/shortlist.hpp"
#include "engine/backend/cuda/launch/weights.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

enum Call : std::uint64_t {
    kTakeStep,
    kEmbed,
    kRmsNorm,
    kAddToRows,
    kProducts,
    kCodeTiles,
    kRowProducts,
    kRowProductsOf,
    kGatedRowProduct,
    kGateRows,
    kQuantise,
    kToBf16,
    kManyRows,
    kRopeTable,
    kStoreInputs,
    kAttention,
    kConvolution,
    kDeltaRule,
    kGatedRmsNorm,
    kFindLargest,
    kPenalise,
    kShortlist,
};

CallKey& operator<<(CallKey& key, Rows rows) {
    return key << rows.values << rows.rows << rows.cols;
}
CallKey& operator<<(CallKey& key, const OtherForms& forms) {
    return key << forms.quantised.codes << forms.quantised.scaled << forms.bf16;
}
CallKey& operator<<(CallKey& key, const AttentionShape& shape) {
    return key << shape.heads << shape.kv_heads << shape.key_dim << shape.value_dim << shape.scale
               << shape.gated << shape.kv_type << shape.k_offset << shape.v_offset;
}

CallKey& operator<<(CallKey& key, const RowInput& of) {
    return key << of.x << of.cols << of.gain << of.epsilon;
}
CallKey& operator<<(CallKey& key, const QkPreparation& of) {
    return key << of.q_gain << of.k_gain << of.epsilon << of.rope_table << of.rope_pairs
               << of.pairing;
}

// Of the same layer's K and V.
bool same_places(const AttentionShape& a, const AttentionShape& b) {
    return a.k_offset == b.k_offset && a.v_offset == b.v_offset && a.kv_type == b.kv_type;
}

std::size_t ceil_floats(std::size_t bytes) {
    return (bytes + sizeof(float) - 1) / sizeof(float);
}

bool same(Rows a, Rows b) {
    return a.values == b.values && a.rows == b.rows && a.cols == b.cols;
}
bool overlap(Rows a, Rows b) {
    return a.values != nullptr && a.values < b.values + b.rows * b.cols &&
           b.values < a.values + a.rows * a.cols;
}

ProductPart part_of(const Projection& of) {
    return {on_device(*of.weight).planes,
            of.weight->rows,
            of.y.values,
            of.bias,
            of.weight->scale,
            of.accumulate};
}

// The projections of one launch, by value.
struct Parts {
    std::array<ProductPart, kProductPartsMax> parts;
    std::size_t count = 0;

    std::span<const ProductPart> all() const { return std::span(parts).first(count); }
};
Parts parts_of(std::span<const Projection> projections, CallKey& key) {
    Parts out;
    for (const Projection& of : projections) {
        out.parts[out.count++] = part_of(of);
        key << of.weight << of.y << of.bias << of.accumulate;
    }
    return out;
}

// How many of the first projections are of one type and fit a launch.
std::size_t alike(std::span<const Projection> projections) {
    std::size_t count = 0;
    while (count < projections.size() && count < kProductPartsMax &&
           projections[count].weight->type == projections.front().weight->type) {
        ++count;
    }
    return count;
}

// Panels of a weight that are unpacked and multiplied one after the other: small enough to stay in
// the second-level cache in between.
constexpr std::int64_t kPanelBytes = std::int64_t{24} << 20;
constexpr std::int64_t kBf16Bytes = 2;

}  // namespace

void CudaOps::begin(const Step& step) {
    flush();
    pending_ = {};
    step_.write(step);
    rows_ = static_cast<std::int64_t>(step.ids.size());
    coded_ = {};
    halved_ = {};
    // The graph of a recorded step waits for nothing in its midst.
    if (rows_ == 1) {
        arrivals_.wait_for_all();
    } else {
        arrivals_.wait_for_first();
    }
    recorder_.begin(rows_ == 1);
    // A block that moved to where a smaller one was has the same address.
    CallKey key(kTakeStep);
    key << step_.view().head << step_.bytes();
    run(key, [this] { step_.take(); });
}

void CudaOps::flush() {
    if (!recorder_.recording()) return;
    // One that was used stays pending: a later operation of the step may read it in another way.
    if (!pending_.used) read(pending_.y);
    store_now();
    recorder_.flush();
}

void CudaOps::store_now() {
    if (storing_.q.values == nullptr) return;
    const PendingStore of = storing_;
    storing_ = {};
    store(of);
}

void CudaOps::written_by_copy(const void* at, std::size_t bytes) {
    // Rows are whole floats and only looked at.
    auto* first = static_cast<float*>(const_cast<void*>(at));
    written({first, 1, static_cast<std::int64_t>(ceil_floats(bytes))});
}

void CudaOps::read(Rows x) {
    if (!overlap(pending_.y, x)) return;
    const PendingNorm norm = pending_;
    pending_ = {};
    write_norm(norm.x, norm.gain, norm.epsilon, norm.y);
}

QuantisedView CudaOps::code_memory(std::int64_t rows, std::int64_t cols) {
    QuantisedView out;
    out.codes = static_cast<std::int8_t*>(
        scratch_.take(ScratchUse::input_codes, static_cast<std::size_t>(rows * cols)));
    out.scaled = static_cast<float2*>(
        scratch_.take(ScratchUse::input_steps,
                      static_cast<std::size_t>(rows * cols / kGroupElements) * sizeof(float2)));
    return out;
}

void* CudaOps::bf16_memory(std::int64_t rows, std::int64_t cols) {
    return scratch_.take(ScratchUse::input_bf16,
                         static_cast<std::size_t>(rows * cols * kBf16Bytes));
}

OtherForms CudaOps::forms_for(Rows y) {
    OtherForms forms;
    if (!few(y.rows) && !(some(y.rows) && codes_used_)) {
        forms.bf16 = bf16_memory(y.rows, y.cols);
        halved_ = y;
    } else if (codes_used_ && y.cols % kGroupElements == 0) {
        forms.quantised = code_memory(y.rows, y.cols);
        coded_ = y;
    }
    return forms;
}

void CudaOps::written(Rows y) {
    if (overlap(pending_.x, y) || overlap(pending_.y, y)) pending_ = {};
    if (overlap(coded_, y)) coded_ = {};
    if (overlap(halved_, y)) halved_ = {};
}

QuantisedView CudaOps::codes_of(Rows x) {
    codes_used_ = true;
    const QuantisedView out = code_memory(x.rows, x.cols);
    if (same(coded_, x)) return out;
    coded_ = x;
    CallKey key(kQuantise);
    key << x << out.codes << out.scaled;
    run(key, [=, this] { launch_quantise(stream_, x, out); });
    return out;
}

const void* CudaOps::bf16_of(Rows x) {
    void* out = bf16_memory(x.rows, x.cols);
    if (same(halved_, x)) return out;
    halved_ = x;
    CallKey key(kToBf16);
    key << x << out;
    run(key, [=, this] { launch_to_bf16(stream_, x, out); });
    return out;
}

void CudaOps::embed(const Weight& table, Rows x) {
    written(x);
    const StepView view = step_.view();
    CallKey key(kEmbed);
    key << &table << view.head << x;
    run(key, [=, this, &table] {
        launch_embed(stream_, view, table.type, on_device(table).planes, table.scale, x);
    });
}

void CudaOps::rms_norm(Rows x, const float* gain, float epsilon, Rows y) {
    read(x);
    written(y);
    if (fuses(x)) {
        pending_ = {x, gain, epsilon, y, false};
        return;
    }
    write_norm(x, gain, epsilon, y);
}

void CudaOps::write_norm(Rows x, const float* gain, float epsilon, Rows y) {
    const OtherForms forms = forms_for(y);
    CallKey key(kRmsNorm);
    key << x << gain << epsilon << y << forms;
    run(key, [=, this] { launch_rms_norm(stream_, x, gain, epsilon, y, forms); });
}

void CudaOps::add_to_rows(Rows x, const float* v) {
    read(x);
    written(x);
    CallKey key(kAddToRows);
    key << x << v;
    run(key, [=, this] { launch_add_to_rows(stream_, x, v); });
}

// Up to kProductRowsMax rows, projections of one type.
void CudaOps::run_products(Rows x, std::span<const Projection> projections) {
    const ElementType type = projections.front().weight->type;
    CallKey key(kProducts);
    key << x;
    ProductInput input{x, {}};
    if (!is_float(type)) input.quantised = codes_of(x);
    key << input.quantised.codes << input.quantised.scaled;
    const Parts parts = parts_of(projections, key);
    run(key, [=, this] { launch_products(stream_, type, input, parts.all()); });
}

// What a product with the row reads: the row itself, or what its pending norm is made of.
RowInput CudaOps::row_input(Rows x) {
    if (!same(pending_.y, x) || !takes_normed_row(x.cols)) {
        read(x);
        return {x.values, x.cols, nullptr, 0.0F};
    }
    pending_.used = true;
    return {pending_.x.values, x.cols, pending_.gain, pending_.epsilon};
}

// One row, projections of one type.
void CudaOps::run_row_products(Rows x, std::span<const Projection> projections) {
    const ElementType type = projections.front().weight->type;
    const RowInput input = row_input(x);
    CallKey key(kRowProducts);
    key << input;
    const Parts parts = parts_of(projections, key);
    run(key, [=, this] {
        launch_row_products(stream_, chip_.multiprocessors, type, input, parts.all());
    });
}

// The same of two types.
void CudaOps::run_row_products_of(Rows x, std::span<const Projection> first,
                                  std::span<const Projection> second) {
    const ElementType first_type = first.front().weight->type;
    const ElementType second_type = second.front().weight->type;
    const RowInput input = row_input(x);
    CallKey key(kRowProductsOf);
    key << input << first.size();
    const Parts one = parts_of(first, key);
    const Parts other = parts_of(second, key);
    run(key, [=, this] {
        launch_row_products_of(stream_, chip_.multiprocessors, input, first_type, one.all(),
                               second_type, other.all());
    });
}

void CudaOps::few_rows_linear(Rows x, std::span<const Projection> projections) {
    if (x.rows > kProductRowsMax) {
        for (std::int64_t row = 0; row < x.rows; row += kProductRowsMax) {
            const std::int64_t rows = std::min(kProductRowsMax, x.rows - row);
            std::vector<Projection> part(projections.begin(), projections.end());
            for (Projection& of : part) {
                of.y = {of.y.values + row * of.y.cols, rows, of.y.cols};
            }
            few_rows_linear({x.values + row * x.cols, rows, x.cols}, part);
        }
        return;
    }
    while (!projections.empty()) {
        std::size_t count = alike(projections);
        const ElementType type = projections.front().weight->type;
        if (fuses(x) && takes_row(type, x.cols)) {
            const std::size_t more = alike(projections.subspan(count));
            if (more > 0 && takes_row_of(type, projections[count].weight->type, x.cols)) {
                run_row_products_of(x, projections.first(count), projections.subspan(count, more));
                count += more;
            } else {
                run_row_products(x, projections.first(count));
            }
        } else {
            read(x);
            run_products(x, projections.first(count));
        }
        projections = projections.subspan(count);
    }
}

void CudaOps::many_rows_product(Rows x, const Weight& weight, bool accumulate, float* y,
                                std::int64_t y_stride) {
    const Planes& planes = on_device(weight).planes;
    if (weight.type == ElementType::f32) {
        library_->multiply(MatrixForm::f32, planes.codes, weight.rows, x.values, x.rows, x.cols,
                           weight.scale, accumulate, y, y_stride);
        return;
    }
    const void* input = bf16_of(x);
    if (weight.type == ElementType::bf16) {
        library_->multiply(MatrixForm::bf16, planes.codes, weight.rows, input, x.rows, x.cols,
                           weight.scale, accumulate, y, y_stride);
        return;
    }
    const std::int64_t panel_rows =
        std::clamp<std::int64_t>(kPanelBytes / (x.cols * kBf16Bytes), 1, weight.rows);
    void* panel = scratch_.take(ScratchUse::panel,
                                static_cast<std::size_t>(panel_rows * x.cols * kBf16Bytes));
    for (std::int64_t row = 0; row < weight.rows; row += panel_rows) {
        const std::int64_t count = std::min(panel_rows, weight.rows - row);
        launch_unpack_rows(stream_, weight.type, planes, x.cols, row, count, panel);
        library_->multiply(MatrixForm::bf16, panel, count, input, x.rows, x.cols, weight.scale,
                           accumulate, y + row, y_stride);
    }
}

// Float weights as of many rows: they need no unpacking.
void CudaOps::some_rows_linear(Rows x, std::span<const Projection> projections) {
    read(x);
    while (!projections.empty()) {
        const std::size_t count = alike(projections);
        const auto part = projections.first(count);
        projections = projections.subspan(count);
        const ElementType type = part.front().weight->type;
        if (is_float(type)) {
            many_rows_linear(x, part);
            continue;
        }
        const QuantisedView codes = codes_of(x);
        CallKey key(kCodeTiles);
        key << x << codes.codes << codes.scaled;
        const Parts parts = parts_of(part, key);
        run(key,
            [=, this] { launch_code_tiles(stream_, type, codes, x.rows, x.cols, parts.all()); });
    }
}

void CudaOps::many_rows_linear(Rows x, std::span<const Projection> projections) {
    for (const Projection& of : projections) {
        many_rows_product(x, *of.weight, of.accumulate, of.y.values, of.y.cols);
        if (of.bias != nullptr) launch_add_to_rows(stream_, of.y, of.bias);
    }
}

void CudaOps::linear(Rows x, std::span<const Projection> projections) {
    for (const Projection& of : projections) {
        if (of.accumulate) read(of.y);
    }
    if (few(x.rows)) {
        few_rows_linear(x, projections);
    } else if (some(x.rows)) {
        some_rows_linear(x, projections);
    } else {
        many_rows_linear(x, projections);
    }
    for (const Projection& of : projections) written(of.y);
}

void CudaOps::gate_rows(Rows gate, const float* up) {
    written(gate);
    const OtherForms forms = forms_for(gate);
    CallKey key(kGateRows);
    key << gate << up << forms;
    run(key, [=, this] { launch_gate_rows(stream_, gate, up, forms); });
}

void CudaOps::gated_linear(Rows x, const Weight& gate, const Weight& up, Rows y) {
    if (fuses(x) && gate.type == up.type && takes_row(gate.type, x.cols)) {
        const RowInput input = row_input(x);
        const ProductPart parts[2] = {part_of({&gate, nullptr, y, false}),
                                      part_of({&up, nullptr, y, false})};
        CallKey key(kGatedRowProduct);
        key << input << &gate << &up << y;
        const ElementType type = gate.type;
        run(key, [=, this] {
            launch_gated_row_product(stream_, chip_.multiprocessors, type, input, parts[0],
                                     parts[1]);
        });
        written(y);
        return;
    }
    const Rows other{floats(ScratchUse::up, y.rows * y.cols), y.rows, y.cols};
    const std::array<Projection, 2> both = {
        {{&gate, nullptr, y, false}, {&up, nullptr, other, false}}};
    linear(x, both);
    gate_rows(y, other.values);
}

void CudaOps::rope_table(const RopeAngles& angles, float* table) {
    const StepView view = step_.view();
    const std::int64_t rows = rows_;
    CallKey key(kRopeTable);
    key << view.head << angles.frequencies << angles.pairs << angles.magnitude << table << rows;
    run(key, [=, this] {
        launch_rope_table(stream_, view, rows, angles.frequencies, angles.pairs, angles.magnitude,
                          table);
    });
}

void CudaOps::await_rows(const AttentionShape& shape) {
    const auto rows = static_cast<std::size_t>(kPageTokens);
    arrivals_.wait_for_rows(std::max(shape.k_offset + rows * shape.k_rows().row_bytes(),
                                     shape.v_offset + rows * shape.v_rows().row_bytes()));
}

void CudaOps::store(const PendingStore& of) {
    await_rows(of.shape);
    const StepView view = step_.view();
    CallKey key(kStoreInputs);
    key << view.head << of.shape << of.preparation << of.q << of.k << of.v;
    run(key, [=, this] {
        launch_store_attention_inputs(stream_, view, of.shape, of.preparation, of.q, of.k, of.v);
    });
}

void CudaOps::store_attention_inputs(const AttentionShape& shape, const QkPreparation& preparation,
                                     Rows q, Rows k, Rows v) {
    read(q);
    read(k);
    read(v);
    written(q);
    written(k);
    const PendingStore of{shape, preparation, q, k, v};
    if (fuses(q)) {
        storing_ = of;
    } else {
        store(of);
    }
}

void CudaOps::attention(const AttentionShape& shape, Rows q, Rows out) {
    const bool fresh = same(storing_.q, q) && same_places(storing_.shape, shape) &&
                       stores_fresh_row(shape, q, out);
    FreshRow row;
    if (fresh) {
        row = {storing_.k, storing_.v, storing_.preparation};
        storing_ = {};
    } else {
        read(q);
    }
    written(out);
    await_rows(shape);
    const StepView view = step_.view();
    AttentionScratch scratch;
    scratch.multiprocessors = chip_.multiprocessors;
    scratch.partials =
        floats(ScratchUse::partials,
               attention_partial_floats(shape, q.rows, chip_.multiprocessors, exact_));
    const auto counters = static_cast<std::size_t>(attention_counters(shape, q.rows));
    scratch.counters =
        static_cast<unsigned*>(scratch_.take(ScratchUse::counters, counters * sizeof(unsigned)));
    CallKey key(kAttention);
    key << view.head << shape << q << out << scratch.partials << scratch.counters << fresh;
    if (fresh) key << row.k << row.v << row.preparation;
    run(key, [=, this] {
        launch_attention(stream_, view, shape, q, out, scratch, exact_, fresh ? &row : nullptr);
    });
}

void CudaOps::convolution(const ConvolutionShape& shape, Rows u, const float* taps, Rows c) {
    read(u);
    written(c);
    const StepView view = step_.view();
    CallKey key(kConvolution);
    key << view.head << shape.channels << shape.kernel << shape.state_offset << u << taps << c;
    run(key, [=, this] { launch_convolution(stream_, view, shape, u, taps, c); });
}

void CudaOps::delta_rule(const DeltaShape& shape, Rows c, Rows b, Rows alpha, const float* a,
                         const float* dt_bias, Rows o) {
    read(c);
    read(b);
    read(alpha);
    written(o);
    const StepView view = step_.view();
    CallKey key(kDeltaRule);
    key << view.head << shape.key_heads << shape.value_heads << shape.key_dim << shape.value_dim
        << shape.map << shape.state_offset << c << b << alpha << a << dt_bias << o;
    const bool chunked = !exact_ && c.rows >= kDeltaChunkedRowsMin;
    const std::size_t bytes = chunked ? delta_chunk_bytes(shape, c.rows) : 0;
    void* scratch = bytes == 0 ? nullptr : scratch_.take(ScratchUse::delta_chunks, bytes);
    run(key, [=, this] {
        launch_delta_rule(stream_, view, shape, c, b, alpha, a, dt_bias, o, scratch);
    });
}

void CudaOps::gated_rms_norm(Rows o, Rows z, std::int64_t head_dim, const float* gain,
                             float epsilon, Rows y) {
    read(o);
    read(z);
    written(y);
    CallKey key(kGatedRmsNorm);
    key << o << z << head_dim << gain << epsilon << y;
    run(key, [=, this] { launch_gated_rms_norm(stream_, o, z, head_dim, gain, epsilon, y); });
}

void CudaOps::find_largest(Rows x, std::int32_t* index) {
    read(x);
    LargestScratch scratch;
    scratch.found =
        static_cast<uint2*>(scratch_.take(ScratchUse::largest, kLargestBlocksMax * sizeof(uint2)));
    scratch.counter =
        static_cast<unsigned*>(scratch_.take(ScratchUse::largest_counter, sizeof(unsigned)));
    CallKey key(kFindLargest);
    key << x << index << scratch.found << scratch.counter;
    run(key, [=, this] { launch_find_largest(stream_, x, scratch, index); });
}

void CudaOps::penalise(Rows x, const TokenCounts* counts, const Penalties& by) {
    read(x);
    written(x);
    CallKey key(kPenalise);
    key << x << counts << by.repeat << by.frequency << by.presence;
    run(key, [=, this] { launch_penalise(stream_, x, counts, by); });
}

void CudaOps::shortlist(Rows x, const ShortlistRule& rule, Shortlist* list, double* weights) {
    read(x);
    ShortlistScratch scratch;
    scratch.maxima = static_cast<unsigned*>(
        scratch_.take(ScratchUse::shortlist_maxima, kMaximaMax * sizeof(unsigned)));
    scratch.counters =
        static_cast<unsigned*>(scratch_.take(ScratchUse::shortlist_counters, 2 * sizeof(unsigned)));
    CallKey key(kShortlist);
    key << x << rule.count << rule.weighs << rule.factor << list << weights << scratch.maxima
        << scratch.counters;
    run(key, [=, this] { launch_shortlist(stream_, x, rule, scratch, list, weights); });
}

}  // namespace strata::cuda
