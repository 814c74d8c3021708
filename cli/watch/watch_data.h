// What `gordian watch` shows of a job at one moment, taken from its status and its verdict. Plain
// data: the lists and the card need no JSON.
#ifndef GORDIAN_CLI_WATCH_WATCH_DATA_H_
#define GORDIAN_CLI_WATCH_WATCH_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"
#include "cli/status/status_source.h"

namespace gordian::cli {

struct WatchedRank {
  std::string id;  // stays the same while the rank does, also through a restart
  int rank = -1;
  int64_t pid = -1;
  int64_t incarnation = 1;
  int64_t nccl_calls = -1;
  int64_t behind = 0;  // calls, on the communicator where it is furthest behind
  double since_s = -1;
  bool culprit = false;
  std::string node, state, call, operation, site;
};

struct WatchedCommunicator {
  std::string id;
  std::string name, uid, site;
  std::vector<int> ranks, behind;
  std::string members;  // "0-7", "0,2,4: 3 of 4"
  int64_t size = 0, ranks_seen = 0;
  int64_t made_by = -1;
  int64_t least = -1, most = -1;  // the last collective of the slowest and the fastest member
  int64_t behind_by = 0;          // the most
  bool destroyed = false;
};

struct WatchedNode {
  std::string name;
  int64_t number = -1;
  bool away = false, ended = false;
};

struct WatchData {
  std::string overview;  // "session s, 8 ranks, 12,345 NCCL calls, no progress for 12 s"
  std::string session;   // for commands to type; empty: none
  bool running = false;
  bool job_ended = false;
  model::Verdict verdict;
  analyzer::SiteResolver sites;
  std::vector<WatchedRank> ranks;
  std::vector<WatchedCommunicator> communicators;  // those behind first
  std::vector<WatchedNode> nodes;
};

// `title` and `session` as of StatusSource.
std::shared_ptr<const WatchData> MakeWatchData(const SeenStatus& seen, const std::string& title,
                                               const std::string& session);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_WATCH_DATA_H_
