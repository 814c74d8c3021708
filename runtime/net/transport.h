// What the runtime asks of a network: messages to processes that it knows by an address, none of
// which waits for anything. A message is received whole and at once, by a call of the sink: whoever
// sends it has made sure before that the receiver has room for it (link.h). So the transport needs
// no flow control of its own, and a message never waits behind another one for the receiver's sake.
// Messages may overtake each other; none is lost or doubled while its connection lives.
//
// Threads: one at a time. No call blocks. Errors: texts, for people.
#ifndef GORDIAN_RUNTIME_NET_TRANSPORT_H_
#define GORDIAN_RUNTIME_NET_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gordian::runtime::net {

// What a transport calls, from within Progress and Send.
class Sink {
 public:
  virtual ~Sink() = default;
  // The memory is the transport's, and ends with the call. Headers are aligned to 1 byte only.
  virtual void OnMessage(const void* header, size_t header_bytes, const void* data,
                         size_t data_bytes) = 0;
  // The connection to a peer is lost for good: its process has ended, or cannot be reached.
  virtual void OnLost(uint32_t peer, const std::string& why) = 0;
};

inline constexpr size_t kMostHeaderBytes = 256;

struct Message {
  const void* header = nullptr;  // copied
  size_t header_bytes = 0;       // at most kMostHeaderBytes
  const void* data = nullptr;    // read until the message is sent
  size_t data_bytes = 0;
  std::shared_ptr<const void> keeper;  // keeps `data`; let go once it is no longer read
};

class Transport {
 public:
  virtual ~Transport() = default;
  // What peers connect to: bytes, any.
  virtual const std::string& address() const = 0;
  // A connection to the process of that address, which is numbered from 0 on. False and *error: it
  // cannot be; a process that is not there may be found out only later (Sink::OnLost).
  virtual bool Connect(const std::string& address, uint32_t* peer, std::string* error) = 0;
  // Nothing happens for a peer that is lost.
  virtual void Send(uint32_t peer, const Message& message) = 0;
  // Ends a connection at once, without a word to the sink.
  virtual void Cut(uint32_t peer) = 0;
  // Whether all that was sent before the first call has left this process, or is lost. The caller
  // calls Progress in between.
  virtual bool IsFlushed() = 0;
  // Moves what can be moved. True if anything was.
  virtual bool Progress() = 0;
  // Before sleeping on wait_fd(), which becomes readable when there is something for Progress.
  // False: there is something now.
  virtual bool Arm() = 0;
  virtual int wait_fd() const = 0;
};

// Over UCX, whose library is opened here and now; `sink` must outlive the transport. Null and
// *error: it is not there (the text names what to install), or does not work.
std::unique_ptr<Transport> OpenUcx(Sink* sink, std::string* error);

}  // namespace gordian::runtime::net

#endif  // GORDIAN_RUNTIME_NET_TRANSPORT_H_
