#include "collector/uplink/fleet_link.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "collector/uplink/analyzer_channel.h"
#include "collector/uplink/outgoing.h"
#include "common/clock.h"
#include "common/packed_batch.h"
#include "gordian/v1/ingest.grpc.pb.h"

namespace gordian::collector {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
// Pauses between tries double from the first to the last; each try comes at a random time in the
// second half of its pause.
constexpr uint64_t kFirstPauseNs = 50 * kNsPerMs;
constexpr uint64_t kLastPauseNs = 1000 * kNsPerMs;
// Gives up a stream that gets no Welcome within this time.
constexpr uint64_t kWelcomeNs = 15 * kNsPerSecond;
// Batches wait so long for the first reading of the analyzer's clock.
constexpr uint64_t kClockNs = 2 * kNsPerSecond;
constexpr int kFirstPings = 5;  // one after the other
constexpr uint64_t kPingEveryNs = 2 * kNsPerSecond;
// How long the collector fills a batch that cannot go out at once, and at most at the analyzer's
// request.
constexpr uint64_t kWaitingGatherNs = 100 * kNsPerMs;
constexpr uint64_t kMostGatherNs = 1000 * kNsPerMs;
// How long the analyzer may take to end an orderly stream.
constexpr uint64_t kEndNs = 2 * kNsPerSecond;
// The keepalive finds a silent cut after about the sum of these.
constexpr int kKeepaliveMs = 2000;
constexpr int kKeepaliveTimeoutMs = 3000;
// At the end, retries an analyzer that refuses only for so long.
constexpr uint64_t kRefusedNs = 1 * kNsPerSecond;
// How soon to try a full disk again.
constexpr uint64_t kDiskAgainNs = 1 * kNsPerSecond;

uint64_t RandomNumber() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

std::shared_ptr<grpc::Channel> TcpChannel(const std::string& target, const Access& access) {
  grpc::ChannelArguments arguments;
  // One try per channel: the link makes the pauses itself.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the analyzer is near
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(target, ChannelCredentials(access), arguments);
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text.substr(0, 300);
}

}  // namespace

struct FleetLink::State {
  using Stream = grpc::ClientReaderWriter<v1::ToAnalyzer, v1::ToCollector>;

  explicit State(Options o)
      : options(std::move(o)),
        outgoing({.spool_dir = options.spool_dir,
                  .spool_bytes = options.spool_bytes,
                  .window_bytes = options.window_bytes,
                  .memory_bytes = options.memory_bytes}) {
    if (options.hello.incarnation() == 0) {
      uint64_t incarnation = 0;
      while (incarnation == 0) {
        incarnation = RandomNumber();
      }
      const_cast<Options&>(options).hello.set_incarnation(incarnation);
    }
  }

  const Options options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  Outgoing outgoing;
  Stats stats;
  Status why;  // why the analyzer is away
  std::string last_notice;
  bool said_full = false;
  bool finishing = false;  // Send takes no more
  uint64_t finishing_since_ns = 0;
  uint64_t last_progress_ns = 0;  // an acknowledgement, or a welcome
  bool give_up = false;
  bool delivered = false;  // all batches, and the stream ended in order
  bool job_ended = false;  // on all nodes, by the analyzer's word
  bool ended = false;      // of the thread
  uint64_t disk_tried_ns = 0;
  bool last_was_refused = false;  // of the last try
  std::thread thread;

  // The open stream.
  grpc::ClientContext* context = nullptr;
  bool welcomed = false;
  bool over = false;  // the stream is at its end
  std::optional<std::string> refused;
  ClockSync clock;
  std::optional<ClockSync::Reading> sent_clock;
  int pings_out = 0, pings_sent = 0;
  uint64_t next_ping_ns = 0;
  uint64_t gather_ns = 0;  // as the analyzer asked last

  void Notice(std::string line) {
    {
      const std::lock_guard lock(mutex);
      if (line == last_notice) {
        return;
      }
      last_notice = line;
    }
    spdlog::info("{}", line);
    if (options.on_notice) {
      options.on_notice(line);
    }
  }

  std::string WhereItIsKept() const {
    return options.spool_dir.empty() ? "in memory" : "in " + options.spool_dir;
  }

  void Run() {
    uint64_t pause = kFirstPauseNs;
    std::mt19937_64 random(RandomNumber());
    while (true) {
      const bool was_welcomed = OneStream();
      std::unique_lock lock(mutex);
      stats.connected = false;
      if (delivered || give_up) {
        break;
      }
      pause = was_welcomed ? kFirstPauseNs : std::min(pause * 2, kLastPauseNs);
      std::string line;
      if (refused) {
        line = *refused + ": the job runs on, and gordian keeps its records " + WhereItIsKept();
      } else {
        line = (was_welcomed ? "the stream to the analyzer at " + options.target + " broke ("
                             : "cannot reach the analyzer at " + options.target + " (") +
               why.message() + "): the job runs on; gordian keeps its records " + WhereItIsKept() +
               " and sends them when the analyzer answers";
      }
      // To a person, a stream that broke and one that cannot be made are the same news.
      if (was_welcomed || refused || last_notice.empty()) {
        lock.unlock();
        Notice(OneLine(std::move(line)));
        lock.lock();
      }
      const uint64_t wait = pause / 2 + random() % (pause / 2 + 1);
      changed.wait_for(lock, std::chrono::nanoseconds(wait), [this] { return give_up; });
      if (give_up) {
        break;
      }
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  }

  // Tries once. Returns true if the analyzer welcomed the collector.
  bool OneStream() {
    const StatusOr<Access> access = ReadAccess(options.access);
    if (!access.ok()) {
      const std::lock_guard lock(mutex);
      refused = access.status().message();
      why = access.status();
      return false;
    }
    const std::shared_ptr<grpc::Channel> channel =
        options.make_channel ? options.make_channel() : TcpChannel(options.target, *access);
    const std::unique_ptr<v1::Ingest::Stub> stub = v1::Ingest::NewStub(channel);
    grpc::ClientContext this_context;
    ShowToken(*access, &this_context);
    v1::ToAnalyzer hello;
    *hello.mutable_hello() = options.hello;
    {
      const std::lock_guard lock(mutex);
      if (give_up) {
        return false;
      }
      context = &this_context;
      welcomed = over = false;
      refused.reset();
      clock.Clear();
      sent_clock.reset();
      pings_out = pings_sent = 0;
      next_ping_ns = 0;
      const ClockPair now = ReadClockPair();
      hello.mutable_hello()->set_now_mono_ns(now.mono_ns);
      hello.mutable_hello()->set_now_real_ns(now.real_ns);
      hello.mutable_hello()->set_backlog(outgoing.taken());
    }
    const std::unique_ptr<Stream> stream = stub->Collect(&this_context);
    stream->Write(hello);  // the reader sees a failure
    std::thread reader([&] { Read(stream.get()); });
    const bool orderly = Write(stream.get());
    stream->WritesDone();
    {
      std::unique_lock lock(mutex);
      if (orderly) {
        changed.wait_for(lock, std::chrono::nanoseconds(kEndNs), [this] { return over; });
      }
      if (!over) {
        this_context.TryCancel();
      }
    }
    reader.join();
    const grpc::Status status = stream->Finish();
    const std::lock_guard lock(mutex);
    context = nullptr;
    last_was_refused = refused.has_value();
    delivered |= orderly;  // every batch was acknowledged, so the stream's end does not matter
    if (delivered) {
      why = Status::Ok();
    } else if (refused) {
      why = Status::InvalidArgument(*refused);
    } else {
      why = Status::Unavailable(status.ok() ? "the analyzer ended the stream"
                                            : status.error_message());
    }
    return std::exchange(welcomed, false);
  }

  // Writes until the stream is over (false) or everything is delivered (true).
  bool Write(Stream* stream) {
    std::unique_lock lock(mutex);
    const uint64_t begun = MonoNs();
    while (!over && !welcomed && !give_up) {
      if (changed.wait_for(lock, std::chrono::nanoseconds(100 * kNsPerMs)) ==
              std::cv_status::timeout &&
          MonoNs() - begun > kWelcomeNs) {
        return false;
      }
    }
    const uint64_t welcomed_ns = MonoNs();
    while (!over && !give_up) {
      const uint64_t now = MonoNs();
      if (outgoing.Full() && now - disk_tried_ns > kDiskAgainNs) {
        disk_tried_ns = now;
        outgoing.TryDiskAgain();
      }
      Outgoing::Message batch;
      v1::ToAnalyzer small;
      const std::optional<ClockSync::Reading> best = clock.Best(now);
      if (best && (!sent_clock || ClockSync::WorthTelling(*sent_clock, *best))) {
        sent_clock = best;
        stats.has_clock = true;
        stats.clock = *best;
        small.mutable_clock()->set_offset_ns(best->offset_ns);
        small.mutable_clock()->set_bound_ns(best->bound_ns);
        small.mutable_clock()->set_at_ns(best->at_ns);
      } else if (now >= next_ping_ns && pings_out == 0) {
        ++pings_out;
        ++pings_sent;
        next_ping_ns = pings_sent < kFirstPings ? now : now + kPingEveryNs;
        small.mutable_ping();
      } else if (sent_clock || now - welcomed_ns >= kClockNs) {
        batch = outgoing.Next();
      }
      if (batch != nullptr || small.message_case() != v1::ToAnalyzer::MESSAGE_NOT_SET) {
        lock.unlock();
        if (small.has_ping()) {
          small.mutable_ping()->set_sent_ns(MonoNs());
        }
        const bool fine = stream->Write(batch != nullptr ? PackedMessage(*batch) : small);
        TellProblems();
        lock.lock();
        if (!fine) {
          // The reader learns why the stream broke; the writer can only wait.
          changed.wait(lock, [this] { return over || give_up; });
          return false;
        }
        continue;
      }
      if (finishing && outgoing.AllArrived()) {
        const uint64_t lingered =
            now - std::min(now, std::max(finishing_since_ns, last_progress_ns));
        if (job_ended || lingered >= options.linger_ns) {
          return true;
        }
      }
      uint64_t wait = 100 * kNsPerMs;
      if (pings_out == 0) {
        wait = std::min(wait, next_ping_ns > now ? next_ping_ns - now : 1);
      }
      changed.wait_for(lock, std::chrono::nanoseconds(wait));
    }
    return false;
  }

  void Read(Stream* stream) {
    v1::ToCollector message;
    while (stream->Read(&message)) {
      const uint64_t now = MonoNs();
      switch (message.message_case()) {
        case v1::ToCollector::kWelcome:
          TakeWelcome(message.welcome());
          break;
        case v1::ToCollector::kAck: {
          const std::lock_guard lock(mutex);
          outgoing.Acknowledge(message.ack().number());
          stats.acked = outgoing.acked();
          last_progress_ns = now;
          changed.notify_all();
          break;
        }
        case v1::ToCollector::kRound:
          TakeGather(message.round().gather_ms());
          if (options.on_unfinished) {
            options.on_unfinished(message.round().unfinished());
          }
          if (options.on_round) {
            options.on_round(message.round().round());
          }
          break;
        case v1::ToCollector::kStacks:
          if (options.on_stacks) {
            options.on_stacks(message.stacks());
          }
          break;
        case v1::ToCollector::kPong: {
          const std::lock_guard lock(mutex);
          clock.Add({.sent_ns = message.pong().sent_ns(),
                     .received_ns = message.pong().received_ns(),
                     .answered_ns = message.pong().answered_ns(),
                     .read_ns = now});
          pings_out = 0;
          changed.notify_all();
          break;
        }
        case v1::ToCollector::kVerdict: {
          std::string malformed;
          if (!Unpack(message.mutable_verdict(), &malformed)) {
            spdlog::warn("a verdict of the analyzer at {}: {}", options.target, malformed);
            break;
          }
          if (options.on_verdict) {
            options.on_verdict(message.verdict());
          }
          const std::lock_guard lock(mutex);
          job_ended |= message.verdict().job_ended();
          changed.notify_all();
          break;
        }
        case v1::ToCollector::kRefused: {
          const std::lock_guard lock(mutex);
          refused = "the analyzer at " + options.target +
                    " refused this collector: " + OneLine(message.refused().why());
          break;
        }
        case v1::ToCollector::MESSAGE_NOT_SET:
          break;  // an unknown message of a newer analyzer
      }
    }
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  }

  void TakeGather(uint64_t gather_ms) {
    const std::lock_guard lock(mutex);
    gather_ns = std::min(gather_ms * kNsPerMs, kMostGatherNs);
  }

  void TakeWelcome(const v1::Welcome& welcome) {
    std::string line;
    {
      const std::lock_guard lock(mutex);
      outgoing.Acknowledge(welcome.last_batch());
      outgoing.Rewind();
      stats.acked = outgoing.acked();
      last_progress_ns = MonoNs();
      if (++stats.connections > 1 || !last_notice.empty()) {
        line = "the analyzer at " + options.target + " answers; sending " +
               std::to_string(outgoing.taken() - std::min(outgoing.taken(), welcome.last_batch())) +
               " batches";
      }
      stats.connected = true;
      welcomed = true;
      why = Status::Ok();
      changed.notify_all();
    }
    if (!line.empty()) {
      Notice(std::move(line));
    }
  }

  // Runs in the connecting thread, without the lock.
  void TellProblems() {
    std::optional<std::string> problem;
    {
      const std::lock_guard lock(mutex);
      problem = outgoing.TakeProblem();
    }
    if (problem) {
      Notice(OneLine("the spool: " + *problem));
    }
  }
};

FleetLink::FleetLink(Options options) : state_(std::make_unique<State>(std::move(options))) {}

FleetLink::~FleetLink() { (void)Finish(0); }

void FleetLink::Start() {
  state_->thread = std::thread([this] { state_->Run(); });
}

bool FleetLink::Send(v1::EventBatch batch) {
  State& s = *state_;
  bool full = false;
  {
    const std::lock_guard lock(s.mutex);
    if (s.finishing) {
      return false;
    }
    s.outgoing.Add(std::move(batch), s.welcomed);
    s.stats.most_spooled_bytes = std::max(s.stats.most_spooled_bytes, s.outgoing.spooled_bytes());
    full = s.outgoing.Full() && !std::exchange(s.said_full, true);
    s.changed.notify_all();
  }
  if (full) {
    s.Notice("the spool for the analyzer at " + s.options.target + " is full (" +
             s.WhereItIsKept() +
             "): gordian stops draining the job's rings, and counts records that do not fit as "
             "lost");
  }
  s.TellProblems();
  return true;
}

bool FleetLink::Full() const {
  const std::lock_guard lock(state_->mutex);
  return state_->outgoing.Full();
}

uint64_t FleetLink::GatherNs() const {
  const std::lock_guard lock(state_->mutex);
  const bool direct = state_->welcomed && state_->outgoing.Direct();
  return direct ? state_->gather_ns : std::max(state_->gather_ns, kWaitingGatherNs);
}

Status FleetLink::Finish(uint64_t timeout_ns) {
  State& s = *state_;
  if (!s.thread.joinable()) {
    return status();
  }
  {
    std::unique_lock lock(s.mutex);
    s.finishing = true;
    s.finishing_since_ns = MonoNs();
    s.changed.notify_all();
    while (!s.ended) {
      const uint64_t last = std::max(s.finishing_since_ns, s.last_progress_ns);
      const uint64_t until = last +
                             (s.last_was_refused ? std::min(timeout_ns, kRefusedNs) : timeout_ns) +
                             (s.outgoing.AllArrived() ? s.options.linger_ns : 0);
      const uint64_t now = MonoNs();
      if (now >= until) {
        break;
      }
      s.changed.wait_for(lock,
                         std::chrono::nanoseconds(std::min<uint64_t>(until - now, 100 * kNsPerMs)));
    }
    s.give_up = true;
    if (s.context != nullptr && !s.ended) {
      s.context->TryCancel();
    }
    s.changed.notify_all();
  }
  s.thread.join();
  const std::lock_guard lock(s.mutex);
  if (s.outgoing.AllArrived()) {
    s.why = Status::Ok();
    return s.why;
  }
  const std::string why = s.why.ok() ? "the time limit ran out" : s.why.message();
  const std::string left = std::to_string(s.outgoing.taken() - s.outgoing.acked()) + " of " +
                           std::to_string(s.outgoing.taken()) + " batches";
  if (const Status spilled = s.outgoing.Spill(); !spilled.ok()) {
    s.why = Status::Unavailable(left + " did not reach the analyzer at " + s.options.target + " (" +
                                why + ") and are lost: " + spilled.message());
  } else {
    s.why = Status::Unavailable(left + " did not reach the analyzer at " + s.options.target + " (" +
                                why + "); they are kept in " + s.options.spool_dir);
  }
  return s.why;
}

Status FleetLink::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->why;
}

uint64_t FleetLink::batches() const {
  const std::lock_guard lock(state_->mutex);
  return state_->outgoing.taken();
}

FleetLink::Stats FleetLink::stats() const {
  const std::lock_guard lock(state_->mutex);
  Stats stats = state_->stats;
  stats.spooled_bytes = state_->outgoing.spooled_bytes();
  return stats;
}

uint64_t FleetLink::incarnation() const { return state_->options.hello.incarnation(); }

}  // namespace gordian::collector
