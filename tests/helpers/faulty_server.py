"""An HTTP server that fails on purpose, for tests of the client."""

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def own_path(path):
    """The default response. It is valid for several routes, since the client ignores fields it does not know."""
    return {"user": path, "exported_at": 0.0, "learners": {}, "impressions": [], "topics": [path], "status": "ok"}


class FaultyServer(ThreadingHTTPServer):
    """Handles each request by the next function in `script`. If the script is empty, it responds with `replies`."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.script, self.replies, self.seen, self.connections = deque(), {}, [], 0
        self.over = threading.Event()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # the client gave up


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    body = None

    def handle(self):
        self.server.connections += 1
        super().handle()

    def handle_one_request(self):
        if self.server.script and self.server.script[0] is hang_up_early:
            self.server.script.popleft()
            self.server.seen.append(None)
            self.close_connection = True
            return
        super().handle_one_request()

    def respond(self):
        misbehave = self.server.script.popleft() if self.server.script else None
        if misbehave is not reject_unread:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.body = json.loads(content) if content else None
        self.server.seen.append((self.command, self.path, self.body, dict(self.headers)))
        if misbehave is None:
            reply = self.server.replies.get((self.command, self.path), own_path(self.path))
            self.reply(200, reply(self.body) if callable(reply) else reply)
        else:
            misbehave(self)

    do_GET = do_POST = do_PUT = do_DELETE = respond  # noqa: N815 (names of http.server)

    def reply(self, status, content, kind="application/json", **headers):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def hang_up_early(handler):
    """Close the connection without reading the request."""


def reject_unread(handler):
    """Respond 413 and close the connection without reading the body."""
    handler.reply(413, {"error": "a body must be of at most 1 byte, got more", "field": None, "request_id": "r"})
    handler.close_connection = True


def hang_up(handler):
    """Read the request, then close the connection without a response."""
    handler.close_connection = True


def cut(handler):
    """Send half a response."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"impression": ')
    handler.close_connection = True


def cut_chunked(handler):
    """Send half a response of unknown length."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'f\r\n{"impression": \r\n')
    handler.close_connection = True


def hang(handler):
    """Do not respond until the test is over."""
    handler.server.over.wait(30)


def drip(handler):
    """Send a response one byte at a time, without end."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")


def drip_and_close(handler):
    """The same, announcing that the connection will be closed."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")


def close_after(handler):
    """Respond, then close the connection without announcing it, as servers do with idle connections."""
    handler.reply(200, own_path(handler.path))
    handler.close_connection = True


def chunked(handler):
    """Respond in chunks."""
    content = json.dumps(own_path(handler.path)).encode()
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for part in (content[:10], content[10:], b""):
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))


def slow(handler):
    """Respond after a while."""
    time.sleep(0.02)
    handler.reply(200, own_path(handler.path))


def status(code, content=None, kind="application/json", **headers):
    """Respond with this status."""
    content = {"error": "not now", "field": None, "request_id": "r"} if content is None else content
    return lambda handler: handler.reply(code, content, kind, **headers)
