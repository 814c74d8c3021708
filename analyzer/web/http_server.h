// A small HTTP/1.1 server for the live page, its JSON and `/metrics`: Boost.Beast on one thread, and
// a few threads that make answers.
//
// Peers are not trusted. Bounds, each beside its constant in http_server.cc: bytes of a request,
// time to send it and to take the answer, connections, viewers, and what waits for a viewer that
// does not read. A peer past a bound gets a status that names it, or is cut off; others notice
// nothing.
#ifndef GORDIAN_ANALYZER_WEB_HTTP_SERVER_H_
#define GORDIAN_ANALYZER_WEB_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/access/tls_context.h"
#include "common/status.h"

namespace gordian::web {

struct HttpRequest {
  bool head = false;   // HEAD: the server sends no body
  std::string path;    // percent-decoded, without what follows '?'
  std::string accept;  // as the client sent it
  bool gzip = false;   // the client takes it
  bool post = false;   // POST: `body` has what it brings
  std::string token;   // of "Authorization: Bearer TOKEN"; `answer` must check it
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  bool gzip = false;  // `body` is packed
  // The token is not one that may do this: the server counts it, and turns an address away that has
  // shown many.
  bool wrong_token = false;
};

struct HttpOptions {
  std::string listen;    // HOST:PORT, port 0: any
  access::TlsFiles tls;  // without: plain HTTP; renewed files are used within some seconds
  // Whether this token may see the data: every path below /api/ and /metrics wants "Authorization:
  // Bearer TOKEN". Null: every peer may, as long as it names this machine's loopback address as the
  // host, so that no page of another site can (DNS rebinding).
  std::function<bool(std::string_view token)> may_view;
  bool any_host = false;  // with a null may_view: whatever host a peer names
  // Which paths take POST, and that alone; all others take GET and HEAD. Null: none does. What a POST
  // may do is for `answer` to judge by its token.
  std::function<bool(std::string_view path)> takes_post;
  // Answers every request but those for kEventsPath; several threads call it at once.
  std::function<HttpResponse(const HttpRequest&)> answer;
  // A line for an address that shows a wrong token, and for files that cannot be used any more.
  std::function<void(const std::string&)> on_refused;
};

inline constexpr char kEventsPath[] = "/api/v1/events";

// Thread-safe; call Start once.
class HttpServer {
 public:
  HttpServer();
  ~HttpServer();  // Stop(), if the owner did not
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Errors: the address cannot be resolved or bound; as of access::MakeTlsContext.
  Status Start(HttpOptions options);
  int port() const;

  // Sends an event to every viewer. The server remembers the last event of each `key`; a viewer that
  // comes later gets those first, and one that returns gets those it has not had.
  void Publish(const std::string& key, const std::string& event, const std::string& data);
  // The key is gone: later viewers do not get it.
  void Forget(const std::string& key);
  // Names the last event that was sent: a viewer that shows it as Last-Event-ID gets those after it.
  std::string last_event() const;

  struct Stats {
    size_t connections = 0;
    size_t viewers = 0;
    std::map<int, uint64_t> answers;  // by status
  };
  Stats stats() const;

  // Sends what was published before, as far as viewers take it at once.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_HTTP_SERVER_H_
