// The routes that need the text side alone: /tokenize, /detokenize, /apply-template, in llama.cpp's
// shapes. Pure functions of a body; they run on a worker, also while no engine is there.
#pragma once

#include <cstdint>
#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/api/exchange.hpp"
#include "serve/api/settings.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

struct TextPlaces {
    const TextModel& text;
    const ApiSettings& settings;
    std::int64_t n_ctx = 0;  // tokens
};
using TextCall = ApiResult<Reply> (*)(std::string_view body, const TextPlaces& places);

// {"content","add_special":false,"parse_special":true,"with_pieces":false} -> {"tokens":[...]};
// with pieces each is {"id","piece"}, where a piece that is not UTF-8 is a list of bytes.
ApiResult<Reply> tokenize(std::string_view body, const TextPlaces& places);
// {"tokens":[...]} -> {"content"}; bytes that are not UTF-8 become U+FFFD.
ApiResult<Reply> detokenize(std::string_view body, const TextPlaces& places);
// A chat completion request -> {"prompt"}: what the chat template makes of it.
ApiResult<Reply> apply_template(std::string_view body, const TextPlaces& places);

}  // namespace strata::serve
