#include "analyzer/report/status_json.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/report/verdict_json.h"

namespace gordian::analyzer {
namespace {

using nlohmann::ordered_json;

// A job may make and destroy very many communicators; destroyed ones matter less.
constexpr size_t kMostDestroyed = 256;

// Seconds since `then_ns`, rounded to milliseconds; -1 if unknown.
double Since(uint64_t then_ns, uint64_t now_ns) {
  if (then_ns == 0) return -1;
  if (then_ns >= now_ns) return 0;
  return std::round(static_cast<double>(now_ns - then_ns) / 1e6) / 1e3;
}

ordered_json RankToJson(const model::RankSnapshot& rank, const std::string& node,
                        const StatusFacts& facts) {
  std::string call;
  if (rank.state == model::RankState::kInCall) {
    if (rank.call_id != 0 && facts.symbol) call = facts.symbol(rank.call_id);
    if (call.empty()) call = rank.call;
  }
  const bool at_site = rank.state == model::RankState::kInCall && rank.site.address != 0;
  return {{"rank", rank.rank},
          {"pid", rank.pid},
          {"incarnation", rank.incarnation},
          {"node", node},
          {"state", model::Name(rank.state)},
          {"call", call},
          {"operation", rank.operation},
          {"ending", rank.ending},
          {"since_s", Since(rank.since_ns, facts.now_ns)},
          {"site", at_site && facts.sites ? facts.sites(rank.site) : ""},
          {"nccl_calls", rank.nccl_calls}};
}

ordered_json CommToJson(const model::CommSnapshot& comm, const SiteResolver& sites) {
  return {{"name", comm.name},
          {"uid", fmt::format("{:016x}", comm.uid)},
          {"size", comm.size},
          {"ranks", comm.ranks},
          {"ranks_seen", comm.ranks_seen},
          {"made_by_rank", comm.made_by},
          {"site", comm.made_at.address != 0 && sites ? sites(comm.made_at) : ""},
          {"destroyed", comm.destroyed},
          {"sequence_min", comm.sequence_min},
          {"sequence_max", comm.sequence_max},
          {"behind", comm.behind},
          {"behind_by", comm.behind_by}};
}

ordered_json CommsToJson(const std::vector<model::CommSnapshot>& comms, const SiteResolver& sites) {
  size_t destroyed = 0;
  for (const model::CommSnapshot& comm : comms) destroyed += comm.destroyed ? 1 : 0;
  ordered_json list = ordered_json::array();
  for (const model::CommSnapshot& comm : comms) {
    if (comm.destroyed && destroyed-- > kMostDestroyed) continue;
    list.push_back(CommToJson(comm, sites));
  }
  return list;
}

}  // namespace

ordered_json StatusToJson(const StatusFacts& facts) {
  const ordered_json verdict = VerdictToJson(facts.verdict, [](const model::Site&) { return ""; });
  ordered_json json;
  json["schema"] = kStatusSchema;
  for (const char* key : {"verdict", "check", "confidence", "summary", "culprit_ranks",
                          "victim_ranks", "detected_after_s"}) {
    json[key] = verdict[key];
  }
  json["further"] = ordered_json::array();
  for (const model::Finding& finding : facts.verdict.findings) {
    json["further"].push_back({{"verdict", model::Name(finding.verdict)},
                               {"confidence", model::Name(finding.confidence)},
                               {"summary", finding.summary}});
  }
  json["revision"] = facts.revision;
  json["job_ended"] = facts.job_ended;
  json["since_progress_s"] = Since(facts.snapshot.last_progress_ns, facts.now_ns);

  std::map<uint32_t, std::string> names;
  json["nodes"] = ordered_json::array();
  for (const NodeOfJob& node : facts.nodes) {
    names[node.index] = node.name;
    json["nodes"].push_back(
        {{"name", node.name}, {"number", node.number}, {"away", node.away}, {"ended", node.ended}});
  }
  json["ranks"] = ordered_json::array();
  for (const model::RankSnapshot& rank : facts.snapshot.ranks) {
    const auto named = names.find(rank.process / kProcessesOfNode);
    json["ranks"].push_back(
        RankToJson(rank, named == names.end() ? facts.host : named->second, facts));
  }
  json["communicators"] = CommsToJson(facts.snapshot.communicators, facts.sites);
  json["evidence"] = verdict["evidence"];
  return json;
}

std::string StatusToText(const StatusFacts& facts) {
  return StatusToJson(facts).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace gordian::analyzer
