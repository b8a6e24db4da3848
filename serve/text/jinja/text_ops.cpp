// Cutting, replacing, changing case: byte offsets of whole characters everywhere.
#include "serve/text/jinja/text_ops.hpp"

#include <algorithm>

namespace strata::serve::jinja {
namespace {

std::size_t start_of_last(std::string_view text, std::size_t floor, std::size_t end) {
    std::size_t start = end - 1;
    while (start > floor && (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U) --start;
    return start;
}

bool taken_off(std::string_view character, const Text* characters) {
    if (characters != nullptr) return characters->bytes().find(character) != std::string_view::npos;
    const Utf8Step step = utf8_step(character, 0);
    return step.kind == Utf8Kind::valid && is_python_space(step.code);
}

bool space_at(std::string_view text, std::size_t at) {
    const Utf8Step step = utf8_step(text, at);
    return step.kind == Utf8Kind::valid && is_python_space(step.code);
}

std::vector<Span> split_blanks(const Text& text, std::int64_t cuts_max) {
    const std::string_view bytes = text.bytes();
    std::vector<Span> out;
    std::size_t at = 0;
    const auto skip = [&](bool blank) {
        while (at < bytes.size() && space_at(bytes, at) == blank) at += utf8_step(bytes, at).bytes;
    };
    while (true) {
        skip(true);
        if (at >= bytes.size()) break;
        const std::size_t begin = at;
        if (cuts_max >= 0 && static_cast<std::int64_t>(out.size()) >= cuts_max) {
            out.push_back({begin, bytes.size()});
            return out;
        }
        skip(false);
        out.push_back({begin, at});
    }
    return out;
}

std::vector<Span> split_blanks_from_right(const Text& text, std::int64_t cuts_max) {
    const std::string_view bytes = text.bytes();
    std::vector<Span> out;
    std::size_t end = bytes.size();
    const auto skip = [&](bool blank) {
        while (end > 0 && space_at(bytes, start_of_last(bytes, 0, end)) == blank)
            end = start_of_last(bytes, 0, end);
    };
    while (true) {
        skip(true);
        if (end == 0) break;
        const std::size_t stop = end;
        if (cuts_max >= 0 && static_cast<std::int64_t>(out.size()) >= cuts_max) {
            out.push_back({0, stop});
            break;
        }
        skip(false);
        out.push_back({end, stop});
    }
    std::reverse(out.begin(), out.end());
    return out;
}

// Every character as `change` writes it, under its own mark.
template <class Change>
TextPtr changed(Meter& meter, const Text& text, Change change) {
    TextBuilder out(meter);
    const std::string_view bytes = text.bytes();
    if (!meter.step_bytes(bytes.size())) return out.finish();
    std::string run;  // characters of one mark
    bool marked = false;
    for (std::size_t at = 0; at < bytes.size();) {
        const Utf8Step step = utf8_step(bytes, at);
        if (text.marked(at) != marked) {
            out.append(run, marked);
            run.clear();
            marked = !marked;
        }
        if (step.kind == Utf8Kind::valid) {
            change(run, step.code, at);
        } else {
            run += bytes.substr(at, step.bytes);
        }
        at += step.bytes;
    }
    out.append(run, marked);
    return out.finish();
}

void append_lower(std::string& to, const Text& text, char32_t code, std::size_t at) {
    constexpr char32_t kSigma = 0x3A3;
    constexpr char32_t kFinalSigma = 0x3C2;
    if (code == kSigma && is_final_sigma(text.bytes(), at)) {
        append_utf8(to, kFinalSigma);
    } else {
        append_case(to, code, CaseChange::lower);
    }
}

}  // namespace

Span strip(Meter& meter, const Text& text, Side side, const Text* characters) {
    if (!meter.step_search(text.size(), characters == nullptr ? 0 : characters->size())) return {};
    const std::string_view bytes = text.bytes();
    Span span{0, bytes.size()};
    while (side != Side::right && span.begin < span.end) {
        const std::size_t length =
            std::min<std::size_t>(utf8_step(bytes, span.begin).bytes, span.end - span.begin);
        if (!taken_off(bytes.substr(span.begin, length), characters)) break;
        span.begin += length;
    }
    while (side != Side::left && span.end > span.begin) {
        const std::size_t start = start_of_last(bytes, span.begin, span.end);
        if (!taken_off(bytes.substr(start, span.end - start), characters)) break;
        span.end = start;
    }
    return span;
}

std::vector<Span> split(Meter& meter, const Text& text, const Text* separator,
                        std::int64_t cuts_max, bool from_right) {
    if (!meter.step_search(text.size(), separator == nullptr ? 0 : separator->size())) return {};
    if (separator == nullptr)
        return from_right ? split_blanks_from_right(text, cuts_max) : split_blanks(text, cuts_max);
    const std::string_view bytes = text.bytes();
    const std::string_view cut = separator->bytes();
    std::vector<Span> out;
    const auto may_cut = [&] {
        return cuts_max < 0 || static_cast<std::int64_t>(out.size()) < cuts_max;
    };
    if (!from_right) {
        std::size_t begin = 0;
        for (std::size_t at = bytes.find(cut); at != std::string_view::npos && may_cut();
             at = bytes.find(cut, begin)) {
            out.push_back({begin, at});
            begin = at + cut.size();
        }
        out.push_back({begin, bytes.size()});
        return out;
    }
    std::size_t end = bytes.size();
    while (may_cut() && end >= cut.size()) {
        const std::size_t at = bytes.substr(0, end).rfind(cut);
        if (at == std::string_view::npos) break;
        out.push_back({at + cut.size(), end});
        end = at;
    }
    out.push_back({0, end});
    std::reverse(out.begin(), out.end());
    return out;
}

std::vector<Span> split_lines(const Text& text, bool keep_ends) {
    const std::string_view bytes = text.bytes();
    const auto ends_line = [](char32_t c) {
        return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
               c == 0x2029;
    };
    std::vector<Span> out;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < bytes.size();) {
        const Utf8Step step = utf8_step(bytes, at);
        const std::size_t end = at;
        at += step.bytes;
        if (step.kind != Utf8Kind::valid || !ends_line(step.code)) continue;
        if (step.code == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
        out.push_back({begin, keep_ends ? at : end});
        begin = at;
    }
    if (begin < bytes.size()) out.push_back({begin, bytes.size()});
    return out;
}

TextPtr replace(Meter& meter, const Text& text, const Text& from, const Text& to,
                std::int64_t count) {
    TextBuilder out(meter);
    if (!meter.step_search(text.size(), from.size())) return out.finish();
    const std::string_view bytes = text.bytes();
    std::size_t copied = 0;
    std::int64_t done = 0;
    const auto may = [&] { return (count < 0 || done < count) && !meter.halted(); };
    if (from.size() == 0) {  // before every character and at the end
        for (std::size_t at = 0; at <= bytes.size() && may(); ++done) {
            const std::size_t next = at < bytes.size() ? at + utf8_step(bytes, at).bytes : at + 1;
            out.append(to);
            out.append(text, at, std::min(next, bytes.size()));
            copied = std::min(next, bytes.size());
            at = next;
        }
    } else {
        for (std::size_t at = bytes.find(from.bytes()); at != std::string_view::npos && may();
             ++done) {
            out.append(text, copied, at);
            out.append(to);
            copied = at + from.size();
            at = bytes.find(from.bytes(), copied);
        }
    }
    out.append(text, copied, bytes.size());
    return out.finish();
}

TextPtr join(Meter& meter, const Text& separator, const Objects& items) {
    TextBuilder out(meter);
    for (std::size_t i = 0; i < items.size() && meter.step(); ++i) {
        if (i > 0) out.append(separator);
        out.append(*items[i].text());
    }
    return out.finish();
}

TextPtr lower(Meter& meter, const Text& text) {
    return changed(meter, text, [&text](std::string& to, char32_t code, std::size_t at) {
        append_lower(to, text, code, at);
    });
}

TextPtr upper(Meter& meter, const Text& text) {
    return changed(meter, text, [](std::string& to, char32_t code, std::size_t) {
        append_case(to, code, CaseChange::upper);
    });
}

TextPtr title(Meter& meter, const Text& text) {
    bool inside = false;  // a cased letter came directly before
    return changed(meter, text, [&](std::string& to, char32_t code, std::size_t at) {
        if (inside) {
            append_lower(to, text, code, at);
        } else {
            append_case(to, code, CaseChange::title);
        }
        inside = is_cased(code);
    });
}

TextPtr capitalize(Meter& meter, const Text& text) {
    return changed(meter, text, [&text](std::string& to, char32_t code, std::size_t at) {
        if (at == 0) {
            append_case(to, code, CaseChange::title);
        } else {
            append_lower(to, text, code, at);
        }
    });
}

TextPtr swap_case(Meter& meter, const Text& text) {
    return changed(meter, text, [&text](std::string& to, char32_t code, std::size_t at) {
        if (changes_case(code, CaseChange::lower)) {
            append_lower(to, text, code, at);
        } else {
            append_case(to, code, CaseChange::upper);
        }
    });
}

TextPtr pad(Meter& meter, const Text& text, std::int64_t width, std::string_view fill,
            Side text_side) {
    const auto have = static_cast<std::int64_t>(text.code_points());
    const std::int64_t missing = std::max<std::int64_t>(width - have, 0);
    TextBuilder out(meter);
    if (!meter.fits_text(static_cast<std::size_t>(missing))) return out.finish();
    // In the middle Python puts the odd one before the text only when the width is odd as well.
    const std::int64_t before = text_side == Side::left    ? 0
                                : text_side == Side::right ? missing
                                                           : missing / 2 + (missing & width & 1);
    for (std::int64_t i = 0; i < before; ++i) out.append(fill);
    out.append(text);
    for (std::int64_t i = before; i < missing; ++i) out.append(fill);
    return out.finish();
}

TextPtr reversed(Meter& meter, const Text& text) {
    TextBuilder out(meter);
    for (std::size_t end = text.size(); end > 0 && !meter.halted();) {
        const std::size_t start = start_of_last(text.bytes(), 0, end);
        out.append(text, start, end);
        end = start;
    }
    return out.finish();
}

bool all_characters(const Text& text, bool (*belongs)(char32_t)) {
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text.bytes(), at);
        if (step.kind != Utf8Kind::valid || !belongs(step.code)) return false;
        at += step.bytes;
    }
    return text.size() > 0;
}

bool is_upper_text(const Text& text) {
    bool cased = false;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text.bytes(), at);
        if (is_cased(step.code)) {
            if (!changes_case(step.code, CaseChange::lower) ||
                category_of(step.code) == Category::Lt)
                return false;
            cased = true;
        }
        at += step.bytes;
    }
    return cased;
}

bool is_lower_text(const Text& text) {
    bool cased = false;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text.bytes(), at);
        if (is_cased(step.code)) {
            if (changes_case(step.code, CaseChange::lower) ||
                category_of(step.code) == Category::Lt)
                return false;
            cased = true;
        }
        at += step.bytes;
    }
    return cased;
}

Object slices(Meter& meter, const Text& text, const std::vector<Span>& spans) {
    Objects items;
    for (const Span& span : spans) {
        if (meter.halted()) break;
        items.push_back(make_slice(meter, text, span.begin, span.end));
    }
    return make_list(meter, Flavor::list, std::move(items));
}

}  // namespace strata::serve::jinja
