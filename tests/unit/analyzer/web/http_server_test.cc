#include "analyzer/web/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "raw_client.h"

namespace gordian::web {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HttpServerTest : public testing::Test {
 protected:
  void Start(const std::string& token = "") {
    HttpOptions options;
    options.listen = "127.0.0.1:0";
    if (!token.empty()) {
      options.may_view = [token](std::string_view given) { return given == token; };
    }
    options.takes_post = [](std::string_view path) { return path == "/api/post"; };
    options.answer = [this](const HttpRequest& request) -> HttpResponse {
      ++asked_;
      if (request.post && request.token != "admin") return {.status = 403, .wrong_token = true};
      if (request.post) return {.body = "posted " + request.body + "\n"};
      if (request.path == "/missing") return {.status = 404};
      return {.body = "path=" + request.path + (request.gzip ? " gzip" : "") + "\n"};
    };
    options.on_refused = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      refused_.push_back(line);
    };
    const Status status = server_.Start(std::move(options));
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::string StatusOf(const std::string& answer) {
    return answer.size() < 12 ? answer : answer.substr(9, 3);
  }

  std::atomic<int> asked_ = 0;
  std::mutex mutex_;
  std::vector<std::string> refused_;
  HttpServer server_;
};

TEST_F(HttpServerTest, AnswersAndSaysNothingThatScriptsOfOthersCouldUse) {
  Start();
  const std::string answer = Get(server_.port(), "/a%20b%2Fc?x=1", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(StatusOf(answer), "200");
  EXPECT_NE(answer.find("path=/a b/c gzip"), std::string::npos) << answer;
  EXPECT_NE(answer.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
  EXPECT_NE(answer.find("X-Content-Type-Options: nosniff"), std::string::npos);
  EXPECT_EQ(answer.find("Set-Cookie"), std::string::npos);
  EXPECT_EQ(StatusOf(Get(server_.port(), "/missing")), "404");
  EXPECT_EQ(server_.stats().answers.at(200), 1u);
  EXPECT_EQ(server_.stats().answers.at(404), 1u);
}

TEST_F(HttpServerTest, TakesSeveralRequestsOfOneConnection) {
  Start();
  RawClient client(server_.port());
  for (int i = 0; i < 3; ++i) {
    client.Clear();
    ASSERT_TRUE(client.Send("GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    EXPECT_EQ(StatusOf(client.ReadUntil("path=/x\n")), "200");
  }
  client.Clear();
  ASSERT_TRUE(client.Send("HEAD /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
  const std::string head = client.ReadAll();
  EXPECT_EQ(StatusOf(head), "200");
  EXPECT_NE(head.find("Content-Length: 8"), std::string::npos) << head;
  EXPECT_EQ(head.find("path="), std::string::npos) << "HEAD has no body";
}

TEST_F(HttpServerTest, RefusesByName) {
  Start();
  struct Case {
    std::string request, status;
  };
  const std::vector<Case> cases = {
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405"},
      {"DELETE /api/v1/jobs/x HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"},
      {"GET x HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
      {"GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
      {"GET /%0 HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
      {"GET /a%00b HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
      {"\x16\x03\x01\x02 some other protocol\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n", "431"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n", "413"},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"},
      {"GET / HTTP/1.1\r\nHost: 127.evil.example\r\n\r\n", "421"},
      {"GET / HTTP/1.1\r\n\r\n", "421"},
  };
  for (const Case& one : cases) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.Send(one.request));
    EXPECT_EQ(StatusOf(client.ReadUntil("\r\n\r\n")), one.status) << one.request.substr(0, 60);
  }
  EXPECT_EQ(asked_, 0) << "none of these reaches the answers";
  for (const char* host : {"localhost", "localhost:80", "127.0.0.1:1", "127.1.2.3", "[::1]:80"}) {
    RawClient client(server_.port());
    ASSERT_TRUE(client.Send(std::string("GET / HTTP/1.1\r\nHost: ") + host + "\r\n\r\n"));
    EXPECT_EQ(StatusOf(client.ReadUntil("\r\n\r\n")), "200") << host;
  }
}

TEST_F(HttpServerTest, WantsTheTokenForDataAlone) {
  Start("s3cret-s3cret-s3cret");
  const int port = server_.port();
  EXPECT_EQ(StatusOf(Get(port, "/")), "200") << "the page asks for the token";
  for (const char* path :
       {"/api/v1/jobs", "/api/v1/events", "/metrics", "/api/", "/%61pi/v1/jobs"}) {
    EXPECT_EQ(StatusOf(Get(port, path)), "401") << path;
    EXPECT_EQ(StatusOf(Get(port, path, "Authorization: Basic s3cret-s3cret-s3cret\r\n")), "401");
  }
  EXPECT_EQ(StatusOf(Get(port, "/api/v1/jobs", "Authorization: Bearer s3cret-s3cret-s3cret\r\n")),
            "200");
}

std::string Post(int port, const std::string& path, const std::string& body,
                 const std::string& headers = "") {
  RawClient client(port);
  client.Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers +
              "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  return client.ReadAll();
}

// On loopback, where no token is wanted, and where one is.
class HttpServerPostTest : public HttpServerTest,
                           public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tokens, HttpServerPostTest, testing::Values("", "viewer"));

TEST_P(HttpServerPostTest, TakesPostWhereItIsToAndNothingElseThere) {
  Start(GetParam());
  const int port = server_.port();
  const std::string admin = "Authorization: Bearer admin\r\n";
  const std::string done = Post(port, "/api/post", "{}", admin);
  EXPECT_EQ(StatusOf(done), "200") << done;
  EXPECT_NE(done.find("posted {}"), std::string::npos) << done;
  const std::string got = Get(port, "/api/post", admin);
  EXPECT_EQ(StatusOf(got), "405");
  EXPECT_NE(got.find("Allow: POST\r\n"), std::string::npos) << got;
  EXPECT_EQ(StatusOf(Post(port, "/api/other", "{}", admin)), "405");
  EXPECT_EQ(StatusOf(Post(port, "/api/post", std::string(4096, 'x'), admin)), "200");
  EXPECT_EQ(StatusOf(Post(port, "/api/post", std::string(4097, 'x'), admin)), "413");
  EXPECT_EQ(StatusOf(Post(port, "/api/post", "{}")), "403");
  EXPECT_EQ(StatusOf(Post(port, "/api/post", "{}", "Authorization: Basic admin\r\n")), "403");
}

TEST_F(HttpServerTest, CountsTokensThatMayNotPost) {
  Start();
  std::string last;
  for (int i = 0; i < 20; ++i) last = StatusOf(Post(server_.port(), "/api/post", "{}"));
  EXPECT_EQ(last, "429");
  const std::string admin = "Authorization: Bearer admin\r\n";
  EXPECT_EQ(StatusOf(Post(server_.port(), "/api/post", "{}", admin)), "200");
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(refused_.size(), 2u) << "one line for the first, one for many";
}

TEST_F(HttpServerTest, TurnsAwayAnAddressThatGuesses) {
  Start("s3cret-s3cret-s3cret");
  std::string last;
  for (int i = 0; i < 20; ++i) {
    last = StatusOf(Get(server_.port(), "/metrics", "Authorization: Bearer guess\r\n"));
  }
  EXPECT_EQ(last, "429");
  EXPECT_EQ(
      StatusOf(Get(server_.port(), "/metrics", "Authorization: Bearer s3cret-s3cret-s3cret\r\n")),
      "200")
      << "another one at that address may be at fault";
  EXPECT_EQ(StatusOf(Get(server_.port(), "/healthz")), "200");
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(refused_.size(), 2u) << "one line for the first, one for many";
  EXPECT_NE(refused_.front().find("127.0.0.1"), std::string::npos);
}

TEST_F(HttpServerTest, ViewersGetWhatIsKnownThenWhatChanges) {
  Start();
  server_.Publish("a", "job", R"({"n":1})");
  server_.Publish("b", "job", R"({"n":2})");
  server_.Publish("a", "job", R"({"n":3})");
  RawClient viewer(server_.port());
  ASSERT_TRUE(viewer.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  const std::string first = viewer.ReadUntil("{\"n\":3}\n\n");
  EXPECT_NE(first.find("Content-Type: text/event-stream"), std::string::npos) << first;
  EXPECT_EQ(first.find("{\"n\":1}"), std::string::npos) << "only the last of each";
  EXPECT_LT(first.find("{\"n\":2}"), first.find("{\"n\":3}")) << first;
  const size_t at = first.rfind("id: ") + 4;
  const std::string id = first.substr(at, first.find('\n', at) - at);

  server_.Publish("b", "job", R"({"n":4})");
  EXPECT_NE(viewer.ReadUntil("{\"n\":4}\n\n").find("event: job"), std::string::npos);
  EXPECT_EQ(server_.stats().viewers, 1u);

  // One that returns gets only what it has not had; one from another server's time gets all.
  RawClient returns(server_.port());
  returns.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: " + id +
               "\r\n\r\n");
  const std::string rest = returns.ReadUntil("{\"n\":4}\n\n");
  EXPECT_EQ(rest.find("{\"n\":3}"), std::string::npos) << rest;
  RawClient stranger(server_.port());
  stranger.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1-99\r\n\r\n");
  const std::string all = stranger.ReadUntil("{\"n\":4}\n\n");
  EXPECT_NE(all.find("{\"n\":3}"), std::string::npos) << all;

  server_.Forget("b");
  server_.Publish("c", "job", R"({"n":5})");
  RawClient later(server_.port());
  later.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(later.ReadUntil("{\"n\":5}\n\n").find("{\"n\":4}"), std::string::npos);
}

TEST_F(HttpServerTest, AnEventIsOneLineWhateverItHolds) {
  Start();
  server_.Publish("a", "job", "x\n\nevent: forged\ndata: y\r\n");
  RawClient viewer(server_.port());
  viewer.Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string got = viewer.ReadUntil("data: y");
  EXPECT_EQ(got.find("\nevent: forged"), std::string::npos) << got;
}

TEST_F(HttpServerTest, CutsOffAViewerThatDoesNotReadAndServesTheOthers) {
  Start();
  RawClient deaf(server_.port()), good(server_.port());
  const int small = 4096;
  setsockopt(deaf.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  for (RawClient* client : {&deaf, &good}) {
    client->Send("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  good.ReadUntil("\r\n\r\n");
  const std::string large(64 << 10, 'x');
  for (int i = 0; i < 400; ++i) {
    good.Clear();
    server_.Publish("a", "job", large + std::to_string(i) + ".");
    ASSERT_NE(good.ReadUntil(std::to_string(i) + ".\n\n").size(), 0u);
    ASSERT_FALSE(good.closed()) << i;
  }
  // What the kernel had taken for it comes, and then the end: not all 26 MB.
  EXPECT_LT(deaf.ReadAll().size(), large.size() * 399);
  EXPECT_TRUE(deaf.closed());
}

// Two peers hold their connections with half a request each; the third one asks in vain for none.
TEST_F(HttpServerTest, EndsAPeerThatDoesNotFinishItsRequest) {
  Start();
  RawClient slow(server_.port()), silent(server_.port());
  ASSERT_TRUE(slow.Send("GET / HT"));
  EXPECT_EQ(StatusOf(Get(server_.port(), "/")), "200");
  slow.ReadAll(seconds(25));
  EXPECT_TRUE(slow.closed());
  silent.ReadAll(seconds(25));
  EXPECT_TRUE(silent.closed());
}

TEST_F(HttpServerTest, ManyConnectionsAreBoundedAndPass) {
  Start();
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (int i = 0; i < 2000; ++i) {
    auto client = std::make_unique<RawClient>(server_.port());
    if (!client->connected()) break;  // this process has no more descriptors
    crowd.push_back(std::move(client));
  }
  EXPECT_GT(crowd.size(), 100u);
  const auto end = std::chrono::steady_clock::now() + seconds(10);
  while (server_.stats().connections == 0 && std::chrono::steady_clock::now() < end) {
    poll(nullptr, 0, 5);
  }
  EXPECT_LE(server_.stats().connections, 1024u);
  crowd.clear();
  std::string answer;
  while (StatusOf(answer) != "200" && std::chrono::steady_clock::now() < end + seconds(20)) {
    answer = Get(server_.port(), "/");
  }
  EXPECT_EQ(StatusOf(answer), "200");
}

TEST_F(HttpServerTest, NamesAnAddressThatItCannotHave) {
  Start();
  HttpServer other;
  const std::string taken = "127.0.0.1:" + std::to_string(server_.port());
  const Status status = other.Start({.listen = taken, .answer = nullptr});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(taken), std::string::npos) << status.message();
}

}  // namespace
}  // namespace gordian::web
