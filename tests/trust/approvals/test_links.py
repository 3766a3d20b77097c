"""Signed addresses and codes of calls that wait for a person."""

from msgspec.structs import replace

from toolyard.model.record import CallKey, CallName
from toolyard.trust.approvals.links import PATH, ApprovalLinks, number_in
from toolyard.trust.sealing.ring import KeyRing

CALL = CallName(7, CallKey("default", "ann", "oxp", "c-1"), b"input")
OTHERS = (
    replace(CALL, seq=8),
    replace(CALL, key=CallKey("default", "bob", "oxp", "c-1")),
    replace(CALL, fingerprint=b"another input"),
)


def links(*keys: bytes) -> ApprovalLinks:
    return ApprovalLinks(KeyRing(lambda: keys or (b"k" * 32,)), lambda: "https://tools.example")


def test_an_address_and_a_code_are_for_one_call_and_its_input() -> None:
    made = links()
    id, code = made.id_of(CALL), made.code_of(CALL)
    assert number_in(id) == 7
    assert made.is_id(id, CALL)
    assert made.is_code(code, CALL)
    assert [made.is_id(id, other) or made.is_code(code, other) for other in OTHERS] == [False] * 3


def test_a_code_counts_however_it_is_typed_and_is_no_part_of_the_address() -> None:
    made = links()
    code = made.code_of(CALL)
    assert made.is_code(f" {code.lower().replace('-', ' ')} ", CALL)
    assert not made.is_code("", CALL)
    assert not made.is_code(made.id_of(CALL).partition("-")[2], CALL)


def test_what_an_older_key_signed_still_counts() -> None:
    old, both, new = links(b"o" * 32), links(b"n" * 32, b"o" * 32), links(b"n" * 32)
    id, code = old.id_of(CALL), old.code_of(CALL)
    assert (both.is_id(id, CALL), both.is_code(code, CALL)) == (True, True)
    assert (new.is_id(id, CALL), new.is_code(code, CALL)) == (False, False)


def test_who_is_told_of_a_call_is_told_its_address_and_never_its_code() -> None:
    made = links()
    told, question = made.missing("Mail_Send", CALL, "https://here.example"), made.question("Mail_Send", CALL)
    (challenge,) = told.missing.authorization
    assert challenge.url == f"https://here.example{PATH}/{made.id_of(CALL)}"
    assert question.url == f"https://tools.example{PATH}/{made.id_of(CALL)}"
    said = " ".join([told.message, told.developer_message or "", str(told.missing), str(question)])
    assert made.code_of(CALL) not in said
