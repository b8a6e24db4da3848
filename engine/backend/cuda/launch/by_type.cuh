// Calls a template for the element type that is only known at run time.
#pragma once

#include <utility>

#include "engine/backend/cuda/weight_planes.hpp"

namespace strata::cuda {

template <ElementType kType>
struct TypeTag {
    static constexpr ElementType value = kType;
};

// call(TypeTag<type>{}) for each quantised type.
template <class Call>
void for_quantised(ElementType type, const Call& call) {
    switch (type) {
        case ElementType::q8_0:
            return call(TypeTag<ElementType::q8_0>{});
        case ElementType::q4_0:
            return call(TypeTag<ElementType::q4_0>{});
        case ElementType::q4_k:
            return call(TypeTag<ElementType::q4_k>{});
        case ElementType::q5_k:
            return call(TypeTag<ElementType::q5_k>{});
        case ElementType::q6_k:
            return call(TypeTag<ElementType::q6_k>{});
        case ElementType::iq4_nl:
            return call(TypeTag<ElementType::iq4_nl>{});
        case ElementType::iq3_s:
            return call(TypeTag<ElementType::iq3_s>{});
        case ElementType::mxfp4:
            return call(TypeTag<ElementType::mxfp4>{});
        case ElementType::nvfp4:
            return call(TypeTag<ElementType::nvfp4>{});
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            return;
    }
}

// The same for float types.
template <class Call>
void for_float(ElementType type, const Call& call) {
    if (type == ElementType::f32) return call(TypeTag<ElementType::f32>{});
    if (type == ElementType::f16) return call(TypeTag<ElementType::f16>{});
    call(TypeTag<ElementType::bf16>{});
}

}  // namespace strata::cuda
