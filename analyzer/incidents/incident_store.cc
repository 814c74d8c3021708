#include "analyzer/incidents/incident_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "common/clock.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace gordian::incidents {
namespace {

constexpr int kSchemaVersion = 1;
constexpr int kApplicationId = 0x676F7264;  // "gord"
constexpr char kVfsName[] = "gordian";
constexpr size_t kMostRevisions = 1000;  // of one incident; a verdict may come and go for days
constexpr int kMostTextBytes = 1 << 20;
// The store cuts an acknowledgement's texts to these.
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostNoteBytes = 4096;

std::string Written(const std::string& text, size_t most) {
  return Printable(CleanUtf8(text.substr(0, most)));
}

constexpr char kSchema[] = R"(
CREATE TABLE jobs(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  session TEXT NOT NULL,
  writer_host TEXT NOT NULL,
  writer_pid INTEGER NOT NULL,
  writer_start INTEGER NOT NULL);
CREATE INDEX jobs_by_session ON jobs(session);
CREATE TABLE nodes(
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  name TEXT NOT NULL,
  PRIMARY KEY(job, name)) WITHOUT ROWID;
CREATE TABLE incidents(
  id TEXT PRIMARY KEY,
  job INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  opened_ns INTEGER NOT NULL,
  confirmed_ns INTEGER NOT NULL,
  ended_ns INTEGER NOT NULL,
  updated_ns INTEGER NOT NULL,
  how_ended TEXT NOT NULL,
  verdict TEXT NOT NULL,
  confidence TEXT NOT NULL,
  "check" TEXT NOT NULL,
  summary TEXT NOT NULL,
  advice TEXT NOT NULL,
  culprits TEXT NOT NULL,
  victims TEXT NOT NULL,
  last_revision INTEGER NOT NULL);
CREATE INDEX incidents_by_job ON incidents(job);
CREATE INDEX incidents_by_update ON incidents(updated_ns);
CREATE TABLE revisions(
  incident TEXT NOT NULL REFERENCES incidents ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  confidence TEXT NOT NULL,
  verdict TEXT NOT NULL,
  "check" TEXT NOT NULL,
  summary TEXT NOT NULL,
  PRIMARY KEY(incident, revision)) WITHOUT ROWID;
CREATE TABLE acknowledgements(
  id INTEGER PRIMARY KEY,
  incident TEXT NOT NULL REFERENCES incidents ON DELETE CASCADE,
  time_ns INTEGER NOT NULL,
  who TEXT NOT NULL,
  note TEXT NOT NULL);
CREATE INDEX acknowledgements_by_incident ON acknowledgements(incident);
CREATE TABLE alerts(
  incident TEXT NOT NULL REFERENCES incidents ON DELETE CASCADE,
  what TEXT NOT NULL,
  target TEXT NOT NULL,
  shown TEXT NOT NULL,
  document TEXT NOT NULL,
  queued_ns INTEGER NOT NULL,
  state TEXT NOT NULL,
  PRIMARY KEY(incident, what, target)) WITHOUT ROWID;
CREATE INDEX alerts_pending ON alerts(queued_ns) WHERE state = 'pending';
)";

constexpr char kIncidentColumns[] =
    "i.id, j.name, j.session, i.opened_ns, i.confirmed_ns, i.ended_ns, i.how_ended, i.verdict, "
    "i.confidence, i.\"check\", i.summary, i.advice, i.culprits, i.victims, i.last_revision";

// The default file system of SQLite, but for one thing: it takes a path as it is. SQLite would follow
// /proc/self/fd/N to the folder's path, which may lead elsewhere by then. Files themselves it opens
// with O_NOFOLLOW.
void RegisterFileSystem() {
  static const int registered = [] {
    static sqlite3_vfs ours = *sqlite3_vfs_find(nullptr);
    ours.zName = kVfsName;
    ours.pNext = nullptr;
    ours.xFullPathname = [](sqlite3_vfs*, const char* name, int size, char* out) {
      if (strlen(name) >= static_cast<size_t>(size)) return SQLITE_CANTOPEN;
      strcpy(out, name);  // NOLINT: it fits
      return SQLITE_OK;
    };
    return sqlite3_vfs_register(&ours, /*makeDflt=*/0);
  }();
  (void)registered;
}

// A write-ahead log needs memory that all its users share, which no file system of several machines
// gives.
bool IsNetworkFileSystem(int fd) {
  constexpr uint32_t kTypes[] = {0x6969 /* NFS */,
                                 0xFF534D42 /* CIFS */,
                                 0xFE534D42 /* SMB2 */,
                                 0x517B /* SMB */,
                                 0x0BD00BD0 /* Lustre */,
                                 0x47504653 /* GPFS */,
                                 0x00C36400 /* Ceph */,
                                 0x65735546 /* FUSE */,
                                 0x01021997 /* 9P */,
                                 0x19830326 /* BeeGFS */,
                                 0x5346414F /* AFS */};
  struct statfs about {};
  if (fstatfs(fd, &about) != 0) return true;
  const auto type = static_cast<uint32_t>(about.f_type);
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes);
}

using Value = std::variant<int64_t, std::string>;
int64_t Number(uint64_t n) { return static_cast<int64_t>(n); }

std::string CulpritsJson(const std::vector<Culprit>& culprits) {
  auto list = nlohmann::ordered_json::array();
  for (const Culprit& one : culprits) list.push_back({one.rank, one.pid, one.node});
  return list.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<Culprit> CulpritsOf(const std::string& text) {
  std::vector<Culprit> culprits;
  const auto list = ParseJson<nlohmann::json>(text);
  if (!list.is_array()) return culprits;
  for (const auto& one : list) {
    if (!one.is_array() || one.size() != 3 || !one[0].is_number_integer() ||
        !one[1].is_number_integer() || !one[2].is_string()) {
      continue;
    }
    culprits.push_back({one[0].get<int>(), one[1].get<uint32_t>(), one[2].get<std::string>()});
  }
  return culprits;
}

// A prepared statement in use; resets it for the next use.
class Rows {
 public:
  Rows(sqlite3_stmt* statement, int prepared, std::initializer_list<Value> values)
      : statement_(statement), code_(prepared) {
    int place = 0;
    for (const Value& value : values) {
      if (code_ != SQLITE_OK) return;
      ++place;
      if (const auto* number = std::get_if<int64_t>(&value)) {
        code_ = sqlite3_bind_int64(statement_, place, *number);
      } else {
        const std::string& text = std::get<std::string>(value);
        code_ = sqlite3_bind_text(statement_, place, text.data(), static_cast<int>(text.size()),
                                  SQLITE_TRANSIENT);
      }
    }
  }
  ~Rows() {
    if (statement_ == nullptr) return;
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  bool Next() {
    if (code_ != SQLITE_OK && code_ != SQLITE_ROW) return false;
    code_ = sqlite3_step(statement_);
    return code_ == SQLITE_ROW;
  }
  bool Done() {  // runs it to its end
    while (Next()) {
    }
    return code_ == SQLITE_DONE;
  }
  std::string Text(int column) const {
    const unsigned char* const text = sqlite3_column_text(statement_, column);
    const int bytes = sqlite3_column_bytes(statement_, column);
    return text == nullptr ? "" : std::string(reinterpret_cast<const char*>(text), bytes);
  }
  uint64_t Unsigned(int column) const {
    return static_cast<uint64_t>(sqlite3_column_int64(statement_, column));
  }

 private:
  sqlite3_stmt* const statement_;
  int code_;
};

Incident IncidentFrom(const Rows& rows) {
  Incident one;
  one.id = rows.Text(0);
  one.job = rows.Text(1);
  one.session = rows.Text(2);
  one.opened_ns = rows.Unsigned(3);
  one.confirmed_ns = rows.Unsigned(4);
  one.ended_ns = rows.Unsigned(5);
  one.how_ended = rows.Text(6);
  one.facts = {.verdict = rows.Text(7),
               .confidence = rows.Text(8),
               .check = rows.Text(9),
               .summary = rows.Text(10),
               .advice = rows.Text(11),
               .culprits = CulpritsOf(rows.Text(12)),
               .victims = rows.Text(13)};
  one.last_revision = rows.Unsigned(14);
  return one;
}

}  // namespace

class IncidentStore::Impl {
 public:
  Impl(std::string path, const StoreOptions& options) : path_(std::move(path)), options_(options) {}
  ~Impl() {
    for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
    sqlite3_close(db_);
  }

  Status Connect(const OwnedFolder& folder) {
    RegisterFileSystem();
    GORDIAN_RETURN_IF_ERROR(CheckFile(folder));
    const std::string name = "/proc/self/fd/" + std::to_string(folder.fd()) + "/" + kStoreFile;
    // One that only reads opens it for writing, too, where it may: the shared memory of the log.
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(name.c_str(), &db_, flags, kVfsName) != SQLITE_OK) return Failure();
    sqlite3_extended_result_codes(db_, 1);
    sqlite3_busy_timeout(db_, options_.busy_ms);
    // The file may be made by somebody who means harm.
    sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, kMostTextBytes);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    GORDIAN_RETURN_IF_ERROR(CheckVersion());
    if (options_.read_only) {
      if (version_ == 0) return Status::NotFound(path_ + " holds no incidents");
      return Execute("PRAGMA query_only=1");
    }
    GORDIAN_RETURN_IF_ERROR(Configure(IsNetworkFileSystem(folder.fd())));
    if (version_ == 0) GORDIAN_RETURN_IF_ERROR(MakeTables());
    return Retain(RealNs());
  }

  Status Write(const Incident& incident, const Writer& writer, const Revision* revision,
               std::span<const Alert> alerts) {
    return Together([&] {
      const int64_t job = JobId(incident, writer);
      if (job == 0) return false;
      const Facts& facts = incident.facts;
      const uint64_t updated = std::max(
          {incident.opened_ns, incident.ended_ns, revision == nullptr ? 0 : revision->time_ns});
      bool ok =
          Run("INSERT INTO incidents VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
              "?13, ?14, ?15) ON CONFLICT(id) DO UPDATE SET confirmed_ns = ?4, ended_ns = ?5, "
              "updated_ns = max(updated_ns, ?6), how_ended = ?7, verdict = ?8, confidence = "
              "?9, \"check\" = ?10, summary = ?11, advice = ?12, culprits = ?13, victims = "
              "?14, last_revision = ?15",
              {incident.id, job, Number(incident.opened_ns), Number(incident.confirmed_ns),
               Number(incident.ended_ns), Number(updated), incident.how_ended, facts.verdict,
               facts.confidence, facts.check, facts.summary, facts.advice,
               CulpritsJson(facts.culprits), facts.victims, Number(incident.last_revision)});
      if (revision != nullptr) {
        ok = ok && Run("INSERT OR IGNORE INTO revisions SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE "
                       "(SELECT count(*) FROM revisions WHERE incident = ?1) < ?8",
                       {incident.id, Number(revision->revision), Number(revision->time_ns),
                        revision->confidence, revision->verdict, revision->check, revision->summary,
                        Number(kMostRevisions)});
      }
      for (const Culprit& culprit : facts.culprits) {
        if (culprit.node.empty()) continue;
        ok = ok && Run("INSERT OR IGNORE INTO nodes VALUES(?1, ?2)", {job, culprit.node});
      }
      for (const Alert& alert : alerts) {
        ok = ok && Run("INSERT OR IGNORE INTO alerts VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                       {alert.incident, alert.what, alert.target, alert.shown, alert.document,
                        Number(alert.queued_ns), alert.state});
      }
      return ok;
    });
  }

  Status SetAlertState(const Alert& alert, const std::string& state) {
    const bool ok =
        Run("UPDATE alerts SET state = ?4 WHERE incident = ?1 AND what = ?2 AND target = ?3",
            {alert.incident, alert.what, alert.target, state});
    return ok ? Status::Ok() : Failure();
  }

  StatusOr<std::optional<Incident>> Latest(const std::string& session) {
    Rows rows = Ask(std::string("SELECT ") + kIncidentColumns +
                        " FROM incidents i JOIN jobs j ON j.id = i.job WHERE j.session = ?1 ORDER "
                        "BY i.opened_ns DESC LIMIT 1",
                    {session});
    std::optional<Incident> found;
    if (rows.Next()) found = IncidentFrom(rows);
    if (!rows.Done()) return Failure();
    return found;
  }

  StatusOr<std::vector<Alert>> Alerts(const char* where, std::initializer_list<Value> values) {
    Rows rows = Ask(std::string("SELECT incident, what, target, shown, document, queued_ns, state "
                                "FROM alerts WHERE ") +
                        where + " ORDER BY queued_ns",
                    values);
    std::vector<Alert> all;
    while (rows.Next()) {
      all.push_back({.incident = rows.Text(0),
                     .what = rows.Text(1),
                     .target = rows.Text(2),
                     .shown = rows.Text(3),
                     .document = rows.Text(4),
                     .queued_ns = rows.Unsigned(5),
                     .state = rows.Text(6)});
    }
    if (!rows.Done()) return Failure();
    return all;
  }

  StatusOr<std::vector<IncidentRecord>> List(const Query& query) {
    std::vector<IncidentRecord> all;
    std::vector<int64_t> jobs;
    {
      Rows rows = Ask(std::string("SELECT ") + kIncidentColumns +
                          ", j.id, j.writer_host, j.writer_pid, j.writer_start FROM incidents i "
                          "JOIN jobs j ON j.id = i.job WHERE (?1 = '' OR j.name = ?1) AND "
                          "i.updated_ns >= ?2 AND (?3 = 0 OR i.ended_ns = 0) "
                          "AND (?5 = '' OR j.session = ?5) ORDER BY i.opened_ns DESC LIMIT ?4",
                      {query.job, Number(query.since_ns), int64_t{query.open_only},
                       Number(query.most), query.session});
      while (rows.Next()) {
        IncidentRecord& record = all.emplace_back();
        record.incident = IncidentFrom(rows);
        jobs.push_back(static_cast<int64_t>(rows.Unsigned(15)));
        record.writer = {rows.Text(16), static_cast<int64_t>(rows.Unsigned(17)), rows.Unsigned(18)};
      }
      if (!rows.Done()) return Failure();
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (!FillIn(jobs[i], &all[i])) return Failure();
    }
    return all;
  }

  StatusOr<std::string> Acknowledge(const std::string& id, const Acknowledgement& by) {
    std::string whole;
    {
      // "~" is above every character of an id.
      Rows rows = Ask("SELECT id FROM incidents WHERE id >= ?1 AND id < ?1 || '~' LIMIT 2", {id});
      int found = 0;
      while (rows.Next()) {
        whole = rows.Text(0);
        ++found;
      }
      if (!rows.Done()) return Failure();
      if (found == 0 || id.empty()) return Status::NotFound("no incident has the id " + id);
      if (found > 1 && whole != id) {
        return Status::InvalidArgument("several incidents have ids that begin with " + id);
      }
    }
    if (!Run("INSERT INTO acknowledgements(incident, time_ns, who, note) VALUES(?1, ?2, ?3, ?4)",
             {whole, Number(by.time_ns), Written(by.who, kMostNameBytes),
              Written(by.note, kMostNoteBytes)})) {
      return Failure();
    }
    return whole;
  }

  Status Retain(uint64_t now_ns) {
    const uint64_t oldest = now_ns > options_.keep_ns ? now_ns - options_.keep_ns : 0;
    const Status aged = Together([&] {
      return Run("DELETE FROM incidents WHERE updated_ns < ?1", {Number(oldest)}) && DropJobs();
    });
    GORDIAN_RETURN_IF_ERROR(aged);
    // A tenth of them at a time: what one takes is not known.
    while (Bytes() > options_.most_bytes) {
      const uint64_t before = Ask1("SELECT count(*) FROM incidents");
      if (before == 0) break;
      const Status less = Together([&] {
        return Run("DELETE FROM incidents WHERE id IN (SELECT id FROM incidents ORDER BY ended_ns "
                   "= "
                   "0, updated_ns LIMIT ?1)",
                   {Number(before / 10 + 1)}) &&
               DropJobs();
      });
      GORDIAN_RETURN_IF_ERROR(less);
    }
    GORDIAN_RETURN_IF_ERROR(Execute("PRAGMA incremental_vacuum"));
    // Readers may hold the log; it is then cut the next time.
    sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    return Status::Ok();
  }

 private:
  // Makes the file with its mode, or looks at it without opening it: to close a descriptor of it
  // would drop the locks of another store of this process.
  Status CheckFile(const OwnedFolder& folder) const {
    if (!options_.read_only) {
      const int fd = folder.OpenFile(kStoreFile, O_RDWR | O_CREAT | O_EXCL, kFileMode);
      if (fd >= 0) close(fd);
      if (fd < 0 && errno != EEXIST) return Status::FromErrno(errno, "cannot make " + path_);
    }
    struct stat about {};
    if (fstatat(folder.fd(), kStoreFile, &about, AT_SYMLINK_NOFOLLOW) != 0) {
      return Status::FromErrno(errno, "cannot open " + path_);
    }
    if (!S_ISREG(about.st_mode) || about.st_nlink != 1 || about.st_uid != geteuid()) {
      return Status::PermissionDenied(
          path_ + " is a link, no file, or another user's; gordian leaves it alone");
    }
    return Status::Ok();
  }

  Status CheckVersion() {
    // In one transaction: another process may be making the tables.
    GORDIAN_RETURN_IF_ERROR(Execute("BEGIN"));
    const std::optional<uint64_t> tables = Ask0("SELECT count(*) FROM sqlite_master");
    const std::optional<uint64_t> application = Ask0("PRAGMA application_id");
    const std::optional<uint64_t> version = Ask0("PRAGMA user_version");
    const Status read = tables && application && version ? Status::Ok() : Failure();
    (void)Execute("ROLLBACK");  // there is nothing to write
    GORDIAN_RETURN_IF_ERROR(read);
    if (*version > kSchemaVersion && *application == kApplicationId) {
      return Status::NewerVersion(path_ + " was written by a newer gordian (its schema is " +
                                  std::to_string(*version) + ", this one knows " +
                                  std::to_string(kSchemaVersion) +
                                  "): use that one, or move the file away");
    }
    if (*tables > 0 && (*application != kApplicationId || *version == 0)) {
      return Status::DataLoss(path_ + " is no file of gordian's; move it away");
    }
    version_ = static_cast<int>(*version);
    return Status::Ok();
  }

  Status Configure(bool network) {
    GORDIAN_RETURN_IF_ERROR(Execute("PRAGMA foreign_keys=1"));
    if (version_ == 0) GORDIAN_RETURN_IF_ERROR(Execute("PRAGMA auto_vacuum=incremental"));
    // SQLite does not wait for others that change the mode at the same time.
    const char* const mode = network ? "PRAGMA journal_mode=truncate" : "PRAGMA journal_mode=wal";
    const uint64_t deadline = MonoNs() + static_cast<uint64_t>(options_.busy_ms) * kNsPerMs;
    Status set = Execute(mode);
    while (!set.ok() && (sqlite3_errcode(db_) & 0xff) == SQLITE_BUSY && MonoNs() < deadline) {
      poll(nullptr, 0, 10);
      set = Execute(mode);
    }
    GORDIAN_RETURN_IF_ERROR(set);
    // What a crash of the machine loses is a few revisions, at most.
    GORDIAN_RETURN_IF_ERROR(Execute("PRAGMA synchronous=normal"));
    GORDIAN_RETURN_IF_ERROR(Execute("PRAGMA journal_size_limit=4194304"));
    const uint64_t page = std::max<uint64_t>(Ask1("PRAGMA page_size"), 512);
    const uint64_t most = options_.most_bytes + options_.most_bytes / 4;
    return Execute("PRAGMA max_page_count=" + std::to_string(most / page + 64));
  }

  Status MakeTables() {
    return Together([this] {
      if (Ask1("PRAGMA user_version") != 0) return true;  // another process was quicker
      return Execute(kSchema).ok() &&
             Execute("PRAGMA application_id=" + std::to_string(kApplicationId)).ok() &&
             Execute("PRAGMA user_version=" + std::to_string(kSchemaVersion)).ok();
    });
  }

  // The id of the incident's job, which it makes if need be; 0: an error.
  int64_t JobId(const Incident& incident, const Writer& writer) {
    if (const auto known = Ask0("SELECT job FROM incidents WHERE id = ?1", {incident.id})) {
      const auto id = static_cast<int64_t>(*known);
      return Run("UPDATE jobs SET writer_host = ?2, writer_pid = ?3, writer_start = ?4 WHERE id = "
                 "?1",
                 {id, writer.host, writer.pid, Number(writer.start)})
                 ? id
                 : 0;
    }
    // A job of the same name, session and writer is the same.
    const auto same = Ask0(
        "SELECT id FROM jobs WHERE session = ?1 AND name = ?2 AND writer_host = ?3 AND writer_pid "
        "= "
        "?4 AND writer_start = ?5 ORDER BY id DESC LIMIT 1",
        {incident.session, incident.job, writer.host, writer.pid, Number(writer.start)});
    if (same) return static_cast<int64_t>(*same);
    return Run("INSERT INTO jobs(name, session, writer_host, writer_pid, writer_start) VALUES(?1, "
               "?2, ?3, ?4, ?5)",
               {incident.job, incident.session, writer.host, writer.pid, Number(writer.start)})
               ? sqlite3_last_insert_rowid(db_)
               : 0;
  }

  bool DropJobs() {
    return Run("DELETE FROM jobs WHERE id NOT IN (SELECT job FROM incidents)", {});
  }

  bool FillIn(int64_t job, IncidentRecord* record) {
    const std::string& id = record->incident.id;
    {
      Rows rows = Ask("SELECT name FROM nodes WHERE job = ?1 ORDER BY name", {job});
      while (rows.Next()) record->nodes.push_back(rows.Text(0));
      if (!rows.Done()) return false;
    }
    {
      Rows rows =
          Ask("SELECT revision, time_ns, confidence, verdict, \"check\", summary FROM "
              "revisions WHERE incident = ?1 ORDER BY revision",
              {id});
      while (rows.Next()) {
        record->revisions.push_back({.revision = rows.Unsigned(0),
                                     .time_ns = rows.Unsigned(1),
                                     .confidence = rows.Text(2),
                                     .verdict = rows.Text(3),
                                     .check = rows.Text(4),
                                     .summary = rows.Text(5)});
      }
      if (!rows.Done()) return false;
    }
    {
      Rows rows =
          Ask("SELECT time_ns, who, note FROM acknowledgements WHERE incident = ?1 ORDER BY "
              "id",
              {id});
      while (rows.Next()) {
        record->acknowledgements.push_back({rows.Unsigned(0), rows.Text(1), rows.Text(2)});
      }
      if (!rows.Done()) return false;
    }
    Rows rows =
        Ask("SELECT what, target, shown, queued_ns, state FROM alerts WHERE incident = ?1 "
            "ORDER BY queued_ns",
            {id});
    while (rows.Next()) {
      record->alerts.push_back({.incident = id,
                                .what = rows.Text(0),
                                .target = rows.Text(1),
                                .shown = rows.Text(2),
                                .queued_ns = rows.Unsigned(3),
                                .state = rows.Text(4)});
    }
    return rows.Done();
  }

  uint64_t Bytes() {
    const uint64_t pages = Ask1("PRAGMA page_count"), unused = Ask1("PRAGMA freelist_count");
    return (pages - std::min(pages, unused)) * Ask1("PRAGMA page_size");
  }

  // Prepares each statement once.
  Rows Ask(const std::string& sql, std::initializer_list<Value> values) {
    sqlite3_stmt*& statement = statements_[sql];
    int code = SQLITE_OK;
    if (statement == nullptr) {
      code = sqlite3_prepare_v3(db_, sql.c_str(), static_cast<int>(sql.size()),
                                SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    }
    return Rows(statement, code, values);
  }
  bool Run(const std::string& sql, std::initializer_list<Value> values) {
    return Ask(sql, values).Done();
  }
  std::optional<uint64_t> Ask0(const std::string& sql, std::initializer_list<Value> values = {}) {
    Rows rows = Ask(sql, values);
    if (!rows.Next()) return std::nullopt;
    return rows.Unsigned(0);
  }
  uint64_t Ask1(const std::string& sql) { return Ask0(sql).value_or(0); }

  Status Execute(const std::string& sql) {
    return sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? Status::Ok()
                                                                                  : Failure();
  }

  // All of `write`, or nothing of it.
  Status Together(const std::function<bool()>& write) {
    GORDIAN_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    Status done = write() ? Execute("COMMIT") : Failure();
    if (!done.ok() && sqlite3_get_autocommit(db_) == 0) {
      sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
    }
    return done;
  }

  // What SQLite says of the call before.
  Status Failure() const {
    const int code = db_ == nullptr ? SQLITE_NOMEM : sqlite3_errcode(db_);
    const std::string why =
        path_ + ": " + (db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_));
    switch (code & 0xff) {
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        return Status::DataLoss(why + "; move the file away, and gordian makes a new one");
      case SQLITE_READONLY:
      case SQLITE_PERM:
      case SQLITE_CANTOPEN:
        return Status::PermissionDenied(why);
      default:
        return Status::Unavailable(why);
    }
  }

  const std::string path_;  // for people
  const StoreOptions options_;
  sqlite3* db_ = nullptr;
  int version_ = 0;
  std::map<std::string, sqlite3_stmt*> statements_;
};

IncidentStore::IncidentStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IncidentStore::~IncidentStore() = default;

StatusOr<std::unique_ptr<IncidentStore>> IncidentStore::Open(const OwnedFolder& folder,
                                                             const StoreOptions& options) {
  auto impl = std::make_unique<Impl>(folder.path() + "/" + kStoreFile, options);
  GORDIAN_RETURN_IF_ERROR(impl->Connect(folder));
  return std::unique_ptr<IncidentStore>(new IncidentStore(std::move(impl)));
}

Status IncidentStore::Write(const Incident& incident, const Writer& writer,
                            const Revision* revision, std::span<const Alert> alerts) {
  return impl_->Write(incident, writer, revision, alerts);
}
Status IncidentStore::SetAlertState(const Alert& alert, const std::string& state) {
  return impl_->SetAlertState(alert, state);
}
StatusOr<std::optional<Incident>> IncidentStore::Latest(const std::string& session) {
  return impl_->Latest(session);
}
StatusOr<std::vector<Alert>> IncidentStore::AlertsOf(const std::string& incident) {
  return impl_->Alerts("incident = ?1", {incident});
}
StatusOr<std::vector<Alert>> IncidentStore::Pending() {
  return impl_->Alerts("state = 'pending'", {});
}
StatusOr<std::vector<IncidentRecord>> IncidentStore::List(const Query& query) {
  return impl_->List(query);
}
StatusOr<std::string> IncidentStore::Acknowledge(const std::string& id, const Acknowledgement& by) {
  return impl_->Acknowledge(id, by);
}
Status IncidentStore::Retain(uint64_t now_ns) { return impl_->Retain(now_ns); }

}  // namespace gordian::incidents
