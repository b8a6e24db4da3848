// The names a template can call: filters, tests, methods of values. Each is found by name and
// checks its own arguments; failures go to the meter. None of them reaches outside the run.
#pragma once

#include <string>
#include <string_view>

#include "serve/text/jinja/arguments.hpp"
#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

// One entry of a table of functions that work on a value.
struct Function {
    std::string_view name;
    Signature signature;
    Object (*apply)(Meter&, const Object& input, const Bound& arguments);
};

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
Object apply_filter(Meter& meter, std::string_view name, const Object& input,
                    const Arguments& arguments);
bool apply_test(Meter& meter, std::string_view name, const Object& value,
                const Arguments& arguments);

// self.name(arguments): methods of str, dict, list, tuple.
Object call_method(Meter& meter, const Object& self, std::string_view name,
                   const Arguments& arguments);

// The tables behind them, one for each subject.
const Function* find_text_filter(std::string_view name);
const Function* find_list_filter(std::string_view name);
const Function* find_number_filter(std::string_view name);
const Function* find_text_method(std::string_view name);
// Filters that apply another filter or test to each item: map, select, reject, selectattr,
// rejectattr.
bool is_item_filter(std::string_view name);
Object apply_item_filter(Meter& meter, std::string_view name, const Object& input,
                         const Arguments& arguments);

}  // namespace strata::serve::jinja
