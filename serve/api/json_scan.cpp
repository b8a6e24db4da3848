// Boost.JSON's event parser with a set of keys for each open object.
#include "serve/api/json_scan.hpp"

#include <array>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>

#include "serve/text/unicode.hpp"

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::size_t kKeyOverheadBytes = 80;  // of one key in a std::set
constexpr std::size_t kKeysBytesMax = 32U << 20U;

// The handler that basic_parser calls. Each callback answers whether to go on.
class KeyScan {
  public:
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

    explicit KeyScan(std::size_t text_bytes) : left_bytes_(text_bytes + kKeysBytesMax) {}
    // Looks for the number at `wanted`, too; `wanted` outlives the scan.
    KeyScan(std::size_t text_bytes, std::string_view wanted) : KeyScan(text_bytes) {
        wanted_ = wanted;
    }

    bool repeated() const { return repeated_; }
    bool full() const { return full_; }
    const std::string& key() const { return levels_.back().key; }
    const std::string& number() const { return number_; }
    std::string path() const;

    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }
    bool on_object_begin(json::error_code&) { return open(true); }
    bool on_object_end(std::size_t, json::error_code&) { return close(); }
    bool on_array_begin(json::error_code&) { return open(false); }
    bool on_array_end(std::size_t, json::error_code&) { return close(); }
    bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
        pending_.append(part.data(), part.size());
        return true;
    }
    bool on_key(json::string_view part, std::size_t, json::error_code& error);
    bool on_string_part(json::string_view, std::size_t, json::error_code&) { return true; }
    bool on_string(json::string_view, std::size_t, json::error_code&) { return value(); }
    bool on_number_part(json::string_view part, json::error_code&) {
        if (wanted_) pending_number_.append(part.data(), part.size());
        return true;
    }
    bool on_int64(std::int64_t, json::string_view part, json::error_code&) { return number(part); }
    bool on_uint64(std::uint64_t, json::string_view part, json::error_code&) {
        return number(part);
    }
    bool on_double(double, json::string_view part, json::error_code&) { return number(part); }
    bool on_bool(bool, json::error_code&) { return value(); }
    bool on_null(json::error_code&) { return value(); }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }

  private:
    struct Level {
        bool object = false;
        std::size_t items = 0;  // of an array, begun so far
        std::string key;        // of an object, the last one
        std::set<std::string, std::less<>> keys;
        std::size_t keys_bytes = 0;
    };

    bool value() {
        if (!levels_.empty()) ++levels_.back().items;
        return true;
    }
    bool number(json::string_view part) {
        value();
        if (!wanted_) return true;
        pending_number_.append(part.data(), part.size());
        if (number_.empty() && is_wanted()) number_ = pending_number_;
        pending_number_.clear();
        return true;
    }
    bool is_wanted() const;
    bool open(bool object) {
        value();
        levels_.emplace_back();
        levels_.back().object = object;
        return true;
    }
    bool close() {
        left_bytes_ += levels_.back().keys_bytes;
        levels_.pop_back();
        return true;
    }

    std::vector<Level> levels_;
    std::string pending_;         // the first parts of a key
    std::string pending_number_;  // of a number
    std::optional<std::string_view> wanted_;
    std::string number_;  // at wanted_
    std::size_t left_bytes_;
    bool repeated_ = false;
    bool full_ = false;
};

bool KeyScan::on_key(json::string_view part, std::size_t, json::error_code& error) {
    pending_.append(part.data(), part.size());
    Level& level = levels_.back();
    level.key = std::exchange(pending_, std::string());
    const std::size_t bytes = level.key.size() + kKeyOverheadBytes;
    full_ = bytes > left_bytes_;
    repeated_ = !full_ && !level.keys.insert(level.key).second;
    if (full_ || repeated_) {
        error = json::make_error_code(json::error::object_too_large);  // any word ends the scan
        return false;
    }
    left_bytes_ -= bytes;
    level.keys_bytes += bytes;
    return true;
}

// Most items of a list part from what is wanted in their number, which is cheap to see.
bool KeyScan::is_wanted() const {
    if (!levels_.empty() && !levels_.back().object &&
        !wanted_->ends_with("[" + std::to_string(levels_.back().items - 1) + "]")) {
        return false;
    }
    return path() == *wanted_;
}

std::string KeyScan::path() const {
    std::string out;
    for (const Level& level : levels_) {
        if (level.object) {
            out += (out.empty() ? "" : ".") + level.key;
        } else {
            out += "[" + std::to_string(level.items - 1) + "]";
        }
    }
    return out;
}

// The first byte that is not UTF-8, up to `end`; none when all are.
std::optional<std::size_t> bad_utf8(std::string_view text, std::size_t end) {
    for (std::size_t at = 0; at < text.size() && at <= end;) {
        const Utf8Step step = utf8_step(text, at);
        if (step.kind != Utf8Kind::valid) return at;
        at += step.bytes;
    }
    return std::nullopt;
}

std::string number_text(double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return {digits.data(), end};
}

void append(std::string& out, const json::value& value) {
    if (value.is_double()) {
        out += number_text(value.get_double());
    } else if (value.is_array()) {
        char before = '[';
        for (const json::value& item : value.get_array()) {
            out += std::exchange(before, ',');
            append(out, item);
        }
        out += before == '[' ? "[]" : "]";
    } else if (value.is_object()) {
        char before = '{';
        for (const auto& item : value.get_object()) {
            out += std::exchange(before, ',');
            out += json::serialize(item.key()) + ":";
            append(out, item.value());
        }
        out += before == '{' ? "{}" : "}";
    } else {
        out += json::serialize(value);
    }
}

}  // namespace

std::optional<JsonFault> find_json_fault(std::string_view text, std::size_t depth_max) {
    json::parse_options options;
    options.max_depth = depth_max;
    json::basic_parser<KeyScan> parser(options, text.size());
    json::error_code code;
    const std::size_t used = parser.write_some(false, text.data(), text.size(), code);
    JsonFault fault;
    fault.byte = used;
    const std::string at = " at byte " + std::to_string(used);
    if (!code && used == text.size()) return std::nullopt;
    if (parser.handler().full()) {
        fault.kind = JsonFaultKind::too_many_keys;
        fault.text = "an object has too many keys for the size of the text";
    } else if (parser.handler().repeated()) {
        fault.kind = JsonFaultKind::repeated_key;
        fault.path = parser.handler().path();
        fault.text = "the key " + json::serialize(json::string_view(parser.handler().key())) +
                     " is given twice in one object";
    } else if (code == json::error::too_deep) {
        fault.kind = JsonFaultKind::too_deep;
        fault.text = "it nests deeper than " + std::to_string(depth_max) + " levels";
    } else if (const std::optional<std::size_t> bad = bad_utf8(text, used)) {
        fault.kind = JsonFaultKind::not_utf8;
        fault.byte = *bad;
        fault.text = "it is not valid UTF-8 at byte " + std::to_string(*bad);
    } else {
        fault.text = (code ? code.message() : "more text after its end") + at;
    }
    return fault;
}

std::string number_at(std::string_view text, std::string_view path) {
    json::parse_options options;
    options.max_depth = static_cast<std::size_t>(-1);  // it was read before
    json::basic_parser<KeyScan> parser(options, text.size(), path);
    json::error_code code;
    parser.write_some(false, text.data(), text.size(), code);
    return parser.handler().number();
}

std::string json_text(const json::value& value) {
    std::string out;
    append(out, value);
    return out;
}

}  // namespace strata::serve
