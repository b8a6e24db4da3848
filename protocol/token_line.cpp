#include "protocol/token_line.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

// log 0 is minus infinity, which no line can carry: the lowest float stands for it.
float readable_logprob(float lp) {
    constexpr float kLowest = std::numeric_limits<float>::lowest();
    return std::isfinite(lp) ? lp : kLowest;
}

bool read_top_entry(std::string_view entry, TopLogprob& out) {
    const std::size_t colon = entry.find(':');
    return colon != std::string_view::npos && read_number(entry.substr(0, colon), out.token) &&
           out.token >= 0 && read_number(entry.substr(colon + 1), out.lp);
}

void read_top(FieldReader& fields, std::vector<TopLogprob>& out) {
    const auto list = fields.value_of("top");
    if (!list) return;
    for (std::size_t begin = 0; begin <= list->size();) {
        const std::size_t end = std::min(list->find(',', begin), list->size());
        const std::string_view entry = list->substr(begin, end - begin);
        TopLogprob top;
        if (!read_top_entry(entry, top) || out.size() == kTopLogprobsMax) {
            fields.refuse_value("top", entry, "at most 100 entries id:logprob");
            return;
        }
        out.push_back(top);
        begin = end + 1;
    }
}

std::string top_text(const std::vector<TopLogprob>& top) {
    std::string out;
    const std::size_t count = std::min(top.size(), static_cast<std::size_t>(kTopLogprobsMax));
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) out += ',';
        append_number(out, top[i].token);
        out += ':';
        append_number(out, readable_logprob(top[i].lp));
    }
    return out;
}

}  // namespace

std::string format(const TokenLine& line) {
    FieldWriter out(kTokenVerb);
    out.put(line.token);
    out.name("id", line.id);
    if (line.lp) out.name("lp", readable_logprob(*line.lp));
    out.name_list("top", top_text(line.top));
    return out.take();
}

Parsed<TokenLine> parse_token_line(std::string_view line) {
    FieldReader fields(line, kTokenVerb);
    TokenLine out;
    if (line.size() > kTokenLineBytesMax) {
        fields.refuse(ErrCode::bad_line,
                      "T line is longer than " + std::to_string(kTokenLineBytesMax) + " bytes");
    }
    fields.position(1, "token", out.token);
    fields.named("id", out.id);
    fields.named("lp", out.lp, kAnyFinite<float>);
    read_top(fields, out.top);
    return fields.finish(std::move(out));
}

}  // namespace strata::protocol
