// What the conversation cache holds after the step that a line tells: the end of CONV, PRESSURE and
// `CACHE end`. A figure that is absent is not known: an older engine.
// `parked=N held=BYTES retained=BYTES`
#pragma once

#include <cstdint>
#include <optional>

namespace strata::protocol {

class FieldReader;
class FieldWriter;

struct HeldFigures {
    std::optional<std::int64_t> parked;  // conversations
    std::optional<std::int64_t> held;    // bytes, as field 18 of DONE
    std::optional<std::int64_t>
        retained;  // bytes of the live conversation's kept K/V, part of held
    friend bool operator==(const HeldFigures&, const HeldFigures&) = default;
};

void put(FieldWriter& out, const HeldFigures& figures);
void take(FieldReader& fields, HeldFigures& out);

}  // namespace strata::protocol
