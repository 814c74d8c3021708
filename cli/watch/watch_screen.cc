#include "cli/watch/watch_screen.h"

#include <algorithm>
#include <utility>

#include "analyzer/report/text_layout.h"
#include "cli/watch/verdict_card.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

constexpr size_t kWidestCell = 44;
constexpr size_t kFewestRows = 2, kFewestColumns = 10;
constexpr size_t kMark = 3;  // columns in front of a row: whether it is chosen, whether it is open

constexpr const char* kPartNames[] = {"Verdict", "Findings", "Ranks", "Communicators", "Health"};

constexpr const char* kHelp[] = {
    "Up, Down, k, j      move; scroll where there is more to read",
    "Enter, Right        open a row: call site, process, stack, members",
    "Left, Esc           close it; Esc then clears the filter, and goes to the top",
    "Tab, Shift-Tab      the next section, the one before",
    "1 to 5              verdict, findings, ranks, communicators, health",
    "PageUp, PageDown    scroll by a screen",
    "Home, End           the verdict, the last row",
    "/                   filter: ranks (3, 0-7), or a part of a state, call, site, node, name",
    "Ctrl-L              draw the screen anew",
    "?                   these keys",
    "q                   end gordian watch; the job runs on, as with Ctrl-C",
};

}  // namespace

void WatchScreen::SetSize(size_t rows, size_t columns) {
  rows = std::max(rows, kFewestRows);
  columns = std::max(columns, kFewestColumns);
  if (rows == rows_ && columns == columns_) return;
  rows_ = rows;
  columns_ = columns;
  MakeDocument();
  if (const auto line = SelectedLine()) Reveal(*line);
  Clamp();
}

void WatchScreen::SetData(std::shared_ptr<const WatchData> data) {
  const std::optional<size_t> before = SelectedLine();
  data_ = std::move(data);
  MakeLists();
  MakeDocument();
  if (before && selected_) {
    const std::optional<size_t> now = SelectedLine();
    if (now) {
      // Keeps it where the reader's eye is.
      top_ = *now + top_ > *before ? *now + top_ - *before : 0;
    } else {
      // It has gone: takes what stands in its place.
      std::optional<size_t> next = NextRow(*before, true);
      if (!next) next = NextRow(std::min(*before, document_.size()), false);
      selected_.reset();
      if (next) selected_ = NameOf(document_[*next].part, document_[*next].place);
    }
  }
  Clamp();
}

void WatchScreen::MakeLists() {
  if (data_ == nullptr) return;
  lists_[1] = MakeFindingList(data_);
  lists_[2] = MakeRankList(data_, filter_);
  lists_[3] = MakeCommunicatorList(data_, filter_);
  lists_[4] = MakeHealthList(data_, filter_);
}

void WatchScreen::MakeDocument() {
  document_.clear();
  if (data_ == nullptr) return;
  FindOpenRows();
  VerdictCard card = MakeVerdictCard(*data_, columns_);
  head_ = card.head;
  card_ = card.lines.size();
  for (std::string& line : card.lines) document_.push_back({.text = std::move(line)});
  for (size_t part = 1; part < kParts; ++part) {
    if (lists_[part] != nullptr) AddList(part);
  }
}

void WatchScreen::AddList(size_t part) {
  const RowList& list = *lists_[part];
  document_.push_back({.kind = Line::kText, .part = part});
  document_.push_back(
      {.kind = Line::kHeading,
       .part = part,
       .text = std::to_string(part + 1) + " " + kPartNames[part] + ": " + list.Title()});
  const Texts headings = list.Headings();
  const bool named =
      std::any_of(headings.begin(), headings.end(), [](const auto& text) { return !text.empty(); });
  if (named && list.rows() > 0) document_.push_back({.kind = Line::kColumns, .part = part});
  for (size_t row = 0; row < list.rows(); ++row) {
    document_.push_back({.kind = Line::kRow, .part = part, .place = {row}});
    if (!IsOpen(part, {row})) continue;
    AddDetails(part, {row});
    for (size_t member = 0; member < list.members(row); ++member) {
      const RowList::Place place{row, member};
      document_.push_back({.kind = Line::kRow, .part = part, .place = place});
      if (IsOpen(part, place)) AddDetails(part, place);
    }
  }
}

void WatchScreen::AddDetails(size_t part, RowList::Place place) {
  const std::string indent(place.member == RowList::kNoMember ? kMark + 3 : kMark + 5, ' ');
  const size_t width =
      columns_ > indent.size() + kFewestColumns ? columns_ - indent.size() : columns_;
  for (const std::string& line : lists_[part]->Details(place)) {
    for (std::string& piece : BreakLine(line, width)) {
      document_.push_back({.kind = Line::kDetail,
                           .part = part,
                           .place = place,
                           .text = width == columns_ ? std::move(piece) : indent + piece});
    }
  }
}

WatchScreen::Name WatchScreen::NameOf(size_t part, RowList::Place place) const {
  return {part, place.member != RowList::kNoMember, lists_[part]->Id(place)};
}

// A row that stands for many is open if it was opened by any of them: it is the same row to the
// reader when another member comes to its front.
void WatchScreen::FindOpenRows() {
  open_rows_.clear();
  for (const Name& name : open_) {
    const RowList* const list = lists_[name.part].get();
    const auto found = list == nullptr ? std::nullopt : list->Find(name.id);
    if (found && (!name.member || list->members(found->row) == 0)) {
      open_rows_.emplace(name.part, found->row);
    }
  }
}

bool WatchScreen::IsOpen(size_t part, RowList::Place place) const {
  return place.member == RowList::kNoMember ? open_rows_.contains({part, place.row})
                                            : open_.contains(NameOf(part, place));
}

void WatchScreen::Open(size_t line) {
  const Line& at = document_[line];
  if (at.kind != Line::kRow || !lists_[at.part]->CanOpen(at.place)) return;
  open_.insert(NameOf(at.part, at.place));
  MakeDocument();
  size_t end = line + 1;
  while (end < document_.size() && document_[end].part == document_[line].part &&
         document_[end].kind == Line::kDetail) {
    ++end;
  }
  // Shows as much of what was opened as fits.
  if (end > top_ + body()) top_ = std::min(line, end - body());
  Clamp();
}

void WatchScreen::Close(size_t line) {
  const Line at = document_[line];
  RowList::Place place = at.place;
  const RowList& list = *lists_[at.part];
  if (!IsOpen(at.part, place)) {
    if (place.member == RowList::kNoMember) return;
    place.member = RowList::kNoMember;  // closes the row around it
  }
  std::erase_if(open_, [&](const Name& name) {
    if (name.part != at.part) return false;
    const auto found = list.Find(name.id);
    if (!found || found->row != place.row) return false;
    if (place.member == RowList::kNoMember) {
      return !name.member || list.members(place.row) == 0;
    }
    return name.member && found->member == place.member;
  });
  selected_ = NameOf(at.part, place);
  MakeDocument();
  if (const auto now = SelectedLine()) Reveal(*now);
  Clamp();
}

std::optional<size_t> WatchScreen::SelectedLine() const {
  if (!selected_ || lists_[selected_->part] == nullptr) return std::nullopt;
  auto place = lists_[selected_->part]->Find(selected_->id);
  if (!place) return std::nullopt;
  // A row that was a member may stand for itself now, or its row may be closed.
  if (!selected_->member || !IsOpen(selected_->part, {place->row})) {
    place->member = RowList::kNoMember;
  }
  for (size_t i = 0; i < document_.size(); ++i) {
    if (document_[i].kind == Line::kRow && document_[i].part == selected_->part &&
        document_[i].place == *place) {
      return i;
    }
  }
  return std::nullopt;
}

// The first row at `from` or below; or the last one above it.
std::optional<size_t> WatchScreen::NextRow(size_t from, bool down) const {
  if (down) {
    for (size_t i = from; i < document_.size(); ++i) {
      if (document_[i].kind == Line::kRow) return i;
    }
    return std::nullopt;
  }
  for (size_t i = std::min(from, document_.size()); i > 0; --i) {
    if (document_[i - 1].kind == Line::kRow) return i - 1;
  }
  return std::nullopt;
}

void WatchScreen::Select(size_t line) {
  selected_ = NameOf(document_[line].part, document_[line].place);
}

void WatchScreen::Reveal(size_t line) {
  if (line < top_) top_ = line;
  if (line >= top_ + body()) top_ = line + 1 - body();
}

void WatchScreen::Clamp() {
  const size_t most = document_.size() > body() ? document_.size() - body() : 0;
  top_ = std::min(top_, most);
}

// Goes to the next row if it is on the screen, or one line away; else scrolls by a line, so that
// nothing between two rows is skipped.
void WatchScreen::Move(bool down) {
  const std::optional<size_t> at = SelectedLine();
  if (down) {
    const std::optional<size_t> next = NextRow(at ? *at + 1 : top_, true);
    if (!next || *next >= top_ + body()) ++top_;
    Clamp();
    if (next && *next < top_ + body()) Select(*next);
    return;
  }
  const std::optional<size_t> next = at ? NextRow(*at, false) : std::nullopt;
  if ((!next || *next < top_) && top_ > 0) --top_;
  if (next && *next >= top_) {
    Select(*next);
  } else if (!next && top_ == 0) {
    selected_.reset();
  }
}

void WatchScreen::MovePage(bool down) {
  const size_t by = std::max<size_t>(body() - 1, 1);
  top_ = down ? top_ + by : top_ - std::min(top_, by);
  Clamp();
  const std::optional<size_t> at = SelectedLine();
  if (at && *at >= top_ && *at < top_ + body()) return;
  const std::optional<size_t> next =
      down ? NextRow(top_, true) : NextRow(std::min(top_ + body(), document_.size()), false);
  if (next && *next >= top_ && *next < top_ + body()) {
    Select(*next);
  } else {
    selected_.reset();
  }
}

void WatchScreen::GoTo(size_t part) {
  if (part == kCard) {
    top_ = 0;
    selected_.reset();
    return;
  }
  if (lists_[part] == nullptr) {
    notice_ = std::string(kPartNames[part]) + ": nothing to say";
    return;
  }
  for (size_t i = 0; i < document_.size(); ++i) {
    if (document_[i].part != part || document_[i].kind != Line::kHeading) continue;
    size_t end = i;
    while (end < document_.size() && document_[end].part == part) ++end;
    if (i < top_ || end > top_ + body()) top_ = i;
    const std::optional<size_t> row = NextRow(i, true);
    selected_.reset();
    if (row && document_[*row].part == part) Select(*row);
    Clamp();
    return;
  }
}

void WatchScreen::GoToNext(bool back) {
  size_t part = selected_ ? selected_->part : kCard;
  do {
    part = (part + (back ? kParts - 1 : 1)) % kParts;
  } while (part != kCard && lists_[part] == nullptr);
  GoTo(part);
}

void WatchScreen::SetFilter(std::string filter) {
  if (filter == filter_) return;
  filter_ = std::move(filter);
  MakeLists();
  MakeDocument();
  if (const auto line = SelectedLine()) {
    Reveal(*line);
  } else {
    selected_.reset();
    size_t part = 2;
    while (part < kParts && (lists_[part] == nullptr || lists_[part]->rows() == 0)) ++part;
    if (part < kParts) GoTo(part);
  }
  Clamp();
}

void WatchScreen::PressInFilter(const Key& key) {
  std::string filter = filter_;
  switch (key.kind) {
    case Key::kText:
      filter += key.text;
      break;
    case Key::kBackspace:
      if (filter.empty()) typing_filter_ = false;
      while (!filter.empty()) {
        const auto last = static_cast<unsigned char>(filter.back());
        filter.pop_back();
        if ((last & 0xc0) != 0x80) break;  // the first byte of a character
      }
      break;
    case Key::kClearLine:
      filter.clear();
      break;
    case Key::kEscape:
      filter.clear();
      typing_filter_ = false;
      break;
    default:
      typing_filter_ = false;
      if (key.kind != Key::kEnter) Press(key);
      return;
  }
  SetFilter(std::move(filter));
}

void WatchScreen::PressText(char key) {
  switch (key) {
    case 'j':
      return Move(true);
    case 'k':
      return Move(false);
    case 'q':
      quit_ = true;
      return;
    case '?':
      help_ = true;
      return;
    case '/':
      typing_filter_ = true;
      return;
    default:
      if (key >= '1' && key < static_cast<char>('1' + kParts)) {
        GoTo(static_cast<size_t>(key - '1'));
      }
  }
}

void WatchScreen::Press(const Key& key) {
  touched_ = true;
  notice_.clear();
  if (help_) {
    help_ = false;
    quit_ = key.kind == Key::kText && key.text == "q";
    return;
  }
  if (typing_filter_) return PressInFilter(key);
  const std::optional<size_t> at = SelectedLine();
  switch (key.kind) {
    case Key::kText:
      if (key.text.size() == 1) PressText(key.text[0]);
      return;
    case Key::kUp:
      return Move(false);
    case Key::kDown:
      return Move(true);
    case Key::kPageUp:
      return MovePage(false);
    case Key::kPageDown:
      return MovePage(true);
    case Key::kHome:
      return GoTo(kCard);
    case Key::kEnd:
      if (const auto last = NextRow(document_.size(), false)) Select(*last);
      top_ = document_.size();
      return Clamp();
    case Key::kEnter:
      if (at && IsOpen(document_[*at].part, document_[*at].place)) return Close(*at);
      if (at) Open(*at);
      return;
    case Key::kRight:
      if (at) Open(*at);
      return;
    case Key::kLeft:
      if (at) Close(*at);
      return;
    case Key::kEscape:
      if (at && (document_[*at].place.member != RowList::kNoMember ||
                 IsOpen(document_[*at].part, document_[*at].place))) {
        return Close(*at);
      }
      if (!filter_.empty()) return SetFilter("");
      return GoTo(kCard);
    case Key::kTab:
      return GoToNext(false);
    case Key::kBackTab:
      return GoToNext(true);
    case Key::kBackspace:
    case Key::kClearLine:
    case Key::kRedraw:
      return;
  }
}

std::string WatchScreen::Columns(size_t part, const Texts& cells) const {
  const std::vector<size_t>& widths = lists_[part]->Widths();
  std::string line;
  for (size_t c = 0; c < widths.size() && c < cells.size(); ++c) {
    if (widths[c] == 0) continue;
    // The last column ends where the screen does.
    std::string cell = c + 1 == widths.size() ? cells[c] : analyzer::CutTo(cells[c], kWidestCell);
    if (cell.size() < widths[c]) cell.append(widths[c] - cell.size(), ' ');
    line += (line.empty() ? "" : "  ") + cell;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string WatchScreen::RowText(const Line& line, bool selected) const {
  const bool can_open = lists_[line.part]->CanOpen(line.place);
  const char open = IsOpen(line.part, line.place) ? '-' : can_open ? '+' : ' ';
  const bool member = line.place.member != RowList::kNoMember;
  return std::string(selected ? ">" : " ") + open + (member ? "   " : " ") +
         Columns(line.part, lists_[line.part]->Cells(line.place));
}

ShownLine WatchScreen::Draw(size_t at, bool selected) const {
  const Line& line = document_[at];
  ShownLine shown;
  switch (line.kind) {
    case Line::kText:
      shown.text = line.text;
      if (at < head_) {
        shown.style = ShownLine::kHead;
      } else if (at < card_ && !line.text.empty() && line.text[0] >= 'a' && line.text[0] <= 'z' &&
                 at != head_) {
        const size_t colon = line.text.find(": ");
        shown.bold = colon == std::string::npos ? 0 : colon + 1;
      }
      break;
    case Line::kHeading:
      shown = {.text = line.text, .style = ShownLine::kBold};
      break;
    case Line::kColumns:
      shown = {.text = std::string(kMark, ' ') + Columns(line.part, lists_[line.part]->Headings()),
               .style = ShownLine::kDim};
      break;
    case Line::kRow:
      shown = {.text = RowText(line, selected),
               .style = selected ? ShownLine::kSelected : ShownLine::kPlain};
      break;
    case Line::kDetail:
      shown.text = line.text;
      break;
  }
  shown.text = analyzer::CutTo(shown.text, columns_);
  return shown;
}

std::string WatchScreen::KeysLine() const {
  if (typing_filter_) return "filter: " + filter_ + "_   (Enter keeps it, Esc clears it)";
  if (!notice_.empty()) return notice_;
  std::string line;
  const size_t last = std::min(top_ + body(), document_.size());
  if (top_ > 0 || last < document_.size()) {
    line = std::to_string(top_ + 1) + "-" + std::to_string(last) + "/" +
           std::to_string(document_.size());
  }
  if (!filter_.empty()) line += (line.empty() ? "" : "  ") + ("filter: " + filter_);
  const bool running = data_ != nullptr && data_->running;
  std::string quit = running ? "q quits, the job runs on" : "the job has ended; q quits";
  if (columns_ < 2 * quit.size()) quit = "q quits";
  for (const std::string& hint :
       {quit, std::string("? keys"), std::string("Up/Down move"), std::string("Enter opens"),
        std::string("/ filter"), std::string("Tab section"), std::string("Left closes")}) {
    if (line.size() + 2 + hint.size() > columns_) continue;
    line += (line.empty() ? "" : "  ") + hint;
  }
  return line;
}

std::vector<ShownLine> WatchScreen::HelpFrame() const {
  std::vector<ShownLine> lines;
  for (const char* const text : kHelp) {
    for (std::string& line : BreakLine(text, columns_)) {
      if (lines.size() < body()) lines.push_back({.text = std::move(line)});
    }
  }
  lines.resize(body());
  lines.push_back(
      {.text = analyzer::CutTo("any key goes back", columns_), .style = ShownLine::kDim});
  return lines;
}

std::vector<ShownLine> WatchScreen::Frame() const {
  if (help_) return HelpFrame();
  std::vector<ShownLine> lines;
  const std::optional<size_t> selected = SelectedLine();
  for (size_t i = top_; i < document_.size() && lines.size() < body(); ++i) {
    lines.push_back(Draw(i, selected == i));
  }
  lines.resize(body());
  lines.push_back({.text = analyzer::CutTo(KeysLine(), columns_), .style = ShownLine::kDim});
  return lines;
}

std::vector<ShownLine> WatchScreen::LastFrame() const {
  // So that the headline stays in sight below a shell's prompt and a line on what went wrong.
  constexpr size_t kLeft = 3;
  const size_t most = std::max(card_, rows_ > kLeft ? rows_ - kLeft : 0);
  std::vector<ShownLine> lines;
  size_t rows_end = 0;  // a heading without a row below it says nothing
  for (size_t i = 0; i < document_.size() && lines.size() < most; ++i) {
    const Line& line = document_[i];
    const bool is_row = line.kind == Line::kRow;
    const bool opened =
        line.kind == Line::kDetail || (is_row && line.place.member != RowList::kNoMember);
    if (opened) continue;
    lines.push_back(Draw(i, false));
    if (is_row) lines.back().text.replace(0, kMark, kMark, ' ');  // takes no keys
    if (is_row || i < card_) rows_end = lines.size();
  }
  lines.resize(rows_end);
  return lines;
}

}  // namespace gordian::cli
