// Every JSON kind has its Python counterpart.
#include "tests/serve/text/json_values.hpp"

#include <string>

namespace strata::serve::text_test {

TemplateValue to_template_value(const boost::json::value& value) {
    switch (value.kind()) {
        case boost::json::kind::null:
            return {};
        case boost::json::kind::bool_:
            return value.get_bool();
        case boost::json::kind::int64:
            return value.get_int64();
        case boost::json::kind::uint64:
            return static_cast<double>(value.get_uint64());
        case boost::json::kind::double_:
            return value.get_double();
        case boost::json::kind::string:
            return std::string(value.get_string());
        case boost::json::kind::array: {
            TemplateList list;
            for (const auto& each : value.get_array()) list.push_back(to_template_value(each));
            return list;
        }
        case boost::json::kind::object:
            return to_template_dict(value);
    }
    return {};
}

TemplateDict to_template_dict(const boost::json::value& object) {
    TemplateDict dict;
    for (const auto& [key, value] : object.as_object()) {
        dict.emplace_back(std::string(key), to_template_value(value));
    }
    return dict;
}

}  // namespace strata::serve::text_test
