// What the comings and goings of nodes leave unseen, as sentences for Evidence::not_visible. Fed
// from events alone, so that a trace that is read later says what was said while the job ran.
#ifndef GORDIAN_ANALYZER_SERVER_FLEET_NOTES_H_
#define GORDIAN_ANALYZER_SERVER_FLEET_NOTES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/server/status_json.h"
#include "gordian/v1/event.pb.h"

namespace gordian::server {

// Not thread-safe.
class FleetNotes {
 public:
  void OnEvent(const v1::Event& event);

  // Which nodes are away, which have not come, whose records are missing. Stable: the same words as
  // long as nothing changes. Empty for a job of one node in its own process.
  std::vector<std::string> Texts() const;

  std::vector<NodeOfJob> Nodes() const;  // empty, too

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

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_FLEET_NOTES_H_
