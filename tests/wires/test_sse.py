"""Server-sent events: what a stream says, however it is cut."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolyard.wires.mcp.sse import EventReader, EventTooLarge, ServerSentEvent

PARTS = [b"data", b"data:", b"data: ", b"id: ", b"id", b"retry: ", b"event: ", b":", b" ", b"1", b"23", b"{}", b"a"]
PARTS += [b"\r", b"\n", b"\r\n", b"\n\n", b"\xef\xbb\xbf", b"\xe2\x82\xac", b"\xe2", b"\x82", b"\xff", b"\0", b""]
streams = st.lists(st.sampled_from(PARTS), max_size=40).map(b"".join)


def read(*pieces: bytes) -> list[ServerSentEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)]


def texts(stream: bytes) -> list[str]:
    return [event.data for event in read(stream)]


@given(streams, st.lists(st.integers(0, 200), max_size=12))
@example(b"\xef\xbb\xbfdata: \xe2\x82\xac\r\n\r\ndata: 2\n\n", [])
@example(b"data: 1\r\n\ndata: 2\n\n", [])
def test_any_cut_of_a_stream_gives_the_same(stream: bytes, cuts: list[int]) -> None:
    some = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    whole = EventReader()
    events, last_id, retry_ms = whole.feed(stream), whole.last_id, whole.retry_ms
    rest = whole.finish()
    for at in (some, range(len(stream) + 1)):
        cut = EventReader()
        assert events == [event for start, end in pairwise(at) for event in cut.feed(stream[start:end])]
        assert (last_id, retry_ms) == (cut.last_id, cut.retry_ms)
        assert rest == cut.finish()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_ends_in_three_ways(end: bytes) -> None:
    assert texts(end.join([b"data: 1", b"", b"data: 2", b"", b""])) == ["1", "2"]


def test_an_event_that_ends_with_a_carriage_return_does_not_wait_for_more() -> None:
    reader = EventReader()
    assert [event.data for event in reader.feed(b"data: 1\r\r")] == ["1"]
    assert reader.feed(b"\n") == []
    assert [event.data for event in reader.feed(b"data: 2\r\n\r\n")] == ["2"]


def test_a_line_end_may_be_cut_by_nothing() -> None:
    assert read(b"data: 1\r", b"", b"\ndata: 2\n\n") == [ServerSentEvent("1\n2", "message", "")]


def test_a_mark_counts_at_the_beginning_alone() -> None:
    assert texts(b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n") == ["1"]


def test_lines_of_data_are_joined() -> None:
    assert texts(b"data: a\ndata\ndata:\ndata:  b\n\n") == ["a\n\n\n b"]


def test_what_is_no_field_is_ignored() -> None:
    assert texts(b": ping\nnothing: 1\ndata : 2\nData: 3\ndata: 4\n\n") == ["4"]


def test_an_event_has_a_name_of_its_own() -> None:
    assert [event.name for event in read(b"event: ping\ndata: 1\n\ndata: 2\n\n")] == ["ping", "message"]


def test_an_id_holds_until_the_next() -> None:
    assert [event.id for event in read(b"data: 1\n\nid: 7\ndata: 2\n\ndata: 3\n\nid\ndata: 4\n\n")] == [
        "",
        "7",
        "7",
        "",
    ]


def test_an_event_without_data_is_none_but_its_id_counts() -> None:
    reader = EventReader()
    assert reader.feed(b"id: 7\n") == []
    assert reader.last_id == ""
    assert reader.feed(b"\n") == []
    assert reader.last_id == "7"


def test_an_id_with_a_null_is_ignored() -> None:
    assert [event.id for event in read(b"id: 7\n\nid: 8\0\ndata: 1\n\n")] == ["7"]


@pytest.mark.parametrize(
    ("value", "ms"), [(b"150", 150), (b"1.5", None), (b"-1", None), ("٣".encode(), None), (b"", None)]
)
def test_a_pause_is_a_number(value: bytes, ms: int | None) -> None:
    reader = EventReader()
    reader.feed(b"retry: " + value + b"\n")
    assert reader.retry_ms == ms


def test_a_stream_that_ends_in_an_event_has_it_where_its_reader_wants_it() -> None:
    reader = EventReader()
    assert reader.feed(b'id: 1\n\nid: 2\ndata: {"a":') == []
    assert reader.finish() == [ServerSentEvent('{"a":', "message", "1")]
    assert reader.last_id == "1"


@pytest.mark.parametrize("cut", [b"retry: 1", b"event: pi", b"id: 1"])
def test_a_field_that_may_be_cut_off_does_not_count(cut: bytes) -> None:
    reader = EventReader()
    reader.feed(b"data: 1\n" + cut)
    assert reader.finish() == [ServerSentEvent("1", "message", "")]
    assert reader.retry_ms is None


def test_nothing_is_left_of_a_stream_that_ended_between_events() -> None:
    reader = EventReader()
    reader.feed(b"id: 2\ndata: 1\n\nid: 3")
    assert reader.finish() == []
    assert reader.last_id == "2"


@pytest.mark.parametrize(
    "piece", [b"data: " + b"x" * 60 + b"\n", b"x" * 50, b"data:\n", b": " + b"x" * 200, b"id: " + b"x" * 200 + b"\n"]
)
def test_an_event_is_bounded(piece: bytes) -> None:
    reader = EventReader(most=100)
    with pytest.raises(EventTooLarge, match="more than 100 bytes"):
        [reader.feed(piece) for _ in range(20)]


def test_a_stream_is_not_bounded() -> None:
    reader = EventReader(most=100)
    for _ in range(100):
        assert reader.feed(b": still here\n") == []
        assert len(reader.feed(b"id: 1\nevent: a\ndata: 12345678901234567890\n\n")) == 1
