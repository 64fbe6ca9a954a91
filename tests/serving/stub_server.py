"""A tiny server in place of vLLM, run as a process: ``stub_server.py PORT NAME MODE [ARGUMENT]``."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

PORT, NAME, MODE, ARGUMENT = [*sys.argv[1:], ""][:4]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/die":
            os._exit(int(ARGUMENT))
        answers = {
            "/health": {},
            "/v1/models": {"data": [{"id": NAME}]},
            "/version": {"version": "0.26.0"},
        }
        if MODE == "no-version":
            del answers["/version"]
        if MODE == "hangs-on-models" and self.path == "/v1/models":
            say("was asked for its models")
            threading.Event().wait()
        if MODE == "api-key" and self.path == "/v1/models":
            self.answer(401, {})
        elif self.path in answers:
            self.answer(200, answers[self.path])
        else:
            self.answer(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if MODE == "refuses":
            self.answer(400, {"error": {"message": "this model does not generate"}})
        elif MODE == "engine-dies":
            say("(EngineCore pid=7) ERROR 07-01 12:00:00 [core.py:1] RuntimeError: Triton is not installed")
            self.answer(500, {"error": {"message": "EngineCore encountered an issue."}})
            threading.Timer(0.2, os._exit, (1,)).start()
        elif body["model"] == NAME and body["max_tokens"] == 1 and body["temperature"] == 0:
            self.answer(200, {"choices": [{"text": "x"}]})
        else:
            self.answer(404, {})

    def answer(self, status: int, data: Any) -> None:
        payload = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        pass


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def open_files() -> list[str]:
    descriptors = [path for path in Path("/proc/self/fd").iterdir() if path.exists()]
    return sorted(str(path.readlink()) for path in descriptors)


def spawn_orphan() -> None:
    """A grandchild in a session of its own, deaf to SIGTERM, whose parent is gone."""
    deaf = "import signal, os; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('orphan', os.getpid(), flush=True); signal.pause()"
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {deaf!r}], start_new_session=True)"
    subprocess.run([sys.executable, "-c", parent], check=True)


def meet(place: Path) -> None:
    """Go on only when another server runs, too: it shows that both were started without waiting for one of them."""
    (place / NAME).touch()
    while len(list(place.iterdir())) < 2:
        time.sleep(0.02)
    if MODE == "meets-and-exits":
        sys.exit(3)


def load_in_steps(place: Path) -> None:
    """Each step when it is allowed to."""
    for step, phase in enumerate(["Starting to load model m"] * 2 + ["Capturing CUDA graphs"] * 2):
        say(f"INFO 07-01 12:00:00 [x.py:1] {phase}, step {step}")
        while not (place / f"after step {step}").exists():
            time.sleep(0.01)


def main() -> None:
    if MODE == "says-and-exits":
        say(ARGUMENT)
        sys.exit(1)
    if MODE == "exits":
        say("usage: api_server.py [-h]\napi_server.py: error: unrecognized arguments: --speculative-model x")
        sys.exit(int(ARGUMENT))
    if MODE == "silent":
        signal.pause()
    while MODE == "busy":
        say("INFO 07-01 12:00:00 [x.py:1] Starting to load model m...")
        time.sleep(0.05)
    if MODE == "slow":
        load_in_steps(Path(ARGUMENT))
    if MODE in {"meets", "meets-and-exits"}:
        meet(Path(ARGUMENT))
    if MODE == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE in {"family", "family-loads"}:
        spawn_orphan()
    if MODE == "family-loads":
        signal.pause()
    say(f"open {' '.join(open_files())}")
    http.server.ThreadingHTTPServer(("127.0.0.1", int(PORT)), Handler).serve_forever()


if __name__ == "__main__":
    main()
