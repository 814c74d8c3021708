#include "cli/plan/plan_input.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/model/verdict/job_model.h"
#include "cli/config_text.h"
#include "common/read_file.h"
#include "common/trace_file.h"

namespace gordian::cli {
namespace {

using nlohmann::json;

std::vector<std::string> Fields(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  std::string field;
  while (std::getline(in, field, ',')) {
    const size_t from = field.find_first_not_of(" \t\r");
    const size_t until = field.find_last_not_of(" \t\r");
    fields.push_back(from == std::string::npos ? "" : field.substr(from, until - from + 1));
  }
  return fields;
}

template <typename Number>
bool Parse(const std::string& text, Number* number) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end && !text.empty();
}

// Returns the lines after the first, which must name the columns.
StatusOr<std::vector<std::pair<int, std::vector<std::string>>>> CsvRows(
    const std::string& path, const std::string& text, const std::vector<std::string>& columns,
    size_t least_columns) {
  std::istringstream in(text);
  std::string line;
  std::vector<std::pair<int, std::vector<std::string>>> rows;
  int number = 0;
  size_t width = 0;
  while (std::getline(in, line)) {
    ++number;
    const std::vector<std::string> fields = Fields(line);
    if (fields.empty() || (fields.size() == 1 && fields[0].empty()) || fields[0].starts_with("#")) {
      continue;
    }
    const std::string where = path + ", line " + std::to_string(number) + ": ";
    if (width == 0) {
      width = fields.size();
      if (width < least_columns || width > columns.size() ||
          !std::equal(fields.begin(), fields.end(), columns.begin())) {
        std::string wanted;
        for (const std::string& column : columns) wanted += (wanted.empty() ? "" : ",") + column;
        return Status::InvalidArgument(where + "the first line must be " + wanted);
      }
      continue;
    }
    if (fields.size() != width) {
      return Status::InvalidArgument(where + std::to_string(fields.size()) + " fields instead of " +
                                     std::to_string(width));
    }
    rows.emplace_back(number, fields);
  }
  return rows;
}

// `names`: of the buckets, "" for those without one.
StatusOr<std::vector<planner::Bucket>> BucketsOf(const std::string& path, const json& list,
                                                 std::vector<std::string>* names) {
  std::vector<planner::Bucket> buckets;
  if (!list.is_array()) return Status::InvalidArgument(path + ": expected a list of buckets");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = path + ": bucket " + std::to_string(i + 1) + ": ";
    if (!list[i].is_object()) return Status::InvalidArgument(where + "not an object");
    planner::Bucket bucket;
    names->emplace_back();
    for (const auto& [key, value] : list[i].items()) {
      if (key == "name") {
        if (!value.is_string()) return Status::InvalidArgument(where + "name is no string");
        names->back() = value;
        continue;
      }
      int64_t* field = key == "forward_us"    ? &bucket.forward
                       : key == "backward_us" ? &bucket.backward
                       : key == "comm_us"     ? &bucket.comm
                       : key == "elements"    ? &bucket.elements
                                              : nullptr;
      if (field == nullptr) return Status::InvalidArgument(where + "unknown key '" + key + "'");
      if (!value.is_number_integer())
        return Status::InvalidArgument(where + key + " is no whole number");
      if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)
        return Status::InvalidArgument(where + key + " is too large");
      *field = value.get<int64_t>();
    }
    for (const char* key : {"forward_us", "backward_us", "comm_us"}) {
      if (!list[i].contains(key)) return Status::InvalidArgument(where + key + " is missing");
    }
    buckets.push_back(bucket);
  }
  return buckets;
}

StatusOr<BucketTable> FromJson(const std::string& path, const std::string& text) {
  const StatusOr<json> parsed = ParseConfigText(text, path);
  GORDIAN_RETURN_IF_ERROR(parsed.status());
  const json& document = *parsed;
  if (!document.is_object()) return Status::InvalidArgument(path + " is no JSON object");
  BucketTable table;
  for (const auto& [key, value] : document.items()) {
    if (key != "buckets" && key != "ranks") {
      return Status::InvalidArgument(path + ": unknown key '" + key + "'");
    }
  }
  if (document.contains("buckets") == document.contains("ranks")) {
    return Status::InvalidArgument(path + ": needs one of the keys 'buckets' and 'ranks'");
  }
  table.per_rank = document.contains("ranks");
  if (table.per_rank && (!document["ranks"].is_array() || document["ranks"].empty())) {
    return Status::InvalidArgument(path + ": ranks: expected a list with an entry for each rank");
  }
  const json lists = table.per_rank ? document["ranks"] : json::array({document["buckets"]});
  for (const json& list : lists) {
    std::vector<std::string> names;
    StatusOr<std::vector<planner::Bucket>> buckets = BucketsOf(path, list, &names);
    GORDIAN_RETURN_IF_ERROR(buckets.status());
    if (!table.by_rank.empty() && buckets->size() != table.by_rank.front().size()) {
      return Status::InvalidArgument(path + ": ranks have different numbers of buckets");
    }
    if (!table.by_rank.empty() && names != table.names) {
      return Status::InvalidArgument(path + ": ranks have different names for buckets");
    }
    table.names = std::move(names);
    table.by_rank.push_back(std::move(*buckets));
  }
  return table;
}

}  // namespace

bool LooksLikeTable(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return false;
  std::string head = ReadBeginning(path, kTraceMagicBytes);
  head.resize(kTraceMagicBytes);
  return head != std::string(kTraceMagic, kTraceMagicBytes);
}

StatusOr<BucketTable> ReadBucketTable(const std::string& path) {
  StatusOr<std::string> text = ReadWholeFile(path);
  GORDIAN_RETURN_IF_ERROR(text.status());
  const size_t first = text->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*text)[first] == '{') return FromJson(path, *text);
  const auto rows = CsvRows(path, *text, {"forward_us", "backward_us", "comm_us", "elements"}, 3);
  GORDIAN_RETURN_IF_ERROR(rows.status());
  std::vector<planner::Bucket> buckets;
  for (const auto& [line, fields] : *rows) {
    planner::Bucket bucket;
    int64_t* into[] = {&bucket.forward, &bucket.backward, &bucket.comm, &bucket.elements};
    for (size_t i = 0; i < fields.size(); ++i) {
      if (!Parse(fields[i], into[i])) {
        return Status::InvalidArgument(path + ", line " + std::to_string(line) + ": '" + fields[i] +
                                       "' is no whole number");
      }
    }
    buckets.push_back(bucket);
  }
  return BucketTable{.by_rank = {std::move(buckets)}};
}

std::vector<planner::Bucket> AgreeOnTimes(
    const std::vector<std::vector<planner::Bucket>>& by_rank) {
  std::vector<planner::Bucket> agreed = by_rank.front();
  for (const auto& buckets : by_rank) {
    for (size_t i = 0; i < agreed.size(); ++i) {
      agreed[i].forward = std::max(agreed[i].forward, buckets[i].forward);
      agreed[i].backward = std::max(agreed[i].backward, buckets[i].backward);
      agreed[i].comm = std::max(agreed[i].comm, buckets[i].comm);
      agreed[i].elements = std::max(agreed[i].elements, buckets[i].elements);
    }
  }
  return agreed;
}

StatusOr<std::vector<planner::CostSample>> ReadCostSamples(const std::string& path) {
  StatusOr<std::string> text = ReadWholeFile(path);
  GORDIAN_RETURN_IF_ERROR(text.status());
  const auto rows = CsvRows(path, *text, {"plan", "ranks", "bytes", "us"}, 4);
  GORDIAN_RETURN_IF_ERROR(rows.status());
  std::vector<planner::CostSample> samples;
  for (const auto& [line, fields] : *rows) {
    const std::string where = path + ", line " + std::to_string(line) + ": ";
    planner::CostSample sample;
    bool known = false;
    for (const auto plan :
         {planner::InterPlan::kRing, planner::InterPlan::kDoubling, planner::InterPlan::kBruck}) {
      if (fields[0] == planner::Name(plan)) {
        sample.plan = plan;
        known = true;
      }
    }
    if (!known) return Status::InvalidArgument(where + "there is no plan '" + fields[0] + "'");
    if (!Parse(fields[1], &sample.p) || sample.p < 2 || sample.p > 65536) {
      return Status::InvalidArgument(where + "ranks must be 2 to 65536");
    }
    if (!Parse(fields[2], &sample.bytes) || !(sample.bytes > 0) || sample.bytes > 1e15) {
      return Status::InvalidArgument(where + "bytes must be above 0");
    }
    if (!Parse(fields[3], &sample.us) || !(sample.us > 0) || sample.us > 1e12) {
      return Status::InvalidArgument(where + "us must be above 0");
    }
    samples.push_back(sample);
  }
  return samples;
}

StatusOr<RecordedJob> ReadRecordedJob(const std::string& path) {
  RecordedJob job;
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return Status::NotFound("cannot read " + path);
  job.file = S_ISDIR(info.st_mode) ? path + "/trace.gtrace" : path;
  StatusOr<std::unique_ptr<TraceReader>> reader = TraceReader::Open(job.file);
  GORDIAN_RETURN_IF_ERROR(reader.status());
  model::JobModel model;  // the model drops records that make no sense
  analyzer::GraphEvents events(&model);
  events.Tell(
      [&job](const model::ProcessInfo& process) {
        job.trace.OnProcess(process.process, process.env_rank);
      },
      [&job](const model::CallRecord& record) { job.trace.OnRecord(record); });
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (const v1::Event& event : chunk->events()) {
      if (event.has_clock_offset()) job.one_clock = false;
      events.OnEvent(event);
    }
  }
  GORDIAN_RETURN_IF_ERROR((*reader)->bounds());
  if ((*reader)->ending() != TraceReader::Ending::kComplete)
    job.note = job.file + " is " + (*reader)->Describe();
  job.trace.Finish();
  return job;
}

}  // namespace gordian::cli
