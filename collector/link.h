// The way from a collector to its analyzer: in the same process (Uplink), or elsewhere, with a
// spool on disk for when that is away (FleetLink).
#ifndef GORDIAN_COLLECTOR_LINK_H_
#define GORDIAN_COLLECTOR_LINK_H_

#include <cstdint>

#include "common/status.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::collector {

// Thread-safe. Start and Finish once, in this order.
class Link {
 public:
  virtual ~Link() = default;

  virtual void Start() = 0;

  // Queues a batch and numbers it. False: it is dropped, since nothing will be taken any more.
  // Never waits for the analyzer.
  virtual bool Send(v1::EventBatch batch) = 0;

  // No room: who has a choice sends nothing now.
  virtual bool Full() const = 0;

  // A batch would go out now. False: it waits somewhere, so that fewer and larger ones are better.
  virtual bool Direct() const { return true; }

  // Delivers what is queued, within timeout_ns. Ok: the analyzer has all of it and said so.
  virtual Status Finish(uint64_t timeout_ns) = 0;

  virtual bool failed() const = 0;       // for good: nothing is taken any more
  virtual Status status() const = 0;     // why
  virtual uint64_t batches() const = 0;  // sent or queued
};

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_LINK_H_
