// Reads a client's JSON field by field. Owns the wording of "wrong type" and "out of range": the
// first fault is kept with its JSON path, later reads go on harmlessly, so that a parser reads like
// a list.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "serve/api/api_error.hpp"

namespace strata::serve {

// The first fault of a request.
class FirstFault {
  public:
    FirstFault() = default;
    // `body` is what was parsed, and outlives this.
    explicit FirstFault(std::string_view body) : body_(body) {}

    void set(std::string param, std::string message, std::string code,
             ErrorKind kind = ErrorKind::invalid_request);
    // "path is value; allowed: ...", a number in the spelling of the body.
    void set_value(const std::string& path, const boost::json::value& value,
                   std::string_view allowed, std::string code = "invalid_type");
    // A value for people, a number in the spelling of the body.
    std::string as_written(const std::string& path, const boost::json::value& value) const;
    bool any() const { return error_.has_value(); }
    const ApiError& error() const { return *error_; }

  private:
    std::string_view body_;
    std::optional<ApiError> error_;
};

struct NumberRange {
    double least = std::numeric_limits<double>::lowest();
    double most = std::numeric_limits<double>::max();
    bool above_least = false;  // `least` itself is not allowed
};

// What a value is, for people: "a string", "null"; short values as themselves.
std::string shown(const boost::json::value& value);

// The fields of one object. An absent field and null are both "not given".
class FieldReader {
  public:
    // `object` and `fault` outlive the reader. `path` is "" at the top.
    FieldReader(const boost::json::object& object, std::string path, FirstFault& fault)
        : object_(object), path_(std::move(path)), fault_(fault) {}

    std::string path_of(std::string_view name) const;
    const boost::json::value* find(std::string_view name) const;  // nullptr: not given

    std::optional<double> number(std::string_view name, NumberRange range);
    std::optional<std::int64_t> integer(std::string_view name, std::int64_t least,
                                        std::int64_t most);
    std::optional<bool> boolean(std::string_view name);
    std::optional<std::string> text(std::string_view name);
    const boost::json::array* array(std::string_view name, std::size_t items_max);
    const boost::json::object* object(std::string_view name);

    void wrong_type(std::string_view name, std::string_view allowed);
    void missing(std::string_view name, std::string_view allowed);
    FirstFault& fault() { return fault_; }

  private:
    const boost::json::object& object_;
    std::string path_;
    FirstFault& fault_;
};

// A body as JSON: depth, memory and UTF-8 are checked.
class JsonBody {
  public:
    // Refuses what is no JSON, what nests deeper than kJsonDepthMax and what is no object.
    static ApiResult<JsonBody> parse(std::string_view body);
    const boost::json::object& object() const { return value_.get_object(); }

  private:
    explicit JsonBody(boost::json::value value) : value_(std::move(value)) {}
    boost::json::value value_;
};

// JSON text inside JSON (the arguments of a tool call); none when it is not JSON or too deep.
std::optional<boost::json::value> parse_inner_json(std::string_view text);

}  // namespace strata::serve
