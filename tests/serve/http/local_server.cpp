#include "tests/serve/http/local_server.hpp"

#include <stdexcept>

#include "protocol/gguf/gguf.hpp"
#include "tests/support/server_process.hpp"

namespace strata::tests {

namespace {

serve::ApiSettings named(serve::ApiSettings settings) {
    if (settings.model_name.empty()) settings.model_name = "demo";
    settings.version = "test";
    return settings;
}

}  // namespace

const serve::TextModel& demo_text() {
    static const serve::TextModel text = [] {
        auto header =
            gguf::read_header(STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf");
        if (!header) throw std::runtime_error(header.error().text);
        auto model = serve::TextModel::from_header(*header);
        if (!model) throw std::runtime_error(model.error().text);
        return std::move(*model);
    }();
    return text;
}

std::int32_t token_of(std::string_view text) {
    const serve::PromptPiece piece{std::string(text), true};
    const auto ids = demo_text().tokenizer().encode(std::span(&piece, 1));
    if (ids.size() != 1) throw std::runtime_error("not one token: " + std::string(text));
    return ids[0];
}

LocalServer::LocalServer(serve::HttpSettings settings, serve::ApiSettings api)
    : guard_(io_.get_executor()) {
    settings.port = 0;
    service_ = std::make_unique<serve::Service>(
        io_.get_executor(), engine, demo_text(), named(std::move(api)),
        [this](const serve::FinishedRequest& request) { finished.push_back(request); });
    http = std::make_unique<serve::HttpServer>(io_, std::move(settings), *service_, nullptr);
    const auto listening = http->listen();
    if (!listening) throw std::runtime_error(listening.error().text);
    port_ = http->port();
    thread_ = std::thread([this] { io_.run(); });
}

LocalServer::~LocalServer() {
    on_io([this] {
        http->stop_accepting();
        http->abort_all();
    });
    guard_.reset();
    thread_.join();
}

void LocalServer::on_io(const std::function<void()>& work) {
    std::promise<void> ran;
    boost::asio::post(io_, [&] {
        work();
        ran.set_value();
    });
    ran.get_future().wait();
}

bool LocalServer::asked(std::size_t count) {
    return eventually(
        [&] { return from_io<std::size_t>([&] { return engine.asked.size(); }) >= count; });
}

bool LocalServer::cancelled(std::size_t count, Wait wait) {
    return eventually(
        [&] { return from_io<std::size_t>([&] { return engine.cancelled.size(); }) >= count; },
        wait);
}

void LocalServer::answer(std::size_t index, const std::vector<std::int32_t>& tokens) {
    on_io([&] {
        engine.admit(index);
        for (const std::int32_t id : tokens) engine.token(index, id);
        protocol::DoneLine done;
        done.generated = static_cast<std::int64_t>(tokens.size());
        done.prompt_tokens = static_cast<std::int64_t>(engine.asked[index].command.ids.size());
        done.prompt_read = done.prompt_tokens;
        done.prompt_ms = 10;
        done.decode_ms = 20;
        engine.done(index, done);
    });
}

}  // namespace strata::tests
