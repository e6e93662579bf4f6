"""Passwords and certificates in files: clients are made anew once a file has changed.

librdkafka (2.16) reads certificates only when a client is made, and a connection that is open stays as it is. So
whoever holds a client asks now and then whether the files have changed, and replaces it where nothing is under way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mirror.errors import ClusterAway, Unavailable
from mirror.settings import TOKEN_PROVIDER, Cluster
from mirror.token_provider import CONFIG as TOKEN_CONFIG
from mirror.token_provider import oauth_callback
from mirror.watched_files import FilesWatch, changed_secret_of

log = logging.getLogger(__name__)

LOOK_INTERVAL = 1.0  # seconds between two looks at the files


class Credentials:
    """What the files of one cluster hold, in this process. Any thread may use it."""

    def __init__(self, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._alias = cluster.alias
        self._files = dict(cluster.files)
        self._paths = tuple(Path(path) for path in dict.fromkeys(path for _, path in _files(cluster)))
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._watch = FilesWatch(self._paths)  # first: a change while the files are read is noticed later
        self._version = 0
        self._next = 0.0
        self._values = self._read({})

    @property
    def version(self) -> int:
        """How often the files have changed."""
        with self._lock:
            self._look()
            return self._version

    @property
    def values(self) -> Mapping[str, str]:
        """The properties whose values are in files, as these were when they changed last.

        A file that can't be read is left out: an executor may not have it.
        """
        with self._lock:
            return self._values

    def _look(self) -> None:
        if not self._paths or self._monotonic() < self._next:
            return
        self._next = self._monotonic() + LOOK_INTERVAL
        if self._watch.has_changed():
            self._values = self._read(self._values)
            self._version += 1
            log.info("files with passwords or certificates have changed", extra={"cluster": self._alias})

    def _read(self, before: Mapping[str, str]) -> Mapping[str, str]:
        found = dict(before)
        for name, path in self._files.items():
            try:
                found[name] = changed_secret_of(Path(path))
            except (OSError, ValueError):
                continue
        return found


def _files(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The files with passwords and certificates that the cluster's properties name, each with the property."""
    yield from cluster.files.items()
    for properties in (cluster.properties, cluster.consumer, cluster.producer):
        for name, path in properties.items():
            if name.startswith(("ssl.", "https.")) and name.endswith(".location"):
                yield name, path


_known: dict[tuple[str, tuple[tuple[str, str], ...]], Credentials] = {}
_lock = threading.Lock()


def credentials_of(cluster: Cluster) -> Credentials:
    """The credentials of a cluster. All its clients get the same object."""
    key = cluster.alias, tuple(_files(cluster))
    with _lock:
        if key not in _known:
            _known[key] = Credentials(cluster)
        return _known[key]


def properties_of(cluster: Cluster) -> dict[str, str]:
    """The cluster's properties, with what its files hold now."""
    return {**cluster.properties, **credentials_of(cluster).values}


def client_properties(cluster: Cluster) -> dict[str, Any]:
    """The cluster's properties for a client of librdkafka, with what its files hold now.

    Raises TokenProviderUnusable, and ClusterAway if there is no token now.
    """
    config: dict[str, Any] = properties_of(cluster)
    provider = config.pop(TOKEN_PROVIDER, None)
    if provider is None:
        return config
    try:
        config["oauth_cb"] = oauth_callback(provider, config.get(TOKEN_CONFIG, ""))
    except Unavailable as error:
        reason = str(error)
    else:
        return config
    raise ClusterAway(cluster.alias, reason)


class FileChanges:
    """Whether a cluster's files have changed since a client was made. Each holder of a client has its own."""

    def __init__(self, cluster: Cluster) -> None:
        self._credentials = credentials_of(cluster)
        self._seen = self._credentials.version

    def any(self) -> bool:
        """True if they have, until `note` is called."""
        return self._credentials.version != self._seen

    def note(self) -> None:
        """Take the files as they are now for known. Call it before the client is made that reads them."""
        self._seen = self._credentials.version
