"""Tells whether the service in this container lives, for the image's HEALTHCHECK: if `/livez` says so, it ends with 0.

It asks the default `http.port`, without TLS and, if the server does not speak HTTP, with it. So it needs to read no
configuration. It does not verify the certificate: that need not name 127.0.0.1, and nothing secret is sent.
"""

from __future__ import annotations

import http.client
import ssl
import sys

PORT = 9464
TIMEOUT = 4  # seconds; HEALTHCHECK ends this program after five


def lives(port: int = PORT) -> bool:
    """True if `/livez` says so. Raises OSError or HTTPException if nothing answers."""
    try:
        return _says_so(http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT))
    except (ConnectionError, http.client.HTTPException):  # as a server with TLS ends it
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return _says_so(http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT, context=context))


def _says_so(connection: http.client.HTTPConnection) -> bool:
    connection.request("GET", "/livez")
    return connection.getresponse().status == http.client.OK


if __name__ == "__main__":
    sys.exit(not lives())
