// The values of a template run: Python's, as far as templates see them. Texts, lists and dicts are
// shared and, once built, immutable; a list alone may grow (append).
//
// Invariants:
//  1. A container's `depth` is at least 1 + that of everything in it and never changes. So values
//  form no
//     cycles, and walking or destroying one needs at most kDepthMax frames.
//  2. A list grows only by values that fit under its depth; an empty list literal claims kGrowDepth
//  for that.
//  3. Macros and namespaces are owned by the run (Heap): a value points to them and owns nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "serve/text/jinja/text.hpp"

namespace strata::serve::jinja {

inline constexpr int kDepthMax = 200;  // levels of nesting of one value
inline constexpr int kGrowDepth = 16;  // that an empty list literal may grow to

class Object;
struct List;
struct Dict;
struct Namespace;
struct Macro;
struct Loop;
struct Method;
struct Cycler;
using ListPtr = std::shared_ptr<List>;
using DictPtr = std::shared_ptr<const Dict>;

struct None {};

// A value that is not there; remembers what was asked for.
struct Undefined {
    const std::string* name = nullptr;  // in the tree; nullptr: no name
    const char* owner = nullptr;        // type of the object that lacks it; nullptr: a variable
};

enum class Builtin : std::uint8_t {
    range,
    dict,
    namespace_,
    raise_exception,
    strftime_now,
    cycler,
    joiner
};

class Object {
  public:
    using Held = std::variant<Undefined, None, bool, std::int64_t, double, TextPtr, ListPtr,
                              DictPtr, Namespace*, const Macro*, std::shared_ptr<Loop>,
                              std::shared_ptr<const Method>, std::shared_ptr<Cycler>, Builtin>;
    Object() = default;  // undefined
    Object(Undefined value) : held_(value) {}
    Object(None value) : held_(value) {}
    Object(bool value) : held_(value) {}
    Object(std::int64_t value) : held_(value) {}
    Object(double value) : held_(value) {}
    Object(TextPtr value) : held_(std::move(value)) {}
    Object(ListPtr value) : held_(std::move(value)) {}
    Object(DictPtr value) : held_(std::move(value)) {}
    Object(Namespace* value) : held_(value) {}
    Object(const Macro* value) : held_(value) {}
    Object(std::shared_ptr<Loop> value) : held_(std::move(value)) {}
    Object(std::shared_ptr<const Method> value) : held_(std::move(value)) {}
    Object(std::shared_ptr<Cycler> value) : held_(std::move(value)) {}
    Object(Builtin value) : held_(value) {}

    template <class T>
    bool is() const {
        return std::holds_alternative<T>(held_);
    }
    template <class T>
    const T* as() const {
        return std::get_if<T>(&held_);
    }
    const Text* text() const { return is<TextPtr>() ? as<TextPtr>()->get() : nullptr; }
    List* list() const { return is<ListPtr>() ? as<ListPtr>()->get() : nullptr; }
    const Dict* dict() const { return is<DictPtr>() ? as<DictPtr>()->get() : nullptr; }
    bool undefined() const { return is<Undefined>(); }
    bool none() const { return is<None>(); }
    const Held& held() const { return held_; }

  private:
    Held held_;
};
using Objects = std::vector<Object>;
using Named = std::vector<std::pair<std::string, Object>>;

// Python has many kinds of sequence; what a template can tell apart is kept apart.
enum class Flavor : std::uint8_t {
    list,
    tuple,
    group,  // a tuple with the names grouper and list
    range,
    generator,  // read once, always true, has no length
    dict_items,
    dict_keys,
    dict_values,
};

struct List {
    List(Meter& meter, Flavor kind) : flavor(kind), paid(&meter, sizeof(List)) {}
    Flavor flavor;
    Objects items;
    int depth = 1;
    bool consumed = false;  // a generator that was read
    Paid paid;
};

struct Dict {
    explicit Dict(Meter& meter) : paid(&meter, sizeof(Dict)) {}
    // nullptr when there is no such key. Numbers are equal across their types, as in Python.
    const Object* find(Meter& meter, const Object& key) const;
    const Object* find(std::string_view key) const;
    // Replaces the value of a key that is there. Only while the dict is being built.
    void put(Meter& meter, Object key, Object value);

    std::vector<std::pair<Object, Object>> entries;  // in order of insertion
    int depth = 1;
    Paid paid;

  private:
    std::optional<std::size_t> position(Meter& meter, const Object& key) const;
    std::optional<std::size_t> position(std::string_view key) const;
    static constexpr std::size_t kScannedMax = 8;              // up to here a scan beats the hash
    std::unordered_map<std::string_view, std::size_t> index_;  // text keys of larger dicts
};

struct Namespace {
    Named attributes;
};

struct Method {
    Object self;
    std::string name;
};

// cycler() when `separator` is empty, joiner() otherwise.
struct Cycler {
    Objects items;
    std::size_t position = 0;
    bool joins = false;
};

// What `loop` is inside a for.
struct Loop {
    ListPtr items;
    std::size_t index = 0;       // from 0
    std::size_t depth = 0;       // of recursive loops, from 0
    const void* node = nullptr;  // the for statement; only the interpreter knows its type
    void* scope = nullptr;       // where a recursive call runs
    bool finished = false;       // the loop is over: it can no longer be called
    Object last_changed;         // of loop.changed()
};

int depth_of(const Object& object);

bool truthy(const Object& object);
// These walk nested values, of which one may hold another many times over: they pay for every step.
bool equal(Meter& meter, const Object& a, const Object& b);
// As Python's type(x).__name__, for messages.
const char* type_name(const Object& object);
// bool, int or float as a number.
bool is_numeric(const Object& object);
bool is_integral(const Object& object);         // int or bool
std::int64_t integer_of(const Object& object);  // precondition: is_integral
double real_of(const Object& object);           // precondition: is_number
// -1, 0, 1; kUnordered beside a NaN; nothing when Python has no order for the two.
inline constexpr int kUnordered = 2;
std::optional<int> order(Meter& meter, const Object& a, const Object& b);
bool hashable(Meter& meter, const Object& object);

// Builders that pay.
Object make_text(Meter& meter, std::string_view bytes, bool marked = false);
Object make_slice(Meter& meter, const Text& text, std::size_t begin, std::size_t end);
// Fails the meter when the nesting becomes too deep.
Object make_list(Meter& meter, Flavor flavor, Objects items);
std::shared_ptr<Dict> make_dict(Meter& meter);
void put(Meter& meter, Dict& dict, Object key, Object value);
// What a for loop over the object sees; nothing (and a failed meter) when it is not iterable. Reads
// a generator.
std::optional<Objects> iterate(Meter& meter, const Object& object);
// The words for an undefined value's use: "'x' is undefined".
std::string undefined_message(const Undefined& undefined);
// Fails when the object is undefined; true when it may be used.
bool defined(Meter& meter, const Object& object);

}  // namespace strata::serve::jinja
