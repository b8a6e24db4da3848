// See device_pages.hpp.
#include "engine/state/device_pages.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

namespace strata {

Buffer DevicePages::give_away(std::size_t index) {
    entries_[index].content = HostBlobId::none;
    return std::exchange(entries_[index].memory, {});
}

// Of this blob's bytes; entries_.size(): they are nowhere.
std::size_t DevicePages::index_of(HostBlobId content) const {
    const auto holds = [content](const Entry& entry) { return entry.content == content; };
    const auto from = entries_.begin() + static_cast<std::ptrdiff_t>(taken_);
    auto found = std::find_if(from, entries_.end(), holds);
    if (found == entries_.end()) {
        found = std::find_if(entries_.begin(), from, holds);
        if (found == from) return entries_.size();
    }
    return static_cast<std::size_t>(found - entries_.begin());
}

// A blob that is gone was filled or its copy has ended.
bool DevicePages::unnamed(const Entry& entry) const {
    return entry.content == HostBlobId::none || store_->find(entry.content) == nullptr;
}

std::optional<Buffer> DevicePages::take(HostBlobId content) {
    const std::size_t index = index_of(content);
    if (index == entries_.size()) return std::nullopt;
    taken_ = index;
    return give_away(index);
}

const void* DevicePages::find(HostBlobId content) const {
    const std::size_t index = index_of(content);
    return index == entries_.size() ? nullptr : entries_[index].memory.address();
}

bool DevicePages::room_for(std::size_t bytes) {
    const std::size_t free = device_->facts().free_bytes;
    return free >= kDeviceSpareBytes && free - kDeviceSpareBytes >= bytes;
}

// The first part of it; the others are nobody's. Absent: there is no room for that.
std::optional<Buffer> DevicePages::cut_slab(std::size_t bytes) {
    const std::size_t parts = std::min(kSlabBytes / bytes, kSlabPartsMax);
    if (parts < 2 || !room_for(parts * bytes)) return std::nullopt;
    entries_.reserve(entries_.size() + parts);
    auto slab = device_->allocate(parts * bytes);
    if (!slab) return std::nullopt;
    auto* first = static_cast<std::byte*>(slab->address());
    const auto whole = std::make_shared<Buffer>(std::move(slab).value());
    for (std::size_t part = 1; part < parts; ++part) {
        put(Buffer(first + part * bytes, bytes, whole), HostBlobId::none);
    }
    return Buffer(first, bytes, whole);
}

Result<Buffer> DevicePages::fresh(std::size_t bytes) {
    if (!device_->copies_aside()) return device_->allocate(bytes);
    for (std::size_t& i = looked_at_; i < entries_.size(); ++i) {
        if (entries_[i].memory.bytes() == bytes && unnamed(entries_[i])) return give_away(i);
    }
    if (auto part = cut_slab(bytes)) return *std::move(part);
    if (room_for(bytes)) {
        auto memory = device_->allocate(bytes);
        if (memory) return memory;
    }
    for (const bool waits : {false, true}) {
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            if (entries_[i].memory.bytes() != bytes) continue;
            if (waits) store_->await(entries_[i].content);
            if (waits || !store_->filling(entries_[i].content)) return give_away(i);
        }
    }
    return device_->allocate(bytes);
}

void DevicePages::look_again() {
    std::erase_if(entries_, [](const Entry& entry) { return !entry.memory; });
    looked_at_ = taken_ = 0;
    std::uint64_t kept = 0;
    for (const Entry& entry : entries_) {
        if (entry.content != HostBlobId::none) kept += entry.memory.bytes();
    }
    for (Entry& entry : entries_) {
        if (kept <= limit_bytes_) return;
        if (entry.content == HostBlobId::none || store_->filling(entry.content)) continue;
        entry.content = HostBlobId::none;
        kept -= entry.memory.bytes();
    }
}

void DevicePages::put(Buffer memory, HostBlobId content) {
    if (!device_->copies_aside() || !memory) return;
    entries_.push_back({std::move(memory), content});
}

void DevicePages::release_unnamed() {
    std::erase_if(entries_, [this](const Entry& entry) { return unnamed(entry); });
    looked_at_ = taken_ = 0;
}

void DevicePages::forget() {
    for (Entry& entry : entries_) {
        store_->await(entry.content);
        entry.content = HostBlobId::none;
    }
}

bool DevicePages::has_unnamed() const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [this](const Entry& entry) { return entry.memory && unnamed(entry); });
}

}  // namespace strata
