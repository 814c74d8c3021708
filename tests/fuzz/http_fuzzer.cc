// Sends any bytes to the page's server as one connection's requests. Aborts if an answer is not
// HTTP's, if a peer without a token gets what a job says, if one without an admin's changes an
// incident, or if the server does not answer a well-formed request afterwards.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "analyzer/web/gateway.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {
namespace {

constexpr std::string_view kViewer = "viewer-0123456789abcdef";
constexpr std::string_view kAdmin = "admin-0123456789abcdef";
constexpr std::string_view kOfTheJob = "what-only-viewers-may-read";
constexpr size_t kMostAnswerBytes = 4 << 20;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "http: %s\n", what.c_str());
  std::abort();
}

class OneJob final : public web::JobSource {
 public:
  std::vector<web::JobSummary> Jobs() override {
    web::JobSummary summary;
    summary.job = "a job/..%2f";
    summary.main.summary = kOfTheJob;
    return {summary};
  }
  StatusOr<web::PageParts> Look(const std::string& job) override {
    if (job != "a job/..%2f") return Status::NotFound("there is no such job");
    return web::PageParts{.job = job,
                          .verdict_json = R"({"summary":")" + std::string(kOfTheJob) + "\"}"};
  }
  std::string StatusJson(const std::string&) override { return ""; }
  std::string IncidentsJson() override {
    return R"({"incidents":[{"id":"0a1b","summary":")" + std::string(kOfTheJob) + "\"}]}";
  }
  std::optional<uint64_t> IncidentChanges() override { return 1; }
  StatusOr<std::string> Acknowledge(const std::string& id, const std::string&,
                                    const std::string&) override {
    ++acknowledged;
    return id;
  }
  std::atomic<int> acknowledged = 0;
};

struct Server {
  Server() {
    web::GatewayOptions options;
    options.listen = "127.0.0.1:0";
    options.may_view = [](std::string_view token) { return token == kViewer || token == kAdmin; };
    options.may_change = [](std::string_view token) {
      return token == kAdmin ? Status::Ok() : Status::InvalidArgument("that is no admin's token");
    };
    options.files = {.index_html = "<!doctype html>", .app_js = "//", .app_css = "/**/"};
    options.jobs = jobs;
    if (const Status status = gateway.Start(std::move(options)); !status.ok()) {
      Die(status.message());
    }
  }
  std::shared_ptr<OneJob> jobs = std::make_shared<OneJob>();
  web::Gateway gateway;
};

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // A port stays taken for a minute after the server has closed, and there are 28,000 of an address.
  static uint32_t next_address = 0;
  sockaddr_in source{};
  source.sin_family = AF_INET;
  source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + next_address++ % 65'536);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&source), sizeof source) != 0) {
    Die("no address for a connection");
  }
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    Die("the server takes no connection");
  }
  return fd;
}

// What the server answers until it closes, or until a stream of events has begun.
std::string Answer(int port, std::string_view bytes) {
  const int fd = Connect(port);
  // The server may close before it has read all.
  (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  std::string answer;
  char part[16384];
  while (answer.size() < kMostAnswerBytes) {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    // libFuzzer's own alarm, every half of -timeout, breaks off the wait and says nothing.
    const int ready = poll(&wait, 1, 15'000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) Die("no answer, and the connection stays");
    const ssize_t got = recv(fd, part, sizeof part, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    answer.append(part, static_cast<size_t>(got));
    if (answer.find("text/event-stream") != std::string::npos) break;
  }
  close(fd);
  return answer;
}

bool Holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

void FuzzHttp(const uint8_t* data, size_t bytes) {
  static Server* const server = [] {
    auto* made = new Server;  // lives as long as the process
    // Else no input would get anywhere.
    const std::string asks = "GET /api/v1/jobs HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
    const std::string with = asks + "Authorization: Bearer " + std::string(kViewer) + "\r\n\r\n";
    if (!Holds(Answer(made->gateway.port(), with), kOfTheJob)) Die("a viewer gets nothing");
    if (Holds(Answer(made->gateway.port(), asks + "\r\n"), kOfTheJob)) Die("anybody gets all");
    const std::string post =
        "POST /api/v1/incidents/0a1b/acknowledge HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        "Content-Length: 12\r\nAuthorization: Bearer ";
    (void)Answer(made->gateway.port(), post + std::string(kAdmin) + "\r\n\r\n{\"by\":\"ann\"}");
    if (made->jobs->acknowledged != 1) Die("an admin changes nothing");
    return made;
  }();
  const std::string_view sent(reinterpret_cast<const char*>(data), bytes);
  const int before = server->jobs->acknowledged;
  const std::string answer = Answer(server->gateway.port(), sent);
  if (!answer.empty() && !answer.starts_with("HTTP/1.")) Die("an answer that is no HTTP");
  const bool admin = Holds(sent, kAdmin);
  if (Holds(answer, kOfTheJob) && !admin && !Holds(sent, kViewer)) Die("a job's text has leaked");
  if (server->jobs->acknowledged != before && !admin) Die("an incident was changed");
  const std::string health = Answer(
      server->gateway.port(), "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  if (!health.starts_with("HTTP/1.1 200 ") || !health.ends_with("ok\n")) Die("not healthy");
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzHttp(data, bytes);
  return 0;
}
#endif
