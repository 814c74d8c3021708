#include "cli/watch/row_list.h"

#include <algorithm>

namespace gordian::cli {
namespace {

constexpr size_t kWidestCell = 44;
// The list measures no more rows: the screen cuts what is wider, and measuring all ranks takes
// longer than drawing.
constexpr size_t kMeasuredRows = 512;

}  // namespace

const std::vector<size_t>& RowList::Widths() const {
  if (widths_.empty()) {
    const Texts headings = Headings();
    widths_.assign(headings.size(), 0);
    for (size_t row = 0; row < std::min(rows(), kMeasuredRows); ++row) {
      const Texts cells = Cells({row});
      for (size_t c = 0; c < widths_.size() && c < cells.size(); ++c) {
        widths_[c] = std::max(widths_[c], std::min(cells[c].size(), kWidestCell));
      }
    }
    for (size_t c = 0; c < widths_.size(); ++c) {
      if (widths_[c] > 0) {
        widths_[c] = std::max(widths_[c], headings[c].size());
      }
    }
  }
  return widths_;
}

}  // namespace gordian::cli
