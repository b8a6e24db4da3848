// "Did you mean": the known name that is nearest to an unknown one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// Letters to insert, delete or replace to turn `a` into `b` (Levenshtein 1965). O(|a| |b|) time.
[[nodiscard]] inline std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

// The names, nearest first; equally near ones keep their order. Names are short, lists are small.
[[nodiscard]] inline std::vector<std::string> by_closeness(std::string_view wanted,
                                                           std::vector<std::string> names) {
    constexpr std::size_t kComparedBytesMax = 128;  // a stranger's name may be megabytes long
    const std::string_view head = wanted.substr(0, kComparedBytesMax);
    std::stable_sort(names.begin(), names.end(), [&](const std::string& x, const std::string& y) {
        return edit_distance(head, x) < edit_distance(head, y);
    });
    return names;
}

}  // namespace strata
