"""Who waits for one of the few places for take-overs: in which order they come, and that no place is lost."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from mirror.target.take_over_places import Place, Places


class Waiters:
    """Copiers that wait for a place, by name. They keep it until they are told to leave."""

    def __init__(self, most: int) -> None:
        self.places = Places(most)
        self.inside: list[str] = []
        self.by_name: dict[str, tuple[Place, asyncio.Task[None]]] = {}
        self._leaves: dict[str, asyncio.Event] = {}

    async def come(self, name: str, hurries: bool = False, has_failed: bool = False) -> None:
        place = Place(self.places)
        place.has_failed = has_failed
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


class Hopeless:
    """Copiers whose take-overs always fail, after a long time, and that try again at once."""

    def __init__(self, places: Places, count: int) -> None:
        self.tries = [0] * count
        self.held: list[asyncio.Event] = []  # one for each that has a place
        self._places = places
        self.running = [asyncio.create_task(self._try(number)) for number in range(count)]

    async def _try(self, number: int) -> None:
        place, time_over = Place(self._places), asyncio.Event()
        while True:
            time_over.clear()
            place.hurry()  # whatever it has to do
            with contextlib.suppress(TimeoutError):
                async with place:
                    self.tries[number] += 1
                    self.held.append(time_over)
                    await time_over.wait()
                    raise TimeoutError

    async def fail(self) -> None:
        self.held.pop(0).set()
        for _ in range(5):
            await asyncio.sleep(0)


def test_who_has_failed_goes_last_and_leaves_places_for_others() -> None:
    """Each of them has a place for long, and may have it again and again."""

    async def run() -> None:
        waiters = Waiters(8)
        hopeless = Hopeless(waiters.places, 50)
        await asyncio.sleep(0)
        assert len(hopeless.held) == 8, "nobody knows yet that they are"
        for _ in range(50):
            await hopeless.fail()
        assert set(hopeless.tries) <= {1, 2} and len(hopeless.held) == 6 and waiters.places.free == 2
        for name, hurries in (("a", False), ("b", True)):
            await waiters.come(name, hurries)
            assert waiters.inside[-1] == name, "at once"
        for name, hurries in (("c", False), ("d", True)):
            await waiters.come(name, hurries)
        for inside in (["a", "b", "d"], ["a", "b", "d", "c"]):
            await hopeless.fail()
            assert waiters.inside == inside, "before all that have failed"
        for name in list(waiters.inside):
            await waiters.leave(name)
        assert len(hopeless.held) == 6 and waiters.places.free == 2
        for _ in range(50):
            await hopeless.fail()
        assert min(hopeless.tries) >= 2, "none of them waits for ever"
        for each in hopeless.running:
            each.cancel()
        await asyncio.gather(*hopeless.running, return_exceptions=True)
        assert waiters.places.free == 8

    asyncio.run(run())


def test_who_has_a_place_without_an_error_has_not_failed() -> None:
    async def run() -> None:
        place = Place(Places(1))
        with pytest.raises(TimeoutError):
            async with place:
                raise TimeoutError
        assert place.has_failed
        async with place:
            pass
        assert not place.has_failed

    asyncio.run(run())


@pytest.mark.parametrize("how", ["cancelled", "given up"])
@pytest.mark.parametrize("granted", [False, True])
@pytest.mark.parametrize("queue", ["first", "others", "last"])
def test_who_waits_no_more_takes_no_place(how: str, granted: bool, queue: str) -> None:
    """Also if its turn comes at the same moment."""

    async def run() -> None:
        waiters = Waiters(1)
        await waiters.come("a")
        await waiters.come("b", hurries=queue == "first", has_failed=queue == "last")
        await waiters.come("c", has_failed=queue == "last")
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
