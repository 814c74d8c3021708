#include "analyzer/server/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/graph/check_catalogue.h"
#include "analyzer/server/stack_text.h"
#include "analyzer/server/text_layout.h"

namespace gordian::server {
namespace {

using graph::Finding;
using graph::PartState;
using graph::VerdictKind;

constexpr size_t kMaxEdgesOnScreen = 6;
constexpr size_t kMaxOperationsOnScreen = 3;
constexpr size_t kMaxPartsOnScreen = 4;
constexpr size_t kMaxNotesOnScreen = 4;
constexpr size_t kMaxRanksInHeadline = 5;
constexpr double kMaxSeconds = 1e7;  // as far as a report counts
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
    case VerdictKind::kStraggler:
      return "STRAGGLER";
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

// Sentence starts of analyzer texts may be capital; after a colon they are not. Names of calls
// ("AllReduce") stay as they are.
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
  return rank < 0 ? "a rank that is not known" : fmt::format("rank {}", rank);
}

// The ranks along the witness, without repetition of neighbours; empty unless it closes.
std::vector<int> RanksOfCircle(const Finding& finding) {
  std::vector<int> ranks;
  for (const graph::WaitEdge& edge : finding.cycle) {
    if (ranks.empty() || ranks.back() != edge.rank) ranks.push_back(edge.rank);
  }
  if (ranks.size() > 1 && ranks.back() == ranks.front()) ranks.pop_back();
  const bool closes =
      !finding.cycle.empty() && finding.cycle.back().waits_for_rank == finding.cycle.front().rank;
  if (!closes || ranks.empty()) ranks.clear();
  return ranks;
}

// The headline draws the circle, instead of the summary.
bool TellsTheCircle(const Finding& finding) {
  return finding.verdict == VerdictKind::kDeadlock && !RanksOfCircle(finding).empty();
}

std::string WhoWaitsForWhom(const Finding& finding, size_t width) {
  const std::vector<int> ranks = RanksOfCircle(finding);
  const std::string summary = Uncapitalised(Printable(finding.summary));
  if (!TellsTheCircle(finding)) return CutAtWord(summary, width);
  if (ranks.size() == 1) {
    const std::string alone = fmt::format("{} waits for itself", RankName(ranks[0]));
    return alone.size() <= width ? alone : CutAtWord(summary, width);
  }
  std::string chain = RankName(ranks[0]) + " waits for ";
  for (size_t i = 1; i < ranks.size(); ++i) chain += RankName(ranks[i]) + ", which waits for ";
  chain += RankName(ranks[0]);
  if (ranks.size() <= kMaxRanksInHeadline && chain.size() <= width) return chain;
  std::string circle = "ranks wait in a circle: ";
  for (size_t i = 0; i < ranks.size(); ++i) circle += fmt::format("{} > ", ranks[i]);
  circle += fmt::format("{}", ranks[0]);
  if (circle.size() <= width) return circle;
  circle = fmt::format("{} ranks wait in a circle: {} > {} > ... > {}", ranks.size(), ranks[0],
                       ranks[1], ranks[0]);
  return CutTo(circle, width);
}

std::string CommunicatorName(graph::CommUid comm, const std::string& name) {
  if (!name.empty()) return Printable(name);
  return comm == 0 ? "" : fmt::format("communicator {:016x}", comm);
}

std::string OperationName(const std::string& op, graph::CommUid comm, const std::string& comm_name,
                          int64_t sequence, uint64_t bytes) {
  std::string text = op.empty() ? "an unknown operation" : Printable(op);
  if (sequence >= 0) text += fmt::format(" #{}", sequence);
  const std::string on = CommunicatorName(comm, comm_name);
  if (!on.empty()) text += " on " + on;
  if (bytes > 0) text += " (" + HumanBytes(bytes) + ")";
  return text;
}

// "waits for rank 1, which has not started it".
std::string WaitPhrase(const graph::WaitEdge& edge) {
  const std::string other = RankName(edge.waits_for_rank);
  const bool own = edge.rank == edge.waits_for_rank;
  const std::string& reason = edge.reason;
  if (reason == "started_collective") return "waits for " + other + ", which has not started it";
  if (reason == "first_use") {
    return "waits for " + other + " to use the communicator for the first time";
  }
  if (reason == "receive" || reason == "send") {
    const bool receiving = edge.op.find("Recv") != std::string::npos;
    return "waits for " + other + (receiving ? ", which has not sent" : ", which has not received");
  }
  if (reason == "signal") return "waits for a signal of " + other + ", which has not sent it";
  if (reason == "communicator_init") {
    return "waits for " + other + ", which has not joined in making the communicator";
  }
  if (reason == "communicator_call") {
    return "waits for " + other + ", which has not made this call";
  }
  if (reason == "not_called") return "waits for " + other + ", which has not called it";
  if (reason == "open_group") {
    return "waits for " + other + ", which called it in a group that it has not ended";
  }
  if (reason == "communicator_order") {
    return "waits for an earlier operation of the same communicator, held up by " + other;
  }
  if (reason == "legacy_stream") {
    return "waits for work on its device before the legacy default stream may go on" +
           (own ? std::string() : ", held up by " + other);
  }
  if (reason == "graph_order") {
    return "waits behind an operation of the same CUDA graph" +
           (own ? std::string() : ", held up by " + other);
  }
  if (reason == "launch_order") {
    return "waits until an operation that was called before it has started, held up by " + other;
  }
  if (reason == "resources") {
    return "waits for a hardware queue or multiprocessors, held by what " + other + " waits in";
  }
  std::string what = "waits";
  if (reason == "memory_wait") what = "waits for a value that a stream has yet to write";
  if (reason == "stream_order") what = "waits behind earlier work on its stream";
  if (reason == "event_wait") what = "waits for an event that has not happened";
  if (reason == "host_sync") what = "blocks the host until work on the device is done";
  if (reason == "host_free") what = "frees memory, which waits for all work on the device";
  if (reason == "host_copy") what = "copies synchronously, behind work on the device";
  if (reason == "polling") what = "polls until work on the device is done";
  return own ? what : what + ", held up by " + other;
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
  std::string head = fmt::format("gordian: {}", Title(finding.verdict));
  if (IsProblem(finding.verdict)) {
    head += fmt::format(" ({}", graph::Name(finding.confidence));
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
                        : finding.confidence == graph::Confidence::kConfirmed ? "\033[1;31m"
                                                                              : "\033[1;33m";
    const std::string headline = Headline(finding, options_);
    const std::string summary = Printable(finding.summary);
    const std::string in_full = HeadlineStart(finding) + Uncapitalised(summary);
    if (!TellsTheCircle(finding) && !summary.empty()) {
      // Nothing need be cut here.
      std::string lines = Wrap("", "  ", in_full, width_);
      lines.pop_back();
      return Coloured(style, lines);
    }
    Coloured(style, headline);
    // What the headline said in its own words.
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
      const graph::WaitEdge& edge = finding.cycle[i];
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
    for (const graph::StuckOperation& operation : finding.operations) {
      if (shown == limit) {
        text_ += fmt::format("  ... {} more, see `gordian explain`\n",
                             finding.operations.size() - shown);
        break;
      }
      ++shown;
      Operation(operation, parts);
    }
  }

  void Restarted(const graph::Restarts& restarts) {
    if (restarts.times <= 0) return;
    const std::string often =
        restarts.times == 1 ? "once" : fmt::format("up to {} times", restarts.times);
    Labelled("restarted",
             RankList(restarts.ranks) + ", " + often +
                 (restarts.because.empty() ? "" : ", after " + Printable(restarts.because)));
  }

  void Victims(const Finding& finding) {
    if (finding.victim_ranks.empty()) return;
    const bool many = finding.victim_ranks.size() > 1;
    if (graph::IsOver(finding)) {
      Labelled("victims", fmt::format("{} may have wrong data because of this and {} not the cause",
                                      RankList(finding.victim_ranks), many ? "are" : "is"));
      return;
    }
    Labelled("victims",
             fmt::format("{} {} behind this and {} not the cause", RankList(finding.victim_ranks),
                         many ? "wait" : "waits", many ? "are" : "is"));
  }

  void Culprits(const Finding& finding) {
    if (finding.culprit_ranks.empty() || !IsProblem(finding.verdict)) return;
    // Where groups differ, each rank called the same.
    Labelled("cause",
             finding.verdict == VerdictKind::kMismatch && finding.check != "mismatch-grouping"
                 ? RankList(finding.culprit_ranks) + " called something else"
                 : "look at " + RankList(finding.culprit_ranks) + " first");
  }

  void Signs(const graph::Verdict& verdict, bool of_stacks_only = false) {
    for (const graph::Sign& sign : verdict.signs) {
      const std::string_view unit = graph::CheckById(sign.check).threshold.unit;
      if (of_stacks_only && unit != "stacks") continue;
      Labelled("sign", fmt::format("{} ({})", Printable(sign.text), Printable(sign.check)));
    }
  }

  void SignsInFull(const graph::Verdict& verdict) {
    if (verdict.signs.empty()) return;
    Section("What may be why");
    for (const graph::Sign& sign : verdict.signs) {
      text_ += Wrap("  ", "    ",
                    fmt::format("{} ({})", Printable(sign.text), Printable(sign.check)), width_);
      const char* const advice = graph::CheckById(sign.check).advice;
      if (graph::FindCheck(sign.check) != nullptr) text_ += Wrap("    ", "    ", advice, width_);
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

  void Further(const graph::Verdict& verdict, size_t limit) {
    if (verdict.findings.empty()) return;
    std::vector<std::string> lines;
    for (const Finding& finding : verdict.findings) {
      lines.push_back(fmt::format("{} ({}): {}", graph::Name(finding.verdict),
                                  graph::Name(finding.confidence), Printable(finding.summary)));
    }
    List("also", lines, limit);
  }

  void Evidence(const Finding& finding) {
    const graph::Evidence& evidence = finding.evidence;
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
    Labelled("next", "gordian explain " + Printable(options_.session));
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

  std::string SiteText(const graph::Site& site) const {
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

  // One line for all members that are in the same state at the same place.
  void Operation(const graph::StuckOperation& operation, size_t limit) {
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
    for (const graph::OperationMember& member : operation.members) {
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
    // Who is missing is what people look for.
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Part& a, const Part& b) { return a.state < b.state; });
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == limit) {
        text_ += fmt::format("    ... {} more, see `gordian explain`\n", parts.size() - i);
        break;
      }
      const Part& part = parts[i];
      std::string line = RankList(part.ranks) + " " + StateWords(part.state, part.ranks.size() > 1);
      if (!part.instead.empty()) line += ": " + Printable(part.instead);
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

std::string Headline(const graph::Finding& finding, const ReportOptions& options) {
  const auto width = static_cast<size_t>(std::max(options.width, kMinWidth));
  const std::string head = HeadlineStart(finding);
  if (finding.summary.empty() && finding.cycle.empty()) {
    return head.substr(0, head.size() - 2);
  }
  return head + WhoWaitsForWhom(finding, width - head.size());
}

std::string ReportText(const graph::Verdict& verdict, const SiteResolver& sites,
                       const ReportOptions& options) {
  Page page(sites, options);
  const Finding& main = verdict.main;
  page.Head(main);
  page.Cycle(main, kMaxEdgesOnScreen);
  if (main.cycle.empty()) page.Operations(main, kMaxOperationsOnScreen, kMaxPartsOnScreen);
  if (IsProblem(main.verdict)) page.Blank();
  page.Culprits(main);
  page.Victims(main);
  page.Restarted(verdict.restarts);
  page.Signs(verdict);
  page.Notes(main, kMaxNotesOnScreen);
  page.Further(verdict, kMaxNotesOnScreen);
  page.Stacks(StacksInShort(verdict.stacks));
  page.Advice(main);
  if (IsProblem(main.verdict)) page.Next();
  return page.Take();
}

std::string StacksText(const graph::Verdict& verdict, const ReportOptions& options) {
  const SiteResolver none;
  Page page(none, options);
  page.Stacks(StacksInShort(verdict.stacks));
  page.Signs(verdict, /*of_stacks_only=*/true);  // the others have been told with the verdict
  return page.Take();
}

std::string ExplainText(const graph::Verdict& verdict, const SiteResolver& sites,
                        const ReportOptions& options) {
  constexpr size_t kAll = static_cast<size_t>(-1);
  Page page(sites, options);
  const Finding& main = verdict.main;
  page.Head(main);
  page.Cycle(main, kAll);
  if (IsProblem(main.verdict)) page.Blank();
  page.Culprits(main);
  page.Victims(main);
  page.Restarted(verdict.restarts);
  page.Advice(main);
  if (!main.operations.empty()) {
    page.Section(graph::IsOver(main)           ? "What went wrong"
                 : main.operations.size() == 1 ? "What is stuck"
                                               : "Everything that is stuck");
    page.Operations(main, kAll, kAll);
  }
  for (const Finding& finding : verdict.findings) {
    page.Section(fmt::format("Further finding: {} ({})", graph::Name(finding.verdict),
                             graph::Name(finding.confidence)));
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

}  // namespace gordian::server
