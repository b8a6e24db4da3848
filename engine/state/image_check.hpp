// Is a snapshot whole, and is it ours? Everything that a restore will rely on, before a byte of the
// session changes. Reads the store; changes nothing.
#pragma once

#include <vector>

#include "strata/core/conversation_image.hpp"
#include "strata/model/geometry.hpp"
#include "strata/state/live_session.hpp"

namespace strata {

struct ImageCheck {
    const BlobStore& store;
    const Geometry& geometry;
    SnapshotFingerprint fingerprint;  // what its blobs must have been computed with
    int threads = 1;
    // False: who moves the blobs sums them up on the way.
    bool sums = true;
};

// True when a conversation of this geometry can go on from rows [0, position) of the image.
[[nodiscard]] bool resumes_at(const ConversationImage& image, Position position,
                              const Geometry& geometry);

// The running state at `position`; none on an attention-only model. Precondition: resumes_at().
[[nodiscard]] HostBlob state_at(const ConversationImage& image, Position position);

// The whole image without its contents: every part is there, has its size and is sealed.
[[nodiscard]] Status<SnapshotRefusal> check_shape(const BlobStore& store, const Geometry& geometry,
                                                  const ConversationImage& image);

// check_shape(), then the stamps of what a restore at `position` takes over, then the checksums of
// what it moves, but for what is filling still.
[[nodiscard]] Status<SnapshotRefusal> check_image(const ImageCheck& check,
                                                  const ConversationImage& image,
                                                  Position position);

}  // namespace strata
