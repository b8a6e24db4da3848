// Parts of values: attributes, subscripts, slices. Python's order of search: an attribute is a
// method before it is a key, a subscript the other way round.
#pragma once

#include <string>

#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

// object.name; `name` outlives the run when it is remembered by the undefined result.
Object get_attribute(Meter& meter, const Object& object, const std::string& name);
// The attribute alone, never a key (the filter attr).
Object get_own_attribute(Meter& meter, const Object& object, const std::string& name);
Object get_item(Meter& meter, const Object& object, const Object& key);
// object[start:stop:step]; parts that are left out are None.
Object get_slice(Meter& meter, const Object& object, const Object& start, const Object& stop,
                 const Object& step);
// "a.0.b" as the filters' attribute= takes it.
Object get_path(Meter& meter, const Object& object, const Object& path);

// Python's len(); fails for what has none.
std::size_t length_of(Meter& meter, const Object& object);
bool has_length(const Object& object);

}  // namespace strata::serve::jinja
