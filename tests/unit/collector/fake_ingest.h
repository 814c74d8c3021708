// An analyzer that only remembers, in this process.
#ifndef GORDIAN_TESTS_UNIT_COLLECTOR_FAKE_INGEST_H_
#define GORDIAN_TESTS_UNIT_COLLECTOR_FAKE_INGEST_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gordian/v1/ingest.grpc.pb.h"

namespace gordian::testing_support {

class FakeIngest final : public v1::Ingest::Service {
 public:
  FakeIngest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeIngest() override {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(500));
    server_->Wait();
  }
  std::shared_ptr<grpc::Channel> Channel() { return server_->InProcessChannel({}); }

  void RefuseEverybody(std::string why) { refuse_ = std::move(why); }
  void FailAfterHello() { fail_ = true; }
  // Reads nothing more after Hello until told.
  void Stall(bool stall) {
    const std::lock_guard lock(mutex_);
    stalled_ = stall;
    changed_.notify_all();
  }

  // Asks for a round; the collector must have connected.
  void AskRound(uint64_t round) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stream_ != nullptr; });
    v1::ToCollector message;
    message.mutable_round()->set_round(round);
    stream_->Write(message);
  }

  // Waits until the events so far satisfy `condition`; false: they did not within 20 s.
  bool Await(const std::function<bool(const std::vector<v1::Event>&)>& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return condition(events_); });
  }
  std::vector<v1::Event> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<v1::Hello> hellos() const {
    const std::lock_guard lock(mutex_);
    return hellos_;
  }
  std::string faults() const {  // of the protocol
    const std::lock_guard lock(mutex_);
    return faults_;
  }
  uint64_t batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  using Stream = grpc::ServerReaderWriter<v1::ToCollector, v1::ToAnalyzer>;

  grpc::Status Collect(grpc::ServerContext* context, Stream* stream) override {
    v1::ToAnalyzer message;
    bool first = true;
    while (stream->Read(&message)) {
      std::unique_lock lock(mutex_);
      if (first != message.has_hello()) {
        faults_ += "Hello must be first and only first; ";
      }
      if (message.has_hello()) {
        hellos_.push_back(message.hello());
        if (!refuse_.empty()) {
          v1::ToCollector refused;
          refused.mutable_refused()->set_why(refuse_);
          stream->Write(refused);
          return grpc::Status::OK;
        }
        if (fail_) {
          return grpc::Status(grpc::StatusCode::INTERNAL, "out of order today");
        }
        stream_ = stream;
      }
      first = false;
      if (message.has_batch()) {
        if (message.batch().number() != ++batches_) {
          faults_ += "batch " + std::to_string(message.batch().number()) + " instead of " +
                     std::to_string(batches_) + "; ";
        }
        if (message.batch().events_size() == 0) {
          faults_ += "empty batch; ";
        }
        for (v1::Event& event : *message.mutable_batch()->mutable_events()) {
          events_.push_back(std::move(event));
        }
        v1::ToCollector ack;
        ack.mutable_ack()->set_number(batches_);
        stream->Write(ack);
      }
      changed_.notify_all();
      while (stalled_ && !context->IsCancelled()) {
        changed_.wait_for(lock, std::chrono::milliseconds(20));
      }
    }
    const std::lock_guard lock(mutex_);
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string refuse_;
  bool fail_ = false;
  bool stalled_ = false;
  Stream* stream_ = nullptr;
  std::vector<v1::Hello> hellos_;
  std::vector<v1::Event> events_;
  std::string faults_;
  uint64_t batches_ = 0;
};

}  // namespace gordian::testing_support

#endif  // GORDIAN_TESTS_UNIT_COLLECTOR_FAKE_INGEST_H_
