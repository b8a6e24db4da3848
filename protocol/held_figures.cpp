#include "protocol/held_figures.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

void put(FieldWriter& out, const HeldFigures& figures) {
    out.name("parked", figures.parked);
    out.name("held", figures.held);
    out.name("retained", figures.retained);
}

void take(FieldReader& fields, HeldFigures& out) {
    fields.named("parked", out.parked);
    fields.named("held", out.held);
    fields.named("retained", out.retained);
}

}  // namespace strata::protocol
