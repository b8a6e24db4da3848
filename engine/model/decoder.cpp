#include "engine/model/decoder.hpp"

#include <algorithm>

#include "strata/core/invariant.hpp"

namespace strata {
namespace {

Rows last_row(Rows x) {
    return {x.values + (x.rows - 1) * x.cols, 1, x.cols};
}

template <class Part>
void add_part(const Part& part, Pass& pass, const float* gain, Rows x) {
    const Arena::Scope scope(pass.arena);
    const Rows n = pass.arena.rows(x.rows, x.cols);
    pass.ops.rms_norm(x, gain, pass.epsilon, n);
    std::visit([&](const auto& one) { one.add_to(pass, n, x); }, part);
}

std::int64_t columns(const DecoderLayer& layer) {
    const auto count = [](const auto& part) { return part.scratch_columns(); };
    return std::max(std::visit(count, layer.mixer), std::visit(count, layer.ffn));
}

}  // namespace

bool Decoder::forward(Ops& ops, Arena& arena, std::int64_t rows, Rows logits,
                      const std::function<bool()>& go_on,
                      std::span<const float* const> directions) const {
    STRATA_INVARIANT(directions.empty() || directions.size() == layers.size());
    const Arena::Scope scope(arena);
    Rows x = arena.rows(rows, width);
    float* rotations = arena.floats(rows * 2 * angles.pairs);
    Pass pass{ops, arena, epsilon, {}};
    pass.preparation.epsilon = epsilon;
    pass.preparation.rope_table = rotations;
    pass.preparation.rope_pairs = angles.pairs;
    pass.preparation.pairing = pairing;

    ops.embed(*embedding, x);
    ops.rope_table(angles, rotations);
    for (const DecoderLayer& layer : layers) {
        add_part(layer.mixer, pass, layer.mixer_gain, x);
        if (&layer == &layers.back()) {
            // Past the last mixer only the last token's row matters, and only for the logits.
            if (logits.values == nullptr) return true;
            x = last_row(x);
        }
        if (!go_on()) return false;
        add_part(layer.ffn, pass, layer.ffn_gain, x);
        const auto at = static_cast<std::size_t>(&layer - layers.data());
        if (!directions.empty() && directions[at] != nullptr) ops.add_to_rows(x, directions[at]);
        if (!go_on()) return false;
    }
    ops.rms_norm(x, output_gain, epsilon, x);
    const Projection out{head, nullptr, logits, false};
    ops.linear(x, {&out, 1});
    return true;
}

std::int64_t Decoder::scratch_floats(std::int64_t rows) const {
    std::int64_t most = 0;
    for (const DecoderLayer& layer : layers) most = std::max(most, columns(layer));
    constexpr std::int64_t kTakesMax = 16;  // each may round up to the arena's alignment
    return rows * (2 * width + 2 * angles.pairs + most) + kTakesMax * kArenaAlignment;
}

}  // namespace strata
