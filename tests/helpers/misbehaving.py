"""A real HTTP server that misbehaves as it is told: for tests of the client."""

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service(ThreadingHTTPServer):
    """Does what the script says for one request each, then answers as replies says by (method, path)."""

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
        pass  # a client that gave up


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    body = None

    def handle(self):
        self.server.connections += 1
        super().handle()

    def handle_one_request(self):
        if self.server.script and self.server.script[0] is before_reading:
            self.server.script.popleft()
            self.server.seen.append(None)
            self.close_connection = True
            return
        super().handle_one_request()

    def answer(self):
        misbehave = self.server.script.popleft() if self.server.script else None
        if misbehave is not unread:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.body = json.loads(content) if content else None
        self.server.seen.append((self.command, self.path, self.body, dict(self.headers)))
        if misbehave is None:
            reply = self.server.replies.get((self.command, self.path), {"you": self.path})
            self.reply(200, reply(self.body) if callable(reply) else reply)
        else:
            misbehave(self)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 (names of http.server)

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


def before_reading(handler):
    """Hang up without having read the request."""


def unread(handler):
    """413 and hang up, the body unread."""
    handler.reply(413, {"error": "a body must be of at most 1 byte, got more", "field": None, "request_id": "r"})
    handler.close_connection = True


def hang_up(handler):
    """Read it all, say nothing."""
    handler.close_connection = True


def cut(handler):
    """Half a reply."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"impression": ')
    handler.close_connection = True


def hang(handler):
    """Say nothing until the test is over."""
    handler.server.over.wait(30)


def drip(handler):
    """A reply that goes on and on, a byte at a time."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.server.over.wait(0.02):
        handler.wfile.write(b" ")


def close_after(handler):
    """A reply, and hang up without a word: what a service does with connections that are idle."""
    handler.reply(200, {"you": handler.path})
    handler.close_connection = True


def slow(handler):
    """Its own path, after a while."""
    time.sleep(0.02)
    handler.reply(200, {"you": handler.path})


def status(code, content=None, kind="application/json", **headers):
    """A reply with this status."""
    content = {"error": "not now", "field": None, "request_id": "r"} if content is None else content
    return lambda handler: handler.reply(code, content, kind, **headers)
