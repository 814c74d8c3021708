// Describes, for Evidence::not_visible, what gordian cannot see because nodes are away. Uses events
// only, so that a trace gives later the same texts as during the job.
#ifndef GORDIAN_ANALYZER_FLEET_FLEET_NOTES_H_
#define GORDIAN_ANALYZER_FLEET_FLEET_NOTES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/report/status_json.h"
#include "gordian/v1/event.pb.h"

namespace gordian::analyzer {

// Not thread-safe.
class FleetNotes {
 public:
  void OnEvent(const v1::Event& event);

  // Names the nodes that are away, that have not joined, and whose records are missing. Keeps its
  // words while nothing changes. Empty for a job of one node in its own process.
  std::vector<std::string> Texts() const;

  std::vector<NodeOfJob> Nodes() const;  // empty in that case, too

 private:
  struct Node {
    std::string name;
    int32_t rank = -1;
    bool away = false;
    bool ended = false;
    uint64_t lost_batches = 0;
  };
  std::map<uint32_t, Node> nodes_;
  uint32_t expected_ = 0;
  bool job_ended_ = false;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_FLEET_FLEET_NOTES_H_
