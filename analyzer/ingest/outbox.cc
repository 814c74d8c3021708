#include "analyzer/ingest/outbox.h"

#include <utility>

#include "common/clock.h"

namespace gordian::analyzer {

void Outbox::Request(const v1::RoundRequest& request) {
  const std::lock_guard lock(mutex_);
  round_ = request;
  changed_.notify_all();
}

void Outbox::Acknowledge(uint64_t batch) {
  const std::lock_guard lock(mutex_);
  acknowledged_ = batch;
  changed_.notify_all();
}

void Outbox::Tell(SharedVerdict verdict) {
  const std::lock_guard lock(mutex_);
  verdict_ = std::move(verdict);
  changed_.notify_all();
}

void Outbox::AskForStacks(v1::StacksRequest request) {
  const std::lock_guard lock(mutex_);
  stacks_ = std::move(request);
  changed_.notify_all();
}

void Outbox::Answer(const v1::Ping& ping, uint64_t received_ns) {
  const std::lock_guard lock(mutex_);
  if (pongs_.size() >= kMostPongs) return;
  v1::Pong& pong = pongs_.emplace_back();
  pong.set_sent_ns(ping.sent_ns());
  pong.set_received_ns(received_ns);
  changed_.notify_all();
}

void Outbox::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finish_ = true;
    round_.reset();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Outbox::Run() {
  std::unique_lock lock(mutex_);
  uint64_t written = 0;
  while (true) {
    changed_.wait(lock, [&] {
      return finish_ || round_ || acknowledged_ != written || verdict_ != nullptr || stacks_ ||
             !pongs_.empty();
    });
    v1::ToCollector message;
    if (!pongs_.empty()) {  // first: their time is measured
      *message.mutable_pong() = std::move(pongs_.front());
      pongs_.pop_front();
      message.mutable_pong()->set_answered_ns(MonoNs());
    } else if (round_) {
      *message.mutable_round() = *std::exchange(round_, std::nullopt);
    } else if (stacks_) {  // before the verdict that wants them
      *message.mutable_stacks() = *std::exchange(stacks_, std::nullopt);
    } else if (verdict_ != nullptr) {  // before the numbers: who hears that all is in has all
      *message.mutable_verdict() = *std::exchange(verdict_, nullptr);
    } else if (acknowledged_ != written) {
      written = acknowledged_;
      message.mutable_ack()->set_number(written);
    } else {
      return;
    }
    lock.unlock();
    stream_->Write(message);  // a failure shows in the reader's Read
    lock.lock();
  }
}

}  // namespace gordian::analyzer
