#include "protocol/resume_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<PromptSource, 13> kSources{{
    {PromptSource::cold, "cold"},
    {PromptSource::live, "live"},
    {PromptSource::turn, "turn"},
    {PromptSource::root, "root"},
    {PromptSource::interval, "interval"},
    {PromptSource::tail, "tail"},
    {PromptSource::pin, "pin"},
    {PromptSource::lane, "lane"},
    {PromptSource::parked, "parked"},
    {PromptSource::parked_checkpoint, "parked_checkpoint"},
    {PromptSource::borrowed, "borrowed"},
    {PromptSource::device, "device"},
    {PromptSource::disk, "disk"},
}};

}  // namespace

std::string_view word(PromptSource source) {
    return word_in(kSources, source);
}

std::optional<PromptSource> prompt_source_of(std::string_view word) {
    return value_in(kSources, word);
}

std::string format(const ResumeLine& line) {
    FieldWriter out(kResumeVerb);
    out.put(line.reused);
    out.name("id", line.id);
    out.name_word("source", line.source);
    out.name("conv", line.conv);
    put(out, line.now);
    return out.take();
}

Parsed<ResumeLine> parse_resume_line(std::string_view line) {
    FieldReader fields(line, kResumeVerb);
    ResumeLine out;
    fields.position(1, "reused", out.reused);
    fields.named("id", out.id);
    fields.named_word("source", out.source, prompt_source_of);
    fields.named("conv", out.conv);
    take(fields, out.now);
    return fields.finish(out);
}

}  // namespace strata::protocol
