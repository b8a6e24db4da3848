// From context to pieces: values of the request become values of a run, the run's text is cut where
// its marks begin and end.
#include "serve/text/chat_template.hpp"

#include <limits>
#include <utility>

#include "serve/text/jinja/interpreter.hpp"
#include "serve/text/jinja/parser.hpp"

namespace strata::serve {
namespace {

// Besides what the values of the request need: a few copies of the output and room for small
// values.
constexpr std::size_t kLiveBytesBase = std::size_t{16} << 20U;
constexpr std::size_t kLiveOutputs = 4;

class ContextReader {
  public:
    ContextReader(jinja::Meter& meter, bool from_message)
        : meter_(meter), from_message_(from_message) {}

    jinja::Object read(const TemplateValue& value, int depth = 0) {
        if (depth > jinja::kDepthMax) {
            meter_.fail("the request's values are nested more than " +
                        std::to_string(jinja::kDepthMax) + " levels deep");
            return {};
        }
        struct Visitor {
            ContextReader& reader;
            int depth;
            jinja::Object operator()(std::monostate) { return jinja::None{}; }
            jinja::Object operator()(bool v) { return v; }
            jinja::Object operator()(std::int64_t v) { return v; }
            jinja::Object operator()(double v) { return v; }
            jinja::Object operator()(const std::string& v) { return reader.text(v); }
            jinja::Object operator()(const TemplateList& v) { return reader.list(v, depth); }
            jinja::Object operator()(const TemplateDict& v) { return reader.dict(v, depth); }
        };
        return std::visit(Visitor{*this, depth}, value.held());
    }

  private:
    jinja::Object text(const std::string& value) {
        return std::make_shared<const jinja::Text>(std::string_view(value), from_message_);
    }
    jinja::Object list(const TemplateList& values, int depth) {
        jinja::Objects items;
        items.reserve(values.size());
        for (const TemplateValue& value : values) items.push_back(read(value, depth + 1));
        return jinja::make_list(meter_, jinja::Flavor::list, std::move(items));
    }
    jinja::Object dict(const TemplateDict& values, int depth) {
        auto dict = jinja::make_dict(meter_);
        for (const auto& [key, value] : values)
            jinja::put(meter_, *dict, text(key), read(value, depth + 1));
        return jinja::DictPtr(std::move(dict));
    }

    jinja::Meter& meter_;
    bool from_message_;
};

std::vector<PromptPiece> cut(const jinja::Text& text) {
    std::vector<PromptPiece> pieces;
    std::size_t at = 0;
    const auto add = [&](std::size_t end, bool from_message) {
        if (end > at)
            pieces.push_back({std::string(text.bytes().substr(at, end - at)), from_message});
        at = end;
    };
    for (const jinja::Mark& mark : text.marks()) {
        add(mark.begin, false);
        add(mark.end, true);
    }
    add(text.size(), false);
    return pieces;
}

class ParsedTemplate final : public ChatTemplate {
  public:
    ParsedTemplate(std::string source, std::unique_ptr<const jinja::Tree> tree)
        : source_(std::move(source)), tree_(std::move(tree)) {}

    using ChatTemplate::render;
    Result<std::vector<PromptPiece>> render(const TemplateDict& context,
                                            const TemplateDict& file_texts,
                                            const TemplateLimits& limits) const override {
        // The request's own values are bounded by the request; only what the template makes counts.
        constexpr auto kAny = std::numeric_limits<std::size_t>::max();
        jinja::Meter input({kAny, kAny, kAny});
        jinja::Meter meter({limits.steps_max, limits.output_bytes_max,
                            limits.output_bytes_max * kLiveOutputs + kLiveBytesBase});
        jinja::Interpreter run(*tree_, meter, {limits.depth_max, limits.date});
        define(run, context, ContextReader(input, true));
        define(run, file_texts, ContextReader(input, false));
        if (input.halted()) return refuse("chat template: " + input.failure());
        jinja::TextBuilder out(meter);
        run.run(out);
        if (meter.halted()) return refuse("chat template: " + meter.failure());
        return cut(*out.finish());
    }

    const std::string& source() const override { return source_; }
    bool reads(std::string_view variable) const override { return tree_->symbols.reads(variable); }

  private:
    void define(jinja::Interpreter& run, const TemplateDict& variables,
                ContextReader reader) const {
        for (const auto& [name, value] : variables) {
            if (tree_->symbols.find(name) != jinja::kNoSymbol) run.define(name, reader.read(value));
        }
    }

    std::string source_;
    std::unique_ptr<const jinja::Tree> tree_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> parse_chat_template(std::string source) {
    auto tree = jinja::parse(source);
    if (!tree) return refuse("chat template: " + tree.error().text);
    return std::unique_ptr<ChatTemplate>(
        std::make_unique<ParsedTemplate>(std::move(source), std::move(*tree)));
}

}  // namespace strata::serve
