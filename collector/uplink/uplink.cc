#include "collector/uplink/uplink.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "gordian/v1/ingest.grpc.pb.h"

namespace gordian::collector {

struct Uplink::State {
  explicit State(Options o) : options(std::move(o)) {}

  const Options options;
  std::unique_ptr<v1::Ingest::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAnalyzer, v1::ToCollector>> stream;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<v1::ToAnalyzer> queue;
  uint64_t queued_bytes = 0;
  uint64_t batches = 0;
  uint64_t acked = 0;
  bool started = false;
  bool finishing = false;  // Send takes no more
  bool writer_ended = false;
  bool reads_over = false;  // the stream is at its end
  bool reader_ended = false;
  bool failed = false;
  Status why;  // first reason

  std::thread writer;
  std::thread reader;

  void Fail(Status reason) {
    {
      const std::lock_guard lock(mutex);
      if (failed) {
        return;
      }
      failed = true;
      why = std::move(reason);
      queue.clear();
      queued_bytes = 0;
    }
    changed.notify_all();
    if (options.on_failed) {
      options.on_failed();
    }
  }

  void Write() {
    v1::ToAnalyzer first;
    *first.mutable_hello() = options.hello;
    bool fine = stream->Write(first);
    while (fine) {
      v1::ToAnalyzer message;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return failed || reads_over || finishing || !queue.empty(); });
        if (failed || reads_over || queue.empty()) {
          break;
        }
        message = std::move(queue.front());
        queue.pop_front();
      }
      const uint64_t bytes = message.ByteSizeLong();
      fine = stream->Write(message);
      const std::lock_guard lock(mutex);
      queued_bytes -= std::min(queued_bytes, bytes);
    }
    // A failed write only shows that the stream broke; the reader learns why.
    stream->WritesDone();
    {
      const std::lock_guard lock(mutex);
      writer_ended = true;
    }
    changed.notify_all();
  }

  void Read() {
    v1::ToCollector message;
    while (stream->Read(&message)) {
      switch (message.message_case()) {
        case v1::ToCollector::kRound:
          options.on_round(message.round().round());
          break;
        case v1::ToCollector::kStacks:
          if (options.on_stacks) {
            options.on_stacks(message.stacks());
          }
          break;
        case v1::ToCollector::kAck: {
          const std::lock_guard lock(mutex);
          acked = std::max(acked, message.ack().number());
          break;
        }
        case v1::ToCollector::kRefused:
          Fail(Status::InvalidArgument("the analyzer refused this collector: " +
                                       message.refused().why()));
          break;
        case v1::ToCollector::kWelcome:  // sent by an analyzer of many nodes
        case v1::ToCollector::kPong:
        case v1::ToCollector::kVerdict:
        case v1::ToCollector::MESSAGE_NOT_SET:
          break;  // an unknown message of a newer analyzer
      }
    }
    // The writer's writes fail from now on. gRPC allows asking for the status only once the writer
    // has left the stream.
    bool orderly;
    {
      std::unique_lock lock(mutex);
      orderly = finishing && queue.empty();
      reads_over = true;
      changed.notify_all();
      changed.wait(lock, [&] { return writer_ended; });
    }
    const grpc::Status ended = stream->Finish();
    if (!ended.ok()) {
      Fail(Status::Unavailable("the stream to the analyzer broke: " + ended.error_message()));
    } else if (!orderly) {
      Fail(Status::Unavailable("the analyzer ended the stream before the collector did"));
    }
    {
      const std::lock_guard lock(mutex);
      reader_ended = true;
    }
    changed.notify_all();
  }
};

Uplink::Uplink(Options options) : state_(std::make_unique<State>(std::move(options))) {}

Uplink::~Uplink() {
  if (state_->started) {
    (void)Finish(0);
  }
}

void Uplink::Start() {
  State& s = *state_;
  s.stub = v1::Ingest::NewStub(s.options.channel);
  s.stream = s.stub->Collect(&s.context);
  s.started = true;
  s.writer = std::thread([&s] { s.Write(); });
  s.reader = std::thread([&s] { s.Read(); });
}

bool Uplink::Send(v1::EventBatch batch) {
  State& s = *state_;
  v1::ToAnalyzer message;
  *message.mutable_batch() = std::move(batch);
  {
    const std::lock_guard lock(s.mutex);
    if (s.failed || s.finishing) {
      return false;
    }
    message.mutable_batch()->set_number(++s.batches);
    s.queued_bytes += message.ByteSizeLong();
    s.queue.push_back(std::move(message));
  }
  s.changed.notify_all();
  return true;
}

bool Uplink::Full() const {
  const std::lock_guard lock(state_->mutex);
  return state_->queued_bytes > state_->options.max_queued_bytes;
}

Status Uplink::Finish(uint64_t timeout_ns) {
  State& s = *state_;
  if (!s.started) {
    return Status::Internal("the uplink was not started");
  }
  {
    std::unique_lock lock(s.mutex);
    s.finishing = true;
    s.changed.notify_all();
    if (s.failed) {
      s.context.TryCancel();
      timeout_ns = std::max<uint64_t>(timeout_ns, 1'000'000'000);  // cancelling takes a moment
    }
    const bool in_time = s.changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                            [&] { return s.writer_ended && s.reader_ended; });
    if (!in_time) {
      const uint64_t left = s.queue.size();
      lock.unlock();
      s.Fail(Status::Deadline("the analyzer did not take everything in time (" +
                              std::to_string(left) + " batches left)"));
      s.context.TryCancel();
    }
  }
  if (s.writer.joinable()) {
    s.writer.join();
  }
  if (s.reader.joinable()) {
    s.reader.join();
  }
  s.started = false;
  return status();
}

bool Uplink::failed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->failed;
}

Status Uplink::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->why;
}

uint64_t Uplink::batches() const {
  const std::lock_guard lock(state_->mutex);
  return state_->batches;
}

uint64_t Uplink::acked() const {
  const std::lock_guard lock(state_->mutex);
  return state_->acked;
}

}  // namespace gordian::collector
