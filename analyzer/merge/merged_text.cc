#include "analyzer/merge/merged_text.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "analyzer/report/text_layout.h"
#include "common/clock.h"

namespace gordian::merge {
namespace {

using nlohmann::ordered_json;

const char* ForPeople(Tool tool) {
  switch (tool) {
    case Tool::kGordian:
      return "session";
    case Tool::kFlightRecorder:
      return "Flight Recorder dumps";
    case Tool::kRas:
      return "NCCL RAS";
  }
  return "";
}

std::string TimeText(int64_t ns) { return ns > 0 ? FormatUtc(static_cast<uint64_t>(ns)) : ""; }

int64_t Newest(const MergedJob& job) {
  int64_t newest = 0;
  for (const Source& source : job.sources) newest = std::max(newest, source.newest_ns);
  return newest;
}

// How much older the newest fact of a source is than the newest of all; -1: unknown.
double Behind(const Source& source, int64_t newest) {
  if (source.newest_ns <= 0) return -1;
  return static_cast<double>((newest - source.newest_ns) / 1'000'000) / 1000;
}

std::string Seconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds);
  return text;
}

}  // namespace

ordered_json MergedToJson(const MergedJob& job) {
  const int64_t newest = Newest(job);
  ordered_json sources = ordered_json::array(), communicators = ordered_json::array();
  for (const Source& source : job.sources) {
    sources.push_back({{"tool", Name(source.tool)},
                       {"path", source.path},
                       {"ranks", source.ranks},
                       {"also_holds", source.others},
                       {"newest", TimeText(source.newest_ns)},
                       {"behind_s", Behind(source, newest)},
                       {"not_visible", source.not_visible}});
  }
  for (const SharedGroup& group : job.communicators) {
    communicators.push_back({{"session", group.session},
                             {"other", group.dumps},
                             {"by", group.by},
                             {"verified", group.verified}});
  }
  return {{"sources", sources},
          {"communicators", communicators},
          {"counted", job.counted},
          {"unclear", job.unclear},
          {"contradictions", job.contradictions}};
}

std::string MergedText(const MergedJob& job, int width) {
  const auto columns = static_cast<size_t>(std::max(width, 20));
  const int64_t newest = Newest(job);
  std::string text = "sources\n";
  const auto line = [&](const std::string& what) {
    text += analyzer::Wrap("  ", "    ", what, columns);
  };
  for (const Source& source : job.sources) {
    std::string what =
        analyzer::RankList(source.ranks) + ": " + ForPeople(source.tool) + " " + source.path;
    if (!source.others.empty()) what += ", which also holds " + analyzer::RankList(source.others);
    const double behind = Behind(source, newest);
    if (behind < 0) {
      what += source.tool == Tool::kRas ? "; its times are local ones, of an unknown zone"
                                        : "; when, it does not say";
    } else if (behind >= 0.05) {
      what += "; its newest fact is " + Seconds(behind) + " older than the newest of all";
    }
    line(what);
  }
  for (const SharedGroup& group : job.communicators) {
    line(group.session + " of the session is " + group.dumps + " of the dumps, by " + group.by +
         (group.verified ? "" : "; no operation is in both"));
  }
  for (const std::string& what : job.counted) line(what);
  for (const std::string& what : job.unclear) line(what);
  if (!job.contradictions.empty()) {
    text += "contradictions\n";
    for (const std::string& what : job.contradictions) line(what);
  }
  return text;
}

}  // namespace gordian::merge
