// The filter of the lists of `gordian watch`, as on the page: ranks ("3", "0-7"), or a part of what
// is shown, in any case.
#ifndef GORDIAN_CLI_WATCH_ROW_FILTER_H_
#define GORDIAN_CLI_WATCH_ROW_FILTER_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gordian::cli {

class RowFilter {
 public:
  explicit RowFilter(const std::string& text);  // empty: takes everything

  bool everything() const { return wanted_.empty(); }
  // `texts` is what the thing shows.
  bool Takes(int rank, std::initializer_list<std::string_view> texts) const;
  bool TakesAny(const std::vector<int>& ranks, std::initializer_list<std::string_view> texts) const;

 private:
  bool TakesText(std::initializer_list<std::string_view> texts) const;

  std::string wanted_;  // in lower case, without spaces around it
  std::optional<std::pair<int, int>> range_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_ROW_FILTER_H_
