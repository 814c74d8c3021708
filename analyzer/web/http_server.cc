#include "analyzer/web/http_server.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <type_traits>

#include "analyzer/access/access_key.h"
#include "common/utf8.h"

namespace gordian::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using std::chrono::seconds;

constexpr uint32_t kMostHeaderBytes = 16 << 10;
constexpr uint64_t kMostBodyBytes = 4 << 10;
// For a whole request, whether the peer sends it at once or byte by byte.
constexpr seconds kRequestPatience(10);
constexpr seconds kAnswerPatience(30);
// The rest goes to viewers' own addresses and to files.
constexpr size_t kMostConnections = 1024;
constexpr size_t kMostViewers = 256;
// A viewer that has not read so much is cut off; it returns, and gets what is new.
constexpr size_t kMostWaitingBytes = 1 << 20;
constexpr seconds kHeartbeat(10);
constexpr seconds kAcceptAgain(1);
constexpr int kAnswerThreads = 4;
// The page's own files alone: no script or style from anywhere else, and none within the markup.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

size_t ConnectionsThatFit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kMostConnections;
  return std::clamp<size_t>(files.rlim_cur / 4, 8, kMostConnections);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Nothing if it is no path.
std::optional<std::string> DecodePath(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (target.empty() || target.front() != '/') return std::nullopt;
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      path += target[i];
      continue;
    }
    if (i + 2 >= target.size()) return std::nullopt;
    const int high = HexDigit(target[i + 1]), low = HexDigit(target[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
  if (path.find('\0') != std::string::npos) return std::nullopt;
  return path;
}

// "[::1]:80" and "localhost:80" without their port.
std::string_view HostOf(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool NamesLoopback(std::string_view host) {
  std::string name(HostOf(host));
  if (name == "localhost") return true;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  beast::error_code error;
  const asio::ip::address address = asio::ip::make_address(name, error);
  return !error && address.is_loopback();
}

bool WantsToken(std::string_view path) { return path.starts_with("/api/") || path == "/metrics"; }

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

void SetSafeHeaders(http::fields* fields) {
  fields->set(http::field::cache_control, "no-store");
  fields->set("X-Content-Type-Options", "nosniff");
  fields->set("Content-Security-Policy", kPolicy);
  fields->set("Referrer-Policy", "no-referrer");
  fields->set("Cross-Origin-Resource-Policy", "same-origin");
}

// A connection that gets events. Of the server's thread.
class Viewer {
 public:
  virtual ~Viewer() = default;
  virtual void Push(const std::string& text) = 0;
  virtual void Close() = 0;
};

struct Remembered {
  uint64_t number = 0;
  std::string text;  // as it goes out
};

}  // namespace

class HttpServer::Impl {
 public:
  Status Start(HttpOptions options) {
    options_ = std::move(options);
    const size_t colon = options_.listen.rfind(':');
    std::string host = options_.listen.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    beast::error_code error;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(host, options_.listen.substr(colon + 1), tcp::resolver::passive, error);
    if (error || found.empty()) {
      return Status::Unavailable("cannot find the address " + options_.listen + ": " +
                                 error.message());
    }
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return Status::Unavailable("cannot listen on " + options_.listen + ": " + error.message());
    }
    port_ = acceptor_.local_endpoint(error).port();
    if (options_.tls.on()) {
      tls_stamp_ = access::TlsFilesStamp(options_.tls);
      StatusOr<std::shared_ptr<asio::ssl::context>> made = access::MakeTlsContext(options_.tls);
      GORDIAN_RETURN_IF_ERROR(made.status());
      tls_ = std::move(made).value();
    }
    most_connections_ = ConnectionsThatFit();
    std::random_device random;
    start_ = std::to_string(random()) + "-";
    Accept();
    Beat();
    thread_ = std::thread([this] { io_.run(); });
    return Status::Ok();
  }

  int port() const { return port_; }

  void Publish(const std::string& key, const std::string& event, const std::string& data) {
    asio::post(io_, [this, key, event, data] { Send(key, event, data); });
  }

  void Forget(const std::string& key) {
    asio::post(io_, [this, key] { last_.erase(key); });
  }

  std::string last_event() const { return EventName(events_); }

  Stats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  void Stop() {
    if (!thread_.joinable()) return;
    answers_.stop();
    answers_.join();
    std::promise<void> sent;  // a write to a socket with room ends as it begins
    asio::post(io_, [this, &sent] {
      EndViewers();
      sent.set_value();
    });
    sent.get_future().wait();
    io_.stop();
    thread_.join();
  }

 private:
  template <typename Stream>
  class Session;

  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // no descriptor is free, as a rule: those that are will be
        accept_again_.expires_after(kAcceptAgain);
        accept_again_.async_wait([this](beast::error_code) { Accept(); });
        return;
      }
      if (connections_ < most_connections_) Take(std::move(socket));
      Accept();
    });
  }

  void Take(tcp::socket socket);
  void EndViewers();
  void RenewTls();
  void Beat();
  void Send(const std::string& key, const std::string& event, const std::string& data);

  void CountConnection(int change) {
    connections_ += static_cast<size_t>(change);
    const std::lock_guard lock(mutex_);
    stats_.connections = connections_;
  }

  void CountAnswer(int status) {
    const std::lock_guard lock(mutex_);
    ++stats_.answers[status];
  }

  // 0: it may go on; else the status that refuses it.
  int Refuses(const Request& request, std::string_view path, const std::string& token,
              const std::string& address) {
    if (!options_.may_view) {
      return options_.any_host || NamesLoopback(std::string(request[http::field::host])) ? 0 : 421;
    }
    if (!WantsToken(path) || TakesPost(path)) return 0;
    if (!token.empty() && options_.may_view(token)) return 0;
    // A browser that does not know the token yet shows none.
    if (request[http::field::authorization].empty()) return 401;
    return TooMany(address) ? 429 : 401;
  }

  bool TakesPost(std::string_view path) const {
    return options_.takes_post && options_.takes_post(path);
  }

  // The address has shown a wrong token.
  bool TooMany(const std::string& address) {
    const int times = wrong_.Note(address);
    if (times == 1) Say("HTTP: a wrong token from " + address);
    if (times == access::WrongTokens::kMany) Say("HTTP: many wrong tokens from " + address);
    return times > access::WrongTokens::kMany;
  }

  std::string EventName(uint64_t number) const { return start_ + std::to_string(number); }

  void Say(const std::string& line) {
    if (options_.on_refused) options_.on_refused(line);
  }

  HttpOptions options_;
  int port_ = 0;
  size_t most_connections_ = kMostConnections;

  // Of the server's thread.
  size_t connections_ = 0;
  std::vector<std::weak_ptr<Viewer>> viewers_;
  std::map<std::string, Remembered> last_;
  std::atomic<uint64_t> events_ = 0;
  std::string start_;  // tells the events of this server from an earlier one's
  access::WrongTokens wrong_;
  std::shared_ptr<asio::ssl::context> tls_;  // null: plain HTTP
  std::string tls_stamp_;

  mutable std::mutex mutex_;
  Stats stats_;

  // Last, since what they hold at their end still counts itself above.
  asio::io_context io_{1};
  asio::thread_pool answers_{kAnswerThreads};
  tcp::acceptor acceptor_{io_};
  asio::steady_timer accept_again_{io_};
  asio::steady_timer beat_{io_};
  std::thread thread_;
};

using Plain = beast::tcp_stream;
using Encrypted = beast::ssl_stream<beast::tcp_stream>;

// One connection. All members are of the server's thread.
template <typename Stream>
class HttpServer::Impl::Session final : public Viewer,
                                        public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <typename... Tls>
  Session(Impl* server, tcp::socket socket, Tls&... tls)
      : server_(server), stream_(std::move(socket), tls...) {
    server_->CountConnection(1);
    beast::error_code error;
    const tcp::endpoint peer = lowest().socket().remote_endpoint(error);
    if (!error) address_ = peer.address().to_string();
  }
  ~Session() override { server_->CountConnection(-1); }

  void Begin() {
    if constexpr (std::is_same_v<Stream, Encrypted>) {
      lowest().expires_after(kRequestPatience);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code error) {
                                if (error) return self->Close();
                                self->Read();
                              });
    } else {
      Read();
    }
  }

  void Read() {
    parser_.emplace();
    parser_->header_limit(kMostHeaderBytes);
    parser_->body_limit(kMostBodyBytes);
    lowest().expires_after(kRequestPatience);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](beast::error_code error, size_t) { self->Take(error); });
  }

  void Push(const std::string& text) override {
    if (!watching_) return;
    if (waiting_bytes_ + text.size() > kMostWaitingBytes) {
      beast::error_code ignored;  // the kernel is to drop what it holds for this peer, too
      lowest().socket().set_option(asio::socket_base::linger(true, 0), ignored);
      return Close();
    }
    waiting_bytes_ += text.size();
    waiting_.push_back(text);
    if (waiting_.size() == 1) WriteNext();
  }

  // Without TLS's own farewell: what was sent has a length or an end of its own.
  void Close() override {
    watching_ = false;
    lowest().close();
  }

 private:
  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  void Take(beast::error_code error) {
    if (error == http::error::header_limit) return Answer({.status = 431});
    if (error == http::error::body_limit) return Answer({.status = 413});
    if (error == http::error::end_of_stream || error == http::error::partial_message) {
      return Close();
    }
    if (error.category() == http::make_error_code(http::error::bad_method).category()) {
      return Answer({.status = 400});
    }
    if (error) return Close();
    const Request& request = parser_->get();
    keep_alive_ = request.keep_alive();
    const std::optional<std::string> path =
        DecodePath(std::string_view(request.target().data(), request.target().size()));
    head_ = request.method() == http::verb::head;
    const bool posts = request.method() == http::verb::post;
    allowed_ = path && server_->TakesPost(*path) ? "POST" : "GET, HEAD";
    const bool reads = head_ || request.method() == http::verb::get;
    if (allowed_ == "POST" ? !posts : !reads) return Answer({.status = 405});
    if (!path) return Answer({.status = 400});
    std::string token(request[http::field::authorization]);
    constexpr std::string_view kScheme = "Bearer ";
    token = token.starts_with(kScheme) ? token.substr(kScheme.size()) : "";
    if (const int refused = server_->Refuses(request, *path, token, address_); refused != 0) {
      return Answer({.status = refused});
    }
    if (*path == kEventsPath) return Watch(request);
    HttpRequest asked{.head = head_,
                      .path = *path,
                      .accept = std::string(request[http::field::accept]),
                      .gzip = std::string(request[http::field::accept_encoding]).find("gzip") !=
                              std::string::npos,
                      .post = posts,
                      .token = std::move(token),
                      .body = posts ? request.body() : ""};
    lowest().expires_never();  // the time that an answer takes is not the peer's
    // Hands the connection over and back, so that the server's thread is the last to hold it.
    asio::post(server_->answers_,
               [self = this->shared_from_this(), asked = std::move(asked)]() mutable {
                 HttpResponse answer = self->server_->options_.answer(asked);
                 asio::io_context& io = self->server_->io_;
                 asio::post(io, [self = std::move(self), answer = std::move(answer)]() mutable {
                   if (answer.wrong_token && self->server_->TooMany(self->address_)) {
                     answer = {.status = 429};
                   }
                   self->Answer(std::move(answer));
                 });
               });
  }

  void Answer(HttpResponse answer) {
    if (answer.status != 200 && answer.body.empty()) {
      answer.body = std::to_string(answer.status) + " " +
                    std::string(http::obsolete_reason(static_cast<http::status>(answer.status))) +
                    "\n";
    }
    server_->CountAnswer(answer.status);
    if (answer.status == 400 || answer.status == 413 || answer.status == 431) keep_alive_ = false;
    response_.emplace();
    response_->result(static_cast<unsigned>(answer.status));
    response_->set(http::field::content_type, answer.type);
    if (answer.gzip) response_->set(http::field::content_encoding, "gzip");
    response_->set(http::field::vary, "Accept, Accept-Encoding");
    if (answer.status == 401) response_->set(http::field::www_authenticate, "Bearer");
    if (answer.status == 429) response_->set(http::field::retry_after, "60");
    if (answer.status == 405) response_->set(http::field::allow, allowed_);
    SetSafeHeaders(&response_->base());
    response_->keep_alive(keep_alive_);
    const size_t length = answer.body.size();
    if (!head_) response_->body() = std::move(answer.body);
    response_->content_length(length);
    lowest().expires_after(kAnswerPatience);
    auto done = [self = this->shared_from_this()](beast::error_code error, size_t) {
      if (error || !self->keep_alive_) return self->Close();
      self->response_.reset();
      self->Read();
    };
    if (head_) {
      header_.emplace(*response_);
      http::async_write_header(stream_, *header_, std::move(done));
    } else {
      http::async_write(stream_, *response_, std::move(done));
    }
  }

  void Watch(const Request& request) {
    size_t viewers = 0;
    for (const auto& viewer : server_->viewers_) viewers += viewer.expired() ? 0 : 1;
    if (viewers >= kMostViewers) {
      return Answer({.status = 503, .body = "503: as many viewers as this server takes\n"});
    }
    server_->CountAnswer(200);
    watching_ = true;
    server_->viewers_.push_back(this->weak_from_this());
    {
      const std::lock_guard lock(server_->mutex_);
      server_->stats_.viewers = viewers + 1;
    }
    http::response<http::empty_body> begin;
    begin.set(http::field::content_type, "text/event-stream");
    begin.set(http::field::connection, "close");
    SetSafeHeaders(&begin);
    std::string text = "HTTP/1.1 200 OK\r\n";
    for (const auto& field : begin) {
      text.append(field.name_string().data(), field.name_string().size()).append(": ");
      text.append(field.value().data(), field.value().size()).append("\r\n");
    }
    Push(text + "\r\n");
    const auto had = request["Last-Event-ID"];
    uint64_t after = 0;
    if (const std::string_view id(had.data(), had.size()); id.starts_with(server_->start_)) {
      after = std::strtoull(std::string(id.substr(server_->start_.size())).c_str(), nullptr, 10);
    }
    std::vector<const Remembered*> missed;
    for (const auto& [key, event] : server_->last_) {
      if (event.number > after) missed.push_back(&event);
    }
    std::sort(missed.begin(), missed.end(),
              [](const Remembered* a, const Remembered* b) { return a->number < b->number; });
    for (const Remembered* event : missed) Push(event->text);
    ReadOn();
  }

  // Notices that the viewer has left; what it sends meanwhile is dropped.
  void ReadOn() {
    lowest().expires_never();
    stream_.async_read_some(asio::buffer(dropped_),
                            [self = this->shared_from_this()](beast::error_code error, size_t) {
                              if (error) return self->Close();
                              self->ReadOn();
                            });
  }

  void WriteNext() {
    lowest().expires_after(kAnswerPatience);
    asio::async_write(stream_, asio::buffer(waiting_.front()),
                      [self = this->shared_from_this()](beast::error_code error, size_t) {
                        if (error || !self->watching_) return self->Close();
                        self->waiting_bytes_ -= self->waiting_.front().size();
                        self->waiting_.pop_front();
                        self->lowest().expires_never();
                        if (!self->waiting_.empty()) self->WriteNext();
                      });
  }

  Impl* const server_;
  Stream stream_;
  std::string address_ = "?";
  beast::flat_buffer buffer_{kMostHeaderBytes + kMostBodyBytes};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<Response> response_;
  std::optional<http::response_serializer<http::string_body>> header_;
  bool keep_alive_ = false;
  bool head_ = false;
  std::string allowed_;  // methods of the path
  bool watching_ = false;
  std::deque<std::string> waiting_;
  size_t waiting_bytes_ = 0;
  std::array<char, 256> dropped_;
};

void HttpServer::Impl::Take(tcp::socket socket) {
  if (tls_ == nullptr) {
    std::make_shared<Session<Plain>>(this, std::move(socket))->Begin();
  } else {
    std::make_shared<Session<Encrypted>>(this, std::move(socket), *tls_)->Begin();
  }
}

// Connections that are open keep the certificate that they began with.
void HttpServer::Impl::RenewTls() {
  if (!options_.tls.on()) return;
  std::string stamp = access::TlsFilesStamp(options_.tls);
  if (stamp == tls_stamp_) return;
  tls_stamp_ = std::move(stamp);
  StatusOr<std::shared_ptr<asio::ssl::context>> renewed = access::MakeTlsContext(options_.tls);
  if (renewed.ok()) {
    tls_ = std::move(renewed).value();
  } else {
    Say("HTTP: " + renewed.status().message() + "; the certificate stays the one from before");
  }
}

void HttpServer::Impl::EndViewers() {
  beast::error_code ignored;  // it was open
  acceptor_.close(ignored);
  for (const auto& one : viewers_) {
    if (const auto viewer = one.lock()) viewer->Close();
  }
}

// Keeps proxies from ending quiet streams, forgets viewers that have left, and looks for a renewed
// certificate.
void HttpServer::Impl::Beat() {
  beat_.expires_after(kHeartbeat);
  beat_.async_wait([this](beast::error_code error) {
    if (error) return;
    for (const auto& one : viewers_) {
      if (const auto viewer = one.lock()) viewer->Push(":\n\n");
    }
    std::erase_if(viewers_, [](const auto& viewer) { return viewer.expired(); });
    {
      const std::lock_guard lock(mutex_);
      stats_.viewers = viewers_.size();
    }
    RenewTls();
    Beat();
  });
}

void HttpServer::Impl::Send(const std::string& key, const std::string& event,
                            const std::string& data) {
  Remembered& last = last_[key];
  last.number = ++events_;
  last.text = "id: " + EventName(last.number) + "\nevent: " + event +
              "\ndata: " + Printable(CleanUtf8(data)) + "\n\n";
  for (const auto& one : viewers_) {
    if (const auto viewer = one.lock()) viewer->Push(last.text);
  }
}

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}
HttpServer::~HttpServer() { Stop(); }
Status HttpServer::Start(HttpOptions options) { return impl_->Start(std::move(options)); }
int HttpServer::port() const { return impl_->port(); }
void HttpServer::Publish(const std::string& key, const std::string& event,
                         const std::string& data) {
  impl_->Publish(key, event, data);
}
void HttpServer::Forget(const std::string& key) { impl_->Forget(key); }
std::string HttpServer::last_event() const { return impl_->last_event(); }
HttpServer::Stats HttpServer::stats() const { return impl_->stats(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace gordian::web
