// Transport over UCX's active messages (UCP), which runs over InfiniBand, RoCE, TCP or shared
// memory, whichever it finds. UCX's headers are needed to compile, its library only in processes
// that have members on other nodes: it is opened with dlopen.
//
// Messages are sent eagerly, whatever their size: the receiver has memory for each, so a rendezvous
// would only add a round trip.
#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/net/transport.h"

namespace gordian::runtime::net {
namespace {

constexpr unsigned kMessageId = 0;

struct Ucx {
  decltype(&::ucp_init_version) init_version;
  decltype(&::ucp_cleanup) cleanup;
  decltype(&::ucp_config_read) config_read;
  decltype(&::ucp_config_release) config_release;
  decltype(&::ucp_worker_create) worker_create;
  decltype(&::ucp_worker_destroy) worker_destroy;
  decltype(&::ucp_worker_get_address) worker_get_address;
  decltype(&::ucp_worker_release_address) worker_release_address;
  decltype(&::ucp_worker_get_efd) worker_get_efd;
  decltype(&::ucp_worker_arm) worker_arm;
  decltype(&::ucp_worker_progress) worker_progress;
  decltype(&::ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&::ucp_am_send_nbx) am_send_nbx;
  decltype(&::ucp_ep_create) ep_create;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx;
  decltype(&::ucp_ep_flush_nbx) ep_flush_nbx;
  decltype(&::ucp_request_check_status) request_check_status;
  decltype(&::ucp_request_free) request_free;
  decltype(&::ucs_status_string) status_string;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Null and *error: the library is not there. Opened once, and never closed: it has threads and
// handlers of its own.
const Ucx* TheUcx(std::string* error) {
  static std::string why;
  static const Ucx* ucx = []() -> const Ucx* {
    const char* given = std::getenv("GRT_UCX_LIBRARY");
    const std::string name = given != nullptr && *given != '\0' ? given : "libucp.so.0";
    void* ucp = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (ucp == nullptr) {
      why = "UCX is missing, which members on other nodes need: " + name +
            " cannot be opened (Debian's package libucx0 has libucp.so.0)";
      if (const char* text = dlerror()) why += std::string(": ") + text;
      return nullptr;
    }
    static Ucx found;
    const bool all =
        Find(ucp, "ucp_init_version", &found.init_version) &&
        Find(ucp, "ucp_cleanup", &found.cleanup) &&
        Find(ucp, "ucp_config_read", &found.config_read) &&
        Find(ucp, "ucp_config_release", &found.config_release) &&
        Find(ucp, "ucp_worker_create", &found.worker_create) &&
        Find(ucp, "ucp_worker_destroy", &found.worker_destroy) &&
        Find(ucp, "ucp_worker_get_address", &found.worker_get_address) &&
        Find(ucp, "ucp_worker_release_address", &found.worker_release_address) &&
        Find(ucp, "ucp_worker_get_efd", &found.worker_get_efd) &&
        Find(ucp, "ucp_worker_arm", &found.worker_arm) &&
        Find(ucp, "ucp_worker_progress", &found.worker_progress) &&
        Find(ucp, "ucp_worker_set_am_recv_handler", &found.worker_set_am_recv_handler) &&
        Find(ucp, "ucp_am_send_nbx", &found.am_send_nbx) &&
        Find(ucp, "ucp_ep_create", &found.ep_create) &&
        Find(ucp, "ucp_ep_close_nbx", &found.ep_close_nbx) &&
        Find(ucp, "ucp_ep_flush_nbx", &found.ep_flush_nbx) &&
        Find(ucp, "ucp_request_check_status", &found.request_check_status) &&
        Find(ucp, "ucp_request_free", &found.request_free) &&
        Find(ucp, "ucs_status_string", &found.status_string);
    if (all) return &found;
    why = "UCX is too old: " + name + " lacks active messages (UCX 1.10 has them)";
    return nullptr;
  }();
  if (ucx == nullptr) *error = why;
  return ucx;
}

class UcxTransport final : public Transport {
 public:
  UcxTransport(const Ucx& ucx, Sink* sink) : ucx_(ucx), sink_(sink) {}
  ~UcxTransport() override {
    for (const std::unique_ptr<Peer>& peer : peers_) Close(peer.get());
    if (worker_ != nullptr) ucx_.worker_destroy(worker_);
    if (context_ != nullptr) ucx_.cleanup(context_);
  }

  bool Open(std::string* error);

  const std::string& address() const override { return address_; }
  bool Connect(const std::string& address, uint32_t* peer, std::string* error) override;
  void Send(uint32_t peer, const Message& message) override;
  void Cut(uint32_t peer) override { Close(peers_[peer].get()); }
  bool IsFlushed() override;
  bool Progress() override;
  bool Arm() override { return ucx_.worker_arm(worker_) == UCS_OK; }
  int wait_fd() const override { return wait_fd_; }

 private:
  struct Peer {
    UcxTransport* owner;
    uint32_t number;
    ucp_ep_h ep;  // null: closed
    bool lost;    // told by UCX, not yet to the sink
    std::string why;
  };
  struct Sending {
    const Ucx* ucx;
    std::shared_ptr<const void> keeper;
    unsigned char header[kMostHeaderBytes];
  };

  static ucs_status_t OnReceived(void* self, const void* header, size_t header_bytes, void* data,
                                 size_t data_bytes, const ucp_am_recv_param_t* parameters);
  static void OnError(void* peer, ucp_ep_h ep, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* sending);
  bool Fails(ucs_status_t status, const char* what, std::string* error) const;
  void Close(Peer* peer);

  const Ucx& ucx_;
  Sink* const sink_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  int wait_fd_ = -1;
  bool any_lost_ = false;
  bool moved_ = false;
  bool flushes_ = false;
  std::vector<void*> flushed_;  // requests of each connection's
  std::vector<std::unique_ptr<Peer>> peers_;
};

bool UcxTransport::Fails(ucs_status_t status, const char* what, std::string* error) const {
  if (status == UCS_OK) return false;
  *error = std::string("UCX: ") + what + ": " + ucx_.status_string(status);
  return true;
}

bool UcxTransport::Open(std::string* error) {
  ucp_config_t* config = nullptr;
  if (Fails(ucx_.config_read(nullptr, nullptr, &config), "reading its settings", error)) {
    return false;
  }
  ucp_params_t context;
  std::memset(&context, 0, sizeof context);
  context.field_mask = UCP_PARAM_FIELD_FEATURES;
  context.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t made =
      ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &context, config, &context_);
  ucx_.config_release(config);
  if (Fails(made, "starting", error)) return false;
  ucp_worker_params_t worker;
  std::memset(&worker, 0, sizeof worker);
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (Fails(ucx_.worker_create(context_, &worker, &worker_), "making a worker", error) ||
      Fails(ucx_.worker_get_efd(worker_, &wait_fd_), "making a wakeup", error)) {
    return false;
  }
  ucp_am_handler_param_t handler;
  std::memset(&handler, 0, sizeof handler);
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = OnReceived;
  handler.arg = this;
  if (Fails(ucx_.worker_set_am_recv_handler(worker_, &handler), "taking messages", error)) {
    return false;
  }
  ucp_address_t* address = nullptr;
  size_t bytes = 0;
  if (Fails(ucx_.worker_get_address(worker_, &address, &bytes), "naming itself", error)) {
    return false;
  }
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_.worker_release_address(worker_, address);
  return true;
}

bool UcxTransport::Connect(const std::string& address, uint32_t* peer, std::string* error) {
  auto made = std::make_unique<Peer>();
  made->owner = this;
  made->number = static_cast<uint32_t>(peers_.size());
  made->ep = nullptr;
  made->lost = false;
  ucp_ep_params_t parameters;
  std::memset(&parameters, 0, sizeof parameters);
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = OnError;
  parameters.err_handler.arg = made.get();
  if (Fails(ucx_.ep_create(worker_, &parameters, &made->ep), "connecting", error)) return false;
  *peer = made->number;
  peers_.push_back(std::move(made));
  return true;
}

void UcxTransport::Send(uint32_t peer, const Message& message) {
  Peer& to = *peers_[peer];
  if (to.ep == nullptr || to.lost || message.header_bytes > kMostHeaderBytes) return;
  auto sending = std::make_unique<Sending>();
  sending->ucx = &ucx_;
  sending->keeper = message.keeper;
  std::memcpy(sending->header, message.header, message.header_bytes);
  ucp_request_param_t parameters;
  std::memset(&parameters, 0, sizeof parameters);
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_AM_SEND_FLAG_EAGER;
  parameters.cb.send = OnSent;
  parameters.user_data = sending.get();
  void* const request = ucx_.am_send_nbx(to.ep, kMessageId, sending->header, message.header_bytes,
                                         message.data, message.data_bytes, &parameters);
  moved_ = true;
  if (UCS_PTR_IS_PTR(request)) {
    sending.release();  // OnSent ends it
  } else if (UCS_PTR_IS_ERR(request)) {
    OnError(&to, to.ep, UCS_PTR_STATUS(request));
  }
}

bool UcxTransport::IsFlushed() {
  if (!std::exchange(flushes_, true)) {
    for (const std::unique_ptr<Peer>& peer : peers_) {
      if (peer->ep == nullptr || peer->lost) continue;
      ucp_request_param_t parameters;
      std::memset(&parameters, 0, sizeof parameters);
      void* const request = ucx_.ep_flush_nbx(peer->ep, &parameters);
      if (UCS_PTR_IS_PTR(request)) flushed_.push_back(request);
    }
  }
  std::erase_if(flushed_, [this](void* request) {
    if (ucx_.request_check_status(request) == UCS_INPROGRESS) return false;
    ucx_.request_free(request);
    return true;
  });
  return flushed_.empty();
}

bool UcxTransport::Progress() {
  bool any = std::exchange(moved_, false);
  while (ucx_.worker_progress(worker_) != 0) any = true;
  if (!std::exchange(any_lost_, false)) return any;
  for (size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = *peers_[i];
    if (!peer.lost || peer.ep == nullptr) continue;
    Close(&peer);
    sink_->OnLost(peer.number, peer.why);
  }
  return true;
}

// Unsent messages end with an error, and are let go.
void UcxTransport::Close(Peer* peer) {
  ucp_ep_h ep = std::exchange(peer->ep, nullptr);
  if (ep == nullptr) return;
  ucp_request_param_t parameters;
  std::memset(&parameters, 0, sizeof parameters);
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ucx_.ep_close_nbx(ep, &parameters);
  if (UCS_PTR_IS_PTR(request)) ucx_.request_free(request);
}

ucs_status_t UcxTransport::OnReceived(void* self, const void* header, size_t header_bytes,
                                      void* data, size_t data_bytes,
                                      const ucp_am_recv_param_t* parameters) {
  // A foreign sender's; the connection's own are eager.
  if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  auto* transport = static_cast<UcxTransport*>(self);
  transport->moved_ = true;
  transport->sink_->OnMessage(header, header_bytes, data, data_bytes);
  return UCS_OK;
}

void UcxTransport::OnError(void* peer, ucp_ep_h, ucs_status_t status) {
  auto* lost = static_cast<Peer*>(peer);
  if (lost->lost) return;
  lost->lost = true;
  lost->why = lost->owner->ucx_.status_string(status);
  lost->owner->any_lost_ = true;
}

void UcxTransport::OnSent(void* request, ucs_status_t, void* sending) {
  const std::unique_ptr<Sending> sent(static_cast<Sending*>(sending));
  sent->ucx->request_free(request);
}

}  // namespace

std::unique_ptr<Transport> OpenUcx(Sink* sink, std::string* error) {
  const Ucx* ucx = TheUcx(error);
  if (ucx == nullptr) return nullptr;
  auto transport = std::make_unique<UcxTransport>(*ucx, sink);
  if (!transport->Open(error)) return nullptr;
  return transport;
}

}  // namespace gordian::runtime::net
