#include "collector/uplink/outgoing.h"

#include <algorithm>
#include <utility>

namespace gordian::collector {

Outgoing::Outgoing(const Options& options)
    : options_(options), spool_({.folder = options.spool_dir, .max_bytes = options.spool_bytes}) {}

Outgoing::Item Outgoing::MakeItem(v1::EventBatch&& batch, bool on_disk) {
  Item item;
  item.number = batch.number();
  auto message = std::make_shared<v1::ToAnalyzer>();
  *message->mutable_batch() = std::move(batch);
  item.bytes = message->ByteSizeLong();
  item.message = std::move(message);
  item.on_disk = on_disk;
  return item;
}

void Outgoing::Add(v1::EventBatch&& batch, bool online) {
  batch.set_number(++taken_);
  if (online && spool_.waiting() == 0 && tail_.empty() && window_bytes_ < options_.window_bytes) {
    window_.push_back(MakeItem(std::move(batch), /*on_disk=*/false));
    window_bytes_ += window_.back().bytes;
    return;
  }
  if (!options_.spool_dir.empty() && tail_.empty() && !spool_.Full()) {
    Status status = spool_.Append(batch);
    if (status.ok()) {
      return;
    }
    problem_ = status.message();
  }
  tail_.push_back(MakeItem(std::move(batch), /*on_disk=*/false));
  tail_bytes_ += tail_.back().bytes;
}

bool Outgoing::Full() const {
  if (options_.spool_dir.empty()) {
    return window_bytes_ + tail_bytes_ > options_.memory_bytes;
  }
  return spool_.Full() || !tail_.empty();
}

void Outgoing::TryDiskAgain() { spool_.TryAgain(); }

Outgoing::Message Outgoing::Next() {
  if (next_ < window_.size()) {
    return window_[next_++].message;
  }
  if (window_bytes_ >= options_.window_bytes && !window_.empty()) {
    return nullptr;
  }
  while (spool_.waiting() > 0) {
    v1::EventBatch batch;
    const StatusOr<bool> got = spool_.Next(&batch);
    if (!got.ok()) {
      problem_ = got.status().message();
      if (spool_.waiting() == 0 && tail_.empty()) {
        // The analyzer finds a gap by the number after it, and asks for no rounds before it has
        // heard of every batch. No batch follows this one, so send an empty one.
        v1::EventBatch empty;
        empty.set_number(++taken_);
        window_.push_back(MakeItem(std::move(empty), /*on_disk=*/false));
        window_bytes_ += window_.back().bytes;
        return window_[next_++].message;
      }
      continue;
    }
    if (!*got) {
      break;
    }
    window_.push_back(MakeItem(std::move(batch), /*on_disk=*/true));
    window_bytes_ += window_.back().bytes;
    return window_[next_++].message;
  }
  if (tail_.empty()) {
    return nullptr;
  }
  tail_bytes_ -= std::min(tail_bytes_, tail_.front().bytes);
  window_bytes_ += tail_.front().bytes;
  window_.push_back(std::move(tail_.front()));
  tail_.pop_front();
  return window_[next_++].message;
}

void Outgoing::Acknowledge(uint64_t number) {
  while (!window_.empty() && window_.front().number <= number) {
    window_bytes_ -= std::min(window_bytes_, window_.front().bytes);
    window_.pop_front();
    next_ -= next_ > 0 ? 1 : 0;
  }
  acked_ = std::max(acked_, std::min(number, taken_));
  spool_.Release(number);
}

Status Outgoing::Spill() {
  if (options_.spool_dir.empty()) {
    return AllArrived() ? Status::Ok()
                        : Status::Unavailable("there is no session folder to keep them in");
  }
  // Batches on disk stay there until they have arrived. Each run of missing numbers gets a file
  // named after its first: a reader then finds all of them in order.
  std::unique_ptr<Spool> run;
  for (const Item& item : window_) {
    if (item.on_disk) {
      run.reset();
      continue;
    }
    if (run == nullptr) {
      run = std::make_unique<Spool>(Spool::Options{.folder = options_.spool_dir});
    }
    GORDIAN_RETURN_IF_ERROR(run->Append(item.message->batch()));
  }
  spool_.TryAgain();
  for (const Item& item : tail_) {
    GORDIAN_RETURN_IF_ERROR(spool_.Append(item.message->batch()));
  }
  return Status::Ok();
}

std::optional<std::string> Outgoing::TakeProblem() { return std::exchange(problem_, std::nullopt); }

}  // namespace gordian::collector
