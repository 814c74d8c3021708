#include "analyzer/server/plain_events.h"

#include <google/protobuf/io/coded_stream.h>

#include <bit>
#include <cstring>
#include <utility>

#include "gordian/v1/ingest.pb.h"
#include "gordian/v1/trace.pb.h"

namespace gordian::server::plain {
namespace {

constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2;

// Fields of 8 bytes, by message: the others are varints.
constexpr uint32_t Bit(uint32_t field) { return 1u << field; }
constexpr uint32_t kNoFixed = 0;

class Wire {
 public:
  // `limit`: as far as memory may be read, at or behind the end of the bytes.
  Wire(std::string_view bytes, const char* limit)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), limit_(limit) {}

  bool AtEnd() const { return at_ == end_; }
  const char* at() const { return at_; }

  // Of one byte or two, as all of ours are; protobuf decides about others.
  bool Tag(uint64_t* out) {
    if (at_ == end_) return false;
    const auto low = static_cast<uint8_t>(*at_++);
    *out = low & 0x7f;
    if (low < 0x80) return true;
    if (at_ == end_) return false;
    const auto high = static_cast<uint8_t>(*at_++);
    *out |= static_cast<uint64_t>(high) << 7;
    return high != 0 && high < 0x80;
  }
  bool Varint(uint64_t* out) {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) {  // as most are
      *out = static_cast<uint8_t>(*at_++);
      return true;
    }
    if (limit_ - at_ >= 8) {
      uint64_t word = 0;
      static_assert(std::endian::native == std::endian::little);
      std::memcpy(&word, at_, 8);
      const uint64_t ends = ~word & 0x8080808080808080;
      const char* const behind = at_ + (std::countr_zero(ends) >> 3) + 1;
      if (ends != 0 && behind <= end_) {  // of 8 bytes at most, 7 bits of each
        word &= ends ^ (ends - 1);        // nothing behind its last byte
        word = (word & 0x007f007f007f007f) | (word & 0x7f007f007f007f00) >> 1;
        word = (word & 0x00003fff00003fff) | (word & 0x3fff00003fff0000) >> 2;
        *out = (word & 0x000000000fffffff) | (word & 0x0fffffff00000000) >> 4;
        at_ = behind;
        return true;
      }
    }
    return LongVarint(out);
  }
  bool Fixed64(uint64_t* out) {
    if (end_ - at_ < 8) return false;
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(out, at_, 8);
    at_ += 8;
    return true;
  }
  bool Bytes(std::string_view* out) {
    const char* const begin = at_;
    uint64_t length = 0;
    if (!Varint(&length) || at_ - begin > 4 || length > static_cast<uint64_t>(end_ - at_))
      return false;
    *out = {at_, static_cast<size_t>(length)};
    at_ += length;
    return true;
  }

 private:
  // Byte by byte: of more than 8, or at the end of what may be read.
  bool LongVarint(uint64_t* out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const auto byte = static_cast<uint8_t>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << (shift < 64 ? shift : 63);
      if (byte < 0x80) {
        *out = value;
        return shift < 63 || byte <= 1;  // more than 64 bits: protobuf decides
      }
    }
    return false;
  }

  const char* at_;
  const char* end_;
  const char* limit_;
};

// Reads a message whose numbers go into `fields`; other(field, bytes) gets parts, and other(field,
// value, wire) numbers that are no such field. False: not what is told here, or nothing that makes
// sense.
template <uint32_t kFixed, size_t kFields, typename Other>
bool ReadFields(std::string_view bytes, const char* limit, Fields<kFields>* fields, Other&& other) {
  static_assert(kFields <= 32);
  Wire wire(bytes, limit);
  while (!wire.AtEnd()) {
    const char* const begin = wire.at();
    uint64_t tag = 0;
    if (!wire.Tag(&tag)) return false;
    const uint64_t field = tag >> 3;
    const uint32_t type = tag & 7;
    if (type == kBytes) {
      std::string_view part;
      if (!wire.Bytes(&part) || !other(field, part)) return false;
      continue;
    }
    uint64_t value = 0;
    if (type == kVarint ? !wire.Varint(&value) : type != kFixed64 || !wire.Fixed64(&value))
      return false;
    if (field == 0) return false;
    if (field >= kFields) {
      if (!other(field, value, {begin, static_cast<size_t>(wire.at() - begin)})) return false;
      continue;
    }
    if ((type == kFixed64) != ((kFixed >> field & 1) != 0)) return false;
    fields->at[field] = value;
  }
  return true;
}

struct Nothing {
  bool operator()(uint64_t, std::string_view) const { return false; }
  bool operator()(uint64_t, uint64_t, std::string_view) const { return false; }
};

template <typename... Functions>
struct Either : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Either(Functions...) -> Either<Functions...>;

bool IsAscii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

// By the payload's field in v1::CallRecord.
bool ReadPayload(v1::CallRecord::PayloadCase payload, std::string_view bytes, const char* limit,
                 Payload* told) {
  switch (payload) {
    case v1::CallRecord::kCommInit:
      return ReadFields<Bit(5)>(bytes, limit, told, Nothing());
    case v1::CallRecord::kStream:
    case v1::CallRecord::kWork:
    case v1::CallRecord::kHostWait:
      return ReadFields<Bit(4)>(bytes, limit, told, Nothing());
    case v1::CallRecord::kGraph:
      return ReadFields<Bit(2) | Bit(3)>(bytes, limit, told, Nothing());
    case v1::CallRecord::kOperation:
    case v1::CallRecord::kSignal:
    case v1::CallRecord::kCommCall:
    case v1::CallRecord::kGroup:
    case v1::CallRecord::kEnd:
    case v1::CallRecord::kEnqueue:
      return ReadFields<kNoFixed>(bytes, limit, told, Nothing());
    case v1::CallRecord::kText:
    case v1::CallRecord::PAYLOAD_NOT_SET:
      break;
  }
  return false;
}

}  // namespace

std::span<const ThreadState> ProcessState::threads() const {
  return {chunk->threads_.data() + first_thread, n_threads};
}
std::span<const StreamState> ProcessState::streams() const {
  return {chunk->streams_.data() + first_stream, n_streams};
}
std::span<const CommState> ProcessState::comms() const {
  return {chunk->comms_.data() + first_comm, n_comms};
}
std::span<const ProcessState> Round::processes() const {
  return {chunk->processes_.data() + first_process, n_processes};
}

void Chunk::Clear() {
  events_.clear();
  records_.clear();
  rounds_.clear();
  processes_.clear();
  threads_.clear();
  streams_.clear();
  comms_.clear();
  others_.clear();
  last_ = false;
  plain_rounds_ = true;
  number_ = 0;
}

bool Chunk::Read(std::string_view contents) {
  Clear();
  limit_ = contents.data() + contents.size();
  if (ReadPlain(contents)) return true;
  // What is not told here, or nothing that makes sense: protobuf knows.
  Clear();
  v1::TraceChunk chunk;
  if (!chunk.ParseFromArray(contents.data(), static_cast<int>(contents.size()))) return false;
  for (v1::Event& event : *chunk.mutable_events())
    AddOther(std::make_unique<v1::Event>(std::move(event)));
  last_ = chunk.last();
  return true;
}

bool Chunk::ReadBatch(std::string_view contents) {
  constexpr uint64_t kNumber = 1, kEvents = 2;
  static_assert(kNumber == v1::EventBatch::kNumberFieldNumber &&
                kEvents == v1::EventBatch::kEventsFieldNumber);
  Clear();
  limit_ = contents.data() + contents.size();
  plain_rounds_ = false;
  Fields<kNumber + 1> fields;
  if (ReadFields<kNoFixed>(contents, limit_, &fields,
                           Either{[this](uint64_t field, std::string_view bytes) {
                                    return field == kEvents && ReadEvent(bytes);
                                  },
                                  [](uint64_t, uint64_t, std::string_view) { return false; }})) {
    number_ = fields.at[kNumber];
    return true;
  }
  Clear();
  v1::EventBatch batch;
  if (!batch.ParseFromArray(contents.data(), static_cast<int>(contents.size())) ||
      !batch.packed().empty())
    return false;
  for (v1::Event& event : *batch.mutable_events())
    AddOther(std::make_unique<v1::Event>(std::move(event)));
  number_ = batch.number();
  return true;
}

bool Chunk::ReadPlain(std::string_view contents) {
  constexpr uint64_t kEvents = 2, kLast = 3;
  Fields<1> none;
  return ReadFields<kNoFixed>(contents, limit_, &none,
                              Either{[this](uint64_t field, std::string_view bytes) {
                                       return field == kEvents && ReadEvent(bytes);
                                     },
                                     [this](uint64_t field, uint64_t value, std::string_view) {
                                       last_ = value != 0;
                                       return field == kLast;
                                     }});
}

void Chunk::AddOther(std::unique_ptr<v1::Event> event) {
  events_.push_back({Kind::kOther, static_cast<uint32_t>(others_.size())});
  others_.push_back(std::move(event));
}

bool Chunk::ReadEvent(std::string_view bytes) {
  Wire wire(bytes, limit_);
  uint64_t tag = 0;
  std::string_view part;
  // One field, as whoever writes events writes them.
  if (wire.Tag(&tag) && (tag & 7) == kBytes && wire.Bytes(&part) && wire.AtEnd()) {
    if (tag >> 3 == v1::Event::kRecord) {
      CallRecord& record = records_.emplace_back();
      if (ReadRecord(part, limit_, &record)) {
        events_.push_back({Kind::kRecord, static_cast<uint32_t>(records_.size() - 1)});
        return true;
      }
      records_.pop_back();
    } else if (tag >> 3 == v1::Event::kRound && plain_rounds_) {
      Round round;
      if (ReadRound(part, &round)) {
        events_.push_back({Kind::kRound, static_cast<uint32_t>(rounds_.size())});
        rounds_.push_back(round);
        return true;
      }
    }
  }
  auto event = std::make_unique<v1::Event>();
  if (!event->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  AddOther(std::move(event));
  return true;
}

bool Chunk::ReadRecord(std::string_view bytes, const char* limit, CallRecord* record) {
  constexpr uint64_t kProcess = v1::CallRecord::kProcessFieldNumber;
  record->wire = bytes;
  return ReadFields<Bit(7)>(
      bytes, limit, record,
      Either{[record, limit](uint64_t field, std::string_view part) {
               if (record->payload != v1::CallRecord::PAYLOAD_NOT_SET) return false;
               record->payload = static_cast<v1::CallRecord::PayloadCase>(field);
               return ReadPayload(record->payload, part, limit, &record->told);
             },
             [record](uint64_t field, uint64_t value, std::string_view wire) {
               record->of_process = static_cast<uint32_t>(value);
               record->process_on_wire = wire;
               return field == kProcess;
             }});
}

bool Chunk::ReadRound(std::string_view bytes, Round* round) {
  constexpr uint64_t kProcesses = 4;
  round->chunk = this;
  round->first_process = processes_.size();
  const bool read =
      ReadFields<kNoFixed>(bytes, limit_, round,
                           Either{[this](uint64_t field, std::string_view part) {
                                    return field == kProcesses && ReadProcess(part);
                                  },
                                  [](uint64_t, uint64_t, std::string_view) { return false; }});
  round->n_processes = processes_.size() - round->first_process;
  return read;
}

bool Chunk::ReadProcess(std::string_view bytes) {
  constexpr uint64_t kThreads = 5, kStreams = 6, kComms = 7;
  ProcessState process;
  process.chunk = this;
  process.first_thread = threads_.size();
  process.first_stream = streams_.size();
  process.first_comm = comms_.size();
  const auto part = [this](uint64_t field, std::string_view inner) {
    switch (field) {
      case kThreads:
        return ReadThread(inner, limit_, &threads_.emplace_back());
      case kStreams:
        return ReadFields<kNoFixed>(inner, limit_, &streams_.emplace_back(), Nothing());
      case kComms:
        return ReadFields<kNoFixed>(inner, limit_, &comms_.emplace_back(), Nothing());
      default:
        return false;
    }
  };
  if (!ReadFields<kNoFixed>(
          bytes, limit_, &process,
          Either{part, [](uint64_t, uint64_t, std::string_view) { return false; }}))
    return false;
  process.n_threads = threads_.size() - process.first_thread;
  process.n_streams = streams_.size() - process.first_stream;
  process.n_comms = comms_.size() - process.first_comm;
  processes_.push_back(process);
  return true;
}

bool Chunk::ReadThread(std::string_view bytes, const char* limit, ThreadState* thread) {
  constexpr uint64_t kName = 19;
  return ReadFields<Bit(6) | Bit(12)>(
      bytes, limit, thread,
      Either{[thread](uint64_t field, std::string_view part) {
               thread->of_task = part;
               // Whether it is UTF-8 protobuf says.
               return field == kName && IsAscii(part);
             },
             [](uint64_t, uint64_t, std::string_view) { return false; }});
}

bool ReadEnvelope(std::string_view message, BatchEnvelope* envelope) {
  *envelope = {};
  const char* const limit = message.data() + message.size();
  Wire outer(message, limit);
  uint64_t tag = 0;
  if (!outer.Tag(&tag) || tag != (v1::ToAnalyzer::kBatchFieldNumber << 3 | kBytes)) return false;
  if (!outer.Bytes(&envelope->batch) || !outer.AtEnd()) return false;
  Wire batch(envelope->batch, limit);
  const bool numbered = batch.Tag(&tag) &&
                        tag == (v1::EventBatch::kNumberFieldNumber << 3 | kVarint) &&
                        batch.Varint(&envelope->number);
  std::string_view packed;
  if (numbered && batch.Tag(&tag) && tag == (v1::EventBatch::kPackedFieldNumber << 3 | kBytes) &&
      batch.Bytes(&packed) && batch.AtEnd()) {
    envelope->packed = packed;
  }
  return true;
}

namespace {

using google::protobuf::io::CodedOutputStream;
constexpr size_t kMostVarint = 10;
constexpr uint32_t kEventTag = v1::TraceChunk::kEventsFieldNumber << 3 | kBytes;

}  // namespace

void AppendTo(const v1::Event& event, std::string* chunk) {
  const size_t size = event.ByteSizeLong(), before = chunk->size();
  chunk->resize(before + 2 * kMostVarint + size);
  auto* const begin = reinterpret_cast<uint8_t*>(chunk->data());
  uint8_t* at = CodedOutputStream::WriteVarint32ToArray(kEventTag, begin + before);
  at = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(size), at);
  at = event.SerializeWithCachedSizesToArray(at);
  chunk->resize(static_cast<size_t>(at - begin));
}

void AppendTo(const CallRecord& record, std::string* chunk) {
  constexpr uint32_t kRecordTag = v1::Event::kRecordFieldNumber << 3 | kBytes;
  constexpr uint32_t kProcessTag = v1::CallRecord::kProcessFieldNumber << 3 | kVarint;
  // The field may have come more than once: the last counts, and goes on doing so.
  const std::string_view wire = record.wire, old = record.process_on_wire;
  const std::string_view front =
      old.empty() ? wire : wire.substr(0, static_cast<size_t>(old.data() - wire.data()));
  const std::string_view rest = wire.substr(front.size() + old.size());
  uint8_t process[2 * kMostVarint];
  uint8_t* end = CodedOutputStream::WriteVarint32ToArray(kProcessTag, process);
  end = CodedOutputStream::WriteVarint32ToArray(record.of_process, end);
  const size_t named = static_cast<size_t>(end - process);
  const auto size = static_cast<uint32_t>(front.size() + named + rest.size());
  const uint32_t outer = 1 + CodedOutputStream::VarintSize32(size) + size;
  uint8_t head[3 * kMostVarint];
  uint8_t* at = CodedOutputStream::WriteVarint32ToArray(kEventTag, head);
  at = CodedOutputStream::WriteVarint32ToArray(outer, at);
  at = CodedOutputStream::WriteVarint32ToArray(kRecordTag, at);
  at = CodedOutputStream::WriteVarint32ToArray(size, at);
  chunk->append(reinterpret_cast<const char*>(head), static_cast<size_t>(at - head));
  chunk->append(front);
  chunk->append(reinterpret_cast<const char*>(process), named);
  chunk->append(rest);
}

}  // namespace gordian::server::plain
