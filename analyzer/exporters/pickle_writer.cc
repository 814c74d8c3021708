#include "analyzer/exporters/pickle_writer.h"

#include "common/utf8.h"

namespace gordian::exporters {
namespace {

constexpr char kProto = '\x80';
constexpr char kMark = '(';
constexpr char kEmptyList = ']', kAppends = 'e';
constexpr char kEmptyDict = '}', kSetItems = 'u';
constexpr char kTuple = 't';
constexpr char kNone = 'N', kTrue = '\x88', kFalse = '\x89';
constexpr char kInt1 = 'K', kInt2 = 'M', kInt4 = 'J', kLong1 = '\x8a';
constexpr char kText = 'X';
constexpr char kStop = '.';

}  // namespace

PickleWriter::PickleWriter() : out_{kProto, 2} {}

void PickleWriter::Raw(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void PickleWriter::None() { out_.push_back(kNone); }
void PickleWriter::Bool(bool value) { out_.push_back(value ? kTrue : kFalse); }

void PickleWriter::Int(int64_t value) {
  const auto raw = static_cast<uint64_t>(value);
  if (value >= 0 && value <= UINT8_MAX) {
    out_.push_back(kInt1);
    Raw(raw, 1);
  } else if (value >= 0 && value <= UINT16_MAX) {
    out_.push_back(kInt2);
    Raw(raw, 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    out_.push_back(kInt4);
    Raw(raw, 4);
  } else {
    out_.push_back(kLong1);
    Raw(8, 1);
    Raw(raw, 8);
  }
}

void PickleWriter::Text(std::string_view value) {
  const std::string text = CleanUtf8(std::string(value));
  out_.push_back(kText);
  Raw(text.size(), 4);
  out_ += text;
}

void PickleWriter::BeginList() {
  out_.push_back(kEmptyList);
  out_.push_back(kMark);
}
void PickleWriter::EndList() { out_.push_back(kAppends); }

void PickleWriter::BeginDict() {
  out_.push_back(kEmptyDict);
  out_.push_back(kMark);
}
void PickleWriter::EndDict() { out_.push_back(kSetItems); }

void PickleWriter::BeginTuple() { out_.push_back(kMark); }
void PickleWriter::EndTuple() { out_.push_back(kTuple); }

std::string PickleWriter::Take() {
  out_.push_back(kStop);
  return std::move(out_);
}

}  // namespace gordian::exporters
