// The events of a trace's chunk, or of a batch on its way to the analyzer, read straight from the
// wire format of protobuf into flat memory that is used again for the next chunk: records and
// rounds, which are nearly all there is, cost no allocation and no object of protobuf's.
//
// What is read here reads as v1's messages do, by accessors of the same names, so that one template
// can take both. Everything else, and every event that holds what is not told here (texts, state
// blocks, details of calls, fields of later versions, fields that come twice), is read by protobuf.
// What protobuf takes is taken, what it refuses refused.
//
// Wire format: https://protobuf.dev/programming-guides/encoding/
#ifndef GORDIAN_ANALYZER_SERVER_PLAIN_EVENTS_H_
#define GORDIAN_ANALYZER_SERVER_PLAIN_EVENTS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gordian/v1/event.pb.h"

namespace gordian::server::plain {

// Numbers of a message by their field's number, as they stand on the wire.
template <size_t kFields>
struct Fields {
  std::array<uint64_t, kFields> at{};

  uint32_t U32(size_t field) const { return static_cast<uint32_t>(at[field]); }
  int32_t S32(size_t field) const {  // zigzag
    const uint32_t n = U32(field);
    return static_cast<int32_t>((n >> 1) ^ (0u - (n & 1)));
  }
};

// What a record tells besides what all have. One type for all kinds: they share their numbers'
// names, not their places.
struct Payload : Fields<9> {};
struct Operation : Payload {
  uint32_t comm() const { return U32(1); }
  uint32_t stream() const { return U32(2); }
  uint64_t count() const { return at[3]; }
  uint64_t sequence() const { return at[4]; }
  int32_t root_or_peer() const { return S32(5); }
  uint32_t datatype() const { return U32(6); }
  uint32_t reduce_op() const { return U32(7); }
  uint32_t group() const { return U32(8); }
};
struct Signal : Payload {
  uint32_t comm() const { return U32(1); }
  uint32_t stream() const { return U32(2); }
  int32_t peer() const { return S32(3); }
  int32_t index() const { return S32(4); }
  int32_t context() const { return S32(5); }
  uint32_t count() const { return U32(6); }
  uint32_t group() const { return U32(7); }
  uint32_t number() const { return U32(8); }
};
struct CommInit : Payload {
  uint32_t comm() const { return U32(1); }
  int32_t nranks() const { return S32(2); }
  int32_t rank() const { return S32(3); }
  int32_t device() const { return S32(4); }
  uint64_t uid() const { return at[5]; }
  uint32_t parent() const { return U32(6); }
  int32_t color() const { return S32(7); }
};
struct CommCall : Payload {
  uint32_t comm() const { return U32(1); }
};
struct Group : Payload {
  uint32_t group() const { return U32(1); }
};
struct Stream : Payload {
  uint32_t stream() const { return U32(1); }
  uint32_t flags() const { return U32(2); }
  int32_t device() const { return S32(3); }
  uint64_t handle() const { return at[4]; }
  uint32_t connections() const { return U32(5); }
};
struct Work : Payload {
  uint32_t stream() const { return U32(1); }
  uint32_t kind() const { return U32(2); }
  uint64_t ordinal() const { return at[3]; }
  uint64_t event() const { return at[4]; }
  uint64_t value() const { return at[5]; }
};
struct HostWait : Payload {
  uint32_t kind() const { return U32(1); }
  uint32_t stream() const { return U32(2); }
  int32_t device() const { return S32(3); }
  uint64_t event() const { return at[4]; }
  uint64_t ordinal() const { return at[5]; }
};
struct CallEnd : Payload {
  int32_t result() const { return S32(1); }
  uint32_t stream() const { return U32(2); }
  uint64_t ordinal() const { return at[3]; }
  uint32_t comm() const { return U32(4); }
  int32_t nranks() const { return S32(5); }
  int32_t rank() const { return S32(6); }
  int32_t device() const { return S32(7); }
};
struct Enqueue : Payload {
  uint32_t group() const { return U32(1); }
  uint32_t stream() const { return U32(2); }
  uint64_t ordinal() const { return at[3]; }
};
struct GraphCall : Payload {
  uint32_t what() const { return U32(1); }
  uint64_t graph() const { return at[2]; }
  uint64_t made() const { return at[3]; }
  uint64_t capture() const { return at[4]; }
};

struct CallRecord : Fields<8> {
  std::string_view wire;  // all of it, in the chunk's bytes
  std::string_view
      process_on_wire;  // the field that names the process, within `wire`; empty: it is not there
  v1::CallRecord::PayloadCase payload = v1::CallRecord::PAYLOAD_NOT_SET;
  uint32_t of_process = 0;
  Payload told;

  v1::RecordKind kind() const { return static_cast<v1::RecordKind>(U32(1)); }
  uint32_t flags() const { return U32(2); }
  uint32_t call() const { return U32(3); }
  uint32_t thread() const { return U32(4); }
  uint64_t order() const { return at[5]; }
  uint64_t time_ns() const { return at[6]; }
  uint64_t call_site() const { return at[7]; }
  uint32_t process() const { return of_process; }
  v1::CallRecord::PayloadCase payload_case() const { return payload; }
  bool has_operation() const { return payload == v1::CallRecord::kOperation; }
  bool has_comm_init() const { return payload == v1::CallRecord::kCommInit; }
  bool has_end() const { return payload == v1::CallRecord::kEnd; }
  Operation operation() const { return {told}; }
  Signal signal() const { return {told}; }
  CommInit comm_init() const { return {told}; }
  CommCall comm_call() const { return {told}; }
  Group group() const { return {told}; }
  Stream stream() const { return {told}; }
  Work work() const { return {told}; }
  HostWait host_wait() const { return {told}; }
  CallEnd end() const { return {told}; }
  Enqueue enqueue() const { return {told}; }
  GraphCall graph() const { return {told}; }
  const v1::Text& text() const { return v1::Text::default_instance(); }  // read by protobuf
};

struct ThreadState : Fields<21> {
  std::string_view of_task;  // field 19, in the chunk's bytes

  uint32_t thread() const { return U32(1); }
  uint32_t tid() const { return U32(2); }
  uint32_t call() const { return U32(3); }
  uint64_t call_order() const { return at[4]; }
  uint64_t since_ns() const { return at[5]; }
  uint64_t call_site() const { return at[6]; }
  uint64_t entered() const { return at[7]; }
  uint64_t left() const { return at[8]; }
  uint64_t published() const { return at[9]; }
  uint64_t collected() const { return at[10]; }
  bool gpu_thread() const { return at[11] != 0; }
  uint64_t poll_object() const { return at[12]; }
  uint64_t poll_count() const { return at[13]; }
  uint64_t poll_since_ns() const { return at[14]; }
  v1::OsState os_state() const { return static_cast<v1::OsState>(U32(16)); }
  uint64_t cpu_ticks() const { return at[17]; }
  uint64_t context_switches() const { return at[18]; }
  bool library_thread() const { return at[20] != 0; }
  std::string name() const { return std::string(of_task); }
  bool has_detail() const { return false; }
  const v1::CallDetail& detail() const { return v1::CallDetail::default_instance(); }
};

struct StreamState : Fields<5> {
  uint32_t stream() const { return U32(1); }
  uint64_t enqueued() const { return at[2]; }
  uint64_t head() const { return at[3]; }
  uint64_t done() const { return at[4]; }
};

struct CommState : Fields<4> {
  uint32_t comm() const { return U32(1); }
  uint32_t state() const { return U32(2); }
  uint64_t next_sequence() const { return at[3]; }
};

class Chunk;

struct ProcessState : Fields<13> {
  const Chunk* chunk = nullptr;
  size_t first_thread = 0, first_stream = 0, first_comm = 0;  // in the chunk
  size_t n_threads = 0, n_streams = 0, n_comms = 0;

  uint32_t process() const { return U32(1); }
  bool alive() const { return at[2] != 0; }
  bool stopped() const { return at[3] != 0; }
  bool answered() const { return at[4] != 0; }
  std::span<const ThreadState> threads() const;
  std::span<const StreamState> streams() const;
  std::span<const CommState> comms() const;
  int threads_size() const { return static_cast<int>(n_threads); }
  int streams_size() const { return static_cast<int>(n_streams); }
  int comms_size() const { return static_cast<int>(n_comms); }
  uint64_t lost_records() const { return at[8]; }
  uint64_t lost_streams() const { return at[9]; }
  uint64_t lost_comms() const { return at[10]; }
  uint64_t lost_markers() const { return at[11]; }
  uint64_t nccl_calls() const { return at[12]; }
  std::span<const v1::EarlyOperation> early() const { return {}; }
  bool early_unknown() const { return false; }
  bool early_behind_operations() const { return false; }
  int not_visible_size() const { return 0; }
  std::string not_visible(int) const { return ""; }
  bool has_block() const { return false; }
  const v1::StateBlock& block() const { return v1::StateBlock::default_instance(); }
};

struct Round : Fields<4> {
  const Chunk* chunk = nullptr;
  size_t first_process = 0, n_processes = 0;

  uint64_t round() const { return at[1]; }
  uint64_t begin_ns() const { return at[2]; }
  uint64_t end_ns() const { return at[3]; }
  std::span<const ProcessState> processes() const;
  int processes_size() const { return static_cast<int>(n_processes); }
};

// Not thread-safe, and not to be moved: rounds point to it.
class Chunk {
 public:
  enum class Kind : uint8_t { kRecord, kRound, kOther };
  struct Event {
    Kind kind;
    uint32_t at;  // in records(), rounds() or others()
  };

  Chunk() = default;
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  // A serialised v1::TraceChunk, which must live as long as what was read of it is used. False: it
  // is none, and nothing of it is to be used. The header is left out.
  bool Read(std::string_view contents);
  // The same of a serialised v1::EventBatch that is not packed, but for its rounds, which are left
  // to protobuf.
  bool ReadBatch(std::string_view contents);

  // Of a batch.
  uint64_t number() const { return number_; }

  // In their order.
  const std::vector<Event>& events() const { return events_; }
  const CallRecord& record(const Event& event) const { return records_[event.at]; }
  CallRecord& record(const Event& event) { return records_[event.at]; }
  const Round& round(const Event& event) const { return rounds_[event.at]; }
  const v1::Event& other(const Event& event) const { return *others_[event.at]; }
  v1::Event& other(const Event& event) { return *others_[event.at]; }
  bool last() const { return last_; }

 private:
  friend struct ProcessState;
  friend struct Round;

  void Clear();
  void AddOther(std::unique_ptr<v1::Event> event);
  // False: not all of it is told here.
  bool ReadPlain(std::string_view contents);
  bool ReadEvent(std::string_view bytes);
  static bool ReadRecord(std::string_view bytes, const char* limit, CallRecord* record);
  bool ReadRound(std::string_view bytes, Round* round);
  bool ReadProcess(std::string_view bytes);
  static bool ReadThread(std::string_view bytes, const char* limit, ThreadState* thread);

  std::vector<Event> events_;
  std::vector<CallRecord> records_;
  std::vector<Round> rounds_;
  std::vector<ProcessState> processes_;
  std::vector<ThreadState> threads_;
  std::vector<StreamState> streams_;
  std::vector<CommState> comms_;
  std::vector<std::unique_ptr<v1::Event>> others_;
  bool last_ = false;
  bool plain_rounds_ = true;
  uint64_t number_ = 0;
  const char* limit_ = nullptr;  // end of the bytes that are read
};

// What a v1::ToAnalyzer that brings a batch holds. Views into the message.
struct BatchEnvelope {
  std::string_view batch;  // the serialised v1::EventBatch
  uint64_t number = 0;     // of a packed one
  std::string_view
      packed;  // EventBatch.packed, where the batch holds nothing but this and its number
};
// False: it is another message, or protobuf has to say.
bool ReadEnvelope(std::string_view message, BatchEnvelope* envelope);

// Appends the event as a further element of v1::TraceChunk.events.
void AppendTo(const v1::Event& event, std::string* chunk);
// The same for a record, whose process is told as of_process now says.
void AppendTo(const CallRecord& record, std::string* chunk);

}  // namespace gordian::server::plain

#endif  // GORDIAN_ANALYZER_SERVER_PLAIN_EVENTS_H_
