#include "analyzer/importers/flight_recorder.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <tuple>

#include "analyzer/importers/plain_data.h"
#include "analyzer/importers/sources.h"
#include "common/budget.h"
#include "common/read_file.h"

namespace gordian::importers {
namespace {

constexpr size_t kBeginning = 4096;

using View = PlainData::View;

constexpr int64_t kFirstTime = 1'000'000'000'000'000'000;  // of 2001; less is no wall clock
constexpr std::string_view kNoDescription = "undefined";   // of new_group without one

// Reads "[0, 1, 2]" or a list.
std::vector<int> Ranks(const View& from) {
  std::vector<int> ranks;
  if (from.kind() == PlainData::Kind::kList) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (const auto rank = from[i].AsInt()) ranks.push_back(static_cast<int>(*rank));
    }
    return ranks;
  }
  const std::string_view text = from.AsText();
  for (size_t i = 0; i < text.size();) {
    int rank = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), rank);
    if (error == std::errc()) {
      ranks.push_back(rank);
      i = static_cast<size_t>(end - text.data());
    } else {
      ++i;
    }
  }
  return ranks;
}

// The size of the first tensor: [[2048, 1, 5120]] are 10,485,760 elements. -1 if absent or
// malformed.
int64_t Elements(const View& sizes) {
  if (sizes.size() == 0) return -1;
  int64_t product = 1;
  const View first = sizes[0];
  for (size_t i = 0; i < first.size(); ++i) {
    const auto extent = first[i].AsInt();
    if (!extent || *extent < 0 || (*extent > 0 && product > INT64_MAX / *extent)) return -1;
    product *= *extent;
  }
  return product;
}

std::string SiteOf(const View& frames) {
  if (frames.size() == 0) return "";
  const View frame = frames[0];
  std::string_view file = frame["filename"].AsText();
  file = file.substr(file.find_last_of('/') + 1);
  std::string site(file);
  if (const auto line = frame["line"].AsInt()) site += ":" + std::to_string(*line);
  const std::string_view name = frame["name"].AsText();
  if (!name.empty()) site += " " + std::string(name);
  return site;
}

// Takes the backend's name off "nccl:all_reduce", whatever it is: a plugin's may be any word.
std::string_view WithoutBackend(std::string_view operation) {
  const size_t colon = operation.find(':');
  const std::string_view backend = operation.substr(0, colon == operation.npos ? 0 : colon);
  const bool word = std::all_of(backend.begin(), backend.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  if (!backend.empty() && word) operation.remove_prefix(colon + 1);
  return operation;
}

// Parses "send 0->1", "recv 1<-0", with ranks of the group.
void TakePeer(FlightEntry* entry) {
  const std::string& text = entry->operation;
  entry->sends = text.rfind("send", 0) == 0;
  const size_t arrow = text.find(entry->sends ? "->" : "<-");
  if (arrow == std::string::npos) return;
  int peer = -1;
  if (std::from_chars(text.data() + arrow + 2, text.data() + text.size(), peer).ec == std::errc())
    entry->peer = peer;
  entry->operation = entry->sends ? "send" : "recv";
}

StatusOr<FlightEntry> Entry(const View& from,
                            const std::map<std::string, std::string>& key_of_name) {
  FlightEntry entry;
  const View group = from["process_group"];
  std::string name(group.kind() == PlainData::Kind::kList ? group[size_t{0}].AsText()
                                                          : group.AsText());
  if (name.empty()) name = from["pg_name"].AsText();
  const auto known = key_of_name.find(name);
  entry.group = known != key_of_name.end() ? known->second : FlightGroup{name, "", {}}.Key();
  entry.record = from["record_id"].AsInt().value_or(from["id"].AsInt().value_or(0));
  entry.call = from["op_id"].AsInt().value_or(-1);
  const std::string_view operation = WithoutBackend(from["profiling_name"].AsText());
  entry.operation = operation;
  if (entry.operation.empty()) return Status::DataLoss("an entry has no profiling_name");
  entry.p2p = from["is_p2p"].AsBool().value_or(operation.substr(0, 5) == "send " ||
                                               operation.substr(0, 5) == "recv ");
  std::optional<int64_t> sequence = from[entry.p2p ? "p2p_seq_id" : "collective_seq_id"].AsInt();
  if (!sequence) sequence = from["seq_id"].AsInt();
  if (!sequence) return Status::DataLoss("an entry has no sequence number");
  entry.sequence = *sequence;
  if (entry.p2p) TakePeer(&entry);
  entry.elements_in = Elements(from["input_sizes"]);
  entry.elements_out = Elements(from["output_sizes"]);
  entry.type = from["input_dtypes"][size_t{0}].AsText();
  // PyTorch's watchdog retires what is complete, also where it has not asked for the state.
  entry.retired = from["retired"].AsBool().value_or(false);
  entry.completed = from["state"].AsText() == "completed" || entry.retired ||
                    from["time_discovered_completed_ns"].AsInt().value_or(0) > 0;
  if (from["state"].AsText() == "started") entry.begun = FlightBegun::kYes;
  entry.site = SiteOf(from["frames"]);
  return entry;
}

// PyTorch says of every end of a batch that it is a collective. It is what the batch was made of:
// sends and receives, where the call before it in the group, whose op_id it shares, is one.
void SettleEndsOfBatches(std::vector<FlightEntry>* entries) {
  std::map<std::string_view, const FlightEntry*> last;  // by group
  for (FlightEntry& entry : *entries) {
    const FlightEntry*& before = last[entry.group];
    if (entry.operation != kFlightEndOfBatch) {
      before = &entry;
    } else if (before != nullptr && entry.call >= 0 && before->call == entry.call) {
      entry.p2p = before->p2p;
      entry.sequence = before->sequence;
    }
  }
}

// PyTorch records the operations of a batch without a state of their own, which stays "scheduled";
// only the entry that ends the batch has the state. Facts: ProcessGroupNCCL::endCoalescing.
void CompleteBatches(std::vector<FlightEntry>* entries) {
  std::set<std::tuple<std::string_view, bool, int64_t>> completed;
  for (const FlightEntry& entry : *entries) {
    if (entry.operation == kFlightEndOfBatch && entry.completed)
      completed.emplace(entry.group, entry.p2p, entry.sequence);
  }
  for (FlightEntry& entry : *entries) {
    entry.completed =
        entry.completed || completed.count({entry.group, entry.p2p, entry.sequence}) > 0;
  }
}

// Where PyTorch times operations, it knows of each whether it has begun: of a batch by its end.
void SettleBegun(std::vector<FlightEntry>* entries) {
  std::map<std::tuple<std::string_view, bool, int64_t>, FlightBegun> of_batch;
  bool timed = false;
  for (const FlightEntry& entry : *entries) {
    timed = timed || (!entry.completed && entry.begun == FlightBegun::kYes);
    if (entry.operation == kFlightEndOfBatch)
      of_batch[{entry.group, entry.p2p, entry.sequence}] = entry.begun;
  }
  for (FlightEntry& entry : *entries) {
    const auto batch = of_batch.find({entry.group, entry.p2p, entry.sequence});
    if (batch != of_batch.end()) entry.begun = batch->second;
    if (timed && entry.begun == FlightBegun::kUnknown) entry.begun = FlightBegun::kNo;
  }
}

// Finds the group of each status: pg_status uses the rank's own number, entries give number and
// name. Numbers and names both count up as groups are made, so the remaining ones match in order,
// provided that the known ones do.
void AssignStatus(const View& statuses, const View& entries,
                  const std::map<std::string, std::string>& key_of_name, FlightDump* dump) {
  std::map<int64_t, std::string> name_of;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto id = entries[i]["pg_id"].AsInt();
    const View group = entries[i]["process_group"];
    if (id)
      name_of[*id] =
          group.kind() == PlainData::Kind::kList ? group[size_t{0}].AsText() : group.AsText();
  }
  std::map<int64_t, FlightStatus> by_id;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const auto [id_text, status] = statuses.Item(i);
    int64_t id = 0;
    if (std::from_chars(id_text.data(), id_text.data() + id_text.size(), id).ec != std::errc())
      continue;
    by_id[id] = {status["last_enqueued_collective"].AsInt().value_or(-1),
                 status["last_completed_collective"].AsInt().value_or(-1)};
  }
  std::map<int64_t, std::string> ordered;  // by the number in the name
  bool numbers = true;
  for (const auto& [name, key] : key_of_name) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    numbers = numbers && error == std::errc() && end == name.data() + name.size() &&
              ordered.emplace(number, name).second;
  }
  if (numbers && ordered.size() == by_id.size()) {
    std::map<int64_t, std::string> guess;
    auto name = ordered.begin();
    for (const auto& [id, status] : by_id) guess[id] = (name++)->second;
    const bool holds = std::all_of(name_of.begin(), name_of.end(), [&](const auto& known) {
      const auto found = guess.find(known.first);
      return found == guess.end() || found->second == known.second;
    });
    if (holds) name_of.insert(guess.begin(), guess.end());
  }
  for (const auto& [id, name] : name_of) {
    const auto status = by_id.find(id);
    const auto key = key_of_name.find(name);
    if (status != by_id.end() && key != key_of_name.end())
      dump->status[key->second] = status->second;
  }
}

// PyTorch asks the events of an operation for its state, and events that were never recorded say
// that all is done. So a call that is still inside of NCCL, which may wait for the others there
// when it connects to them, looks complete. PyTorch counts it as enqueued only when it returns.
// Facts: ProcessGroupNCCL::collective and workEnqueue.
void ReopenUnfinishedCalls(FlightDump* dump) {
  std::map<std::string_view, std::set<bool>> kinds;
  for (const FlightEntry& entry : dump->entries) kinds[entry.group].insert(entry.p2p);
  for (FlightEntry& entry : dump->entries) {
    const auto status = dump->status.find(entry.group);
    // On a group of both, the status counts them together.
    if (status == dump->status.end() || entry.retired || kinds.at(entry.group).size() > 1) continue;
    if (entry.sequence > status->second.enqueued) entry.completed = false;
  }
}

// Splits a name into the number at its end and the rest.
std::optional<int> RankOfName(const std::string& name, std::string* prefix) {
  std::string stem = name;
  if (stem.size() > 5 && stem.substr(stem.size() - 5) == ".json") stem.resize(stem.size() - 5);
  size_t digits = stem.size();
  while (digits > 0 && stem[digits - 1] >= '0' && stem[digits - 1] <= '9') --digits;
  int rank = 0;
  const auto [end, error] = std::from_chars(stem.data() + digits, stem.data() + stem.size(), rank);
  if (digits == stem.size() || error != std::errc() || end != stem.data() + stem.size())
    return std::nullopt;
  *prefix = stem.substr(0, digits);
  return rank;
}

bool BeginsLikeADump(const std::string& path) {
  const std::string beginning = ReadBeginning(path, kBeginning);
  const size_t first = beginning.find_first_not_of(" \n\r\t");
  if (first == std::string::npos) return false;
  return beginning[first] == '\x80' ||
         (beginning[first] == '{' && SourceOf(beginning) == Source::kUnknown);
}

StatusOr<FlightDump> ReadOne(const std::string& path, int rank) {
  StatusOr<std::string> bytes = ReadWholeFile(path, kMostDumpBytes);
  GORDIAN_RETURN_IF_ERROR(bytes.status());
  StatusOr<FlightDump> dump = ParseFlightDump(*bytes);
  if (!dump.ok())
    return Status(dump.status().code(),
                  path + " cannot be read as a Flight Recorder dump: " + dump.status().message());
  dump->rank = rank;
  dump->path = path;
  return dump;
}

// The files of a folder that may be dumps, grouped by the beginnings of their names.
std::map<std::string, std::map<int, std::string>> Candidates(const std::string& folder) {
  std::map<std::string, std::map<int, std::string>> sets;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::string prefix;
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file(error)) continue;
    const auto rank = RankOfName(name, &prefix);
    if (rank && BeginsLikeADump(entry.path())) sets[prefix][*rank] = entry.path();
  }
  return sets;
}

}  // namespace

std::string FlightGroup::ForPeople() const {
  return description.empty() ? "group " + name : description;
}

std::string FlightGroup::Key() const {
  std::string key = name + "/";
  for (const int rank : ranks) key += std::to_string(rank) + ",";
  return key;
}

StatusOr<FlightDump> ParseFlightDump(std::string_view bytes) {
  const bool pickled = !bytes.empty() && bytes.front() == '\x80';
  StatusOr<PlainData> data = pickled ? ReadPickle(bytes) : ReadJson(bytes);
  GORDIAN_RETURN_IF_ERROR(data.status());
  const View root = data->root();
  const View entries = root["entries"];
  if (root["version"].AsText().empty() || entries.kind() != PlainData::Kind::kList) {
    return Status::DataLoss("it has no version and entries");
  }
  FlightDump dump;
  dump.version = root["version"].AsText();
  if (dump.version.substr(0, 2) != "2.") {
    return Status::NewerVersion("version " + dump.version +
                                " is unknown: gordian reads 2.0 to 2.10 and later 2.x");
  }
  std::map<std::string, std::string> key_of_name;
  const View config = root["pg_config"];
  for (size_t i = 0; i < config.size(); ++i) {
    const auto [name, value] = config.Item(i);
    const std::string_view description = value["desc"].AsText();
    FlightGroup group{name, std::string(description == kNoDescription ? "" : description),
                      Ranks(value["ranks"])};
    key_of_name[name] = group.Key();
    dump.groups[group.Key()] = group;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    StatusOr<FlightEntry> entry = Entry(entries[i], key_of_name);
    if (!entry.ok())
      return Status::DataLoss("entry " + std::to_string(i) + ": " + entry.status().message());
    dump.entries.push_back(std::move(*entry));
    for (const char* const time : {"time_created_ns", "time_discovered_completed_ns"})
      dump.newest_ns = std::max(dump.newest_ns, entries[i][time].AsInt().value_or(0));
  }
  if (dump.newest_ns < kFirstTime) dump.newest_ns = 0;
  std::stable_sort(dump.entries.begin(), dump.entries.end(),
                   [](const FlightEntry& a, const FlightEntry& b) { return a.record < b.record; });
  SettleEndsOfBatches(&dump.entries);
  CompleteBatches(&dump.entries);
  SettleBegun(&dump.entries);
  AssignStatus(root["pg_status"], entries, key_of_name, &dump);
  ReopenUnfinishedCalls(&dump);
  return dump;
}

bool MayBeFlightDumps(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return !Candidates(path).empty();
  std::string prefix;
  return RankOfName(std::filesystem::path(path).filename(), &prefix).has_value() &&
         BeginsLikeADump(path);
}

StatusOr<std::vector<FlightDump>> ReadFlightDumps(const std::string& path) {
  std::vector<FlightDump> dumps;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    std::string prefix;
    const auto rank = RankOfName(std::filesystem::path(path).filename(), &prefix);
    StatusOr<FlightDump> dump = ReadOne(path, rank.value_or(0));
    GORDIAN_RETURN_IF_ERROR(dump.status());
    dumps.push_back(std::move(*dump));
    return dumps;
  }
  const auto sets = Candidates(path);
  if (sets.size() > 1) {
    std::string names;
    for (const auto& [prefix, files] : sets) names += (names.empty() ? "" : ", ") + prefix + "*";
    return Status::InvalidArgument(path + " holds dumps of more than one job (" + names +
                                   "): put each job's dumps into its own folder");
  }
  for (const auto& [prefix, files] : sets) {
    for (const auto& [rank, file] : files) {
      StatusOr<FlightDump> dump = ReadOne(file, rank);
      GORDIAN_RETURN_IF_ERROR(dump.status());
      dumps.push_back(std::move(*dump));
    }
  }
  if (dumps.empty()) return Status::NotFound("no Flight Recorder dumps in " + path);
  return dumps;
}

}  // namespace gordian::importers
