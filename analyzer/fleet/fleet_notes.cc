#include "analyzer/fleet/fleet_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace gordian::analyzer {
namespace {

constexpr size_t kMostNodes = 4096;
constexpr size_t kMostNamed = 8;  // in one sentence

std::string List(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kMostNamed; ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMostNamed) out += fmt::format(" and {} more", names.size() - kMostNamed);
  return out;
}

}  // namespace

void FleetNotes::OnEvent(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kNodeJoined: {
      const v1::NodeJoined& joined = event.node_joined();
      if (nodes_.size() >= kMostNodes) break;
      Node& node = nodes_[joined.node()];
      node.name = joined.name();
      node.rank = joined.node_rank();
      expected_ = std::max(expected_, std::min<uint32_t>(joined.nodes_expected(), kMostNodes));
      break;
    }
    case v1::Event::kNodeState: {
      const auto found = nodes_.find(event.node_state().node());
      if (found == nodes_.end()) break;
      Node& node = found->second;
      switch (event.node_state().kind()) {
        case v1::NODE_STATE_KIND_AWAY:
          node.away = true;
          break;
        case v1::NODE_STATE_KIND_BACK:
          node.away = false;
          break;
        case v1::NODE_STATE_KIND_ENDED:
          node.ended = true;
          break;
        case v1::NODE_STATE_KIND_LOST:
          node.lost_batches += event.node_state().lost_batches();
          break;
        default:
          break;
      }
      break;
    }
    case v1::Event::kJobEnded:
      job_ended_ = true;
      break;
    default:
      break;
  }
}

std::vector<std::string> FleetNotes::Texts() const {
  std::vector<std::string> texts, here;
  std::set<std::string> names;
  // Two nodes may have one name, as two of Slurm's on one machine; their numbers tell them apart. A
  // node that came again under its name and number is one node.
  std::set<std::pair<std::string, int32_t>> joined;
  std::set<int32_t> ranks;
  for (const auto& [index, node] : nodes_) {
    if (node.away && !node.ended) {
      texts.push_back("the collector on " + node.name + " went away before the job ended");
    }
    if (node.lost_batches > 0) {
      texts.push_back(
          fmt::format("{} batches of events from {} are missing", node.lost_batches, node.name));
    }
    if (names.insert(node.name).second) here.push_back(node.name);
    joined.emplace(node.name, node.rank);
    if (node.rank >= 0) ranks.insert(node.rank);
  }
  if (joined.size() < expected_ && !job_ended_) {
    std::vector<std::string> missing;
    if (ranks.size() == joined.size()) {  // with known numbers, the missing ones can be named
      for (uint32_t rank = 0; rank < expected_; ++rank) {
        if (!ranks.contains(static_cast<int32_t>(rank))) missing.push_back(std::to_string(rank));
      }
    }
    texts.push_back(fmt::format("{} of {} nodes, which have not joined{} (joined: {})",
                                expected_ - joined.size(), expected_,
                                missing.empty() ? "" : ": number " + List(missing), List(here)));
  }
  return texts;
}

std::vector<NodeOfJob> FleetNotes::Nodes() const {
  std::vector<NodeOfJob> nodes;
  for (const auto& [index, node] : nodes_) {
    nodes.push_back({.index = index,
                     .name = node.name,
                     .number = node.rank,
                     .away = node.away && !node.ended,
                     .ended = node.ended});
  }
  return nodes;
}

}  // namespace gordian::analyzer
