// Conformance of Ops::shortlist and Ops::penalise on every device: what is listed is checked
// against the whole row, weights bit by bit against the host's and against a reference of long
// doubles, memory that is not to be written against what was there.
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "strata/backend/row_weights.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr double kWeightPoison = -77.5;
constexpr Candidate kPoison{-77.25F, -77};

std::uint32_t bits(float value) {
    return std::bit_cast<std::uint32_t>(value);
}
std::uint64_t bits(double value) {
    return std::bit_cast<std::uint64_t>(value);
}

// Memory for one list and its weights, with one more behind them that nobody may write.
class Lister {
  public:
    Lister(Device& device, std::int64_t cols)
        : device_(device),
          cols_(cols),
          list_(device.allocate_visible(sizeof(Shortlist)).value()),
          weights_(device.allocate_visible(weight_room() * sizeof(double)).value()) {}

    Shortlist& list() { return *static_cast<Shortlist*>(list_.address()); }
    std::span<double> weights() {
        return {static_cast<double*>(weights_.address()), weight_room()};
    }

    void poison() {
        list().verdict = Shortlist::unset;
        list().count = -77;
        list().largest = kPoison.logit;
        list().least = kPoison.logit;
        std::fill(std::begin(list().candidates), std::end(list().candidates), kPoison);
        std::fill(weights().begin(), weights().end(), kWeightPoison);
    }
    void run(Rows row, const ShortlistRule& rule) {
        poison();
        device_.ops().shortlist(row, rule, &list(), weights().data());
        device_.wait_for_change(&list().verdict, Shortlist::unset);
    }

  private:
    std::size_t weight_room() const { return static_cast<std::size_t>(weight_blocks(cols_)) + 1; }

    Device& device_;
    std::int64_t cols_;
    Buffer list_;
    Buffer weights_;
};

void check_candidates(const Shortlist& list, const std::vector<float>& row) {
    REQUIRE(list.count >= 0);
    REQUIRE(list.count <= Shortlist::kCandidatesMax);
    std::set<TokenId> ids;
    std::size_t wrong = 0;
    for (std::int32_t i = 0; i < list.count; ++i) {
        const Candidate& each = list.candidates[i];
        if (each.token < 0 || each.token >= std::ssize(row)) {
            ++wrong;
            continue;
        }
        ids.insert(each.token);
        if (bits(each.logit) != bits(row[static_cast<std::size_t>(each.token)])) ++wrong;
        if (!(each.logit >= list.least) || each.logit == -kInfinity) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(ids.size() == static_cast<std::size_t>(list.count));
    std::int32_t reaching = 0;
    for (const float value : row) {
        if (value >= list.least && value > -kInfinity) ++reaching;
    }
    CHECK(list.count == reaching);
    if (list.count == 0) {
        CHECK(list.least == kInfinity);
        return;
    }
    std::int32_t written = 0;
    for (std::int32_t i = list.count; i < Shortlist::kCandidatesMax; ++i) {
        const Candidate& each = list.candidates[i];
        if (bits(each.logit) != bits(kPoison.logit) || each.token != kPoison.token) ++written;
    }
    CHECK(written == 0);
}

// The host's, which is as close to e^x as it says.
std::vector<double> host_weights(const std::vector<float>& row, const ShortlistRule& rule) {
    if (!rule.weighs) return {};
    const float largest = *std::max_element(row.begin(), row.end());
    std::vector<double> weights;
    std::size_t far = 0;
    for (std::size_t begin = 0; begin < row.size(); begin += kWeightBlock) {
        const std::size_t end = std::min<std::size_t>(begin + kWeightBlock, row.size());
        weights.push_back(block_weight(row.data() + begin, static_cast<std::int64_t>(end - begin),
                                       largest, rule.factor));
        double wanted = 0;
        for (std::size_t i = begin; i < end; ++i) {
            // The argument is a float by the definition.
            if (row[i] > -kInfinity) {
                wanted += std::exp(static_cast<double>((row[i] - largest) * rule.factor));
            }
        }
        if (!(std::abs(weights.back() - wanted) <= 1e-6 * wanted + 1e-30)) ++far;
    }
    CHECK(far == 0);
    return weights;
}

void check_weights(std::span<const double> weights, std::span<const double> wanted) {
    std::size_t wrong = weights.back() == kWeightPoison ? 0 : 1;
    for (std::size_t block = 0; block + 1 < weights.size(); ++block) {
        const double same = wanted.empty() ? kWeightPoison : wanted[block];
        if (bits(weights[block]) != bits(same)) ++wrong;
    }
    CHECK(wrong == 0);
}

// What of a row is known beforehand.
enum class Kind { plain, any };

void check_list(Lister& lister, const std::vector<float>& row, const ShortlistRule& rule, Kind kind,
                std::span<const double> weights) {
    const Shortlist& list = lister.list();
    float largest = -kInfinity;
    bool fault = false;
    std::int32_t finite = 0;
    for (const float value : row) {
        fault = fault || std::isnan(value) || value == kInfinity;
        largest = value > largest ? value : largest;
        finite += value > -kInfinity ? 1 : 0;
    }
    if (fault || finite == 0) {
        CHECK(list.verdict == Shortlist::faulty);
        return;
    }
    REQUIRE(list.verdict == Shortlist::sound);
    CHECK(list.largest == largest);
    check_candidates(list, row);
    check_weights(lister.weights(), weights);
    if (rule.count == 0) {
        CHECK(list.count == 0);
    } else if (std::ssize(row) <= Shortlist::kCandidatesMax) {
        CHECK(list.count == finite);
        CHECK(list.least == -kInfinity);
    } else if (kind == Kind::plain) {
        // Enough, and not much more.
        CHECK(list.count >= std::min<std::int64_t>(rule.count, std::ssize(row) / 32));
        CHECK(list.count <= rule.count * 3 / 2 + 16);
    }
}

struct Distribution {
    std::string name;
    Kind kind;
    std::vector<float> row;
};

std::vector<float> normal(std::int64_t size, std::uint64_t seed, float mean, float spread) {
    Numbers numbers(seed);
    std::vector<float> row(static_cast<std::size_t>(size));
    for (float& value : row) {
        float sum = 0;  // of twelve: variance 4
        for (int i = 0; i < 12; ++i) sum += numbers.next();
        value = mean + spread * sum / 2;
    }
    return row;
}

std::vector<Distribution> distributions(std::int64_t size) {
    const auto seed = static_cast<std::uint64_t>(size);
    const auto count = static_cast<std::size_t>(size);
    std::vector<Distribution> out;
    out.push_back({"normal", Kind::plain, normal(size, seed, 0, 3)});
    out.push_back({"normal around 50", Kind::plain, normal(size, seed + 1, 50, 1)});
    out.push_back({"normal around -1e6", Kind::any, normal(size, seed + 2, -1e6F, 5)});
    out.push_back({"subnormal", Kind::any, normal(size, seed + 3, 0, 100 * kTiny)});
    out.push_back({"all equal", Kind::any, std::vector<float>(count, 2.5F)});
    out.push_back({"all the least finite", Kind::any, std::vector<float>(count, -kMost)});
    auto rounded = normal(size, seed + 4, 0, 3);
    for (float& value : rounded) value = std::round(value * 2) / 2;
    out.push_back({"many equals", Kind::any, rounded});
    auto masked = std::vector<float>(count, -kInfinity);
    for (std::size_t i = 0; i < count; i += 501) masked[i] = static_cast<float>(i % 37);
    out.push_back({"mostly -infinity", Kind::any, masked});
    auto huge = normal(size, seed + 5, 0, 1);
    huge[count / 2] = kMost;
    huge[count / 3] = -kMost;
    out.push_back({"one huge value", Kind::any, huge});
    std::vector<float> zeros(count, -1.0F);
    for (std::size_t i = 0; i < count; i += 300) zeros[i] = i % 600 == 0 ? 0.0F : -0.0F;
    out.push_back({"zeros of both signs", Kind::any, zeros});
    auto rising = normal(size, seed + 6, 0, 1);
    std::sort(rising.begin(), rising.end());
    out.push_back({"large ones side by side", Kind::any, rising});
    return out;
}

const std::vector<std::int64_t> kSizes = {1,      63,     64,      65,      255,    256,
                                          257,    1023,   1024,    1025,    4133,   32'000,
                                          32'768, 32'769, 151'936, 248'320, 600'001};
const std::vector<ShortlistRule> kRules = {
    {0, true, 1.25F}, {1, false, 1}, {40, false, 1}, {384, true, 1}, {512, true, 3e38F}};

}  // namespace

TEST_CASE("a shortlist has every value from its least on and the weights of all blocks") {
    for (const std::int64_t size : kSizes) {
        const auto rows = distributions(size);
        std::vector<std::vector<double>> weights;
        for (const Distribution& of : rows) {
            for (const ShortlistRule& rule : kRules) weights.push_back(host_weights(of.row, rule));
        }
        for (const NamedDevice& on : devices()) {
            const DeviceRows x(*on.device, 1, size);
            Lister lister(*on.device, size);
            auto wanted = weights.begin();
            for (const Distribution& of : rows) {
                on.device->copy_from_host(Rows(x).values, of.row.data(),
                                          of.row.size() * sizeof(float));
                for (const ShortlistRule& rule : kRules) {
                    INFO(on.name << ", " << size << " values, " << of.name << ", count "
                                 << rule.count);
                    lister.run(x, rule);
                    check_list(lister, of.row, rule, of.kind, *wanted++);
                }
            }
        }
    }
}

TEST_CASE("the weights of a row are the same bits on every device at every temperature") {
    constexpr std::int64_t kSize = 10'007;
    auto row = normal(kSize, 3, 2, 4);
    row[77] = -kInfinity;
    for (const NamedDevice& on : devices()) {
        const DeviceRows x(*on.device, row, kSize);
        Lister lister(*on.device, kSize);
        for (const float factor : {0.0F, 1e-30F, 0.01F, 0.5F, 1.0F, 1.25F, 7.0F, 1e4F, kMost}) {
            INFO(on.name << ", factor " << factor);
            const ShortlistRule rule{0, true, factor};
            lister.run(x, rule);
            check_list(lister, row, rule, Kind::any, host_weights(row, rule));
        }
    }
}

TEST_CASE("a row at fault is told wherever the fault is and the next row is listed as ever") {
    for (const std::int64_t size : {1L, 256L, 1025L, 151'936L}) {
        const auto sound = normal(size, 9, 0, 3);
        const auto weights = host_weights(sound, {40, true, 1});
        for (const NamedDevice& on : devices()) {
            const DeviceRows x(*on.device, 1, size);
            Lister lister(*on.device, size);
            for (const std::int64_t at : {std::int64_t{0}, size / 3, size / 2, size - 1}) {
                for (const float fault : {kNoNumber, -kNoNumber, kInfinity}) {
                    INFO(on.name << ", " << size << " values, fault at " << at);
                    auto row = sound;
                    row[static_cast<std::size_t>(at)] = fault;
                    on.device->copy_from_host(Rows(x).values, row.data(), row.size() * 4);
                    lister.run(x, {40, true, 1});
                    CHECK(lister.list().verdict == Shortlist::faulty);
                    on.device->copy_from_host(Rows(x).values, sound.data(), sound.size() * 4);
                    lister.run(x, {40, true, 1});
                    check_list(lister, sound, {40, true, 1}, Kind::plain, weights);
                }
            }
            const std::vector<float> masked(static_cast<std::size_t>(size), -kInfinity);
            on.device->copy_from_host(Rows(x).values, masked.data(), masked.size() * 4);
            lister.run(x, {40, true, 1});
            CHECK(lister.list().verdict == Shortlist::faulty);
        }
    }
}

TEST_CASE("a row that does not begin on a vector is listed all the same") {
    constexpr std::int64_t kSize = 20'011;
    const auto row = normal(kSize, 21, 1, 2);
    for (const NamedDevice& on : devices()) {
        const DeviceRows whole(*on.device, row, kSize);
        for (const std::int64_t begin : {1, 2, 3, 4, 5}) {
            INFO(on.name << ", from " << begin);
            Lister lister(*on.device, kSize - begin);
            const ShortlistRule rule{100, true, 1};
            lister.run({Rows(whole).values + begin, 1, kSize - begin}, rule);
            const std::vector<float> part(row.begin() + begin, row.end());
            check_list(lister, part, rule, Kind::plain, host_weights(part, rule));
        }
    }
}

namespace {

struct Counted {
    explicit Counted(Device& device)
        : memory(device.allocate_visible(sizeof(TokenCounts)).value()) {}
    TokenCounts& all() { return *static_cast<TokenCounts*>(memory.address()); }
    // `size` different tokens of a vocabulary, each of them some times.
    void fill(std::int32_t size, std::int64_t vocabulary, std::uint64_t seed) {
        all().size = size;
        for (std::int32_t i = 0; i < size; ++i) {
            const auto number = static_cast<std::uint64_t>(i) * 7919 + seed;
            all().each[i] = {static_cast<TokenId>(number % static_cast<std::uint64_t>(vocabulary)),
                             1 + i % 5};
        }
    }
    Buffer memory;
};

// By the words of sampler.hpp and ops.hpp, in double.
std::vector<float> lowered(std::vector<float> row, const TokenCounts& counts, const Penalties& by) {
    for (std::int32_t i = 0; i < counts.size; ++i) {
        float& logit = row[static_cast<std::size_t>(counts.each[i].token)];
        if (std::isnan(logit) || std::isinf(logit)) continue;
        double value = static_cast<double>(logit);
        if (value > 0) {
            value = value / by.repeat;
        } else {
            value = value * by.repeat;
        }
        const double each = static_cast<double>(counts.each[i].count) * by.frequency;
        double less = each + by.presence;
        for (double* one : {&value, &less}) {
            if (std::isinf(*one)) *one = std::copysign(std::numeric_limits<double>::max(), *one);
        }
        value = value - less;
        if (value > static_cast<double>(kMost)) value = static_cast<double>(kMost);
        if (value < -static_cast<double>(kMost)) value = -static_cast<double>(kMost);
        logit = static_cast<float>(value);
    }
    return row;
}

}  // namespace

TEST_CASE("penalties lower the logits of the tokens that are listed and no others") {
    constexpr std::int64_t kSize = 7'927;  // a prime above 7919: the tokens differ
    auto row = normal(kSize, 5, 0, 4);
    const std::vector<float> special = {0.0F,   -0.0F,     kTiny,      -kTiny,    kMost,
                                        -kMost, kInfinity, -kInfinity, kNoNumber, 1.0F};
    for (std::size_t i = 0; i < row.size(); i += 11) row[i] = special[i / 11 % special.size()];
    const std::vector<Penalties> all = {{1.1, 0, 0},
                                        {1, 0.3, 0},
                                        {1, 0, -0.7},
                                        {1.3, 0.1, 0.123},
                                        {0.5, -2, 1e-300},
                                        {1e-300, 0, 0},
                                        {1, -1e308, 0},
                                        {1, 1e308, 1e308},
                                        {3, 1.0 / 3, 1.0 / 7},
                                        {1e308, -1e308, 0},
                                        {1e-308, 1e308, 0},
                                        {5e-324, 1e308, 1e308},
                                        {5e-324, -1e308, -1e308}};
    for (const NamedDevice& on : devices()) {
        const DeviceRows x(*on.device, 1, kSize);
        Counted counted(*on.device);
        for (const Penalties& by : all) {
            for (const std::int32_t size : {0, 1, 64, 257, TokenCounts::kMost}) {
                INFO(on.name << ", " << size << " tokens, repeat " << by.repeat << " frequency "
                             << by.frequency << " presence " << by.presence);
                on.device->copy_from_host(Rows(x).values, row.data(), row.size() * sizeof(float));
                counted.fill(size, kSize, 13);
                on.device->ops().penalise(x, &counted.all(), by);
                const auto got = x.read();
                const auto wanted = lowered(row, counted.all(), by);
                std::size_t wrong = 0;
                for (std::size_t i = 0; i < got.size(); ++i) {
                    const bool same = std::isnan(wanted[i]) ? std::isnan(got[i])
                                                            : bits(got[i]) == bits(wanted[i]);
                    if (!same) ++wrong;
                    if (std::isfinite(row[i]) && !std::isfinite(got[i])) ++wrong;
                }
                CHECK(wrong == 0);
            }
        }
    }
}

TEST_CASE("steps with every kind of wish follow each other in any order") {
    constexpr std::int64_t kCols = 64;
    constexpr std::int64_t kOut = 9'000;
    constexpr Penalties kBy{1.2, 0.25, 0.5};
    Numbers numbers(11);
    const std::vector<float> matrix = numbers.list(kCols * kOut);
    for (const NamedDevice& on : devices()) {
        Device& device = *on.device;
        const auto weight = upload(device, matrix, kCols, kOut);
        const DeviceRows x(device, 1, kCols);
        const DeviceRows y(device, 1, kOut);
        const Projection to_y{weight.get(), nullptr, y, false};
        const Buffer visible = device.allocate_visible(sizeof(std::int32_t)).value();
        auto* index = static_cast<std::int32_t*>(visible.address());
        Lister lister(device, kOut);
        Counted counted(device);
        const TokenIds ids = {0};
        std::uint64_t step = 0;
        // n: nothing, g: the best, l and w: a list without and with weights, p: penalties before.
        for (const char wish : std::string("llnglplpppwwwpwwggglllllnnnnnpppppwlgpn")) {
            INFO(on.name << ", step " << step << ", " << wish);
            const std::vector<float> in = numbers.list(kCols);
            device.copy_from_host(Rows(x).values, in.data(), in.size() * sizeof(float));
            ++step;
            counted.fill(static_cast<std::int32_t>(step * 3 % 90), kOut, step);
            lister.poison();
            *index = -77;
            device.ops().begin({ids, 0, {}, nullptr});
            device.ops().linear(x, {&to_y, 1});
            const ShortlistRule rule{50, wish == 'w', 0.8F};
            if (wish == 'g') device.ops().find_largest(y, index);
            if (wish == 'p') device.ops().penalise(y, &counted.all(), kBy);
            if (wish == 'l' || wish == 'w' || wish == 'p') {
                device.ops().shortlist(y, rule, &lister.list(), lister.weights().data());
                device.wait_for_change(&lister.list().verdict, Shortlist::unset);
            }
            const auto got = y.read();
            auto wanted = times(matrix, row_of(in, 0, kCols));
            if (wish == 'p') {
                const std::vector<float> before(wanted.begin(), wanted.end());
                const auto after = lowered(before, counted.all(), kBy);
                wanted.assign(after.begin(), after.end());
            }
            check_close(got, wanted, 1.0e-5);
            if (wish == 'l' || wish == 'w' || wish == 'p') {
                check_list(lister, got, rule, Kind::plain, host_weights(got, rule));
            }
        }
    }
}
