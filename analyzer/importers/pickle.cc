// Runs pickles: a stack of values and marks, and a memo of values by number.
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include "analyzer/importers/plain_data.h"

namespace gordian::importers {
namespace {

using Index = PlainData::Index;
using Kind = PlainData::Kind;

constexpr Index kMark = UINT32_MAX;
const char* RefusedName(uint8_t opcode) {
  switch (opcode) {
    case 'c':
      return "GLOBAL";
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 'R':
      return "REDUCE";
    case 'b':
      return "BUILD";
    case 'P':
      return "PERSID";
    case 'Q':
      return "BINPERSID";
    case 0x81:
      return "NEWOBJ";
    case 0x82:
      return "EXT1";
    case 0x83:
      return "EXT2";
    case 0x84:
      return "EXT4";
    case 0x92:
      return "NEWOBJ_EX";
    case 0x93:
      return "STACK_GLOBAL";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

class Machine {
 public:
  explicit Machine(std::string_view bytes) : bytes_(bytes) {}

  StatusOr<PlainData> Run() {
    while (!stopped_) {
      const size_t before = at_;
      if (at_ >= bytes_.size()) return Broken(before, "the file ends before the pickle does");
      if (!Step(static_cast<uint8_t>(bytes_[at_++]))) return Broken(before, problem_);
      const uint64_t own = (stack_.size() + memo_.size()) * sizeof(Index) + far_memo_.size() * 64;
      if (data_.bytes() + own > kMostPlainBytes)
        return Broken(before, "it takes more memory than any dump");
    }
    if (stack_.size() != 1 || stack_[0] == kMark) return Broken(at_, "it leaves no single value");
    data_.SetRoot(stack_[0]);
    return std::move(data_);
  }

 private:
  static Status Broken(size_t at, const std::string& why) {
    return Status::DataLoss("byte " + std::to_string(at) + ": " + why);
  }
  bool Fail(std::string why) {
    problem_ = std::move(why);
    return false;
  }

  bool Take(uint64_t count, std::string_view* out) {
    if (count > bytes_.size() - at_) return Fail("the file ends inside a value");
    *out = bytes_.substr(at_, count);
    at_ += count;
    return true;
  }
  // Little-endian, unsigned.
  bool TakeNumber(int size, uint64_t* out) {
    std::string_view raw;
    if (!Take(static_cast<uint64_t>(size), &raw)) return false;
    *out = 0;
    for (int i = size - 1; i >= 0; --i)
      *out = *out << 8 | static_cast<uint8_t>(raw[static_cast<size_t>(i)]);
    return true;
  }
  bool TakeLine(std::string_view* out) {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return Fail("the file ends inside a line");
    *out = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  bool Push(Index value) {
    stack_.push_back(value);
    return true;
  }
  // Values that never change exist once.
  bool PushNull() {
    if (!null_) null_ = data_.Add({});
    return Push(*null_);
  }
  bool PushBool(bool value) {
    std::optional<Index>& known = bools_[value ? 1 : 0];
    if (!known) known = data_.AddBool(value);
    return Push(*known);
  }
  bool PushInt(int64_t value) {
    if (value < 0 || value >= static_cast<int64_t>(ints_.size())) return Push(data_.AddInt(value));
    std::optional<Index>& known = ints_[static_cast<size_t>(value)];
    if (!known) known = data_.AddInt(value);
    return Push(*known);
  }
  bool PushFloat(double value) { return Push(data_.AddFloat(value)); }
  bool PushText(std::string_view value) { return Push(data_.AddText(value)); }
  bool PushList() { return Push(data_.AddList()); }
  bool PushDict() { return Push(data_.AddDict()); }
  bool PushSizedText(int size_of_length) {
    uint64_t length = 0;
    std::string_view text;
    return TakeNumber(size_of_length, &length) && Take(length, &text) && PushText(text);
  }
  // Two's complement of any length; becomes a float when it does not fit 64 bits.
  bool PushLong(std::string_view raw) {
    if (raw.empty()) return PushInt(0);
    const bool negative = (static_cast<uint8_t>(raw.back()) & 0x80) != 0;
    if (raw.size() <= 8) {
      uint64_t value = negative ? ~uint64_t{0} : 0;
      for (size_t i = raw.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(raw[i]);
      return PushInt(static_cast<int64_t>(value));
    }
    double value = 0;
    for (size_t i = raw.size(); i-- > 0;) {
      const int byte = static_cast<uint8_t>(raw[i]);
      value = value * 256 + (negative ? byte - 255 : byte);
    }
    return PushFloat(negative ? value - 1 : value);
  }

  bool Top(Index* out) {
    if (stack_.empty() || stack_.back() == kMark)
      return Fail("it takes a value where there is none");
    *out = stack_.back();
    return true;
  }
  bool Pop(Index* out) {
    if (!Top(out)) return false;
    stack_.pop_back();
    return true;
  }
  // Removes the last mark and everything above it, and returns that.
  bool PopToMark(std::vector<Index>* out) {
    size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != kMark) --mark;
    if (mark == 0) return Fail("it goes back to a mark that is not there");
    out->assign(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return true;
  }

  bool PushTuple(size_t count) {
    if (stack_.size() < count) return Fail("it takes a value where there is none");
    std::vector<Index> list(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    for (Index i : list) {
      if (i == kMark) return Fail("it takes a value where there is none");
    }
    stack_.resize(stack_.size() - count);
    return Push(data_.AddList(std::move(list)));
  }
  bool PushTupleOfMark() {
    std::vector<Index> list;
    return PopToMark(&list) && Push(data_.AddList(std::move(list)));
  }
  bool Extend(const std::vector<Index>& values) {
    Index list = 0;
    if (!Top(&list)) return false;
    if (data_.KindOf(list) != Kind::kList) return Fail("it appends to a value that is no list");
    data_.Append(list, values);
    return true;
  }
  bool SetItems(const std::vector<Index>& values) {
    Index dict = 0;
    if (!Top(&dict)) return false;
    if (data_.KindOf(dict) != Kind::kDict)
      return Fail("it sets an item of a value that is no dictionary");
    if (values.size() % 2 != 0) return Fail("a key has no value");
    for (size_t i = 0; i < values.size(); i += 2) data_.Append(dict, values[i], values[i + 1]);
    return true;
  }
  bool PushDictOfMark() {
    std::vector<Index> values;
    return PopToMark(&values) && PushDict() && SetItems(values);
  }

  bool Memoize(uint64_t number) {
    Index value = 0;
    if (!Top(&value)) return false;
    // Numbers come in order, but for those of a file made to waste memory.
    if (number == memo_.size()) {
      memo_.push_back(value);
    } else if (number < memo_.size()) {
      memo_[number] = value;
    } else {
      far_memo_[number] = value;
    }
    return true;
  }
  bool Recall(uint64_t number) {
    if (number < memo_.size()) return Push(memo_[number]);
    const auto found = far_memo_.find(number);
    if (found == far_memo_.end()) return Fail("it recalls a value that was never stored");
    return Push(found->second);
  }
  template <typename Number>
  bool LineNumber(Number* out) {
    std::string_view line;
    if (!TakeLine(&line)) return false;
    if (!line.empty() && line.back() == 'L') line.remove_suffix(1);
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), *out);
    return (error == std::errc() && end == line.data() + line.size()) || Fail("a malformed number");
  }

  bool Step(uint8_t opcode);
  bool StepOfText(uint8_t opcode);

  std::string_view bytes_;
  size_t at_ = 0;
  bool stopped_ = false;
  std::string problem_;
  PlainData data_;
  std::vector<Index> stack_;
  std::vector<Index> memo_;
  std::map<uint64_t, Index> far_memo_;
  std::optional<Index> null_, bools_[2];
  std::array<std::optional<Index>, 256> ints_ = {};
};

bool Machine::Step(uint8_t opcode) {
  uint64_t number = 0;
  std::string_view raw;
  std::vector<Index> values;
  Index value = 0;
  switch (opcode) {
    case 0x80:  // PROTO
      if (!TakeNumber(1, &number)) return false;
      return number <= 5 || Fail("pickle protocol " + std::to_string(number) + " is newer than 5");
    case 0x95:
      return TakeNumber(8, &number);  // FRAME: its length is a hint
    case '.':
      stopped_ = true;
      return true;
    case '(':
      stack_.push_back(kMark);
      return true;
    case '0':  // POP
      if (!stack_.empty() && stack_.back() == kMark) {
        stack_.pop_back();
        return true;
      }
      return Pop(&value);
    case '1':
      return PopToMark(&values);
    case '2':  // DUP
      if (!Top(&value)) return false;
      stack_.push_back(value);
      return true;
    case 'N':
      return PushNull();
    case 0x88:
      return PushBool(true);
    case 0x89:
      return PushBool(false);
    case 'J':
      return TakeNumber(4, &number) && PushInt(static_cast<int32_t>(number));
    case 'K':
      return TakeNumber(1, &number) && PushInt(static_cast<int64_t>(number));
    case 'M':
      return TakeNumber(2, &number) && PushInt(static_cast<int64_t>(number));
    case 0x8a:
      return TakeNumber(1, &number) && Take(number, &raw) && PushLong(raw);
    case 0x8b:
      return TakeNumber(4, &number) && Take(number, &raw) && PushLong(raw);
    case 'G':  // big-endian, alone among them
      if (!Take(8, &raw)) return false;
      for (const char c : raw) number = number << 8 | static_cast<uint8_t>(c);
      return PushFloat(std::bit_cast<double>(number));
    case 'X':
      return PushSizedText(4);
    case 0x8c:
      return PushSizedText(1);
    case 0x8d:
      return PushSizedText(8);
    case 'T':
      return PushSizedText(4);  // bytes are text here too
    case 'U':
      return PushSizedText(1);
    case 'B':
      return PushSizedText(4);
    case 'C':
      return PushSizedText(1);
    case 0x8e:
      return PushSizedText(8);
    case 0x96:
      return PushSizedText(8);
    case ']':
      return PushList();
    case ')':
      return PushList();
    case 0x8f:
      return PushList();  // EMPTY_SET
    case '}':
      return PushDict();
    case 't':
      return PushTupleOfMark();
    case 'l':
      return PushTupleOfMark();
    case 0x91:
      return PushTupleOfMark();  // FROZENSET
    case 0x85:
      return PushTuple(1);
    case 0x86:
      return PushTuple(2);
    case 0x87:
      return PushTuple(3);
    case 'd':
      return PushDictOfMark();
    case 'a':
      return Pop(&value) && Extend({value});
    case 'e':
      return PopToMark(&values) && Extend(values);
    case 0x90:
      return PopToMark(&values) && Extend(values);  // ADDITEMS
    case 's': {
      Index key = 0;
      return Pop(&value) && Pop(&key) && SetItems({key, value});
    }
    case 'u':
      return PopToMark(&values) && SetItems(values);
    case 'q':
      return TakeNumber(1, &number) && Memoize(number);
    case 'r':
      return TakeNumber(4, &number) && Memoize(number);
    case 0x94:
      return Memoize(memo_.size() + far_memo_.size());
    case 'h':
      return TakeNumber(1, &number) && Recall(number);
    case 'j':
      return TakeNumber(4, &number) && Recall(number);
    default:
      return StepOfText(opcode);
  }
}

// Protocol 0 writes numbers as lines.
bool Machine::StepOfText(uint8_t opcode) {
  uint64_t number = 0;
  int64_t integer = 0;
  double real = 0;
  std::string_view line;
  switch (opcode) {
    case 'p':
      return LineNumber(&number) && Memoize(number);
    case 'g':
      return LineNumber(&number) && Recall(number);
    case 'I':
      if (bytes_.substr(at_, 3) == "00\n" || bytes_.substr(at_, 3) == "01\n") {
        at_ += 3;
        return PushBool(bytes_[at_ - 2] == '1');
      }
      return LineNumber(&integer) && PushInt(integer);
    case 'L':
      return LineNumber(&integer) && PushInt(integer);
    case 'F':
      return LineNumber(&real) && PushFloat(real);
    case 'V':
      return TakeLine(&line) && PushText(line);
    case 'S':
      if (!TakeLine(&line)) return false;
      if (line.size() < 2 || line.front() != line.back()) return Fail("a text without its quotes");
      return PushText(line.substr(1, line.size() - 2));
    default:
      break;
  }
  if (const char* name = RefusedName(opcode)) {
    return Fail(std::string(name) + " imports or calls code, which gordian refuses to run");
  }
  return Fail("no opcode of pickles: " + std::to_string(opcode));
}

}  // namespace

StatusOr<PlainData> ReadPickle(std::string_view bytes) { return Machine(bytes).Run(); }

}  // namespace gordian::importers
