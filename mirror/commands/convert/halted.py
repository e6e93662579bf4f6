"""Connectors that MirrorMaker does not run: they are stopped or paused. Pure."""

from __future__ import annotations

from dataclasses import replace

from mirror.commands.convert import scopes
from mirror.commands.convert.entries import FlowName, FlowScope, InputEntry, Item, Judged, Said

RUNS = "the connector is to run, and so is the flow"
IDLE = "the connector does not run"
# The head of our file says it, too.
WOULD_RUN = (
    f"{IDLE}, and the flow would: give the order with mirror pause before you start mirror, or take the flow out"
)
NO_CHECKPOINTS = Said("different", f"{IDLE}: no checkpoints and no group sync")
NO_HEARTBEATS = Said("different", f"{IDLE}: no heartbeats")


def is_halted(state: str) -> bool:
    """True for the state of a connector that does not run."""
    return state.strip().lower() in ("paused", "stopped")


def of_state(entry: InputEntry, state: str, kind: str, flow: FlowName) -> Item | Judged:
    """What the state of a connector of this class means. The entry is the key that tells it."""
    if not is_halted(state):
        return Judged(entry, "<connector>.state", RUNS, "not needed")
    off = InputEntry(entry.key, "false", entry.line, entry.earlier)
    if kind == "MirrorCheckpointConnector":
        return Item(off, "emit.checkpoints.enabled", FlowScope(*flow), scopes.EXACT, said=NO_CHECKPOINTS)
    if kind == "MirrorHeartbeatConnector":
        found = scopes.heartbeats(off, "emit.heartbeats.enabled", flow, scopes.EXACT)
        return replace(found, said=NO_HEARTBEATS)
    return Judged(entry, "<connector>.state", WOULD_RUN, "not possible")


def is_left_out(kind: str, state: str) -> bool:
    """True if a connector's settings say nothing to mirror: it does not run, and it is not the one that copies."""
    return is_halted(state) and kind != "MirrorSourceConnector"
