// The state side of a live conversation without its bytes: which pages are clean, which names its
// image would have. Pages are kSimPageTokens long, so that a few tokens reach their edges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/core/conversation_cache.hpp"

namespace strata::tests {

inline constexpr Position kSimPageTokens = 2;

struct SimShape {
    bool recurrent = true;
    std::uint64_t page_bytes = 10;
    std::uint64_t state_bytes = 7;
};

class SimSession {
  public:
    explicit SimSession(const SimShape& shape) : shape_(shape) {}

    void begin(Identity identity, const PromptMarks& marks, std::uint64_t conversation);
    void write(TokenId id);
    // One for each position; the oldest goes beyond kCheckpointsMax.
    void keep_checkpoint(CheckpointKind kind);
    void rewind(Position position);
    // Continues `image` at `position`.
    void load(const ConversationImage& image, Position position);
    void set_marks(const PromptMarks& marks) { marks_ = marks; }
    // Names what is dirty, and describes everything.
    SharedImage describe();
    // Its pages hold what `image` names: they are clean now.
    void mark_clean(const ConversationImage& image) { pages_ = image.pages; }
    // Host pages that are gone: what they were copies of is dirty again.
    void forget(std::span<const HostBlobId> left);

    [[nodiscard]] LiveHolding holding() const;
    [[nodiscard]] std::vector<HostBlob> clean_pages() const;
    [[nodiscard]] std::vector<Position> points() const;
    [[nodiscard]] std::vector<CheckpointMark> marks_of_checkpoints() const;
    [[nodiscard]] const PromptMarks& marks() const { return marks_; }
    [[nodiscard]] const Identity& identity() const { return identity_; }
    [[nodiscard]] bool empty() const { return ids_.empty(); }
    [[nodiscard]] const TokenIds& ids() const { return ids_; }
    [[nodiscard]] const std::string& steering() const { return identity_.steering; }
    [[nodiscard]] std::uint64_t conversation() const { return conversation_; }

  private:
    HostBlob name(std::uint64_t bytes, bool resident) {
        return {HostBlobId{++last_blob_}, bytes, resident};
    }

    SimShape shape_;
    TokenIds ids_;
    Identity identity_;
    PromptMarks marks_;
    std::vector<ImageCheckpoint> checkpoints_;
    std::vector<HostBlob> pages_;  // HostBlobId::none: dirty
    std::uint64_t conversation_ = 0;
    std::uint64_t last_blob_ = 0;
};

}  // namespace strata::tests
