"""Who may ask the HTTP server: TLS and a password."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
import socket
import ssl
from pathlib import Path

from mirror.kafka.certificates import expiry
from mirror.service_settings import Http
from mirror.watched_files import FilesWatch, changed_secret_of

log = logging.getLogger(__name__)

_CHANGED = {"what": "the HTTP server"}


class _Unusable(Exception):
    """A file can't be used."""

    def __init__(self, key: str, error: OSError | ValueError) -> None:
        """`key` is that of the configuration that names the file."""
        super().__init__(_reason(error))
        self.key = key


class Guard:
    """The TLS and the password of the server. `look` reads both again once their files have changed."""

    def __init__(self, http: Http) -> None:
        """Raises OSError or ValueError if the certificate or its key can't be used."""
        self._http = http
        self._paths = [Path(each) for each in _files(http)]
        self._files = FilesWatch(self._paths)  # first: a change while the files are read is noticed later
        self._context = _context(http)
        self._expiry = expiry(http.tls_certificate)
        self._login = http.username or "", http.password or ""
        with contextlib.suppress(_Unusable):
            self._read_login()  # the files may have changed after the configuration was read

    @property
    def has_files(self) -> bool:
        """True if there is anything to look at."""
        return bool(self._paths)

    @property
    def expiry(self) -> float | None:
        """When the certificate in force expires, in seconds since the Unix epoch; None without one.

        The file may have a newer one, which can't be used before its key is there.
        """
        return self._expiry

    def secured(self, connection: socket.socket) -> socket.socket:
        """The connection with TLS, if the configuration wants it. The handshake comes with the first byte read."""
        if self._context is None:
            return connection
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def admits(self, authorization: str) -> bool:
        """True if a request's header has the user and the password.

        The time that this takes does not tell which one is wrong.
        """
        if self._http.username is None:
            return True
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        return hmac.compare_digest(_digest(user, password), _digest(*self._login))

    def look(self) -> None:
        """Read what has changed. What can't be used leaves what was read before in force.

        A login does not wait for a certificate whose key has not come yet, nor a certificate for a login. A file system
        that does not answer holds the caller up.
        """
        if not self._files.has_changed():
            return
        log.info("files with passwords or certificates have changed", extra=_CHANGED)
        for read in (self._read_certificate, self._read_login):
            try:
                read()
            except _Unusable as error:
                log.warning(
                    "a file can't be used, what it held before counts",
                    extra={**_CHANGED, "key": error.key, "reason": str(error)},
                )

    def _read_certificate(self) -> None:
        try:
            self._context = _context(self._http)
        except (OSError, ValueError) as error:  # OpenSSL does not say which file it is
            raise _Unusable("http.tls_certificate or http.tls_key", error) from error
        self._expiry = expiry(self._http.tls_certificate)

    def _read_login(self) -> None:
        user, password = self._login
        self._login = (
            _secret("http.username", self._http.username_file, user),
            _secret("http.password", self._http.password_file, password),
        )


def _files(http: Http) -> list[str]:
    files = (http.tls_certificate, http.tls_key, http.username_file, http.password_file)
    return [each for each in files if each is not None]


def _context(http: Http) -> ssl.SSLContext | None:
    if http.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # With None, OpenSSL would ask for the password of the key on the terminal.
    context.load_cert_chain(http.tls_certificate, http.tls_key, "")
    return context


def _secret(key: str, file: str | None, before: str) -> str:
    """What the file of a key has now; `before` without a file. Raises _Unusable."""
    if file is None:
        return before
    try:
        return changed_secret_of(Path(file))
    except (OSError, ValueError) as error:
        raise _Unusable(key, error) from error


def _reason(error: OSError | ValueError) -> str:
    """Without the text of a file."""
    if isinstance(error, OSError):
        return error.strerror or "not a certificate and its key"
    return "empty, with a NUL, or not UTF-8 text"


def _digest(user: str, password: str) -> bytes:
    """Of equal length, so that a comparison does not tell how long the password is."""
    parts = (hashlib.sha256(each.encode()).digest() for each in (user, password))
    return b"".join(parts)
