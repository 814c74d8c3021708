// Carries batches from a collector to its analyzer: in the same process (Uplink), or remote, with a
// spool on disk for when that is away (FleetLink).
#ifndef GORDIAN_COLLECTOR_UPLINK_LINK_H_
#define GORDIAN_COLLECTOR_UPLINK_LINK_H_

#include <cstdint>

#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::collector {

// Thread-safe. Start and Finish once, in this order.
class Link {
 public:
  virtual ~Link() = default;

  virtual void Start() = 0;

  // Numbers and queues a batch. Returns false if the link takes nothing any more, and drops the
  // batch. Never waits for the analyzer.
  virtual bool Send(v1::EventBatch batch) = 0;

  // True when the queue is full: a caller that can wait sends nothing now.
  virtual bool Full() const = 0;

  // How long records should be gathered for one batch.
  virtual uint64_t GatherNs() const { return 0; }

  // Delivers the queue within timeout_ns. Ok means that the analyzer acknowledged all of it.
  virtual Status Finish(uint64_t timeout_ns) = 0;

  virtual bool failed() const = 0;       // final: the link takes no more batches
  virtual Status status() const = 0;     // why it failed
  virtual uint64_t batches() const = 0;  // sent or queued
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_LINK_H_
