"""Protects Spark, which holds the clusters' passwords: decides who may connect to it, and where it listens.

Whoever reaches a port of a Spark without authentication can fetch what was sent to the tasks, and make it deserialize
Java objects. So every process that connects has to know a secret, traffic between machines is encrypted, and a Spark
that runs on this machine alone listens only on the loopback address. Explicit settings in spark.conf win; a setting
that weakens this is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

LOCAL = re.compile(r"local(?:\[\s*(?P<threads>\*|\d+)\s*(?:,\s*\d+\s*)?\])?")
_SERVER = r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}"
_MASTER = re.compile(
    r"local(?:\[\s*(?:\*|0*[1-9]\d*)\s*(?:,\s*\d+\s*)?\])?"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    rf"|spark://{_SERVER}(?:,{_SERVER})*"
    r"|yarn|k8s://.+"
)
LOOPBACK = "127.0.0.1"

AUTHENTICATE, ENCRYPT = "spark.authenticate", "spark.network.crypto.enabled"
SECRET, BIND = "spark.authenticate.secret", "spark.driver.bindAddress"
PAGES = "spark.ui.enabled"
LOCAL_IP = "SPARK_LOCAL_IP"  # the variable of a JVM that decides where its pages listen; without it, everywhere

# With these masters Spark makes a secret and hands it to the executors: SecurityManager.initializeAuth.
_SPARK_MAKES_A_SECRET = re.compile("yarn|k8s.*")
_LOOPBACK = re.compile(r"localhost|127\.\d+\.\d+\.\d+|\[?::1\]?")

# Keys whose values Spark puts on a command line (SparkConf.isExecutorStartupConf) or shows. Keys that take only an
# address, a number or a size are not among them: their values may come from a reference, since they are no passwords.
_SHOWN = re.compile(
    r".*JavaOptions"
    r"|spark\.(driver|executor)\.extra(ClassPath|LibraryPath)"
    r"|spark\.(app\.name|jars|files|archives)|spark\.(jars|pyspark|submit)\..*"
    rf"|(?!{re.escape(SECRET)}$)spark\.(auth|rpc|network).*"
    r"|spark\.ssl(?!.*Password).*"
    r"|spark\.executorEnv\..*"  # a standalone worker's page (/json) has its executors' variables
)
REDACTION = "spark.redaction.regex"
_SPARKS_OWN_REDACTION = "(?i)secret|password|token|access[.]?key|credential"


def is_master(master: str) -> bool:
    """True if Spark has such a master. It takes no capitals, and Mesos no more."""
    return _MASTER.fullmatch(master) is not None


def is_local(master: str) -> bool:
    """True if all of Spark is one process on this machine. local-cluster is not: it has several processes."""
    return LOCAL.fullmatch(master) is not None


def protection(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings that protect Spark; those of `conf` win."""
    settings = {AUTHENTICATE: "false"} if _is_off(conf) else {AUTHENTICATE: "true", ENCRYPT: "true"}
    return {**settings, BIND: LOOPBACK, "spark.driver.host": LOOPBACK} if is_local(master) else settings


def problems(master: str, conf: Mapping[str, str], references: Set[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Keys that must be changed before a run, each with what to do; `references` are those with `${...}`."""
    for key in (AUTHENTICATE, ENCRYPT):
        if conf.get(key, "true").lower() not in ("true", "false"):
            yield key, "must be true or false"
    has_secret = is_local(master) or _SPARK_MAKES_A_SECRET.fullmatch(master)
    if not has_secret and not _is_off(conf) and not conf.get(SECRET, "").strip():
        yield (
            SECRET,
            "required with this master, but missing: without it whoever reaches Spark's ports can read the clusters' "
            "passwords; set it to the secret of Spark's master and workers or, if you accept the risk, set "
            f"{AUTHENTICATE} to false",
        )
    for key in sorted(references):
        if _SHOWN.fullmatch(key):
            advice = "where everybody on the machine can read it; write the value itself"
            yield key, f"must not hold ${{...}}: Spark shows this value or puts it on a command line, {advice}"


def warnings(master: str, conf: Mapping[str, str]) -> Iterator[str]:
    """Settings that leave Spark unprotected though it starts, each with what to do."""
    if _is_off(conf):
        yield (
            f"{AUTHENTICATE} is false: whoever reaches Spark's ports can read the clusters' passwords and run code; "
            f"remove it from spark.conf{'' if is_local(master) else f', and set {SECRET}'}"
        )
    elif not is_local(master) and conf.get(ENCRYPT, "true").lower() == "false":
        yield (
            f"{ENCRYPT} is false: whoever sees the network between Spark's processes can read the clusters' passwords; "
            "remove it from spark.conf"
        )
    if is_local(master) and not _LOOPBACK.fullmatch(conf.get(BIND, LOOPBACK)):
        yield (
            f"{BIND} is {conf[BIND]}: Spark listens on the network, which a local master does not need; "
            "remove it from spark.conf"
        )


def has_open_pages(master: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """True if a JVM with this environment would show a local Spark's pages on the network, though nobody said where."""
    shown = conf.get(PAGES, "false").strip().lower() == "true"
    return shown and is_local(master) and not environment.get(LOCAL_IP)


def _is_off(conf: Mapping[str, str]) -> bool:
    return conf.get(AUTHENTICATE, "true").lower() == "false"


def redaction(conf: Mapping[str, str], references: Set[str]) -> dict[str, str]:
    """The setting that hides the values of `references` in Spark's event log and on its pages, whatever their names."""
    if not references:
        return {}
    # Spark shows the properties of Hadoop and of its metrics without their prefix.
    names = sorted({re.sub(r"^spark\.(hadoop|metrics\.conf)\.", "", key) for key in references})
    hidden = "|".join(map(re.escape, names))
    return {REDACTION: f"(?:{conf.get(REDACTION, _SPARKS_OWN_REDACTION)})|(?:^|\\.)(?:{hidden})$"}


def properties_file(conf: Mapping[str, str]) -> str:
    """The text of a Java properties file, with everything escaped that could mean something."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in conf.items())


def _escaped(text: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else _unicode(c) for c in text)


def _unicode(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
