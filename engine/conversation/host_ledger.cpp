// See core/host_blob.hpp.
#include <algorithm>

#include "strata/core/host_blob.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

namespace {

using Rows = std::vector<HostLedger::Row>;

// The first row of [from, end) whose id is not below `id`. Lists are ascending, so a walk goes on
// from where the last look-up ended.
template <class Iterator>
Iterator seek(Iterator from, Iterator end, HostBlobId id) {
    return std::lower_bound(from, end, id, [](const HostLedger::Row& row, HostBlobId wanted) {
        return row.id < wanted;
    });
}

}  // namespace

void HostLedger::add(std::span<const HostBlob> blobs) {
    Rows merged;
    merged.reserve(rows_.size() + blobs.size());
    std::uint64_t bytes = bytes_;
    auto row = rows_.cbegin();
    for (const HostBlob& blob : blobs) {
        const auto at = seek(row, rows_.cend(), blob.id);
        merged.insert(merged.end(), row, at);
        row = at;
        STRATA_INVARIANT(blob.id != HostBlobId::none &&
                         (merged.empty() || merged.back().id < blob.id));
        if (row != rows_.cend() && row->id == blob.id) {
            STRATA_INVARIANT(row->bytes == blob.bytes);
            merged.push_back({row->id, row->bytes, row->count + 1});
            ++row;
        } else {
            merged.push_back({blob.id, blob.bytes, 1});
            bytes += blob.bytes;
        }
    }
    merged.insert(merged.end(), row, rows_.cend());
    rows_.swap(merged);
    bytes_ = bytes;
}

void HostLedger::remove(std::span<const HostBlobId> ids) noexcept {
    auto row = rows_.begin();
    for (const HostBlobId id : ids) {
        row = seek(row, rows_.end(), id);
        STRATA_INVARIANT(row != rows_.end() && row->id == id && row->count > 0);
        if (--row->count == 0) bytes_ -= row->bytes;
    }
    std::erase_if(rows_, [](const Row& each) { return each.count == 0; });
}

std::uint32_t HostLedger::count(HostBlobId id) const {
    const auto row = seek(rows_.begin(), rows_.end(), id);
    return row != rows_.end() && row->id == id ? row->count : 0;
}

std::vector<HostBlob> holder_blobs(std::vector<HostBlob> blobs) {
    std::erase_if(blobs, [](const HostBlob& blob) { return blob.id == HostBlobId::none; });
    std::sort(blobs.begin(), blobs.end(),
              [](const HostBlob& a, const HostBlob& b) { return a.id < b.id; });
    const auto same = [](const HostBlob& a, const HostBlob& b) { return a.id == b.id; };
    blobs.erase(std::unique(blobs.begin(), blobs.end(), same), blobs.end());
    return blobs;
}

}  // namespace strata
