// Reader and writer of trace.gtrace (format: proto/gordian/v1/trace.proto). A trace may be cut
// anywhere (the writer was killed, the disk was full): what was written whole stays readable.
#ifndef GORDIAN_COMMON_TRACE_FILE_H_
#define GORDIAN_COMMON_TRACE_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/framed_file.h"
#include "common/status.h"
#include "gordian/v1/trace.pb.h"

namespace gordian {

inline constexpr char kTraceMagic[] = "GTRACE1\n";  // 8 bytes on disk
inline constexpr uint32_t kTraceMagicBytes = 8;

// Not thread-safe.
class TraceWriter {
 public:
  // Creates (or truncates) `path` and writes magic and header chunk. `header.format` and
  // `header.gordian_version` are filled in.
  static StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path,
                                                       v1::TraceHeader header);
  // Goes on with a trace that TraceReader has read up to `offset` (TraceReader::resume_offset);
  // what stands behind, a cut chunk or the mark of an orderly end, is cut off. Errors: not
  // writable, or shorter than that.
  static StatusOr<std::unique_ptr<TraceWriter>> Continue(const std::string& path, uint64_t offset);
  ~TraceWriter();  // closes the file; without Close() the trace stays "incomplete"
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Takes an event into the current chunk; writes the chunk once it has enough. After an error the
  // writer stays usable: the events of the failed chunk are lost and counted.
  Status Append(const v1::Event& event);
  // The same, all of them in one chunk: a reader sees all or none, wherever the file was cut.
  Status AppendTogether(const std::vector<v1::Event>& events);
  // The same of so many events, serialised as a v1::TraceChunk that holds nothing else.
  Status AppendTogether(std::string_view events, uint64_t number);

  // Writes the current chunk, if it has events, by one write(): a crash of this process afterwards
  // loses nothing. Does not fsync: a crash of the machine may.
  Status Flush();

  // Flushes and marks the trace as closed in order.
  Status Close();

  uint64_t events() const { return events_; }            // appended
  uint64_t lost_events() const { return lost_events_; }  // of chunks that could not be written
  uint64_t bytes() const { return bytes_; }              // of the file

 private:
  TraceWriter(int fd, std::string path);
  void Add(const v1::Event& event);
  Status WriteChunk();

  int fd_;
  std::string path_;
  std::string chunk_;  // the current one, serialised
  uint64_t chunk_events_ = 0;
  uint64_t events_ = 0;
  uint64_t lost_events_ = 0;
  uint64_t bytes_ = 0;
};

// Not thread-safe. The file may grow while it is read: a reader at the end can be asked again.
class TraceReader {
 public:
  // Reads magic and header. Errors: no such file; not a trace; a newer format; no whole header.
  static StatusOr<std::unique_ptr<TraceReader>> Open(const std::string& path);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  const v1::TraceHeader& header() const { return header_; }

  // The next chunk, or false at the end of what is readable. Damage ends the trace as a cut does:
  // ending() tells. The first chunk returned is the one that carries the header.
  bool Next(v1::TraceChunk* chunk);

  // The same, with the chunk left to `parse`, which gets it serialised, valid during the call, and
  // says how many events it holds and whether it is the last; false: it is no chunk, and the trace
  // is damaged there. From the first chunk on. Mixes with the other Next.
  struct Contents {
    uint64_t events = 0;
    bool last = false;
  };
  using Parse = std::function<bool(std::string_view contents, Contents* what)>;
  bool Next(const Parse& parse);

  // How the trace ended, valid once Next returned false.
  enum class Ending {
    kComplete,    // closed in order
    kIncomplete,  // cut: the file ends without a closing chunk, maybe within one
    kDamaged,     // bytes that cannot be: checksum, length, compression or contents
  };
  Ending ending() const { return ending_; }
  uint64_t chunks() const { return chunks_; }  // whole chunks returned so far
  uint64_t events() const { return events_; }
  // Where a writer may go on: behind the last whole chunk, but before one that closed the trace.
  uint64_t resume_offset() const { return resume_offset_; }
  // One line, as "incomplete: ended after 12 whole chunks, 3456 events"; "complete: ...".
  std::string Describe() const;

 private:
  TraceReader(int fd, std::string path);
  FrameGot ReadChunk(const Parse& parse, std::string* why);
  static bool ParseChunk(std::string_view contents, v1::TraceChunk* chunk, Contents* what);

  int fd_;
  std::string path_;
  uint64_t offset_ = 0;  // of the next chunk
  uint64_t resume_offset_ = 0;
  v1::TraceHeader header_;
  bool closed_ = false;  // a chunk with `last` was read
  uint64_t chunks_ = 0;
  uint64_t events_ = 0;
  std::vector<char> plain_;  // used again for each chunk
  Contents latest_;
  Ending ending_ = Ending::kIncomplete;
  std::string why_damaged_;
};

}  // namespace gordian

#endif  // GORDIAN_COMMON_TRACE_FILE_H_
