#include "analyzer/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/comm_names.h"
#include "analyzer/model/verdict/number_text.h"
#include "analyzer/report/text_layout.h"
#include "analyzer/stacks/stack_text.h"
#include "common/shell_quote.h"
#include "common/utf8.h"

namespace gordian::analyzer {
namespace {

using model::Finding;
using model::PartState;
using model::VerdictKind;

constexpr size_t kMaxEdgesOnScreen = 6;
constexpr size_t kMaxOperationsOnScreen = 3;
constexpr size_t kMaxPartsOnScreen = 4;
constexpr size_t kMaxNotesOnScreen = 4;
constexpr size_t kMaxNamesOnLine = 8;
constexpr size_t kMaxRanksInHeadline = 5;
constexpr double kMaxSeconds = 1e7;  // the longest time that a report prints
constexpr int kMinWidth = 80;

const char* Title(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kInconclusive:
      return "INCONCLUSIVE";
    case VerdictKind::kHealthy:
      return "healthy";
    case VerdictKind::kFinished:
      return "finished";
    case VerdictKind::kDeadlock:
      return "DEADLOCK";
    case VerdictKind::kMismatch:
      return "MISMATCH";
    case VerdictKind::kRankNotJoined:
      return "RANK NOT JOINED";
    case VerdictKind::kRankExited:
      return "RANK EXITED";
    case VerdictKind::kRankStopped:
      return "RANK STOPPED";
    case VerdictKind::kRankAborted:
      return "RANK ABORTED";
    case VerdictKind::kStuckKernel:
      return "STUCK KERNEL";
    case VerdictKind::kHostBlocked:
      return "HOST BLOCKED";
    case VerdictKind::kInitHang:
      return "INIT HANG";
  }
  return "INCONCLUSIVE";
}

bool IsProblem(VerdictKind kind) {
  return kind != VerdictKind::kHealthy && kind != VerdictKind::kFinished;
}

// A text of the analyzer that follows a colon begins in lower case. Names of calls ("AllReduce")
// keep their capitals.
std::string Uncapitalised(std::string text) {
  const std::string_view word = std::string_view(text).substr(0, text.find_first_of(" ,;:."));
  const auto capitals =
      std::count_if(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (capitals == 1 && word.size() > 1 && word[0] >= 'A' && word[0] <= 'Z') {
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  }
  return text;
}

std::string RankName(int rank) {
  return rank < 0 ? "an unknown rank" : fmt::format("rank {}", rank);
}

// The ranks along the witness, without repeated neighbours; empty unless the witness closes.
std::vector<int> RanksOfCycle(const Finding& finding) {
  std::vector<int> ranks;
  for (const model::WaitEdge& edge : finding.cycle) {
    if (ranks.empty() || ranks.back() != edge.rank) ranks.push_back(edge.rank);
  }
  if (ranks.size() > 1 && ranks.back() == ranks.front()) ranks.pop_back();
  const bool closes =
      !finding.cycle.empty() && finding.cycle.back().waits_for_rank == finding.cycle.front().rank;
  if (!closes || ranks.empty()) ranks.clear();
  return ranks;
}

// True if the headline draws the cycle and so replaces the summary.
bool DrawsTheCycle(const Finding& finding) {
  return finding.verdict == VerdictKind::kDeadlock && !RanksOfCycle(finding).empty();
}

std::string WhoWaitsForWhom(const Finding& finding, size_t width) {
  const std::vector<int> ranks = RanksOfCycle(finding);
  const std::string summary = Uncapitalised(Printable(finding.summary));
  if (!DrawsTheCycle(finding)) return CutAtWord(summary, width);
  if (ranks.size() == 1) {
    const std::string alone = fmt::format("{} waits for itself", RankName(ranks[0]));
    return alone.size() <= width ? alone : CutAtWord(summary, width);
  }
  std::string chain = RankName(ranks[0]) + " waits for ";
  for (size_t i = 1; i < ranks.size(); ++i) chain += RankName(ranks[i]) + ", which waits for ";
  chain += RankName(ranks[0]);
  if (ranks.size() <= kMaxRanksInHeadline && chain.size() <= width) return chain;
  std::string cycle = "ranks wait in a cycle: ";
  for (size_t i = 0; i < ranks.size(); ++i) cycle += fmt::format("{} > ", ranks[i]);
  cycle += fmt::format("{}", ranks[0]);
  if (cycle.size() <= width) return cycle;
  cycle = fmt::format("{} ranks wait in a cycle: {} > {} > ... > {}", ranks.size(), ranks[0],
                      ranks[1], ranks[0]);
  return CutTo(cycle, width);
}

std::string CommunicatorName(model::CommUid comm, const std::string& name) {
  if (!name.empty()) return Printable(name);
  return comm == 0 ? "" : fmt::format("communicator {:016x}", comm);
}

std::string OperationName(const std::string& op, model::CommUid comm, const std::string& comm_name,
                          int64_t sequence, uint64_t bytes) {
  std::string text = op.empty() ? "an unknown operation" : Printable(op);
  if (sequence >= 0) text += " " + model::NumberText(static_cast<uint64_t>(sequence));
  const std::string on = CommunicatorName(comm, comm_name);
  if (!on.empty()) text += " on " + on;
  if (bytes > 0) text += " (" + HumanBytes(bytes) + ")";
  return text;
}

// "waits for rank 1, which has not started it".
std::string WaitPhrase(const model::WaitEdge& edge) {
  using model::Reason;
  const std::string other = RankName(edge.waits_for_rank);
  const std::string held_up =
      edge.rank == edge.waits_for_rank ? std::string() : ", held up by " + other;
  switch (edge.reason) {
    case Reason::kStartedCollective:
      return "waits for " + other + ", which has not started it";
    case Reason::kFirstUse:
      return "waits for " + other + " to use the communicator for the first time";
    case Reason::kReceive:
    case Reason::kSend: {
      // NCCL's Recv, torch.distributed's recv.
      const bool receiving = edge.op.find("ecv") != std::string::npos;
      return "waits for " + other +
             (receiving ? ", which has not sent" : ", which has not received");
    }
    case Reason::kSignal:
      return "waits for a signal of " + other + ", which has not sent it";
    case Reason::kCommunicatorInit:
      return "waits for " + other + ", which has not joined in creating the communicator";
    case Reason::kCommunicatorCall:
      return "waits for " + other + ", which has not made this call";
    case Reason::kNotCalled:
      return "waits for " + other + ", which has not called it";
    case Reason::kOpenGroup:
      return "waits for " + other + ", which called it in a group that it has not ended";
    case Reason::kCommunicatorOrder:
      return "waits for an earlier operation of the same communicator, held up by " + other;
    case Reason::kLaunchOrder:
      return "waits until an operation that was called before it has started, held up by " + other;
    case Reason::kResources:
      return "waits for a hardware queue or multiprocessors, held by the operation that " + other +
             " waits in";
    case Reason::kLegacyStream:
      return "waits for work on its device before the legacy default stream may go on" + held_up;
    case Reason::kGraphOrder:
      return "waits behind an operation of the same CUDA graph" + held_up;
    case Reason::kMemoryWait:
      return "waits for a value that a stream has yet to write" + held_up;
    case Reason::kStreamOrder:
      return "waits behind earlier work on its stream" + held_up;
    case Reason::kEventWait:
      return "waits for an event that has not happened" + held_up;
    case Reason::kHostSync:
      return "blocks the host until work on the device is done" + held_up;
    case Reason::kHostFree:
      return "frees memory, which waits for all work on the device" + held_up;
    case Reason::kHostCopy:
      return "copies synchronously, behind work on the device" + held_up;
    case Reason::kStoreKey:
      return "waits for a key of the store that no process has set" + held_up;
    case Reason::kHostOperation:
      return "waits for an operation of its process group" + held_up;
    case Reason::kPolling:
      return "polls until work on the device is done" + held_up;
  }
  return "waits" + held_up;
}

std::string StateWords(PartState state, bool many) {
  switch (state) {
    case PartState::kNotCalled:
      return many ? "have not called it" : "has not called it";
    case PartState::kCalled:
      return many ? "are in the call" : "is in the call";
    case PartState::kInOpenGroup:
      return many ? "called it in a group that they have not ended"
                  : "called it in a group that it has not ended";
    case PartState::kEnqueued:
      return many ? "have it behind earlier work on their streams"
                  : "has it behind earlier work on its stream";
    case PartState::kAtHead:
      return many ? "have joined and wait in it" : "has joined and waits in it";
    case PartState::kDone:
      return many ? "are done with it" : "is done with it";
  }
  return "";
}

// "gordian: DEADLOCK (confirmed after 0.21 s): ".
std::string HeadlineStart(const Finding& finding) {
  if (model::OnlySlow(finding)) return "gordian: waiting: ";
  std::string head = fmt::format("gordian: {}", Title(finding.verdict));
  if (IsProblem(finding.verdict) && finding.verdict != VerdictKind::kInconclusive) {
    head += fmt::format(" ({}", model::Name(finding.confidence));
    if (finding.detected_after_s > 0) {
      head += fmt::format(" after {:.2f} s", std::min(finding.detected_after_s, kMaxSeconds));
    }
    head += ")";
  }
  return head + ": ";
}

class Page {
 public:
  Page(const SiteResolver& sites, const ReportOptions& options)
      : sites_(sites),
        options_(options),
        width_(static_cast<size_t>(std::max(options.width, kMinWidth))) {}

  std::string Take() { return std::move(text_); }

  void Blank() { text_ += "\n"; }

  void Head(const Finding& finding) {
    const char* style = !IsProblem(finding.verdict)                           ? "\033[1;32m"
                        : finding.confidence == model::Confidence::kConfirmed ? "\033[1;31m"
                                                                              : "\033[1;33m";
    const std::string headline = Headline(finding, options_);
    const std::string summary = Printable(finding.summary);
    const std::string in_full = HeadlineStart(finding) + Uncapitalised(summary);
    if (!DrawsTheCycle(finding) && !summary.empty()) {
      // The long form cuts nothing.
      std::string lines = Wrap("", "  ", in_full, width_);
      lines.pop_back();
      return Coloured(style, lines);
    }
    Coloured(style, headline);
    // Omits a summary that the headline already gives.
    if (!summary.empty() && headline != in_full) text_ += Wrap("  ", summary, width_);
  }

  void Cycle(const Finding& finding, size_t limit) {
    const size_t count = finding.cycle.size();
    if (count == 0) return;
    const bool closes = finding.cycle.back().waits_for_rank == finding.cycle.front().rank;
    const char* const bar = closes ? "  |   " : "      ";
    Blank();
    for (size_t i = 0; i < count; ++i) {
      if (count > limit && i == limit - 1 && i + 1 < count) {
        text_ += fmt::format("{}... {} more, see `gordian explain`\n", bar, count - limit);
        text_ += fmt::format("{}|\n{}v\n", Deeper(bar), Deeper(bar));
        i = count - 1;
      }
      const model::WaitEdge& edge = finding.cycle[i];
      const char* const first = i == 0 && closes ? "  +-> " : bar;
      text_ +=
          Wrap(first, std::string(bar) + "    ",
               RankName(edge.rank) + ": " +
                   OperationName(edge.op, edge.comm, edge.comm_name, edge.sequence, edge.bytes),
               width_);
      const std::string inner = std::string(bar) + "    ";
      if (std::string site = SiteText(edge.site); !site.empty()) {
        text_ += inner + "at ";
        Coloured("\033[36m", CutTo(site, width_ - inner.size() - 3));
      }
      text_ += Wrap(inner, inner + "  ", WaitPhrase(edge), width_);
      if (!edge.detail.empty()) {
        const std::string detail = Printable(edge.detail);
        const bool sentence = detail.starts_with("rank ");
        text_ +=
            Wrap(inner, inner + "  ", sentence ? "because " + detail : "(" + detail + ")", width_);
      }
      if (i + 1 < count) text_ += fmt::format("{}|\n{}v\n", Deeper(bar), Deeper(bar));
    }
    if (closes) text_ += "  +------+\n";
  }

  void Operations(const Finding& finding, size_t limit, size_t parts) {
    size_t shown = 0;
    for (const model::StuckOperation& operation : finding.operations) {
      if (shown == limit) {
        text_ += fmt::format("  ... {} more, see `gordian explain`\n",
                             finding.operations.size() - shown);
        break;
      }
      ++shown;
      Operation(operation, parts);
    }
  }

  void Restarted(const model::Restarts& restarts) {
    if (restarts.times <= 0) return;
    const std::string often =
        restarts.times == 1 ? "once" : fmt::format("up to {} times", restarts.times);
    Labelled("restarted",
             RankList(restarts.ranks) + ", " + often +
                 (restarts.because.empty() ? "" : ", after " + Printable(restarts.because)));
  }

  // `session`: the folder with the evidence.
  void Disproved(const model::Verdict& verdict, const std::string& session) {
    for (const Finding& finding : verdict.disproved) {
      Labelled("gordian was wrong",
               "it called this a confirmed deadlock, and the operations ended: " +
                   Printable(finding.summary));
    }
    if (verdict.disproved.empty()) return;
    Labelled("please report it", session.empty()
                                     ? "with the session's folder, which holds the evidence"
                                     : "with " + session + ", which holds the evidence");
  }

  void Victims(const Finding& finding) {
    if (finding.victim_ranks.empty()) return;
    const bool many = finding.victim_ranks.size() > 1;
    if (model::IsOver(finding)) {
      Labelled("victims", fmt::format("{} may have wrong data because of this and {} not the cause",
                                      RankList(finding.victim_ranks), many ? "are" : "is"));
      return;
    }
    Labelled("victims",
             fmt::format("{} {} behind this and {} not the cause", RankList(finding.victim_ranks),
                         many ? "wait" : "waits", many ? "are" : "is"));
  }

  // The members of each communicator, and where the program made it; one line a place.
  void Communicators(const Finding& finding, size_t limit) {
    std::vector<std::pair<std::string, std::vector<std::string>>> by_place;
    for (const model::FoundCommunicator& comm : finding.communicators) {
      std::string place = SiteText(comm.made_at);
      std::string name = Printable(comm.name);
      const std::string members = model::MemberSet(
          {.ranks = comm.ranks, .unseen = comm.size - static_cast<int>(comm.ranks.size())});
      if (name.find(members) == std::string::npos) {
        name += " " + members;
      } else if (place.empty()) {
        continue;  // the finding has said all this
      }
      auto at = std::find_if(by_place.begin(), by_place.end(),
                             [&](const auto& known) { return known.first == place; });
      if (at == by_place.end()) {
        by_place.emplace_back(std::move(place), std::vector<std::string>());
        at = by_place.end() - 1;
      }
      at->second.push_back(std::move(name));
    }
    for (size_t i = 0; i < by_place.size(); ++i) {
      const auto& [place, names] = by_place[i];
      if (i == limit) {
        Labelled("communicators",
                 fmt::format("made at {} more places, see `gordian explain`", by_place.size() - i));
        return;
      }
      std::string list;
      const size_t shown = std::min(names.size(), kMaxNamesOnLine);
      for (size_t n = 0; n < shown; ++n) list += (n == 0 ? "" : ", ") + names[n];
      if (shown < names.size()) list += fmt::format(" and {} more", names.size() - shown);
      Labelled(names.size() == 1 ? "communicator" : "communicators",
               list + (place.empty() ? "" : ", made at " + place));
    }
  }

  void Culprits(const Finding& finding) {
    if (finding.culprit_ranks.empty() || !IsProblem(finding.verdict)) return;
    // In mismatch-grouping every rank called the same operation, only grouped differently.
    Labelled("cause",
             finding.verdict == VerdictKind::kMismatch && finding.check != "mismatch-grouping"
                 ? RankList(finding.culprit_ranks) + " called something else"
                 : "look at " + RankList(finding.culprit_ranks) + " first");
  }

  void Signs(const model::Verdict& verdict, bool of_stacks_only = false) {
    for (const model::Sign& sign : verdict.signs) {
      const std::string_view unit = model::CheckById(sign.check).threshold.unit;
      if (of_stacks_only && unit != "stacks") continue;
      Labelled("sign", fmt::format("{} ({})", Printable(sign.text), Printable(sign.check)));
    }
  }

  void SignsInFull(const model::Verdict& verdict) {
    if (verdict.signs.empty()) return;
    Section("What may be why");
    for (const model::Sign& sign : verdict.signs) {
      text_ += Wrap("  ", "    ",
                    fmt::format("{} ({})", Printable(sign.text), Printable(sign.check)), width_);
      const char* const advice = model::CheckById(sign.check).advice;
      if (model::FindCheck(sign.check) != nullptr) text_ += Wrap("    ", "    ", advice, width_);
    }
  }

  void Notes(const Finding& finding, size_t limit) {
    List("not seen", finding.evidence.not_visible, limit);
    List("assumed", finding.evidence.assumes, limit);
    if (finding.evidence.records_lost > 0) {
      Labelled("lost",
               fmt::format("{} of the calls that the ranks made", finding.evidence.records_lost));
    }
  }

  void Advice(const Finding& finding) {
    if (finding.advice.empty()) return;
    Blank();
    Labelled("what to change", Printable(finding.advice));
  }

  // What a recovery has done about a cycle, or could.
  void Recovery(const Finding& finding) {
    const model::Recovery& recovery = finding.recovery;
    if (!recovery.checked) return;
    const size_t count = recovery.operations.size();
    if (recovery.recovered) {
      Labelled("recovered",
               fmt::format("the preemptive runtime executed {} operation{} again, in {:.1f} ms",
                           count, count == 1 ? "" : "s", recovery.ms));
    } else if (recovery.refused == model::RecoveryCondition::kFailed) {
      Labelled("not recovered", Printable(recovery.why));
    } else if (recovery.refused == model::RecoveryCondition::kHold) {
      Labelled("recovery",
               "as far as the records show, --on-verdict recover could let the job go on");
    } else {
      const std::string place = SiteText(recovery.site);
      Labelled("recovery",
               fmt::format("not possible ({}): {}{}", model::Name(recovery.refused),
                           Printable(recovery.why), place.empty() ? "" : ", at " + place));
    }
    if (!recovery.lend.empty()) {
      Labelled("without a change",
               fmt::format("{} gives these communicators to gordian's runtime, which completes "
                           "collectives in any order",
                           ShownQuote(fmt::format("--collectives=preemptive:{}",
                                                  fmt::join(recovery.lend, ",")))));
    }
  }

  void Further(const model::Verdict& verdict, size_t limit) {
    if (verdict.findings.empty()) return;
    std::vector<std::string> lines;
    for (const Finding& finding : verdict.findings) {
      lines.push_back(fmt::format("{} ({}): {}", model::Name(finding.verdict),
                                  model::Name(finding.confidence), Printable(finding.summary)));
    }
    List("also", lines, limit);
  }

  void Evidence(const Finding& finding) {
    const model::Evidence& evidence = finding.evidence;
    Blank();
    Coloured("\033[1m", "Evidence");
    text_ += fmt::format("  check            {}\n", Printable(finding.check));
    text_ += fmt::format("  ranks            {} of {} seen\n", evidence.ranks_seen,
                         evidence.ranks_expected);
    text_ +=
        fmt::format("  records          {}, {} lost\n", evidence.records, evidence.records_lost);
    text_ += fmt::format("  NCCL calls       {}\n", evidence.nccl_calls);
    if (finding.stalled_at_ns > 0) {
      text_ += fmt::format("  last progress    at {:.3f} s of the node's monotonic clock\n",
                           static_cast<double>(finding.stalled_at_ns) / 1e9);
      text_ += fmt::format("  decided          {:.3f} s later\n",
                           std::min(finding.detected_after_s, kMaxSeconds));
    }
    Lines("not seen", evidence.not_visible);
    Lines("assumed", evidence.assumes);
  }

  void Section(const std::string& title) {
    Blank();
    Coloured("\033[1m", title);
  }

  void Next() {
    if (options_.session.empty()) return;
    // In one line, so that it can be copied.
    text_ += std::string(options_.color ? "\033[1mnext\033[0m" : "next") + ": gordian explain " +
             ShownQuote(options_.session) + "\n";
  }

  void Stacks(const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    Blank();
    Coloured("\033[1m", "where the threads are:");
    Text(lines);
  }

  void Text(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) text_ += CutTo(line, width_) + "\n";
  }

  void Indented(const std::string& text) { text_ += Wrap("  ", Printable(text), width_); }

 private:
  static std::string Deeper(std::string_view bar) { return std::string(bar) + "  "; }

  std::string SiteText(const model::Site& site) const {
    return site.address == 0 ? "" : Printable(sites_(site));
  }

  void Coloured(const char* style, const std::string& line) {
    text_ += options_.color ? style + line + "\033[0m\n" : line + "\n";
  }

  void Labelled(const std::string& label, const std::string& text) {
    const std::string start = fmt::format("{}: ", label);
    std::string lines = Wrap(start, "  ", text, width_);
    if (options_.color) lines = "\033[1m" + label + "\033[0m" + lines.substr(label.size());
    text_ += lines;
  }

  void List(const std::string& label, const std::vector<std::string>& items, size_t limit) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i == limit) {
        Labelled(label, fmt::format("{} more, see `gordian explain`", items.size() - i));
        return;
      }
      Labelled(label, Printable(items[i]));
    }
  }

  void Lines(const std::string& label, const std::vector<std::string>& items) {
    for (const std::string& item : items) {
      text_ += Wrap(fmt::format("  {:<17}", label), Printable(item), width_);
    }
  }

  // Prints one line for all members in the same state at the same place.
  void Operation(const model::StuckOperation& operation, size_t limit) {
    Blank();
    text_ += Wrap("  ", "    ",
                  OperationName(operation.op, operation.comm, operation.comm_name,
                                operation.sequence, operation.bytes),
                  width_);
    struct Part {
      PartState state;
      std::string instead, site;
      std::vector<int> ranks;
    };
    std::vector<Part> parts;
    for (const model::OperationMember& member : operation.members) {
      const std::string site = SiteText(member.site);
      auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
        return part.state == member.state && part.instead == member.instead && part.site == site;
      });
      if (same == parts.end()) {
        parts.push_back({member.state, member.instead, site, {}});
        same = parts.end() - 1;
      }
      same->ranks.push_back(member.rank);
    }
    // People look for the missing members first.
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.state < b.state; });
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == limit) {
        text_ += fmt::format("    ... {} more, see `gordian explain`\n", parts.size() - i);
        break;
      }
      const Part& part = parts[i];
      std::string line = RankList(part.ranks) + " " + StateWords(part.state, part.ranks.size() > 1);
      if (!part.instead.empty())
        line += (part.ranks.size() > 1 ? ": each " : ": ") + Printable(part.instead);
      if (!part.site.empty()) line += " at " + part.site;
      text_ += Wrap("    ", "      ", line, width_);
    }
  }

  const SiteResolver& sites_;
  const ReportOptions& options_;
  const size_t width_;
  std::string text_;
};

}  // namespace

std::string Headline(const model::Finding& finding, const ReportOptions& options) {
  const auto width = static_cast<size_t>(std::max(options.width, kMinWidth));
  const std::string head = HeadlineStart(finding);
  if (finding.summary.empty() && finding.cycle.empty()) {
    return head.substr(0, head.size() - 2);
  }
  return head + WhoWaitsForWhom(finding, width - head.size());
}

std::string ReportText(const model::Verdict& verdict, const SiteResolver& sites,
                       const ReportOptions& options) {
  Page page(sites, options);
  const Finding& main = verdict.main;
  page.Head(main);
  page.Cycle(main, kMaxEdgesOnScreen);
  if (main.cycle.empty()) page.Operations(main, kMaxOperationsOnScreen, kMaxPartsOnScreen);
  if (IsProblem(main.verdict)) page.Blank();
  page.Culprits(main);
  page.Victims(main);
  page.Communicators(main, kMaxNotesOnScreen);
  page.Restarted(verdict.restarts);
  page.Disproved(verdict, options.session);
  page.Signs(verdict);
  page.Notes(main, kMaxNotesOnScreen);
  page.Further(verdict, kMaxNotesOnScreen);
  page.Stacks(StacksInShort(verdict.stacks));
  page.Advice(main);
  if (IsProblem(main.verdict)) page.Next();
  return page.Take();
}

std::string SentenceText(const Finding& finding, const ReportOptions& options) {
  const auto width = static_cast<size_t>(std::max(options.width, kMinWidth));
  return Wrap("", "  ", HeadlineStart(finding) + Uncapitalised(Printable(finding.summary)), width);
}

std::string UnseenRanksText(const Finding& finding, const ReportOptions& options) {
  const model::Evidence& evidence = finding.evidence;
  if (evidence.nccl_calls == 0) return "";
  const auto width = static_cast<size_t>(std::max(options.width, kMinWidth));
  const auto silent = static_cast<int>(std::count_if(
      evidence.not_visible.begin(), evidence.not_visible.end(),
      [](const std::string& text) { return text.starts_with("NCCL calls of rank "); }));
  const int seen = evidence.ranks_seen - silent;
  const int others = evidence.ranks_expected - seen;
  if (seen <= 0 || others <= 0) return "";
  return Wrap(
      "", "  ",
      fmt::format("gordian: {} of {} ranks seen; what involves the other{} is a suspicion at "
                  "most, or unseen (gordian doctor -- PROGRAM says what gordian can see)",
                  seen, evidence.ranks_expected, others == 1 ? "" : "s"),
      width);
}

std::string FurtherText(const Finding& finding, const ReportOptions& options) {
  const auto width = static_cast<size_t>(std::max(options.width, kMinWidth));
  std::string text = HeadlineStart(finding) + Uncapitalised(Printable(finding.summary));
  text.insert(text.find(": ") + 2, "also ");
  return Wrap("", "  ", text, width);
}

std::string DisprovedText(const model::Verdict& verdict, const ReportOptions& options) {
  const SiteResolver none;
  Page page(none, options);
  page.Disproved(verdict, options.session);
  return page.Take();
}

std::string StacksText(const model::Verdict& verdict, const ReportOptions& options) {
  const SiteResolver none;
  Page page(none, options);
  page.Stacks(StacksInShort(verdict.stacks));
  page.Signs(verdict, /*of_stacks_only=*/true);  // the verdict's part has printed the others
  return page.Take();
}

std::string ExplainText(const model::Verdict& verdict, const SiteResolver& sites,
                        const ReportOptions& options) {
  constexpr size_t kAll = static_cast<size_t>(-1);
  Page page(sites, options);
  const Finding& main = verdict.main;
  page.Head(main);
  page.Cycle(main, kAll);
  if (IsProblem(main.verdict)) page.Blank();
  page.Culprits(main);
  page.Victims(main);
  page.Communicators(main, kAll);
  page.Restarted(verdict.restarts);
  page.Disproved(verdict, options.session);
  page.Recovery(main);
  page.Advice(main);
  if (!main.operations.empty()) {
    page.Section(model::IsOver(main)           ? "What went wrong"
                 : main.operations.size() == 1 ? "What is stuck"
                                               : "Everything that is stuck");
    page.Operations(main, kAll, kAll);
  }
  for (const Finding& finding : verdict.findings) {
    page.Section(fmt::format("Further finding: {} ({})", model::Name(finding.verdict),
                             model::Name(finding.confidence)));
    page.Indented(finding.summary);
    page.Cycle(finding, kAll);
    page.Operations(finding, kAll, kAll);
    if (!finding.advice.empty()) page.Advice(finding);
  }
  page.SignsInFull(verdict);
  if (!verdict.stacks.empty()) {
    page.Section("Where the threads are");
    page.Text(StacksInFull(verdict.stacks));
  }
  page.Evidence(main);
  return page.Take();
}

}  // namespace gordian::analyzer
