"""Who waits for one of the few places for take-overs: in which order they come, and that no place is lost."""

from __future__ import annotations

import asyncio

import pytest

from mirror.target.take_over_places import Place, Places


class Waiters:
    """Copiers that wait for a place, by name. They keep it until they are told to leave."""

    def __init__(self, most: int) -> None:
        self.places = Places(most)
        self.inside: list[str] = []
        self.by_name: dict[str, tuple[Place, asyncio.Task[None]]] = {}
        self._leaves: dict[str, asyncio.Event] = {}

    async def come(self, name: str, hurries: bool = False) -> None:
        place = Place(self.places)
        if hurries:
            place.hurry()
        self._leaves[name] = asyncio.Event()
        self.by_name[name] = place, asyncio.create_task(self._enter(name, place))
        await asyncio.sleep(0)

    async def _enter(self, name: str, place: Place) -> None:
        async with place:
            self.inside.append(name)
            await self._leaves[name].wait()
        self.inside.remove(name)

    async def leave(self, name: str) -> None:
        self._leaves[name].set()
        for _ in range(5):
            await asyncio.sleep(0)


def test_who_hurries_goes_first_and_each_in_its_order() -> None:
    async def run() -> None:
        waiters = Waiters(2)
        for name, hurries in (("a", False), ("b", False), ("c", False), ("d", False), ("e", True), ("f", True)):
            await waiters.come(name, hurries)
        assert waiters.inside == ["a", "b"]
        waiters.by_name["d"][0].hurry()
        order = list[str]()
        for _ in range(4):
            await waiters.leave(waiters.inside[0])
            order.append(waiters.inside[-1])
        assert order == ["e", "f", "d", "c"]
        for name in list(waiters.inside):
            await waiters.leave(name)
        assert waiters.places.free == 2

    asyncio.run(run())


@pytest.mark.parametrize("how", ["cancelled", "given up"])
@pytest.mark.parametrize("granted", [False, True])
@pytest.mark.parametrize("hurries", [False, True])
def test_who_waits_no_more_takes_no_place(how: str, granted: bool, hurries: bool) -> None:
    """Also if its turn comes at the same moment."""

    async def run() -> None:
        waiters = Waiters(1)
        await waiters.come("a")
        await waiters.come("b", hurries)
        await waiters.come("c")
        place, task = waiters.by_name["b"]
        if granted:
            waiters._leaves["a"].set()
            await asyncio.sleep(0)  # a has left, and b has not come back to itself yet
            assert not task.done() and waiters.inside == []
        if how == "cancelled":
            task.cancel()
        else:
            place.give_up(RuntimeError("it is let go"))
        await waiters.leave("a")
        if waiters.inside == ["b"]:  # it was too late to give up
            await waiters.leave("b")
        await asyncio.gather(task, return_exceptions=True)
        assert waiters.inside == ["c"]
        await waiters.leave("c")
        assert waiters.places.free == 1
        if how == "given up":
            with pytest.raises(RuntimeError, match="let go"):
                await place.__aenter__()

    asyncio.run(run())
