// Result<T, E>: the value, or the reason why there is none. For expected failures only; a broken
// invariant asserts (core/invariant.hpp), a client's fault is a typed error that serve/http
// answers.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace strata {

// Lets the caller of a load tell "this file is wrong" from "this machine is too small" and from
// "this option does not fit the file".
enum class RefusalKind : unsigned char { refused, out_of_memory, bad_option };

// A refusal in words: names the thing, its value and what is allowed.
struct Refusal {
    std::string text;
    RefusalKind kind = RefusalKind::refused;
};

template <class E>
struct Failure {
    E error;
};
template <class E>
Failure(E) -> Failure<E>;

inline Failure<Refusal> refuse(std::string text) {
    return {Refusal{std::move(text), RefusalKind::refused}};
}
inline Failure<Refusal> refuse_option(std::string text) {
    return {Refusal{std::move(text), RefusalKind::bad_option}};
}
inline Failure<Refusal> refuse_memory(std::string text) {
    return {Refusal{std::move(text), RefusalKind::out_of_memory}};
}

template <class T, class E = Refusal>
class [[nodiscard]] Result {
  public:
    Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
    Result(Failure<E> failure) : held_(std::in_place_index<1>, std::move(failure.error)) {}

    bool ok() const { return held_.index() == 0; }
    explicit operator bool() const { return ok(); }
    // Precondition: ok().
    T& value() & { return std::get<0>(held_); }
    const T& value() const& { return std::get<0>(held_); }
    T&& value() && { return std::get<0>(std::move(held_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    // Precondition: !ok().
    const E& error() const { return std::get<1>(held_); }
    Failure<E> failure() const { return {error()}; }

  private:
    std::variant<T, E> held_;
};

struct Done {};  // the value of a Result that has none
template <class E = Refusal>
using Status = Result<Done, E>;

}  // namespace strata
