// An incident: one trouble of one job, from the first verdict that says so until it has ended.
#ifndef GORDIAN_ANALYZER_INCIDENTS_INCIDENT_H_
#define GORDIAN_ANALYZER_INCIDENTS_INCIDENT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::incidents {

// How an incident ended, as the store and JSON name it.
inline constexpr char kWithdrawn[] = "withdrawn";  // the job made progress
inline constexpr char kDisproved[] = "disproved";  // a proof was wrong
inline constexpr char kJobEnded[] = "job ended";   // in this trouble
inline constexpr char kKilled[] = "killed";        // by gordian, for the verdict
inline constexpr char kNotKnown[] = "not known";   // the gordian that watched it was killed

// What an alert says.
inline constexpr char kSuspected[] = "suspected";
inline constexpr char kConfirmed[] = "confirmed";
inline constexpr char kEnded[] = "ended";

struct Culprit {
  int rank = -1;
  uint32_t pid = 0;  // 0: not known
  std::string node;  // "": not known

  friend bool operator==(const Culprit&, const Culprit&) = default;
};

// The verdict on it, as far as an incident keeps it. All texts are valid UTF-8.
struct Facts {
  std::string verdict, confidence, check;  // as in verdict.json
  std::string summary, advice;             // one line each
  std::vector<Culprit> culprits;           // of many ranks only the first
  std::string victims;                     // "0-3,5"

  friend bool operator==(const Facts&, const Facts&) = default;
};

// Times are CLOCK_REALTIME in nanoseconds; 0: not yet.
struct Incident {
  std::string id;  // no other incident has it, in no other store
  std::string job;
  std::string session;  // of `gordian run` an absolute path; of `serve` a folder in its sessions
  uint64_t opened_ns = 0, confirmed_ns = 0, ended_ns = 0;
  std::string how_ended;
  Facts facts;                 // the latest
  uint64_t last_revision = 0;  // of the verdict
};

struct Revision {
  uint64_t revision = 0;
  uint64_t time_ns = 0;
  std::string confidence, verdict, check, summary;
};

struct Acknowledgement {
  uint64_t time_ns = 0;
  std::string who, note;
};

// One alert to one target. `document` is the JSON object of schema gordian.alert.v1.
struct Alert {
  std::string incident, what;
  std::string target;  // AlertTarget::key
  std::string shown;   // AlertTarget::shown
  std::string document;
  uint64_t queued_ns = 0;
  std::string state;  // kPending, kSent, kGivenUp

  friend bool operator==(const Alert&, const Alert&) = default;
};
inline constexpr char kPending[] = "pending";
inline constexpr char kSent[] = "sent";
inline constexpr char kGivenUp[] = "given up";

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_INCIDENT_H_
