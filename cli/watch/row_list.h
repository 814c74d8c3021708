// One list of the screen of `gordian watch`: rows that a person can move to and open. A row may
// stand for many members that are alike, which it shows when it is open. Makes texts only of what
// is asked for: a job has very many ranks.
#ifndef GORDIAN_CLI_WATCH_ROW_LIST_H_
#define GORDIAN_CLI_WATCH_ROW_LIST_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/watch/watch_data.h"

namespace gordian::cli {

using Texts = std::vector<std::string>;

class RowList {
 public:
  // A row itself, or one of its members.
  static constexpr size_t kNoMember = static_cast<size_t>(-1);
  struct Place {
    size_t row = 0;
    size_t member = kNoMember;

    friend bool operator==(const Place&, const Place&) = default;
  };

  virtual ~RowList() = default;

  // "8 ranks in 2 rows".
  virtual std::string Title() const = 0;
  // Of the columns. A list without headings has one column.
  virtual Texts Headings() const = 0;
  virtual size_t rows() const = 0;
  // How many members an open row shows as rows of their own; 0: it stands for itself alone.
  virtual size_t members(size_t /*row*/) const { return 0; }
  // As many as Headings; printable, not cut.
  virtual Texts Cells(Place place) const = 0;
  virtual bool CanOpen(Place /*place*/) const { return true; }
  // What opening it shows, printable lines of any length.
  virtual Texts Details(Place place) const = 0;
  // Names the thing at the place, also when the job's state has changed and the place has, too.
  virtual std::string Id(Place place) const = 0;
  // Where that thing is now: its own place, or the row that stands for it and others.
  virtual std::optional<Place> Find(const std::string& id) const = 0;

  // How wide each column is, by its first rows; 0: it is empty and not shown.
  const std::vector<size_t>& Widths() const;

 private:
  mutable std::vector<size_t> widths_;
};

// What they show of `data` as the filter wants it; null where there is nothing to say.
std::unique_ptr<RowList> MakeFindingList(std::shared_ptr<const WatchData> data);
std::unique_ptr<RowList> MakeRankList(std::shared_ptr<const WatchData> data,
                                      const std::string& filter);
std::unique_ptr<RowList> MakeCommunicatorList(std::shared_ptr<const WatchData> data,
                                              const std::string& filter);
std::unique_ptr<RowList> MakeHealthList(std::shared_ptr<const WatchData> data,
                                        const std::string& filter);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_ROW_LIST_H_
