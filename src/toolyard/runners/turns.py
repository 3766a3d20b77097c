"""Turns among callers, where several want what there is little of: a tool's concurrent runs, threads, child processes.

First come, first served would give all of it to whoever asks often: everybody else would wait behind that caller's
whole line. So each caller has a line of its own, and what becomes free goes to the next caller, not to the next in
time. Where what is taken may be kept for long, as a thread is by a tool that waits, turns alone do not help who comes
when everything is taken. So some seats are for newcomers: a caller that has none.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..model.caller import Caller

P = TypeVar("P")


def turn_of(caller: Caller) -> Hashable:
    """Who takes turns: everybody that a caller speaks for shares its turn."""
    return caller.tenant, caller.subject


def a_quarter(size: int) -> int:
    """How many of a server's seats are for newcomers. Where there are fewer than four it is none: a caller alone would
    lose too much, and a newcomer has the first that becomes free."""
    return size // 4


class TurnQueue(Generic[P]):
    """A line in which each caller's places are in order, and callers take turns."""

    def __init__(self) -> None:
        self._places: OrderedDict[Hashable, deque[P]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def join(self, who: Hashable, place: P) -> None:
        self._places.setdefault(who, deque()).append(place)
        self._count += 1

    def next(self) -> P | None:
        """Whose turn it is; that caller's next turn comes after all others'."""
        return self.next_of(next(iter(self._places))) if self._places else None

    def next_of(self, who: Hashable) -> P:
        """The first place of a caller that is in the line; its next turn comes after all others'."""
        places = self._places[who]
        place = places.popleft()
        self._count -= 1
        if places:
            self._places.move_to_end(who)
        else:
            del self._places[who]
        return place

    def first(self, may: Callable[[Hashable], bool] | None = None) -> Hashable | None:
        """The caller whose turn it is, of those that may have one now."""
        return next(iter(self._places) if may is None else filter(may, self._places), None)

    def leave(self, who: Hashable, place: P) -> bool:
        """Whether the place was in the line, which it has left."""
        places = self._places.get(who)
        if places is None or place not in places:
            return False
        places.remove(place)
        self._count -= 1
        if not places:
            del self._places[who]
        return True

    def make_room(self, who: Hashable) -> P | None:
        """The last place of the caller that has most of them, if it has more than `who` would have then."""
        longest, places = max(self._places.items(), key=lambda each: len(each[1]))
        if len(places) <= len(self._places.get(who, ())) + 1:
            return None
        place = places[-1]
        self.leave(longest, place)
        return place


class Seats(Generic[P]):
    """So many seats, each for one run at a time: threads, or child processes. The last `for_newcomers` of them are only
    for callers that have none."""

    def __init__(self, size: int, for_newcomers: int) -> None:
        self._free, self._for_newcomers = size, for_newcomers
        self._taken: dict[Hashable, int] = {}
        self._line: TurnQueue[P] = TurnQueue()

    def take(self, who: Hashable) -> bool:
        """Whether there is a seat for this caller now, which it then has until it gives it back."""
        # Nobody in the line is passed over: `next` has been called until no seat was free for any of them.
        if self._free <= self._for_newcomers and (not self._free or who in self._taken):
            return False
        self._sit(who)
        return True

    def join(self, who: Hashable, place: P) -> None:
        self._line.join(who, place)

    def leave(self, who: Hashable, place: P) -> bool:
        """Whether `place` was in the line, which it has left. If not, it has or had a seat."""
        return self._line.leave(who, place)

    def next(self) -> P | None:
        """Who has a seat now, until it is given back. None: nobody waits, or no seat is free for those that do. Whoever
        gives seats back calls this until then."""
        who = self._first() if self._free else None
        if who is None:
            return None
        self._sit(who)
        return self._line.next_of(who)

    def give_back(self, who: Hashable) -> None:
        self._free += 1
        if self._taken[who] > 1:
            self._taken[who] -= 1
        else:
            del self._taken[who]

    def _sit(self, who: Hashable) -> None:
        self._free -= 1
        self._taken[who] = self._taken.get(who, 0) + 1

    def _first(self) -> Hashable | None:
        return self._line.first(None if self._free > self._for_newcomers else self._has_none)

    def _has_none(self, who: Hashable) -> bool:
        return who not in self._taken
