"""What a call was given is found in whatever form it is written down, and nothing else is touched."""

import base64
import html
import json
import logging
import re
import threading
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from toolyard import Toolkit
from toolyard.model.caller import LOCAL
from toolyard.model.channel import Question, QuietChannel, scrub_question
from toolyard.model.errors import ToolError, scrub_error
from toolyard.model.run import Run
from toolyard.text import escapes
from toolyard.text.escapes import Reading
from toolyard.text.log_scrubbing import active, begin, end, log_warnings, scrub_logs
from toolyard.text.scrubber import Scrubber, scrubber_of

PLAIN = "sk-live_4eC39HqLyjWDarjtT1zdp7dc"
ODD = 'pä"ss/w\\örd +&\n?=%☃😀'
HIDDEN = "[secret KEY]"


def _pairs(given: bytes) -> list[bytes]:
    return [given[at : at + 2] for at in range(0, len(given), 2)]


WAYS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 for addresses": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 without padding": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "an address's path": quote,
    "an address's part": lambda value: quote(value, safe=""),
    "an address's query": quote_plus,
    "an address in small letters": lambda value: re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")),
    "encodeURIComponent": lambda value: quote(value, safe="!*'()"),
    "an address that escapes everything": lambda value: "".join(f"%{byte:02x}" for byte in value.encode()),
    "HTML": html.escape,
    "HTML in HTML": lambda value: html.escape(html.escape(value)),
    "HTML in ASCII": lambda value: html.escape(value).encode("ascii", "xmlcharrefreplace").decode(),
    "HTML in JSON": lambda value: json.dumps(html.escape(value))[1:-1],
    "JSON that escapes everything": lambda value: "".join(
        f"\\u{int.from_bytes(pair, 'little'):04x}" for pair in _pairs(value.encode("utf-16-le"))
    ),
    "JSON": lambda value: json.dumps(value)[1:-1],
    "JSON as it is": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda value: json.dumps(json.dumps(value)[1:-1])[1:-1],
    "JSON with escaped slashes": lambda value: json.dumps(value)[1:-1].replace("/", "\\/"),
    "JSON in Python": lambda value: repr(json.dumps(value, ensure_ascii=False))[2:-2],
    "Python in JSON in JSON": lambda value: json.dumps(json.dumps(repr(value)[1:-1])[1:-1])[1:-1],
    "Python": lambda value: repr(value)[1:-1],
    "Python's bytes": lambda value: str(value.encode())[2:-1],
    "Python's bytes in JSON": lambda value: json.dumps(repr(value.encode())[2:-1])[1:-1],
    "hexadecimal": lambda value: value.encode().hex(),
    "hexadecimal in capitals": lambda value: value.encode().hex().upper(),
    "an address in both kinds of letters": lambda value: quote(value, safe="").replace("%C", "%c"),
    "an address that escapes all it can": lambda value: "".join(
        each if each.isalnum() and each.isascii() else quote(each, safe="").replace("-", "%2D").replace("_", "%5f")
        for each in value
    ),
    "an address in an address": lambda value: quote(quote(value, safe=""), safe=""),
    "an address in an address's query": lambda value: quote_plus(quote_plus(value)),
    "an address in JSON": lambda value: json.dumps(quote_plus(value))[1:-1],
    "an older address": lambda value: quote(value, safe="", encoding="latin-1", errors="replace"),
    "JSON in an address": lambda value: quote(json.dumps(value)[1:-1], safe=""),
    "base64 in an address": lambda value: quote(base64.b64encode(value.encode()).decode().rstrip("="), safe=""),
    "base64 in JSON with escaped slashes": lambda value: base64.b64encode(value.encode()).decode().replace("/", "\\/"),
}
NOT_OF_ALL = {"an older address": ODD}
"""Ways that lose something of a value."""
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("\\\"'/%+ \nunx0a&="), min_size=4, max_size=30)


@pytest.mark.parametrize("value", [PLAIN, ODD])
@pytest.mark.parametrize("way", WAYS)
def test_a_value_is_found_however_it_is_written(way: str, value: str) -> None:
    if NOT_OF_ALL.get(way) == value:
        value = "pä/ss wörd"
    scrubber = Scrubber([("KEY", value)])
    assert scrubber.text(f"<{WAYS[way](value)}>") == f"<{HIDDEN}>"


@pytest.mark.parametrize("before", [b"", b"a", b"ab", b"user:", b"abcd"])
@pytest.mark.parametrize("after", [b"", b"z", b"yz", b"xyz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_value_inside_of_base64_is_found(before: bytes, after: bytes, encode: Callable[[bytes], bytes]) -> None:
    """All of it but what shares a character with what is beside it."""
    for value in (PLAIN, ODD):
        encoded = encode(before + value.encode() + after).decode()
        scrubbed = Scrubber([("KEY", value)]).text(encoded)
        assert HIDDEN in scrubbed
        left = scrubbed.replace(HIDDEN, "").rstrip("=")
        assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 2


@pytest.mark.parametrize("way", sorted(set(WAYS) - set(NOT_OF_ALL)))
@settings(max_examples=25, deadline=None)
@given(TEXTS)
@example(":::\\:")
def test_any_value_is_found_in_every_way(way: str, value: str) -> None:
    """All of it, but for backslashes at its ends, which may be those of what is around it."""
    assume(len(Reading(value).text.strip()) >= 4)
    written = WAYS[way](value)
    scrubbed = Scrubber([("KEY", value)]).text(f"<{written}>")
    assert scrubbed.strip("<>") != written
    assert HIDDEN in scrubbed
    rest = scrubbed[1:-1].replace(HIDDEN, "", 1)
    assert set(rest) <= set("\\") | set(WAYS[way]("\\")) | set(value[: len(value) - len(value.lstrip())]), rest


@settings(deadline=None)
@given(
    st.binary(max_size=9), TEXTS, st.binary(max_size=9), st.sampled_from([base64.b64encode, base64.urlsafe_b64encode])
)
def test_any_value_is_found_inside_of_base64(
    before: bytes, value: str, after: bytes, encode: Callable[[bytes], bytes]
) -> None:
    """All but what shares a character with what is beside it."""
    assume(len(value.replace("\\", "")) >= 4)
    encoded = encode(before + value.encode() + after).decode()
    for written in (encoded, encoded.rstrip("="), f"Basic {encoded}", quote(encoded)):
        scrubbed = Scrubber([("KEY", value)]).text(written)
        assert HIDDEN in scrubbed, written
        left = unquote(scrubbed.replace(HIDDEN, "").removeprefix("Basic ")).rstrip("=")
        assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 4


@pytest.mark.parametrize("depth", [1, 2, 3])
@settings(max_examples=60, deadline=None)
@given(TEXTS, st.text(max_size=12), st.text(max_size=12), st.booleans())
@example('"abc"', 'say "', '"', True)
@example("nabcd", "\n", "\\", True)
@example("test1234", "\t", "C:\\test1234\\", False)
@example("0000", "\x00", "\u1200", True)
@example("abc\\", '"', '"', False)
@example("\\abc", "\\", "\\", True)
def test_what_surrounds_a_value_is_as_good_json_as_before(
    depth: int, value: str, before: str, after: str, ascii: bool
) -> None:
    assume(not set(value) & set(",:[]{}"))  # it might be found in what makes the JSON
    text: Any = {"a": before + value + after, "v": value, "b": [before, after, "é😀"]}
    for _ in range(depth):
        text = json.dumps(text, ensure_ascii=ascii)
    read: Any = Scrubber([("KEY", value)]).text(text)
    for _ in range(depth):
        read = json.loads(read)
    if set(read) == {"a", "v", "b"} and not set("\\[]") & set(before + value + after):
        assert HIDDEN in read["v"]
        assert value not in read["a"].replace(HIDDEN, "\x00")


def test_json_in_json_in_json_is_left_whole() -> None:
    value = 'pa"ss\\wö/rd\n'
    text = json.dumps(json.dumps(json.dumps({"before": '"', "v": value, "after": "\\"})))
    scrubbed = Scrubber([("KEY", value)]).text(text)
    assert json.loads(json.loads(json.loads(scrubbed))) == {"before": '"', "v": HIDDEN, "after": "\\"}


@pytest.mark.parametrize("before", range(40, 80))
def test_a_value_in_base64_of_several_lines_is_found(before: int) -> None:
    given = b"x" * before + PLAIN.encode() + b"y" * 60
    lines = base64.encodebytes(given).decode()
    for text in (
        lines,
        lines.replace("\n", "\r\n"),
        lines.replace("\n", "\n  "),
        json.dumps(lines)[1:-1],
        repr(lines)[1:-1],
    ):
        scrubbed = Scrubber([("KEY", PLAIN)]).text(text)
        assert scrubbed.count(HIDDEN) == 1
        start, _, rest = scrubbed.partition(HIDDEN)
        assert text.startswith(start)
        assert text.endswith(rest)
        assert len(text) - len(start) - len(rest) >= len(PLAIN) * 4 // 3 - 3


def test_short_values_are_not_looked_for() -> None:
    scrubber = Scrubber([("KEY", "abc"), ("OTHER", "abcd")])
    assert scrubber.text("abc abcd") == "abc [secret OTHER]"


def test_what_surrounds_a_value_may_have_been_cut_off() -> None:
    assert Scrubber([("KEY", "  hunter2\n")]).text("'hunter2'") == "'[secret KEY]'"


def test_the_longest_wins_and_nothing_is_looked_for_in_what_was_put_in() -> None:
    scrubber = Scrubber([("A", "token"), ("B", "token-of-ada"), ("token", "secret")])
    assert scrubber.text("token token-of-ada secret") == "[secret A] [secret B] [secret token]"


def test_a_result_is_scrubbed_all_the_way_down() -> None:
    scrubber = Scrubber([("KEY", PLAIN), ("PIN", "123456")])
    value = {PLAIN: [f"a{PLAIN}b", {"x": (123456, 1234567, 12.5, True, None, b"123456")}]}
    assert scrubber.value(value) == {
        HIDDEN: [f"a{HIDDEN}b", {"x": ["[secret PIN]", 1234567, 12.5, True, None, "[secret PIN]"]}]
    }


@pytest.mark.parametrize("pin", ["48151623420099", "0048151623420099", " 48151623420099\n", "48151623420099.0"])
def test_a_number_is_a_secret_however_a_program_reads_it(pin: str) -> None:
    scrubber = Scrubber([("PIN", pin)])
    for number in (48151623420099, 48151623420099.0, -48151623420099.0):
        assert scrubber.value([number]) == ["[secret PIN]"], number
    assert scrubber.value([48151623420098, 4.5]) == [48151623420098, 4.5]


def test_a_float_that_lost_the_last_digits_of_a_secret_is_taken_out_too() -> None:
    long = "1234567890123456789012"
    assert Scrubber([("PIN", long)]).value(float(long)) == "[secret PIN]"


@pytest.mark.parametrize("secret", ["0042", "infinity", "nan", "12.5", "9" * 5000])
def test_numbers_that_are_everywhere_are_let_be(secret: str) -> None:
    scrubber = Scrubber([("PIN", secret)])
    numbers = [42, 42.0, 12.5 if secret != "12.5" else 1.5, float("inf")]
    assert scrubber.value(numbers) == numbers


def test_progress_has_no_number_that_is_a_secret() -> None:
    told: list[tuple[float, float | None, str | None]] = []

    class Ears(QuietChannel):
        def progress(self, done: float, total: float | None, message: str | None) -> None:
            told.append((done, total, message))

    kit = Toolkit("Kit")
    kit.tool(name="Any")(lambda: None)
    run = Run(next(iter(kit.tools)), "id", LOCAL, {}, Ears(), scrubber=Scrubber([("PIN", "123456")]))
    run.progress(123456, 123457, "now")
    run.progress(123456.0, None, None)
    run.progress(1, 123456.0, "123456")
    assert told == [(1, None, "[secret PIN]")]
    assert run.last_progress == told[0]


def test_an_error_is_scrubbed_in_all_its_members() -> None:
    error = ToolError(PLAIN, developer_message=f"d {PLAIN}", additional_prompt_content=f"a {PLAIN}", can_retry=False)
    scrubbed = scrub_error(Scrubber([("KEY", PLAIN)]), error)
    assert PLAIN not in f"{scrubbed!r} {scrubbed} {scrubbed.members()}"
    assert scrubbed.members()["can_retry"] is False


@pytest.mark.parametrize(("after_ms", "told"), [(123456, None), (1234567, None), (5000, 5000), (None, None)])
def test_a_number_that_is_a_secret_is_not_told_as_the_time_to_come_back(after_ms: int | None, told: int | None) -> None:
    scrubbed = scrub_error(Scrubber([("PIN", "123456")]), ToolError("no", can_retry=True, retry_after_ms=after_ms))
    assert (scrubbed.retry_after_ms, scrubbed.members().get("retry_after_ms")) == (told, told)


def test_a_question_is_scrubbed() -> None:
    question = Question(PLAIN, "form", PLAIN, {"title": PLAIN}, PLAIN, {"messages": [PLAIN]})
    assert PLAIN not in str(scrub_question(Scrubber([("KEY", PLAIN)]), question))


def test_where_nothing_was_given_there_is_none() -> None:
    assert scrubber_of({}, {}) is None
    both = scrubber_of({"KEY": PLAIN}, {"google": "token-9"})
    assert both is not None
    assert both.text(f"{PLAIN} token-9") == f"{HIDDEN} [secret google]"


def test_what_is_logged_while_a_call_runs_is_scrubbed_for_every_handler(caplog: pytest.LogCaptureFixture) -> None:
    scrub_logs()
    scrub_logs()
    log = logging.getLogger("somebody.elses")
    mark = active.set(Scrubber([("KEY", PLAIN)]))
    try:
        log.warning("%s", PLAIN)
        log.warning("%d", PLAIN)
        try:
            raise RuntimeError(PLAIN) from ValueError(PLAIN)
        except RuntimeError:
            log.exception("it failed", stack_info=True)
    finally:
        active.reset(mark)
    log.warning("%s", PLAIN)
    assert caplog.text.count(PLAIN) == 1, "after the call"
    assert caplog.text.count(HIDDEN) == 4
    assert "ValueError: [secret KEY]" in caplog.text
    assert [record.args for record in caplog.records[:3]] == [None, None, None]


def test_names_in_a_record_are_scrubbed_as_its_message_is(caplog: pytest.LogCaptureFixture) -> None:
    """A formatter puts them into its line, and a library may name its logger or its thread after what it connects
    with."""
    scrub_logs()
    scrubber = Scrubber([("KEY", PLAIN)])
    begin(scrubber)
    try:
        logging.getLogger(f"client.{PLAIN}").warning("connected")
        thread = threading.Thread(target=logging.getLogger("lib").warning, args=("hello",), name=f"to {PLAIN}")
        thread.start()
        thread.join()
    finally:
        end(scrubber)
    line = logging.Formatter("%(name)s %(threadName)s %(funcName)s %(message)s").format
    lines = [line(record) for record in caplog.records]
    assert lines[0].startswith(f"client.{HIDDEN} ")
    assert f"to {HIDDEN}" in lines[1]
    assert not [record for record in caplog.records if PLAIN in str(vars(record))]


def test_what_other_threads_log_while_calls_run_is_without_anything_that_those_were_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scrub_logs()
    log, one, other = logging.getLogger("lib"), Scrubber([("KEY", PLAIN)]), Scrubber([("OTHER", "other-4711")])
    with ThreadPoolExecutor(1) as pool:
        Context().run(begin, one)
        Context().run(begin, other)
        pool.submit(log.error, "using %s and other-4711", PLAIN).result()
        end(one)
        end(one)
        pool.submit(log.error, "using %s and other-4711", PLAIN).result()
        end(other)
        pool.submit(log.error, "using other-4711").result()
    assert [record.message for record in caplog.records] == [
        "using [secret KEY] and [secret OTHER]",
        f"using {PLAIN} and [secret OTHER]",
        "using other-4711",
    ]


def test_what_outlives_its_call_is_without_what_later_ones_were_given(caplog: pytest.LogCaptureFixture) -> None:
    """A task that keeps a connection alive, say, which the first call made."""
    scrub_logs()
    first, later = Scrubber([("KEY", PLAIN)]), Scrubber([("OTHER", "other-4711")])
    left = Context()
    left.run(begin, first)
    end(first)
    Context().run(begin, later)
    left.run(logging.getLogger("lib").error, "%s other-4711", PLAIN)
    end(later)
    assert caplog.messages == ["[secret KEY] [secret OTHER]"]


def test_warnings_are_records_without_what_a_call_was_given(caplog: pytest.LogCaptureFixture) -> None:
    scrub_logs()
    scrubber = Scrubber([("KEY", PLAIN)])
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        log_warnings()
        Context().run(begin, scrubber)
        warnings.warn(f"{PLAIN} is old", stacklevel=1)
        end(scrubber)
    assert [record.name for record in caplog.records] == ["py.warnings"]
    assert "UserWarning: [secret KEY] is old" in caplog.text
    assert PLAIN not in caplog.text


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            ["%", "25", "C3", "a4", "\\", "u00e4", "ud83d", "\\ude00", "x41", "n", "&", "amp;", "#65;", "é", "f"]
        )
    )
)
def test_a_text_is_read_the_same_with_and_without_its_places(parts: list[str]) -> None:
    reading = Reading("".join(parts))
    steps = reading._steps
    assert (steps[-1].text if steps else "".join(parts)) == reading.text


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("%" * 1000, "before " + "%25" * 25_000),
        ("\u00e9\u00e8" * 40, "before " + "\\u00e9\\u00e8" * 12_500),
        ("&&&&", "before " + "&amp;" * 25_000),
    ],
)
def test_a_text_of_nothing_but_escapes_takes_little_room_and_is_scrubbed(
    secret: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is too much to be taken apart goes as a whole, once a secret is in it. The bound and the room
    are a sixteenth of the real ones: Python counts memory slowly."""
    monkeypatch.setattr(escapes, "MOST_PIECES", escapes.MOST_PIECES // 16)
    tracemalloc.start()
    try:
        scrubbed = Scrubber([("KEY", secret)]).text(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert scrubbed.startswith("before [secret KEY]")
    assert not scrubbed.strip("&").endswith(("%25", "\\u00e8", "amp;"))
    assert peak < 100 * 2**20 / 16
