// Reads and writes trace.gtrace (format: proto/gordian/v1/trace.proto). A trace may be truncated
// anywhere (a killed writer, a full disk): its whole chunks stay readable.
// Of a trace of format 1 the reader makes RecordBlocks of its OldRecords.
#ifndef GORDIAN_COMMON_TRACE_FILE_H_
#define GORDIAN_COMMON_TRACE_FILE_H_

#include <google/protobuf/arena.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/framed_file.h"
#include "common/owned_folder.h"
#include "common/status.h"
#include "gordian/v1/trace.pb.h"

namespace gordian {

inline constexpr char kTraceMagic[] = "GTRACE1\n";  // 8 bytes on disk
inline constexpr uint32_t kTraceMagicBytes = 8;

// Not thread-safe.
class TraceWriter {
 public:
  // Creates (or truncates) the file and writes the magic and the header chunk. Fills in
  // `header.format`, `header.gordian_version` and `header.record_abi`. Error, among others: a link
  // has that name.
  static StatusOr<std::unique_ptr<TraceWriter>> Create(const OwnedFolder& folder,
                                                       const std::string& name,
                                                       v1::TraceHeader header);
  // By a path, for tools that make the file where they stand.
  static StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                       v1::TraceHeader header);
  // Continues a trace that TraceReader has read up to `offset` (TraceReader::resume_offset), and
  // truncates the rest: a cut chunk, or the mark of an orderly end. Errors: not writable, or
  // shorter than `offset`.
  static StatusOr<std::unique_ptr<TraceWriter>> Continue(const OwnedFolder& folder,
                                                         const std::string& name, uint64_t offset);
  ~TraceWriter();  // closes the file; without Close() the trace stays "incomplete"
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Adds an event to the current chunk, and writes the chunk once it is large enough. After an
  // error the writer stays usable; it counts the events of the failed chunk as lost.
  Status Append(const v1::Event& event);
  // Appends `number` events, serialised by AppendTo, in one chunk: a reader sees all or none, wherever
  // the file was cut.
  Status AppendTogether(std::string_view events, uint64_t number);
  // Adds the event to what AppendTogether takes.
  static void AppendTo(const v1::Event& event, std::string* events);

  // Writes the current chunk, if it has events, with one write(): a later crash of this process
  // loses nothing. Does not fsync, so a crash of the machine may.
  Status Flush();

  // Flushes, and marks the trace as complete.
  Status Close();

  uint64_t events() const { return events_; }            // appended so far
  uint64_t lost_events() const { return lost_events_; }  // of chunks that could not be written
  uint64_t bytes() const { return bytes_; }              // of the file

 private:
  TraceWriter(int fd, std::string path);
  static StatusOr<std::unique_ptr<TraceWriter>> Begin(int fd, const std::string& path,
                                                      v1::TraceHeader header);
  Status Appended(uint64_t number);
  Status WriteChunk();

  int fd_;
  std::string path_;
  std::string chunk_;  // the current one, serialised
  uint64_t chunk_events_ = 0;
  uint64_t events_ = 0;
  uint64_t lost_events_ = 0;
  uint64_t bytes_ = 0;
};

// Not thread-safe. The file may grow meanwhile: a reader at the end may be asked again.
class TraceReader {
 public:
  // Reads magic and header. Errors: no such file; not a trace; a newer format, or newer records; no
  // whole header.
  static StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path);
  static StatusOr<std::unique_ptr<TraceReader>> Open(const OwnedFolder& folder,
                                                     const std::string& name);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  const v1::TraceHeader& header() const { return header_; }

  // Reads the next chunk; the first one holds the header. The reader owns the chunk and frees it at
  // the next call. Returns null at the end of the readable part, which ending() explains.
  const v1::TraceChunk* Next();

  // How the trace ended, valid once Next returned null.
  enum class Ending {
    kComplete,    // closed in order
    kIncomplete,  // truncated: no closing chunk, or the file ends within a chunk
    kDamaged,     // malformed bytes: checksum, length, compression or contents
  };
  Ending ending() const { return ending_; }
  uint64_t chunks() const { return chunks_; }  // whole chunks returned so far
  uint64_t events() const { return events_; }
  // The offset where a writer may continue: after the last whole chunk, before a closing one.
  uint64_t resume_offset() const { return resume_offset_; }
  // One line, as "incomplete: ended after 12 whole chunks, 3456 events"; "complete: ...".
  std::string Describe() const;
  // After Next has returned null: an error, naming file, chunk and bound, if a chunk holds more
  // than budget.h allows. Its file was made to harm, and what came before is no evidence either.
  Status bounds() const;

 private:
  TraceReader(int fd, std::string path);
  static StatusOr<std::unique_ptr<TraceReader>> Begin(int fd, const std::string& path);
  FrameGot ReadChunk(v1::TraceChunk* chunk, std::string* why);

  int fd_;
  std::string path_;
  uint64_t offset_ = 0;  // of the next chunk
  uint64_t resume_offset_ = 0;
  v1::TraceHeader header_;
  bool closed_ = false;  // a chunk with `last` was read
  uint64_t chunks_ = 0;
  uint64_t events_ = 0;
  uint64_t contents_ = 0;  // bytes of all chunks so far
  bool too_large_ = false;
  std::vector<char> plain_;  // used again for each chunk
  // Holds the thousands of small messages of a chunk. Its first block stays when it is reset.
  const std::unique_ptr<char[]> first_block_;
  google::protobuf::Arena arena_;
  Ending ending_ = Ending::kIncomplete;
  std::string why_damaged_;
};

}  // namespace gordian

#endif  // GORDIAN_COMMON_TRACE_FILE_H_
