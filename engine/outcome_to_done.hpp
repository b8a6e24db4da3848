// From what the engine says to the lines that are printed: the one place where its enums become the
// protocol's words.
#pragma once

#include <string>

#include "protocol/done_line.hpp"
#include "protocol/err_line.hpp"
#include "protocol/info_line.hpp"
#include "protocol/resume_line.hpp"
#include "protocol/token_line.hpp"
#include "strata/engine.hpp"

namespace strata {

[[nodiscard]] protocol::DoneLine done_line(const GenerateRequest& request, const Outcome& outcome);
[[nodiscard]] protocol::ErrLine err_line(const GenerateRequest& request,
                                         const RequestRefusal& refusal);
[[nodiscard]] protocol::ResumeLine resume_line(std::uint64_t id, const PromptPlan& plan,
                                               std::uint64_t conversation,
                                               const protocol::HeldFigures& held);
[[nodiscard]] protocol::TokenLine token_line(std::uint64_t id, TokenId token,
                                             const std::optional<TokenReport>& report);
[[nodiscard]] protocol::InfoLine info_line(Engine& engine, std::string_view version);

// One line for people: what was read, from where, how long it took, why it was no hit.
[[nodiscard]] std::string report_of(const Outcome& outcome);

}  // namespace strata
