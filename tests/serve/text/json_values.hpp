// JSON of fixtures and oracles as the values that templates take.
#pragma once

#include <boost/json.hpp>

#include "serve/text/template_value.hpp"

namespace strata::serve::text_test {

TemplateValue to_template_value(const boost::json::value& value);
TemplateDict to_template_dict(const boost::json::value& object);

}  // namespace strata::serve::text_test
