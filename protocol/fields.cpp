#include "protocol/fields.hpp"

#include <algorithm>

namespace strata::protocol {
namespace {

constexpr std::size_t kQuotedBytesMax = 48;  // enough to recognise a value in a message
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_control(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
}

bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// The length of the name before '=', 0 if the field is a positional one.
std::size_t name_length(std::string_view field) {
    std::size_t n = 0;
    while (n < field.size() && is_name_character(field[n])) ++n;
    return n < field.size() && field[n] == '=' ? n : 0;
}

bool is_free_text(std::string_view name) {
    return name == "text" || name == "path";
}

std::string_view without_cr(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

// Takes the next field off `rest`; empty when only spaces are left.
std::string_view next_field(std::string_view& rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view field = rest.substr(0, rest.find(' '));
    return field;
}

int hex_value(char c) {
    const std::size_t at = kHexDigits.find(c);
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

void append_escaped(std::string& out, std::string_view text) {
    for (const char c : text) {
        if (c == '\\') {
            out += "\\\\";
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (is_control(c)) {
            const auto byte = static_cast<unsigned char>(c);
            out += "\\x";
            out += kHexDigits[byte >> 4U];
            out += kHexDigits[byte & 0xFU];
        } else {
            out += c;
        }
    }
}

// The reverse. A backslash that begins no escape stands for itself: people type paths by hand.
std::string unescaped(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
        const bool has_digits = next == 'x' && i + 3 < text.size() && hex_value(text[i + 2]) >= 0 &&
                                hex_value(text[i + 3]) >= 0;
        if (has_digits) {
            out += static_cast<char>(hex_value(text[i + 2]) * 16 + hex_value(text[i + 3]));
            i += 3;
            continue;
        }
        constexpr std::string_view kLetters = "\\nrt";
        constexpr std::string_view kMeant = "\\\n\r\t";
        const std::size_t at = next == '\0' ? std::string_view::npos : kLetters.find(next);
        if (at == std::string_view::npos) {
            out += text[i];
        } else {
            out += kMeant[at];
            ++i;
        }
    }
    return out;
}

}  // namespace

std::string_view verb_of(std::string_view line) {
    line = without_cr(line);
    return next_field(line);
}

std::uint64_t readable_id(std::string_view line) {
    std::string_view rest = without_cr(line);
    std::optional<std::uint64_t> found;
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
        rest.remove_prefix(field.size());
        const std::string_view name = field.substr(0, name_length(field));
        if (is_free_text(name)) break;
        if (name != "id") continue;
        std::uint64_t id = 0;
        if (found || !read_number(field.substr(name.size() + 1), id)) return 0;
        found = id;
    }
    return found.value_or(0);
}

std::string quoted(std::string_view piece) {
    std::string out = "'";
    for (const char c : piece.substr(0, kQuotedBytesMax)) {
        const bool printable = static_cast<unsigned char>(c) < 0x7F && !is_control(c);
        out += printable ? c : '?';
    }
    out += piece.size() > kQuotedBytesMax ? "...'" : "'";
    return out;
}

std::string_view cut_text(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) return text;
    std::size_t end = bytes_max;
    // A sequence has at most three continuation bytes; more of them are no UTF-8 and are cut
    // anywhere.
    for (int back = 0; back < 3 && end > 0 && is_continuation(text[end]); ++back) --end;
    if (is_continuation(text[end])) end = bytes_max;
    return text.substr(0, end);
}

std::size_t count_characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

double readable_figure(double figure) {
    return std::isfinite(figure) && figure > 0 ? figure : 0;
}

FieldReader::FieldReader(std::string_view line, std::string_view verb)
    : line_(without_cr(line)), verb_(verb) {
    std::string_view rest = line_;
    const std::string_view found = next_field(rest);
    if (found != verb) {
        refuse(ErrCode::bad_line,
               "line begins with " + quoted(found) + ", not " + std::string(verb));
        return;
    }
    if (std::any_of(line_.begin(), line_.end(), is_control)) {
        refuse(ErrCode::bad_line, std::string(verb) + " line holds a control character");
        return;
    }
    rest.remove_prefix(found.size());
    split(rest);
}

void FieldReader::split(std::string_view rest) {
    std::size_t fields = 0;
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
        if (++fields > kFieldsMax) {
            refuse(ErrCode::bad_line, std::string(verb_) + " line has more than " +
                                          std::to_string(kFieldsMax) + " fields");
            return;
        }
        const std::string_view name = field.substr(0, name_length(field));
        if (is_free_text(name)) {
            free_text_ = Named{name, rest.substr(name.size() + 1)};
            return;
        }
        rest.remove_prefix(field.size());
        add(field);
        if (fault_) return;
    }
}

void FieldReader::add(std::string_view field) {
    const std::string_view name = field.substr(0, name_length(field));
    if (last_) {
        refuse(ErrCode::bad_line, "bare field " + quoted(*last_) + " between names");
    } else if (!name.empty()) {
        if (value_of(name)) {
            refuse(ErrCode::bad_field,
                   std::string(verb_) + " has the name " + quoted(name) + " twice");
        }
        named_.push_back({name, field.substr(name.size() + 1)});
    } else if (named_.empty()) {
        positional_.push_back(field);
    } else {
        last_ = field;
    }
}

bool FieldReader::has_position(std::size_t index, std::string_view what) {
    if (index <= positional_.size()) return true;
    refuse(ErrCode::bad_line, std::string(verb_) + " has no field " + std::to_string(index) + " (" +
                                  std::string(what) + ")");
    return false;
}

void FieldReader::flag(std::string_view what, std::string_view text, bool& out) {
    if (text == "0" || text == "1") {
        out = text == "1";
    } else {
        refuse_value(what, text, "0 or 1");
    }
}

void FieldReader::position(std::size_t index, std::string_view what, bool& out) {
    if (has_position(index, what)) flag(what, position_text(index), out);
}

void FieldReader::named(std::string_view name, bool& out) {
    if (const auto text = value_of(name)) flag(name, *text, out);
}

void FieldReader::named(std::string_view name, std::string& out) {
    const auto text = value_of(name);
    if (!text) return;
    if (text->size() > kValueBytesMax) {
        refuse_value(name, *text, "at most " + std::to_string(kValueBytesMax) + " bytes");
        return;
    }
    out = *text;
}

std::optional<std::string_view> FieldReader::value_of(std::string_view name) const {
    for (const Named& field : named_) {
        if (field.name == name) return field.value;
    }
    return std::nullopt;
}

void FieldReader::token_ids(std::string_view what, std::string_view list,
                            std::vector<std::int32_t>& out) {
    const auto commas = static_cast<std::size_t>(std::count(list.begin(), list.end(), ','));
    out.reserve(commas + 1);
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        const std::string_view entry = list.substr(begin, end - begin);
        std::int32_t id = 0;
        if (!read_number(entry, id) || id < 0) {
            refuse(ErrCode::bad_token, std::string(verb_) + " " + std::string(what) + "[" +
                                           std::to_string(out.size()) + "] is " + quoted(entry) +
                                           "; allowed: a token id from 0 to 2147483647");
            return;
        }
        out.push_back(id);
        begin = end + 1;
    }
}

void FieldReader::text(std::string_view name, std::string& out) const {
    if (!free_text_ || free_text_->name != name) return;
    out = unescaped(free_text_->value);
    out.resize(cut_text(out, kTextBytesMax).size());
}

void FieldReader::refuse(ErrCode code, std::string text) {
    if (!fault_) fault_ = ParseError{code, readable_id(line_), std::move(text)};
}

void FieldReader::refuse_value(std::string_view what, std::string_view value,
                               std::string_view allowed) {
    refuse(ErrCode::bad_field, std::string(verb_) + " " + std::string(what) + " is " +
                                   quoted(value) + "; allowed: " + std::string(allowed));
}

void FieldWriter::put(std::string_view word) {
    out_ += ' ';
    out_ += word;
}

void FieldWriter::put_tenths(double figure) {
    std::array<char, 512> room{};  // the largest double has 309 digits before the point
    const auto written = std::to_chars(room.data(), room.data() + room.size(),
                                       readable_figure(figure), std::chars_format::fixed, 1);
    out_ += ' ';
    out_.append(room.data(), written.ptr);
}

void FieldWriter::name(std::string_view name, bool flag) {
    begin(name);
    out_ += flag ? '1' : '0';
}

void FieldWriter::name(std::string_view name, std::string_view text) {
    if (text.empty()) return;
    begin(name);
    for (const char c : cut_text(text, kValueBytesMax)) out_ += c == ' ' || is_control(c) ? '_' : c;
}

void FieldWriter::name_tenths(std::string_view name, const std::optional<double>& figure) {
    if (!figure) return;
    FieldWriter number{{}};
    number.put_tenths(*figure);
    begin(name);
    out_.append(number.out_, 1);
}

void FieldWriter::put_ids(const std::vector<std::int32_t>& ids) {
    out_ += ' ';
    append_ids(ids);
}

void FieldWriter::name_ids(std::string_view name, const std::vector<std::int32_t>& ids) {
    if (ids.empty()) return;
    begin(name);
    append_ids(ids);
}

void FieldWriter::name_list(std::string_view name, std::string_view list) {
    if (list.empty()) return;
    begin(name);
    out_ += list;
}

void FieldWriter::text(std::string_view name, std::string_view text) {
    begin(name);
    append_escaped(out_, cut_text(text, kTextBytesMax));
}

void FieldWriter::begin(std::string_view name) {
    out_ += ' ';
    out_ += name;
    out_ += '=';
}

void FieldWriter::append_ids(const std::vector<std::int32_t>& ids) {
    constexpr std::size_t kBytesPerId = 7;  // six digits and a comma: most vocabularies
    out_.reserve(out_.size() + ids.size() * kBytesPerId);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i > 0) out_ += ',';
        append_number(out_, ids[i]);
    }
}

}  // namespace strata::protocol
