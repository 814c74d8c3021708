#include "cli/watch/row_filter.h"

#include <algorithm>
#include <charconv>

namespace gordian::cli {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// "3", "0-7".
std::optional<std::pair<int, int>> ParseRange(std::string_view text) {
  int from = 0, to = 0;
  const char* const end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, from);
  if (error != std::errc() || from < 0) return std::nullopt;
  if (at == end) return std::pair(from, from);
  if (*at != '-') return std::nullopt;
  const auto [last, problem] = std::from_chars(at + 1, end, to);
  if (problem != std::errc() || last != end || to < 0) return std::nullopt;
  return std::pair(from, to);
}

}  // namespace

RowFilter::RowFilter(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first != std::string::npos) {
    wanted_ = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  }
  std::transform(wanted_.begin(), wanted_.end(), wanted_.begin(), Lower);
  range_ = ParseRange(wanted_);
}

bool RowFilter::TakesText(std::initializer_list<std::string_view> texts) const {
  for (const std::string_view text : texts) {
    const auto found = std::search(text.begin(), text.end(), wanted_.begin(), wanted_.end(),
                                   [](char a, char b) { return Lower(a) == b; });
    if (found != text.end()) return true;
  }
  return wanted_.empty();
}

bool RowFilter::Takes(int rank, std::initializer_list<std::string_view> texts) const {
  if (range_) return rank >= range_->first && rank <= range_->second;
  return TakesText(texts);
}

bool RowFilter::TakesAny(const std::vector<int>& ranks,
                         std::initializer_list<std::string_view> texts) const {
  if (range_) {
    return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return Takes(rank, {}); });
  }
  return TakesText(texts);
}

}  // namespace gordian::cli
