// What `gordian watch` has on a terminal: the verdict's card and the lists below it, where a person
// is in them, and what each key does. Knows no terminal: takes data, keys and sizes, and gives
// lines.
#ifndef GORDIAN_CLI_WATCH_WATCH_SCREEN_H_
#define GORDIAN_CLI_WATCH_WATCH_SCREEN_H_

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/watch/keys.h"
#include "cli/watch/row_list.h"
#include "cli/watch/watch_data.h"

namespace gordian::cli {

struct ShownLine {
  enum Style { kPlain, kHead, kBold, kDim, kSelected };
  std::string text;
  Style style = kPlain;
  size_t bold = 0;  // how many bytes in front are bold: a label

  friend bool operator==(const ShownLine&, const ShownLine&) = default;
};

class WatchScreen {
 public:
  void SetData(std::shared_ptr<const WatchData> data);
  // In characters; less than 2 rows of 10 columns count as that.
  void SetSize(size_t rows, size_t columns);
  void Press(const Key& key);
  void SetNotice(std::string notice) { notice_ = std::move(notice); }

  // As many lines as the screen has rows, none wider than it: the last one says the keys.
  std::vector<ShownLine> Frame() const;
  // What stays on the terminal at the end: the card, and what else fits below it.
  std::vector<ShownLine> LastFrame() const;

  bool quit() const { return quit_; }
  bool touched() const { return touched_; }  // a key has been pressed
  const WatchData* data() const { return data_.get(); }

 private:
  // The parts of the screen; keys 1 to 5 go to them.
  static constexpr size_t kParts = 5;
  static constexpr size_t kCard = 0;

  // A row or member by what it is, not by where.
  struct Name {
    size_t part = 0;
    bool member = false;
    std::string id;

    auto operator<=>(const Name&) const = default;
  };
  struct Line {
    enum Kind { kText, kHeading, kColumns, kRow, kDetail };
    Kind kind = kText;
    size_t part = kCard;
    RowList::Place place;  // of kRow, and of the row that kDetail belongs to
    std::string text;      // of all but kRow and kColumns, which are made when they are drawn
  };
  using Document = std::vector<Line>;

  void MakeLists();
  void MakeDocument();
  void FindOpenRows();
  void AddList(size_t part);
  void AddDetails(size_t part, RowList::Place place);
  bool IsOpen(size_t part, RowList::Place place) const;
  void Open(size_t line);
  void Close(size_t line);  // it, or the row that it belongs to
  void Move(bool down);
  void MovePage(bool down);
  void GoTo(size_t part);
  void GoToNext(bool back);
  void PressInFilter(const Key& key);
  void PressText(char key);
  void SetFilter(std::string filter);
  void Select(size_t line);
  void Reveal(size_t line);
  void Clamp();

  std::optional<size_t> SelectedLine() const;  // in document_
  std::optional<size_t> NextRow(size_t from, bool down) const;
  size_t body() const { return rows_ - 1; }
  Name NameOf(size_t part, RowList::Place place) const;
  std::string RowText(const Line& line, bool selected) const;
  std::string Columns(size_t part, const Texts& cells) const;
  ShownLine Draw(size_t line, bool selected) const;
  std::string KeysLine() const;
  std::vector<ShownLine> HelpFrame() const;

  std::shared_ptr<const WatchData> data_;
  std::array<std::unique_ptr<RowList>, kParts> lists_;  // null: nothing to say, or the card
  Document document_;
  size_t head_ = 0, card_ = 0;  // lines of the headline, and of the card
  size_t rows_ = 24, columns_ = 80;
  size_t top_ = 0;  // the first line of document_ that is on the screen
  std::optional<Name> selected_;
  std::set<Name> open_;
  std::set<std::pair<size_t, size_t>>
      open_rows_;  // parts and rows of document_ that are open by it
  std::string filter_;
  bool typing_filter_ = false, help_ = false, quit_ = false, touched_ = false;
  std::string notice_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_WATCH_SCREEN_H_
