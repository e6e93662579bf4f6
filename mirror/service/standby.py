"""A standby: waits, without Spark, until a flow has had no living service for a stated time, and claims the flows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from mirror import logs
from mirror.errors import ClusterAway, ConfigError, SetupError, TokenProviderUnusable, TransformUnusable
from mirror.logs import OnChange
from mirror.service.front import Front
from mirror.service.life_signs import sign_of
from mirror.service.listener import TOGETHER, Claimed, Listener
from mirror.service.reloading import LOOK_INTERVAL, Configuration, Hangups, Reloader
from mirror.service_settings import Reloaded, Settings
from mirror.spark import shipping
from mirror.status.configuration import ConfigurationStatus
from mirror.status.flow_status import FlowStatus

log = logging.getLogger(__name__)

TRY_AGAIN = 5.0  # seconds until a configuration that can't be read is read again, to take over
END_TIMEOUT = 5.0  # seconds that a stop waits for what listens


class ReplaceableConfiguration(Configuration, Protocol):
    """The configuration files of a service, and what they say."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""

    @property
    def replaced(self) -> int:
        """How often `replace` has taken settings with which a standby has to wait anew."""

    def replace(self, check: Callable[[Settings], object]) -> Reloaded:
        """Read the files again, and take all of them, as a start does. Raises ConfigError, and what `check` raises."""


@dataclass(frozen=True, slots=True)
class _Whole:
    """A configuration of which everything can change, because nothing runs."""

    files: ReplaceableConfiguration

    def has_changed(self) -> bool:
        return self.files.has_changed()

    def reload(self) -> Reloaded:
        """The user's code that can't be imported counts as a mistake in the files: the standby waits, and says so."""
        try:
            return self.files.replace(_check)
        except (TokenProviderUnusable, TransformUnusable) as error:
            raise ConfigError([str(error)]) from error


def _check(settings: Settings) -> None:
    shipping.check(settings.flows)


class Standby:
    """Waits for all flows of a service together, so that one service leads them all.

    It never takes over with an old configuration. It waits anew when the configuration changes, and reads the files
    once more before it takes over.
    """

    def __init__(
        self,
        files: ReplaceableConfiguration,
        hangups: Hangups,
        service_id: str,
        after: float,
        stopping: threading.Event,
    ) -> None:
        """`service_id` is that of the service that is to lead. `after` is in seconds."""
        self._files = files
        self._status = ConfigurationStatus()
        self._reloader = Reloader(_Whole(files), hangups, self._status, lambda _: None)
        self._service_id = service_id
        self._after = after
        self._stopping = stopping
        self._listeners: Sequence[Listener] = ()
        self._why_not = OnChange()

    def wait(self) -> bool:
        """Wait until this service is to lead the flows, with `files.settings`. False if `stopping` was set before.

        One flow without a living service is enough: its service is dead, or has lost one of the flow's clusters, which
        this service reaches.

        Raises ConfigError if the files can't be read a second time, SetupError, TransformUnusable.
        """
        self._files.replace(_check)
        result: Future[bool] = Future()

        def work() -> None:
            try:
                result.set_result(self._has_won())
            except BaseException as error:
                result.set_exception(error)

        # Not in the main thread: a file system or a cluster that does not answer must not keep it from stopping.
        thread = threading.Thread(target=work, daemon=True, name="standby")
        thread.start()
        while not result.done() and not self._stopping.wait(0.2):
            pass
        thread.join(END_TIMEOUT)
        return not self._stopping.is_set() and result.result()

    def _has_won(self) -> bool:
        """Wait with one configuration after the other. What is wrong with the first one ends the standby.

        What a changed one needs may be there later: a port that another program uses, or a certificate with its key.
        """
        first = self._files.replaced
        while not self._stopping.is_set():
            try:
                if self._wait(self._files.settings):
                    return True
            except (SetupError, ClusterAway) as error:
                if self._files.replaced == first:
                    raise
                if self._why_not.is_new(str(error)):
                    log.error("standby can't wait with the changed configuration yet", extra={"reason": str(error)})
                self._let_pass(TRY_AGAIN)
        return False

    def _let_pass(self, seconds: float) -> None:
        """Wait so long, or until the configuration changes."""
        before, until = self._files.replaced, time.monotonic() + seconds
        while not self._stopping.wait(LOOK_INTERVAL) and self._files.replaced == before and time.monotonic() < until:
            self._reloader.look()

    def _wait(self, settings: Settings) -> bool:
        """Wait with these settings. False if the configuration has changed, or `stopping` is set."""
        logs.configure(settings.log)
        before = self._files.replaced
        flows = [(flow, FlowStatus(flow.source.alias, flow.target.alias, self._service_id)) for flow in settings.flows]
        statuses = [status for _, status in flows]
        front = Front(settings, statuses, self._status, lambda: [], self._problems, lambda: "ok: standby")
        clusters = front.clusters
        self._listeners = ()
        with front:  # first, so that no listener is made in vain
            self._listeners = [Listener(flow, own, clusters[flow.source.alias], self._after) for flow, own in flows]
            self._why_not.clear()
            log.info("standby begins to wait", extra={"seconds": self._after})
            for listener in self._listeners:
                listener.start()
            try:
                while not self._stopping.wait(LOOK_INTERVAL) and self._files.replaced == before:
                    self._reloader.look()
                    if any(each.is_over for each in self._listeners) and self._takes_over(before):
                        return True
            finally:
                for listener in self._listeners:
                    listener.finish()
        return False

    def _takes_over(self, before: int) -> bool:
        """Take over, if that is still right with the configuration as it is now. False to wait on.

        A password that has changed in a file of its own is no reason to wait anew. The new settings have it.
        """
        if not self._reloader.look(now=True):
            self._stopping.wait(TRY_AGAIN)
            return False
        return self._files.replaced == before and self._claim()

    def _claim(self) -> bool:
        """Claim the flows without a living service. True if at least one was won, and none was lost.

        Meanwhile those that were won get signs of life: with many flows, the first one would fall silent again before
        the last one is claimed, and another standby could win it.
        """
        claimed = threading.Event()
        try:
            return self._claim_all(claimed)
        finally:
            claimed.set()

    def _claim_all(self, claimed: threading.Event) -> bool:
        """Claim one flow after the other. All standbys do so in the order of the flows' names.

        So of two, one loses the first flow, and claims no other one. `claimed` ends the signs of life.
        """
        sign, won = sign_of(self._service_id), []
        for listener in sorted(self._listeners, key=lambda each: each.flow):
            found = listener.claim(sign).result() if listener.is_nearly_over else None
            if found is Claimed.LOST:
                claimed.set()
                log.info("another service has come first, the standby waits on", extra={"flow": listener.flow})
                self._stopping.wait(TOGETHER)  # meanwhile the other service claims the other flows
                return False
            if found is Claimed.UNKNOWN:
                where = {"flow": listener.flow, "reason": listener.deaf}
                log.warning("no living service, but the standby can't say that it takes over", extra=where)
            if found is Claimed.WON:
                won.append(listener.flow)
                listener.signs(self._service_id, claimed).start()
        for flow in won:
            log.warning("no living service, the standby takes over", extra={"flow": flow})
        return bool(won)

    def _problems(self) -> list[str]:
        """Why it could not take over; empty if it could."""
        reason = self._status.view.problem
        deaf = [each for each in self._listeners if each.deaf]
        problems = [f"the configuration can't be read, so the standby can't take over: {reason}"] if reason else []
        return [*problems, *(f"{each.flow}: not known whether a service leads it: {each.deaf}" for each in deaf)]
