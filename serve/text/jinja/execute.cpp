// Statements.
#include <algorithm>

#include "serve/text/jinja/interpreter.hpp"
#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/print.hpp"

namespace strata::serve::jinja {

Interpreter::ScopeFrame::ScopeFrame(Interpreter& run, Scope* parent)
    : run_(run), outer_(run.scope_) {
    if (run_.spare_.empty()) {
        own_ = std::make_unique<Scope>();
    } else {
        own_ = std::move(run_.spare_.back());
        run_.spare_.pop_back();
    }
    own_->parent = parent;
    run_.scope_ = own_.get();
}

Interpreter::ScopeFrame::~ScopeFrame() {
    run_.scope_ = outer_;
    if (own_->captured) {
        run_.meter_.allocate(sizeof(Scope) +
                             own_->variables.capacity() * sizeof(own_->variables[0]));
        run_.captured_.push_back(std::move(own_));
    } else {
        own_->variables.clear();
        run_.spare_.push_back(std::move(own_));
    }
}

Interpreter::Interpreter(const Tree& tree, Meter& meter, Options options)
    : tree_(tree), meter_(meter), options_(std::move(options)), context_(tree.symbols.size()) {
    caller_symbol_ = tree.symbols.find("caller");
    varargs_symbol_ = tree.symbols.find("varargs");
    kwargs_symbol_ = tree.symbols.find("kwargs");
}

void Interpreter::define(const std::string& name, Object value) {
    const Symbol symbol = tree_.symbols.find(name);
    if (symbol != kNoSymbol) context_[symbol] = {true, std::move(value)};
}

void Interpreter::run(TextBuilder& out) {
    out_ = &out;
    const ScopeFrame frame(*this, nullptr);
    execute(tree_.body);
}

void Interpreter::set(Symbol symbol, Object value) {
    for (auto& [name, held] : scope_->variables) {
        if (name != symbol) continue;
        held = std::move(value);
        return;
    }
    scope_->variables.emplace_back(symbol, std::move(value));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
    for (const auto& stmt : body) {
        const Flow flow = execute(*stmt);
        if (flow != Flow::next || meter_.halted()) return flow;
    }
    return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
    const Nesting nesting(*this);
    if (!meter_.step()) return Flow::next;
    meter_.at(stmt.at);
    switch (stmt.kind) {
        case StmtKind::text:
            out_->append(stmt.data);
            break;
        case StmtKind::output: {
            const Object value = evaluate(*stmt.expr);
            meter_.at(stmt.at, "output");
            print(*out_, meter_, value);
            break;
        }
        case StmtKind::if_:
            return execute_if(stmt);
        case StmtKind::for_:
            return execute_for(stmt);
        case StmtKind::set:
            assign(stmt.target, evaluate(*stmt.expr));
            break;
        case StmtKind::set_block:
            execute_set_block(stmt);
            break;
        case StmtKind::macro:
            set(stmt.symbol, make_macro(*stmt.macro));
            break;
        case StmtKind::call_block:
            execute_call_block(stmt);
            break;
        case StmtKind::filter_block:
            execute_filter_block(stmt);
            break;
        case StmtKind::with:
            return execute_with(stmt);
        case StmtKind::group: {
            const ScopeFrame frame(*this, scope_);
            return execute(stmt.body);
        }
        case StmtKind::break_:
            return Flow::break_;
        case StmtKind::continue_:
            return Flow::continue_;
    }
    return Flow::next;
}

Interpreter::Flow Interpreter::execute_if(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches) {
        const bool taken = branch.condition == nullptr || truthy(evaluate(*branch.condition));
        if (meter_.halted()) break;
        if (taken) return execute(branch.body);
    }
    return Flow::next;
}

Interpreter::Flow Interpreter::execute_for(const Stmt& stmt) {
    return run_loop(stmt, evaluate(*stmt.expr), 0);
}

std::optional<Objects> Interpreter::loop_items(const Stmt& stmt, const Object& iterable) {
    meter_.at(stmt.at, "for");
    auto items = iterate(meter_, iterable);
    if (!items || stmt.filter == nullptr) return items;
    Objects kept;
    for (Object& item : *items) {
        const ScopeFrame frame(*this, scope_);
        assign(stmt.target, item);
        if (truthy(evaluate(*stmt.filter)) && !meter_.halted()) kept.push_back(std::move(item));
        if (meter_.halted()) return std::nullopt;
    }
    return kept;
}

Interpreter::Flow Interpreter::run_loop(const Stmt& stmt, const Object& iterable,
                                        std::size_t depth) {
    auto items = loop_items(stmt, iterable);
    if (!items) return Flow::next;
    if (items->empty()) {
        const ScopeFrame frame(*this, scope_);
        return execute(stmt.else_body);
    }
    auto loop = std::make_shared<Loop>();
    const Object list = make_list(meter_, Flavor::list, std::move(*items));
    loop->items = *list.as<ListPtr>();
    loop->depth = depth;
    loop->node = &stmt;
    loop->scope = scope_;
    const Flow flow = run_iterations(stmt, loop);
    loop->finished = true;
    loop->last_changed = Object();  // may hold the loop itself
    return flow;
}

Interpreter::Flow Interpreter::run_iterations(const Stmt& stmt, const std::shared_ptr<Loop>& loop) {
    for (loop->index = 0; loop->index < loop->items->items.size() && meter_.step(); ++loop->index) {
        const ScopeFrame frame(*this, scope_);
        meter_.at(stmt.at, "for");
        assign(stmt.target, loop->items->items[loop->index]);
        set(stmt.symbol, loop);
        if (execute(stmt.body) == Flow::break_) break;
    }
    return Flow::next;
}

TextPtr Interpreter::capture(const Body& body) {
    TextBuilder builder(meter_);
    TextBuilder* const outer = std::exchange(out_, &builder);
    {
        const ScopeFrame frame(*this, scope_);
        execute(body);
    }
    out_ = outer;
    return builder.finish();
}

void Interpreter::execute_set_block(const Stmt& stmt) {
    const Object text = capture(stmt.body);
    const Object* const outer = std::exchange(filter_input_, &text);
    assign(stmt.target, stmt.expr ? evaluate(*stmt.expr) : text);
    filter_input_ = outer;
}

void Interpreter::execute_filter_block(const Stmt& stmt) {
    const Object text = capture(stmt.body);
    const Object* const outer = std::exchange(filter_input_, &text);
    print(*out_, meter_, evaluate(*stmt.expr));
    filter_input_ = outer;
}

void Interpreter::execute_call_block(const Stmt& stmt) {
    const Macro* caller = make_macro(*stmt.macro);
    print(*out_, meter_, evaluate_call(*stmt.expr, caller));
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt) {
    Objects values;
    for (const auto& assignment : stmt.assignments) values.push_back(evaluate(*assignment.second));
    const ScopeFrame frame(*this, scope_);
    for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.assignments[i].first, values[i]);
    return execute(stmt.body);
}

void Interpreter::assign(const Target& target, const Object& value) {
    if (meter_.halted()) return;
    if (target.kind == Target::Kind::name) return set(target.symbol, value);
    if (target.kind == Target::Kind::attribute) return assign_attribute(target, value);
    meter_.at(target.at, "assignment");
    if (!defined(meter_, value)) return;
    const auto items = iterate(meter_, value);
    if (!items) return;
    if (items->size() != target.parts.size()) {
        return meter_.fail("there are " + std::to_string(target.parts.size()) + " names for " +
                           std::to_string(items->size()) + " values");
    }
    for (std::size_t i = 0; i < items->size(); ++i) assign(target.parts[i], (*items)[i]);
}

void Interpreter::assign_attribute(const Target& target, const Object& value) {
    constexpr std::size_t kAttributeBytes = 128;
    meter_.at(target.at, "assignment to", tree_.symbols.name(target.symbol));
    const Object* held = find(target.symbol);
    if (held == nullptr || !held->is<Namespace*>())
        return meter_.fail("only a namespace has attributes to assign to");
    Named& attributes = (*held->as<Namespace*>())->attributes;
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& a) { return a.first == target.attribute; });
    if (found != attributes.end()) {
        found->second = value;
    } else {
        meter_.allocate(kAttributeBytes);
        attributes.emplace_back(target.attribute, value);
    }
}

}  // namespace strata::serve::jinja
