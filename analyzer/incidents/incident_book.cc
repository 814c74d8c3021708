#include "analyzer/incidents/incident_book.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "analyzer/incidents/alert_document.h"
#include "analyzer/incidents/incidents_json.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/stacks/stack_merge.h"
#include "common/clock.h"
#include "common/service_thread.h"
#include "common/utf8.h"

namespace gordian::incidents {
namespace {

constexpr std::chrono::hours kHousekeeping(1);
constexpr size_t kMostQueued = 10'000;
constexpr size_t kMostCulprits = 64;  // that an incident names
constexpr size_t kMostJobs = 10'000;  // remembered
constexpr size_t kMostTextBytes = 64 << 10;

std::string Text(const std::string& text) {
  return Printable(CleanUtf8(text.substr(0, kMostTextBytes)));
}

std::string NewId() {
  std::array<unsigned char, 6> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    const uint64_t now = RealNs();
    std::copy_n(reinterpret_cast<const unsigned char*>(&now), random.size(), random.begin());
  }
  std::string id;
  for (const unsigned char byte : random) {
    id += "0123456789abcdef"[byte >> 4];
    id += "0123456789abcdef"[byte & 15];
  }
  return id;
}

Facts FactsOf(const model::Finding& finding, const std::string& node) {
  Facts facts{.verdict = model::Name(finding.verdict),
              .confidence = model::Name(finding.confidence),
              .check = Text(finding.check),
              .summary = Text(finding.summary),
              .advice = Text(finding.advice),
              .victims = analyzer::FoldedRanks(finding.victim_ranks)};
  facts.victims.resize(std::min(facts.victims.size(), kMostTextBytes));
  for (const int rank : finding.culprit_ranks) {
    if (facts.culprits.size() >= kMostCulprits) break;
    Culprit culprit{.rank = rank};
    for (const model::CulpritProcess& process : finding.culprit_processes) {
      if (process.rank != rank) continue;
      culprit.pid = process.pid;
      culprit.node = process.node.empty() ? node : Text(process.node);
      break;
    }
    facts.culprits.push_back(std::move(culprit));
  }
  return facts;
}

// A verdict, as far as the book needs it.
struct Told {
  JobNews news;
  Facts facts;
  bool trouble = false, confirmed = false, cannot_say = false, resumes = false;
  size_t disproved = 0;
  uint64_t time_ns = 0;
};
struct Done {
  Alert alert;
  bool sent = false;
};
struct AllResumed {};
struct Prepare {};
using Task = std::variant<Told, Done, AllResumed, Prepare>;

struct JobState {
  std::optional<Incident> incident;  // the latest
  size_t disproved = 0;
  std::vector<Alert> alerts;  // of the incident
  bool open() const { return incident && incident->ended_ns == 0; }
};

}  // namespace

class IncidentBook::Impl {
 public:
  explicit Impl(BookOptions options) : options_(std::move(options)) {
    AlertSenderOptions sender = options_.sender;
    sender.targets = options_.targets;
    sender.on_line = options_.on_line;
    sender.on_done = [this](const Alert& alert, bool sent) { Add(Done{alert, sent}); };
    sender_ = std::make_unique<AlertSender>(std::move(sender));
    thread_ = MakeServiceThread("gordian-book", [this] { Run(); });
  }
  ~Impl() { Stop(/*give_up=*/false); }

  void Add(Task task) {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() >= kMostQueued && std::holds_alternative<Told>(task)) {
      if (!std::exchange(full_said_, true)) spdlog::warn("incidents: too many verdicts at once");
      return;
    }
    tasks_.push_back(std::move(task));
    wake_.notify_all();
  }

  void Tell(const JobNews& news, const model::Verdict& verdict, bool resumes) {
    const model::Finding& main = verdict.main;
    const bool gone = main.verdict == model::VerdictKind::kRankExited ||
                      main.verdict == model::VerdictKind::kRankAborted;
    Told told{.news = news,
              .trouble = model::SaysTrouble(main.verdict) &&
                         main.confidence != model::Confidence::kPossible &&
                         !(news.interrupted && gone),
              .confirmed = main.confidence == model::Confidence::kConfirmed,
              .cannot_say = main.verdict == model::VerdictKind::kInconclusive,
              .resumes = resumes,
              .disproved = verdict.disproved.size(),
              .time_ns = RealNs()};
    told.news.job = Text(news.job);
    if (told.trouble) told.facts = FactsOf(main, options_.node);
    Add(std::move(told));
  }

  void SetPage(const std::string& address) {
    const std::lock_guard lock(mutex_);
    page_ = address;
  }

  bool Idle() const {
    const std::lock_guard lock(mutex_);
    return tasks_.empty() && !busy_ && sender_->Idle();
  }
  size_t unsent() const {
    const std::lock_guard lock(mutex_);
    return unsent_;
  }

  std::string Json(const std::string& session) const {
    std::shared_ptr<const OwnedFolder> folder;
    {
      const std::lock_guard lock(mutex_);
      if (no_store_) return "";
      folder = folder_;
    }
    if (folder == nullptr) return IncidentsJson({});  // there was no trouble yet
    StoreOptions options = options_.store;
    options.read_only = true;
    StatusOr<std::unique_ptr<IncidentStore>> store = IncidentStore::Open(*folder, options);
    if (!store.ok()) return "";
    StatusOr<std::vector<IncidentRecord>> all = (*store)->List({.session = session});
    return all.ok() ? IncidentsJson(*all) : "";
  }

  StatusOr<std::string> Acknowledge(const std::string& session, const std::string& id,
                                    const Acknowledgement& by) {
    StatusOr<std::string> whole = Write(session, id, by);
    const std::lock_guard lock(mutex_);
    if (whole.ok()) ++changes_;
    NoteStamp();  // to open the store writes to it, too
    return whole;
  }

  uint64_t changes() {
    const std::lock_guard lock(mutex_);
    // A run counts what others write once it has an incident of its own.
    if (NoteStamp() && (changes_ > 0 || !options_.runs)) ++changes_;
    return changes_;
  }

  void Stop(bool give_up) {
    sender_->Stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      give_up_ |= give_up;
      wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  StatusOr<std::string> Write(const std::string& session, const std::string& id,
                              const Acknowledgement& by) {
    std::shared_ptr<const OwnedFolder> folder;
    {
      const std::lock_guard lock(mutex_);
      folder = folder_;
    }
    const Status unknown = Status::NotFound("no incident has the id " + id);
    if (folder == nullptr) return unknown;
    StatusOr<std::unique_ptr<IncidentStore>> store = IncidentStore::Open(*folder, options_.store);
    GORDIAN_RETURN_IF_ERROR(store.status());
    std::string wanted = id;
    if (!session.empty()) {
      const StatusOr<std::vector<IncidentRecord>> ours = (*store)->List({.session = session});
      GORDIAN_RETURN_IF_ERROR(ours.status());
      const auto found = std::find_if(ours->begin(), ours->end(), [&](const auto& record) {
        return record.incident.id.starts_with(id);
      });
      if (found == ours->end() || id.empty()) return unknown;
      wanted = found->incident.id;
    }
    return (*store)->Acknowledge(wanted, by);
  }

  void Changed() {
    const std::lock_guard lock(mutex_);
    ++changes_;
    NoteStamp();  // what this book has written is counted
  }

  // Returns whether the store's files have changed since the last call. Other processes write them,
  // too: `gordian incidents --ack` for one. Reading changes none of them while this book holds the
  // store.
  bool NoteStamp() {
    Stamp now{};
    if (folder_ == nullptr) return false;
    for (size_t i = 0; i < now.size(); ++i) {
      struct stat about {};
      const std::string name = std::string(kStoreFile) + (i == 0 ? "" : "-wal");
      if (fstatat(folder_->fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) continue;
      now[i] = {about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_size};
    }
    const bool first = stamp_ == Stamp{};
    return std::exchange(stamp_, now) != now && !first;
  }

  void Run() {
    auto next = std::chrono::steady_clock::now() + kHousekeeping;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait_until(lock, next, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty() && stopping_) break;
      if (tasks_.empty()) {
        next = std::chrono::steady_clock::now() + kHousekeeping;
        lock.unlock();
        Housekeep();
        lock.lock();
        continue;
      }
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      lock.unlock();
      std::visit([this](const auto& one) { Do(one); }, task);
      lock.lock();
      busy_ = false;
    }
    lock.unlock();
    if (give_up_) GiveUp();
  }

  void Housekeep() {
    if (store_ == nullptr) {
      store_tried_ = false;
      if (!states_.empty()) Open();
    } else {
      Check(store_->Retain(RealNs()));
    }
  }

  void Do(const Prepare&) { Open(); }

  void Open() {
    if (store_ != nullptr || std::exchange(store_tried_, true) || !options_.open_folder) return;
    const Status status = OpenIn(options_.open_folder());
    {
      const std::lock_guard lock(mutex_);
      no_store_ = !status.ok();
    }
    if (!status.ok()) return Check(status);
    if (options_.runs) EndOfKilled();
  }

  Status OpenIn(StatusOr<OwnedFolder> opened) {
    GORDIAN_RETURN_IF_ERROR(opened.status());
    const auto folder = std::make_shared<const OwnedFolder>(std::move(opened).value());
    StatusOr<std::unique_ptr<IncidentStore>> store = IncidentStore::Open(*folder, options_.store);
    GORDIAN_RETURN_IF_ERROR(store.status());
    store_ = std::move(store).value();
    const std::lock_guard lock(mutex_);
    folder_ = folder;
    return Status::Ok();
  }

  // Says an error once, until something has gone well again.
  void Check(const Status& status) {
    if (status.ok()) {
      failed_ = false;
      return;
    }
    spdlog::warn("incidents: {}", status.message());
    if (std::exchange(failed_, true) || !options_.on_line) return;
    options_.on_line(status.message() + ": incidents are not kept; all else goes on");
  }

  // Other gordians that write into the same store, and were killed.
  void EndOfKilled() {
    StatusOr<std::vector<IncidentRecord>> open = store_->List({.open_only = true});
    if (!open.ok()) return Check(open.status());
    for (IncidentRecord& record : *open) {
      if (record.writer.host != options_.writer.host || options_.runs(record.writer)) continue;
      record.incident.ended_ns = RealNs();
      record.incident.how_ended = kNotKnown;
      Check(store_->Write(record.incident, record.writer, nullptr, {}));
    }
  }

  void Do(const Told& told) {
    const auto [found, is_new] = states_.try_emplace(told.news.session);
    JobState& state = found->second;
    if (told.trouble) Open();
    if (is_new) {
      if (!options_.runs) Recall(told, &state);
      state.disproved = told.disproved;
    }
    if (told.resumes) {
      resumed_.insert(told.news.session);
      // A verdict of its nodes may have been quicker.
      if (!is_new || !told.trouble) return;
    }
    if (state.incident && state.incident->last_revision >= told.news.revision) {
      // Another job has taken the folder of an earlier one.
      if (state.open()) End(&state, kNotKnown, told.time_ns);
      state = {};
    }
    const bool disproved = told.disproved > std::exchange(state.disproved, told.disproved);
    if (state.open()) {
      if (disproved) {
        End(&state, kDisproved, told.time_ns);
      } else if (told.trouble) {
        Continue(told, &state);
      } else if (!told.cannot_say || told.news.job_ended) {
        End(&state,
            told.news.killed_by_gordian                    ? kKilled
            : told.news.job_ended && told.news.interrupted ? kJobEnded
                                                           : kWithdrawn,
            told.time_ns);
      }
    }
    if (told.trouble && !state.open()) {
      // The last verdict of a job that has ended may say more of how it ended.
      const bool of_the_end =
          state.incident && told.news.job_ended &&
          (state.incident->how_ended == kJobEnded || state.incident->how_ended == kKilled);
      if (!of_the_end) {
        state.incident = Incident{.id = NewId(),
                                  .job = told.news.job,
                                  .session = told.news.session,
                                  .opened_ns = told.time_ns};
        state.alerts.clear();
      }
      Continue(told, &state);
    }
    if (told.news.job_ended && state.open()) {
      End(&state, told.news.killed_by_gordian ? kKilled : kJobEnded, told.time_ns);
    }
    ForgetSome();
  }

  // What an earlier process left in the store.
  void Recall(const Told& told, JobState* state) {
    if (store_ == nullptr || state->incident) return;
    StatusOr<std::optional<Incident>> latest = store_->Latest(told.news.session);
    if (!latest.ok()) return Check(latest.status());
    if (!*latest || (*latest)->ended_ns != 0) return;
    StatusOr<std::vector<Alert>> alerts = store_->AlertsOf((*latest)->id);
    if (!alerts.ok()) return Check(alerts.status());
    state->incident = **latest;
    state->alerts = std::move(alerts).value();
  }

  void Continue(const Told& told, JobState* state) {
    Incident& incident = *state->incident;
    incident.facts = told.facts;
    incident.last_revision = told.news.revision;
    if (told.confirmed && incident.confirmed_ns == 0) incident.confirmed_ns = told.time_ns;
    const Revision revision{.revision = told.news.revision,
                            .time_ns = told.time_ns,
                            .confidence = told.facts.confidence,
                            .verdict = told.facts.verdict,
                            .check = told.facts.check,
                            .summary = told.facts.summary};
    const char* const what = incident.confirmed_ns != 0 ? kConfirmed
                             : options_.alert_suspected ? kSuspected
                                                        : nullptr;
    // An incident once confirmed may be less sure again, as when a node is away: the alert is of
    // when it was, unless it is the first to this target.
    Save(state, &revision, what);
  }

  void End(JobState* state, const char* how, uint64_t time_ns) {
    state->incident->ended_ns = std::max(time_ns, state->incident->opened_ns);
    state->incident->how_ended = how;
    Save(state, nullptr, kEnded);
  }

  void Save(JobState* state, const Revision* revision, const char* what) {
    std::vector<Alert> alerts;
    if (what != nullptr) {
      for (const AlertTarget& target : options_.targets) {
        if (Wants(*state, target, what)) alerts.push_back(Make(*state, target, what));
      }
    }
    // First into the store: a crash between the two sends an alert again, and loses none.
    if (store_ != nullptr)
      Check(store_->Write(*state->incident, options_.writer, revision, alerts));
    Changed();
    for (const Alert& alert : alerts) Send(alert, state);
  }

  static bool Wants(const JobState& state, const AlertTarget& target, const std::string& what) {
    bool had_any = false, had_end = false;
    for (const Alert& alert : state.alerts) {
      if (alert.target != target.key) continue;
      if (alert.what == what) return false;
      had_any = true;
      had_end |= alert.what == kEnded;
    }
    if (what == kEnded) return had_any && target.WantsEnd();
    return !had_end;
  }

  Alert Make(const JobState& state, const AlertTarget& target, const std::string& what) const {
    std::string page;
    {
      const std::lock_guard lock(mutex_);
      page = page_;
    }
    const Incident& incident = *state.incident;
    const std::string session = options_.sessions_dir.empty() || incident.session.empty()
                                    ? incident.session
                                    : options_.sessions_dir + "/" + incident.session;
    return {.incident = incident.id,
            .what = what,
            .target = target.key,
            .shown = target.shown,
            .document = AlertDocument(incident, what, Text(session), page),
            .queued_ns = RealNs(),
            .state = kPending};
  }

  void Send(const Alert& alert, JobState* state) {
    std::vector<std::string> earlier;
    for (const Alert& other : state->alerts) {
      if (other.target == alert.target) earlier.push_back(other.document);
    }
    state->alerts.push_back(alert);
    Enqueue(alert, std::move(earlier));
  }

  void Enqueue(const Alert& alert, std::vector<std::string> earlier) {
    {
      const std::lock_guard lock(mutex_);
      ++unsent_;
    }
    unsent_alerts_.push_back(alert);
    (void)sender_->Send(alert, std::move(earlier));  // a full queue: it waits in the store
  }

  void Do(const Done& done) {
    std::erase_if(unsent_alerts_, [&](const Alert& other) {
      return other.incident == done.alert.incident && other.what == done.alert.what &&
             other.target == done.alert.target;
    });
    {
      const std::lock_guard lock(mutex_);
      unsent_ = unsent_alerts_.size();
    }
    if (store_ != nullptr) {
      Check(store_->SetAlertState(done.alert, done.sent ? kSent : kGivenUp));
    }
    Changed();
  }

  void Do(const AllResumed&) {
    Open();
    if (store_ == nullptr) return;
    StatusOr<std::vector<Alert>> pending = store_->Pending();
    if (!pending.ok()) return Check(pending.status());
    for (const Alert& alert : *pending) {
      const bool queued =
          std::any_of(unsent_alerts_.begin(), unsent_alerts_.end(), [&](const Alert& other) {
            return other.incident == alert.incident && other.what == alert.what &&
                   other.target == alert.target;
          });
      const bool ours =
          std::any_of(options_.targets.begin(), options_.targets.end(),
                      [&](const AlertTarget& target) { return target.key == alert.target; });
      if (queued || !ours) continue;
      StatusOr<std::vector<Alert>> all = store_->AlertsOf(alert.incident);
      if (!all.ok()) return Check(all.status());
      std::vector<std::string> earlier;
      for (const Alert& other : *all) {
        if (other.target == alert.target && other.queued_ns < alert.queued_ns) {
          earlier.push_back(other.document);
        }
      }
      Enqueue(alert, std::move(earlier));
    }
    StatusOr<std::vector<IncidentRecord>> open = store_->List({.open_only = true});
    if (!open.ok()) return Check(open.status());
    for (IncidentRecord& record : *open) {
      if (resumed_.contains(record.incident.session)) continue;
      StatusOr<std::vector<Alert>> alerts = store_->AlertsOf(record.incident.id);
      if (!alerts.ok()) return Check(alerts.status());
      JobState state{.incident = std::move(record.incident), .alerts = std::move(alerts).value()};
      End(&state, kNotKnown, RealNs());
    }
    resumed_.clear();
  }

  void GiveUp() {
    if (store_ == nullptr) return;
    for (const Alert& alert : unsent_alerts_) Check(store_->SetAlertState(alert, kGivenUp));
  }

  // Jobs that ended long ago.
  void ForgetSome() {
    if (states_.size() <= kMostJobs) return;
    std::erase_if(states_, [](const auto& entry) { return !entry.second.open(); });
  }

  const BookOptions options_;
  std::unique_ptr<AlertSender> sender_;

  mutable std::mutex mutex_;
  uint64_t changes_ = 0;
  // When the store's file, and its write-ahead log, was last written, and its size.
  using Stamp = std::array<std::array<int64_t, 3>, 2>;
  Stamp stamp_{};
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::shared_ptr<const OwnedFolder> folder_;  // of the store; null: there is none
  bool no_store_ = false;                      // it was tried
  std::string page_;
  size_t unsent_ = 0;
  bool busy_ = false, stopping_ = false, give_up_ = false, full_said_ = false;

  // Of the book's thread.
  std::unique_ptr<IncidentStore> store_;
  bool store_tried_ = false, failed_ = false;
  std::map<std::string, JobState> states_;  // by session
  std::set<std::string> resumed_;
  std::vector<Alert> unsent_alerts_;
  std::thread thread_;
};

IncidentBook::IncidentBook(BookOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
IncidentBook::~IncidentBook() = default;
void IncidentBook::OpenStore() { impl_->Add(Prepare{}); }
void IncidentBook::SetPage(const std::string& address) { impl_->SetPage(address); }
void IncidentBook::OnVerdict(const JobNews& news, const model::Verdict& verdict) {
  impl_->Tell(news, verdict, /*resumes=*/false);
}
void IncidentBook::Resume(const JobNews& news, const model::Verdict& verdict) {
  impl_->Tell(news, verdict, /*resumes=*/true);
}
void IncidentBook::Resumed() { impl_->Add(AllResumed{}); }
bool IncidentBook::Idle() const { return impl_->Idle(); }
size_t IncidentBook::unsent() const { return impl_->unsent(); }
std::string IncidentBook::Json(const std::string& session) const { return impl_->Json(session); }
StatusOr<std::string> IncidentBook::Acknowledge(const std::string& session, const std::string& id,
                                                const Acknowledgement& by) {
  return impl_->Acknowledge(session, id, by);
}
uint64_t IncidentBook::changes() const { return impl_->changes(); }
void IncidentBook::Stop(bool give_up) { impl_->Stop(give_up); }

}  // namespace gordian::incidents
