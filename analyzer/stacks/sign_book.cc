#include "analyzer/stacks/sign_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/stacks/call_symbols.h"

namespace gordian::analyzer {
namespace {

constexpr size_t kMaxProcesses = 1u << 16;
constexpr size_t kMaxCommunicators = 4096;  // per process
constexpr uint32_t kMaxCallNumber = 1u << 14;
constexpr size_t kMostSigns = 8;  // of each kind
constexpr std::string_view kTorchRows = "torch_";
constexpr int kNcclInProgress = 7;
constexpr int kCudaNotReady = 600;
constexpr int kCudaUnloading = 4;  // returned to a process that is ending

// Variables on which members of a communicator must agree; otherwise it hangs or fails at init.
constexpr const char* kAgreed[] = {
    "NCCL_ALGO",          "NCCL_COMM_BLOCKING",   "NCCL_CUMEM_ENABLE",         "NCCL_IB_DISABLE",
    "NCCL_NET",           "NCCL_NET_PLUGIN",      "NCCL_NVLS_ENABLE",          "NCCL_P2P_DISABLE",
    "NCCL_PROTO",         "NCCL_RUNTIME_CONNECT", "NCCL_SHM_DISABLE",          "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS", "NCCL_BUFFSIZE",        "NCCL_LAUNCH_ORDER_IMPLICIT"};

}  // namespace

void SignBook::OnEvent(const v1::Event& event) {
  switch (event.event_case()) {
    case v1::Event::kCallName:
      if (const v1::CallName& name = event.call_name(); name.call() < kMaxCallNumber) {
        if (name.call() >= calls_.size()) calls_.resize(name.call() + 1);
        calls_[name.call()] = {name.symbol(), name.symbol().starts_with("nccl")};
      }
      break;
    case v1::Event::kProcessStarted: {
      if (processes_.size() >= kMaxProcesses) break;
      Process& process = processes_[event.process_started().process()];
      for (const std::string& setting : event.process_started().settings()) {
        const size_t at = setting.find('=');
        if (at != std::string::npos)
          process.settings[setting.substr(0, at)] = setting.substr(at + 1);
      }
      break;
    }
    default:
      break;
  }
}

const SignBook::NamedCall* SignBook::Named(uint32_t call) const {
  return call < calls_.size() && !calls_[call].symbol.empty() ? &calls_[call] : nullptr;
}

void SignBook::OnRecord(const model::CallRecord& record) {
  if (latest_ == nullptr || record.process != latest_id_) {
    const auto found = processes_.find(record.process);
    latest_ = found == processes_.end() ? nullptr : &found->second;
    latest_id_ = record.process;
  }
  if (latest_ == nullptr) return;
  Process& process = *latest_;
  if (record.kind == model::RecordKind::kBegin && model::MakesCommunicator(record.call)) {
    if (process.ranks.size() < kMaxCommunicators) {
      const auto& init = record.As<ring::CommInitPayload>();
      process.ranks[init.comm] = init.rank;
    }
  } else if (record.kind == model::RecordKind::kBegin && model::IsCollective(record.call)) {
    const auto& operation = record.As<ring::OperationPayload>();
    process.last = {record.call == model::Call::kReduce, operation.root_or_peer, operation.comm};
  } else if (record.kind == model::RecordKind::kEnd) {
    const int32_t result = record.As<ring::EndPayload>().result;
    if (result == 0 || process.failed_call != 0) return;
    const NamedCall* const call = Named(record.call_id);
    if (call == nullptr || result == (call->nccl ? kNcclInProgress : kCudaNotReady)) return;
    if (!call->nccl && result == kCudaUnloading) return;
    process.failed_call = record.call_id;
    process.result = result;
  }
}

void SignBook::AddTo(const model::JobModel& model, model::Verdict* verdict) const {
  const bool trouble = model::SaysTrouble(verdict->main.verdict);
  const bool failed = std::any_of(processes_.begin(), processes_.end(),
                                  [](const auto& entry) { return entry.second.failed_call != 0; });
  if (!trouble && !failed) return;  // as in most rounds
  const std::map<uint32_t, int> ranks = model.Ranks();
  CallsThatFailed(ranks, verdict);
  if (!trouble) return;
  ReducedToOne(ranks, verdict);
  Settings(ranks, verdict);
}

void SignBook::CallsThatFailed(const std::map<uint32_t, int>& ranks,
                               model::Verdict* verdict) const {
  std::map<std::pair<std::string, int>, std::vector<int>> failed;
  for (const auto& [id, process] : processes_) {
    if (process.failed_call == 0) continue;
    const auto rank = ranks.find(id);
    failed[{calls_.at(process.failed_call).symbol, process.result}].push_back(
        rank == ranks.end() ? -1 : rank->second);
  }
  size_t shown = 0;
  for (auto& [what, who] : failed) {
    if (shown++ == kMostSigns) break;
    std::erase(who, -1);
    std::sort(who.begin(), who.end());
    const std::string of = who.empty() ? "a process" : model::RankList(who);
    std::string_view symbol = what.first;
    // A call of torch.distributed has no symbol, and fails by an exception.
    const bool torch = symbol.starts_with(kTorchRows);
    if (torch) symbol.remove_prefix(kTorchRows.size());
    verdict->signs.push_back({"call-failed", who,
                              torch
                                  ? fmt::format("{} of {} raised an exception", symbol, of)
                                  : fmt::format("{} of {} returned {}", symbol, of, what.second)});
  }
}

void SignBook::ReducedToOne(const std::map<uint32_t, int>& ranks, model::Verdict* verdict) const {
  const model::Finding& main = verdict->main;
  const bool absent = main.verdict == model::VerdictKind::kRankNotJoined ||
                      main.verdict == model::VerdictKind::kHostBlocked;
  if (!absent) return;
  for (const auto& [id, rank] : ranks) {
    if (std::find(main.culprit_ranks.begin(), main.culprit_ranks.end(), rank) ==
        main.culprit_ranks.end())
      continue;
    const auto found = processes_.find(id);
    if (found == processes_.end() || !found->second.last.reduce) continue;
    const LastCollective& last = found->second.last;
    const auto own = found->second.ranks.find(last.comm);
    if (own == found->second.ranks.end() || own->second == last.root) continue;
    verdict->signs.push_back(
        {"reduced-to-one",
         {rank},
         fmt::format(
             "the last collective of rank {} was a Reduce to another rank: it does not have the "
             "result",
             rank)});
  }
}

void SignBook::Settings(const std::map<uint32_t, int>& ranks, model::Verdict* verdict) const {
  std::vector<std::pair<int, const std::map<std::string, std::string>*>> told;
  for (const auto& [id, rank] : ranks) {
    const auto found = processes_.find(id);
    if (found != processes_.end()) told.emplace_back(rank, &found->second.settings);
  }
  std::vector<int> blocking;
  const std::string blocks = "CUDA_LAUNCH_BLOCKING";
  for (const auto& [rank, settings] : told) {
    const auto set = settings->find(blocks);
    if (set != settings->end() && !set->second.empty() && set->second != "0")
      blocking.push_back(rank);
  }
  std::sort(blocking.begin(), blocking.end());
  if (!blocking.empty()) {
    verdict->signs.push_back({"blocking-launches", blocking,
                              "CUDA_LAUNCH_BLOCKING is set for " + model::RankList(blocking)});
  }
  size_t shown = 0;
  for (const char* name : kAgreed) {
    const std::string key = name, not_set = "not set";
    std::map<std::string, std::vector<int>> by_value;
    auto at = by_value.end();  // mostly equal to the previous one
    for (const auto& [rank, settings] : told) {
      const auto set = settings->find(key);
      const std::string& value = set == settings->end() ? not_set : set->second;
      if (at == by_value.end() || at->first != value) at = by_value.try_emplace(value).first;
      at->second.push_back(rank);
    }
    if (by_value.size() < 2 || shown++ == kMostSigns) continue;
    std::string text;
    std::vector<int> everybody;
    for (auto& [value, who] : by_value) {
      std::sort(who.begin(), who.end());
      text += (text.empty() ? "" : "; ") + fmt::format("{} for {}", value, model::RankList(who));
      everybody.insert(everybody.end(), who.begin(), who.end());
    }
    std::sort(everybody.begin(), everybody.end());
    verdict->signs.push_back({"settings-differ", everybody, std::string(name) + ": " + text});
  }
}

}  // namespace gordian::analyzer
