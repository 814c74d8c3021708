#include "analyzer/importers/chakra.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace gordian::importers {
namespace {

constexpr size_t kMostMessage = 16u << 20;
constexpr char kAllRanks[] = "all ranks";

enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };
enum NodeType : uint64_t { kSend = 5, kReceive = 6, kCollective = 7 };

// The fields of one message, by protobuf's wire format.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  // Goes to the next field; false: there is none, or ok() is false.
  bool Next() {
    if (!ok_ || bytes_.empty()) return false;
    uint64_t tag = 0;
    if (!Varint(&tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return Fail();
    field_ = static_cast<uint32_t>(tag >> 3);
    wire_ = static_cast<uint32_t>(tag & 7);
    text_ = {};
    number_ = 0;
    switch (wire_) {
      case kVarint:
        return Varint(&number_) || Fail();
      case kFixed64:
        return Take(8) || Fail();
      case kFixed32:
        return Take(4) || Fail();
      case kDelimited:
        return (Varint(&number_) && number_ <= bytes_.size() && Take(number_)) || Fail();
      default:
        return Fail();
    }
  }

  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  bool number() const { return wire_ == kVarint; }
  bool delimited() const { return wire_ == kDelimited; }
  uint64_t value() const { return number_; }
  std::string_view text() const { return text_; }

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }
  bool Varint(uint64_t* value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) return false;
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool Take(uint64_t size) {
    if (size > bytes_.size()) return false;
    text_ = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

  std::string_view bytes_;
  bool ok_ = true;
  uint32_t field_ = 0, wire_ = 0;
  uint64_t number_ = 0;
  std::string_view text_;
};

// AttributeProto, as far as gordian reads any: a number of a varint type, or a text.
struct Attribute {
  std::string_view name, text;
  std::optional<uint64_t> number;
};

bool ReadAttribute(std::string_view bytes, Attribute* attribute) {
  Fields fields(bytes);
  while (fields.Next()) {
    switch (fields.field()) {
      case 1:
        attribute->name = fields.text();
        break;
      case 7:   // int32_val
      case 9:   // int64_val
      case 11:  // uint32_val
      case 13:  // uint64_val
        if (fields.number()) attribute->number = fields.value();
        break;
      case 15:  // sint32_val
      case 17:  // sint64_val
        if (fields.number())
          attribute->number = (fields.value() >> 1) ^ (~(fields.value() & 1) + 1);
        break;
      case 29:  // string_val
        attribute->text = fields.text();
        break;
      default:
        break;
    }
  }
  return fields.ok();
}

struct Node {
  uint64_t type = 0;
  std::string_view group, state;
  std::optional<uint64_t> kind, bytes, sequence;
};

bool ReadNode(std::string_view bytes, Node* node) {
  Fields fields(bytes);
  while (fields.Next()) {
    if (fields.field() == 3 && fields.number()) node->type = fields.value();
    if (fields.field() != 10 || !fields.delimited()) continue;
    Attribute attribute;
    if (!ReadAttribute(fields.text(), &attribute)) return false;
    if (attribute.name == "pg_name") node->group = attribute.text;
    if (attribute.name == "state") node->state = attribute.text;
    if (attribute.name == "comm_type") node->kind = attribute.number;
    if (attribute.name == "comm_size") node->bytes = attribute.number;
    if (attribute.name == "seq") node->sequence = attribute.number;
  }
  return fields.ok();
}

std::string OperationName(std::optional<uint64_t> kind) {  // CollectiveCommType
  static constexpr std::array kNames = {
      "all_reduce", "reduce",         "all_gather",           "gather", "scatter", "broadcast",
      "all_to_all", "reduce_scatter", "reduce_scatter_block", "barrier"};
  if (!kind) return "collective";
  return *kind < kNames.size() ? kNames[*kind] : "comm_type " + std::to_string(*kind);
}

// Messages behind their lengths.
class Messages {
 public:
  explicit Messages(const Pull& pull) : pull_(pull) {}

  // Reads one; false: the file has ended, or error() says why.
  bool Next(std::string* message) {
    begun_ = offset();
    uint64_t size = 0;
    for (unsigned shift = 0;; shift += 7) {
      int byte = 0;
      if (!Byte(&byte)) {
        if (shift > 0) error_ = "it ends within the length of a message";
        return false;
      }
      size |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
      if (shift >= 28) {
        error_ = "this is no length of a message";
        return false;
      }
    }
    if (size > kMostMessage) {
      error_ = "a message of " + std::to_string(size) + " bytes; gordian takes " +
               std::to_string(kMostMessage) + " at most";
      return false;
    }
    message->clear();
    while (message->size() < size) {
      if (at_ == size_ && !Fill()) {
        error_ = "it ends within a message of " + std::to_string(size) + " bytes";
        return false;
      }
      const size_t piece = std::min(size_ - at_, static_cast<size_t>(size) - message->size());
      message->append(block_.data() + at_, piece);
      at_ += piece;
    }
    return true;
  }

  const std::string& error() const { return error_; }
  uint64_t begun() const { return begun_; }  // where the last message begins

 private:
  uint64_t offset() const { return before_ + at_; }
  bool Fill() {
    before_ += size_;
    at_ = 0;
    size_ = pull_(block_.data(), block_.size());
    return size_ > 0;
  }
  bool Byte(int* byte) {
    if (at_ == size_ && !Fill()) return false;
    *byte = static_cast<uint8_t>(block_[at_++]);
    return true;
  }

  const Pull& pull_;
  std::array<char, 64u << 10> block_;
  size_t at_ = 0, size_ = 0;
  uint64_t before_ = 0, begun_ = 0;
  std::string error_;
};

bool IsMetadata(std::string_view message) {
  Fields fields(message);
  while (fields.Next()) {
    const bool known = fields.field() == 1 || fields.field() == 2;
    if (!known || !fields.delimited()) return false;
    Attribute attribute;
    if (fields.field() == 2 && !ReadAttribute(fields.text(), &attribute)) return false;
  }
  return fields.ok();
}

// Adds the node to the trace if it is communication. Errors say what is wrong with it.
Status Take(const Node& node, std::map<std::string, int64_t>* places, RankTrace* trace) {
  if (node.type == kSend || node.type == kReceive) ++trace->transfers;
  if (node.type != kCollective) return Status::Ok();
  const std::string group(node.group.empty() ? std::string_view(kAllRanks) : node.group);
  if (group.size() > kMostTraceName)
    return Status::DataLoss("its pg_name has more than " + std::to_string(kMostTraceName) +
                            " bytes");
  FlightEntry entry;
  entry.record = static_cast<int64_t>(trace->dump.entries.size());
  entry.group = group + "/";
  entry.operation = OperationName(node.kind);
  if (node.sequence && *node.sequence > INT64_MAX) return Status::DataLoss("its seq is negative");
  const int64_t place = (*places)[entry.group]++;
  entry.sequence = node.sequence ? static_cast<int64_t>(*node.sequence) : place;
  trace->numbered = trace->numbered && node.sequence.has_value();
  if (node.bytes && *node.bytes <= INT64_MAX) entry.elements_in = static_cast<int64_t>(*node.bytes);
  entry.in_bytes = true;
  entry.completed = node.state == "done";
  const auto [known, fresh] = trace->dump.groups.try_emplace(entry.group);
  if (fresh) {
    // PyTorch's names are numbers: these are shown as "group 3", other names as they are.
    const bool number = std::all_of(group.begin(), group.end(),
                                    [](unsigned char c) { return std::isdigit(c) != 0; });
    known->second = FlightGroup{group, number ? "" : group, {}};
    trace->bytes += 4 * group.size() + 256;
  }
  trace->bytes += sizeof entry + entry.group.size() + 32;
  trace->dump.entries.push_back(std::move(entry));
  return Status::Ok();
}

}  // namespace

StatusOr<RankTrace> ParseChakraTrace(const Pull& pull) {
  const auto messages = std::make_unique<Messages>(pull);
  RankTrace trace;
  trace.format = TraceFormat::kChakra;
  std::map<std::string, int64_t> places;  // of each group's next collective
  std::string message;
  size_t count = 0;
  const auto at = [&] {
    return "byte " + std::to_string(messages->begun()) +
           (count == 0 ? "" : ", node " + std::to_string(count)) + ": ";
  };
  for (; messages->Next(&message); ++count) {
    if (count == 0) {
      if (IsMetadata(message)) continue;
      return Status::DataLoss(at() + "it does not begin with Chakra's GlobalMetadata");
    }
    Node node;
    if (!ReadNode(message, &node)) return Status::DataLoss(at() + "this is no Chakra node");
    if (const Status status = Take(node, &places, &trace); !status.ok())
      return Status::DataLoss(at() + status.message());
    if (trace.bytes > kMostRankTraceBytes)
      return Status::DataLoss(at() + "its collectives take more than " +
                              std::to_string(kMostRankTraceBytes >> 20) + " MiB of memory");
  }
  if (!messages->error().empty()) return Status::DataLoss(at() + messages->error());
  if (count == 0) return Status::DataLoss("it is empty");
  return trace;
}

}  // namespace gordian::importers
